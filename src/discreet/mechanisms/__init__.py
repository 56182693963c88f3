"""Mechanisms: noise, its privacy event and its error, as one frozen value each.

All have the same methods: `release(values, bits=None)` adds noise, `event(sensitivity, grid=1)` says what ran,
`error(confidence, size=1)` bounds the error, and `for_epsilon(…)` calibrates. `unsafe` holds mechanisms that must not be
used; it is not exported.
"""

from discreet.mechanisms.binomial import Binomial
from discreet.mechanisms.calibrate import calibrate
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Geometric, Laplace
from discreet.mechanisms.partition_selection import OptimalPartitionSelection, Threshold
from discreet.mechanisms.randomized_response import RandomizedResponse
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.mechanisms.truncated_geometric import TruncatedGeometric

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
