"""The sparse vector technique compares exact sums."""

import numpy as np
import pytest

from discreet import (
    BadParameter,
    SparseVector,
)
from discreet.noise import discrete_laplace
from discreet.testing import seeded_bits

EDGES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("threshold", EDGES)
def test_sparse_vector_compares_exact_sums(threshold: int) -> None:
    """The same bits, in integers of any size: no sum wraps or saturates."""
    rule = SparseVector(threshold, 9, 5, most=100)
    outcomes = rule.run_batch(np.array([EDGES], np.int64), seeded_bits(3))[0]
    bits = seeded_bits(3)
    bar = threshold + int(discrete_laplace(9, 1, bits)[0])
    noise = discrete_laplace(5, len(EDGES), bits)
    assert outcomes.tolist() == [int(value + int(drawn) >= bar) for value, drawn in zip(EDGES, noise, strict=True)]


@pytest.mark.parametrize("threshold", [2**63, -(2**63) - 1, 10**400])
def test_a_threshold_past_64_bits_is_refused(threshold: int) -> None:
    with pytest.raises(BadParameter, match="threshold"):
        SparseVector(threshold, 1, 1)
