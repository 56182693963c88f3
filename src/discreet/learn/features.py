"""Declared columns as an integer design: what every model computes on.

**Theory of operation.** The bounds of a number and the categories of a text are declared, never read off the data, so the
integers of a row depend on that row and on the declaration alone. Removing one record changes no bit of another.

- A *number* is clamped to its bounds, centred at their middle, and rounded to a grid of 2⁻¹⁶ of their distance: an integer
  from −2¹⁵ to 2¹⁵. Text is read as a number where it is one. What is no number, and what is missing, is the middle: 0.
- A *category* is the position of its key among the declared ones, or one position more, "other". No value raises an error,
  because an error would tell that one record has such a value.
- One column is the intercept. In the same unit, 2⁻¹⁶, it is 2¹⁶, and so is the one that stands for a category.

**Proof** of the norm. The squared length of a row, in units, is 1 for the intercept, at most ¼ for each number, and 1 for
each category, of whose columns exactly one is 1. So R² = 1 + numbers/4 + categories, from the declaration alone. On the grid
it is 2³²·R², in integers, and no rounding exceeds it: a number is clamped after it is rounded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import isfinite, isnan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, nearest_float, to_rational
from discreet.errors import BadParameter
from discreet.query.schema import Key, suggest_name

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Name: TypeAlias = str | int
"""The name of a column, or its position in an array."""

ColumnBounds: TypeAlias = Mapping[Any, tuple[Number, Number]] | Sequence[tuple[Number, Number]] | tuple[Number, Number]
"""Bounds by column, one pair for each column of an array, or one pair for all of them."""

GRID_BITS = 16
ONE = 1 << GRID_BITS
"""A unit on the grid of a design: the intercept, and the column of a category."""

HALF = ONE // 2
"""The largest number on the grid."""

OTHER = "other"
"""What a category that is not declared is called in the names of columns."""

EXACT_KEYS = 1 << 53
"""Integers below this are the same as doubles; no larger one becomes one of them when it is rounded."""

TRUTHS = {"true": 1, "True": 1, "TRUE": 1, "false": 0, "False": 0, "FALSE": 0}
NO_KEY = ("no key",)
"""What a number that cannot be a key is taken for."""

PLAIN = (str, int, float, bool)
"""Types of which equal values are the same key."""

FINE_UNITS = ("ns", "ps", "fs", "as")
"""Units of dates that NumPy lists as integers, and not as dates."""

MAX_WIDTH = 100_000
"""Columns of a design: the noise of a model has one number for each."""


@dataclass(frozen=True, slots=True)
class NumericFeature:
    """A column of numbers with its declared bounds.

    >>> age = NumericFeature("age", Fraction(0), Fraction(100))
    >>> age.encode(np.array([0, 50, 100, 1e9, float("nan")])).tolist()
    [-32768, 0, 32768, 32768, 0]
    """

    name: Name
    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, to_rational(getattr(self, name), "bounds"))
        shown = f"{nearest_float(self.lower):.6g} to {nearest_float(self.upper):.6g}"
        if self.lower >= self.upper:
            raise BadParameter(
                "bounds", shown, "the lower bound must lie below the upper one", "give the smaller bound first",
                column=str(self.name),
            )  # fmt: skip
        if not isfinite(nearest_float(ONE / (self.upper - self.lower))) or not isfinite(
            nearest_float(self.upper - self.lower)
        ):
            raise BadParameter("bounds", shown, "no double lies on their grid", "change the unit", column=str(self.name))

    @property
    def middle(self) -> Fraction:
        """The value that 0 stands for."""
        return (self.lower + self.upper) / 2

    @property
    def step(self) -> Fraction:
        """The distance of two neighbouring values on the grid."""
        return (self.upper - self.lower) / ONE

    def encode(self, cells: Any) -> Codes:
        """Return the values on the grid. No value raises an error, and each result depends on its own cell alone."""
        return self.encode_present(cells)[0]

    def encode_present(self, cells: Any) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the values on the grid, and which of the cells hold a number."""
        values = read_numbers(cells)
        with np.errstate(all="ignore"):
            steps = np.rint((values - nearest_float(self.middle)) * nearest_float(1 / self.step))
        present = ~np.isnan(values)
        steps = np.clip(np.where(present, steps, 0.0), -HALF, HALF)
        return steps.astype(np.int32), present

    def decode(self, steps: Any) -> NDArray[np.float64]:
        """Return what values on the grid stand for."""
        return nearest_float(self.middle) + np.asarray(steps, np.float64) * nearest_float(self.step)


