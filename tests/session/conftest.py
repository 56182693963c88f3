"""The fixtures of tests/support."""

from tests.support.ledger_locations import database, folder, server  # noqa: F401
from tests.support.ledger_sessions import charged_folder  # noqa: F401
from tests.support.schema3_ledger import schema3_ledger  # noqa: F401
