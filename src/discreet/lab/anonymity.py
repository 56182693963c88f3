"""k-anonymity: the size of the smallest group, and what two tables that have it say all the same [GKS08; S4, figs. 1, 2].

A table is k-anonymous in some columns if every combination of their values that occurs occurs at least k times. That says
nothing about the other columns: a group whose members share one condition reveals it, and a condition that is not in the
table is excluded for everyone in it (`find_leaks`). The attack that uses two tables is `attacks.intersection`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadParameter

Row = Mapping[str, str]
QUASI_IDENTIFIERS = ("zip", "age", "nationality")
"""What an attacker may know from elsewhere."""
ALICE = {"zip": "13012", "age": 28}


def _table(*groups: tuple[str, str]) -> tuple[Row, ...]:
    rows = [(age, condition.strip()) for age, conditions in groups for condition in conditions.split(",")]
    return tuple({"zip": "130**", "age": age, "nationality": "*", "condition": condition} for age, condition in rows)


FOUR_ANONYMOUS = _table(
    ("<30", "AIDS, Heart disease, Viral infection, Viral infection"),
    ("3*", "Cancer, Cancer, Cancer, Cancer"),
    ("≥40", "Cancer, Heart disease, Viral infection, Viral infection"),
)
SIX_ANONYMOUS = _table(
    ("<35", "AIDS, Tuberculosis, Flu, Tuberculosis, Cancer, Cancer"),
    ("≥35", "Cancer, Cancer, Cancer, Tuberculosis, Viral infection, Viral infection"),
)
CONDITIONS = ("AIDS", "Cancer", "Flu", "Heart disease", "Tuberculosis", "Viral infection")


def covers(generalized: str, known: object) -> bool:
    """Whether a generalised value can stand for a known one: "3*" for 34, "<30" for 28, "130**" for 13012.

    >>> covers("<30", 28), covers("3*", 28), covers("130**", "13012"), covers("≥40", 40)
    (True, False, True, True)
    """
    if generalized[0] in "<≥":
        bound, age = int(generalized[1:]), int(str(known))
        return age < bound if generalized[0] == "<" else age >= bound
    text = str(known)
    same = all(a in ("*", b) for a, b in zip(generalized, text, strict=False))
    return generalized == "*" or (len(generalized) == len(text) and same)


def candidates(table: Sequence[Row], person: Mapping[str, object]) -> set[str]:
    """Return the conditions of all people in the table who could be this person.

    >>> sorted(candidates(FOUR_ANONYMOUS, ALICE) & candidates(SIX_ANONYMOUS, ALICE))
    ['AIDS']
    """
    return {row["condition"] for row in table if all(covers(row[name], known) for name, known in person.items())}


POSSIBLE = (*CONDITIONS, "Broken leg")
"""What a hospital treats: more than occurs in its table."""


@dataclass(frozen=True, slots=True)
class TableLeaks:
    """What a single k-anonymous table says for certain."""

    same_in_group: dict[tuple[str, ...], str]
    """Groups whose members all have one condition."""
    absent: tuple[str, ...]
    """Conditions that no one in the table has."""


def find_leaks(table: Sequence[Row], possible: Sequence[str] = POSSIBLE) -> TableLeaks:
    """Return what the table alone says for certain [S4]: everyone in their thirties has cancer, no one a broken leg.

    >>> find_leaks(FOUR_ANONYMOUS)
    TableLeaks(same_in_group={('130**', '3*', '*'): 'Cancer'}, absent=('Flu', 'Tuberculosis', 'Broken leg'))
    """
    groups: dict[tuple[str, ...], set[str]] = {}
    for row in table:
        groups.setdefault(tuple(row[name] for name in QUASI_IDENTIFIERS), set()).add(row["condition"])
    certain = {group: next(iter(found)) for group, found in groups.items() if len(found) == 1}
    present = set().union(*groups.values())
    return TableLeaks(certain, tuple(condition for condition in possible if condition not in present))


# -- the size of groups ---------------------------------------------------------------------------------------------------

TABLE_HINT = "give a list of dicts, a dict of columns, or a pandas, Polars or Arrow table"


def k_anonymity(table: Any, columns: Sequence[str]) -> int:
    """Return the size of the smallest group of rows that agree in `columns`; missing values agree with each other.

    The table is a sequence of mappings, or anything with columns: a dict of lists, a pandas, Polars or Arrow table.

    >>> ward = [{"zip": "130**", "age": "<30"}] * 4 + [{"zip": "130**", "age": "3*"}] * 5
    >>> k_anonymity(ward, ["zip", "age"]), k_anonymity(ward, ["zip"])
    (4, 9)
    """
    return min(group_sizes(table, columns).values())


def group_sizes(table: Any, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Return how many rows have each combination of values that occurs.

    >>> group_sizes({"age": ["<30", "<30", "3*"]}, ["age"])
    {('<30',): 2, ('3*',): 1}
    """
    names = _check_columns(columns)
    values = [[_normalize_missing(value) for value in column] for column in _extract_columns(table, names)]
    if len({len(column) for column in values}) != 1:
        raise BadParameter("table", "ragged", "its columns differ in length", TABLE_HINT)
    try:
        sizes = Counter(zip(*values, strict=True))
    except TypeError:
        raise BadParameter(
            "columns", names, "one holds lists or other containers", "choose columns of plain values"
        ) from None
    if not sizes:
        raise BadParameter("table", "empty", "it has no group", "give a table with rows")
    return dict(sizes)


def _check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise BadParameter("columns", repr(columns), "not a list of names", 'give, for example, ["zip", "age"]')
    names = tuple(columns)
    if not names:
        raise BadParameter("columns", "empty", "without a column all rows are one group", "name what an attacker may know")
    return names


def _extract_columns(table: Any, names: tuple[str, ...]) -> list[Iterable[Any]]:
    if isinstance(table, Mapping):
        known: list[Any] = list(table)
    elif hasattr(table, "columns"):
        known = list(getattr(table, "column_names", table.columns))
    elif isinstance(table, Sequence) and not isinstance(table, str | bytes) and all(isinstance(r, Mapping) for r in table):
        return [[_get_field(row, name, number) for number, row in enumerate(table, 1)] for name in names]
    else:
        raise BadParameter("table", f"a {type(table).__name__}", "neither rows nor columns", TABLE_HINT)
    for name in names:
        if name not in known:
            raise _unknown_column(name, known)
    return [_to_list(table[name]) for name in names]


def _to_list(column: Any) -> Iterable[Any]:
    for method in ("to_pylist", "tolist", "to_list"):  # Arrow, pandas, Polars
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise BadParameter("table", f"a dict of {type(column).__name__}", "a column is a list of values", TABLE_HINT)
    return list(column)


def _get_field(row: Mapping[str, Any], name: str, number: int) -> Any:
    if name not in row:
        raise BadParameter("columns", repr(name), f"row {number} has no such field", f"it has {', '.join(map(str, row))}")
    return row[name]


def _unknown_column(name: str, known: list[Any]) -> BadParameter:
    return BadParameter("columns", repr(name), "the table has no such column", f"it has {', '.join(map(str, known))}")


def _normalize_missing(value: Any) -> Any:
    """Replace None, NaN, NaT and NA, which differ from themselves, by None."""
    try:
        return None if value is None or bool(value != value) else value
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return None
    except ValueError:
        return value
