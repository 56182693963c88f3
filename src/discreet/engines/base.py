"""What an engine is to the rest: it says what its table holds, what it would run, and returns group keys and integers.

`SqlEngine` is all that the engines share. One of them adds how its columns are read, where a public table's copy is, and
how a statement is run.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

from sqlglot import exp

from discreet.engines.owner import SAYS_MORE, VALIDATE, about
from discreet.errors import BadParameter, EngineFailed, SourceRefused
from discreet.query.answer import ExactTotals
from discreet.query.contribution import BoundedQuery
from discreet.query.schema import Column, PublicTable, Table
from discreet.query.statistics import CellCounts
from discreet.sql.dialects import Dialect
from discreet.sql.expressions import SOURCE, shorten_name
from discreet.sql.histogram import lower_cell_counts
from discreet.sql.totals import lower_totals

ColumnReader: TypeAlias = Callable[[exp.Expr], exp.Expr] | None
"""How a column of an unusual type is read; None where it is read as it is. A reading succeeds on every value."""


class OutOfResources(EngineFailed):
    """The engine lacked memory, time or its connection. Any other failure comes from what the rows hold."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the rows of a source are known by; None if nothing tells whether they have changed."""

    digest: str | None


class Engine(Protocol):
    """One table, wherever it is."""

    lasting: bool
    """Whether `identity` means the same table in another process."""

    @property
    def origins(self) -> tuple[str, ...]:
        """What a quarantine of this source is of, however the source was named: its files, or its identity."""
        ...

    @property
    def anchor(self) -> object:
        """What a source that does not last ends with: a connection, a frame."""
        ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while a statement runs and its rows are read."""
        ...

    @property
    def table(self) -> str:
        """The name that questions call it by."""
        ...

    @property
    def identity(self) -> str:
        """Where the table is, for an account that remembers its answers; nothing that says what is in it."""
        ...

    def describe_columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        ...

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """What these columns are known by, refused if metadata shows that they cannot all be read; None if reading them
        cannot fail: they are stored in the engine's own types."""
        ...

    def probe(self, columns: Collection[str]) -> None:
        """Read every cell of these columns once; refuse the source if one cannot be read."""
        ...

    def find_unit_problem(self, unit: str) -> str | None:
        """Why the units of this column cannot be told apart; None if they can."""
        ...

    dialect: Dialect

    def build_owner_unit(self, table: Table) -> exp.Expr:
        """The identity of a unit, in `build_owner_source`."""
        ...

    def build_owner_source(self, table: Table) -> exp.Expr:
        """The declared columns, to be selected from for the owner."""
        ...

    def run_for_owner(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """Exact rows, without noise: for the owner's eyes only."""
        ...

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """The same table beside copies of these public ones, and what was read off them."""
        ...

    def compile_all(self, bounded: BoundedQuery) -> tuple[str, ...]:
        """Everything that will run."""
        ...

    def run(self, bounded: BoundedQuery) -> ExactTotals:
        """Everything that a release of `bounded` needs, read when it is needed, one part after the other."""
        ...

    def read_totals(self, bounded: BoundedQuery) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """(totals, keys) per group. A group without rows in the engine does not appear."""
        ...

    def read_histogram(self, bounded: BoundedQuery, counts: CellCounts) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(count, cell, keys) for the cells that have rows."""
        ...

    def progress(self) -> float | None:
        """How much of the running statement is done, from 0 to 1; None where the engine does not know."""
        ...


class SqlEngine(ABC):
    """An engine that runs what `discreet.sql` writes."""

    dialect: Dialect
    identity: str
    computed = False  # whether expressions of the owner's are evaluated whenever the table is read
    lasting = True

    @abstractmethod
    def _column_readers(self) -> dict[str, ColumnReader]:
        """How each column is read."""

    @abstractmethod
    def _table_expression(self) -> exp.Expr:
        """Where the table is."""

    @abstractmethod
    def _public_table_expression(self, name: str) -> exp.Expr:
        """Where the copy of a public table is."""

    @abstractmethod
    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run it. Whatever the engine raises becomes `EngineFailed`; its own words go to the owner's log."""

    @property
    def origins(self) -> tuple[str, ...]:
        """What a quarantine of this source is of, however the source was named."""
        return (self.identity,)

    @property
    def anchor(self) -> object:
        """What a source that does not last ends with."""
        return self

    def _identity_reader(self, unit: str) -> ColumnReader:
        """How a unit's identity is read; None if the column, as it is read, is its own."""
        return None

    def find_unit_problem(self, unit: str) -> str | None:
        """Why the units of this column cannot be told apart; None if they can."""
        return None

    def build_owner_unit(self, table: Table) -> exp.Expr:
        """The identity of a unit, in `build_owner_source`."""
        return _column(shorten_name(self._unit_column(table)), SOURCE)

    def build_owner_source(self, table: Table) -> exp.Expr:
        """The declared columns, to be selected from for the owner."""
        return exp.alias_(
            self._build_rows(self._readers_with_identity(table, list(table.columns))), SOURCE, table=True, quoted=True
        )

    def run_for_owner(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """Exact rows, without noise: for the owner's eyes only."""
        try:
            with about(self.identity):
                return list(self._execute(select.sql(dialect=self.dialect.name)))
        except EngineFailed:
            raise SourceRefused("this source cannot be read", SAYS_MORE) from None

    def probe(self, columns: Collection[str]) -> None:
        """Read every cell of these columns once."""
        own = self._select_readers(columns)
        read: list[exp.Expr] = [_column(shorten_name(name), SOURCE) for name in own]
        digest = exp.select(self.dialect.digest(read)).from_(
            exp.alias_(self._build_rows(own), SOURCE, table=True, quoted=True)
        )
        try:
            for _ in self._execute(digest.sql(dialect=self.dialect.name)):
                pass
        except EngineFailed:
            raise SourceRefused("this source did not pass validation: some of its cells cannot be read", VALIDATE) from None

    def compile_totals(self, bounded: BoundedQuery) -> str:
        """What will run for the totals."""
        lowered = lower_totals(bounded, self._build_source(bounded), self._unit_column(bounded.table), self.dialect)
        return lowered.sql(dialect=self.dialect.name, copy=False)

    def compile_histogram(self, bounded: BoundedQuery, counts: CellCounts) -> str:
        """What will run for one spread of counts."""
        unit = self._unit_column(bounded.table)
        lowered = lower_cell_counts(bounded, counts, self._build_source(bounded), unit, self.dialect)
        return lowered.sql(dialect=self.dialect.name, copy=False)

    def compile_all(self, bounded: BoundedQuery) -> tuple[str, ...]:
        """Everything that will run."""
        spreads = tuple(self.compile_histogram(bounded, counts) for counts in bounded.cell_counts)
        return (self.compile_totals(bounded), *spreads) if bounded.totals else spreads

    def run(self, bounded: BoundedQuery) -> ExactTotals:
        """Everything that a release of `bounded` needs, read when it is needed."""
        statements = self.compile_all(bounded)
        spreads = statements[1:] if bounded.totals else statements
        totals = self._iter_totals(bounded, statements[0]) if bounded.totals else ()
        counts = {
            spread: self._iter_histogram(bounded, spread, text)
            for spread, text in zip(bounded.cell_counts, spreads, strict=True)
        }
        return ExactTotals(totals, counts, statements)

    def read_totals(self, bounded: BoundedQuery) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """(totals, keys) per group. A group without rows in the engine does not appear."""
        return self._iter_totals(bounded, self.compile_totals(bounded)) if bounded.totals else iter(())

    def read_histogram(self, bounded: BoundedQuery, counts: CellCounts) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(count, cell, keys) for the cells that have rows."""
        return self._iter_histogram(bounded, counts, self.compile_histogram(bounded, counts))

    def _iter_totals(self, bounded: BoundedQuery, statement: str) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        width = len(bounded.totals)
        for row in self._execute_groups(statement, width, lambda engine: engine.compile_totals(bounded)):
            yield row[:width], row[width:]

    def _iter_histogram(
        self, bounded: BoundedQuery, counts: CellCounts, statement: str
    ) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        for count, cell, *keys in self._execute_groups(
            statement, 1, lambda engine: engine.compile_histogram(bounded, counts)
        ):
            yield count, cell, tuple(keys)

    def _execute_groups(
        self, statement: str, width: int, compile_part: "Callable[[SqlEngine], str]"
    ) -> Iterator[tuple[Any, ...]]:
        """`width` totals over units and what they are of, in each row. `write` writes the same for a part of the table, for
        an engine that may need it."""
        return self._execute(statement)

    def _unit_column(self, table: Table) -> str:
        """The column that identifies a unit, in the rows that are read."""
        return table.unit if self._identity_reader(table.unit) is None else identity_column(table.unit, table.columns)

    def _build_source(self, bounded: BoundedQuery) -> exp.Expr:
        """The table, with the columns of unusual types cast, joined to the public tables that the question names."""
        table, joins = bounded.table, bounded.query.joins
        added = {f"{join.table}.{name}" for join in joins for name in table.public[join.table].columns}
        own = self._readers_with_identity(table, [name for name in table.columns if name not in added])
        source = self._build_rows(own)
        return self._join_public_tables(source, list(own), bounded) if joins else source

    def _readers_with_identity(self, table: Table, names: Collection[str]) -> dict[str, ColumnReader]:
        """How these columns are read, and the identity of a unit where that is another."""
        own = self._select_readers(names)
        if (identity := self._identity_reader(table.unit)) is not None:
            unit = exp.column(exp.to_identifier(table.unit, quoted=True))
            own[identity_column(table.unit, table.columns)] = lambda _: identity(unit)
        return own

    def _select_readers(self, names: Collection[str]) -> dict[str, ColumnReader]:
        return {name: read for name, read in self._column_readers().items() if name in names}

    def _build_rows(self, readers: Mapping[str, ColumnReader]) -> exp.Expr:
        """The table with these columns. Behind a fence if they are computed: an engine would evaluate a condition of the
        analyst's before the owner's own, on rows that the owner's leaves out, and could fail there."""
        if not self.computed and all(read is None and shorten_name(name) == name for name, read in readers.items()):
            return self._table_expression()
        rows = exp.select(*(read_column(name, read) for name, read in readers.items())).from_(self._table_expression())
        return (self.dialect.fence(rows) if self.computed else rows).subquery()

    def _join_public_tables(self, source: exp.Expr, own: list[str], bounded: BoundedQuery) -> exp.Expr:
        """One plain equality per join; each copy holds a value at most once in that column, so no row becomes two."""
        homes = {name: _column(shorten_name(name), "own") for name in own}
        select = exp.select().from_(exp.alias_(source, "own", table=True, quoted=True))
        for i, join in enumerate(bounded.query.joins):
            same = exp.EQ(this=homes[join.here].copy(), expression=_column(join.there, f"lookup{i}"))
            other = exp.alias_(self._public_table_expression(join.table), f"lookup{i}", table=True, quoted=True)
            select = select.join(other, on=same, join_type="left" if join.left else "inner")
            homes |= {
                f"{join.table}.{name}": _column(name, f"lookup{i}") for name in bounded.table.public[join.table].columns
            }
        return select.select(
            *(exp.alias_(column, shorten_name(name), quoted=True) for name, column in homes.items())
        ).subquery()


def quote_table(*names: str) -> exp.Table:
    """A table by its name, or by its schema and name, or by catalog, schema and name."""
    parts = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))


