"""The fixtures of tests/support/ledger_locations.py."""

from tests.support.ledger_locations import database, folder, server  # noqa: F401