@dataclass(frozen=True, slots=True)
class CategoryFeature:
    """A column with declared keys. All other values are one category more, "other".

    One odd cell may decide how a reader of files, or a conversion, holds all cells of a column: one that is missing makes
    doubles of integers, one text makes texts of numbers. So that the other rows keep their categories, a number is the same
    key as an integer, a double and a text (`normalise_key`), and keys that a double would not hold are refused.

    >>> sex = CategoryFeature("sex", ("F", "M"))
    >>> sex.encode(["M", "F", None, "x"]).tolist()
    [1, 0, 2, 2]
    >>> CategoryFeature("grade", (1, 2)).encode(["2", 1.0, "1.5", True, None]).tolist()
    [1, 0, 2, 0, 2]
    """

    name: Name
    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        keys = self.keys
        if isinstance(keys, str) or not hasattr(keys, "__iter__"):
            raise BadParameter(
                "categories", repr(keys), "not a list of keys", 'list them: ("F", "M")', column=str(self.name)
            )
        object.__setattr__(self, "keys", tuple(each.item() if isinstance(each, np.generic) else each for each in keys))
        if any(isinstance(key, int | float) and not abs(key) < EXACT_KEYS for key in self.keys):
            reason = "a number of 2⁵³ or more is not the same number in every format"
            raise BadParameter("categories", repr(self.keys), reason, "make such keys text", column=str(self.name))
        if not self.keys or len({*map(normalise_key, self.keys)}) < len(self.keys):
            reason = "a key is listed twice" if self.keys else "no key is listed"
            raise BadParameter("categories", repr(self.keys), reason, "list each key once", column=str(self.name))

    @property
    def size(self) -> int:
        """How many categories there are, with "other"."""
        return len(self.keys) + 1

    def encode(self, cells: Any) -> Codes:
        """Return the position of each value among the keys; the number of keys for any other value. No value raises an
        error."""
        places = {normalise_key(key): place for place, key in enumerate(self.keys)}
        known: dict[Any, int] = {}
        return np.fromiter((_find_place(cell, places, known, len(self.keys)) for cell in list_cells(cells)), np.int32)


def _find_place(cell: Any, places: Mapping[Any, int], known: dict[Any, int], rest: int) -> int:
    """Return the place of a cell; `known` are those of cells that were looked up."""
    try:
        place = known.get(cell) if type(cell) in PLAIN else None
        if place is None:
            place = places.get(None if is_missing(cell) else normalise_key(cell), rest)
            if type(cell) in PLAIN:  # others may be equal and be different keys, as the same moment in two time zones
                known[cell] = place
        return place
    except Exception:  # a cell that has no hash, or whose comparison fails, is none of the keys
        return rest


