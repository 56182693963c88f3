"""Margins: the closure of some margins is what they contain, and columns of one value make no table of their own."""

from itertools import chain, combinations

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.tabulation.margins import Lattice, check_margin, count_cells, drop_single_columns, list_closure


@pytest.mark.parametrize("seed", range(20))
def test_the_closure_is_every_subset_of_a_margin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    margins = [tuple(sorted(rng.choice(7, size=rng.integers(0, 5), replace=False).tolist())) for _ in range(4)]
    everything = chain.from_iterable(combinations(range(7), length) for length in range(8))
    assert list_closure(margins) == [each for each in everything if any(set(each) <= set(margin) for margin in margins)]


def test_the_lattice_averages_over_the_columns_that_a_margin_has_more() -> None:
    lattice = Lattice.of((2, 1, 5), [(0, 1, 2), (1,)])
    assert lattice.margins == [(), (0,), (2,), (0, 2)]
    dense = lattice.averaging.toarray()
    for row, b in enumerate(lattice.margins):
        for column, a in enumerate(lattice.margins):
            inside = set(b) <= set(a)
            assert dense[row, column] == (count_cells((2, 1, 5), b) / count_cells((2, 1, 5), a) if inside else 0)


def test_columns_of_one_value_are_dropped() -> None:
    assert drop_single_columns((1, 3, 1), (0, 1, 2)) == (1,)
    assert drop_single_columns((1, 3, 1), (0, 2)) == ()


@pytest.mark.parametrize("margin", [(1, 0), (0, 0), (3,), (-1,), (True,), (0.0,), ("a",)])
def test_what_is_no_margin_is_refused(margin: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter, match="margin is"):
        check_margin(margin, 3)


def test_a_closure_that_does_not_fit_in_memory_is_refused_at_once() -> None:
    with pytest.raises(BadParameter, match="Take margins of fewer columns"):
        Lattice.of((2,) * 60, [tuple(range(60))])


def test_a_column_without_values_is_refused() -> None:
    with pytest.raises(BadParameter, match="sizes"):
        Lattice.of((2, 0), [(0,)])
