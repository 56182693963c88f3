"""A local session over invented rows, whose answers say that they describe no person."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
from numpy.typing import NDArray

from discreet.accounting.currencies import Filter, create_budget
from discreet.ledger.memory import MemoryAccount
from discreet.query.schema import Kind, Table
from discreet.remote.invented import invent_columns
from discreet.session.connect import open_session
from discreet.session.options import SourceOptions
from discreet.session.session import Session

INVENTED_NOTE = "The rows are invented from the policy and a seed: they describe no person."
DEFAULT_BUDGET = create_budget(1000, Fraction(1, 10**6))


def invent_session(
    table: Table, rows: int = 1000, seed: int = 0, *, budget: Filter = DEFAULT_BUDGET, delta: Fraction = Fraction(1, 10**6),
    neighbours: Any = "add-remove",
) -> Session:  # fmt: skip
    """Return a local session over invented rows, whose answers say so. Its budget lives as long as the session.

    Public tables cannot be joined to: their rows are not part of the policy.
    """
    alone, connection = replace(table, public={}), duckdb.connect()
    given: dict[str, NDArray[Any]] = {}
    selected = []
    for i, (name, column) in enumerate(invent_columns(alone, rows, seed).items()):
        given |= {f"v{i}": column.values, f"n{i}": column.is_null}
        quoted = '"' + name.replace('"', '""') + '"'
        selected.append(f"CASE WHEN NOT n{i} THEN {_SQL[column.kind].format(f'v{i}')} END AS {quoted}")
    place = '"' + table.name.replace('"', '""') + '"'
    connection.register("given", given)
    connection.execute(f"CREATE TABLE {place} AS SELECT {', '.join(selected)} FROM given")
    connection.unregister("given")
    options = SourceOptions(source=connection, policy=alone, table=table.name, neighbours=neighbours)
    session = open_session(options, MemoryAccount(budget), delta)
    ungrouped = session.list_notes(grouped=False)
    return replace(session, notes=(INVENTED_NOTE, *session.notes), ungrouped_notes=(INVENTED_NOTE, *ungrouped))


_SQL = {
    Kind.INTEGER: "{}::BIGINT", Kind.REAL: "{}::DOUBLE", Kind.BOOLEAN: "{}::BOOLEAN", Kind.TEXT: "{}::VARCHAR",
    Kind.DATE: "DATE '1970-01-01' + {}::INTEGER", Kind.TIMESTAMP: "make_timestamp({}::BIGINT)",
}  # fmt: skip
