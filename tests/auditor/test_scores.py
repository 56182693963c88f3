"""Columns that differ between the inputs are kept, in whatever way they differ."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.auditor.outputs import from_array
from discreet.auditor.scores import select_informative_columns

CHANGES: dict[str, Callable[[Any, int], Any]] = {
    "shift": lambda cell, extra: cell + 0.5 * extra,
    "scale": lambda cell, extra: cell * (1 + 2 * extra),
    "lowest bits": lambda cell, extra: np.round(cell * 8) / 8 + extra / 16,
    "modulo 3": lambda cell, extra: np.round(cell) * 3 + extra,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_column_that_differs_is_kept(name: str) -> None:
    sides = [np.random.default_rng(extra).normal(size=(1_000, 300)) for extra in (0, 1)]
    for extra, cells in enumerate(sides):
        cells[:, 222] = CHANGES[name](cells[:, 222], extra)
    assert "output[222]" in select_informative_columns(*map(from_array, sides)).columns
