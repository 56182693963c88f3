"""A bounded question as one engine statement that returns group keys and exact integers, and nothing else.

    kept      rows of real units that pass WHERE, their keys and their values in grid steps
    pairs     one row per (unit, group): how many rows, how many values, their sums
    ranked    a unit's groups in the order of a salted hash of unit and group, ties broken by the key
    result    per group: the totals over units, each unit's share capped

Where the metadata proves that a unit has one row, `pairs` and `ranked` are left out.
"""

from typing import assert_never

from sqlglot import exp

from discreet.query import ast
from discreet.query.contribution import BoundedQuery
from discreet.query.grid import MAX_PRODUCT
from discreet.query.statistics import CentredSum, RowCount, ScalarStatistic, UnitCount, ValueCount
from discreet.sql.dialects import Dialect
from discreet.sql.expressions import SQL, Lowering, alias, cast, clamp, column, int_literal, least, saturate
from discreet.sql.rows import (
    UNIT,
    filter_keys,
    filters_keys_late,
    hash_order,
    key_names,
    needs_rank,
    repartition_by_unit,
    select_rows,
    step_names,
)

RANK, ROWS = "rank", "rows"


def lower_totals(bounded: BoundedQuery, source: exp.Expr, dialect: Dialect) -> exp.Select:
    """The statement for the totals of `bounded` over `source`, a table or a table function of the engine's own."""
    return _TotalsStatement(bounded, dialect).select(source)


