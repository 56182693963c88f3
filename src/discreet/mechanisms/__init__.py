"""Mechanisms: noise, its privacy event and its error, as one frozen value each.

All have the same methods: `release(values, bits=None)` adds noise, `event(sensitivity, grid=1)` says what ran,
`error(confidence, size=1)` bounds the error, and `for_epsilon(…)` calibrates. `unsafe` holds mechanisms that must not be
used; it is not exported.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.mechanisms.binomial import Binomial
    from discreet.mechanisms.calibration import calibrate
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
    from discreet.mechanisms.exponential import Exponential
    from discreet.mechanisms.gaussian import Gaussian
    from discreet.mechanisms.laplace import Geometric, Laplace
    from discreet.mechanisms.partition_selection import OptimalPartitionSelection, Threshold
    from discreet.mechanisms.randomized_response import RandomizedResponse
    from discreet.mechanisms.sparse_vector import SparseVector
    from discreet.mechanisms.truncated_geometric import TruncatedGeometric

# A program that uses one mechanism does not wait for the others.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.mechanisms.binomial": "Binomial",
        "discreet.mechanisms.calibration": "calibrate",
        "discreet.mechanisms.discrete_gaussian": "DiscreteGaussian",
        "discreet.mechanisms.exponential": "Exponential",
        "discreet.mechanisms.gaussian": "Gaussian",
        "discreet.mechanisms.laplace": "Geometric Laplace",
        "discreet.mechanisms.partition_selection": "OptimalPartitionSelection Threshold",
        "discreet.mechanisms.randomized_response": "RandomizedResponse",
        "discreet.mechanisms.sparse_vector": "SparseVector",
        "discreet.mechanisms.truncated_geometric": "TruncatedGeometric",
    },
)

__all__ = [
    "Binomial",
    "DiscreteGaussian",
    "Exponential",
    "Gaussian",
    "Geometric",
    "Laplace",
    "OptimalPartitionSelection",
    "RandomizedResponse",
    "SparseVector",
    "Threshold",
    "TruncatedGeometric",
    "calibrate",
]
