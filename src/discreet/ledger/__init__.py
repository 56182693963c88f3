"""A budget that survives.

Rules without a place (`account`, `budget`), places without a rule (`sqlite`, `postgres`), a chain of entries (`entry`), the
protocol between them (`store`, `book`), and what anyone can check afterwards (`check`, `head`, `certificate`).
"""

from os import PathLike
from typing import TYPE_CHECKING

from discreet.paths import is_postgres, to_libpq

if TYPE_CHECKING:
    from discreet.ledger.chain import Ledger


def open_ledger(place: "str | PathLike[str]", *, create: bool = False) -> "Ledger":
    """The ledger in a file or at postgresql://…; made there if it is missing and `create` says so."""
    from discreet.ledger.chain import Ledger

    if is_postgres(str(place)):
        from discreet.ledger.postgres import PostgresStore

        return Ledger(PostgresStore(to_libpq(str(place)), create=create))
    from discreet.ledger.sqlite import SqliteStore

    return Ledger(SqliteStore(place, create=create))
