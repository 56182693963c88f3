"""Noise that each person adds to their own answer: randomised response, and what is estimated from n reports.

For k questions everybody answers each with ε/k. In a histogram a person names a cell. A value between bounds becomes a bit
first, 1 with probability (value − lower)/(upper − lower), and the bit is answered for: the estimate stays unbiased.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms._additive_noise import SAFETY_FACTOR, tail_per_error
from discreet.planner.task import Accuracy, ErrorMetric, Histogram, Mean, Sum, Task

MAX_EXHAUSTIVE_N, MAX_NINE_SHARES_N = 64, 10_000
"""Up to FEW people every possible number of yes-sayers is tried; past it nine shares (three past MANY, where
the quantile hardly depends on the share), and one report is added for those between."""


@dataclass(frozen=True, slots=True)
class LocalMechanism:
    """Randomised response."""

    name: str = "randomised response"
    pure: bool = True

    def build_noise(self, task: Task, epsilon: Fraction) -> RandomizedResponse:
        """What everybody answers each question with."""
        choices = task.query.cells if isinstance(task.query, Histogram) else 2
        return RandomizedResponse.for_epsilon(epsilon / task.queries, choices)

    def predict_accuracy(self, task: Task, epsilon: Fraction, n: int | None) -> Accuracy:
        """The worst over what people's true answers may be. All cells of one histogram at once by the union bound."""
        assert n is not None
        answer = self.build_noise(task, epsilon)
        together = tail_per_error(task.confidence, task.queries) * task.queries / task.answers
        each, largest = (
            _worst_report_error(answer, task, n, tail) for tail in (tail_per_error(task.confidence, 1), together)
        )
        unit = _estimate_per_report(answer, task) / (n if task.divides_by_n else 1)
        return Accuracy(each * unit, largest * unit, Fraction(_worst_deviation(answer, task, n)) * unit)

    def textbook_half_width(self, task: Task, epsilon: Fraction, n: int | None) -> float | None:
        """Hoeffding's bound [S4, ex. 2.5], for each answer a share of what may be missed."""
        assert n is not None
        answer, size = self.build_noise(task, epsilon), 1 if task.metric is ErrorMetric.EACH else task.answers
        bound = answer.error(1 - (1 - task.confidence) / size, n)
        return bound * float(_value_width(task)) / (n if task.divides_by_n else 1)


def _value_width(task: Task) -> Fraction:
    """How much one person's bit stands for."""
    question = task.query
    return question.upper - question.lower if isinstance(question, Sum | Mean) else Fraction(1)


def _estimate_per_report(answer: RandomizedResponse, task: Task) -> Fraction:
    """What one report moves the estimate by."""
    return _value_width(task) / (answer.truth - answer.other)


