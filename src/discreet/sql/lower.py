"""A bounded question as one engine statement that returns group keys and exact integers, and nothing else.

    kept      rows of real units that pass WHERE, their keys and their values in grid steps; unlisted keys are dropped here
    pairs     one row per (unit, group): how many rows, how many values, their sums
    ranked    a unit's groups in the order of a salted hash of unit and group, ties broken by the key
    result    per group: the totals over units, each unit's share capped

Where the metadata proves that a unit has one row, `pairs` and `ranked` are left out.
"""

from typing import assert_never

from sqlglot import exp

from discreet.query import plan
from discreet.query.bound import Bounded, Measure, Rows, Total, Units, Values
from discreet.sql.dialects import Dialect
from discreet.sql.values import SOURCE, SQL, Lowering, column, constant, declared_column, least, whole

UNIT, RANK, ROWS = "unit", "rank", "rows"


def lower(bounded: Bounded, source: exp.Expr, dialect: Dialect) -> exp.Select:
    """The statement for `bounded` over `source`, a table or a table function of the engine's own."""
    return _Statement(bounded, dialect).select(source)


class _Statement:
    def __init__(self, bounded: Bounded, dialect: Dialect) -> None:
        self.bounded, self.dialect = bounded, dialect
        self.write = Lowering(bounded.table, dialect)
        self.keys = [f"key{i}" for i in range(len(bounded.query.groups))]
        values = [m.value for m in bounded.measures if isinstance(m, Values | Total)]
        self.values = {value: f"value{i}" for i, value in enumerate(dict.fromkeys(values))}
        self.summed = {m.value for m in bounded.measures if isinstance(m, Total)}
        taken = bounded.table.name.lower()  # a step must not hide the table that it reads
        self.kept, self.pairs, self.ranked = (f"{n}_" if n == taken else n for n in ("kept", "pairs", "ranked"))

    def select(self, source: exp.Expr) -> exp.Select:
        kept = self._kept(source)
        if self.bounded.table.unique:
            return self._result(exp.select(*self._totals_of_rows()).from_(self.kept)).with_(self.kept, as_=kept)
        ranked = self._needs_rank()
        result = exp.select(*self._totals_of_pairs()).from_(self.ranked if ranked else self.pairs)
        if ranked:
            result = result.where(exp.LTE(this=column(RANK), expression=whole(self.bounded.groups)))
        result = self._result(result).with_(self.kept, as_=kept).with_(self.pairs, as_=self._pairs())
        return result.with_(self.ranked, as_=self._ranked()) if ranked else result

    def _needs_rank(self) -> bool:
        keys = self.bounded.keys
        return bool(self.keys) and (keys is None or len(keys) > self.bounded.groups)

    def _result(self, select: exp.Select) -> exp.Select:
        keys = [column(name) for name in self.keys]
        return select.select(*keys, append=True).group_by(*(key.copy() for key in keys)) if keys else select

    def _kept(self, source: exp.Expr) -> exp.Select:
        table, query = self.bounded.table, self.bounded.query
        keys = [self.write.key(group.value) for group in query.groups]
        columns = [exp.alias_(declared_column(table.unit), UNIT, quoted=True)]
        columns += [exp.alias_(key, name, quoted=True) for key, name in zip(keys, self.keys, strict=True)]
        for value, name in self.values.items():
            steps = self.write.steps(value) if value in self.summed else self.write.presence(value)
            columns.append(exp.alias_(steps, name, quoted=True))
        rows = exp.select(*columns).from_(exp.alias_(source, SOURCE, table=True, quoted=True))
        rows = rows.where(exp.Not(this=exp.Is(this=declared_column(table.unit), expression=exp.Null())))
        if query.where is not None:
            rows = rows.where(self.write.condition(query.where))
        return self._listed(rows, keys)

    def _listed(self, rows: exp.Select, keys: list[SQL]) -> exp.Select:
        if self.bounded.keys is None:
            return rows
        for i, (group, key) in enumerate(zip(self.bounded.query.groups, keys, strict=True)):
            if group.keys is None and isinstance(group.value, plan.Bin):  # every bin between the bounds is listed
                rows = rows.where(exp.Not(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
                continue
            known = dict.fromkeys(combination[i] for combination in self.bounded.keys)
            named = [constant(k) for k in known if k is not None]
            tests: list[SQL] = [exp.In(this=key.copy(), expressions=named)] if named else []
            if None in known:
                tests.append(exp.Is(this=key.copy(), expression=exp.Null()))
            rows = rows.where(exp.Paren(this=exp.or_(*tests)))
        return rows

    def _pairs(self) -> exp.Select:
        columns: list[SQL] = [column(UNIT), *(column(name) for name in self.keys)]
        sums: list[SQL] = [exp.alias_(exp.Count(this=exp.Star()), ROWS, quoted=True)]
        for name in self.values.values():
            sums.append(exp.alias_(exp.Count(this=column(name)), f"{name}_n", quoted=True))
        for i, measure in enumerate(self.bounded.measures):
            if isinstance(measure, Total):
                sums.append(exp.alias_(exp.Sum(this=self._power(measure)), f"sum{i}", quoted=True))
        return exp.select(*columns, *sums).from_(self.kept).group_by(*(c.copy() for c in columns))

    def _power(self, measure: Total) -> SQL:
        """(value − centre)^power; the span has shown that it fits."""
        distance = exp.Paren(this=exp.Sub(this=column(self.values[measure.value]), expression=whole(measure.centre)))
        return distance if measure.power == 1 else exp.Mul(this=distance, expression=distance.copy())

    def _ranked(self) -> exp.Select:
        keys = [column(name) for name in self.keys]
        order = exp.Order(expressions=[exp.Ordered(this=self._hash()), *(exp.Ordered(this=key) for key in keys)])
        rank = exp.Window(this=exp.RowNumber(), partition_by=[column(UNIT)], order=order)
        return exp.select(exp.Star(), exp.alias_(rank, RANK, quoted=True)).from_(self.pairs)

    def _hash(self) -> SQL:
        """md5 of salt, unit and group, each part preceded by its length so that no two inputs run together."""
        salt = self.bounded.table.salt
        parts: list[SQL] = [
            exp.Literal.string(f"{len(salt)}:{salt}"),
            self._sized(UNIT),
            *(self._sized(k) for k in self.keys),
        ]
        text = parts[0]
        for part in parts[1:]:
            text = exp.DPipe(this=text, expression=part)
        return exp.func("md5", text)

    def _sized(self, name: str) -> SQL:
        text = exp.cast(column(name), exp.DataType.Type.VARCHAR)
        size = exp.cast(exp.Length(this=text.copy()), exp.DataType.Type.VARCHAR)
        sized = exp.DPipe(this=exp.DPipe(this=size, expression=exp.Literal.string(":")), expression=text)
        missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=exp.Literal.string("-"))
        return exp.Case(ifs=[missing], default=sized)

    def _totals_of_pairs(self) -> list[SQL]:
        most = whole(self.bounded.rows)
        return [self._total(i, self._capped(i, measure, most)) for i, measure in enumerate(self.bounded.totals)]

    def _capped(self, i: int, measure: Measure, most: SQL) -> SQL:
        match measure:
            case Rows():
                return least(column(ROWS), most.copy())
            case Units():
                return whole(1)
            case Values(value=value):
                return least(column(f"{self.values[value]}_n"), most.copy())
            case Total(value=value):
                n, total = column(f"{self.values[value]}_n"), column(f"sum{i}")
                scaled = self.dialect.divide(exp.Paren(this=exp.Mul(this=total.copy(), expression=most.copy())), n.copy())
                over = exp.If(this=exp.GT(this=n, expression=most.copy()), true=scaled)
                return exp.Case(ifs=[over], default=total)
            case _:
                assert_never(measure)

    def _totals_of_rows(self) -> list[SQL]:
        return [self._total(i, self._of_row(measure)) for i, measure in enumerate(self.bounded.totals)]

    def _of_row(self, measure: Measure) -> SQL:
        match measure:
            case Rows() | Units():
                return whole(1)
            case Values(value=value):
                present = exp.Not(this=exp.Is(this=column(self.values[value]), expression=exp.Null()))
                return exp.Case(ifs=[exp.If(this=present, true=whole(1))], default=whole(0))
            case Total():
                return self._power(measure)
            case _:
                assert_never(measure)

    def _total(self, i: int, share: SQL) -> SQL:
        return exp.alias_(exp.Sum(this=share), f"total{i}", quoted=True)
