"""A bounded question as one engine statement that returns group keys and exact integers, and nothing else.

    kept      rows of real units that pass WHERE, their keys and their values in grid steps
    pairs     one row per (unit, group): how many rows, how many values, their sums
    ranked    a unit's groups in the order of a salted hash of unit and group, ties broken by the key
    result    per group: the totals over units, each unit's share capped

Where the metadata proves that a unit has one row, `pairs` and `ranked` are left out.
"""

from typing import assert_never

from sqlglot import exp

from discreet.query import plan
from discreet.query.bound import Bounded
from discreet.query.measures import Rows, Scalar, Total, Units, Values
from discreet.query.span import ROOM
from discreet.sql.dialects import Dialect
from discreet.sql.rows import UNIT, by_hash, by_unit, kept_rows, key_names, listed_late, needs_rank, only_listed, own_names
from discreet.sql.values import SQL, Lowering, cast, clamp, column, least, named, saturated, whole

RANK, ROWS = "rank", "rows"


def lower(bounded: Bounded, source: exp.Expr, dialect: Dialect) -> exp.Select:
    """The statement for the totals of `bounded` over `source`, a table or a table function of the engine's own."""
    return _Statement(bounded, dialect).select(source)


class _Statement:
    def __init__(self, bounded: Bounded, dialect: Dialect) -> None:
        self.bounded, self.dialect, self.keys = bounded, dialect, key_names(bounded)
        self.write = Lowering(bounded.table, dialect)
        values = [m.value for m in bounded.scalars if isinstance(m, Values | Total)]
        self.values = {value: f"value{i}" for i, value in enumerate(dict.fromkeys(values))}
        self.summed = {m.value for m in bounded.scalars if isinstance(m, Total)}
        # What is counted is missing exactly where what is summed is: a unit's share is capped by that count (`_capped`).
        apart = {v for v in self.summed if dialect.repeats and isinstance(v, plan.Ref)}  # being there is cheap to find
        self.counted = {value: f"{name}_there" if value in apart else name for value, name in self.values.items()}
        self.kept, self.pairs, self.ranked = own_names(bounded, "kept", "pairs", "ranked")

    def select(self, source: exp.Expr) -> exp.Select:
        kept = self._kept(source)
        if self.bounded.table.unique:
            result = self._result(exp.select(*self._totals_of_rows()).from_(self.kept, copy=False)).with_(
                self.kept, as_=kept, copy=False
            )
            return only_listed(self.bounded, result) if listed_late(self.bounded) else result
        ranked = needs_rank(self.bounded)
        kept = by_unit(kept) if ranked and self.dialect.by_unit else kept
        result = exp.select(*self._totals_of_pairs()).from_(self.ranked if ranked else self.pairs, copy=False)
        if ranked:
            result = result.where(exp.LTE(this=column(RANK), expression=whole(self.bounded.groups)), copy=False)
        result = self._result(result).with_(self.kept, as_=kept, copy=False).with_(self.pairs, as_=self._pairs(), copy=False)
        return result.with_(self.ranked, as_=self._ranked(), copy=False) if ranked else result

    def _result(self, select: exp.Select) -> exp.Select:
        keys = [column(name) for name in self.keys]
        return (
            select.select(*keys, append=True, copy=False).group_by(*(key.copy() for key in keys), copy=False)
            if keys
            else select
        )

    def _kept(self, source: exp.Expr) -> exp.Select:
        steps = {name: self.write.steps(value) for value, name in self.values.items() if value in self.summed}
        steps |= {name: self.write.presence(value) for value, name in self.counted.items() if name not in steps}
        return kept_rows(self.bounded, source, self.write, steps)

    def _pairs(self) -> exp.Select:
        columns: list[SQL] = [column(UNIT), *(column(name) for name in self.keys)]
        counted = any(isinstance(measure, Rows) for measure in self.bounded.scalars)
        sums: list[SQL] = [named(exp.Count(this=exp.Star()), ROWS)] if counted else []
        for value, name in self.values.items():
            sums.append(named(exp.Count(this=column(self.counted[value])), f"{name}_n"))
        for i, measure in enumerate(self.bounded.scalars):
            if isinstance(measure, Total):
                sums.append(named(self._sum(measure), f"sum{i}"))
        return exp.select(*columns, *sums).from_(self.kept, copy=False).group_by(*(c.copy() for c in columns), copy=False)

    def _sum(self, measure: Total) -> SQL:
        """Σ(v − c) is Σv − c·n: engines then add up a value once, however many centres it is taken from."""
        if measure.power != 1 or measure.centre == 0:
            return self.dialect.add(self._power(measure), self.bounded.largest(measure) // self.bounded.rows)
        value = column(self.values[measure.value])
        centre = exp.cast(whole(measure.centre), self.dialect.wide, dialect=self.dialect.name)
        taken = exp.Mul(this=centre, expression=exp.Count(this=column(self.counted[measure.value])))
        return exp.Sub(this=self.dialect.add(value, self.bounded.span(measure).most), expression=taken)

    def _power(self, measure: Total) -> SQL:
        """(value − centre)^power; the span has shown that it fits."""
        value: SQL = column(self.values[measure.value])
        distance = exp.Paren(this=exp.Sub(this=value, expression=whole(measure.centre))) if measure.centre else value
        return distance if measure.power == 1 else exp.Mul(this=distance, expression=distance.copy())

    def _ranked(self) -> exp.Select:
        rank = exp.Window(
            this=exp.RowNumber(), partition_by=[column(UNIT)], order=by_hash(self.bounded, self.dialect, *self.keys)
        )
        return exp.select(exp.Star(), named(rank, RANK)).from_(self.pairs, copy=False)

    def _totals_of_pairs(self) -> list[SQL]:
        most = whole(self.bounded.rows)
        return [self._total(i, measure, self._capped(i, measure, most)) for i, measure in enumerate(self.bounded.totals)]

    def _capped(self, i: int, measure: Scalar, most: SQL) -> SQL:
        match measure:
            case Rows():
                return least(column(ROWS), most.copy())
            case Units():
                return whole(1)
            case Values(value=value):
                return least(column(f"{self.values[value]}_n"), most.copy())
            case Total(value=value):
                n, total = column(f"{self.values[value]}_n"), column(f"sum{i}")
                room = (
                    ROOM // self.bounded.rows
                )  # |total| is cut off here, so that the product fits 64 bits: it only shrinks
                inside = cast(clamp(total.copy(), whole(-room), whole(room)), exp.DType.BIGINT)
                scaled = self.dialect.divide(exp.Paren(this=exp.Mul(this=inside, expression=most.copy())), n.copy())
                over = exp.If(this=exp.GT(this=n, expression=most.copy()), true=scaled)
                # at most r rows, whose sum the span has shown to fit
                return exp.Case(ifs=[over], default=cast(total, exp.DType.BIGINT))
            case _:
                assert_never(measure)

    def _totals_of_rows(self) -> list[SQL]:
        return [named(self._over_rows(m), f"total{i}") for i, m in enumerate(self.bounded.totals)]

    def _over_rows(self, measure: Scalar) -> SQL:
        match measure:
            case Rows() | Units():
                return exp.Count(this=exp.Star())
            case Values(value=value):
                return exp.Count(this=column(self.counted[value]))
            case Total():
                return saturated(self._sum(measure), self.dialect)
            case _:
                assert_never(measure)

    def _total(self, i: int, measure: Scalar, share: SQL) -> SQL:
        return named(saturated(self.dialect.add(share, self.bounded.largest(measure)), self.dialect), f"total{i}")
