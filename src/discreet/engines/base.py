"""What an engine is: it describes one table, and returns group keys and exact integers of it.

`Engine` is what a session needs. `SqlEngine` is what the engines for SQL share; each of them adds how its columns are read,
where the copy of a public table is, and how a statement runs. What depends on the source alone is computed when the source
is opened: the columns as they are read, and how a unit is identified.

**The owner's log.** An engine's message may quote a value of the data. So every failure becomes one constant error, and the
message goes to `owner_log`, which only the data owner may read. Records go nowhere unless the owner adds a handler, or names
a file in DISCREET_OWNER_LOG. Each record has a `source`: the identity of the source that it is about.
"""

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from threading import Lock, get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, cast

from sqlglot import exp

from discreet.errors import BadParameter, EngineFailed, SourceRefused
from discreet.paths import describe_exposure
from discreet.query.schema import Column, PublicTable, Table
from discreet.sql.dialects import SOURCE, Dialect, column, encode_tuple, shorten_name
from discreet.text import to_printable, to_printable_lines

if TYPE_CHECKING:  # a source is opened without what its queries need
    from discreet.query import ast
    from discreet.query.answer import ExactTotals
    from discreet.query.cells import BoundedCells, CellBlock
    from discreet.query.contribution import BoundedQuery
    from discreet.query.statistics import CellCounts

ColumnReader: TypeAlias = Callable[[exp.Expr], exp.Expr] | None
"""How a column of an unusual type is read; None where it is read as it is. A reader succeeds on every value."""


BLOCK = 100_000
"""How many cells a block holds at most."""

MAX_COMPILED = 64
"""How many statements an engine remembers."""


class OutOfResources(EngineFailed):
    """The engine lacked memory, time or its connection. Any other failure comes from what the rows hold."""


