"""Optimal composition counts the δ of each release."""

from math import inf

import pytest

from discreet import (
    BadParameter,
)
from discreet.accounting.textbook import optimal_composition


def test_optimal_composition_counts_the_delta_of_each_release() -> None:
    assert optimal_composition(3000, 5, 1e-6, each=1e-6).epsilon == inf  # 5e-6 leaks
    assert optimal_composition(3000, 5, 1e-5, each=1e-6).epsilon == 15000
    assert optimal_composition(3000, 5, 1e-6).epsilon == 15000
    for wrong in (-1e-9, -1, 1.5, float("nan")):
        with pytest.raises(BadParameter, match="each"):
            optimal_composition(1, 5, 1e-6, each=wrong)
