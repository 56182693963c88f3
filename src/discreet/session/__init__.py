"""A session: open a source and an account, then ask; reserve, run, record."""
