"""Decoding `FixedHashed`, whose functions are shared: by supports with a floor, or by least squares without one.

Let c(u, v) be the share of the public functions under which u and v collide. A report of a person with value u supports v
with probability q* + M(u, v)·(p* − q*), M(u, v) = (c(u, v) − 1/g)·g/(g − 1), M(v, v) = 1. So the estimate from supports has
the mean Σ_u M(u, v)·n_u, given the functions: it is off by the collisions, which more reports do not remove.

**Least squares.** M is public. With its inverse W, the estimates W·n̂ are unbiased given the functions, whatever they are.
Each is a sum over people of independent terms w_v(h, y) = Σ_u W(v, u)·([h(u) = y] − q*)/(p* − q*), whose variance under each
value is computed from the functions. So Bernstein's inequality gives their intervals, **without a hypothesis** about the
functions. W is computed in doubles; n times the largest entry of W·M − I, which bounds what that can change, is added.

**Supports** remain where there are too many values for M: see `intervals` for the floor and its hypothesis.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from discreet._numbers import Number, read_probability
from discreet.local.counting import list_hashes
from discreet.local.fields import Ints
from discreet.local.intervals import Floats, bernstein_width, floor_widths
from discreet.local.oracles import FixedHashed

MAX_SOLVED = 1024
"""With more values than this, the matrix of collisions takes too long."""

MAX_INVERSE = 16.0
"""Least squares is used if no estimate's variance grows by more than about this factor."""


@dataclass(frozen=True, eq=False)
class Design:
    """What the public functions do to estimates, solved."""

    collisions: Floats  # M
    inverse: Floats  # W
    variances: Floats  # the variance of w_v under each value u: [v, u]
    largest: Floats  # of |w_v − its mean|, for each v
    residual: float  # of W·M − I

    @classmethod
    def of(cls, oracle: FixedHashed) -> "Design | None":
        """Solve the functions of an oracle; None if there are too many values, or too few functions."""
        if oracle.values > min(MAX_SOLVED, oracle.functions * (oracle.buckets - 1)):
            return None
        return _solve(oracle)


@lru_cache(maxsize=4)
def _solve(oracle: FixedHashed) -> Design | None:
    g, p, q = oracle.buckets, oracle.truth_support, oracle.other_support
    hashes = list_hashes(oracle)
    ones = np.stack([(hashes == bucket).astype(np.float64) for bucket in range(g)])  # [y, h, u]
    together = sum(part.T @ part for part in ones)  # how often u and v collide: exact integers
    collisions = (together / oracle.functions - 1 / g) * g / (g - 1)
    try:
        inverse = np.linalg.inv(collisions)
    except np.linalg.LinAlgError:
        return None
    if not np.abs(np.diag(inverse)).max() <= MAX_INVERSE:
        return None
    residual = float(np.abs(inverse @ collisions - np.eye(oracle.values)).max()) * 2
    weights = np.stack([(part - float(q)) @ inverse.T for part in ones]) / float(p - q)  # w_v(h, y): [y, h, v]
    # A person with value u reports (h, y) with probability p'/K if h(u) = y, else q'/K.
    near, other = (float(chance) / oracle.functions for chance in (p, (1 - p) / (g - 1)))
    squares, lots = (weights**2).sum(axis=(0, 1)), weights.sum(axis=(0, 1))
    second = other * squares[:, None] + (near - other) * sum(
        (part**2).T @ one for part, one in zip(weights, ones, strict=True)
    )
    mean = other * lots[:, None] + (near - other) * sum(part.T @ one for part, one in zip(weights, ones, strict=True))
    variances = np.maximum(second - mean**2, 0.0) * (1 + 1e-9)
    flat = weights.reshape(-1, oracle.values)
    largest = np.maximum(flat.max(axis=0) - mean.min(axis=1), mean.max(axis=1) - flat.min(axis=0))
    return Design(collisions, inverse, variances, largest, residual)


@dataclass(frozen=True, eq=False)
class SharedEstimates:
    """Estimates under shared functions: values, standard deviations, and half-widths for one value and for all at once."""

    values: Floats
    deviations: Floats
    widths: Floats
    joint_widths: Floats
    explanation: str


def estimate_solved(oracle: FixedHashed, design: Design, supports: Ints, n: int, miss: Number) -> SharedEstimates:
    """Estimate by least squares on the public functions."""
    p, q = oracle.truth_support, oracle.other_support
    plain = (supports - n * float(q)) / float(p - q)
    values = design.inverse @ plain
    shares = np.clip(values, 0, None)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(values), 1 / len(values))
    exact = read_probability(miss, "miss")
    slack = n * design.residual * len(values)

    def widths(each: Fraction) -> Floats:
        most = n * design.variances.max(axis=1)
        found = [bernstein_width(float(v), float(r), each) for v, r in zip(most, design.largest, strict=True)]
        return np.array(found) + slack

    deviations = np.sqrt(n * (design.variances @ shares))
    explanation = (
        "The public hash functions collide; least squares removes what that adds, and the intervals hold for any functions."
    )
    return SharedEstimates(values, deviations, widths(exact), widths(exact / oracle.values), explanation)


def estimate_with_floor(oracle: FixedHashed, supports: Ints, n: int, miss: Number) -> SharedEstimates:
    """Estimate from supports, with intervals that hold the floor of the public functions."""
    p, q, g = oracle.truth_support, oracle.other_support, oracle.buckets
    values: Floats = np.asarray((supports - n * float(q)) / float(p - q), np.float64)
    one, together = floor_widths(
        float(values.max()),
        n,
        noise=Fraction(n, 4) / (p - q) ** 2,
        largest_term=1 / (p - q),
        functions=oracle.functions,
        collision=Fraction(1, g - 1),
        alike=g - 1,
        values=oracle.values,
        miss=miss,
    )
    noise = float(oracle.variance(n))
    squares = max(0.0, float((values**2).sum()) - oracle.values * noise)
    floor = min(squares, float(n) ** 2) / ((g - 1) * oracle.functions)
    explanation = (
        f"{oracle.functions:,} public hash functions are shared, which adds an error that does not shrink with more "
        "reports; the intervals hold it if the functions were drawn at random, without looking at anyone's value."
    )
    size = len(values)
    return SharedEstimates(
        values, np.full(size, sqrt(noise + floor)), np.full(size, one), np.full(size, together), explanation
    )
