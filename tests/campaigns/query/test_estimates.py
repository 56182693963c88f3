"""Of all estimates, a share of at most 1 − confidence is both reliable and wrong, at sizes around every limit."""

import pytest

from tests.query.test_estimates import NARROW, TINY, WIDE, Values, alike, repeated, six_sigma, spread_out, tallied


@pytest.mark.nightly
@pytest.mark.parametrize("make", [spread_out, alike])
@pytest.mark.parametrize("bounds", [WIDE, NARROW])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0), (2, 1e-6), (8, 0), (30, 1e-6), (200, 0)])
def test_flags_at_length(epsilon: float, delta: float, bounds: tuple[int, int], make: Values) -> None:
    """Where a flag begins to be raised is where it is most often wrong."""
    for n in (*TINY, 6, 10, 16, 27, 45, 75, 125, 200, 350, 600, 1_000):
        values, draws = make(n, bounds), 4_000
        found = tallied(repeated(values, draws, n, epsilon=epsilon, delta=delta, bounds=bounds), values)
        assert all(missed <= six_sigma(draws) * draws for _, missed in found.values()), (n, found)
