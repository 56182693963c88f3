"""One odd cell does not change how the other rows of its column are read, in any format that a column may have."""

import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from discreet.errors import BadParameter
from discreet.learn.features import EXACT_KEYS, CategoryFeature, Features, NumericFeature


def read_csv(cells: list[Any]) -> Any:
    """As pandas reads a file, which infers the type of a column from all of its cells."""
    text = "".join(f"{'' if cell is None else cell}\n" for cell in cells)
    return pd.read_csv(StringIO(f"cell\n{text}"), skip_blank_lines=False)["cell"]


FORMATS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "objects": lambda cells: np.array(cells, object),
    "NumPy": np.array,
    "pandas": pd.Series,
    "pandas, nullable": lambda cells: pd.Series(cells).convert_dtypes(),
    "pandas, from CSV": read_csv,
    "Polars": lambda cells: pl.Series(cells, strict=False),
    "Arrow": lambda cells: pa.chunked_array([pa.array(cells, from_pandas=True)]),
}
COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "integers": ([3, 1, 2, EXACT_KEYS - 1] * 3, [1, 2, 3, EXACT_KEYS - 1]),
    "texts of integers": ([3, 1, 2, EXACT_KEYS - 1] * 3, ["1", "2", "3", str(EXACT_KEYS - 1)]),
    "reals": ([0.5, 1.0, 2.25] * 3, [0.5, 1, 2.25]),
    "truths": ([True, False, True] * 3, [True, False]),
    "texts": (["a", "b", "c"] * 3, ["a", "b", "c"]),
}
ODD: list[Any] = [None, "odd", b"odd", 0.5, 1j, float("nan"), EXACT_KEYS + 1, True]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", FORMATS)
def test_one_odd_cell_leaves_the_categories_of_others(name: str, kind: str, odd: Any) -> None:
    cells, keys = COLUMNS[kind]
    feature, make = CategoryFeature("cell", tuple(keys)), FORMATS[name]
    try:
        column = make([*cells, odd])
    except (TypeError, ValueError, OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
        return  # no column of this format holds both
    assert feature.encode(column)[:-1].tolist() == feature.encode(make(cells)).tolist()


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", ["integers", "reals", "truths"])
@pytest.mark.parametrize("name", FORMATS)
def test_one_odd_cell_leaves_the_numbers_of_others(name: str, kind: str, odd: Any) -> None:
    cells, _ = COLUMNS[kind]
    feature, make = NumericFeature("cell", 0, 4), FORMATS[name]
    try:
        column = make([*cells, odd])
    except (TypeError, ValueError, OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
        return
    assert feature.encode(column)[:-1].tolist() == feature.encode(make(cells)).tolist()


def test_dates_are_keys_in_every_format() -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    feature = CategoryFeature("day", tuple(days))
    assert feature.encode(pa.array([days[1], None, days[0]])).tolist() == [1, 2, 0]
    assert feature.encode(["2026-01-02", "x", "2026-01-01"]).tolist() == [1, 2, 0]


@pytest.mark.parametrize("keys", [(EXACT_KEYS, 1), (1, "1"), (1.0, 1), ("01", "1"), (True, 1), (float("inf"),)])
def test_keys_that_one_format_could_confuse_are_refused(keys: tuple[Any, ...]) -> None:
    with pytest.raises(BadParameter, match=r"categories.*(2⁵³|twice)"):
        CategoryFeature("cell", keys)


def test_a_moment_in_another_time_zone_leaves_the_categories_of_others() -> None:
    here = datetime(2026, 1, 1, tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=1)))  # equal, and another text
    feature = CategoryFeature("moment", (str(here),))
    assert feature.encode([there, here]).tolist() == [1, 0]


def test_dates_are_no_numbers_and_the_same_keys_in_every_unit() -> None:
    days = np.array(["2026-01-01", "2026-01-02"], "M8[us]")
    number, key = NumericFeature("day", 0, 10**19), CategoryFeature("day", ("2026-01-02 00:00:00",))
    for unit in ("s", "us", "ns"):
        assert number.encode(days.astype(f"M8[{unit}]")).tolist() == [0, 0]
        assert key.encode(days.astype(f"M8[{unit}]")).tolist() == [1, 0]
    assert number.encode(pd.Series([pd.Timedelta(1), pd.Timedelta(2)])).tolist() == [0, 0]


class Failing:
    """A cell that fails whatever it is asked for."""

    def fail(self, *_: Any) -> Any:
        raise ValueError("what the cell holds")

    __len__ = __iter__ = __array__ = __float__ = __eq__ = __hash__ = __str__ = __repr__ = fail  # type: ignore[assignment]


HARD = [
    Failing(),
    [1, 2],
    (),
    np.array([1, 2]),
    np.zeros((0, 3)),
    {"a": 1},
    10**400,
    np.longdouble("1e4000"),
    pd.Series([1]),
]


@pytest.mark.parametrize("place", range(len(HARD)))
def test_no_cell_fails_or_warns_and_none_changes_another(place: int) -> None:
    odd = HARD[place]
    number, key = NumericFeature("cell", 0, 4), CategoryFeature("cell", (1, 2))
    columns: list[Any] = [[1, 2, odd], (1, 2, odd), [odd, odd], np.fromiter([1, 2, odd], object, 3)]
    columns.append(pd.Series(columns[-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for column in columns:
            assert len(number.encode(column)) == len(key.encode(column)) == len(column)
            if len(column) == 3:
                assert (number.encode(column)[:2] == number.encode([1, 2])).all()
                assert key.encode(column)[:2].tolist() == [0, 1]
        given = [[1, odd], [2, odd]]
        design = Features.of({0: (0, 4)}, {1: (1, 2)}).encode(given)
    assert design.numbers[:, 0].tolist() == number.encode([1, 2]).tolist()


def test_columns_of_types_that_numpy_lacks_are_read_cell_by_cell() -> None:
    number, key = NumericFeature("cell", 0, 4), CategoryFeature("cell", (1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = pl.Series([1, 2, 2**80], dtype=pl.Int128)
        assert number.encode(wide)[:2].tolist() == number.encode([1, 2]).tolist()
        assert key.encode(wide).tolist() == [0, 1, 2]
        assert key.encode(pl.Series([{"a": 1}, None])).tolist() == [2, 2]
        longer = np.array([1, 2, "1e4000"], np.longdouble)
        assert number.encode(longer).tolist() == number.encode([1, 2, 4]).tolist()
