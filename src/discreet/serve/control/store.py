"""`Control`: everything that the web and the workers read and write in the control database.

Every method is one transaction; calls inside `with control.transaction():`, and reads inside `with control.reading():`, are
one together. Methods may be called from any
thread. A method with `by` writes a line of the audit trail in the same transaction if it is given: who did it.

The control database holds no row, no key and no salt. A web process that is taken over can write all of it; what it can do
with that is to ask in people's names, which the root account caps and the audit trail shows.
"""

import os
import time
from collections.abc import Callable

from discreet.serve.control.database import Database
from discreet.serve.control.people import People
from discreet.serve.control.queue import Queue
from discreet.serve.control.records import Records, Requests
from discreet.serve.control.tables import Tables
from discreet.serve.control.trail import Trail


class Control(People, Tables, Requests, Queue, Records):
    """The control database: people, tables, asks, the queue, and the audit trail as `trail`."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, clock)
        self.location = database.location
        self.trail = Trail(self)

    def close(self) -> None:
        """Close its connections."""
        self._database.close()

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_control(
    location: str | os.PathLike[str], create: bool = True, *, clock: Callable[[], float] = time.time
) -> Control:
    """Open the control database in a SQLite file or at a PostgreSQL address.

    Raises:
        ControlUnavailable: if it cannot be opened, or a later discreet wrote it.
    """
    text = os.fspath(location)
    if text.startswith(("postgresql://", "postgres://")):
        from discreet.serve.control.postgres import PostgresDatabase

        return Control(PostgresDatabase(text, create=create), clock)
    from discreet.serve.control.sqlite import SqliteDatabase

    return Control(SqliteDatabase(text, create=create), clock)
