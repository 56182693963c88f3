"""`audit` as a whole: claims that hold, claims that do not, pairs at distance 2, and wrong parameters."""

from typing import Any

import pytest

from discreet import Laplace, assert_private, audit
from discreet.auditor import Pair
from discreet.errors import BadParameter

NOISE = Laplace(1)


def noisy_count(xs: Any) -> int:
    return int(NOISE.release(len(xs)))


def test_assert_private_passes_or_fails() -> None:
    assert_private(noisy_count, epsilon=1, samples=4_000)
    with pytest.raises(AssertionError, match="is false"):
        assert_private(len, epsilon=1, samples=4_000)


def test_a_pair_at_distance_two_may_cost_twice_epsilon() -> None:
    two = Pair([0, 5], [1, 4], 2)  # ε = 1 for one unit: e² for two
    found = audit(lambda xs: NOISE.release(xs), 1, [two], samples=10_000, confidence=1 - 1e-7)
    assert not found.violation
    assert 0.3 < found.certified_epsilon <= found.claimed_epsilon == 1, "the ε of one unit is reported"
    assert audit(lambda xs: NOISE.release(xs), 1, [Pair([0, 5], [1, 4])], samples=10_000, confidence=1 - 1e-7).violation


def test_wrong_parameters_are_refused() -> None:
    for wrong in (
        {"neighbours": []},
        {"neighbours": [1]},
        {"confidence": 1},
        {"samples": 1},
        {"seconds": -1.0},
        {"seconds": 0},
    ):
        with pytest.raises(BadParameter):
            audit(noisy_count, 1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        audit(3, 1)
