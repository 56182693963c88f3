"""Prepared tables: a source as a DuckDB file, with what contribution bounding would compute again for each query.

`sql/prepared.py` says what the columns beside those of the source are for, and why totals are the same. Here they are made
and found again:

    rows            the columns of the source, and beside them the codes and hashes of units, the codes and places of keys
    keys 0, …       the dictionary of each ranked column
    prepared        one row: the version, and as JSON the salt, the unit, which column is what, and what the source was

Names in the file that are not the source's are for the owner alone: no query can name them, because they are not among the
columns that the engine describes, and no message shows them.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import exp

from discreet.engines.base import Preparation, owner_log, quote_table
from discreet.engines.duckdb.types import Loaded, quote_name, quote_text
from discreet.errors import SourceRefused
from discreet.query.schema import Kind, Table
from discreet.sql.dialects import DUCKDB, column, shorten_name

if TYPE_CHECKING:
    from discreet.engines.duckdb.engine import DuckDB
    from discreet.sql.prepared import PreparedColumns

VERSION = 1
CATALOG = "prepared"
"""What the connection that writes a prepared table calls its file."""
ROWS, METADATA, KEYS = "rows", "prepared", "keys {}"
RANKED_KINDS = (Kind.TEXT, Kind.BOOLEAN, Kind.DATE)
"""The kinds of columns that are ranked, unless they are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFile(Preparation):
    """What a prepared file says of its table."""

    table: str  # its name
    unit_code: str
    unit_hash: str
    ranked: Mapping[str, tuple[str, str, str]]  # of each ranked column: its codes, its places, its dictionary
    identities: Mapping[str, str]  # for each column of a unit that does not identify it, the one that does
    names: Collection[str]  # of all columns of the source
    inferred: bool  # whether the kinds of the columns were inferred
    time: str  # when it was prepared
    files: Mapping[str, Sequence[int]]  # the files of the source then, with their sizes and times

    @property
    def hidden(self) -> list[str]:
        """The names of the columns that the source does not have."""
        ranked = [name for code, place, _ in self.ranked.values() for name in (code, place)]
        return [self.unit_code, self.unit_hash, *ranked]

    @property
    def loaded(self) -> Loaded:
        """What is known of the source."""
        return Loaded(self.identities, self.names)

    def warn_if_changed(self) -> None:
        """Write to the owner's log, and nowhere else, if the source has changed since."""
        if {path: list(each) for path, each in self.files.items()} != _stamp_files(self.files):
            files = ", ".join(self.files)
            owner_log.warning("the source changed after it was prepared at %s: %s. Prepare it again.", self.time, files)

    def to_columns(self, catalog: str, own: Collection[str]) -> "PreparedColumns":
        """The columns for statements, in the database of this name. `own` are the names by which a query names columns of
        the table: another table that it joins may have a column of the same name."""
        from discreet.sql.prepared import PreparedColumns, RankedColumn

        ranked = {
            name: RankedColumn(code, place, quote_table(catalog, "main", dictionary))
            for name, (code, place, dictionary) in self.ranked.items()
            if name in own
        }
        return PreparedColumns(self.unit_code, self.unit_hash, ranked)


