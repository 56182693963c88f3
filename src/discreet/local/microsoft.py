"""Microsoft's telemetry [DKY17], by the names and parameters of the paper; the mechanisms are in `numeric`.

The paper's ε_∞ claims are for users with the same pattern of changes; see `longitudinal` for both statements.
"""

from fractions import Fraction
from math import exp, log, sqrt

from discreet._numbers import Number, check_probability, read_decimal
from discreet.local.numeric import BucketFlip, OneBitMean, RoundedBit
from discreet.local.odds import odds_for_epsilon


def one_bit_mean(m: int, epsilon: Number) -> OneBitMean:
    """1BitMean: the mean of integers from 0 to m.

    >>> one_bit_mean(100, 1).epsilon <= 1
    True
    """
    return OneBitMean(m, odds_for_epsilon(epsilon))


def one_bit_rrpm(m: int, s: int, epsilon: Number, gamma: Number = 0) -> RoundedBit:
    """1BitRRPM: α-point rounding to multiples of s with permanent memoisation, and output flips of probability γ.

    >>> one_bit_rrpm(24, 24, 1).states
    2
    """
    return RoundedBit(m, s, odds_for_epsilon(epsilon), read_decimal(gamma, "gamma"))


def d_bit_flip(k: int, d: int, epsilon: Number) -> BucketFlip:
    """dBitFlip: a histogram of k buckets, of which a device reports d bits.

    ε is that of the paper: e^{ε/2} for each bit. With d = 1 a report costs ε/2 only.

    >>> d_bit_flip(32, 1, 1).epsilon <= 0.5
    True
    """
    return d_bit_flip_pm(k, d, epsilon)


def d_bit_flip_pm(k: int, d: int, epsilon: Number, gamma: Number = 0) -> BucketFlip:
    """dBitFlipPM: dBitFlip with permanent memoisation, and output flips of probability γ.

    >>> d_bit_flip_pm(32, 4, 1).states
    5
    """
    root = odds_for_epsilon(read_decimal(epsilon, "epsilon") / 2)
    return BucketFlip(k, d, root, read_decimal(gamma, "gamma"))


def paper_histogram_bound(k: int, d: int, n: int, epsilon: float, delta: float) -> float:
    """Return the paper's bound on the largest error of a share: √(5k/(nd))·(z + 1)/(z − 1)·√ln(6k/δ), for comparison.

    `histogram_half_width` is about a quarter as wide.

    >>> round(paper_histogram_bound(32, 32, 10**6, 1.0, 0.05), 5)
    0.02623
    """
    root = exp(epsilon / 2)
    return sqrt(5 * k / (n * d)) * (root + 1) / (root - 1) * sqrt(log(6 * k / delta))


def histogram_half_width(flip: BucketFlip, n: int, confidence: Number = Fraction(19, 20)) -> float:
    """Return a half-width for the shares of all buckets at once: Bonferroni, with the normal approximation.

    It is for buckets that few people are in; `BucketFlip.variance` has the term of those who are.

    >>> round(histogram_half_width(d_bit_flip(32, 32, 1), 10**6), 5)
    0.00626
    """
    from scipy.special import ndtri

    miss = float(1 - check_probability(confidence, "confidence"))
    return -float(ndtri(miss / (2 * flip.buckets))) * sqrt(flip.variance(n)) / n
