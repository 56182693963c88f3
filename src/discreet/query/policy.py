"""The policy: a table's declarations as TOML, which the steward writes and anyone may read.

A column that is not listed cannot be queried. Bounds are decimals, read exactly, or dates and times; keys are texts,
integers, truth values or dates.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

from discreet._numbers import check_positive
from discreet.errors import BadParameter
from discreet.query.schema import (
    DEFAULT_LEAST_EPSILON,
    DEFAULT_SALT,
    ROW,
    Column,
    Key,
    Kind,
    Table,
    read_unit,
    suggest_name,
)

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
_KINDS = ", ".join(kind.value for kind in Kind)
POLICY_HINT = "correct it, or write a new one with `discreet policy init`"


def read_policy(text: str, file: str = "") -> Table:
    """Return the table that a policy declares. An error names the `file` that holds it, if there is one, and the field.

    >>> read_policy('table = "people"\\nunit = "id"\\n[columns.id]\\nkind = "integer"').max_groups
    1
    """
    with _about_file(file):
        return _read_table(_load_toml(text))


def _read_table(policy: dict[str, Any]) -> Table:
    _check_fields(policy, TABLE_FIELDS, "")
    columns = policy.get("columns", {})
    if not isinstance(columns, dict) or not columns:
        raise make_policy_error("columns", "no column is declared", "add a table for each, such as [columns.id]")
    return Table(
        _read_text(policy, "table"),
        _read_unit(policy),
        {name: _read_column(name, fields) for name, fields in columns.items()},
        _read_limit(policy, "max_groups"),
        _read_limit(policy, "max_rows"),
        _read_bool(policy, "unique"),
        _read_text(policy, "salt") if "salt" in policy else DEFAULT_SALT,
        least_epsilon=_read_positive(policy, "least_epsilon") if "least_epsilon" in policy else DEFAULT_LEAST_EPSILON,
        adjusted_after_looking=_read_bool(policy, "adjusted_after_looking"),
    )


def read_public(text: str, file: str = "") -> dict[str, str]:
    """Return the paths of the public tables that a policy names; a path is relative to the policy.

    >>> read_public('[public]\\ncities = "cities.csv"')
    {'cities': 'cities.csv'}
    """
    with _about_file(file):
        public = _load_toml(text).get("public", {})
        if not isinstance(public, dict):
            raise make_policy_error("public", "not a table of names and paths", 'write [public] and cities = "cities.csv"')
        return {name: _read_text(public, name) for name in public}


def _load_toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:  # not TOML, or nothing that Python reads
        raise make_policy_error("", f"not TOML ({error})") from None


def write_policy(table: Table, *, template: bool = False) -> str:
    """Return the policy of a table as text. As a template it has comments that show what else can be declared."""
    lines = [f"table = {_format_string(table.name)}", f"unit = {_format_unit(table)}"]
    lines += ["# Contribution bounds: in how many groups one unit counts, and with how many rows in each."] * template
    lines += [f"max_groups = {table.max_groups}", f"max_rows = {table.max_rows}"]
    lines += ["# true only if no unit ever has two rows: contributions are not bounded then."] * template
    lines += [f"unique = {json.dumps(table.unique)}"]
    lines += ["# Decides which groups and rows of a unit count. Keep it secret, and do not change it later."] * template
    lines += [f"salt = {_format_string(table.salt)}"]
    lines += ["# The least ε of a query: how long a query runs depends on the data, so none may be nearly free."] * template
    lines += [f"least_epsilon = {_format_number(table.least_epsilon, 'least_epsilon')}"]
    if template or table.adjusted_after_looking:
        lines += ["# true if bounds, keys or limits were changed because of what the data hold."] * template
        lines.append(f"adjusted_after_looking = {json.dumps(table.adjusted_after_looking)}")
    kinds = ["", f"# A kind is one of {_KINDS}.", "# A cell of a CSV file that is not of its kind, such as NA, is missing."]
    lines += kinds * template
    for name, column in table.columns.items():
        lines += ["", f"[columns.{_format_string(name)}]", f"kind = {_format_string(column.kind.value)}"]
        lines += _format_bounds(column)
        if template and name not in table.unit_columns:
            lines += _format_hints(column)
    return "\n".join(lines) + "\n"


def make_policy_error(field: str, reason: str, hint: str = POLICY_HINT, file: str = "") -> BadParameter:
    """Return the error of a wrong field in a policy."""
    return BadParameter("policy", field, reason, hint, is_field=True, file=file)


def _format_bounds(column: Column) -> list[str]:
    lines = []
    if column.lower is not None and column.upper is not None:
        lines += [f"lower = {_format_bound(column.lower)}", f"upper = {_format_bound(column.upper)}"]
    if column.keys is not None:
        lines.append(f"keys = [{', '.join(_format_key(key) for key in column.keys if key is not None)}]")
        lines += ["null_key = true"] if None in column.keys else []
    return lines


def _format_hints(column: Column) -> list[str]:
    hints = []
    if column.kind in (Kind.INTEGER, Kind.REAL) and column.lower is None:
        hints += ["# lower = 0     # values are clipped to the bounds; never take them from the data", "# upper = 100"]
    if column.kind in (Kind.DATE, Kind.TIMESTAMP) and column.lower is None:
        hints += ["# lower = 2024-01-01     # years and months between the bounds are group keys", "# upper = 2024-12-31"]
    if column.kind is Kind.TEXT and column.keys is None:
        hints.append('# keys = ["a", "b"]     # every key that an answer may show')
    return hints


def _read_column(name: str, fields: Any) -> Column:
    if not isinstance(fields, dict):
        raise make_policy_error(f"columns.{name}", "not a table of fields", f"write [columns.{name}] and its kind below it")
    _check_fields(fields, COLUMN_FIELDS, f"columns.{name}.")
    if "kind" not in fields:
        hint = f'write kind = "integer", or one of {_KINDS}'
        raise make_policy_error(f"columns.{name}", "no kind is declared", hint)
    try:
        column = Column(Kind(fields.get("kind")))
    except ValueError:
        kinds, given = [kind.value for kind in Kind], fields.get("kind")
        raise make_policy_error(f"columns.{name}.kind", f"{given!r} is not a kind", suggest_name(given, kinds)) from None
    if ("lower" in fields) != ("upper" in fields):
        raise make_policy_error(f"columns.{name}", "one bound without the other", "declare both, or none")
    if "lower" in fields:
        with _about_field(name):
            column = column.with_bounds(fields["lower"], fields["upper"])
    keys = fields.get("keys")
    if keys is None:
        return column
    if not isinstance(keys, list):
        raise make_policy_error(
            f"columns.{name}.keys", f"not a list of {column.kind.value} values", 'write keys = ["a", "b"]'
        )
    with _about_field(name):
        return column.with_keys((*keys, None) if _read_bool(fields, "null_key") else tuple(keys))


@contextmanager
def _about_field(name: str) -> Iterator[None]:
    """Name the column of the policy in the errors that its bounds or keys raise."""
    try:
        yield
    except BadParameter as error:
        raise make_policy_error(f"columns.{name}", f"{error.name} = {error.value}: {error.reason}", error.hint) from None


@contextmanager
def _about_file(file: str) -> Iterator[None]:
    """Name the file and the field of a policy in the errors that it raises. What was wrong as a parameter of Python is a
    field of the policy here."""
    try:
        yield
    except BadParameter as error:
        is_ours = error.name == "policy"
        field, reason = (error.value, error.reason) if is_ours else (error.name, f"{error.value}: {error.reason}")
        raise make_policy_error(str(field), reason, error.hint, file) from None


def _check_fields(fields: dict[str, Any], allowed: set[str], prefix: str) -> None:
    for field in fields:
        if field not in allowed:
            raise make_policy_error(f"{prefix}{field}", "no such field", suggest_name(field, sorted(allowed)))


def _read_text(fields: dict[str, Any], field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str) or not value:
        raise make_policy_error(field, "missing, or not a text", f'write {field} = "…"')
    return value


def _read_unit(policy: dict[str, Any]) -> str:
    """Return the words of the unit: a text, or a list of texts for several columns."""
    unit = policy.get("unit")
    if isinstance(unit, list) and unit and all(isinstance(name, str) and name for name in unit):
        return read_unit(unit)
    return read_unit(_read_text(policy, "unit"))


def _format_unit(table: Table) -> str:
    columns = table.unit_columns
    if len(columns) == 1 and columns[0] != ROW:
        return _format_string(columns[0])
    return f"[{', '.join(map(_format_string, columns))}]" if columns else _format_string(ROW)


def _read_positive(fields: dict[str, Any], field: str) -> Fraction:
    value = fields[field]
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise make_policy_error(field, "not a number above 0", f"write {field} = 0.001")
    return check_positive(value, field)


def _read_limit(policy: dict[str, Any], field: str) -> int:
    value = policy.get(field, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        shown = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str, ensure_ascii=False)
        raise make_policy_error(field, f"{shown} is not a whole number of at least 1", f"write {field} = 1")
    return value


def _read_bool(fields: dict[str, Any], field: str) -> bool:
    value = fields.get(field, False)
    if not isinstance(value, bool):
        raise make_policy_error(field, "neither true nor false", f"write {field} = true, or leave it out")
    return value


def _format_string(text: str) -> str:
    """Return a basic string of TOML. JSON's strings are such, but for the character 127."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_bound(bound: Any) -> str:
    return _format_number(bound, "bounds") if isinstance(bound, Fraction) else str(bound.isoformat())


def _format_number(exact: Fraction, field: str) -> str:
    """Return the exact decimal; a number that has none of 28 digits is refused."""
    if exact.denominator == 1:
        return str(exact.numerator)
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
    if Fraction(decimal) != exact:
        raise make_policy_error(field, f"{exact} is not a decimal of at most 28 digits", "declare a shorter decimal")
    return f"{decimal:f}"


def _format_key(key: Key) -> str:
    if isinstance(key, str):
        return _format_string(key)
    if isinstance(key, bool):
        return json.dumps(key)
    return str(key) if isinstance(key, int) else key.isoformat() if key is not None else ""
