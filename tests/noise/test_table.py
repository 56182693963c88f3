"""The thresholds of an inversion table enclose the exact ones."""

from fractions import Fraction
from functools import partial

import pytest

from discreet.noise import fair_coins, lattice_gaussian, table
from discreet.noise.bits import Workspace
from tests.support.scripted_bits import ScriptedBits


@pytest.mark.parametrize("weights_at", [partial(lattice_gaussian.weights, Fraction(100)), partial(fair_coins.weights, 1001)])
def test_table_thresholds_bracket_the_truth_and_draws_on_them_are_refined(weights_at: table.WeightFunction) -> None:
    low, high = table.cdf_bounds(weights_at, 63)
    finer_low, finer_high = table.cdf_bounds(weights_at, 160)
    for k, (below, above) in enumerate(zip(low, high, strict=True)):
        assert below <= finer_low[k] >> 97 <= finer_high[k] >> 97 <= above
    drawn = table.InversionTable.of(weights_at)
    words = [t << 1 for t in low[:50]]
    sizes, _ = drawn.draw(len(words), ScriptedBits(words), Workspace())
    assert all(int(size) in (k, k + 1) for k, size in enumerate(sizes))
