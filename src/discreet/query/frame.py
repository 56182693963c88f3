"""Questions written in Python. They become the same `Query` as the SQL text, and nothing but that.

>>> from discreet import col, count, select, when
>>> grown_up = (col("age") >= 18) & col("dept").is_in(["a", "b"])
>>> asked = select(n=count(), mean=col("pay").mean(), p90=col("pay").quantile("0.9")).where(grown_up)
>>> asked = asked.group_by("dept", decade=col("age") // 10)
>>> asked = asked.select(late=when(col("age") > 60).then(1).otherwise(0).sum())
>>> [name for name, _ in asked.aggregates], [group.name for group in asked.groups]
(['n', 'mean', 'p90', 'late'], ['dept', 'decade'])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.edges import compute_edges
from discreet.query.expression import Condition, EvenHistogram, Expression, to_condition
from discreet.query.rename import resolve_columns
from discreet.query.scope import Scope
from discreet.query.table import Key, Table

AggregateLike: TypeAlias = plan.Aggregate | EvenHistogram


def count() -> plan.CountRows:
    """How many rows."""
    return plan.CountRows()


def count_units() -> plan.CountUnits:
    """How many people: COUNT(DISTINCT unit)."""
    return plan.CountUnits()


@dataclass(frozen=True, slots=True)
class Select:
    """A question in the making. Every step returns a new one."""

    aggregates: tuple[tuple[str, AggregateLike], ...] = ()
    condition: Condition | None = None
    groups: tuple[plan.Grouping, ...] = ()
    joins: tuple[plan.Join, ...] = ()

    def select(self, **aggregates: AggregateLike) -> "Select":
        """More columns of the answer, each by its name."""
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, AggregateLike):
                raise QueryRefused(
                    f"{name} is no aggregate", f"write {name}=count(), {name}=col(…).sum(), .mean(), .quantile(0.9) …"
                )
        return replace(self, aggregates=(*self.aggregates, *aggregates.items()))

    def where(self, *conditions: Condition | Expression) -> "Select":
        """Only rows of which all these conditions are true."""
        found = self.condition
        for condition in conditions:
            found = to_condition(condition) if found is None else found & condition
        return replace(self, condition=found)

    def group_by(
        self, *columns: str | Expression, keys: Mapping[str, Sequence[Key]] | None = None, **named: Expression
    ) -> "Select":
        """One row of the answer per key. `keys` lists, by the grouping's name, the keys that everybody knows."""
        found = [(_bare_name(_to_group_value(column, None)), column) for column in columns]
        new = [plan.Grouping(name, _to_group_value(value, name)) for name, value in (*found, *named.items())]
        for name, listed in (keys or {}).items():
            if isinstance(listed, str) or not isinstance(listed, Sequence):
                raise QueryRefused(f"the keys of {name} are no list", f'write keys={{"{name}": ["a", "b"]}}')
            if name not in [group.name for group in new]:
                raise QueryRefused(f"keys are given for {name}, which is not grouped by", "name a grouping of this call")
        new = [replace(group, keys=tuple(keys[group.name])) if keys and group.name in keys else group for group in new]
        return replace(self, groups=(*self.groups, *new))

    def join(self, table: str, *, on: str | tuple[str, str], left: bool = False) -> "Select":
        """Add the columns of a public table: `on` is the column that both have, or (the one here, the one there)."""
        ends = (on, on) if isinstance(on, str) else on
        if not isinstance(ends, tuple) or [type(end) for end in ends] != [str, str] or not isinstance(table, str):
            raise QueryRefused(
                "a join is by one column of either table", 'write join("cities", on="city"), or on=("home", "city")'
            )
        here, there = ends
        return replace(self, joins=(*self.joins, plan.Join(table, here, there, left)))

    def to_query(self, table: Table) -> plan.Query:
        """The question about this table, with every name resolved."""
        scope = Scope(table)
        for join in self.joins:
            scope = scope.with_join(replace(join, here=resolve_columns(plan.Ref(join.here), scope).column))
        where = None if self.condition is None else resolve_columns(self.condition.node, scope)
        aggregates = tuple((name, _resolve(aggregate, scope)) for name, aggregate in self.aggregates)
        groups = tuple(replace(group, value=resolve_columns(group.value, scope)) for group in self.groups)
        return plan.Query(table.name, aggregates, where, groups, scope.joins)


def select(**aggregates: AggregateLike) -> Select:
    """What is to be counted or added up, each by the name of its column in the answer."""
    return Select().select(**aggregates)


def _resolve(aggregate: AggregateLike, scope: Scope) -> plan.Aggregate:
    if isinstance(aggregate, EvenHistogram):
        value = resolve_columns(aggregate.value, scope)
        return plan.Histogram(value, compute_edges(value, aggregate.width, scope.table))
    return resolve_columns(aggregate, scope)


def _to_group_value(column: object, name: str | None) -> plan.Ref | plan.Bin:
    value = plan.Ref(column) if isinstance(column, str) else column.node if isinstance(column, Expression) else None
    if name is None and isinstance(value, plan.Bin):
        raise QueryRefused("a bin that is grouped by needs a name", 'write group_by(decade=col("age") // 10)')
    if not isinstance(value, plan.Ref | plan.Bin):
        raise QueryRefused("rows are grouped by a column or by column // width", 'write group_by("dept")')
    return value


def _bare_name(value: plan.Ref | plan.Bin) -> str:
    assert isinstance(value, plan.Ref)
    return value.column.rpartition(".")[2]
