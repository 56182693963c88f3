"""From reports to counts: exact integers, computed where the reports are.

**Theory of operation.** Reports are rows of integer columns, named as `oracle.fields` are. `count_reports` checks every row
and counts the valid ones by cell: a cell is a report where there are few different ones (`Direct`, `Hashed`, `Hadamard`,
`Projective`), and a value where a report lists values (`Unary`, `Subset`). Arrays are counted here; files, frames, tables
of PostgreSQL and of Spark in their engine, by the statements of `sql/reports.py`, and nothing but counts leaves it.

A row that is no valid report is counted as rejected, by the first reason that applies, and changes nothing else. A table may
have three more columns: `collection` and `version`, which must then be the ones that are asked for, and `nonce`: of the
reports with one nonce one counts.

**No row decides how another is read**, whatever stands in the first of them: `text_files` reads CSV and JSON line by line.

**Counts add up.** They are integers per cell, so those of days and shards are added with +: the result is that of all
reports together, but for a duplicate whose copies lie in two parts. Counts hold no nonces, so + cannot find it: let the
nonce decide which shard gets a message (a hash of it, modulo the number of shards), and count a day when its retries are in.

`sum_supports` turns cells into support counts, by a transform that is linear and exact; `sum_values` is its transpose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.errors import BadParameter, SourceRefused
from discreet.local.bulk import hash_many
from discreet.local.fields import (
    Ints,
    count_by_hash,
    sum_over_hashes,
    sum_over_hyperplanes,
    walsh_hadamard,
)
from discreet.local.numeric import BucketFlip
from discreet.local.oracles import (
    WORD_BITS,
    Direct,
    Field,
    FixedHashed,
    Hadamard,
    Hashed,
    Projective,
    SetOracle,
    Subset,
    Unary,
)
from discreet.local.text_files import CSV_SUFFIXES, JSON_SUFFIXES, has_suffix, read_csv_rows, read_json_rows
from discreet.query.schema import Kind, Table
from discreet.sql.reports import (
    MAX_SUMS,
    REJECTIONS,
    ReportColumns,
    count_cells,
    count_clean,
    count_column,
    count_rejected,
    count_rows,
    select_columns,
    sum_bits,
)

MAX_CELLS = 1 << 26
"""Counts of at most so many cells are held in memory: half a gigabyte."""


class HasFields(Protocol):
    """A mechanism whose reports are rows of integers."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The integers of a report."""
        ...


