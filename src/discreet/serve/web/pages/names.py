"""The names that a query may use: columns, functions and declared keys, each with the text that the editor inserts.

Without scripts they are lists to read. With scripts they are buttons, and they complete what is being typed.
"""

from dataclasses import dataclass
from datetime import date, datetime

from discreet.query.ast import quote_name
from discreet.query.schema import Key, Table

FUNCTIONS = (
    "COUNT(*)", "COUNT(DISTINCT )", "SUM()", "AVG()", "MEDIAN()", "QUANTILE(, 0.9)", "MIN()", "MAX()", "STDDEV()",
    "VARIANCE()", "HISTOGRAM(, 10)", "COVAR_POP(, )", "CORR(, )",
)  # fmt: skip
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")
MAX_KEYS = 100
"""Of one column. More are not a list that anybody reads."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it is read, and as SQL has it."""

    text: str
    inserted: str


@dataclass(frozen=True, slots=True)
class NameGroup:
    """Names of one kind."""

    title: str
    names: tuple[Name, ...]
    left_out: int = 0


def list_names(table: Table) -> list[NameGroup]:
    """Return the names that a query about a table may use."""
    columns = tuple(Name(name, quote_name(name)) for name in table.columns)
    functions = tuple(Name(each.partition("(")[0] if each != "COUNT(*)" else each, each) for each in FUNCTIONS)
    words = (*(Name(each, each) for each in CLAUSES), Name(table.name, quote_name(table.name)))
    groups = [NameGroup("Columns", columns), NameGroup("Functions", functions), NameGroup("Words", words)]
    for name, column in table.columns.items():
        if column.keys:
            keys = tuple(Name("NULL" if key is None else str(key), write_key(key)) for key in column.keys[:MAX_KEYS])
            groups.append(NameGroup(f"Keys of {name}", keys, len(column.keys) - len(keys)))
    return groups


def write_key(key: Key) -> str:
    """Return a declared key as SQL.

    >>> [write_key(each) for each in ("it's", 3, True, None, date(2024, 1, 2))]
    ["'it''s'", '3', 'TRUE', 'NULL', "DATE '2024-01-02'"]
    """
    if key is None:
        return "NULL"
    if isinstance(key, bool):
        return str(key).upper()
    if isinstance(key, int):
        return str(key)
    text = "'" + str(key).replace("'", "''") + "'"
    return f"TIMESTAMP {text}" if isinstance(key, datetime) else f"DATE {text}" if isinstance(key, date) else text