class NotStarted(OutOfResources):
    """The query was cancelled before any row was read."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the rows of a source are known by; `digest` is None if nothing shows whether they have changed."""

    digest: str | None


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a prepared table was prepared for: statements of another unit or salt have no use of it."""

    unit: str  # in words
    salt: str = field(repr=False)  # a secret of the owner

    def fits(self, table: Table) -> bool:
        """Whether a table has this unit and this salt."""
        return (table.unit, table.salt) == (self.unit, self.salt)


class Engine(Protocol):
    """One table, wherever it is."""

    dialect: Dialect
    inferred: bool  # whether the kinds of the columns were inferred from the values of a file

    @property
    def table(self) -> str:
        """The name that queries call it by."""
        ...

    @property
    def identity(self) -> str:
        """Where the table is, for an account that remembers its answers; nothing that says what is in it."""
        ...

    @property
    def lasting(self) -> bool:
        """Whether `identity` means the same table in another process."""
        ...

    @property
    def origins(self) -> tuple[str, ...]:
        """What a quarantine of this source is of, however the source was named: its files, or its identity."""
        ...

    @property
    def names(self) -> Collection[str]:
        """The names of all columns of the source, also of those that are hidden or not declared."""
        ...

    @property
    def anchor(self) -> object:
        """The object that a source which does not last ends with: a connection, a frame."""
        ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while a statement runs and its rows are read."""
        ...

    def describe_columns(self) -> dict[str, Column]:
        """Return the names and kinds of the columns. No value is read."""
        ...

    def find_unit_problem(self, unit: str) -> str | None:
        """Say why two units of this column could be read as one; None if they cannot."""
        ...

    def has_new_files(self) -> bool:
        """Whether the files of the source are others by now than those whose rows are read: rows were copied when it was
        opened, or files came since."""
        ...

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Return what these columns are known by; None if reading them cannot fail, because the engine stores them in its
        own types.

        Raises:
            SourceRefused: metadata shows that they cannot all be read.
        """
        ...

    def probe(self, columns: Collection[str]) -> None:
        """Read every cell of these columns once.

        Raises:
            SourceRefused: a cell cannot be read.
        """
        ...

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """Return the same table beside copies of these public ones, and what was read off them."""
        ...

    def compile_all(self, bounded: "BoundedQuery") -> tuple[str, ...]:
        """Return every statement that will run."""
        ...

    def run(self, bounded: "BoundedQuery") -> "ExactTotals":
        """Return all that an answer to `bounded` needs, read when it is needed, one part after the other."""
        ...

    def read_totals(self, bounded: "BoundedQuery") -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Yield (totals, keys) per group. A group without rows in the engine does not appear."""
        ...

    def read_histogram(self, bounded: "BoundedQuery", counts: "CellCounts") -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Yield (count, cell, keys) for the cells that have rows."""
        ...

    def read_contributions(self, bounded: "BoundedQuery") -> list[tuple[Any, int, tuple[Any, ...]]]:
        """Return (unit, rows, keys) of every unit and group: for the owner's state of a stream, and never shown.

        Raises:
            EngineFailed: the engine could not answer; its message is in the owner's log.
        """
        ...

    def read_cells(
        self, bounded: "BoundedCells", *, ordered_columns: int = 0, hash_units: bool = False
    ) -> "Iterator[CellBlock]":
        """Yield the cells that have rows, each once, in blocks that are read one after the other.

        Cells are in the order of the codes of the first `ordered_columns` columns, so that the cells of one key of these
        columns follow each other. With `hash_units`, blocks say by a hash which units are in each cell.
        """
        ...

    def read_records(self, table: Table, columns: Sequence[str]) -> "Iterator[tuple[Any, tuple[Any, ...]]]":
        """Yield (unit, cells) of every row that belongs to a unit: for a fit that is paid, and never shown. The unit is None
        where each row is one.

        Raises:
            EngineFailed: the engine could not answer; its message is in the owner's log.
        """
        ...

    def progress(self) -> float | None:
        """Return how much of the running statement is done, from 0 to 1; None where the engine does not know."""
        ...

    def cancel(self) -> None:
        """End the statement that another thread runs: it fails there with `OutOfResources`. Nothing happens if none runs."""
        ...

    def build_owner_source(self, table: Table) -> exp.Expr:
        """The declared columns, for selects that the data owner runs."""
        ...

    def build_owner_unit(self, table: Table) -> exp.Expr | None:
        """The identity of a unit, in `build_owner_source`; None where each row is a unit."""
        ...

    def run_for_owner(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """Return exact rows, without noise: only the data owner may see them."""
        ...


class Cancellation:
    """Ends what another thread asks of an engine.

    A connection runs one statement at a time, and threads wait for it. So what is ended must be the statement of this query
    and of no other: the executor says when it runs, through `watch`. `may_start` is asked when it is this query's turn.
    """

    def __init__(self, may_start: Callable[[], bool] = lambda: True) -> None:
        self._lock, self._engine, self._is_cancelled = Lock(), cast("Engine | None", None), False
        self._may_start = may_start
        self.is_too_late = False
        """Whether nothing was started because `may_start` said so."""

    @contextmanager
    def allow(self) -> Iterator[None]:
        """Let what this thread asks of an engine in this block be ended."""
        before = _cancellation.set(self)
        try:
            yield
        finally:
            _cancellation.reset(before)

    def cancel(self) -> bool:
        """End the statement that runs, and start none from now on. Returns whether one runs."""
        with self._lock:
            self._is_cancelled = True
            if self._engine is not None:
                self._engine.cancel()
            return self._engine is not None

    @contextmanager
    def watch(self, engine: Engine) -> Iterator[None]:
        """Say that the engine works for this query in this block.

        Raises:
            NotStarted: if it was cancelled before, or may not start any more.
        """
        with self._lock:
            self.is_too_late = self.is_too_late or not self._may_start()
            if self._is_cancelled or self.is_too_late:
                raise NotStarted
            self._engine = engine
        try:
            yield
        finally:
            with self._lock:
                self._engine = None


_cancellation: ContextVar[Cancellation | None] = ContextVar("_cancellation", default=None)


def watch_cancellation(engine: Engine) -> AbstractContextManager[None]:
    """Let the statements of this block be ended, if the caller allowed it."""
    found = _cancellation.get()
    return nullcontext() if found is None else found.watch(engine)


class SqlEngine(ABC):
    """An engine that runs what `discreet.sql` writes."""

    dialect: Dialect
    inferred = False
    preparation: Preparation | None = None

    def __init__(
        self,
        table: str,
        identity: str,
        relation: exp.Expr,
        readers: Mapping[str, ColumnReader],
        *,
        identities: Mapping[str, exp.Expr] = MappingProxyType({}),
        lasting: bool = True,
        computed: bool = False,
        names: Collection[str] = (),
    ) -> None:
        self.table, self.identity, self.lasting = table, identity, lasting
        self.relation = relation  # the table in a statement
        self.columns = {name: _read_column(name, read) for name, read in readers.items()}  # each as it is read
        self.identities = {  # what identifies a unit, where its column as it is read does not
            unit: exp.alias_(each, shorten_name(identity_column(unit, readers)), quoted=True)
            for unit, each in identities.items()
        }
        self.computed = computed  # whether expressions of the owner's are evaluated whenever the table is read
        self.names = frozenset({*readers, *names})  # of all columns, also of those that are hidden or not declared
        self.origins: tuple[str, ...] = (identity,)
        self.public: Mapping[str, str] = {}  # the names of the copies of public tables
        self._compiled: dict[tuple[Dialect, bytes], str] = {}  # statements by what they are compiled from

    @abstractmethod
    def _public_relation(self, name: str) -> exp.Expr:
        """The copy of a public table in a statement."""

    @abstractmethod
    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run a statement. Whatever the engine raises becomes `EngineFailed`; its message goes to the owner's log."""

    @property
    def anchor(self) -> object:
        """The object that a source which does not last ends with."""
        return self

    def has_new_files(self) -> bool:
        """Rows are read where they are, whenever they are asked for."""
        return False

    def find_unit_problem(self, unit: str) -> str | None:
        """Say why two units of this column could be read as one; None if they cannot."""
        return None

    def probe(self, columns: Collection[str]) -> None:
        """Read every cell of these columns once."""
        own = {name: read for name, read in self.columns.items() if name in columns}
        cells: list[exp.Expr] = [column(shorten_name(name), SOURCE) for name in own]
        rows = exp.alias_(self._select_rows(own), SOURCE, table=True, quoted=True)
        try:
            for _ in self._execute(exp.select(self.dialect.digest(cells)).from_(rows).sql(dialect=self.dialect.name)):
                pass
        except EngineFailed:
            raise SourceRefused("this source did not pass validation: some of its cells cannot be read", VALIDATE) from None

    # -- statements ------------------------------------------------------------------------------------------------------

    def compile_all(self, bounded: "BoundedQuery") -> tuple[str, ...]:
        """Return every statement that will run: that of the totals, if there are any, then one per histogram."""
        histograms = tuple(self._compile(bounded, counts) for counts in bounded.cell_counts)
        return (self._compile(bounded), *histograms) if bounded.totals else histograms

    def compile_totals(self, bounded: "BoundedQuery") -> str:
        """Return the statement of the totals."""
        return self._compile(bounded)

    def _compile(self, bounded: "BoundedQuery", counts: "CellCounts | None" = None) -> str:
        """The statement of the totals, or of these counts: compiled once, since it depends on nothing that rows hold."""
        texts = repr((repr(bounded), bounded.table.salt, repr(counts)))  # as texts: 1 equals True
        of = self.dialect, sha256(texts.encode("utf-8", "surrogatepass")).digest()  # a list of keys may be long
        if (known := self._compiled.get(of)) is not None:
            return known
        statement = self._compile_anew(bounded, counts)
        kept = [*self._compiled.items()][1 - MAX_COMPILED :] if len(self._compiled) >= MAX_COMPILED else self._compiled
        self._compiled = {**dict(kept), of: statement}  # other threads read the old one meanwhile
        return statement

    def _compile_anew(self, bounded: "BoundedQuery", counts: "CellCounts | None") -> str:
        from discreet.sql.totals import lower_cell_counts, lower_totals

        source, unit = self._build_source(bounded.table, bounded.query.joins)
        lowered = (
            lower_totals(bounded, source, unit, self.dialect)
            if counts is None
            else lower_cell_counts(bounded, counts, source, unit, self.dialect)
        )
        return lowered.sql(dialect=self.dialect.name, copy=False)

    def compile_cells(self, bounded: "BoundedCells", *, ordered_columns: int = 0, hash_units: bool = False) -> str:
        """Return the statement of the cells."""
        from discreet.sql.cells import lower_cells

        source, unit = self._build_source(bounded.table, bounded.query.joins)
        lowered = lower_cells(bounded, source, unit, self.dialect, ordered_columns, hash_units=hash_units)
        return lowered.sql(dialect=self.dialect.name, copy=False)

    def _build_source(
        self, table: Table, joins: "tuple[ast.Join, ...]" = (), internal: Collection[str] = ()
    ) -> tuple[exp.Expr, str | None]:
        """The declared columns beside those of the joined public tables, and the column that identifies a unit; None where
        each row is one. `internal` are further columns, which no query can name."""
        own = {name: self.columns[name] for name in self._list_own(table, joins)}
        unit, identity = self._identify_unit(table)
        if unit is not None and identity is not None:
            own[unit] = identity
        own |= {name: column(name) for name in internal}
        rows = self._select_rows(own)
        return (self._join_public_tables(rows, list(own), table, joins) if joins else rows), unit

    def _list_own(self, table: Table, joins: "tuple[ast.Join, ...]") -> list[str]:
        """The names of declared columns that are not those of joined tables."""
        joined = {f"{join.table}.{name}" for join in joins for name in table.public[join.table].columns}
        return [name for name in self.columns if name in table.columns and name not in joined]

    def _identify_unit(self, table: Table) -> tuple[str | None, exp.Expr | None]:
        """The column that identifies a unit, None where each row is one; and how it is computed, None where it is read."""
        units = table.unit_columns
        if len(units) > 1:  # a text that differs where what identifies any of them does
            text = encode_tuple([self.identities.get(name, self.columns[name]).unalias() for name in units], self.dialect)
            identity = exp.alias_(text, shorten_name(identity_column(", ".join(units), self.columns)), quoted=True)
            return identity.alias, identity
        if not units:
            return None, None
        found = self.identities.get(units[0])
        return (units[0], None) if found is None else (found.alias, found)

    def _select_rows(self, columns: Mapping[str, exp.Expr]) -> exp.Expr:
        """The table with these columns. Behind a fence if they are computed: an engine would evaluate a condition of the
        analyst's before the owner's own, on rows that the owner's leaves out, and could fail there."""
        if not self.computed and all(isinstance(read, exp.Column) for read in columns.values()):
            return self.relation.copy()
        rows = exp.select(*(read.copy() for read in columns.values()), copy=False).from_(self.relation.copy(), copy=False)
        return (self.dialect.fence(rows) if self.computed else rows).subquery(copy=False)

    def _join_public_tables(self, rows: exp.Expr, own: list[str], table: Table, joins: "tuple[ast.Join, ...]") -> exp.Expr:
        """One plain equality per join; each copy holds a value at most once in that column, so no row becomes two."""
        columns = {name: column(shorten_name(name), "own") for name in own}
        select = exp.select().from_(exp.alias_(rows, "own", table=True, quoted=True))
        for i, join in enumerate(joins):
            same = exp.EQ(this=columns[join.here].copy(), expression=column(join.there, f"lookup{i}"))
            other = exp.alias_(self._public_relation(join.table), f"lookup{i}", table=True, quoted=True)
            select = select.join(other, on=same, join_type="left" if join.left else "inner")
            columns |= {f"{join.table}.{name}": column(name, f"lookup{i}") for name in table.public[join.table].columns}
        return select.select(
            *(exp.alias_(each, shorten_name(name), quoted=True) for name, each in columns.items())
        ).subquery()

    # -- exact totals ----------------------------------------------------------------------------------------------------

    def run(self, bounded: "BoundedQuery") -> "ExactTotals":
        """Return all that an answer to `bounded` needs, read when it is needed."""
        from discreet.query.answer import ExactTotals

        statements = self.compile_all(bounded)
        totals = self._execute_groups(statements[0], bounded) if bounded.totals else ()
        histograms = statements[1:] if bounded.totals else statements
        counts = {
            each: self._iter_histogram(bounded, each, statement)
            for each, statement in zip(bounded.cell_counts, histograms, strict=True)
        }
        return ExactTotals(totals, counts, statements)

    def read_totals(self, bounded: "BoundedQuery") -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Yield (totals, keys) per group. A group without rows in the engine does not appear."""
        return self._execute_groups(self._compile(bounded), bounded) if bounded.totals else iter(())

    def read_histogram(self, bounded: "BoundedQuery", counts: "CellCounts") -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Yield (count, cell, keys) for the cells that have rows."""
        return self._iter_histogram(bounded, counts, self._compile(bounded, counts))

    def read_contributions(self, bounded: "BoundedQuery") -> list[tuple[Any, int, tuple[Any, ...]]]:
        """Return (unit, rows, keys) of every unit and group."""
        from discreet.sql.totals import lower_contributions

        source, unit = self._build_source(bounded.table, bounded.query.joins)
        assert unit is not None, "a stream has a column that identifies a unit"
        lowered = lower_contributions(bounded, source, unit, self.dialect)
        rows = self._execute(lowered.sql(dialect=self.dialect.name, copy=False))
        return [(unit, int(count), tuple(keys)) for unit, count, *keys in rows]

    def compile_records(self, table: Table, columns: Sequence[str]) -> str:
        """Return the statement of the rows of a fit: the unit, or 1 where each row is one, and these columns."""
        source, unit = self._build_source(table)
        first: exp.Expr = exp.Literal.number(1) if unit is None else column(shorten_name(unit), SOURCE)
        listed = [first, *(column(shorten_name(name), SOURCE) for name in columns)]
        rows = exp.select(*(exp.alias_(each, f"cell{i}", quoted=True) for i, each in enumerate(listed)))
        rows = rows.from_(exp.alias_(source, SOURCE, table=True, quoted=True))
        if unit is not None:
            rows = rows.where(exp.Not(this=exp.Is(this=first.copy(), expression=exp.Null())))
        return rows.sql(dialect=self.dialect.name)

    def read_records(self, table: Table, columns: Sequence[str]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Yield (unit, cells) of every row that belongs to a unit."""
        identified = bool(table.unit_columns)
        for unit, *cells in self._execute(self.compile_records(table, columns)):
            yield (unit if identified else None), tuple(cells)

    def _iter_histogram(
        self, bounded: "BoundedQuery", counts: "CellCounts", statement: str
    ) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        for (count,), (cell, *keys) in self._execute_groups(statement, bounded, counts):
            yield count, cell, tuple(keys)

    def _execute_groups(
        self, statement: str, bounded: "BoundedQuery", counts: "CellCounts | None" = None
    ) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Yield totals over units, and what they are totals of: keys, or a cell and keys. An engine may compile `bounded`
        anew for a part of the table instead of running the statement."""
        return decode_rows(self._execute(statement), self.dialect, bounded, counts)

    def read_cells(
        self, bounded: "BoundedCells", *, ordered_columns: int = 0, hash_units: bool = False
    ) -> "Iterator[CellBlock]":
        """Yield the cells that have rows, each once, in blocks that are read one after the other."""
        statement = self.compile_cells(bounded, ordered_columns=ordered_columns, hash_units=hash_units)
        blocks = self._execute_blocks(statement, len(bounded.query.groups) + hash_units)
        return map(_split_units, blocks) if hash_units else blocks

    def _execute_blocks(self, statement: str, columns: int) -> "Iterator[CellBlock]":
        """Run a statement that returns a total and so many codes, all of them integers."""
        rows = self._execute(statement)
        while batch := list(islice(rows, BLOCK)):
            yield to_block(batch, columns)

    # -- for the data owner ----------------------------------------------------------------------------------------------

    def build_owner_source(self, table: Table) -> exp.Expr:
        """The declared columns, for selects that the data owner runs."""
        return exp.alias_(self._build_source(table)[0], SOURCE, table=True, quoted=True)

    def build_owner_unit(self, table: Table) -> exp.Expr | None:
        """The identity of a unit, in `build_owner_source`; None where each row is a unit."""
        unit = self._build_source(table)[1]
        return None if unit is None else column(shorten_name(unit), SOURCE)

    def run_for_owner(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """Return exact rows, without noise: only the data owner may see them."""
        try:
            with about(self.identity):
                return list(self._execute(select.sql(dialect=self.dialect.name)))
        except EngineFailed:
            raise SourceRefused("this source cannot be read", SAYS_MORE) from None

    def _beside(self, public: Mapping[str, str]) -> Self:
        """The same engine, with these copies of public tables."""
        beside = copy(self)
        beside.public, beside._compiled = MappingProxyType(dict(public)), {}
        return beside


def decode_rows(
    rows: Iterable[tuple[Any, ...]], dialect: Dialect, bounded: "BoundedQuery", counts: "CellCounts | None" = None
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Yield the totals of each row that a statement of `bounded` returns, and what they are totals of: keys, or with
    `counts` a cell and keys."""
    from discreet.sql.totals import decode_keys

    width = len(bounded.totals) if counts is None else 1
    first = width if counts is None else width + 1
    decode = decode_keys(bounded, dialect)
    for row in rows:
        yield row[:width], row[width:] if decode is None else (*row[width:first], *decode(row[first:]))


def _split_units(block: "CellBlock") -> "CellBlock":
    """Return a block whose last code is a hash of units as one that has it apart."""
    return replace(block, codes=block.codes[:, :-1], units=block.codes[:, -1])


def to_block(rows: Sequence[tuple[int, ...]], columns: int) -> "CellBlock":
    """Return rows of a total and so many codes as a block."""
    import numpy

    from discreet.query.cells import CellBlock

    numbers = numpy.fromiter(chain.from_iterable(rows), numpy.int64, len(rows) * (columns + 1))
    numbers = numbers.reshape(len(rows), columns + 1)
    return CellBlock(numbers[:, 1:].copy(), numbers[:, 0].copy())


# -- names of tables and columns -------------------------------------------------------------------------------------------


def quote_table(*names: str) -> exp.Table:
    """A table by its name, or by its schema and name, or by catalog, schema and name."""
    parts = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))


def _read_column(name: str, read: ColumnReader) -> exp.Expr:
    """A column under its own name, if that is not too long, read as it must be."""
    plain = column(name)
    if read is None and shorten_name(name) == name:
        return plain
    return exp.alias_(plain if read is None else read(plain), shorten_name(name), quoted=True)


def identity_column(unit: str, taken: Collection[str]) -> str:
    """A name for the column that holds the units' identities, other than the names that are taken. It has no dot, as the
    names of columns of joined tables do."""
    name = f"{unit.replace('.', ' ')} (identity)"
    while name in taken:
        name += "'"
    return name


def identity_columns(units: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A name for the column of identities of each of these columns of a unit, no name twice."""
    names: dict[str, str] = {}
    for unit in units:
        names[unit] = identity_column(unit, {*taken, *names.values()})
    return names


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def split_table_name(name: str, max_parts: int) -> tuple[str, ...]:
    """The parts of a table's name, each exactly as written; a part with a dot in it is quoted.

    >>> split_table_name("hr.people", 2), split_table_name('"my.schema"."people"', 2)
    (('hr', 'people'), ('my.schema', 'people'))
    """
    parts, position = [], 0
    while match := _PART.match(name, position):
        parts.append(match[1].replace('""', '"') if match[1] else match[2])
        position = match.end()
        if position == len(name) and len(parts) <= max_parts:
            return tuple(parts)
        if name[position : position + 1] != ".":
            break
        position += 1
    raise BadParameter("table", repr(name), "not the name of a table", 'write people, hr.people or "my schema"."people"')


# -- the owner's log -------------------------------------------------------------------------------------------------------

owner_log = logging.getLogger("discreet.owner")
owner_log.addHandler(logging.NullHandler())
owner_log.propagate = False

OWNER_LOG_VARIABLE = "DISCREET_OWNER_LOG"
SAYS_MORE = f"the owner's log (the file that {OWNER_LOG_VARIABLE} names) says more"
VALIDATE = f"the owner finds out why with `discreet policy check`, or in the file that {OWNER_LOG_VARIABLE} names"
OWNER_ONLY = "For the data owner only, because it may quote values of the data:"

_source: ContextVar[str] = ContextVar("_source", default="no source")


class _SourceFilter(logging.Filter):
    """Lets every record pass, and adds its source."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.source = _source.get()
        return True


owner_log.addFilter(_SourceFilter())


@contextmanager
def about(source: str) -> Iterator[None]:
    """Name the source that the records of the body are about."""
    before = _source.set(source)
    try:
        yield
    finally:
        _source.reset(before)


class _ThreadRecords(logging.Handler):
    """Keeps the messages of this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.thread = get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += record.getMessage().splitlines() if record.thread == self.thread else []


@contextmanager
def explain_to_owner() -> Iterator[None]:
    """Add the engine's messages to a refusal of the source. Only for what the data owner runs.

    Raises:
        SourceRefused: as the body does, with the reason in lines of its own.
    """
    records = _ThreadRecords()
    owner_log.addHandler(records)
    try:
        yield
    except SourceRefused as refused:
        if not records.lines:
            raise
        hint = "correct it" if refused.hint == VALIDATE else refused.hint.removesuffix(SAYS_MORE).rstrip("; ")
        raise SourceRefused(refused.reason, hint or "correct it", OWNER_ONLY, *records.lines) from None
    finally:
        owner_log.removeHandler(records)


def open_log_file(path: str) -> logging.Handler:
    """Open the owner's log for appending; create it with mode 0600 if it is missing.

    Raises:
        BadParameter: other users can read the file, or it is a symbolic link, which may lead anywhere.
    """
    file = Path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        handle = os.open(file, flags, 0o600)
    except OSError as error:
        reason = "this is a symbolic link" if os.path.islink(file) else f"the file cannot be opened ({error.strerror})"
        raise BadParameter(OWNER_LOG_VARIABLE, repr(path), reason, "name a regular file that you may write") from None
    if problem := describe_exposure(handle, file):
        os.close(handle)
        raise BadParameter(OWNER_LOG_VARIABLE, repr(path), *problem)
    handler = logging.StreamHandler(os.fdopen(handle, "a", encoding="utf-8"))
    handler.setFormatter(PrintableFormatter())
    return handler


class PrintableFormatter(logging.Formatter):
    """Formats the time, the source and the message, with further lines indented.

    The owner reads the log in a terminal, and a value in it may hold an escape sequence, or a line end that would forge an
    entry: both are made visible.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="seconds")
        first, *others = to_printable_lines(super().format(record)).split("\n")
        source = to_printable(getattr(record, "source", _source.get()))
        return "\n".join([f"{moment} {source}: {first}", *(f"  {line}" for line in others)])
