"""A bounded query as one engine statement that returns group keys and exact integers, and nothing else.

**Theory of operation.** A statement has up to four steps:

    kept      the rows of real units that pass WHERE, with their keys and their values in grid steps
    pairs     one row per (unit, group): how many rows, how many values, their sums
    ranked    the groups of each unit in the order of a salted hash of both (`sql/order.py`), ties broken by the key
    result    per group: the sum over units of their contributions, each of them capped

Where a unit's groups are ranked, a listed key that is a text, a date or a time is a *code* in all these steps: an integer of
its hash and its place among the listed keys. It is hashed once, and integers are grouped faster than texts. The statement
returns the code, and `decode_keys` gives the key back.

Contribution bounding happens in the last two steps: a unit keeps its first `max_groups` groups, and adds at most `max_rows`
rows to each. `query/contribution.py` derives the sensitivity from this. Where the metadata proves that a unit has one row,
`pairs` and `ranked` are left out.

The SQL of a scalar statistic stands in one class, a `StatisticSql`: what it computes per (unit, group), what a unit then
adds to a group, and its total where every row is a unit of its own. `_lower_statistic` chooses the class.

A distinct count is no sum over units, because two units may bring the same value. It is counted apart, from the values that
units keep in each group (`_DistinctCountSql`), and put beside the totals of the same group.

**Histograms**, and the leaves of a quantile tree, are one statement each that returns (count, cell, keys):

    kept      the rows of real units that pass WHERE, with their keys and their cell
    cells     one row per (unit, group, cell): how many rows
    ranked    the place of the group among the unit's groups, in the same order as for totals; and how many of the unit's
              rows in the group stand in cells up to this one, in the order of a hash of unit, group and cell
    result    per group and cell: over units, the rows that fit below the cap

Where the metadata proves that a unit has one row, `cells` and `ranked` are left out.

`Statement` has what totals and histograms share: the rows that count, and the order in which contributions are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol, assert_never

from sqlglot import exp

from discreet.query import ast
from discreet.query.contribution import FIRST_BOUNDING, BoundedQuery, grouping_keys
from discreet.query.grid import MAX_PRODUCT
from discreet.query.schema import Key, Kind, Table
from discreet.query.statistics import (
    CellCounts,
    CentredProduct,
    CentredSum,
    DistinctCount,
    RowCount,
    ScalarStatistic,
    UnitCount,
    ValueCount,
)
from discreet.query.validate import kind_of
from discreet.sql.dialects import (
    SOURCE,
    SQL,
    Dialect,
    alias,
    bigint_literal,
    cast,
    clip,
    column,
    greatest,
    int_literal,
    key_literal,
    least,
    prefix_with_length,
    saturate,
    source_column,
)
from discreet.sql.expressions import Lowering
from discreet.sql.order import PLACE_BITS, OrderHash, Part, cube, pack_code, place_of

UNIT, RANK, ROWS, RUNNING, CELL = "unit", "rank", "rows", "running", "cell"
STEPS = ("kept", "pairs", "cells", "ranked")
MANY_KEYS = 8
"""From so many keys on, an engine looks the key of a row up in a table instead of comparing it with a few constants."""
MAX_CODED = 20_000
"""Up to so many listed keys of a column are codes."""
SEPARATORS = (",", ";", "/", *map(chr, range(0xE000, 0xF8FF)))
"""Characters without a meaning in a regular expression, of which one is in no key."""


def lower_totals(bounded: BoundedQuery, source: exp.Expr, unit: str | None, dialect: Dialect) -> exp.Select:
    """The statement for the totals of `bounded` over `source`, a table or subquery whose column `unit` identifies a unit;
    None where each row is one."""
    return total_statement(Statement(bounded, source, unit, dialect))


def total_statement(statement: "Statement") -> exp.Select:
    """The statement that totals the rows of `statement` per group."""
    bounded = statement.bounded
    values = _Values(bounded.scalars, statement.lowering)
    statistics = [_lower_statistic(i, each, statement, values) for i, each in enumerate(bounded.totals)]
    kept = statement.select_rows(values.columns)
    if not bounded.table.unique:
        return _total_pairs(statement, kept, statistics)
    totals = [alias(each.total_of_rows(), f"total{i}") for i, each in enumerate(statistics)]
    result = exp.select(*totals, *statement.keys, copy=False).from_(statement.steps["kept"], copy=False)
    result = result.group_by(*statement.keys, copy=False).with_(statement.steps["kept"], as_=kept, copy=False)
    return statement.filter_keys(result) if statement.filters_late else result


def lower_contributions(bounded: BoundedQuery, source: exp.Expr, unit: str, dialect: Dialect) -> exp.Select:
    """The statement for the rows of each (unit, group), not bounded yet: unit, rows, keys. For the owner's state of a
    stream, which bounds them over time and is never shown."""
    statement = Statement(bounded, source, unit, dialect, uses_codes=False)
    kept = statement.select_rows({})
    pairs = exp.select(column(UNIT), alias(exp.Count(this=exp.Star()), ROWS), *statement.keys, copy=False)
    pairs = pairs.from_(statement.steps["kept"], copy=False).group_by(column(UNIT), *statement.keys, copy=False)
    return pairs.with_(statement.steps["kept"], as_=kept, copy=False)


def _total_pairs(statement: "Statement", kept: exp.Select, statistics: "Sequence[StatisticSql]") -> exp.Select:
    """Totals over units, each in at most `max_groups` groups."""
    bounded, dialect = statement.bounded, statement.dialect
    at_kept, at_pairs, at_ranked = (statement.steps[name] for name in ("kept", "pairs", "ranked"))
    columns = {name: each for statistic in statistics for name, each in statistic.pair_columns().items()}
    if statement.ranks and dialect.narrows_orders and bounded.bounding != FIRST_BOUNDING:
        in_full = {name for each in statistics if isinstance(each, _SumSql) for name in (each.name, each.counted.name)}
        columns |= {name: _cap_count(each, bounded.max_rows) for name, each in columns.items() if name not in in_full}
    by_order = sorted(columns, key=lambda name: (name != ROWS, name.startswith("sum")))  # counts first, then sums
    pairs = exp.select(*statement.pair_columns, *(alias(columns[name], name) for name in by_order), copy=False)
    pairs = pairs.from_(at_kept, copy=False).group_by(*statement.pair_columns, copy=False)
    totals = {
        i: saturate(dialect.add(each.contribution(), bounded.max_contribution(statistic)), dialect)
        for i, (statistic, each) in enumerate(zip(bounded.totals, statistics, strict=True))
        if not isinstance(each, _DistinctCountSql)
    }
    result = statement.select_totals(totals).from_(at_ranked if statement.ranks else at_pairs, copy=False)
    if statement.ranks:
        result = result.where(exp.LTE(this=column(RANK), expression=int_literal(bounded.max_groups)), copy=False)
        kept = statement.repartition(kept)
    result = result.group_by(*statement.keys, copy=False)
    distinct = {i: each for i, each in enumerate(statistics) if isinstance(each, _DistinctCountSql)}
    steps = {at_kept: kept}
    if distinct:
        result, added = _add_distinct(statement, result if totals else None, distinct)
        steps |= added
    if totals:
        steps[at_pairs] = pairs
    for name, step in steps.items():
        result = result.with_(name, as_=step, copy=False)
    if not statement.ranks or not totals:
        return result
    return result.with_(at_ranked, as_=statement.rank_pairs(at_pairs, pairs), copy=False)


def _cap_count(count: SQL, max_rows: int) -> SQL:
    """A count up to the number of rows that count, in the fewest bytes: it is carried through the sort that ranks groups.
    `contribution` caps it again, which changes nothing."""
    types = ((127, exp.DType.TINYINT), (2**15 - 1, exp.DType.SMALLINT), (2**31 - 1, exp.DType.INT))
    kind = next((kind for most, kind in types if max_rows <= most), exp.DType.BIGINT)
    return cast(least(count, int_literal(max_rows)), kind)


def _add_distinct(
    statement: "Statement", sums: exp.Select | None, distinct: "Mapping[int, _DistinctCountSql]"
) -> tuple[exp.Select, dict[exp.Identifier, exp.Select]]:
    """The totals of each group from several selects, one of which has them, and the steps that these selects read.

    A union and a grouping, not a join: engines group NULL keys together, and are slow to join them.
    """
    steps: dict[exp.Identifier, exp.Select] = {}
    selects: list[exp.Select] = [] if sums is None else [sums]
    for i, each in distinct.items():
        at_values, at_ordered = (statement.name_step(f"{name}{i}") for name in ("values", "ordered"))
        values = each.select_values(statement)
        steps |= {at_values: values, at_ordered: each.order_values(statement, at_values, values)}
        selects.append(each.count_values(statement, i, at_ordered))
    width = len(statement.bounded.totals)
    totals = {i: exp.Coalesce(this=exp.Max(this=column(f"total{i}")), expressions=[int_literal(0)]) for i in range(width)}
    union = selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False, copy=False)
    result = exp.select(*(alias(each, f"total{i}") for i, each in totals.items()), *statement.keys, copy=False)
    return result.from_(union.subquery("united"), copy=False).group_by(*statement.keys, copy=False), steps


# -- the SQL of each statistic ---------------------------------------------------------------------------------------------


class StatisticSql(Protocol):
    """One scalar statistic in SQL. Adding one is such a class, and its case in `_lower_statistic`."""

    def pair_columns(self) -> dict[str, SQL]:
        """What is computed per (unit, group), by the name of its column in `pairs`."""
        ...

    def contribution(self) -> SQL:
        """What one unit adds to one group, as bounded: an integer of at most `max_contribution`, from columns of `pairs`."""
        ...

    def total_of_rows(self) -> SQL:
        """The total where every row is a unit of its own, from columns of `kept`."""
        ...


@dataclass(frozen=True, slots=True)
class _DistinctCountSql:
    """COUNT(DISTINCT value), of which at most `max_rows` values of a unit count in a group.

    values    the distinct values of each (unit, group); NULL, which is not counted, keeps the group in the ranking
    ordered   how many values of the unit in the group stand up to this one, in the order of a hash of unit, group and
              value; and the place of the group among the unit's groups, in the same order as for totals
    """

    value: str  # the column of `kept` that holds it
    key: ast.GroupValue  # what it is in the query

    def pair_columns(self) -> dict[str, SQL]:
        return {}

    def contribution(self) -> SQL:
        raise AssertionError("a distinct count is no sum over units")

    def total_of_rows(self) -> SQL:
        return exp.Count(this=exp.Distinct(expressions=[column(self.value)]))

    def select_values(self, statement: "Statement") -> exp.Select:
        """One row per unit, group and value."""
        place = [column(UNIT), *statement.keys, column(self.value)]
        values = exp.select(*place, copy=False).from_(statement.steps["kept"], copy=False)
        return values.group_by(*(each.copy() for each in place), copy=False)

    def order_values(self, statement: "Statement", values: exp.Identifier, grouped: exp.Select) -> exp.Select:
        """The place of each value, and of its group."""
        missing = exp.If(this=exp.Is(this=column(self.value), expression=exp.Null()), true=int_literal(0))
        running = statement.count_up_to(exp.Case(ifs=[missing], default=int_literal(1)), self.value)
        ranks = [alias(statement.rank_groups(exp.DenseRank()), RANK)] if statement.ranks else []
        hashed = statement.hash_rows(values, grouped, self.value, statement.part_of(self.key))
        return exp.select(exp.Star(), alias(running, RUNNING), *ranks, copy=False).from_(hashed, copy=False)

    def count_values(self, statement: "Statement", index: int, ordered: exp.Identifier) -> exp.Select:
        """The distinct values that units keep, per group; NULL for the other totals."""
        bounded = statement.bounded
        counted = statement.select_totals({index: self.total_of_rows()}).from_(ordered, copy=False)
        counted = counted.where(exp.LTE(this=column(RUNNING), expression=int_literal(bounded.max_rows)), copy=False)
        if statement.ranks:
            counted = counted.where(exp.LTE(this=column(RANK), expression=int_literal(bounded.max_groups)), copy=False)
        return counted.group_by(*statement.keys, copy=False)


def _lower_statistic(index: int, statistic: ScalarStatistic, statement: "Statement", values: "_Values") -> StatisticSql:
    match statistic:
        case RowCount():
            return _RowCountSql(statement.bounded.max_rows)
        case UnitCount():
            return _UnitCountSql()
        case ValueCount(value=value):
            return _ValueCountSql(f"{values.names[value]}_n", values.presence[value], statement.bounded.max_rows)
        case DistinctCount(value=key):
            return _DistinctCountSql(values.distinct[key], key)
        case CentredSum(value=value):
            counted = _ValueCountSql(f"{values.names[value]}_n", values.presence[value], statement.bounded.max_rows)
            return _CentredSumSql(statistic, values.names[value], f"sum{index}", counted, statement)
        case CentredProduct(left=left, right=right):
            counted = _ValueCountSql(f"{values.names[left]}_n", values.presence[left], statement.bounded.max_rows)
            name, other = values.names[left], values.names[right]
            return _CentredProductSql(statistic, name, f"sum{index}", counted, statement, other)
        case _:
            assert_never(statistic)


@dataclass(frozen=True, slots=True)
class _RowCountSql:
    """COUNT(*), of which at most `max_rows` rows of a unit count in a group."""

    max_rows: int

    def pair_columns(self) -> dict[str, SQL]:
        return {ROWS: exp.Count(this=exp.Star())}

    def contribution(self) -> SQL:
        return least(column(ROWS), int_literal(self.max_rows))

    def total_of_rows(self) -> SQL:
        return exp.Count(this=exp.Star())


@dataclass(frozen=True, slots=True)
class _UnitCountSql:
    """The distinct units: a (unit, group) is one of them."""

    def pair_columns(self) -> dict[str, SQL]:
        return {}

    def contribution(self) -> SQL:
        return int_literal(1)

    def total_of_rows(self) -> SQL:
        return exp.Count(this=exp.Star())


@dataclass(frozen=True, slots=True)
class _ValueCountSql:
    """COUNT(value), of which at most `max_rows` values of a unit count in a group."""

    name: str  # of its column in `pairs`
    presence: str  # the column of `kept` that is NULL where the value is missing
    max_rows: int

    def pair_columns(self) -> dict[str, SQL]:
        return {self.name: self.total_of_rows()}

    def contribution(self) -> SQL:
        return least(column(self.name), int_literal(self.max_rows))

    def total_of_rows(self) -> SQL:
        return exp.Count(this=column(self.presence))


@dataclass(frozen=True, slots=True)
class _SumSql(ABC):
    """A sum over the rows that `counted` counts.

    A unit with c > r values in a group counts as r of them: its sum s becomes s·r/c, truncated towards zero. Before that
    |s| is cut off where the product still fits 64 bits, which only shrinks it.
    """

    statistic: CentredSum | CentredProduct
    value: str  # the column of `kept` that holds the value in grid steps
    name: str  # of its column in `pairs`
    counted: _ValueCountSql
    statement: "Statement"

    def pair_columns(self) -> dict[str, SQL]:
        return {**self.counted.pair_columns(), self.name: self._sum()}

    def contribution(self) -> SQL:
        max_rows, dialect = self.statement.bounded.max_rows, self.statement.dialect
        room = MAX_PRODUCT // max_rows
        inside = cast(clip(column(self.name), int_literal(-room), int_literal(room)), exp.DType.BIGINT)
        product = exp.Paren(this=exp.Mul(this=inside, expression=int_literal(max_rows)))
        over = exp.GT(this=column(self.counted.name), expression=int_literal(max_rows))
        scaled = exp.If(this=over, true=dialect.divide(product, column(self.counted.name)))
        # The grid range has shown that the sum of at most r values fits 64 bits.
        return exp.Case(ifs=[scaled], default=cast(column(self.name), exp.DType.BIGINT))

    def total_of_rows(self) -> SQL:
        return saturate(self._sum(), self.statement.dialect)

    @abstractmethod
    def _sum(self) -> SQL:
        """The sum over rows, before any cap."""

    def _add(self, term: SQL) -> SQL:
        """The sum of a term over rows."""
        bounded = self.statement.bounded
        return self.statement.dialect.add(term, bounded.max_contribution(self.statistic) // bounded.max_rows)


@dataclass(frozen=True, slots=True)
class _CentredSumSql(_SumSql):
    """Σ(value − centre)^power."""

    statistic: CentredSum

    def _sum(self) -> SQL:
        """Σ(v − c) is Σv − c·n: engines then add up a value once, however many centres it is taken from."""
        bounded, dialect = self.statement.bounded, self.statement.dialect
        centre, power = self.statistic.centre, self.statistic.power
        if power == 1 and centre != 0:
            wide = exp.cast(int_literal(centre), dialect.wide_type, dialect=dialect.name)
            taken = exp.Mul(this=wide, expression=self.counted.total_of_rows())
            added = dialect.add(column(self.value), bounded.grid_range(self.statistic).magnitude)
            return exp.Sub(this=added, expression=taken)
        distance = _distance(self.value, centre)
        return self._add(distance if power == 1 else exp.Mul(this=distance, expression=distance.copy()))


@dataclass(frozen=True, slots=True)
class _CentredProductSql(_SumSql):
    """Σ(value − centre)·(other − its centre). Either value is NULL where the other is, and so is their product."""

    statistic: CentredProduct
    other: str  # the column of `kept` that holds the other value in grid steps

    def _sum(self) -> SQL:
        left, right = self.statistic.left_centre, self.statistic.right_centre
        return self._add(exp.Mul(this=_distance(self.value, left), expression=_distance(self.other, right)))


def _distance(name: str, centre: int) -> SQL:
    value = column(name)
    return value if centre == 0 else exp.Paren(this=exp.Sub(this=value, expression=int_literal(centre)))


class _Values:
    """The columns of `kept` that hold the values of statistics, each value once.

    `names` says which column holds a value: in grid steps if it is summed, else only NULL where it is missing. `presence`
    says which column is NULL exactly where the value is missing: the contribution of a sum is capped by that count. It is a
    column of its own where an engine computes an expression again for each aggregate and presence is cheap to find.
    """

    def __init__(self, statistics: Sequence[ScalarStatistic], lowering: Lowering) -> None:
        pairs = [value for each in statistics if isinstance(each, CentredProduct) for value in (each.left, each.right)]
        values = dict.fromkeys(each.value for each in statistics if isinstance(each, ValueCount | CentredSum))
        values |= dict.fromkeys(pairs)
        summed = {*(each.value for each in statistics if isinstance(each, CentredSum)), *pairs}
        apart = {value for value in summed if lowering.dialect.recomputes and isinstance(value, ast.Ref)}
        self.names = {value: f"value{i}" for i, value in enumerate(values)}
        self.presence = {value: f"{name}_there" if value in apart else name for value, name in self.names.items()}
        steps = {name: lowering.lower_value(value) for value, name in self.names.items() if value in summed}
        present = {name: lowering.lower_presence(v) for v, name in self.presence.items() if name not in steps}
        keys = dict.fromkeys(each.value for each in statistics if isinstance(each, DistinctCount))
        self.distinct = {key: f"distinct{i}" for i, key in enumerate(keys)}
        self.columns = {**steps, **present, **{name: lowering.lower_key(key) for key, name in self.distinct.items()}}


# -- what every statement begins with --------------------------------------------------------------------------------------


class Statement:
    """The rows that count, and the order in which a unit's contributions are kept.

    Rows count if they belong to a real unit (each does where a row is a unit), pass WHERE and have a listed key. The order
    is that of a salted hash, which depends on the unit and the contribution itself alone.
    """

    def __init__(
        self, bounded: BoundedQuery, source: exp.Expr, unit: str | None, dialect: Dialect, *, uses_codes: bool = True
    ) -> None:
        self.bounded, self.source, self.unit, self.dialect = bounded, source, unit, dialect
        self.lowering = Lowering(bounded.table, dialect)
        self.key_names = [f"key{i}" for i in range(len(bounded.query.groups))]
        self.steps = {name: self.name_step(name) for name in STEPS}
        self.hash = OrderHash(bounded.table.salt, dialect)
        self.ranks = bounded.ranks_groups
        self.coded = list_coded_keys(bounded, dialect) if uses_codes else [None] * len(self.key_names)
        self.looked_up = [None] * len(self.key_names) if dialect.look_up is None else _list_ordered_keys(bounded)
        self.parts = [
            Part.CODE if coded else Part.LISTED if listed and _is_looked_up(listed) else self.part_of(group.value)
            for group, coded, listed in zip(bounded.query.groups, self.coded, self.looked_up, strict=True)
        ]
        # Whether unlisted keys are dropped after grouping, which is cheaper for a long list. It makes no difference to the
        # totals where a unit has one row; where it has several, an unlisted group must not take a listed one's place.
        listed_keys = bounded.keys
        self.filters_late = bounded.table.unique and listed_keys is not None and len(listed_keys) >= MANY_KEYS

    @property
    def keys(self) -> list[SQL]:
        """The columns of the group keys."""
        return [column(name) for name in self.key_names]

    def name_step(self, name: str) -> exp.Identifier:
        """The name of a step, which must not hide the table that it reads."""
        return exp.to_identifier(f"{name}_" if name == self.bounded.table.name.lower() else name)

    def select_rows(self, values: Mapping[str, SQL]) -> exp.Select:
        """One row per row that counts: unit, keys, and these values."""
        keys = [self.lowering.lower_key(group.value) for group in self.bounded.query.groups]
        rows = self.select_source([self.show_key(i, key) for i, key in enumerate(keys)], values)
        return rows if self.filters_late else self.join_listed(rows, dict(enumerate(keys)))

    def show_key(self, index: int, key: SQL) -> SQL:
        """A key of the grouping with this index, or its code if it has one, for rows that `join_listed` has joined."""
        known = self.coded[index]
        return key if known is None else self._code(index, key, known)

    def join_listed(self, rows: exp.Select, keys: Mapping[int, SQL]) -> exp.Select:
        """The rows with listed keys, of groupings by their index, beside the codes that are looked up."""
        joined = {i: known for i in keys if (known := self.coded[i]) is not None and _is_joined(known)}
        for i, known in joined.items():
            same = exp.EQ(this=keys[i].copy(), expression=column("key", f"keys{i}"))
            codes = self._select_codes(known).subquery(exp.to_identifier(f"keys{i}"), copy=False)
            rows = rows.join(codes, on=same, join_type="left" if None in known else "inner", copy=False)
        conditions = self._key_conditions(keys, {i for i, known in joined.items() if None not in known})
        return rows.where(*conditions, copy=False)

    def _code(self, index: int, key: SQL, known: Sequence[Key]) -> SQL:
        """The code of a row's key; it need not be defined where the key is not listed."""
        ifs = []
        if None in known:
            missing = exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())
            code = pack_code(self.hash.null_hash, known.index(None))
            ifs.append(exp.If(this=missing, true=bigint_literal(code)))
        if _is_joined(known):
            code_of_row = column("code", f"keys{index}")
            return exp.Case(ifs=ifs, default=code_of_row) if ifs else code_of_row
        for place, each in enumerate(known):
            if each is not None:
                hashed = self.hash.hash_constant(each)
                same = exp.EQ(this=key.copy(), expression=key_literal(each))
                ifs.append(exp.If(this=same, true=bigint_literal(pack_code(hashed, place))))
        return exp.Case(ifs=ifs)

    def _select_codes(self, known: Sequence[Key]) -> exp.Select:
        """The keys of a column that are not NULL, each with its code: one constant text that the engine splits, because many
        constants take long to parse."""
        texts = [str(key) for key in known if key is not None]
        separator = next(each for each in SEPARATORS if not any(each in text for text in texts))
        parts = self.dialect.split(exp.Literal.string(separator.join(texts)), exp.Literal.string(separator))
        part = column("part")
        kind = None if isinstance(known[0], str) else type_of(known[0])
        key: SQL = self.dialect.order_bytewise(part) if kind is None else cast(part, kind)
        hashed = self.hash.hash_text(part.copy() if kind is None else key.copy(), "key")
        shifted = exp.Mul(this=exp.Paren(this=hashed), expression=bigint_literal(1 << PLACE_BITS))
        code = exp.Add(this=shifted, expression=cast(column("place"), exp.DType.BIGINT))
        select = exp.select(alias(key, "key"), alias(code, "code"), copy=False)
        select = select.from_(parts.subquery(exp.to_identifier("split"), copy=False), copy=False)
        return self.dialect.fence(select) if self.dialect.repeats else select

    def part_of(self, value: ast.GroupValue) -> Part:
        """How a key that is no code is hashed."""
        return Part.INTEGER if kind_of(value, self.bounded.table) is Kind.INTEGER else Part.TEXT

    def select_source(self, keys: Sequence[SQL], values: Mapping[str, SQL]) -> exp.Select:
        """The rows of real units that pass WHERE, whatever their keys: unit, these keys, and these values."""
        query = self.bounded.query
        columns = [alias(int_literal(1) if self.unit is None else source_column(self.unit), UNIT)]
        columns += [alias(key, name) for key, name in zip(keys, self.key_names, strict=True)]
        columns += [alias(value, name) for name, value in values.items()]
        rows = exp.select(*columns, copy=False)
        rows = rows.from_(exp.alias_(self.source, SOURCE, table=True, quoted=True, copy=False), copy=False)
        if self.unit is not None:
            rows = rows.where(exp.Not(this=exp.Is(this=source_column(self.unit), expression=exp.Null())), copy=False)
        if query.where is not None:
            rows = rows.where(self.lowering.lower_where(query.where), copy=False)
        return rows

    @property
    def pair_columns(self) -> list[SQL]:
        """What is grouped by, to find the rows of each unit and group."""
        return [column(UNIT), *self.keys]

    def rank_pairs(self, pairs: exp.Identifier, grouped: exp.Select) -> exp.Query:
        """The pairs of a unit and a group, which `grouped` finds, each with its place among the groups of its unit."""
        ranked = exp.select(exp.Star(), alias(self.rank_groups(exp.RowNumber()), RANK), copy=False)
        return ranked.from_(self.hash_rows(pairs, grouped), copy=False)

    def hash_unit(self, grouped: exp.Select) -> SQL:
        """The hash of a unit, in a step that `grouped` finds."""
        return self.hash.hash_unit(column(UNIT), part_of_unit(self.bounded.table, self.unit))

    def repartition(self, rows: exp.Select) -> exp.Select:
        """Send each unit's rows to one place, if that pays: grouping by unit and ranking within it then move nothing."""
        if self.dialect.repartitions:
            rows.set("hint", exp.Hint(expressions=[exp.Anonymous(this="REPARTITION", expressions=[column(UNIT)])]))
        return rows

    def filter_keys(self, result: exp.Select) -> exp.Select:
        """Keep the groups with listed keys, if `filters_late`. The condition is wrapped, so that an engine does not move it
        below the grouping."""
        listed = exp.and_(*self._key_conditions(dict(enumerate(self.keys))), copy=False)
        counted = exp.Not(this=exp.Is(this=column("total0"), expression=exp.Null()))
        late = exp.Case(ifs=[exp.If(this=counted, true=listed)], default=exp.false())
        return exp.select(exp.Star()).from_(result.subquery("grouped", copy=False), copy=False).where(late, copy=False)

    def _key_conditions(self, keys: Mapping[int, SQL], joined: Collection[int] = ()) -> list[SQL]:
        """What holds of listed keys, for each grouping whose keys are known, but for those that a join has tested."""
        conditions: list[SQL] = []
        for i, key in keys.items():
            group = self.bounded.query.groups[i]
            known = grouping_keys(group, self.bounded.table)
            if known is None or i in joined:
                continue
            if (coded := self.coded[i]) is not None and _is_joined(coded):  # of those that are not NULL, a join has found it
                found = exp.Not(this=exp.Is(this=column("key", f"keys{i}"), expression=exp.Null()))
                missing = exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())
                conditions.append(exp.Paren(this=exp.or_(found, missing, copy=False)))
                continue
            if group.keys is None and not isinstance(group.value, ast.Ref):  # every key between the bounds is listed
                conditions.append(exp.Not(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
                continue
            present = [key_literal(each) for each in known if each is not None]
            tests: list[SQL] = [exp.In(this=key.copy(), expressions=present)] if present else []
            tests += [exp.Is(this=key.copy(), expression=exp.Null())] if None in known else []
            conditions.append(exp.Paren(this=exp.or_(*tests, copy=False)))
        return conditions

    def select_totals(self, totals: Mapping[int, SQL]) -> exp.Select:
        """A select of these totals by their index, and of the keys; NULL for the totals that another select has."""
        width = len(self.bounded.totals)
        absent = {i: exp.cast(exp.Null(), exp.DType.BIGINT) for i in range(width) if i not in totals}
        ordered = sorted((*totals.items(), *absent.items()), key=lambda each: each[0])
        return exp.select(*(alias(each, f"total{i}") for i, each in ordered), *self.keys, copy=False)

    def count_up_to(self, weight: SQL, name: str) -> SQL:
        """The sum of the weights of a unit's rows in a group, in hash order of the named column, up to this row."""
        return exp.Window(
            this=exp.Sum(this=weight),
            partition_by=[column(UNIT), *self.keys],
            order=self.hash_order(*self.key_names, name),
            spec=exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        )

    def rank_groups(self, rank: exp.Func) -> SQL:
        """The place of a group among the groups of its unit."""
        return exp.Window(this=rank, partition_by=[column(UNIT)], order=self.hash_order(*self.key_names))

    def hash_order(self, *names: str) -> exp.Order:
        """The order of a hash of salt, unit and these columns, ties broken by the columns themselves."""
        if self.bounded.bounding == FIRST_BOUNDING:
            hashed, last = self._hash_by_md5(*names), None
        else:
            hashed, last = cube(MIXED if len(names) == len(self.key_names) else MIXED_VALUE), False
            hashed = cast(hashed, exp.DType.INT) if self.dialect.narrows_orders else hashed
            names = tuple(f"place_{name}" if self._joins_hash(name) else name for name in names)
        by_name = (exp.Ordered(this=column(name), nulls_first=last) for name in names)
        return exp.Order(expressions=[exp.Ordered(this=hashed), *by_name])

    def _hash_by_md5(self, *names: str) -> SQL:
        """The first version: md5 of salt, unit and these columns. The length of each part precedes it, so that two inputs
        never run together."""
        salt, dialect = self.bounded.table.salt, self.dialect
        parts = [exp.Literal.string(f"{len(salt)}:{salt}"), *prefix_with_length(column(UNIT))]  # a unit is never missing
        for name in names:
            missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=exp.Literal.string("-"))
            parts.append(exp.Case(ifs=[missing], default=dialect.concat(prefix_with_length(column(name)))))
        return dialect.order_bytewise(exp.MD5(this=dialect.concat(parts)))

    def hash_rows(
        self, rows: exp.Identifier, grouped: exp.Select, value: str | None = None, part: Part | None = None
    ) -> exp.Expr:
        """The rows of a step with the columns that `hash_order` needs: of the keys if groups are ranked, and of the keys and
        this value if there is one. Each level computes what the next one uses more than once. The first is a part of the
        step, which is `grouped`: no engine computes a column of it more than once, and it keeps its order. An engine that
        repeats has fences instead, which keep the order of units: PostgreSQL would carry the texts that a column of the step
        is computed of, beside the keys, through its grouping in parallel."""
        if self.bounded.bounding == FIRST_BOUNDING:
            return exp.Table(this=rows.copy())
        names = [*self.key_names, *([] if value is None else [value])]
        parts = dict(zip(names, (*self.parts, *([] if part is None else [part])), strict=True))
        levels: list[dict[str, SQL]] = [{}]
        source: exp.Expr = exp.Table(this=rows.copy())
        terms: dict[str, SQL] = {}
        for i, name in enumerate(names):
            if self._joins_hash(name):
                source = self._join_hashes(source, rows, i)
                terms[name] = column(f"hash_{name}")
                continue
            hashed = self.hash.hash_key(name, parts[name], None if name == value else self.looked_up[i])
            if len(names) == 1 and parts[name] is not Part.INTEGER:
                terms[name] = hashed
            else:
                levels[0][f"hash_{name}"] = hashed
                terms[name] = cube(f"hash_{name}") if parts[name] is Part.INTEGER else column(f"hash_{name}")
        mixed: dict[str, SQL] = {}
        folded = terms[names[0]]
        for i, name in enumerate(names):
            if i > 0:
                levels.append({f"fold{i}": self.hash.fold(folded.copy(), terms[name])})
                folded = cube(f"fold{i}")
            if name == value:
                mixed[MIXED_VALUE] = folded
            elif i == len(self.key_names) - 1 and self.ranks:
                mixed[MIXED] = folded
        unit = self.hash_unit(grouped)
        if len(mixed) > 1:
            levels[0]["hash_unit"], unit = unit, column("hash_unit")
        levels.append({name: self.hash.mix(unit.copy(), keys) for name, keys in mixed.items()})
        present = [*filter(None, levels)]
        if isinstance(source, exp.Table) and not self.dialect.repeats:
            grouped.select(*(alias(each, name) for name, each in present.pop(0).items()), copy=False)
        for i, level in enumerate(present):
            select = exp.select(exp.Star(), *(alias(each, name) for name, each in level.items()), copy=False)
            select = select.from_(source, copy=False)
            if self.dialect.repeats:
                by_unit = exp.Ordered(this=column(UNIT), nulls_first=False)
                select = self.dialect.fence(select.order_by(by_unit, copy=False))
            source = select.subquery(f"level{i}", copy=False)
        return source

    def _joins_hash(self, name: str) -> bool:
        """Whether the hash of this column is computed once for each distinct key, and joined."""
        return self.dialect.joins_hashes and dict(zip(self.key_names, self.parts, strict=True)).get(name) is Part.TEXT

    def _join_hashes(self, source: exp.Expr, rows: exp.Identifier, index: int) -> exp.Expr:
        """Rows with the hash of one key and with its place among the distinct keys: integers are ordered faster than texts.
        A missing key has no place, and is last as it is."""
        name, hashes = self.key_names[index], self.select_hashes(index)
        table = rows.name if isinstance(source, exp.Table) else source.alias
        missing = exp.If(this=exp.Is(this=column(name, table), expression=exp.Null()), true=int_literal(self.hash.null_hash))
        found = exp.Case(ifs=[missing], default=column("hash", f"hashes{index}"))
        every = exp.Column(this=exp.Star(), table=exp.to_identifier(table, quoted=True))
        placed = alias(column("place", f"hashes{index}"), f"place_{name}")
        select = exp.select(every, alias(found, f"hash_{name}"), placed, copy=False).from_(source, copy=False)
        same = exp.EQ(this=column(name, table), expression=column("key", f"hashes{index}"))
        select = select.join(hashes.subquery(f"hashes{index}", copy=False), on=same, join_type="left", copy=False)
        return select.subquery(f"joined{index}", copy=False)

    def select_hashes(self, index: int) -> exp.Select:
        """The hash and the place of each distinct key of the rows that count; NULL has another hash, and no place."""
        name = self.key_names[index]
        listed = self.select_rows({}).subquery("counted", copy=False)
        distinct = exp.select(alias(column(name), "key"), copy=False).from_(listed, copy=False).group_by(column(name))
        hashed = self.hash.hash_text(column("key"), "key")
        place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=[exp.Ordered(this=column("key"))]))
        hashes = exp.select(column("key"), alias(hashed, "hash"), alias(place, "place"), copy=False)
        return hashes.from_(distinct.subquery("keys"), copy=False)


