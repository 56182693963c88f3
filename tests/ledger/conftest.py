"""The fixtures of tests/support."""

from tests.support.ledger_locations import database, folder, location, server, sql_location  # noqa: F401
from tests.support.schema3_ledger import schema3_ledger  # noqa: F401
