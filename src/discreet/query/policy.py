"""A table's declarations as TOML: what a steward writes once and everybody may read.

Whatever is not listed cannot be asked about. Bounds are decimals, read exactly; keys are texts, whole numbers, truth
values or dates.
"""

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from discreet.errors import BadParameter
from discreet.exact import positive, whole
from discreet.query.table import LEAST_EPSILON, SALT, Column, Key, Kind, Table

TABLE_FIELDS = {
    "table",
    "unit",
    "max_groups",
    "max_rows",
    "unique",
    "salt",
    "least_epsilon",
    "adjusted_after_looking",
    "columns",
    "public",
}
COLUMN_FIELDS = {"kind", "lower", "upper", "keys", "null_key"}


def read_policy(text: str) -> Table:
    """The declared table.

    >>> read_policy('table = "people"\\nunit = "id"\\n[columns.id]\\nkind = "integer"').max_groups
    1
    """
    policy = _loaded(text)
    _only(policy, TABLE_FIELDS, "the policy")
    columns = policy.get("columns", {})
    if not isinstance(columns, dict) or not columns:
        raise wrong("columns", "no column is declared")
    return Table(
        _text(policy, "table"),
        _text(policy, "unit"),
        {name: _column(name, fields) for name, fields in columns.items()},
        whole(policy.get("max_groups", 1), "max_groups", 1),
        whole(policy.get("max_rows", 1), "max_rows", 1),
        _truth(policy, "unique"),
        _text(policy, "salt") if "salt" in policy else SALT,
        least_epsilon=_positive(policy, "least_epsilon") if "least_epsilon" in policy else LEAST_EPSILON,
        adjusted_after_looking=_truth(policy, "adjusted_after_looking"),
    )


def read_public(text: str) -> dict[str, str]:
    """Where the policy says that public tables to join to are, by name; a path is relative to the policy.

    >>> read_public('[public]\\ncities = "cities.csv"')
    {'cities': 'cities.csv'}
    """
    public = _loaded(text).get("public", {})
    if not isinstance(public, dict):
        raise wrong("public", "not a table of names and paths")
    return {name: _text(public, name) for name in public}


def _loaded(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as mistake:  # not TOML, or a number that Python does not read
        raise wrong("text", f"not TOML ({mistake})") from None


def write_policy(table: Table, *, template: bool = False) -> str:
    """The same as text. As a template it has comments that show what may still be declared."""
    lines = [f"table = {_quoted(table.name)}", f"unit = {_quoted(table.unit)}"]
    lines += ["# How much one unit may count for: in how many groups, and by how many rows in each."] * template
    lines += [f"max_groups = {table.max_groups}", f"max_rows = {table.max_rows}"]
    lines += ["# true only if no unit ever has two rows: nothing is bounded then."] * template
    lines += [f"unique = {json.dumps(table.unique)}", f"salt = {_quoted(table.salt)}"]
    lines += ["# The least ε of a query. How long a query runs depends on the data, so none may be nearly free."] * template
    lines += [f"least_epsilon = {_number(table.least_epsilon, 'least_epsilon')}"]
    if template or table.adjusted_after_looking:
        lines += ["# true if bounds, keys or limits were changed because of what the data hold."] * template
        lines.append(f"adjusted_after_looking = {json.dumps(table.adjusted_after_looking)}")
    for name, column in table.columns.items():
        lines += ["", f"[columns.{_quoted(name)}]", f"kind = {_quoted(column.kind.value)}"]
        lines += _bounds(column)
        if template and name != table.unit:
            lines += _hints(column)
    return "\n".join(lines) + "\n"


def wrong(field: str, reason: str) -> BadParameter:
    """What is wrong with a policy."""
    return BadParameter("policy", field, reason, "see docs/asking.md, or write a new one with `discreet policy init`")


def _bounds(column: Column) -> list[str]:
    lines = []
    if column.lower is not None and column.upper is not None:
        lines += [f"lower = {_number(column.lower, 'bounds')}", f"upper = {_number(column.upper, 'bounds')}"]
    if column.keys is not None:
        lines.append(f"keys = [{', '.join(_key(key) for key in column.keys if key is not None)}]")
        lines += ["null_key = true"] if None in column.keys else []
    return lines


def _hints(column: Column) -> list[str]:
    hints = []
    if column.kind in (Kind.INTEGER, Kind.REAL) and column.lower is None:
        hints += ["# lower = 0     # values are clamped to these; never read them off the data", "# upper = 100"]
    if column.kind is Kind.TEXT and column.keys is None:
        hints.append('# keys = ["a", "b"]     # every key that may be shown')
    return hints


def _column(name: str, fields: Any) -> Column:
    if not isinstance(fields, dict):
        raise wrong(f"columns.{name}", "not a table of fields")
    _only(fields, COLUMN_FIELDS, f"column {name}")
    try:
        column = Column(Kind(fields.get("kind")))
    except ValueError:
        raise wrong(f"columns.{name}.kind", f"not one of {', '.join(kind.value for kind in Kind)}") from None
    if ("lower" in fields) != ("upper" in fields):
        raise wrong(f"columns.{name}", "one bound without the other")
    if "lower" in fields:
        column = column.within(fields["lower"], fields["upper"])
    keys = fields.get("keys")
    if keys is None:
        return column
    if not isinstance(keys, list):
        raise wrong(f"columns.{name}.keys", f"not a list of {column.kind.value} values")
    return column.shown_as((*keys, None) if _truth(fields, "null_key") else tuple(keys))


def _only(found: dict[str, Any], allowed: set[str], where: str) -> None:
    for field in found:
        if field not in allowed:
            raise wrong(field, f"{where} has no such field (it may have {', '.join(sorted(allowed))})")


def _text(found: dict[str, Any], field: str) -> str:
    value = found.get(field)
    if not isinstance(value, str) or not value:
        raise wrong(field, "a text is needed here")
    return value


def _positive(found: dict[str, Any], field: str) -> Fraction:
    value = found[field]
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong(field, "a number above 0 is needed here")
    return positive(value, field)


def _truth(found: dict[str, Any], field: str) -> bool:
    value = found.get(field, False)
    if not isinstance(value, bool):
        raise wrong(field, "true or false is needed here")
    return value


def _quoted(text: str) -> str:
    """A basic string of TOML, which JSON's strings are, but for the character 127."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(exact: Fraction, field: str) -> str:
    """Exactly, as a decimal; a number that is no short decimal was not typed by anybody, and is refused."""
    if exact.denominator == 1:
        return str(exact.numerator)
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
    if Fraction(decimal) != exact:
        raise wrong(field, f"{exact} is no decimal of at most 28 digits")
    return f"{decimal:f}"


def _key(key: Key) -> str:
    if isinstance(key, str):
        return _quoted(key)
    if isinstance(key, bool):
        return json.dumps(key)
    return str(key) if isinstance(key, int) else key.isoformat() if key is not None else ""