MIXED, MIXED_VALUE = "mixed", "mixed_value"


def part_of_unit(table: Table, identity: str | None) -> Part:
    """How a unit is hashed that this column identifies. A column of integers whose cells are identified by their text is
    hashed as the integers are, so that a CSV file and a database give the same totals."""
    if len(table.unit_columns) != 1 or table.columns[table.unit_columns[0]].kind is not Kind.INTEGER:
        return Part.TEXT
    return Part.INTEGER if identity == table.unit_columns[0] else Part.INTEGER_TEXT


def list_coded_keys(bounded: BoundedQuery, dialect: Dialect) -> list[tuple[Key, ...] | None]:
    """Return, for each grouping whose keys are codes in the statements of `bounded`, the keys in the order of their places;
    None for the others. Places are in the order of the keys, so that codes are ordered as their keys are."""
    return [None] * len(bounded.query.groups) if dialect.look_up is not None else _list_ordered_keys(bounded)


def _list_ordered_keys(bounded: BoundedQuery) -> list[tuple[Key, ...] | None]:
    """The listed keys of each grouping that are hashed once, in their own order."""
    if bounded.bounding == FIRST_BOUNDING or not bounded.is_ordered:
        return [None] * len(bounded.query.groups)
    return [_order_keys(grouping_keys(group, bounded.table)) for group in bounded.query.groups]


