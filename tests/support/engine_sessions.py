"""Queries that every engine is tested with: exact totals of a table, and counts of the same 900 people."""

from typing import Any

from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Table
from discreet.session.session import Session
from discreet.units import Neighbours

DECLARED: dict[str, Any] = {
    "unit": "id", "epsilon": 10**6, "keys": {"dept": ("a", "b")}, "unique": True, "bounds": {"pay": (0, 100)},
}  # fmt: skip
COUNT_BY_DEPT = "SELECT dept, COUNT(*) AS n FROM {} GROUP BY dept"


def read_totals(engine: Any, sql: str, **declared: Any) -> dict[Any, Any]:
    """Return the exact totals of a query, by keys."""
    columns = engine.describe_columns()
    for name, ends in declared.pop("bounds", {}).items():
        columns[name] = columns[name].with_bounds(*ends)
    table = Table(engine.table, declared.pop("unit", "uid"), columns, **declared)
    bounded = bound_contributions(parse_sql(sql, table), table, Neighbours.ADD_REMOVE)
    return {keys: totals for totals, keys in engine.read_totals(bounded)}


def count_by_dept(session: Session, table: str = "people") -> dict[Any, int]:
    """Return the counts by department, almost without noise."""
    answer = session.ask(COUNT_BY_DEPT.format(table), epsilon=1000, fresh=True)
    return {keys[0]: int(row[0].value) for keys, row in answer.rows}
