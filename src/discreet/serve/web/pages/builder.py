"""The builder: measure, by and where as selects that write the SQL, and the queries that a table suggests.

The server writes the SQL, so the builder works without scripts. Names and values are quoted as SQL has them; the text goes
through the same parser as any other.
"""

from dataclasses import dataclass

from discreet.query.ast import quote_name
from discreet.query.schema import Kind, Table
from discreet.serve.web.pages.words import format_bound

NUMBERS = (Kind.INTEGER, Kind.REAL)
ORDERS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry of a select."""

    value: str
    text: str


@dataclass(frozen=True, slots=True)
class Built:
    """What a person chose in the builder."""

    measure: str = "count"
    second: str = ""
    by: str = ""
    where: str = ""
    order: str = "="
    value: str = ""


def list_measures(table: Table) -> list[Choice]:
    """Return what can be measured: rows, units, and averages and sums of columns with bounds."""
    found = [Choice("count", "number of rows")]
    if not table.unique and len(table.unit_columns) == 1:
        found.append(Choice("units", f"number of different {table.unit}"))
    for name, column in table.columns.items():
        if column.kind in NUMBERS and column.number_bounds is not None and name not in table.unit_columns:
            found += [
                Choice(f"avg:{name}", f"average of {name}"), Choice(f"sum:{name}", f"sum of {name}"),
                Choice(f"median:{name}", f"median of {name}"),
            ]  # fmt: skip
    return found


def list_groups(table: Table) -> list[Choice]:
    """Return what rows can be grouped by without selecting keys privately first, then the rest."""
    found, rest = list[Choice](), list[Choice]()
    for name, column in table.columns.items():
        if name in table.unit_columns:
            continue
        if column.keys is not None or column.kind is Kind.BOOLEAN:
            found.append(Choice(f"col:{name}", name))
        elif column.kind is Kind.DATE or column.kind is Kind.TIMESTAMP:
            rest.append(Choice(f"year:{name}", f"year of {name}"))
        elif column.kind in NUMBERS and (bounds := column.number_bounds) is not None:
            width = max(1, round(float(bounds[1] - bounds[0]) / 10))
            rest.append(Choice(f"bin{width}:{name}", f"{name} in steps of {width:,}"))
        elif column.kind is Kind.TEXT:
            rest.append(Choice(f"col:{name}", f"{name} (keys are not declared: costs δ)"))
    return found + rest


def list_conditions(table: Table) -> list[Choice]:
    """Return the columns that rows can be chosen by."""
    return [Choice(name, name) for name in table.columns if name not in table.unit_columns]


def write_query(table: Table, built: Built) -> str:
    """Return the SQL of what was chosen; what is no choice is left out.

    >>> from discreet.query.schema import Column, Table
    >>> columns = {"id": Column(Kind.INTEGER), "dept": Column(Kind.TEXT).with_keys(("a", "b"))}
    >>> print(write_query(Table("people", "id", columns), Built(by="col:dept", where="dept", value="it's")))
    SELECT dept, COUNT(*) AS n
    FROM people
    WHERE dept = 'it''s'
    GROUP BY dept
    """
    measures = [_write_measure(table, each) for each in dict.fromkeys((built.measure or "count", built.second)) if each]
    group = _write_group(table, built.by)
    selected = [*([] if group is None else [group[0]]), *(each for each in measures if each)]
    lines = [f"SELECT {', '.join(selected)}", f"FROM {quote_name(table.name)}"]
    if condition := _write_condition(table, built):
        lines.append(f"WHERE {condition}")
    if group is not None:
        lines.append(f"GROUP BY {group[1]}")
    return "\n".join(lines)


def _write_measure(table: Table, measure: str) -> str:
    kind, _, name = measure.partition(":")
    if kind == "units" and len(table.unit_columns) == 1:
        return f"COUNT(DISTINCT {quote_name(table.unit_columns[0])}) AS units"
    if name not in table.columns:
        return "COUNT(*) AS n"
    words = {"avg": ("AVG", "mean"), "sum": ("SUM", "total"), "median": ("MEDIAN", "median")}
    function, prefix = words.get(kind, ("COUNT", "n"))
    return f"{function}({quote_name(name)}) AS {quote_name(f'{prefix}_{name}')}"


def _write_group(table: Table, by: str) -> tuple[str, str] | None:
    kind, _, name = by.partition(":")
    if name not in table.columns:
        return None
    quoted = quote_name(name)
    if kind == "year":
        alias = quote_name(f"year_{name}")
        return f"EXTRACT(year FROM {quoted}) AS {alias}", alias
    if kind.startswith("bin") and kind[3:].isdecimal():
        alias = quote_name(f"{name}_bin")
        return f"{quoted} // {int(kind[3:])} AS {alias}", alias
    return quoted, quoted


def _write_condition(table: Table, built: Built) -> str:
    column = table.columns.get(built.where)
    if column is None or not built.value.strip():
        return ""
    order, value = built.order if built.order in ORDERS else "=", built.value.strip()
    if column.kind in NUMBERS and _is_number(value):
        literal = value
    elif column.kind is Kind.BOOLEAN and value.lower() in ("true", "false"):
        literal = value.upper()
    else:
        literal = "'" + value.replace("'", "''") + "'"
    return f"{quote_name(built.where)} {order} {literal}"


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-").replace(".", "", 1)
    return digits.isascii() and digits.isdecimal()


def suggest_query(table: Table, column: str) -> str | None:
    """Return a query about one column: rows by it, or its average; None if its declarations allow neither."""
    by = next((each.value for each in list_groups(table) if each.value == f"col:{column}"), "")
    mean = next((each.value for each in list_measures(table) if each.value == f"avg:{column}"), "")
    return write_query(table, Built(by=by, second=mean)) if by or mean else None


def suggest_queries(table: Table) -> list[Choice]:
    """Return up to three queries that the declarations of a table suggest, each with what it asks in words."""
    by = next((each for each in list_groups(table) if each.value.startswith("col:") and "δ" not in each.text), None)
    numbers = [each for each in list_measures(table) if each.value.startswith("avg:")]
    key, behind = ("", "") if by is None else (by.value, f" by {by.text}")
    found = [Choice(write_query(table, Built(by=key)), f"How many rows are there{behind}?")]
    if numbers:
        first = numbers[-1]
        found.append(
            Choice(
                write_query(table, Built(measure="count", second=first.value, by=key)), f"What is the {first.text}{behind}?"
            )
        )
        name = numbers[0].value.partition(":")[2]
        bounds = table.columns[name].number_bounds
        if bounds is not None:
            middle = format_bound((bounds[0] + bounds[1]) // 2).replace(",", "")
            query = write_query(table, Built(where=name, order=">=", value=middle))
            found.append(Choice(query, f"How many rows have {name} of at least {middle}?"))
    return found
