"""Certified intervals for the number of people who have a value, from the number of reports that support it.

**What they cover.** Among n reports, C support a value v that n_v of the n people have. Each person's noise is their own,
so C is distributed as Bin(n_v, p*) + Bin(n − n_v, q*), exactly, and it grows stochastically with n_v because p* > q*. So
the set of all m under which C is not in a tail of probability α/2 is an interval that contains n_v with probability at
least 1 − α: about the people who reported, without any normal approximation, on either side alone too. m is excluded only
where an *upper bound* on the tail is below α/2, so rounding can only lengthen an interval.

**Tails.** Let K(z) = m·ln(1 + p(e^z − 1)) + (n − m)·ln(1 + q(e^z − 1)) be the logarithm of E e^{zS}, s > 0, N a natural
number and z_j = s + 2πij/N. Expand 1/(1 − e^{−z}) in powers of e^{−z} and e^{K(z)} in powers of e^z: then

    T_N = (1/N)·Σ_j e^{K(z_j) − c·z_j}/(1 − e^{−z_j}) = Σ_ℓ e^{sℓN}·P(S ≥ c + ℓN)  ≥  P(S ≥ c),

the sums over N consecutive j and over all integers ℓ. **Proof** of the direction: every term of the last sum is positive,
and the one with ℓ = 0 is the tail. N and s decide only how tight it is. Terms beyond |θ| = θ_J are left out, and what they
can amount to is added: each factor satisfies |1 + p_s(e^{iθ} − 1)|² = 1 − 2p_s(1 − p_s)(1 − cos θ) ≤
e^{−2p_s(1−p_s)(1−cos θ)}, so they sum to at most e^{K(s) − cs − V(1 − cos θ_J)}/(1 − e^{−s}), V the variance under the
tilted probabilities p_s. Last, each term is computed with a relative error below 16u·(n·(s + θ) + c·s + 10), u = 2^-53,
which is added too. Lower tails are upper tails of n − S.

**Shared hash functions** (`FixedHashed`, and the sketches of Apple and RAPPOR) need more. There C depends on which values
collide under the public functions, and that error does not shrink with n: it is the *floor*. **Hypothesis**: the K
functions were drawn at random, without looking at anyone's value. **Proof**: given the functions, the noise of n people is
a sum of independent terms of at most R₁ with total variance at most V, whatever the functions are, so E e^{λ·noise} ≤
exp(λ²V/2/(1 − λR₁/3)). What the functions add is a mean over K independent functions with expectation 0, terms of at most
n, and variance F. Both bounds multiply, so the whole error is more than t with probability at most 2·exp(−t²/2/(V + F +
R·t/3)), R = max(R₁, n/K) (Bernstein). F is at most `collision`·n·min(n, `alike`·M)/K where M is the largest n_v,
`collision` the variance of one collision, and `alike` how many other values collide with a value only together (g − 1 for
linear functions, which map lines to lines; 1 where three hashes are independent). M is unknown: if all errors are within
their widths, then M is at most the largest estimate and its width, a condition on M whose largest solution is used.
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf, log, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet._numbers import Number, ceil_float, read_probability
from discreet.local.fields import Ints

Floats: TypeAlias = NDArray[np.float64]

UNIT = 2.0**-53
MAX_DISTINCT = 2048
"""Where there are more distinct counts than this, those close to each other share an interval that holds for all of them."""
CELLS_AT_ONCE = 2048


def invert_counts(counts: Any, n: int, truth: Fraction, other: Fraction, miss: Number) -> tuple[Ints, Ints]:
    """Return the least and the largest number of people with a value that its support count leaves possible.

    `counts` are supports among n reports, `truth` and `other` the probabilities p* > q*, and `miss` the probability that an
    interval may miss: each end misses with at most half of it.

    >>> lower, upper = invert_counts([50, 80], 100, Fraction(3, 4), Fraction(1, 4), 0.05)
    >>> lower.tolist(), upper.tolist()
    ([32, 93], [68, 100])
    """
    tail = float(read_probability(miss, "miss")) / 2 * (1 - 4 * UNIT)
    supports = np.asarray(counts, np.int64)
    low, high = _round_counts(supports, n, truth, other)
    lower = np.minimum(_spread(low, lambda each: _exclude(each, n, truth, other, tail) + 1), n)
    # n − C is distributed as Bin(n − n_v, 1 − q*) + Bin(n_v, 1 − p*): the same question about those who have another value.
    upper = n - np.minimum(_spread(n - high, lambda each: _exclude(each, n, 1 - other, 1 - truth, tail) + 1), n)
    return lower, np.maximum(upper, lower)


def invert_rate(count: int, n: int, miss: Number) -> tuple[float, float]:
    """Return an interval for the mean μ of n probabilities, from how many of n independent coins with them came up.

    The coins need not be alike. μ is excluded from below only where the count is at least n·μ + 1 and P(Bin(n, μ) ≥ count)
    is less than half of `miss`. **Proof.** In that range the tail of unlike coins is at most that of n coins of μ
    [Hoeffding 1956], and all counts beyond an excluded one are excluded too. The other end is that of the coins turned over.

    >>> low, high = invert_rate(600, 1000, 0.05)
    >>> round(low, 4), round(high, 4)
    (0.5689, 0.6305)
    """
    tail = float(read_probability(miss, "miss")) / 2 * (1 - 4 * UNIT)

    def exclude(successes: int) -> float:
        low, high = 0.0, successes / n
        counts, people = np.array([successes]), np.array([float(n)])
        for _ in range(60):
            middle = (low + high) / 2
            far = successes >= n * middle * (1 + 4 * UNIT) + 1
            if far and bound_tails(counts, n, people, Fraction(middle), Fraction(0))[0] < tail:
                low = middle
            else:
                high = middle
        return low

    return exclude(count), 1 - exclude(n - count) * (1 - 2 * UNIT)


def _round_counts(counts: Ints, n: int, truth: Fraction, other: Fraction) -> tuple[Ints, Ints]:
    """Counts rounded down and up to a grid that is fine beside their deviation, where there are too many of them."""
    if len(counts) <= MAX_DISTINCT or len(np.unique(counts)) <= MAX_DISTINCT:
        return counts, counts
    step = max(1, int(sqrt(n * float(other * (1 - other))) / 64))
    return counts // step * step, np.minimum(-(-counts // step) * step, n)


def _spread(counts: Ints, invert: Callable[[Ints], Ints]) -> Ints:
    """Invert each distinct count once. An end grows with the count, so rounding a count outward rounds its end outward."""
    distinct, places = np.unique(counts, return_inverse=True)
    parts = [invert(distinct[i : i + CELLS_AT_ONCE]) for i in range(0, len(distinct), CELLS_AT_ONCE)]
    return np.concatenate([np.zeros(0, np.int64), *parts])[places]


def _exclude(counts: Ints, n: int, truth: Fraction, other: Fraction, tail: float) -> Ints:
    """For each count, the largest m found with P_m(S ≥ count) < tail; −1 if there is none.

    The search aims by Newton's method at the m where the tail, as a normal quantile, is the wanted one. What it returns was
    tried, and the tail grows with m: all smaller m are excluded with it.
    """
    p, q = float(truth), float(other)
    wanted = -ndtri(tail)

    def deviate(m: Floats) -> Floats:
        return np.asarray(np.sqrt(np.maximum(m * p * (1 - p) + (n - m) * q * (1 - q), 0.25)) / (p - q))

    m: Floats = np.clip((counts - n * q) / (p - q), 0, n)
    m = np.clip(m - wanted * deviate(m), 0, n)
    for _ in range(4):
        here = np.clip(np.rint(m), 0, n)
        found = -ndtri(np.clip(bound_tails(counts, n, here, truth, other), 1e-300, 1 - 1e-16))
        m = np.clip(here + (found - wanted) * deviate(m), -1, n)
    # Between `low`, which is excluded, and `high`, which is not: outward and inward from the guess in growing strides, then
    # by halves.
    low, high = np.full(len(counts), -1, np.int64), np.full(len(counts), n + 1, np.int64)
    tolerance = np.maximum(1, deviate(np.clip(m, 0, n)) / 1024).astype(np.int64)
    stride, tried = tolerance.copy(), np.clip(np.floor(m), 0, n).astype(np.int64)
    active = np.arange(len(counts))
    while active.size:
        here = tried[active]
        excluded = bound_tails(counts[active], n, here.astype(np.float64), truth, other) < tail
        low[active[excluded]], high[active[~excluded]] = here[excluded], here[~excluded]
        active = active[high[active] - low[active] > tolerance[active]]
        below, above, far = low[active], high[active], stride[active]
        aim = np.where(above > n, below + far, np.where(below < 0, above - far, (below + above) // 2))
        tried[active] = np.clip(aim, below + 1, above - 1)
        stride[active] = 4 * far
    return low


def bound_tails(counts: Ints, n: int, holders: Floats, truth: Fraction, other: Fraction) -> Floats:
    """Return upper bounds on P(Bin(m, p) + Bin(n − m, q) ≥ c), for arrays of c and m.

    >>> float(bound_tails(np.array([8]), 10, np.array([0.0]), Fraction(1, 2), Fraction(1, 2))[0])  # 56/1024
    0.0546875...
    """
    c, m = counts.astype(np.float64), holders
    p, q = float(truth), float(other)
    mean = m * p + (n - m) * q
    variance = np.maximum(m * p * (1 - p) + (n - m) * q * (1 - q), 1e-12)
    out = np.ones(len(c))
    far = np.flatnonzero(c > mean + 0.1 * np.sqrt(variance))
    if far.size:
        out[far] = np.minimum(1.0, _bound_far_tails(c[far], n, m[far], p, q, mean[far]))
    return out


def _bound_far_tails(c: Floats, n: int, m: Floats, p: float, q: float, mean: Floats) -> Floats:
    share = mean / n
    s = np.clip(np.log(np.maximum(c, 0.5) * (1 - share)) - np.log(share * np.maximum(n - c, 1e-12)), 1e-9, 40)
    for _ in range(4):  # the saddle point, roughly, from that of one binomial: any s > 0 gives a bound
        first, second = _tilt(s, p), _tilt(s, q)
        slope = m * first + (n - m) * second
        bend = np.maximum(m * first * (1 - first) + (n - m) * second * (1 - second), 1e-12)
        s = np.clip(s + np.clip((c - slope) / bend, -1, 1), 1e-9, 40)
    first, second = _tilt(s, p), _tilt(s, q)
    spread = m * first * (1 - first) + (n - m) * second * (1 - second)
    cut = np.minimum(2.0, 40 / np.maximum(spread, 1e-12))  # 1 − cos θ_J
    size = 2 * np.ceil(8 * np.sqrt(spread) + 20 / s) + 3  # N, odd
    last = np.arccos(1 - cut)
    nodes = np.minimum(np.ceil(size * last / (2 * np.pi)), (size - 1) / 2)
    j = np.arange(int(nodes.max()) + 1)
    theta = 2 * np.pi * j[None, :] / size[:, None]
    half, sine = 2 * np.sin(theta / 2) ** 2, np.sin(theta)
    grow = -c[:, None] * theta  # the phase
    fall = np.zeros_like(theta)  # the logarithm of the modulus, relative to θ = 0
    for people, tilted in ((m, first), (n - m, second)):
        t = tilted[:, None]
        grow = grow + people[:, None] * np.arctan2(t * sine, 1 - t * half)
        fall = fall + people[:, None] * 0.5 * np.log1p(-2 * t * (1 - t) * half)
    kernel = -np.expm1(-s)[:, None] + np.exp(-s)[:, None] * (half + 1j * sine)  # 1 − e^{−z}
    sizes = np.exp(fall) / np.abs(kernel)
    weights = np.where(j[None, :] == 0, 1.0, 2.0) * (j[None, :] <= nodes[:, None])
    terms = weights * sizes * np.cos(grow - np.angle(kernel))
    level = m * np.log1p(p * np.expm1(s)) + (n - m) * np.log1p(q * np.expm1(s)) - s * c
    rounding = 16 * UNIT * (n * (s + last) + c * s + 10)
    whole = nodes >= (size - 1) / 2
    left_out = np.where(whole, 0.0, np.exp(-spread * (1 - np.cos(2 * np.pi * nodes / size)))) / -np.expm1(-s)
    total = terms.sum(axis=1) / size + left_out + rounding * (weights * sizes).sum(axis=1) / size
    return np.asarray(np.exp(level) * (1 + rounding) * total)


def _tilt(s: Floats, p: float) -> Floats:
    """p·e^s/(1 + p(e^s − 1))."""
    return np.asarray(p / (p + (1 - p) * np.exp(-s)))


# -- Bernstein's inequality, for shared hash functions and for totals ----------------------------------------------------


def bernstein_width(variance: Fraction | float, largest: Fraction | float, miss: Fraction | float) -> float:
    """Return how far a sum of independent terms may be from its mean, but for a probability of `miss`, rounded up.

    The terms differ from their means by at most `largest` and have this total variance: t = RL/3 + √((RL/3)² + 2VL) with
    L = ln(2/miss) solves 2·exp(−t²/2/(V + Rt/3)) = miss.

    >>> bernstein_width(100, 1, 0.05)
    28.4...
    """
    level = log(2 / float(miss))
    shift = ceil_float(Fraction(largest)) * level / 3
    return (shift + sqrt(shift * shift + 2 * ceil_float(Fraction(variance)) * level)) * (1 + 16 * UNIT)


def floor_widths(
    largest_estimate: float,
    n: int,
    *,
    noise: Fraction | float,
    largest_term: Fraction | float,
    functions: int,
    collision: Fraction | float,
    alike: int = 1,
    values: int,
    miss: Number,
) -> tuple[float, float]:
    """Return half-widths of intervals under shared hash functions, for one value and for all at once: see the head.

    `noise` bounds the variance of an estimate given the functions, `largest_term` what one report adds to it, `collision` is
    the variance that one person with another value adds through one random function.

    >>> one, together = floor_widths(
    ...     2e5, 10**6, noise=4e6, largest_term=4, functions=1024, collision=0.5, values=128, miss=0.05)
    >>> round(one), round(together)
    (32583, 49197)
    """
    exact = read_probability(miss, "miss")
    term = max(ceil_float(Fraction(largest_term)), n / functions)

    def width(most: float, share: Fraction) -> float:
        floor = float(collision) * n * min(n, alike * most) / functions
        return bernstein_width(float(noise) + floor, term, share)

    def bound_most(share: Fraction) -> float:
        """The largest M with M ≤ estimate + width(M), from above: the width is concave in M."""
        most = float(n)
        for _ in range(200):
            smaller = min(float(n), max(0.0, largest_estimate) + width(most, share))
            if smaller >= most * (1 - 1e-6):
                break
            most = smaller
        return most

    # A tenth of the miss of one interval is spent on the bound of M, which leans on all values at once.
    one = width(bound_most(exact / 10 / values), exact * 9 / 10)
    together = width(bound_most(exact / values), exact / values)
    return one, together


def describe_detection(n: int, values: int, null_variance: Fraction, miss: Number = 0.05) -> float:
    """Return the share of people below which a value cannot be told from one that no person has: half of the interval of the
    largest of all values, by the normal approximation; ∞ without reports. For planning, not certified.

    >>> round(describe_detection(10**6, 128, Fraction(4)), 4)
    0.0071
    """
    if n == 0:
        return inf
    return float(-ndtri(float(read_probability(miss, "miss")) / 2 / values)) * sqrt(float(null_variance) / n)
