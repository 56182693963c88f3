"""k-anonymity: the size of the smallest group, of tables in every shape, and refusals that say what is wrong."""

from collections import Counter
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import BadParameter
from discreet.lab.k_anonymity import group_sizes, k_anonymity

ROWS = [{"zip": "130**", "age": 28, "x": i} for i in range(4)] + [{"zip": "148**", "age": None, "x": i} for i in range(3)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
SHAPES = [ROWS, tuple(ROWS), COLUMNS, pandas.DataFrame(ROWS), polars.DataFrame(ROWS), pyarrow.table(COLUMNS)]


@pytest.mark.parametrize("table", SHAPES, ids=lambda table: type(table).__module__ + "." + type(table).__name__)
def test_every_shape_gives_the_same(table: Any) -> None:
    assert k_anonymity(table, ["zip"]) == 3
    assert k_anonymity(table, ["zip", "age"]) == 3
    assert k_anonymity(table, ("x",)) == 1
    assert set(group_sizes(table, ["age"]).values()) == {3, 4}


def test_nothing_equals_nothing() -> None:
    nothing = [float("nan"), np.nan, None, pandas.NA, pandas.NaT]
    assert k_anonymity({"x": nothing}, ["x"]) == 5


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1))
def test_it_is_the_smallest_group(pairs: list[tuple[int, str]]) -> None:
    rows = [{"a": a, "b": b} for a, b in pairs]
    assert k_anonymity(rows, ["a", "b"]) == min(Counter(pairs).values())
    assert k_anonymity(rows, ["a", "b"]) <= min(k_anonymity(rows, ["a"]), k_anonymity(rows, ["b"]))
    assert k_anonymity(rows * 2, ["a", "b"]) == 2 * k_anonymity(rows, ["a", "b"])


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        (ROWS, [], "Name what an outsider may know"),
        (ROWS, "zip", "not a list of names"),
        (ROWS, 3, "not a list of names"),
        (ROWS, ["city"], "row 1 has no such field. It has zip, age, x"),
        ([{"a": 1}, {"b": 1}], ["a"], "row 2"),
        (COLUMNS, ["city"], "has none of that name. It has zip, age, x"),
        (pandas.DataFrame(ROWS), ["city"], "It has zip, age, x"),
        (pyarrow.table(COLUMNS), ["city"], "It has zip, age, x"),
        ([], ["zip"], "empty"),
        ({"zip": []}, ["zip"], "empty"),
        (pandas.DataFrame({"zip": []}), ["zip"], "empty"),
        ({"a": [1], "b": [1, 2]}, ["a", "b"], "differ in length"),
        ({"a": "text"}, ["a"], "a column is a list"),
        ({"a": 3}, ["a"], "a column is a list"),
        ([{"a": [1]}], ["a"], "plain values"),
        ({"a": [np.zeros(2)]}, ["a"], "plain values"),
        ("text", ["a"], "neither rows nor columns"),
        ([1, 2], ["a"], "neither rows nor columns"),
        (None, ["a"], "neither rows nor columns"),
    ],
)
def test_what_is_wrong_is_said(table: Any, columns: Any, said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        k_anonymity(table, columns)
