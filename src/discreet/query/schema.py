"""What the steward declares about a table: its privacy unit, its columns with bounds and keys, its contribution bounds.

Declarations are public and never taken from the data. Values outside the declared bounds are clipped to them, rows with a
key that is not declared are dropped, and what a unit has beyond the contribution bounds does not count.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

from discreet._numbers import Number, check_int, format_rational, read_positive, to_rational
from discreet.errors import BadParameter

Key: TypeAlias = str | int | bool | date | datetime | None
"""A group key. Reals are none: engines do not agree on their text."""

BoundLike: TypeAlias = Number | str | date
"""A bound as it is declared: a number, or a date or time, also as text."""


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


ROW = "row"
"""The privacy unit of a table without an id, whose owner says that each row is one person. No column is called so."""

ROW_UNIT_NOTE = "Each row is one person; this is an assumption of the owner."
"""What is said of the guarantee wherever the privacy unit is a row."""


def format_unit(columns: Sequence[str]) -> str:
    """Return a privacy unit in words: the name of its column, its columns in parentheses, or `row` if it has none.

    Different units have different words, because an account is bound to the words of its unit: names that could be taken
    for other words are in double quotes.

    >>> format_unit(["id"]), format_unit(["household", "person"]), format_unit([])
    ('id', '(household, person)', 'row')
    >>> format_unit(["(a, b)"]), format_unit(["a, b", "c"])
    ('"(a, b)"', '("a, b", c)')
    """
    if len(columns) == 1:
        [name] = columns
        return _quote(name) if name == ROW or name.startswith(("(", '"')) else name
    parts = (name if name.isidentifier() else _quote(name) for name in columns)
    return f"({', '.join(parts)})" if columns else ROW


def parse_unit(words: str) -> tuple[str, ...]:
    """Return the columns of a privacy unit, none if it is a row: what `format_unit` wrote.

    >>> parse_unit("id"), parse_unit('(household, "first name")'), parse_unit("row")
    (('id',), ('household', 'first name'), ())
    """
    if words == ROW:
        return ()
    if not words.startswith(("(", '"')):
        return (words,)
    listed = words[1:-1] if words.startswith("(") and words.endswith(")") else words
    columns = tuple(quoted.replace('""', '"') if quoted else plain for quoted, plain in _UNIT_PART.findall(listed))
    if not columns or format_unit(columns) != words:
        raise BadParameter("unit", repr(words), "not a privacy unit", "name a column, or several: (household, person)")
    return columns


def read_unit(unit: str | Sequence[str]) -> str:
    """Return the words of a privacy unit as declared: the name of its column, the names of several, or "row".

    >>> read_unit("id"), read_unit(("household", "person")), read_unit("row")
    ('id', '(household, person)', 'row')
    """
    columns = [unit] if isinstance(unit, str) else unit
    if not isinstance(columns, list | tuple) or not columns or not all(isinstance(name, str) and name for name in columns):
        hint = 'name the column, or the columns, that identify a person: unit="id", unit=("household", "person")'
        raise BadParameter("unit", repr(unit), "not the name of a column, nor a tuple of names", hint)
    return ROW if unit == ROW else format_unit(columns)


_UNIT_PART = re.compile(r'"((?:[^"]|"")+)"|([^",\s]+)')


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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


def parse_moment(text: str, kind: Kind) -> date | None:
    """Return a date, or a time without a time zone, that is written as in ISO 8601; None if the text is neither.

    >>> parse_moment("2024-02-29", Kind.DATE), parse_moment("2024-02-29 12:30:00", Kind.DATE)
    (datetime.date(2024, 2, 29), None)
    """
    try:
        moment = date.fromisoformat(text) if kind is Kind.DATE else datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if isinstance(moment, datetime) and moment.tzinfo is not None else moment


def _to_number(bound: "BoundLike", name: str) -> Fraction:
    if isinstance(bound, str | date):
        raise BadParameter(name, str(bound), "not a number", "give an int, Fraction, Decimal or float")
    return to_rational(bound, name)


def _to_moment(bound: "BoundLike", kind: Kind, name: str) -> date:
    """Return a bound of a column of dates or timestamps. An upper bound without a time is the end of that day."""
    moment: object = bound
    if isinstance(bound, str):
        day = parse_moment(bound, Kind.DATE)
        moment = parse_moment(bound, kind) if day is None else day
    if isinstance(moment, date) and not isinstance(moment, datetime) and kind is Kind.TIMESTAMP:
        moment = datetime.combine(moment, time.max if name == "upper" else time.min)
    if not isinstance(moment, date) or not accepts(kind, moment):
        example = "2024-12-31" if kind is Kind.DATE else "2024-12-31 or 2024-12-31T12:00:00, in UTC and without an offset"
        raise BadParameter(name, str(bound), f"not a {kind.value}", f"write it as {example}")
    return moment


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
    """One column: its kind, the bounds that its values are clipped to, and its declared keys.

    Bounds of integers and reals are numbers; bounds of dates and timestamps are of the column's own kind.
    """

    kind: Kind
    lower: Fraction | date | None = None
    upper: Fraction | date | None = None
    keys: tuple[Key, ...] | None = None

    @property
    def number_bounds(self) -> tuple[Fraction, Fraction] | None:
        """The declared bounds of a column of numbers."""
        if isinstance(self.lower, Fraction) and isinstance(self.upper, Fraction):
            return self.lower, self.upper
        return None

    @property
    def moment_bounds(self) -> tuple[date, date]:
        """The bounds of a column of dates or timestamps: the declared ones, else the years 1 to 9999."""
        if isinstance(self.lower, date) and isinstance(self.upper, date):
            return self.lower, self.upper
        return (datetime.min, datetime.max) if self.kind is Kind.TIMESTAMP else (date.min, date.max)

    def with_bounds(self, lower: "BoundLike", upper: "BoundLike") -> "Column":
        """Return the same column with declared bounds: numbers, or dates and times in UTC as ISO 8601 has them.

        >>> Column(Kind.INTEGER).with_bounds(18, 65).upper
        Fraction(65, 1)
        >>> Column(Kind.TIMESTAMP).with_bounds("2024-01-01", "2024-12-31").upper
        datetime.datetime(2024, 12, 31, 23, 59, 59, 999999)
        """
        if self.kind in (Kind.DATE, Kind.TIMESTAMP):
            first, last = _to_moment(lower, self.kind, "lower"), _to_moment(upper, self.kind, "upper")
            if first > last:
                raise BadParameter("lower", str(first), f"must not lie after upper = {last}", "give the earlier bound first")
            return Column(self.kind, first, last, self.keys)
        low, high = _to_number(lower, "lower"), _to_number(upper, "upper")
        if low >= high:
            raise BadParameter(
                "bounds",
                f"{format_rational(low)}:{format_rational(high)}",
                "the lower bound must lie below the upper one",
                "give the smaller bound first",
            )
        if self.kind not in (Kind.INTEGER, Kind.REAL):
            shown = f"{format_rational(low)}:{format_rational(high)}"
            raise BadParameter("bounds", shown, f"a {self.kind.value} column has no bounds", "leave them out")
        return Column(self.kind, low, high, self.keys)

    def with_keys(self, keys: "tuple[Key, ...]") -> "Column":
        """Return the same column with declared keys, which are public.

        >>> Column(Kind.TEXT).with_keys(("a", "b")).keys
        ('a', 'b')
        """
        if self.kind is Kind.REAL:
            raise BadParameter(
                "keys", ", ".join(map(repr, keys)), "a real column has no keys", "group by bins: column // 10"
            )
        for key in keys:
            if key is not None and not accepts(self.kind, key):
                raise BadParameter("keys", repr(key), f"not of kind {self.kind.value}", "list keys of the column's own kind")
        if not keys:
            raise BadParameter("keys", "()", "no key is listed", "list each key once")
        if len(set(keys)) != len(keys):
            repeated = next(key for i, key in enumerate(keys) if key in keys[:i])
            shown = ", ".join(map(repr, keys[:MAX_LISTED])) + ", …" * (len(keys) > MAX_LISTED)
            raise BadParameter("keys", shown, f"{repeated!r} is listed twice", "list each key once")
        return Column(self.kind, self.lower, self.upper, keys)


@contextmanager
def about_column(name: str) -> Iterator[None]:
    """Name the column in the errors that its bounds or keys raise."""
    try:
        yield
    except BadParameter as error:
        raise BadParameter(error.name, error.value, error.reason, error.hint, column=name) from None


def _list_fields(value: Any) -> dict[str, Any]:
    """The fields that `__init__` takes; a read-only mapping, which cannot be pickled, as a dict."""
    given = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
    return {name: dict(each) if isinstance(each, MappingProxyType) else each for name, each in given.items()}


def _rebuild(kind: type, given: dict[str, Any]) -> Any:
    return kind(**given)


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

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), _list_fields(self))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with private rows. Contribution bounds that are not declared are 1: one group per unit, one row in it.

    `unit` is the privacy unit in the words of `format_unit`: a column, several, or `row`. Where each row is a unit of its
    own, `unique` is true by construction, and no column identifies a unit.
    """

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
    discovered: frozenset[str] = frozenset()  # columns whose bounds were discovered privately, not declared
    unit_columns: tuple[str, ...] = field(init=False, repr=False, compare=False)  # none where each row is a unit
    grid_ranges: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # cache of query.grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "least_epsilon", read_positive(self.least_epsilon, "least_epsilon"))
        if not isinstance(self.unit, str):
            raise BadParameter("unit", repr(self.unit), "not the words of a unit", "write them with format_unit")
        object.__setattr__(self, "unit_columns", parse_unit(self.unit))
        self._check_unit()
        for name in ("max_groups", "max_rows"):
            object.__setattr__(self, name, check_int(getattr(self, name), name, 1))
        for name in ("unique", "adjusted_after_looking"):  # "no" is true in Python, and would leave a unit unbounded
            if not isinstance(value := getattr(self, name), bool):
                raise BadParameter(name, repr(value), "neither True nor False", "give one of these two")
        names = [self.name.lower(), *(name.lower() for name in self.public)]
        if len(set(names)) != len(names):
            raise BadParameter("public", ", ".join(self.public), "two tables have the same name", "give each its own name")
        if not self.unit_columns:
            object.__setattr__(self, "unique", True)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "public", MappingProxyType(dict(self.public)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the fields. The salt is among them: a pickle of a policy is as secret as the policy."""
        return _rebuild, (type(self), _list_fields(self))

    def _check_unit(self) -> None:
        """Refuse columns that do not identify a unit."""
        if not self.unit_columns:
            refuse_row_column(self.columns)
        if len(set(self.unit_columns)) != len(self.unit_columns):
            raise BadParameter("unit", self.unit, "a column is named twice", "name each column once")
        for name in self.unit_columns:
            if name not in self.columns:
                raise BadParameter("unit", repr(name), "not a column of the table", suggest_name(name, self.columns))
            if self.columns[name].kind is Kind.REAL:
                reason = "a real column, whose text differs between engines"
                raise BadParameter("unit", repr(name), reason, "make it an integer or a text")


def refuse_row_column(names: Iterable[str]) -> None:
    """Refuse the unit `row` where a column is called so, in any case of its letters: it might be meant."""
    if same := [name for name in names if name.lower() == ROW]:
        reason = f"the source has a column {same[0]!r}, and a unit that is a row has no column"
        raise BadParameter("unit", repr(ROW), reason, "rename the column, or name another unit")