class _TotalsStatement:
    def __init__(self, bounded: BoundedQuery, dialect: Dialect) -> None:
        self.bounded, self.dialect, self.keys = bounded, dialect, key_names(bounded)
        self.write = Lowering(bounded.table, dialect)
        values = [m.value for m in bounded.scalars if isinstance(m, ValueCount | CentredSum)]
        self.values = {value: f"value{i}" for i, value in enumerate(dict.fromkeys(values))}
        self.summed = {m.value for m in bounded.scalars if isinstance(m, CentredSum)}
        # What is counted is missing exactly where what is summed is: a unit's share is capped by that count (`_cap`).
        apart = {v for v in self.summed if dialect.recomputes and isinstance(v, ast.Ref)}  # being there is cheap to find
        self.counted = {value: f"{name}_there" if value in apart else name for value, name in self.values.items()}
        self.kept, self.pairs, self.ranked = step_names(bounded, "kept", "pairs", "ranked")

    def select(self, source: exp.Expr) -> exp.Select:
        kept = self._select_rows(source)
        if self.bounded.table.unique:
            result = self._group(exp.select(*self._totals_of_rows()).from_(self.kept, copy=False)).with_(
                self.kept, as_=kept, copy=False
            )
            return filter_keys(self.bounded, result) if filters_keys_late(self.bounded) else result
        ranked = needs_rank(self.bounded)
        kept = repartition_by_unit(kept) if ranked and self.dialect.repartitions else kept
        result = exp.select(*self._totals_of_pairs()).from_(self.ranked if ranked else self.pairs, copy=False)
        if ranked:
            result = result.where(exp.LTE(this=column(RANK), expression=int_literal(self.bounded.max_groups)), copy=False)
        result = (
            self._group(result)
            .with_(self.kept, as_=kept, copy=False)
            .with_(self.pairs, as_=self._select_pairs(), copy=False)
        )
        return result.with_(self.ranked, as_=self._rank_pairs(), copy=False) if ranked else result

    def _group(self, select: exp.Select) -> exp.Select:
        keys = [column(name) for name in self.keys]
        return (
            select.select(*keys, append=True, copy=False).group_by(*(key.copy() for key in keys), copy=False)
            if keys
            else select
        )

    def _select_rows(self, source: exp.Expr) -> exp.Select:
        steps = {name: self.write.lower_value(value) for value, name in self.values.items() if value in self.summed}
        steps |= {name: self.write.lower_presence(value) for value, name in self.counted.items() if name not in steps}
        return select_rows(self.bounded, source, self.write, steps)

    def _select_pairs(self) -> exp.Select:
        columns: list[SQL] = [column(UNIT), *(column(name) for name in self.keys)]
        counted = any(isinstance(measure, RowCount) for measure in self.bounded.scalars)
        sums: list[SQL] = [alias(exp.Count(this=exp.Star()), ROWS)] if counted else []
        for value, name in self.values.items():
            sums.append(alias(exp.Count(this=column(self.counted[value])), f"{name}_n"))
        for i, measure in enumerate(self.bounded.scalars):
            if isinstance(measure, CentredSum):
                sums.append(alias(self._sum(measure), f"sum{i}"))
        return exp.select(*columns, *sums).from_(self.kept, copy=False).group_by(*(c.copy() for c in columns), copy=False)

    def _sum(self, statistic: CentredSum) -> SQL:
        """Σ(v − c) is Σv − c·n: engines then add up a value once, however many centres it is taken from."""
        if statistic.power != 1 or statistic.centre == 0:
            return self.dialect.add(
                self._power(statistic), self.bounded.max_contribution(statistic) // self.bounded.max_rows
            )
        value = column(self.values[statistic.value])
        centre = exp.cast(int_literal(statistic.centre), self.dialect.wide_type, dialect=self.dialect.name)
        taken = exp.Mul(this=centre, expression=exp.Count(this=column(self.counted[statistic.value])))
        return exp.Sub(this=self.dialect.add(value, self.bounded.grid_range(statistic).magnitude), expression=taken)

    def _power(self, statistic: CentredSum) -> SQL:
        """(value − centre)^power; the span has shown that it fits."""
        value: SQL = column(self.values[statistic.value])
        distance = (
            exp.Paren(this=exp.Sub(this=value, expression=int_literal(statistic.centre))) if statistic.centre else value
        )
        return distance if statistic.power == 1 else exp.Mul(this=distance, expression=distance.copy())

    def _rank_pairs(self) -> exp.Select:
        rank = exp.Window(
            this=exp.RowNumber(), partition_by=[column(UNIT)], order=hash_order(self.bounded, self.dialect, *self.keys)
        )
        return exp.select(exp.Star(), alias(rank, RANK)).from_(self.pairs, copy=False)

    def _totals_of_pairs(self) -> list[SQL]:
        most = int_literal(self.bounded.max_rows)
        return [self._total(i, measure, self._cap(i, measure, most)) for i, measure in enumerate(self.bounded.totals)]

    def _cap(self, i: int, statistic: ScalarStatistic, most: SQL) -> SQL:
        match statistic:
            case RowCount():
                return least(column(ROWS), most.copy())
            case UnitCount():
                return int_literal(1)
            case ValueCount(value=value):
                return least(column(f"{self.values[value]}_n"), most.copy())
            case CentredSum(value=value):
                n, total = column(f"{self.values[value]}_n"), column(f"sum{i}")
                room = (
                    MAX_PRODUCT // self.bounded.max_rows
                )  # |total| is cut off here, so that the product fits 64 bits: it only shrinks
                inside = cast(clamp(total.copy(), int_literal(-room), int_literal(room)), exp.DType.BIGINT)
                scaled = self.dialect.divide(exp.Paren(this=exp.Mul(this=inside, expression=most.copy())), n.copy())
                over = exp.If(this=exp.GT(this=n, expression=most.copy()), true=scaled)
                # at most r rows, whose sum the span has shown to fit
                return exp.Case(ifs=[over], default=cast(total, exp.DType.BIGINT))
            case _:
                assert_never(statistic)

    def _totals_of_rows(self) -> list[SQL]:
        return [alias(self._total_over_rows(m), f"total{i}") for i, m in enumerate(self.bounded.totals)]

    def _total_over_rows(self, statistic: ScalarStatistic) -> SQL:
        match statistic:
            case RowCount() | UnitCount():
                return exp.Count(this=exp.Star())
            case ValueCount(value=value):
                return exp.Count(this=column(self.counted[value]))
            case CentredSum():
                return saturate(self._sum(statistic), self.dialect)
            case _:
                assert_never(statistic)

    def _total(self, i: int, statistic: ScalarStatistic, share: SQL) -> SQL:
        return alias(saturate(self.dialect.add(share, self.bounded.max_contribution(statistic)), self.dialect), f"total{i}")
