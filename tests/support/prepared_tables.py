"""Random tables as prepared files."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from weakref import finalize

import duckdb

from discreet.engines.duckdb.connection import open_database
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.prepared import attach_output, read_preparation, write_prepared
from tests.support.random_tables import World, stored

RANKED = ("dept", "age", "ok", "wide", "day", "at", "uid", "huge")


def open_prepared(table: World, kind: type[DuckDB] = DuckDB, ranked: int = 3) -> DuckDB:
    """Prepare a table with its own salt and some ranked columns, and open the file."""
    folder = TemporaryDirectory()
    path = str(Path(folder.name) / "people.prepared.duckdb")
    with duckdb.connect() as connection:
        engine = stored(table, connection)
        attach_output(connection, path)
        names = [name for name in RANKED if name in table.table.columns]
        write_prepared(engine, table.table, Random(len(table.rows)).sample(names, min(ranked, len(names))))
    opened = open_database(path)
    prepared = read_preparation(opened)
    assert prepared is not None
    found = kind._from_prepared(opened, None, prepared)
    finalize(found, folder.cleanup)
    return found
