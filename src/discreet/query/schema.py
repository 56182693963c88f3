"""What the steward declares about a table: its privacy unit, its columns with bounds and keys, its contribution bounds.

Declarations are public and never taken from the data. Values outside the declared bounds are clipped to them, rows with a
key that is not declared are dropped, and what a unit has beyond the contribution bounds does not count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

from discreet._numbers import Number, check_int, format_rational, read_positive, to_rational
from discreet.errors import BadParameter

Key: TypeAlias = str | int | bool | date | datetime | None
"""A group key. Reals are none: engines do not agree on their text."""


class Kind(Enum):
    """What a column holds."""

    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"


LARGEST_KEY = 1 << 63
MAX_LISTED = 20  # names in a message
DEFAULT_SALT = "discreet"
"""The salt of the hash that decides which groups of a unit count, unless the policy has its own."""

DEFAULT_LEAST_EPSILON = Fraction(1, 10**4)
"""The least ε of a debit, unless the policy has its own. How long a query runs depends on the rows that match, so no query
may cost next to nothing."""


def suggest_name(name: object, known: Iterable[str]) -> str:
    """Return a hint with the known names that are closest to a name, or with all of them if none is close.

    The case of letters and the name of a table before a column do not count.

    >>> suggest_name("people.Agee", ["id", "age", "dept"])
    'did you mean `age`?'
    >>> suggest_name("salary", ["id", "age", "dept"])
    'use one of `id`, `age`, `dept`'
    """
    names, bare = list(known), dict[str, str]()
    for each in names:
        bare.setdefault(each.rpartition(".")[2].lower(), each)
    close = get_close_matches(str(name).rpartition(".")[2].lower(), bare, 3)
    if close:
        return f"did you mean {' or '.join(f'`{bare[each]}`' for each in close)}?"
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"use one of {', '.join(f'`{each}`' for each in names[:MAX_LISTED])}{rest}"


def accepts(kind: Kind, key: Key) -> bool:
    """Return whether a column of this kind can be compared with this constant without a cast, which may raise on a row."""
    match kind:
        case Kind.INTEGER:
            return isinstance(key, int) and not isinstance(key, bool) and -LARGEST_KEY <= key < LARGEST_KEY
        case Kind.BOOLEAN:
            return isinstance(key, bool)
        case Kind.TEXT:
            return isinstance(key, str) and "\0" not in key and not any("\ud800" <= c <= "\udfff" for c in key)
        case Kind.DATE:
            return isinstance(key, date) and not isinstance(key, datetime)
        case Kind.TIMESTAMP:
            return isinstance(key, datetime) and key.tzinfo is None
        case Kind.REAL:
            return False
        case _:
            assert_never(kind)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its kind, the bounds that its values are clipped to, and its declared keys."""

    kind: Kind
    lower: Fraction | None = None
    upper: Fraction | None = None
    keys: tuple[Key, ...] | None = None

    def with_bounds(self, lower: Number, upper: Number) -> "Column":
        """Return the same column with declared bounds.

        >>> Column(Kind.INTEGER).with_bounds(18, 65).upper
        Fraction(65, 1)
        """
        low, high = to_rational(lower, "lower"), to_rational(upper, "upper")
        if low >= high:
            raise BadParameter(
                "bounds",
                f"{format_rational(low)}:{format_rational(high)}",
                "the lower bound must lie below the upper one",
                "give the smaller bound first",
            )
        if self.kind not in (Kind.INTEGER, Kind.REAL):
            raise BadParameter("bounds", f"{low}:{high}", f"a {self.kind.value} column has no bounds", "leave them out")
        return Column(self.kind, low, high, self.keys)

    def with_keys(self, keys: "tuple[Key, ...]") -> "Column":
        """Return the same column with declared keys, which are public.

        >>> Column(Kind.TEXT).with_keys(("a", "b")).keys
        ('a', 'b')
        """
        if self.kind is Kind.REAL:
            raise BadParameter("keys", "real", "a real column has no keys", "group by bins: column // 10")
        for key in keys:
            if key is not None and not accepts(self.kind, key):
                raise BadParameter("keys", repr(key), f"not of kind {self.kind.value}", "list keys of the column's own kind")
        if len(set(keys)) != len(keys) or not keys:
            raise BadParameter("keys", keys, "empty or repeated", "list each key once")
        return Column(self.kind, self.lower, self.upper, keys)


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table to join to. It holds no private data, so its keys and bounds are taken from its rows.

    No value occurs twice in a column of `unique`, which was checked on the copy that queries use.
    """

    name: str
    columns: Mapping[str, Column]
    unique: frozenset[str] = frozenset()
    digest: str = ""  # of its rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with private rows. Contribution bounds that are not declared are 1: one group per unit, one row in it."""

    name: str
    unit: str
    columns: Mapping[str, Column]
    max_groups: int = 1
    max_rows: int = 1
    unique: bool = False
    salt: str = field(default=DEFAULT_SALT, repr=False)  # a secret of the owner: no message and no answer shows it
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    least_epsilon: Fraction = DEFAULT_LEAST_EPSILON  # of one debit: a query, a pilot, a search for bounds, a publication
    adjusted_after_looking: bool = False  # whether declarations were changed because of what the data hold
    grid_ranges: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # cache of query.grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "least_epsilon", read_positive(self.least_epsilon, "least_epsilon"))
        if self.unit not in self.columns:
            raise BadParameter("unit", repr(self.unit), "not a column of the table", suggest_name(self.unit, self.columns))
        if self.columns[self.unit].kind is Kind.REAL:
            raise BadParameter(
                "unit",
                repr(self.unit),
                "a real column, whose text differs between engines",
                "make it an integer or a text",
            )
        check_int(self.max_groups, "max_groups", 1)
        check_int(self.max_rows, "max_rows", 1)
        for name in ("unique", "adjusted_after_looking"):  # "no" is true in Python, and would leave a unit unbounded
            if not isinstance(value := getattr(self, name), bool):
                raise BadParameter(name, repr(value), "neither True nor False", "give one of these two")
        names = [self.name.lower(), *(name.lower() for name in self.public)]
        if len(set(names)) != len(names):
            raise BadParameter("public", ", ".join(self.public), "two tables have the same name", "give each its own name")
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "public", MappingProxyType(dict(self.public)))