def _worst_report_error(answer: RandomizedResponse, task: Task, n: int, tail: float) -> Fraction:
    """How many reports too many or too few, at worst.

    Bits of values: among all ways to have a given mean the binomial law has the least mass in any interval around it
    [Hoe56, Thm 5], and everybody with the same value reaches it; the law is widest where a report is a fair coin.
    """
    p, q = min(float(answer.truth), 1 - 2**-53), float(answer.other)
    shares = (0, 4, 8) if n > MAX_NINE_SHARES_N else range(9)
    if isinstance(task.query, Sum | Mean):
        centres = [q + (p - q) * i / 16 for i in shares]
        return Fraction(max(report_deviation_quantile(n, n, centre, 0.5, tail) for centre in centres) + 1)
    last = n // 2 if answer.choices == 2 else n  # two choices are each other's mirror image
    if n <= MAX_EXHAUSTIVE_N:
        return Fraction(max(report_deviation_quantile(n, h, p, q, tail) for h in range(last + 1)))
    return Fraction(max(report_deviation_quantile(n, last * i // 8, p, q, tail) for i in shares) + 1)


def _worst_deviation(answer: RandomizedResponse, task: Task, n: int) -> float:
    """The standard deviation of the number of reports, at worst: it is linear in how many people have an answer."""
    if isinstance(task.query, Sum | Mean):
        return sqrt(n) / 2 * SAFETY_FACTOR
    gap = float(answer.truth - answer.other)
    return max(answer.standard_deviation(n, holders) for holders in (0, n)) * gap * SAFETY_FACTOR


LOCAL_MECHANISM = LocalMechanism()


# How far the number of yes-reports strays from its mean, exactly.
#
# Of n people h say yes with probability p, the others with probability q: the number is Bin(h, p) + Bin(n − h, q).
# Each law is built up from its mode by ratios of neighbours and normalised, over 9 standard deviations.


Floats = NDArray[np.float64]
WINDOW_DEVIATIONS, WINDOW_MARGIN = 9.0, 40
MAX_EXACT_N = 10**9
"""Past this many people the law is bounded by the central limit theorem and its error [She11], or by [Ber46]."""
MIN_EXACT_TAIL = 1e-10
"""Below this the Fourier transforms' rounding, about 1e-15, would begin to show: Bernstein's bound instead."""
BERRY_ESSEEN = 0.5600


@lru_cache(maxsize=1024)
def report_deviation_quantile(n: int, h: int, p: float, q: float, tail: float) -> float:
    """The least t with P(|reports − mean| > t) ≤ tail.

    >>> [round(report_deviation_quantile(100, *more, 0.05), 6) for more in ((0, 0.5, 0.5), (50, 0.9, 0.1))]
    [10.0, 6.0]
    """
    if n > MAX_EXACT_N or tail < MIN_EXACT_TAIL:
        return _bound_deviation(n, h, p, q, tail)
    first, law = _convolve(_binomial(h, p), _binomial(n - h, q))
    off = np.abs(first + np.arange(law.size) - (h * p + (n - h) * q))
    order = np.argsort(-off)
    beyond = np.concatenate([[0.0], np.cumsum(law[order])[:-1]])  # P(further off than this one)
    return float(off[order][np.flatnonzero(beyond * SAFETY_FACTOR + 1e-14 <= tail)[-1]]) * SAFETY_FACTOR


def _binomial(n: int, p: float) -> tuple[int, Floats]:
    """The first value of the window, and the probabilities from there on."""
    mode, width = floor((n + 1) * p), WINDOW_DEVIATIONS * sqrt(n * p * (1 - p)) + WINDOW_MARGIN
    low, high = max(0, floor(mode - width)), min(n, ceil(mode + width))
    mode = min(max(mode, low), high)
    k = np.arange(low, high, dtype=np.float64)
    ratio = (n - k) / (k + 1) * (p / (1 - p))  # P(k + 1)/P(k)
    up = np.cumprod(ratio[mode - low :])
    down = np.cumprod(1 / ratio[: mode - low][::-1])[::-1]
    law = np.concatenate([down, [1.0], up])
    return low, law / law.sum()


def _convolve(a: tuple[int, Floats], b: tuple[int, Floats]) -> tuple[int, Floats]:
    size = a[1].size + b[1].size - 1
    if min(a[1].size, b[1].size) < 64:
        return a[0] + b[0], np.convolve(a[1], b[1])
    span = 1 << (size - 1).bit_length()
    law = np.fft.irfft(np.fft.rfft(a[1], span) * np.fft.rfft(b[1], span), span)[:size]
    return a[0] + b[0], np.maximum(law, 0.0)


def _bound_deviation(n: int, h: int, p: float, q: float, tail: float) -> float:
    """Bernstein's bound, or the normal law's quantile with what Berry and Esseen leave in doubt."""
    from scipy.special import ndtri

    variance = h * p * (1 - p) + (n - h) * q * (1 - q)
    depth = log(2 / tail)
    bernstein = depth / 3 + sqrt((depth / 3) ** 2 + 2 * variance * depth)
    third = h * p * (1 - p) * (p**2 + (1 - p) ** 2) + (n - h) * q * (1 - q) * (q**2 + (1 - q) ** 2)
    left = tail - 2 * BERRY_ESSEEN * third / variance**1.5
    return min(bernstein, -float(ndtri(left / 2)) * sqrt(variance) if left > 0 else bernstein) * SAFETY_FACTOR