def normalise_key(key: Any) -> Any:
    """Return what two keys have in common that are the same in different formats.

    >>> [normalise_key(key) for key in (1, 1.0, "1", "01", True, "true", "F", None, 1 << 60)]
    [1, 1, 1, 1, 1, 1, 'F', None, ('no key',)]
    """
    if isinstance(key, bytes):
        key = key.decode(errors="replace")
    if isinstance(key, str):
        if key in TRUTHS:
            return TRUTHS[key]
        try:
            number = float(key)
        except ValueError:
            return key
        return key if not abs(number) < EXACT_KEYS else normalise_key(number)
    if isinstance(key, int | float):
        if not abs(key) < EXACT_KEYS:
            return NO_KEY
        return int(key) if key == int(key) else float(key)
    return str(key) if isinstance(key, date) else key


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, or what pandas writes for either."""
    return cell is None or (isinstance(cell, float) and isnan(cell)) or type(cell).__name__ in ("NAType", "NaTType")


def list_cells(cells: Any) -> list[Any]:
    """Return the cells of one column as Python values."""
    if isinstance(cells, list | tuple):
        return [*cells]
    column = to_column(cells)
    if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] in FINE_UNITS:
        column = column.astype("M8[us]")
    listed = column.tolist()
    return listed if isinstance(listed, list) else [listed]


def to_column(cells: Any) -> NDArray[Any]:
    """Return one column as an array. Lists keep the types of their cells: one text makes no texts of the others."""
    if isinstance(cells, np.ndarray):
        return np.asarray(cells)
    if isinstance(cells, list | tuple):
        return _hold_cells(cells)
    try:
        if hasattr(cells, "to_numpy") and type(cells).__module__.startswith("pyarrow"):
            array = np.asarray(cells.to_numpy(zero_copy_only=False) if hasattr(cells, "type") else cells.to_numpy())
        else:
            array = np.asarray(cells)
        if array.ndim == 1 or not _is_listed(cells):
            return array
    except Exception:  # a type of the column that NumPy does not have: one large integer may decide it
        if not _is_listed(cells):
            raise
    return _hold_cells(cells.to_pylist() if hasattr(cells, "to_pylist") else cells.to_list())


def _hold_cells(cells: Sequence[Any]) -> NDArray[Any]:
    """Return cells as an array, one by one: NumPy looks into a cell that has a length, and may fail there."""
    return np.fromiter(cells, object, len(cells))


def _is_listed(cells: Any) -> bool:
    """Return whether a column of Arrow, Polars or pandas gives its cells as a list."""
    return getattr(cells, "ndim", 1) == 1 and (hasattr(cells, "to_pylist") or hasattr(cells, "to_list"))


def read_numbers(cells: Any) -> NDArray[np.float64]:
    """Return cells as doubles; NaN for what is no number.

    One odd cell may decide the type of a column, so cells are read alike whatever it is: truth values are 0 and 1, also as
    texts, and dates and durations are never numbers.

    >>> read_numbers(np.array(["True", "2", "x"])).tolist(), read_numbers(np.array([True, False])).tolist()
    ([1.0, 2.0, nan], [1.0, 0.0])
    """
    array = to_column(cells)
    if array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):  # a warning would tell of a cell that no double holds
            return array.astype(np.float64)
    if array.dtype.kind in "mM":
        return np.full(len(array), np.nan)
    return np.fromiter(map(_read_number, list_cells(array)), np.float64)


def _read_number(cell: Any) -> float:
    try:
        if isinstance(cell, bytes):
            cell = cell.decode()
        if isinstance(cell, str) and cell in TRUTHS:
            return float(TRUTHS[cell])
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else float("nan")
        if isinstance(cell, str | int | float | Decimal | Fraction | np.generic):
            return float(cell)
    except OverflowError:
        return float("inf") if cell > 0 else float("-inf")
    except Exception:
        return float("nan")
    return float("nan")


Feature: TypeAlias = NumericFeature | CategoryFeature
Target: TypeAlias = NumericFeature | CategoryFeature | None
"""What is predicted: a number with bounds, one of the declared classes, or nothing (clusters, components)."""


@dataclass(frozen=True)
class Features:
    """The declared columns, in the order of the design: numbers first, then categories.

    >>> columns = Features.of({"age": (0, 100)}, {"sex": ("F", "M")})
    >>> columns.column_names, columns.norm_squared
    (('intercept', 'age', 'sex=F', 'sex=M', 'sex=other'), Fraction(9, 4))
    """

    numbers: tuple[NumericFeature, ...]
    categories: tuple[CategoryFeature, ...]

    def __post_init__(self) -> None:
        names = self.names
        if not names:
            raise BadParameter("bounds", "missing", "no column is declared", 'give bounds={"age": (17, 90)} or categories=')
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise BadParameter("categories", repr(twice), "the column has bounds too", "declare it once")
        if self.width > MAX_WIDTH:
            raise BadParameter(
                "categories", f"{self.width:,} in all", f"at most {MAX_WIDTH:,} can be fitted", "declare fewer keys"
            )

    @classmethod
    def of(
        cls,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        columns: Sequence[Name] = (),
    ) -> "Features":
        """Read bounds and categories as they are declared: by name, or by position in an array.

        `bounds` may also be a list with one pair for each column, or one pair for all; `columns` then says which there are.
        Without columns, as for a quote, a list is that of an array.

        >>> Features.of([(0, 1), (0, 2)], {1: ("a", "b")}).names
        (0, 2, 1)
        """
        listed = dict(categories or {})
        if bounds is not None and not isinstance(bounds, Mapping):
            places = columns or range(len(bounds) + len(listed))
            bounds = _number_bounds(bounds, [name for name in places if name not in listed], is_known=bool(columns))
        numbers = tuple(NumericFeature(name, *_read_pair(name, pair)) for name, pair in (bounds or {}).items())
        return cls(numbers, tuple(CategoryFeature(name, keys) for name, keys in listed.items()))

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the declared columns."""
        return (*(each.name for each in self.numbers), *(each.name for each in self.categories))

    @cached_property
    def width(self) -> int:
        """How many columns the design has, with the intercept."""
        return 1 + len(self.numbers) + sum(each.size for each in self.categories)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first column of the design of each category."""
        sizes = [each.size for each in self.categories]
        return tuple(1 + len(self.numbers) + sum(sizes[:i]) for i in range(len(sizes)))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns of the design."""
        listed = [f"{each.name}={key}" for each in self.categories for key in (*each.keys, OTHER)]
        return ("intercept", *(str(each.name) for each in self.numbers), *listed)

    @property
    def norm_squared(self) -> Fraction:
        """R²: the largest squared length of a row, from the declaration alone."""
        return 1 + Fraction(len(self.numbers), 4) + len(self.categories)

    @property
    def grid_norm_squared(self) -> int:
        """R² on the grid: 2³²·R², an integer."""
        return ONE * ONE * (1 + len(self.categories)) + HALF * HALF * len(self.numbers)

    def describe(self) -> dict[str, Any]:
        """Return the declaration as plain values, for the hash of what is measured."""
        return {
            "numbers": [[str(each.name), str(each.lower), str(each.upper)] for each in self.numbers],
            "categories": [[str(each.name), [*map(repr, each.keys)]] for each in self.categories],
        }

    def check(self, table: "ColumnSource") -> None:
        """Refuse a table without these columns, or with columns that are not declared. No value is looked at."""
        if table.names is None:
            self._check_positions(table)
            return
        for name in self.names:
            if name not in table.names:
                parameter = "bounds" if name in [each.name for each in self.numbers] else "categories"
                hint = suggest_name(name, map(str, table.names))
                raise BadParameter(parameter, repr(name), "the data has no such column", hint)
        extra = [name for name in table.names if name not in self.names]
        if extra:
            raise BadParameter(
                "columns", ", ".join(map(repr, extra)), "not declared", "give them bounds= or categories=, or drop them"
            )

    def _check_positions(self, table: "ColumnSource") -> None:
        if any(not isinstance(name, int) for name in self.names):
            reason = "an array has no column names, and the columns are declared by name"
            raise BadParameter("X", "an array", reason, "give a frame or a dict of columns, or declare them by position")
        if sorted(self.names) != [*range(table.count)]:
            reason = f"{len(self.names)} columns are declared, and X has {table.count} features as input"
            raise BadParameter("X", "of another shape", reason, "give an array with one column for each declared one")

    def encode(self, data: Any) -> "Design":
        """Return the integer design of a frame, a dict of columns, or an array. Columns are checked, values never are."""
        table = ColumnSource.of(data)
        self.check(table)
        numbers = [each.encode(table.column(each.name)) for each in self.numbers]
        codes = [each.encode(table.column(each.name)) for each in self.categories]
        rows = table.rows
        return Design(self, _stack(numbers, rows), _stack(codes, rows))


