"""Released answers as ordinary tables, for Metabase, Superset, Excel, datasette and the like.

BI tools probe: they sample distinct values, read the first rows, and ask again whenever a filter moves. Over the data itself
each probe would be a purchase or a refusal. What was released may be read, filtered and joined at will, so
it is mirrored into a DuckDB file, a schema of PostgreSQL or a folder of Parquet files: one table per answer with the columns
`n, n_lower, n_upper, n_reliable`, and a table `catalogue` that says what each is. Nothing but released answers is written.

Names of tables and columns are made of letters, digits and `_`, whatever the query called them: no tool runs one as a
formula or as SQL. Keys stay as they are, as in CSV.
"""

import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from discreet._numbers import ceil_float
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter
from discreet.formats import missing_library_error, to_arrow
from discreet.paths import is_postgres, to_libpq
from discreet.query.answer import Answer
from discreet.serve.config import ReleasedConfig
from discreet.serve.control.model import Ask, Publication
from discreet.text import to_printable

CATALOGUE = "catalogue"
CATALOGUE_COLUMNS = (
    "answer", "title", "source", "query", "cost_epsilon", "cost_delta", "confidence", "entry", "certificate", "explanation",
)  # fmt: skip
MAX_NAME = 50
_KINDS = {"int64": "BIGINT", "double": "DOUBLE PRECISION", "bool": "BOOLEAN", "date32[day]": "DATE"}
"""The types of PostgreSQL; timestamps are TIMESTAMP, and everything else is TEXT."""


def to_identifier(text: str) -> str:
    """Return a name that no tool takes for anything but a name.

    >>> to_identifier("=HYPERLINK(1)"), to_identifier("n"), to_identifier("2026 köln"), to_identifier("")
    ('hyperlink_1', 'n', 't_2026_koln', 't')
    """
    import unicodedata

    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:MAX_NAME].strip("_")
    return name if name[:1].isalpha() else f"t_{name}".rstrip("_")


def name_columns(header: Sequence[str]) -> tuple[str, ...]:
    """Return a safe and different name for each column.

    >>> name_columns(["dept", "=1+1", "+1+1", "n", "n_lower"])
    ('dept', 't_1_1', 't_1_1_2', 'n', 'n_lower')
    """
    names: list[str] = []
    for text in header:
        base = name = to_identifier(text)
        count = 2
        while name in names:
            name, count = f"{base}_{count}", count + 1
        names.append(name)
    return tuple(names)


class Place(Protocol):
    """Where released tables are written."""

    def write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        """Write an Arrow table under a name, in place of one that has it, and its line of the catalogue."""


