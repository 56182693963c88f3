"""A bounded query as one engine statement that returns group keys and exact integers, and nothing else.

**Theory of operation.** A statement has up to four steps:

    kept      the rows of real units that pass WHERE, with their keys and their values in grid steps
    pairs     one row per (unit, group): how many rows, how many values, their sums
    ranked    the groups of each unit in the order of a salted hash of unit and group, ties broken by the key
    result    per group: the sum over units of their contributions, each of them capped

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from sqlglot import exp

from discreet.query import ast
from discreet.query.contribution import BoundedQuery, grouping_keys
from discreet.query.grid import MAX_PRODUCT
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
from discreet.sql.dialects import (
    SOURCE,
    SQL,
    Dialect,
    alias,
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

UNIT, RANK, ROWS, RUNNING, CELL = "unit", "rank", "rows", "running", "cell"
STEPS = ("kept", "pairs", "cells", "ranked")
MANY_KEYS = 8
"""From so many keys on, an engine looks the key of a row up in a table instead of comparing it with a few constants."""


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
    statement = Statement(bounded, source, unit, dialect)
    kept = statement.select_rows({})
    pairs = exp.select(column(UNIT), alias(exp.Count(this=exp.Star()), ROWS), *statement.keys, copy=False)
    pairs = pairs.from_(statement.steps["kept"], copy=False).group_by(column(UNIT), *statement.keys, copy=False)
    return pairs.with_(statement.steps["kept"], as_=kept, copy=False)


def _total_pairs(statement: "Statement", kept: exp.Select, statistics: "Sequence[StatisticSql]") -> exp.Select:
    """Totals over units, each in at most `max_groups` groups."""
    bounded, dialect = statement.bounded, statement.dialect
    at_kept, at_pairs, at_ranked = (statement.steps[name] for name in ("kept", "pairs", "ranked"))
    columns = {name: each for statistic in statistics for name, each in statistic.pair_columns().items()}
    by_order = sorted(columns, key=lambda name: (name != ROWS, name.startswith("sum")))  # counts first, then sums
    pair: list[SQL] = [column(UNIT), *statement.keys]
    pairs = exp.select(*pair, *(alias(columns[name], name) for name in by_order), copy=False).from_(at_kept, copy=False)
    pairs = pairs.group_by(column(UNIT), *statement.keys, copy=False)
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
    ranked = exp.select(exp.Star(), alias(statement.rank_groups(exp.RowNumber()), RANK), copy=False)
    return result.with_(at_ranked, as_=ranked.from_(at_pairs, copy=False), copy=False)


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
        steps |= {at_values: each.select_values(statement), at_ordered: each.order_values(statement, at_values)}
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

    def order_values(self, statement: "Statement", values: exp.Identifier) -> exp.Select:
        """The place of each value, and of its group."""
        missing = exp.If(this=exp.Is(this=column(self.value), expression=exp.Null()), true=int_literal(0))
        running = statement.count_up_to(exp.Case(ifs=[missing], default=int_literal(1)), self.value)
        ranks = [alias(statement.rank_groups(exp.DenseRank()), RANK)] if statement.ranks else []
        return exp.select(exp.Star(), alias(running, RUNNING), *ranks, copy=False).from_(values, copy=False)

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
            return _DistinctCountSql(values.distinct[key])
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

    def __init__(self, bounded: BoundedQuery, source: exp.Expr, unit: str | None, dialect: Dialect) -> None:
        self.bounded, self.source, self.unit, self.dialect = bounded, source, unit, dialect
        self.lowering = Lowering(bounded.table, dialect)
        self.key_names = [f"key{i}" for i in range(len(bounded.query.groups))]
        self.steps = {name: self.name_step(name) for name in STEPS}
        listed = bounded.keys
        # Whether a unit may have more groups than it keeps.
        self.ranks = bool(self.key_names) and (listed is None or len(listed) > bounded.max_groups)
        # Whether unlisted keys are dropped after grouping, which is cheaper for a long list. It makes no difference to the
        # totals where a unit has one row; where it has several, an unlisted group must not take a listed one's place.
        self.filters_late = bounded.table.unique and listed is not None and len(listed) >= MANY_KEYS

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
        rows = self.select_source(keys, values)
        return rows if self.filters_late else rows.where(*self._key_conditions(keys), copy=False)

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

    def repartition(self, rows: exp.Select) -> exp.Select:
        """Send each unit's rows to one place, if that pays: grouping by unit and ranking within it then move nothing."""
        if self.dialect.repartitions:
            rows.set("hint", exp.Hint(expressions=[exp.Anonymous(this="REPARTITION", expressions=[column(UNIT)])]))
        return rows

    def filter_keys(self, result: exp.Select) -> exp.Select:
        """Keep the groups with listed keys, if `filters_late`. The condition is wrapped, so that an engine does not move it
        below the grouping."""
        listed = exp.and_(*self._key_conditions(self.keys), copy=False)
        counted = exp.Not(this=exp.Is(this=column("total0"), expression=exp.Null()))
        late = exp.Case(ifs=[exp.If(this=counted, true=listed)], default=exp.false())
        return exp.select(exp.Star()).from_(result.subquery("grouped", copy=False), copy=False).where(late, copy=False)

    def _key_conditions(self, keys: Sequence[SQL]) -> list[SQL]:
        """What holds of listed keys, for each grouping whose keys are known."""
        conditions: list[SQL] = []
        for group, key in zip(self.bounded.query.groups, keys, strict=True):
            known = grouping_keys(group, self.bounded.table)
            if known is None:
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
        """The order of md5 of salt, unit and these columns, ties broken by the columns themselves. The length of each part
        precedes it, so that two inputs never run together."""
        salt, dialect = self.bounded.table.salt, self.dialect
        parts = [exp.Literal.string(f"{len(salt)}:{salt}"), *prefix_with_length(column(UNIT))]  # a unit is never missing
        for name in names:
            missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=exp.Literal.string("-"))
            parts.append(exp.Case(ifs=[missing], default=dialect.concat(prefix_with_length(column(name)))))
        hashed = dialect.order_bytewise(exp.MD5(this=dialect.concat(parts)))
        return exp.Order(expressions=[exp.Ordered(this=hashed), *(exp.Ordered(this=column(name)) for name in names)])


def lower_cell_counts(
    bounded: BoundedQuery, counts: CellCounts, source: exp.Expr, unit: str | None, dialect: Dialect
) -> exp.Select:
    """The statement for one histogram of `bounded` over `source`, whose column `unit` identifies a unit; None where each row
    is one."""
    statement = Statement(bounded, source, unit, dialect)
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
    return result.with_(at_ranked, as_=_rank_cells(statement).from_(at_cells, copy=False), copy=False)


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