def _stack(columns: Sequence[Codes], rows: int) -> Codes:
    """Columns side by side, each contiguous in memory."""
    stacked = np.empty((len(columns), rows), np.int32)
    for place, column in enumerate(columns):
        stacked[place] = column
    return stacked.T


def _number_bounds(bounds: Any, positions: Sequence[Name], *, is_known: bool) -> dict[Any, Any]:
    pairs = [*bounds]
    if len(pairs) == 2 and not any(hasattr(each, "__len__") for each in pairs):
        if not is_known:
            raise BadParameter(
                "bounds", "one pair for all columns", "how many columns there are is not known before a fit",
                "give one pair for each column",
            )  # fmt: skip
        return dict.fromkeys(positions, tuple(pairs))
    if len(pairs) != len(positions):
        reason = f"{len(pairs)} pairs for {len(positions)} columns of numbers"
        raise BadParameter("bounds", "of another length", reason, "give one pair for each column, or one for all")
    return dict(zip(positions, pairs, strict=True))


def _read_pair(name: Name, pair: Any) -> tuple[Any, Any]:
    try:
        lower, upper = pair
    except (TypeError, ValueError):
        raise BadParameter("bounds", repr(pair), "not a pair", "give (lower, upper)", column=str(name)) from None
    return lower, upper