class ReleasedTables:
    """Mirrors answers."""

    def __init__(self, config: ReleasedConfig) -> None:
        self._place = open_place(config)

    def add_publication(
        self, publication: Publication, answers: Mapping[str, Answer], cost: Cost, entry: int, queries: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Mirror every table of a publication. Its cost is that of all of them together; `queries` has the SQL of each.
        Returns the names of the tables."""
        names = []
        for query, answer in answers.items():
            name = f"{to_identifier(publication.title or publication.table)}_{to_identifier(query)}"[:MAX_NAME]
            name = f"{name}_{publication.id[:6]}"
            title, sql = f"{publication.title}: {query}", queries[query]
            self._add(name, title, publication.table, sql, answer, cost, entry, publication.id)
            names.append(name)
        return tuple(names)

    def add_ask(self, ask: Ask, answer: Answer, title: str = "") -> str:
        """Mirror the answer of an ask. Returns the name of the table."""
        if answer.cost is None or answer.reference is None:
            raise BadParameter("answer", "not recorded", "only recorded answers are released", "ask with a ledger")
        name = f"{to_identifier(title or ask.table)}_{ask.id[:6]}"
        self._add(name, title or ask.table, ask.table, ask.query, answer, answer.cost, answer.reference.entry, ask.id)
        return name

    def _add(
        self, name: str, title: str, source: str, query: str, answer: Answer, cost: Cost, entry: int, certificate: str
    ) -> None:
        line = {
            "answer": name, "title": to_printable(title), "source": source, "query": to_printable(query),
            "cost_epsilon": ceil_float(cost.exact_epsilon[1]), "cost_delta": ceil_float(cost.delta),
            "confidence": float(answer.confidence), "entry": entry, "certificate": certificate,
            "explanation": to_printable(answer.explanation),
        }  # fmt: skip
        self._place.write(name, to_arrow(name_columns(answer.header), answer.records), line)


def open_place(config: ReleasedConfig) -> Place:
    """Return the place of a configuration, by its location: a postgresql:// address, a .duckdb file, or a folder."""
    if is_postgres(config.location):
        return PostgresPlace(to_libpq(config.location), config.schema)
    if config.location.endswith((".duckdb", ".db")):
        return DuckDBPlace(Path(config.location))
    return ParquetPlace(Path(config.location))


_WRITING = threading.Lock()


@contextmanager
def _only_writer(path: Path) -> Iterator[None]:
    """Wait for other threads and processes that write the same place: each copies what is there and adds a table."""
    with _WRITING:
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


class DuckDBPlace:
    """A DuckDB file. Each change makes a new file in its place, so that readers never block it, nor see half a table."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        """As in `Place`."""
        with _only_writer(self.path):
            self._write(name, table, entry)

    def _write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        import duckdb

        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        if self.path.exists():
            shutil.copyfile(self.path, draft)
        try:
            with duckdb.connect(draft) as connection:
                connection.register("incoming", table)
                connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM incoming')
                connection.execute(_create_catalogue(CATALOGUE, "DOUBLE"))
                connection.execute(f"DELETE FROM {CATALOGUE} WHERE answer = ?", [name])
                marks = ", ".join("?" * len(CATALOGUE_COLUMNS))
                values = [entry[each] for each in CATALOGUE_COLUMNS]
                connection.execute(f"INSERT INTO {CATALOGUE} VALUES ({marks})", values)
            os.replace(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)


class ParquetPlace:
    """A folder with one Parquet file per answer, and `catalogue.parquet`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        """As in `Place`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _only_writer(self.folder / CATALOGUE):
            self._write(name, table, entry)

    def _write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        from pyarrow import Table, concat_tables, parquet

        self._replace(name, table)
        line, path = Table.from_pylist([dict(entry)]), self.folder / f"{CATALOGUE}.parquet"
        if path.exists():
            lines = parquet.read_table(path).to_pylist()
            earlier = [each for each in lines if each["answer"] != name]
            line = concat_tables([Table.from_pylist(earlier, line.schema), line])
        self._replace(CATALOGUE, line)

    def _replace(self, name: str, table: Any) -> None:
        from pyarrow import parquet

        draft = self.folder / f".{name}.{os.getpid()}"
        parquet.write_table(table, draft)
        os.replace(draft, self.folder / f"{name}.parquet")


class PostgresPlace:
    """A schema of PostgreSQL, made if it is missing."""

    def __init__(self, address: str, schema: str) -> None:
        self.address, self.schema = address, schema

    def write(self, name: str, table: Any, entry: Mapping[str, Any]) -> None:
        """As in `Place`."""
        try:
            import psycopg
            from psycopg import sql
        except ImportError:
            raise missing_library_error("psycopg", "discreet[postgres]") from None
        place, catalogue = sql.Identifier(self.schema, name), sql.Identifier(self.schema, CATALOGUE)
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(each.name), sql.SQL(_postgres_type(str(each.type))))
            for each in table.schema
        )
        with psycopg.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(place))
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(place, columns))
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(place)) as copy:
                for row in table.to_pylist():
                    copy.write_row(list(row.values()))
            created = _create_catalogue("{}", "DOUBLE PRECISION")
            cursor.execute(sql.SQL(created).format(catalogue))
            cursor.execute(sql.SQL("DELETE FROM {} WHERE answer = %s").format(catalogue), [name])
            marks = sql.SQL(", ").join([sql.Placeholder()] * len(CATALOGUE_COLUMNS))
            values = [entry[each] for each in CATALOGUE_COLUMNS]
            cursor.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(catalogue, marks), values)


def _create_catalogue(name: str, double: str) -> str:
    kinds = {"cost_epsilon": double, "cost_delta": double, "confidence": double, "entry": "BIGINT"}
    columns = ", ".join(f"{each} {kinds.get(each, 'TEXT')}" for each in CATALOGUE_COLUMNS)
    return f"CREATE TABLE IF NOT EXISTS {name} ({columns})"


def _postgres_type(arrow: str) -> str:
    return "TIMESTAMP" if arrow.startswith("timestamp") else _KINDS.get(arrow, "TEXT")