ROWS_AT_ONCE = 1 << 20
"""Rows of an array that are checked and counted at a time."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The valid reports by cell, and the rejected ones by kind.

    >>> from fractions import Fraction
    >>> one = count_reports(Direct(3, Fraction(3)), {"y": [0, 0, 2, 7]})
    >>> one.n, one.cells.tolist(), one.rejected["range"], (one + one).supports.tolist()
    (3, [2, 0, 1], 1, [4, 0, 2])
    """

    oracle: SetOracle
    cells: Ints
    n: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    collection: str | None = None

    def __post_init__(self) -> None:
        unknown = set(self.rejected) - set(REJECTIONS)
        if np.shape(self.cells) != (count_kinds(self.oracle),) or unknown:
            raise BadParameter("cells", f"{np.shape(self.cells)}", "not the cells of this oracle", "use count_reports")
        check_int(self.n, "n")
        for times in self.rejected.values():
            check_int(int(times), "rejected")
        self._check_cells()
        object.__setattr__(self, "rejected", {kind: int(self.rejected.get(kind, 0)) for kind in REJECTIONS})

    def _check_cells(self) -> None:
        """Refuse cells that n reports cannot have."""
        if np.asarray(self.cells).dtype.kind not in "iu":
            raise BadParameter("cells", f"of type {np.asarray(self.cells).dtype}", "not integers", "use count_reports")
        least, most, total = int(self.cells.min()), int(self.cells.max()), int(self.cells.sum())
        listed = self.oracle.size if isinstance(self.oracle, Subset) else 1
        if least < 0 or most > self.n or (not isinstance(self.oracle, Unary) and total != listed * self.n):
            reason = f"no {self.n:,} reports of {type(self.oracle).__name__} have these cells"
            raise BadParameter("cells", f"from {least:,} to {most:,}, {total:,} in all", reason, "use count_reports")

    @classmethod
    def nothing(cls, oracle: SetOracle, collection: str | None = None) -> "Counts":
        """The counts of no report: what sums over days begin with."""
        return cls(oracle, np.zeros(count_kinds(oracle), np.int64), 0, {}, collection)

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of other reports. A report whose copies lie in both is counted twice: see the head of this file."""
        known = {name for name in (self.collection, other.collection) if name is not None}
        if self.oracle != other.oracle or len(known) > 1:
            raise BadParameter("counts", "of two collections", "their reports have different noise", "add up one at a time")
        rejected = {kind: self.rejected[kind] + other.rejected[kind] for kind in REJECTIONS}
        return Counts(self.oracle, self.cells + other.cells, self.n + other.n, rejected, *known)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Counts)
            and (self.oracle, self.n, self.rejected, self.collection)
            == (other.oracle, other.n, other.rejected, other.collection)
            and bool((self.cells == other.cells).all())
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def supports(self) -> Ints:
        """How many reports support each value."""
        return sum_supports(self.oracle, self.cells)

    @property
    def received(self) -> int:
        """How many reports there were, with the rejected ones."""
        return self.n + sum(self.rejected.values())


# -- cells and supports --------------------------------------------------------------------------------------------------


def count_kinds(oracle: SetOracle) -> int:
    """Return how many cells the counts of an oracle have.

    Raises:
        BadParameter: they are more than fit in memory.
    """
    size = oracle.values if lists_values(oracle) else prod(each.below for each in oracle.fields)
    if size > MAX_CELLS:
        reason = f"its reports have {size:,} cells, more than can be counted at once"
        raise BadParameter("oracle", type(oracle).__name__, reason, "use Projective, or fewer values; or find_heavy_hitters")
    return size


def lists_values(oracle: SetOracle) -> bool:
    """Whether a report lists values, so that the cells are the values."""
    return isinstance(oracle, Unary | Subset)


def count_ascending(mechanism: HasFields) -> int:
    """Return how many of the first columns of a report must ascend: those that list values or buckets."""
    match mechanism:
        case Subset():
            return len(mechanism.fields)
        case BucketFlip():
            return mechanism.observed
        case _:
            return 0


def sum_supports(oracle: SetOracle, cells: Ints) -> Ints:
    """Return, for each value, the sum of `cells` over the cells whose set contains it.

    >>> from fractions import Fraction
    >>> sum_supports(Hadamard(2, Fraction(3)), np.array([1, 0, 0, 2, 0, 0, 5, 0])).tolist()
    [3, 1]
    """
    match oracle:
        case Direct() | Unary() | Subset():
            return cells
        case FixedHashed():
            table, out = cells.reshape(oracle.functions, oracle.buckets), np.zeros(oracle.values, np.int64)
            for first, hashes in _hash_in_parts(oracle):
                out += np.take_along_axis(table[first : first + len(hashes)], hashes, axis=1).sum(axis=0)
            return out
        case Hashed():
            table = cells.reshape(oracle.buckets**oracle.digits, oracle.buckets)
            return sum_over_hashes(table, oracle.buckets, oracle.digits)[: oracle.values]
        case Hadamard():
            plus, minus = cells.reshape(-1, 2).T
            return (walsh_hadamard(plus - minus)[1 : oracle.values + 1] + int(cells.sum())) // 2
        case Projective():
            return sum_over_hyperplanes(cells, oracle.order, oracle.dimensions)[: oracle.values]
        case _:
            raise _no_oracle(oracle)


def sum_values(oracle: SetOracle, weights: Ints) -> Ints:
    """Return, for each cell, the sum of `weights` over the values that are in its set: the transpose of `sum_supports`.

    >>> from fractions import Fraction
    >>> sum_values(Direct(3, Fraction(3)), np.array([5, 7, 9])).tolist()
    [5, 7, 9]
    """
    match oracle:
        case Direct() | Unary() | Subset():
            return weights
        case FixedHashed():
            out = np.zeros((oracle.functions, oracle.buckets), np.int64)
            for first, hashes in _hash_in_parts(oracle):
                for bucket in range(oracle.buckets):
                    out[first : first + len(hashes), bucket] = (hashes == bucket) @ weights
            return out.reshape(-1)
        case Hashed():
            whole = np.zeros(oracle.buckets**oracle.digits, np.int64)
            whole[: oracle.values] = weights
            return count_by_hash(whole, oracle.buckets, oracle.digits).reshape(-1)
        case Hadamard():
            whole = np.zeros(oracle.rows, np.int64)
            whole[1 : oracle.values + 1] = weights
            signed, total = walsh_hadamard(whole), int(weights.sum())
            return np.stack(((total + signed) // 2, (total - signed) // 2), axis=1).reshape(-1)
        case Projective():
            whole = np.zeros(oracle.points, np.int64)
            whole[: oracle.values] = weights
            return sum_over_hyperplanes(whole, oracle.order, oracle.dimensions)
        case _:
            raise _no_oracle(oracle)


def list_hashes(oracle: FixedHashed) -> Ints:
    """Return the hash of every value by every public function: one row per function."""
    return np.concatenate([hashes for _, hashes in _hash_in_parts(oracle)])


def _hash_in_parts(oracle: FixedHashed) -> Any:
    """The hashes of all values by the public functions, some functions at a time."""
    values = np.arange(oracle.values, dtype=np.int64)
    size = max(1, (1 << 20) // oracle.values)
    for first in range(0, oracle.functions, size):
        functions = np.arange(first, min(first + size, oracle.functions), dtype=np.int64)
        hashes = hash_many(oracle, np.repeat(functions, len(values)), np.tile(values, len(functions)))
        yield first, hashes.reshape(len(functions), len(values))


def _no_oracle(oracle: SetOracle) -> BadParameter:
    return BadParameter("oracle", type(oracle).__name__, "not a set oracle", "use one of discreet.local.oracles")


# -- counting ------------------------------------------------------------------------------------------------------------


def count_reports(
    oracle: SetOracle,
    source: Any,
    *,
    table: str | None = None,
    collection: str | None = None,
    version: int | None = None,
) -> Counts:
    """Count the reports of a source, and those that are rejected.

    A source is a mapping of names to NumPy arrays, or whatever `connect` opens: files, pandas and Polars frames, Arrow
    tables, DuckDB, PostgreSQL ("postgresql://…" with `table`), Spark. If it has a column `collection` or `version`, say
    which is wanted; a column `nonce` tells copies of a report from other reports.

    Raises:
        BadParameter: a column is missing or holds no integers, or `collection` is needed.
        SourceRefused: the source cannot be read.
    """
    wanted = {"collection": collection, "version": version}
    opened = open_reports(oracle, source, table, wanted)
    if isinstance(opened, Mapping):
        return _ArrayCounter(oracle, opened, _check_columns(oracle, opened, wanted)).count(collection)
    counter = _open_counter(oracle, opened, wanted)
    with counter.engine.lock:
        cells, n, rejected = counter.count()
    return Counts(oracle, cells, n, rejected, collection)


def count_sparsely(
    oracle: HasFields, source: Any, *, table: str | None = None, collection: str | None = None, version: int | None = None
) -> tuple[Ints, Ints, dict[str, int]]:
    """Count as `count_reports` does, of any mechanism, also with more cells than memory holds: return the cells that have
    reports, how many each has, and the rejected reports. A cell is the number whose digits are the columns of a report."""
    wanted = {"collection": collection, "version": version}
    opened = open_reports(oracle, source, table, wanted)
    if isinstance(opened, Mapping):
        return _ArrayCounter(oracle, opened, _check_columns(oracle, opened, wanted)).count_sparsely()
    counter = _open_counter(oracle, opened, wanted)
    with counter.engine.lock:
        return counter.count_sparsely()


@dataclass(frozen=True, eq=False)
class CohortCounts:
    """Reports by cohort, ones by cohort and bit, and the rejected reports: what the decoders of sketches need."""

    sizes: Ints
    ones: Ints
    rejected: Mapping[str, int]

    def __add__(self, other: "CohortCounts") -> "CohortCounts":
        rejected = {kind: self.rejected[kind] + other.rejected[kind] for kind in REJECTIONS}
        return CohortCounts(self.sizes + other.sizes, self.ones + other.ones, rejected)


def count_cohorts(
    mechanism: HasFields,
    source: Any,
    *,
    table: str | None = None,
    collection: str | None = None,
    version: int | None = None,
) -> CohortCounts:
    """Count the reports of a mechanism that sends a cohort (or the number of a hash function) and words of bits, as RAPPOR
    and the count-mean sketch do. Sources and rejected reports are those of `count_reports`.

    >>> from types import SimpleNamespace
    >>> sketch = SimpleNamespace(fields=(Field("c", 2), Field("w0", 8)))
    >>> counts = count_cohorts(sketch, {"c": [0, 1, 1, 2], "w0": [7, 1, 5, 0]})
    >>> counts.sizes.tolist(), counts.ones.tolist(), counts.rejected["range"]
    ([1, 2], [[1, 1, 1], [2, 0, 1]], 1)
    """
    wanted = {"collection": collection, "version": version}
    widths = [(each.below - 1).bit_length() for each in mechanism.fields[1:]]
    if mechanism.fields[0].below * sum(widths) > MAX_CELLS:
        raise BadParameter("mechanism", type(mechanism).__name__, "too many cohorts and bits to count at once", "take fewer")
    opened = open_reports(mechanism, source, table, wanted)
    if isinstance(opened, Mapping):
        return _ArrayCounter(mechanism, opened, _check_columns(mechanism, opened, wanted)).count_cohorts()
    counter = _open_counter(mechanism, opened, wanted)
    with counter.engine.lock:
        return counter.count_cohorts()


def read_reports(
    mechanism: HasFields,
    source: Any,
    *,
    table: str | None = None,
    collection: str | None = None,
    version: int | None = None,
) -> tuple[dict[str, Ints], dict[str, int]]:
    """Return the columns of the valid reports, and the rejected ones: for mechanisms whose reports no single GROUP BY adds
    up. Sources and rejected reports are those of `count_reports`; rows of an engine are read out of it.

    >>> from fractions import Fraction
    >>> reports, rejected = read_reports(Direct(3, Fraction(3)), {"y": [0, 7, 2]})
    >>> reports["y"].tolist(), rejected["range"]
    ([0, 2], 1)
    """
    wanted = {"collection": collection, "version": version}
    opened = open_reports(mechanism, source, table, wanted)
    rows = opened if isinstance(opened, Mapping) else _fetch_columns(mechanism, opened, wanted)
    counter = _ArrayCounter(mechanism, rows, _check_columns(mechanism, rows, wanted))
    rejected = dict.fromkeys(REJECTIONS, 0)
    columns, _ = counter._check(slice(None), rejected)
    return {each.name: column for each, column in zip(mechanism.fields, columns, strict=True)}, rejected


def _fetch_columns(mechanism: HasFields, engine: Any, wanted: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Read the columns of reports out of an engine."""
    counter = _open_counter(mechanism, engine, wanted)
    names = list(counter.table.columns)
    with counter.engine.lock:
        rows = counter.engine.run_for_owner(select_columns(names, counter.source))
    return {name: np.array([row[place] for row in rows], object) for place, name in enumerate(names)}