def holds_preparation(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database of a connection holds a prepared table, of whatever version."""
    described = "SELECT 1 FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = 'main'"
    found = f"{described} AND table_name = {quote_text(METADATA)} AND column_name = 'discreet_version'"
    return connection.execute(found).fetchone() is not None


def read_preparation(connection: duckdb.DuckDBPyConnection) -> PreparedFile | None:
    """Return what the database of a connection says of its prepared table; None if it holds none.

    Raises:
        SourceRefused: another version prepared it, or what it says cannot be read.
    """
    if not holds_preparation(connection):
        return None
    again = "prepare it again from its source: `discreet prepare`"
    try:
        rows = connection.execute(f"SELECT discreet_version, facts FROM main.{quote_name(METADATA)}").fetchall()
        if len(rows) != 1 or rows[0][0] != VERSION:
            raise SourceRefused("another version of discreet prepared this file", again)
        return PreparedFile(**json.loads(rows[0][1]))
    except (duckdb.Error, ValueError, TypeError):
        raise SourceRefused("what this file says of its preparation cannot be read", again) from None


def attach_output(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Create a database that the connection writes a prepared table to. The file is in a folder of its own that only this
    user can enter, and gets its rights before anything is in it."""
    connection.execute(f"ATTACH {quote_text(path)} AS {CATALOG}")
    os.chmod(path, 0o600)


def rank_by_default(table: Table) -> list[str]:
    """The columns that are ranked unless they are named: those that queries can group by and that are no numbers."""
    return [name for name, each in table.columns.items() if each.kind in RANKED_KINDS and name not in table.unit_columns]


def write_prepared(
    engine: "DuckDB", table: Table, ranked: Sequence[str], progress: Callable[[float], None] | None = None
) -> None:
    """Write the rows of a source, with these columns ranked, into the database that its connection calls CATALOG.

    Raises:
        EngineFailed: the engine could not; its message is in the owner's log.
    """
    writer = _Writer(engine, table, ranked)
    statements = [*writer.list_statements(), f"CHECKPOINT {CATALOG}", f"DETACH {CATALOG}"]
    for i, statement in enumerate(statements, 1):
        engine.run_statement(statement)
        if progress is not None:
            progress(i / len(statements))


class _Writer:
    """The statements that write one source.

    units       one row per unit: its identity, its code, its hash
    keys i      the dictionary of the i-th ranked column
    places i    one row per unit and key of that column: their codes, and the place
    rows        every row of the source, beside what these tables say of it; the rows of a unit follow each other
    """

    def __init__(self, engine: "DuckDB", table: Table, ranked: Sequence[str]) -> None:
        self.engine, self.table, self.ranked = engine, table, ranked
        self.files = _stamp_files(engine.origins)
        numbers = range(len(ranked))
        wanted = [f"key {i}{what}" for i in numbers for what in (" code", " place", "")]
        names = _free_names(["unit code", "unit hash", "unit", *wanted], [*engine.types, *engine.names])
        self.unit_code, self.unit_hash, self.unit = names[:3]
        self.codes, self.places, self.keys = names[3::3], names[4::3], names[5::3]
        self.dictionaries = [f"{CATALOG}.main.{quote_name(KEYS.format(i))}" for i in numbers]
        self.source = self._select_source()

    def list_statements(self) -> list[str]:
        """One statement after the other."""
        statements = [self._create_units()]
        for i in range(len(self.ranked)):
            statements += [self._create_dictionary(i), self._create_view(i), self._create_places(i)]
        return [*statements, self._create_rows(), self._create_metadata()]

    def _select_source(self) -> str:
        """Every row of the source, the identity of its unit, and the keys of ranked columns as queries read them."""
        from discreet.sql.expressions import read_key

        engine, [first, *_] = self.engine, self.table.unit_columns
        _, identity = engine._identify_unit(self.table)
        reads = {self.unit: engine.columns[first] if identity is None else identity}
        for key, name in zip(self.keys, self.ranked, strict=True):
            reads[key] = read_key(engine.columns[name].unalias().copy(), self.table.columns[name].kind)
        added = [exp.alias_(read.unalias().copy(), name, quoted=True) for name, read in reads.items()]
        return exp.select(exp.Star(), *added).from_(engine.relation.copy()).sql(dialect="duckdb")

    def _create_units(self) -> str:
        from discreet.sql.prepared import lower_unit_hash
        from discreet.sql.totals import part_of_unit

        part = part_of_unit(self.table, self.engine._identify_unit(self.table)[0])
        hashed = lower_unit_hash(self.table, column("unit"), part, DUCKDB).sql(dialect="duckdb")
        return (
            f"CREATE TEMP TABLE units AS SELECT unit, (row_number() OVER (ORDER BY unit))::INTEGER AS code, "
            f"({hashed})::INTEGER AS hash FROM (SELECT DISTINCT {quote_name(self.unit)} AS unit FROM ({self.source})) "
            "WHERE unit IS NOT NULL"
        )

    def _create_dictionary(self, index: int) -> str:
        from discreet.sql.order import OrderHash, Part
        from discreet.sql.prepared import CODE, HASH, VALUE

        is_integer = self.table.columns[self.ranked[index]].kind is Kind.INTEGER
        order = OrderHash(self.table.salt, DUCKDB)
        hashed = order.hash_key(VALUE, Part.INTEGER if is_integer else Part.TEXT).sql(dialect="duckdb")
        return (
            f"CREATE TABLE {self.dictionaries[index]} AS "
            f"SELECT (row_number() OVER (ORDER BY {VALUE} NULLS LAST) - 1)::INTEGER AS {CODE}, {VALUE}, "
            f"({hashed})::INTEGER AS {HASH} "
            f"FROM (SELECT DISTINCT {quote_name(self.keys[index])} AS {VALUE} FROM ({self.source})) ORDER BY {CODE}"
        )

    def _create_view(self, index: int) -> str:
        """What the places of a column are computed of."""
        return (
            f"CREATE OR REPLACE TEMP VIEW keyed AS SELECT r.{quote_name(self.keys[index])} "
            f"AS {quote_name(shorten_name(self.ranked[index]))}, u.code AS {quote_name(self.unit_code)}, "
            f"u.hash AS {quote_name(self.unit_hash)} FROM {self._join_units('')}"
        )

    def _create_places(self, index: int) -> str:
        from discreet.sql.prepared import CODE, PLACE, VALUE, PreparedColumns, lower_places

        columns = PreparedColumns(self.unit_code, self.unit_hash, {})
        lowered = lower_places(self.table, self.ranked[index], exp.to_table("keyed"), columns, DUCKDB)
        places = lowered.sql(dialect="duckdb")
        return (
            f"CREATE TEMP TABLE places{index} AS SELECT p.unit AS unit, d.{CODE} AS key, p.{PLACE}::INTEGER AS place "
            f"FROM ({places}) AS p JOIN {self.dictionaries[index]} AS d ON p.key IS NOT DISTINCT FROM d.{VALUE}"
        )

    def _join_units(self, side: str) -> str:
        return f"({self.source}) AS r {side} JOIN units AS u ON r.{quote_name(self.unit)} = u.unit"

    def _create_rows(self) -> str:
        from discreet.sql.prepared import CODE, VALUE

        added = [f"u.code AS {quote_name(self.unit_code)}", f"u.hash AS {quote_name(self.unit_hash)}"]
        joined = [self._join_units("LEFT")]
        for i, (code, place, key) in enumerate(zip(self.codes, self.places, self.keys, strict=True)):
            added += [f"d{i}.{CODE} AS {quote_name(code)}", f"p{i}.place AS {quote_name(place)}"]
            joined += [
                f"LEFT JOIN {self.dictionaries[i]} AS d{i} ON r.{quote_name(key)} IS NOT DISTINCT FROM d{i}.{VALUE}",
                f"LEFT JOIN places{i} AS p{i} ON p{i}.unit = u.code AND p{i}.key = d{i}.{CODE}",
            ]
        helpers = ", ".join(map(quote_name, (self.unit, *self.keys)))
        return (
            f"CREATE TABLE {CATALOG}.main.{quote_name(ROWS)} AS SELECT r.* EXCLUDE ({helpers}), {', '.join(added)} "
            f"FROM {' '.join(joined)} ORDER BY u.code NULLS LAST"
        )

    def _create_metadata(self) -> str:
        columns = zip(self.ranked, self.codes, self.places, strict=True)
        facts: dict[str, Any] = {
            "table": self.table.name,
            "unit": self.table.unit,
            "salt": self.table.salt,
            "unit_code": self.unit_code,
            "unit_hash": self.unit_hash,
            "ranked": {name: (code, place, KEYS.format(i)) for i, (name, code, place) in enumerate(columns)},
            "identities": dict(self.engine.stored_identities),
            "names": sorted(self.engine.names),
            "inferred": self.engine.inferred,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": self.files,
        }
        text = quote_text(json.dumps(facts))
        return f"CREATE TABLE {CATALOG}.main.{METADATA} AS SELECT {VERSION} AS discreet_version, {text} AS facts"


def _stamp_files(paths: Iterable[str]) -> dict[str, list[int]]:
    """The size and the time of each of these files that exists."""
    found = {path: os.stat(path) for path in paths if os.path.exists(path)}
    return {path: [each.st_size, each.st_mtime_ns] for path, each in found.items()}


def _free_names(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """These names, changed where they are taken, in whatever case of letters."""
    used, free = {each.lower() for each in taken}, []
    for name in names:
        while name.lower() in used:
            name += "'"
        used.add(name.lower())
        free.append(name)
    return free