def read_column(name: str, read: ColumnReader) -> exp.Expr:
    """A column under its own name, if that is not too long, read as it must be."""
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    return (
        exp.alias_(read(column) if read else column, shorten_name(name), quoted=True)
        if read or shorten_name(name) != name
        else column
    )


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


# Names of tables as people write them: people, hr.people, "my schema"."my.people".


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def split_table_name(name: str, max_parts: int) -> tuple[str, ...]:
    """The parts of a name, each exactly as written; quotes are for names with a dot in them.

    >>> split_table_name("hr.people", 2), split_table_name('"my.schema"."people"', 2)
    (('hr', 'people'), ('my.schema', 'people'))
    """
    parts, place = [], 0
    while match := _PART.match(name, place):
        parts.append(match[1].replace('""', '"') if match[1] else match[2])
        place = match.end()
        if place == len(name) and len(parts) <= max_parts:
            return tuple(parts)
        if name[place : place + 1] != ".":
            break
        place += 1
    raise BadParameter("table", repr(name), "not the name of a table", 'write people, hr.people or "my schema"."people"')


def identity_column(unit: str, taken: Collection[str]) -> str:
    """A name for the column that holds the units' identities; the other names are taken."""
    name = f"{unit} (identity)"
    while name in taken:
        name += "'"
    return name