def _order_keys(keys: Sequence[Key] | None) -> tuple[Key, ...] | None:
    known = [key for key in keys or () if key is not None]
    if keys is None or not known or len(keys) > MAX_CODED or (isinstance(known[0], int) and not isinstance(known[0], bool)):
        return None
    ordered = sorted(known, key=lambda key: key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key)
    return (*ordered, *([None] if len(known) < len(keys) else []))


def _is_looked_up(listed: Sequence[Key]) -> bool:
    """Whether the text of each key is the same in every engine, and can stand in JSON."""
    if isinstance(listed[0], datetime):
        return False
    texts = (key for key in listed if isinstance(key, str))
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for text in texts for character in text)


def decode_keys(bounded: BoundedQuery, dialect: Dialect) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
    """Return what turns the keys that a statement of `bounded` returns into group keys; None if they are group keys."""
    coded = list_coded_keys(bounded, dialect)
    if not any(coded):
        return None

    def decode(keys: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(keys, coded, strict=True)
        return tuple(key if known is None else known[place_of(key)] for key, known in pairs)

    return decode


def _is_joined(known: Sequence[Key]) -> bool:
    """Whether the code of a key is looked up. The text of a date or time is the engine's."""
    return len(known) > MANY_KEYS or not isinstance(known[0], str | bool)


def type_of(key: Key) -> exp.DType:
    """The SQL type of a key that is a date, a time or an integer."""
    if isinstance(key, datetime):
        return exp.DType.TIMESTAMPNTZ
    return exp.DType.DATE if isinstance(key, date) else exp.DType.BIGINT


def lower_cell_counts(
    bounded: BoundedQuery, counts: CellCounts, source: exp.Expr, unit: str | None, dialect: Dialect
) -> exp.Select:
    """The statement for one histogram of `bounded` over `source`, whose column `unit` identifies a unit; None where each row
    is one."""
    return cell_count_statement(Statement(bounded, source, unit, dialect), counts)


def cell_count_statement(statement: Statement, counts: CellCounts) -> exp.Select:
    """The statement that counts the rows of `statement` per group and cell."""
    bounded, dialect = statement.bounded, statement.dialect
    kept = statement.select_rows({CELL: statement.lowering.lower_value(counts.cell)})
    at_kept, at_cells, at_ranked = (statement.steps[name] for name in ("kept", "cells", "ranked"))
    unique = bounded.table.unique
    contribution, most = (int_literal(1), 1) if unique else (_cap_rows(bounded.max_rows), bounded.max_rows)
    total = alias(saturate(dialect.add(contribution, most), dialect), "total0")
    result = exp.select(total, column(CELL), *statement.keys, copy=False).from_(at_kept if unique else at_ranked, copy=False)
    result = result.where(exp.Not(this=exp.Is(this=column(CELL), expression=exp.Null())), copy=False)
    if not unique and statement.ranks:
        result = result.where(exp.LTE(this=column(RANK), expression=int_literal(bounded.max_groups)), copy=False)
    result = result.group_by(column(CELL), *statement.keys, copy=False)
    if unique:
        result = result.with_(at_kept, as_=kept, copy=False)
        return statement.filter_keys(result) if statement.filters_late else result
    place = [column(UNIT), *statement.keys, column(CELL)]
    cells = exp.select(*place, alias(exp.Count(this=exp.Star()), ROWS), copy=False).from_(at_kept, copy=False)
    cells = cells.group_by(*(each.copy() for each in place), copy=False)
    result = result.with_(at_kept, as_=statement.repartition(kept), copy=False).with_(at_cells, as_=cells, copy=False)
    hashed = statement.hash_rows(at_cells, cells, CELL, Part.INTEGER)
    return result.with_(at_ranked, as_=_rank_cells(statement).from_(hashed, copy=False), copy=False)


def _cap_rows(max_rows: int) -> SQL:
    """How many of a unit's rows in a cell still fit: cells earlier in the order take their room first."""
    before = exp.Paren(this=exp.Sub(this=column(RUNNING), expression=column(ROWS)))
    room = greatest(exp.Sub(this=int_literal(max_rows), expression=before), int_literal(0))
    return least(column(ROWS), room)


def _rank_cells(statement: Statement) -> exp.Select:
    missing = exp.If(this=exp.Is(this=column(CELL), expression=exp.Null()), true=int_literal(0))
    running = statement.count_up_to(exp.Case(ifs=[missing], default=column(ROWS)), CELL)
    ranks = [alias(statement.rank_groups(exp.DenseRank()), RANK)] if statement.ranks else []
    return exp.select(exp.Star(), alias(running, RUNNING), *ranks, copy=False)