def _stack_rows(rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Return rows of one length as a table; of several lengths, or of none, no table."""
    same = len({row.shape for row in rows}) == 1
    return np.stack(rows) if same else np.empty(len(rows), object)


@dataclass(frozen=True)
class ColumnSource:
    """The columns of a frame, a dict or an array, by name or by position. Only its shape and its names are looked at."""

    data: Any
    names: tuple[Any, ...] | None  # None: by position
    count: int

    @classmethod
    def of(cls, data: Any) -> "ColumnSource":
        """Read what is given as features."""
        if type(data).__module__.startswith("scipy.sparse"):
            raise BadParameter("X", "sparse", "Sparse input is not supported", "give X.toarray(), or a frame")
        if isinstance(data, Mapping):
            names: Any = tuple(data)
        elif hasattr(data, "column_names") and hasattr(data, "column"):  # Arrow
            names = tuple(data.column_names)
        elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, Polars
            names = tuple(data.columns)
        else:
            return cls._of_array(data)
        if len(set(names)) < len(names):
            raise BadParameter("X", "a frame", "two columns have the same name", "rename one of them")
        return cls(data, names, len(names))

    @classmethod
    def _of_array(cls, data: Any) -> "ColumnSource":
        array: NDArray[Any]
        if isinstance(data, list | tuple):
            array = _stack_rows([_hold_cells([*row]) if hasattr(row, "__iter__") else np.array(row, object) for row in data])
        else:
            array = np.asarray(data)
        if array.dtype.kind in "cM":
            reason = "Complex data not supported" if array.dtype.kind == "c" else "dates are no numbers"
            raise BadParameter("X", f"of dtype {array.dtype}", reason, "give numbers")
        if array.ndim != 2:
            got = {0: "scalar", 1: "1D"}.get(array.ndim, f"{array.ndim}D")
            reason = f"Expected 2D array, got {got} array instead"
            raise BadParameter("X", "no table", reason, "Reshape your data: one row for each record")
        return cls(array, None, array.shape[1])

    @property
    def rows(self) -> int:
        """How many rows there are. It is private, like the rows."""
        if not self.count:
            return 0
        columns = [self.column(name) for name in (range(self.count) if self.names is None else self.names)]
        if not all(hasattr(each, "__len__") for each in columns):
            raise BadParameter("X", "no table", "a column of it is a single value", "give one cell for each record: [5]")
        lengths = {*map(len, columns)}
        if len(lengths) > 1:
            raise BadParameter("X", "no table", "its columns have different lengths", "give columns of one length")
        return lengths.pop()

    def column(self, name: Name) -> Any:
        """Return the cells of one column."""
        if self.names is None:
            return self.data[:, name]
        if hasattr(self.data, "column_names"):
            return self.data.column(name)
        return self.data[name]


@dataclass(frozen=True, eq=False)
class Design:
    """The rows as integers. It is private: nothing of it leaves but sums with noise."""

    features: Features
    numbers: Codes  # rows × numbers, on the grid
    codes: Codes  # rows × categories

    def __repr__(self) -> str:
        return "Design (private)"

    @property
    def rows(self) -> int:
        """How many rows there are. It is private."""
        return int(self.numbers.shape[0])

    @cached_property
    def grid_norms_squared(self) -> Ints:
        """The squared length of each row on the grid, exactly."""
        squares = (self.numbers.astype(np.int64) ** 2).sum(axis=1)
        return np.asarray(squares + ONE * ONE * (1 + len(self.features.categories)), np.int64)

    def to_matrix(self, dtype: Any = np.float64) -> NDArray[Any]:
        """Return all columns of the design, on the grid: integers, whatever the type says."""
        matrix = np.zeros((self.rows, self.features.width), dtype)
        matrix[:, 0] = ONE
        matrix[:, 1 : 1 + self.numbers.shape[1]] = self.numbers
        every = np.arange(self.rows)
        for place, offset in enumerate(self.features.offsets):
            matrix[every, offset + self.codes[:, place]] = ONE
        return matrix

    def iter_chunks(self, size: int) -> Iterator[slice]:
        """Yield the rows in chunks. Sums of integers do not depend on where they are cut."""
        for start in range(0, self.rows, size):
            yield slice(start, min(start + size, self.rows))
