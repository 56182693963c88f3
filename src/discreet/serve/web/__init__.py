"""The web process: it signs people in, quotes, takes asks and shows answers after their moment.

It is assumed to fall: every byte of a stranger ends here. So it holds no data, no key and no ledger, and an import contract
says so (`pyproject.toml`: "the web process reaches no data, key or ledger"). All it knows is the control database.
"""