# -- sources -------------------------------------------------------------------------------------------------------------


def open_reports(
    mechanism: HasFields, source: Any, table: str | None = None, wanted: Mapping[str, Any] | None = None
) -> Any:
    """Open a table of reports: return a mapping of names to arrays, or an engine. What is opened already is returned.

    Columns of text files are read as what reports hold, not as what their first rows look like.
    """
    from discreet.engines.base import SqlEngine
    from discreet.engines.registry import open_engine

    if isinstance(source, Mapping | SqlEngine):
        return source
    names = [each.name for each in mechanism.fields]
    if table is None and has_suffix(source, JSON_SUFFIXES):
        return read_json_rows(names, source, wanted or {})
    if table is None and has_suffix(source, CSV_SUFFIXES):
        return read_csv_rows(names, source, wanted or {})
    if hasattr(source, "iloc") and any(name in source and source[name].dtype == object for name in names):
        return {str(name): source[name].to_numpy() for name in source}
    return open_engine(source, table, name="reports")


def _check_columns(oracle: HasFields, names: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `collection` and `version` must be; refuse a source that lacks a column, or has one that is not asked
    for."""
    for each in oracle.fields:
        if each.name not in names:
            raise BadParameter("source", f"without a column {each.name!r}", "it is a part of every report", "name it so")
    for name, value in wanted.items():
        if value is not None and name not in names:
            raise BadParameter(name, repr(value), f"the source has no column {name!r}", f"add it, or leave {name} out")
        if value is None and name in names:
            raise BadParameter(name, "missing", f"the source has a column {name!r}", f"say which {name} is wanted")
    return {name: value for name, value in wanted.items() if value is not None}


def _open_counter(oracle: HasFields, engine: Any, wanted: Mapping[str, Any]) -> "_EngineCounter":
    """Return what counts the reports of an opened source; refuse one whose columns hold no reports."""
    columns = engine.describe_columns()
    required = _check_columns(oracle, columns, wanted)
    names = [each.name for each in oracle.fields]
    kinds = {name: columns[name].kind for name in [*names, *required, *(["nonce"] if "nonce" in columns else [])]}
    for name in names:
        if kinds[name] not in (Kind.INTEGER, Kind.REAL):
            raise BadParameter("source", f"with {name!r} of kind {kinds[name].value}", "not integers", "convert the column")
    for name, right in (("collection", (Kind.TEXT,)), ("version", (Kind.INTEGER,)), ("nonce", (Kind.INTEGER, Kind.TEXT))):
        if name in kinds and kinds[name] not in right:
            raise BadParameter(
                "source", f"with {name!r} of kind {kinds[name].value}", "not what it says", "convert the column"
            )
    reports = ReportColumns(
        {each.name: each.below for each in oracle.fields},
        frozenset(name for name in names if kinds[name] is Kind.REAL),
        isinstance(oracle, Subset),
        required,
        "nonce" in kinds,
    )
    source = Table(engine.table, "row", {name: columns[name] for name in kinds})
    return _EngineCounter(oracle, engine, reports, source)


@dataclass(frozen=True)
class _EngineCounter:
    """Runs the statements of `sql/reports.py` for one oracle."""

    oracle: Any
    engine: Any
    reports: ReportColumns
    table: Table

    @property
    def source(self) -> Any:
        return self.engine.build_owner_source(self.table)

    def count(self) -> tuple[Ints, int, dict[str, int]]:
        """Return the cells, how many reports are valid, and the rejected ones."""
        if isinstance(self.oracle, Unary):
            return self._count_bits()
        if isinstance(self.oracle, Subset):
            return self._count_lists()
        if self.engine.dialect.name == "duckdb" and not self.reports.nonce and (clean := self._count_clean()) is not None:
            return clean
        cells, rejected = self._read_cells(
            count_cells(self.reports, self.source, self.engine.dialect), count_kinds(self.oracle)
        )
        return cells, int(cells.sum()), rejected

    def count_sparsely(self) -> tuple[Ints, Ints, dict[str, int]]:
        """Return the cells that have reports, how many each has, and the rejected ones."""
        found = self.engine.run_for_owner(count_cells(self.reports, self.source, self.engine.dialect))
        rejected = {REJECTIONS[-1 - int(cell)]: int(times) for cell, times in found if cell < 0}
        pairs = np.array([(cell, times) for cell, times in found if cell >= 0], np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], rejected

    def _count_clean(self) -> tuple[Ints, int, dict[str, int]] | None:
        """Count valid rows by a bare GROUP BY, which takes a fraction of the time, and bad ones apart; None if rows arrived
        between the statements."""
        run, source = self.engine.run_for_owner, self.source
        [(rows,)] = run(count_rows(source))
        found = run(count_clean(self.reports, source))
        cells = np.zeros(count_kinds(self.oracle), np.int64)
        if found:
            *digits, times = (np.array(each, np.int64) for each in zip(*found, strict=True))
            cell = np.zeros(len(found), np.int64)
            for digit, field_ in zip(digits, self.oracle.fields, strict=True):
                cell = cell * field_.below + digit
            cells[cell] = times
        n = int(cells.sum())
        if n == rows:
            return cells, n, {}
        kinds = {
            REJECTIONS[-1 - kind]: times for kind, times in run(count_rejected(self.reports, source, self.engine.dialect))
        }
        return (cells, n, kinds) if n + sum(kinds.values()) == rows else None

    def _read_cells(self, statement: Any, size: int) -> tuple[Ints, dict[str, int]]:
        cells, rejected = np.zeros(size, np.int64), {}
        for cell, times in self.engine.run_for_owner(statement):
            if cell < 0:
                rejected[REJECTIONS[-1 - int(cell)]] = int(times)
            else:
                cells[int(cell)] = times
        return cells, rejected

    def _count_lists(self) -> tuple[Ints, int, dict[str, int]]:
        """One statement per place of the list. All see the same rows, or the table changed meanwhile."""
        total, seen = np.zeros(self.oracle.values, np.int64), []
        for name in self.reports.names:
            statement = count_column(name, self.reports, self.source, self.engine.dialect)
            cells, rejected = self._read_cells(statement, self.oracle.values)
            total += cells
            seen.append((int(cells.sum()), rejected))
        return total, _require_same(seen), seen[0][1]

    def count_cohorts(self) -> CohortCounts:
        """Sum the bits of each cohort."""
        cohort, *words = self.reports.below.items()
        places = [(name, bit) for name, below in words for bit in range((below - 1).bit_length())]
        ones, seen = np.zeros((cohort[1], len(places)), np.int64), []
        sizes = np.zeros(cohort[1], np.int64)
        for first in range(0, len(places), MAX_SUMS):
            part = places[first : first + MAX_SUMS]
            statement = sum_bits(first, part, self.reports, self.source, self.engine.dialect, cohort[0])
            sizes, rejected = np.zeros(cohort[1], np.int64), dict.fromkeys(REJECTIONS, 0)
            for kind, place, times, *sums in self.engine.run_for_owner(statement):
                if kind < 0:
                    rejected[REJECTIONS[-1 - int(kind)]] += int(times)
                else:
                    sizes[int(place)] = times
                    ones[int(place), first : first + len(part)] = [int(each) for each in sums]
            seen.append((int(sizes.sum()), rejected))
        _require_same(seen)
        return CohortCounts(sizes, ones, seen[0][1])

    def _count_bits(self) -> tuple[Ints, int, dict[str, int]]:
        places = [(name, bit) for name, below in self.reports.below.items() for bit in range((below - 1).bit_length())]
        sums: list[int] = []
        seen = []
        for first in range(0, len(places), MAX_SUMS):
            part = places[first : first + MAX_SUMS]
            rows = self.engine.run_for_owner(sum_bits(first, part, self.reports, self.source, self.engine.dialect))
            by_kind = {int(kind): (int(times), found) for kind, times, *found in rows}
            n, found = by_kind.pop(0, (0, [0] * len(part)))
            sums += map(int, found)
            seen.append((n, {REJECTIONS[-1 - kind]: times for kind, (times, _) in by_kind.items()}))
        return np.array(sums, np.int64), _require_same(seen), seen[0][1]


def _require_same(seen: list[tuple[int, dict[str, int]]]) -> int:
    if any(each != seen[0] for each in seen):
        raise SourceRefused("reports arrived while they were counted", "count them again, or count a table that is complete")
    return seen[0][0]


# -- arrays --------------------------------------------------------------------------------------------------------------


class _ArrayCounter:
    """Counts reports in NumPy arrays."""

    def __init__(self, oracle: HasFields, source: Mapping[str, Any], required: Mapping[str, Any]) -> None:
        self.oracle: Any = oracle
        self.required = required
        self.arrays = {name: _to_array(source[name]) for name in [each.name for each in oracle.fields]}
        self.others = {name: np.asarray(source[name]) for name in (*required, "nonce") if name in source}
        shapes = {array.shape for array in (*self.arrays.values(), *self.others.values())}
        lengths = {shape[0] for shape in shapes if shape}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise BadParameter("source", f"with columns of {sorted(lengths)} rows", "not one table", "give equal lengths")
        [self.rows] = lengths

    def count(self, collection: str | None) -> Counts:
        cells, n, rejected = np.zeros(count_kinds(self.oracle), np.int64), 0, dict.fromkeys(REJECTIONS, 0)
        # Copies of a report may lie anywhere: with nonces the whole is checked at once.
        size = max(1, self.rows) if "nonce" in self.others else ROWS_AT_ONCE
        for start in range(0, self.rows, size):
            part = slice(start, start + size)
            columns, valid = self._check(part, rejected)
            n += valid
            self._add(columns, cells)
        return Counts(self.oracle, cells, n, rejected, collection)

    def count_sparsely(self) -> tuple[Ints, Ints, dict[str, int]]:
        """Return the cells that have reports, how many each has, and the rejected ones."""
        rejected = dict.fromkeys(REJECTIONS, 0)
        columns, _ = self._check(slice(None), rejected)
        cells, times = np.unique(self._join(columns), return_counts=True)
        return cells, times.astype(np.int64), rejected

    def count_cohorts(self) -> CohortCounts:
        """Sum the bits of each cohort."""
        rejected = dict.fromkeys(REJECTIONS, 0)
        (cohorts, *words), _ = self._check(slice(None), rejected)
        size = self.oracle.fields[0].below
        ones = [
            np.bincount(cohorts[word >> bit & 1 == 1], minlength=size)
            for word, each in zip(words, self.oracle.fields[1:], strict=True)
            for bit in range((each.below - 1).bit_length())
        ]
        return CohortCounts(np.bincount(cohorts, minlength=size), np.stack(ones, axis=1), rejected)

    def _join(self, columns: list[Ints]) -> Ints:
        """The cell of each report: the number whose digits are its columns."""
        cell = columns[0]
        for column, each in zip(columns[1:], self.oracle.fields[1:], strict=True):
            cell = cell * each.below + column
        return cell

    def _check(self, part: slice, rejected: dict[str, int]) -> tuple[list[Ints], int]:
        """Return the columns of the valid rows, and how many they are; count the others."""
        raw = [array[part] for array in self.arrays.values()]
        belows = [each.below for each in self.oracle.fields]
        rows = len(raw[0])
        ascending = count_ascending(self.oracle)
        if not self.others and not ascending and all(map(_is_clean, raw, belows)):
            return [_to_ints(array) for array in raw], rows
        kinds = np.zeros(rows, np.int8)
        for name, wanted in self.required.items():
            kinds[(kinds == 0) & ~np.asarray(self.others[name][part] == wanted, np.bool_)] = -1 - REJECTIONS.index(name)
        read = [_read_column(array, below) for array, below in zip(raw, belows, strict=True)]
        missing, wrong = (np.logical_or.reduce([each[i] for each in read]) for i in (1, 2))
        if "nonce" in self.others:
            missing |= _is_missing(self.others["nonce"][part])
        columns = [each[0] for each in read]
        for one, two in pairwise(columns[:ascending]):
            wrong |= one >= two
        kinds[(kinds == 0) & missing] = -1 - REJECTIONS.index("length")
        kinds[(kinds == 0) & wrong] = -1 - REJECTIONS.index("range")
        if "nonce" in self.others:
            valid = np.flatnonzero(kinds == 0)
            kinds[valid[_find_copies(self.others["nonce"][part][valid], [each[valid] for each in columns])]] = (
                -1 - REJECTIONS.index("duplicate")
            )
        times = np.bincount(-kinds, minlength=len(REJECTIONS) + 1)
        for kind, count in zip(REJECTIONS, times[1:], strict=True):
            rejected[kind] += int(count)
        valid_rows = kinds == 0
        return [each[valid_rows] for each in columns], int(times[0])

    def _add(self, columns: list[Ints], cells: Ints) -> None:
        oracle = self.oracle
        if isinstance(oracle, Subset):
            for column in columns:
                cells += np.bincount(column, minlength=oracle.values)
        elif isinstance(oracle, Unary):
            for place, column in enumerate(columns):
                own = cells[place * WORD_BITS : (place + 1) * WORD_BITS]
                own += _count_bits(column)[: len(own)]
        else:
            cells += np.bincount(self._join(columns), minlength=len(cells))


_HALF = 16


@cache
def _list_bits() -> NDArray[np.float64]:
    """The bits of every half word: one row per value."""
    return (np.arange(1 << _HALF)[:, None] >> np.arange(_HALF) & 1).astype(np.float64)


def _count_bits(words: Ints) -> Ints:
    """Count the ones in each of 32 bits: each half of a word is counted by its value, and the bits of all values added
    up."""
    if len(words) < 1 << _HALF:
        return np.asarray((words[:, None] >> np.arange(WORD_BITS) & 1).sum(axis=0))
    out = []
    for shift in (0, _HALF):
        half = (words >> shift) & ((1 << _HALF) - 1)
        # Sums of integers below 2^53 are exact in doubles, whose product of matrices is the fast one.
        out.append((np.bincount(half, minlength=1 << _HALF).astype(np.float64) @ _list_bits()).astype(np.int64))
    return np.concatenate(out)


def _to_array(column: Any) -> NDArray[Any]:
    return column if isinstance(column, np.ma.MaskedArray) else np.asarray(column)


def _is_clean(array: NDArray[Any], below: int) -> bool:
    """Whether an array holds integers of the range and nothing else."""
    if array.dtype.kind not in "iu" or isinstance(array, np.ma.MaskedArray):
        return False
    return not array.size or (int(array.min()) >= 0 and int(array.max()) < below)


def _to_ints(array: NDArray[Any]) -> Ints:
    return array.astype(np.int64, copy=False)


def _read_column(array: NDArray[Any], below: int) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a column as integers, 0 where it has none; where a cell is missing; and where it is no integer of the range."""
    missing = _is_missing(array)
    if isinstance(array, np.ma.MaskedArray):
        array = array.filled(0)
    if array.dtype.kind not in "iuf":
        array = np.array([_to_number(cell) for cell in array.tolist()], np.float64)
    with np.errstate(invalid="ignore"):
        right = (array >= 0) & (array < below)
        if array.dtype.kind == "f":
            right &= array == np.floor(array)
    return np.where(right, array, 0).astype(np.int64), missing, ~right


def _to_number(cell: Any) -> float:
    """A number below 2^53 as it is; anything else, which no report holds, as −1."""
    is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return float(cell) if is_number and abs(cell) < 1 << 53 else -1.0


def _is_missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.getmaskarray(array)
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array), np.bool_)
    if array.dtype.kind == "O":
        return np.array([cell is None or cell != cell for cell in array.tolist()], np.bool_)
    return np.zeros(len(array), np.bool_)


def _find_copies(nonces: NDArray[Any], columns: list[Ints]) -> Ints:
    """Return the places of all reports but the least of each nonce."""
    if nonces.dtype.kind == "O":
        # Texts of one NumPy array all take the room of the longest: a client could fill the memory with its nonce.
        numbers: dict[str, int] = {}
        found = (numbers.setdefault(str(nonce), len(numbers)) for nonce in nonces.tolist())
        nonces = np.fromiter(found, np.int64, len(nonces))
    if not nonces.size:
        return np.zeros(0, np.int64)
    order = np.lexsort((*reversed(columns), nonces))
    return np.asarray(order[1:][nonces[order][1:] == nonces[order][:-1]], np.int64)
