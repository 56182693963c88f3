"""Noise, its price and its error in one frozen value each.

All share one shape: `release(values, bits=None)`, `loss(sensitivity, grid=1)`, `error(confidence, size=1)` and
`for_epsilon(…)`. `unsafe` holds what must not be used and is not exported.
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
