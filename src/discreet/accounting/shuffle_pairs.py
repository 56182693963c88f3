"""The shuffle model: n people randomise their values themselves, and only the multiset of their reports is seen.

**Theory of operation.** Neighbours replace one person's value, x0 by x1; n is fixed and public. Every report y of a person
with value x has a probability R(x)(y) of at least γ·base(y): think of it as drawn from `base`, the *privacy blanket*, with
probability γ, and from what is left of R(x) otherwise. An adversary who knows all values, and of every other person whether
their report came from the blanket and what it was if it did not, sees M ~ Bin(n − 1, γ) draws of base, mixed with the report
of the person who differs [BBGN19]. This pair of distributions dominates. `ShufflePair` holds it:

- *Set responses and k-RR*: base and γ are part of the mechanism. A report is of one of four classes: its set holds x0 alone,
  x1 alone, both, neither; in a class the ratios R(x0)/base and R(x1)/base are constant.
- *Any other ε0-private randomiser*: the clones of [FMT21, Thm III.2]. R(x) is a mixture in which R(x0) and R(x1) have weight
  e^{-ε0}/2 each, so at least Bin(n − 1, e^{-ε0}) others send a clone of one of the two, at random; the one who differs is a
  draw of binary randomised response of ε0. That is the pair of a blanket with γ = e^{-ε0} and a fair coin as base. The form
  of [FMT23] with more clones does not hold for every randomiser (see its erratum) and is not used.

**Proof** of the one-dimensional form. Write L = (R(x0) − e^ε·R(x1))/base at a draw of base. Of m + 1 reports, one of which
came from R(x0) and the others from base, the multiset has density Σ_i (R(x0)/base)(y_i)/(m + 1) with respect to m + 1 draws
of base. So δ(ε) = Σ_m Bin(n − 1, γ)(m)·E[(L_1 + … + L_{m+1})₊]/(m + 1), and Bin(n − 1, γ)(m)/(m + 1) =
Bin(n, γ)(m + 1)/(nγ) makes that

    δ(ε) = E[S₊]/(γn),  S = Z_1 + … + Z_n independent,  Z = 0 with probability 1 − γ, else L.

The same with γ = 1 and base = R(v) is exact where all others hold the value v: that is an actual neighbour, which bounds the
curve from below. x0 and x1 change places without any effect on a pair: their classes have equal masses.

**Computation.** Where S has few values, they are listed (`list_outcomes`). Else, with M(z) = E[e^{zZ}] and on Re z = c > 0,
E[S₊] = (1/2πi)∫ M(z)^n/z² dz. As in `contour`, the trapezoid sum of step h is exactly Σ_j e^{cjT}·E[(S − jT)₊], T = 2π/h: an
upper bound, whose aliases j ≠ 0 are bounded by E[(S − x)₊] ≤ M(t)^n·e^{-tx}/(te). S has atoms, so M does not decay: N(0, η²)
is added to S. Jensen: D_η = E[(S + ηN)₊] ≥ D = E[S₊]. For one value s of S the excess is ∫₀^η φ(s/m) dm, and substituting
m → √2·m shows that it at least grows by √2 when η does. So D_{√2η} − D_η ≥ (√2 − 1)·(D_η − D), for every S:

    D ≥ D_η − (D_{√2η} − D_η)/(√2 − 1).

The number of nodes depends on the accuracy and not on n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import asin, exp, expm1, inf, isfinite, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import ceil_float, floor_float, nearest_float, to_rational
from discreet.accounting.contour import CgfBound
from discreet.accounting.elementary import exp_bounds, log_bounds
from discreet.accounting.pld import EPS, SPECIAL_ERROR, Floats, Interval
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pure import pure
from discreet.events import Claim, Composition, Event, Memoised, RandomizedResponseEvent, SetResponseEvent, Shuffled

MAX_OUTCOMES = 1 << 19
"""How many multisets of few users are listed; of many, for whom a contour is as good, an eighth."""
_FEW_USERS = 1 << 12
MAX_NODES = 1 << 18
_MAX_TRIES = 5
_FIRST_EXCESS = 3e-7  # of the smoothing, relative, that is tried first
_MAX_REPORTS = 1 << 16
_MAX_UNPRUNED = 1 << 14
_MAX_FACTORIAL = 1 << 14
_MAX_LISTED_LOSSES = 1 << 11
_GRID_POINTS = 257
_GRID_ACCURACY = 1e-3  # relative, of δ
_LEAST_DELTA = 1e-30
_LEAST_LOSS = 1e-14  # below which the values of Z, differences of rationals, are not known well enough
_LEAST_MASS = Fraction(1, 10**300)  # of a class, to be a double with all its digits
_LARGEST_LOSS = 300.0  # whose square is a double
_LOG_OMITTED = -64.0  # ln of the probability that a list may leave out
_REACH = 8.5  # nodes end where smoothing has made them e^{-8.5²/2}
_LOG_DROPPED = -45.0  # ln of the relative size at which a node is left out
_LARGEST_POWER = 600.0  # e^{c·L} stays a double


@dataclass(frozen=True, slots=True)
class ReportClass:
    """Reports that tell the two values apart equally well: the probability of such a report under `base`, and how
    many times as likely one is under either value."""

    base: Fraction
    own: Fraction
    other: Fraction


@dataclass(frozen=True, slots=True)
class ShufflePair:
    """The report of one person among those of others that come from `base`, each of n with probability `blanket`.

    Rationals stand for numbers that may be irrational: they are within 2^-100 of them, relatively.
    """

    blanket: Fraction
    classes: tuple[ReportClass, ...]
    users: int

    @property
    def max_loss(self) -> float:
        """The largest privacy loss, rounded up."""
        return max(ceil_float(log_bounds(one.own / one.other)[1]) for one in self.classes) * (1 + 4 * EPS)

    @property
    def is_bare(self) -> bool:
        """Whether the pair is too extreme for doubles: at an ε0 of hundreds, where a shuffler hides nothing."""
        return min(self.blanket * one.base for one in self.classes) < _LEAST_MASS or self.max_loss > _LARGEST_LOSS

    @property
    def is_identical(self) -> bool:
        """Whether the two distributions are the same."""
        return all(one.own == one.other for one in self.classes)


def build_set_pair(odds: Fraction, share: Fraction, pair: Fraction, users: int) -> ShufflePair:
    """The blanket pair of a set response."""
    blanket = 1 / (1 + (odds - 1) * share)
    high, low = blanket * odds, blanket
    classes = (
        ReportClass(share - pair, high, low),
        ReportClass(share - pair, low, high),
        ReportClass(pair, high, high),
        ReportClass(1 - 2 * share + pair, low, low),
    )
    return ShufflePair(blanket, tuple(one for one in classes if one.base), users)


def build_response_pair(truth: Fraction, choices: int, users: int) -> ShufflePair:
    """The blanket pair of k-RR: the base is uniform. The truth may be the least likely answer."""
    other = (1 - truth) / (choices - 1)
    high, low, one = choices * truth, choices * other, Fraction(1, choices)
    rest = ReportClass(1 - 2 * one, low, low)
    classes = (ReportClass(one, high, low), ReportClass(one, low, high), *((rest,) if choices > 2 else ()))
    return ShufflePair(min(high, low), classes, users)


def build_clone_pair(epsilon0: Fraction, users: int) -> ShufflePair:
    """The pair of the clones of [FMT21] for any ε0-private randomiser."""
    a = sum(exp_bounds(-epsilon0), Fraction(0)) / 2
    half, high, low = Fraction(1, 2), 2 / (1 + a), 2 * a / (1 + a)
    return ShufflePair(a, (ReportClass(half, high, low), ReportClass(half, low, high)), users)


def build_attained_pairs(odds: Fraction, apart: Fraction, users: int) -> tuple[ShufflePair, ShufflePair]:
    """Actual neighbours, where all others hold one of the two values: x1, then x0. A report is `odds` times as likely for
    one value as for the other with probability odds·apart under the former, apart under the latter; or the other way
    round; else it is equally likely for both."""
    rest, one = 1 - (odds + 1) * apart, Fraction(1)
    same = (ReportClass(rest, one, one),) if rest > 0 else ()
    second = (ReportClass(apart, odds, one), ReportClass(odds * apart, 1 / odds, one), *same)
    first = (ReportClass(odds * apart, one, 1 / odds), ReportClass(apart, one, odds), *same)
    return ShufflePair(one, second, users), ShufflePair(one, first, users)


def build_pair(event: Shuffled) -> ShufflePair:
    """The pair that dominates a shuffled event: the blanket's where the event is known, else the clones'."""
    match unwrap(event.event):
        case SetResponseEvent(odds=odds, share=share, pair=pair):
            return build_set_pair(odds, share, pair, event.users)
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return build_response_pair(truth, choices, event.users)
        case inner:
            return build_clone_pair(to_rational(pure(inner)), event.users)


def list_attained_pairs(event: Shuffled) -> tuple[ShufflePair, ...]:
    """Actual neighbours of a shuffled event; none where none is known. A claim may be about binary randomised response."""
    match unwrap(event.event):
        case SetResponseEvent(odds=odds, share=share, pair=pair) as inner if odds > 1 and share > pair:
            return build_attained_pairs(odds, inner.blanket * (share - pair), event.users)
        case RandomizedResponseEvent(truth=truth, choices=choices) if truth * choices != 1:
            other = (1 - truth) / (choices - 1)
            return build_attained_pairs(max(truth, other) / min(truth, other), min(truth, other), event.users)
        case Claim(epsilon=epsilon) if epsilon > 0:
            odds = 1 / (sum(exp_bounds(-epsilon), Fraction(0)) / 2)
            return build_attained_pairs(odds, 1 / (odds + 1), event.users)
        case _:
            return ()


def unwrap(event: Event) -> Event:
    """The event itself where it is a composition of one, or the reports of a memo."""
    match event:
        case Composition(parts=((part, 1),)):
            return unwrap(part)
        case Memoised():
            return unwrap(event.unconditional)
        case _:
            return event


# Many values: the ε of a δ.


def bound_delta(pair: ShufflePair, epsilon: float, rtol: float) -> Interval:
    """δ at ε ≥ 0 of the pair, on a contour; `rtol` is the relative width to aim at."""
    if pair.is_identical:
        return 0.0, 0.0
    if pair.max_loss < _LEAST_LOSS:
        return 0.0, pair.max_loss  # 1 − e^{-ε0} < ε0
    if pair.is_bare:
        low, high = _bound_bare_delta(pair, Fraction(epsilon))
        return max(0.0, floor_float(low)), min(1.0, ceil_float(high))
    return _ShiftedSum.at(pair, epsilon).bound_delta(rtol)


def bound_epsilon(pair: ShufflePair, target: float, rtol: float) -> Interval:
    """The ε at which δ(ε) = target > 0, on a contour."""
    if pair.is_identical or target >= 1:
        return 0.0, 0.0
    if pair.max_loss < _LEAST_LOSS:
        return 0.0, pair.max_loss
    if pair.is_bare:
        return _bound_bare_epsilon(pair, Fraction(target))
    return _invert_contour(pair, target, rtol, pair.max_loss)


# A blanket, or a class, too thin for doubles.

_ROUNDED = Fraction(1, 1 << 90)
"""The rationals of a pair are within 2^-100 of what they stand for."""


def _bound_bare_delta(pair: ShufflePair, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """δ at ε of a bare pair, by rationals.

    **Proof.** Above: reports of others, drawn independently, only hide. Below: with a probability of at least `hit`, no
    other report is of the best class (or, with a thin blanket, from the blanket at all), and S is then at least
    own − e^ε·(other + crowd), where `crowd` bounds the sum of R(x1)/base over the others.
    """
    low, high = exp_bounds(epsilon)
    above = sum((max(one.base * (one.own - low * one.other), Fraction(0)) for one in pair.classes), Fraction(0))
    best, hit, crowd = _isolate(pair)
    below = hit * best.base * (best.own - high * (best.other + crowd))
    return below - _ROUNDED, above + _ROUNDED


def _bound_bare_epsilon(pair: ShufflePair, target: Fraction) -> Interval:
    """The ε at δ of a bare pair: where the bound from below is δ, and pure ε."""
    best, hit, crowd = _isolate(pair)
    left = best.base * best.own - (target / hit if hit else 1) - _ROUNDED
    low = floor_float(log_bounds(left / (best.base * (best.other + crowd)))[0]) if left > 0 else 0.0
    return min(max(0.0, low * (1 - 4 * EPS)), pair.max_loss), pair.max_loss


def _isolate(pair: ShufflePair) -> tuple[ReportClass, Fraction, Fraction]:
    """The class that tells the values apart best; how likely no other report is of it; and the weight of the others."""
    best = max(pair.classes, key=lambda one: one.own / one.other)
    others = pair.users - 1
    if pair.blanket < 1:
        return best, max(Fraction(0), 1 - others * pair.blanket), Fraction(0)
    crowd = others * max((one.other for one in pair.classes if one is not best), default=Fraction(0))
    return best, max(Fraction(0), 1 - others * best.base), crowd


def _invert_contour(pair: ShufflePair, target: float, rtol: float, most: float) -> Interval:
    if _ShiftedSum.at(pair, 0.0).bound_delta(1e-3)[1] <= target:
        return 0.0, 0.0
    guess, slope = _guess_epsilon(pair, target, most)
    # δ falls by a factor e^{slope·x} when ε grows by x: as much of the relative width may be δ's.
    tolerance = min(0.05, max(1e-11, rtol / 4 * slope * guess))
    excess = max(tolerance / 3, _FIRST_EXCESS)

    def bounds(epsilon: float) -> Interval:
        nonlocal excess
        low, high, excess = _ShiftedSum.at(pair, epsilon).refine_delta(tolerance, excess)
        return low, high

    for _ in range(3):
        low, high = bounds(guess)
        if low <= 0:
            break
        move = log((low + high) / 2 / target) / slope
        guess = min(max(guess / 2, guess + move), 2 * guess, most)
        if abs(move) <= rtol / 16 * guess:
            break
    return _bracket(bounds, target, guess, rtol / 4, most)


def _bracket(bounds: Callable[[float], Interval], target: float, guess: float, margin: float, most: float) -> Interval:
    """Tried points on both sides of the ε where δ(ε) = target; at `most` δ is 0."""
    ends = [0.0, most]
    for end, sign in ((0, -1.0), (1, 1.0)):
        step = margin * guess
        for _ in range(60):
            point = guess + sign * step
            if not 0 < point < most:
                break
            low, high = bounds(point)
            if (high <= target) if end else (low > target):
                ends[end] = point
                break
            step *= 2
    return ends[0], ends[1]


def _guess_epsilon(pair: ShufflePair, target: float, most: float) -> tuple[float, float]:
    """Roughly where δ(ε) is `target`, and how fast ln δ falls there; only speed depends on it."""
    wanted = log(target)
    low, high, point, slope = 0.0, most, min(most, 1.0 / sqrt(pair.users) + 1e-12), 1.0
    for step in range(60):
        here = _ShiftedSum.at(pair, point).approximate_log_delta()
        if here > wanted:
            low = point
        else:
            high = point
        if high - low <= 1e-9 * high or abs(here - wanted) < 1e-9:
            break
        width = point * 1e-4
        ahead = _ShiftedSum.at(pair, point + width).approximate_log_delta() if isfinite(here) else -inf
        slope = (here - ahead) / width
        following = point + (here - wanted) / slope if slope > 0 and isfinite(slope) else inf
        if step < 30 and not (low < following < high) and high == most:
            following = min(2 * point, (point + most) / 2)
        point = following if low < following < high else (low + high) / 2
    return point, max(slope, 1e-300)


# A few values: listed.


@lru_cache(maxsize=4)
def list_outcomes(pair: ShufflePair) -> tuple[DiscretePld, float] | None:
    """The privacy losses of all multisets that matter, largest first, and the probability of those left out; None where
    there are too many."""
    if pair.is_bare:
        return None
    for log_omitted in (10 * _LOG_OMITTED, _LOG_OMITTED):
        found = _list_counts(pair, log_omitted)
        if found is not None:
            break
    else:
        return None
    counts, left_out = found
    count, most, omitted = counts.shape[1], int(counts.sum(axis=0).max()), left_out * exp(log_omitted)
    from scipy.special import gammaln

    chosen = counts.sum(axis=0)
    factorial = gammaln(np.arange(most + 1.0) + 1)
    if pair.users <= _MAX_FACTORIAL:  # ln of n!/(n − m)!
        ends = gammaln(pair.users + 1.0), gammaln(pair.users - np.arange(most + 1.0) + 1)
        falling, falling_error = ends[0] - ends[1], SPECIAL_ERROR * (ends[0] + ends[1])
    else:  # by a sum: differences of large logarithms of factorials would lose digits
        falling = np.concatenate([[0.0], np.cumsum(np.log(pair.users - np.arange(float(most))))])
        falling_error = 4 * EPS * (most + 4) * falling
    log_mass, slip = falling[chosen], falling_error[chosen]
    if pair.blanket < 1:
        log_rest, rest_error = _log_complement(pair.blanket)
        log_mass = log_mass + (pair.users - chosen) * log_rest
        slip = slip + (pair.users - chosen) * (rest_error + 4 * EPS * abs(log_rest))
    for count_of, one in zip(counts, pair.classes, strict=True):
        log_one = log(nearest_float(pair.blanket * one.base))
        log_mass = log_mass + count_of * log_one - factorial[count_of]
        slip = slip + count_of * 4 * EPS * (abs(log_one) + 1) + SPECIAL_ERROR * factorial[count_of]
    own, other = (
        sum(count_of * nearest_float(ratio) for count_of, ratio in zip(counts, ratios, strict=True))
        for ratios in ([one.own for one in pair.classes], [one.other for one in pair.classes])
    )
    some = chosen > 0
    own, other, log_mass, slip = np.asarray(own)[some], np.asarray(other)[some], log_mass[some], slip[some]
    total = log(nearest_float(pair.blanket)) + log(pair.users)
    loss, log_p = np.log(own / other), log_mass + np.log(own) - total
    slip = slip + 32 * EPS * (1 + np.abs(log_p) + abs(total))
    keep = log_p > (-80 if count > _MAX_UNPRUNED else -740)
    omitted += 2 * float(np.exp(np.minimum(log_p[~keep], 0.0)).sum())
    order = np.flatnonzero(keep)[np.argsort(-loss[keep], kind="stable")]
    return DiscretePld.of(loss[order], log_p[order], 24 * EPS, slip[order]), omitted


def _log_complement(share: Fraction) -> tuple[float, float]:
    """ln(1 − p), and how far it may be off, for a p that is known to 2^-100, relatively."""
    if share < Fraction(1, 2):
        return log1p(-nearest_float(share)), 8 * EPS * nearest_float(share)
    return log(nearest_float(1 - share)), 4 * EPS + 2.0**-96 * nearest_float(1 / (1 - share))


def _list_counts(pair: ShufflePair, log_omitted: float) -> tuple[NDArray[np.int64], int] | None:
    """The numbers of reports of every class, as columns, but for some with probability e^log_omitted a few times over, and
    how many times; None where there are too many columns.

    Of n reports all but one are of a class, or from the blanket at all, with fixed probabilities: each number is at most one
    more than a binomial variable of n − 1.
    """
    most, left_out = (pair.users, 0)
    if pair.blanket < 1:
        _, most = _find_range(pair.users, nearest_float(pair.blanket), log_omitted)
        left_out += most < pair.users
    if most > _MAX_REPORTS:
        return None
    rows: list[NDArray[np.int64]] = []
    left = np.array([most])
    for one in pair.classes[: len(pair.classes) - (pair.blanket == 1)]:
        low, high = _find_range(pair.users, nearest_float(pair.blanket * one.base), log_omitted)
        left_out += (low > 0) + (high < pair.users)
        sizes = np.maximum(0, np.minimum(high, left) - low + 1)
        if int(sizes.sum()) > (MAX_OUTCOMES if pair.users <= _FEW_USERS else MAX_OUTCOMES >> 3):
            return None
        index = np.repeat(np.arange(len(left)), sizes)
        more = low + np.arange(len(index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = [row[index] for row in rows] + [more]
        left = left[index] - more
    return np.array([*rows, left] if pair.blanket == 1 else rows), left_out


def _find_range(users: int, share: float, log_omitted: float) -> tuple[int, int]:
    """Numbers between which Bin(n − 1, p), and one more than it, lies but for e^log_omitted at either end, by Chernoff's
    bound: ln P(Bin(n, p) ≥ an) ≤ −n·KL(a‖p) for a ≥ p, and likewise below."""
    trials = users - 1

    def log_tail(count: int) -> float:
        a, b = count / trials, 1 - count / trials
        terms = (a * log(a / share) if a else 0.0, b * log(b / (1 - share)) if b else 0.0)
        return -trials * (sum(terms) - 1e-12)

    if trials == 0 or share >= 1 - 1e-12:
        return 0, users
    middle = int(trials * share)
    low, high = 0, middle
    while high - low > 1:  # P(Bin ≤ low) is small, or low = 0
        at = (low + high) // 2
        low, high = (at, high) if log_tail(at) <= log_omitted else (low, at)
    least = low + 1 if low and log_tail(low) <= log_omitted else 0
    low, high = min(middle + 1, trials), users
    while high - low > 1:  # P(Bin ≥ high) is small, or high = n
        at = (low + high) // 2
        low, high = (low, at) if log_tail(at) <= log_omitted else (at, high)
    return least, high


# Many values: on a contour.


@dataclass(frozen=True, slots=True, eq=False)
class _ShiftedSum:
    """S at one ε: the values of Z that are not 0, their probabilities, and n."""

    value: Floats
    mass: Floats
    users: int
    total: float  # γ·n

    @classmethod
    def at(cls, pair: ShufflePair, epsilon: float) -> _ShiftedSum:
        power = sum(exp_bounds(Fraction(epsilon)), Fraction(0)) / 2
        value = np.array([nearest_float(one.own - power * one.other) for one in pair.classes])
        mass = np.array([nearest_float(pair.blanket * one.base) for one in pair.classes])
        return cls(value, mass, pair.users, nearest_float(pair.blanket) * pair.users)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """K = ln M at real points, and its error. M − 1 is a sum of small terms that nearly cancel: it is what is computed.

        A value is off by 2·EPS of itself, a mass by EPS, expm1 by 4·EPS; and |e^x − 1| ≤ |x|·e^{max(x, 0)}.
        """
        power = np.multiply.outer(c, self.value)
        excess = np.expm1(power) @ self.mass
        slip = 16 * EPS * ((np.abs(power) * np.exp(np.maximum(power, 0.0))) @ self.mass)
        value = np.log1p(excess)
        return value, slip / (1 + excess) * (1 + 1e-9) + 8 * EPS * np.abs(value)

    def find_saddle_point(self) -> tuple[float, float] | None:
        """c, where n·K(c) − 2·ln c is least, and the standard deviation of S tilted by c; None where there is no such c."""
        top = float(self.value.max())
        if top <= 0:
            return None
        largest = log(_LARGEST_POWER / top)
        low, high = largest - 120.0, largest

        def slope(at: float) -> float:
            weight = self.mass * np.exp(exp(at) * self.value)
            moment = 1 + float((self.mass * np.expm1(exp(at) * self.value)).sum())
            return self.users * float(weight @ self.value) / moment * exp(at) - 2

        if slope(high) <= 0:
            return None
        point = log(2 / sqrt(self.users * float(self.mass @ self.value**2)))
        for _ in range(60):
            point = point if low < point < high else (low + high) / 2
            here = slope(point)
            low, high = (point, high) if here < 0 else (low, point)
            change = (slope(point + 1e-5) - here) / 1e-5
            move = -here / change if change > 0 else inf
            if abs(move) < 1e-4 or high - low < 1e-4:
                break
            point += move
        c = exp(point)
        weight = self.mass * np.exp(c * self.value)
        moment = 1 + float((self.mass * np.expm1(c * self.value)).sum())
        mean = float(weight @ self.value) / moment
        return c, sqrt(max(1e-300, self.users * (float(weight @ self.value**2) / moment - mean**2)))

    def bound_delta(self, rtol: float) -> Interval:
        """δ between two doubles."""
        return self.refine_delta(rtol, max(rtol / 3, _FIRST_EXCESS))[:2]

    def refine_delta(self, rtol: float, excess: float) -> tuple[float, float, float]:
        """δ between two doubles, and the excess of the smoothing that sufficed; it begins with `excess`."""
        saddle = self.find_saddle_point()
        if saddle is None:
            return 0.0, self.chernoff(), excess
        low, high = 0.0, min(1.0, self.chernoff())
        best, width = excess, inf
        for _ in range(_MAX_TRIES):
            found = _integrate(self, *saddle, excess, min(1e-3, rtol / 8))
            low, high = max(low, found[0]), min(high, found[1])
            if found[1] - found[0] >= width:  # so little smoothing needs more nodes than there may be
                break
            best, width = excess, found[1] - found[0]
            if high - low <= rtol * high or excess < 1e-13:
                break
            excess /= 16
        return low, high, best

    def approximate_log_delta(self) -> float:
        """ln δ, without error bounds."""
        saddle = self.find_saddle_point()
        if saddle is None:
            return -inf
        value, _, scale = _integrate_smoothed(self, *saddle, 1e-3, 1e-6)
        mean = 2 * value[0] - value[1]  # the excess of smoothing grows as η²
        return log(mean) + scale - log(self.total) if mean > 0 else -inf

    def chernoff(self) -> float:
        """E[S₊] ≤ M(t)^n/(te), over γn."""
        top = float(self.value.max())
        if top <= 0:
            return 0.0
        t = np.exp(log(_LARGEST_POWER / top) - np.linspace(0, 60, 241))
        k, error = self.cgf(t)
        logs = self.users * (k + error) - np.log(t) - 1
        return exp(min(0.0, float(logs.min()) * (1 + 4 * EPS) - log(self.total) + 1e-12)) * (1 + 1e-12)


def _integrate(total: _ShiftedSum, c: float, deviation: float, excess: float, accuracy: float) -> Interval:
    """δ between two doubles, with smoothing that adds about `excess`, relatively."""
    value, error, scale = _integrate_smoothed(total, c, deviation, excess, accuracy)
    smoothed, more = value
    lost = error[0] + error[2] * (1 + 4 * error[3])
    low = smoothed - lost - ((more + error[1]) - (smoothed - lost)) / (sqrt(2) - 1) * (1 + 8 * EPS)
    slip = 1e-13 + 8 * EPS * abs(scale) + error[3]
    factor = exp(min(600.0, scale + slip)) / total.total * (1 + 16 * EPS)
    high = max(0.0, smoothed + error[0]) * factor + 5e-324
    least = max(0.0, low) * exp(min(600.0, scale - slip)) / total.total * (1 - 16 * EPS)
    if not (isfinite(high) and isfinite(least)):
        return 0.0, 1.0
    return least, min(1.0, high)


def _integrate_smoothed(
    total: _ShiftedSum, c: float, deviation: float, excess: float, accuracy: float
) -> tuple[tuple[float, float], tuple[float, float, float, float], float]:
    """(D_η, D_{√2η}) over e^scale; their errors, a bound on the aliases, and the error of the scale; the scale, n·K(c)."""
    n, value, mass = total.users, total.value, total.mass
    smoothing = 2 * excess / c**2
    period = _choose_period(total, c, deviation, smoothing, accuracy)
    step = 2 * pi / period
    t, reach, dropped = _choose_nodes(total, c, step, _REACH / sqrt(smoothing))
    count = len(t)
    base, base_error = (float(found[0]) for found in total.cgf(np.array([c])))
    x, y, slip = np.zeros(count), np.zeros(count), 0.0
    for one, weight in zip(value.tolist(), mass.tolist(), strict=True):
        angle = t * one
        half = np.sin(angle / 2)
        power, more = exp(c * one), expm1(c * one)
        x += weight * (more * np.cos(angle) - 2 * half * half)
        y += weight * power * np.sin(angle)
        slip += 16 * EPS * weight * max(1.0, power) * abs(one)
    wrong = slip * (c + t)  # of 1 + x + iy = M(c + it)
    gap = x * (2 + x) + y * y  # |M|² − 1
    square = np.maximum(1 + gap, 1e-300)
    size = np.sqrt(square)
    real, turn = np.log1p(np.maximum(gap, -1 + 1e-300)) / 2, np.arctan2(y, 1 + x)
    rough = 8 * EPS * (np.abs(x) * (2 + np.abs(x)) + y * y)
    with np.errstate(over="ignore"):
        off = n * (wrong / size + rough / square + 8 * EPS * (np.abs(real) + np.abs(turn) + abs(base)))
    off = 1.125 * (off + 8 * EPS * (4 + 2 * smoothing * (c * c + c * t + t * t)))  # |ln(1 + z)| ≤ 1.125·|z| up to 0.1
    weak = off > 0.1
    log_size = n * (real - base)
    if weak.any():  # all that is known of these nodes is their size
        bound = n * (np.log(np.sqrt(square[weak] + rough[weak]) + wrong[weak]) - base + base_error) + 1e-6
        log_size[weak] = np.minimum(bound, n * base_error + 1e-6)  # |M(c + it)| ≤ M(c)
    shrink = 1 / (c * c + t * t)
    phase = n * turn - 2 * np.arctan2(t, c)
    values, errors = [], []
    for smooth in (smoothing, 2 * smoothing):
        with np.errstate(under="ignore"):
            term = np.exp(np.minimum(log_size + smooth / 2 * (c * c - t * t), 600.0)) * shrink
        term[0] /= 2
        signed = np.where(weak, 0.0, term * np.cos(phase + smooth * c * t))
        beyond = exp(smooth / 2 * (c * c - reach * reach)) / (step * reach) * (1 + 1e-9)
        error = float(np.where(weak, term * 1.01, term * np.expm1(np.minimum(off, 1.0))).sum()) + beyond
        error += 64 * EPS * float(term.sum()) + dropped * exp(smooth / 2 * c * c) * (1 / c + pi / (2 * step)) / c
        values.append(float(signed.sum()) * step / pi)
        errors.append(error * step / pi * (1 + 1e-12))
    # Where no report comes from the blanket, S is 0 and adds nothing to D, but η/√2π to D_η: that much is taken off again.
    log_empty = n * log1p(-float(mass.sum())) if mass.sum() < 1 - 1e-9 else -inf
    if log_empty - n * base > -80:
        for i, smooth in enumerate((smoothing, 2 * smoothing)):
            size_empty = exp(min(600.0, log_empty - n * base)) * sqrt(smooth / (2 * pi))
            values[i] -= size_empty
            errors[i] += size_empty * (1e-13 + 16 * EPS * n / (1 - float(mass.sum())))
    aliases = _bound_aliases(total, c, period, smoothing, n * base)
    return (values[0], values[1]), (errors[0], errors[1], aliases, n * base_error), n * base


def _choose_nodes(total: _ShiftedSum, c: float, step: float, reach: float) -> tuple[Floats, float, float]:
    """The nodes up to `reach` that may matter; where they end, which is earlier if there are too many; and a bound on
    |M(c + it)/M(c)|^n at those left out.

    Two values a distance d apart whose tilted masses are p and q: |M(c + it)|²/M(c)² ≤ 1 − 4pq·sin²(td/2), so that only
    nodes near the multiples of 2π/d matter.
    """
    value = np.append(total.value, 0.0)
    weight = np.append(total.mass, max(0.0, 1 - float(total.mass.sum()) - 4 * EPS)) * np.exp(c * value)
    weight /= 1 + float((total.mass * np.expm1(c * total.value)).sum()) * (1 + 1e-9) + 1e-9
    spread = np.multiply.outer(weight, weight) * np.subtract.outer(value, value) ** 2
    i, j = np.unravel_index(int(np.argmax(spread)), spread.shape)
    distance = abs(float(value[i] - value[j]))
    sine = -_LOG_DROPPED / max(1e-300, 2 * total.users * float(weight[i] * weight[j]) * (1 - 1e-6)) + 1e-7
    count = int(reach / step) + 2
    if sine > 0.5 or distance * reach > 1e6:
        count = min(count, MAX_NODES)
        return step * np.arange(float(count)), step * (count - 1), 0.0
    apart = 2 * pi / distance
    width = asin(sqrt(sine)) * 2 / distance * (1 + 1e-6)
    most = max(1, int(MAX_NODES / (2 * width / step + 3)))
    peaks = apart * np.arange(float(min(most, int(reach / apart) + 2)))
    if len(peaks) == most:
        count = min(count, int((peaks[-1] + apart / 2) / step) + 1)
    first = np.maximum(0, np.ceil((peaks - width) / step)).astype(np.int64)
    sizes = np.maximum(0, np.minimum(count - 1, np.floor((peaks + width) / step)).astype(np.int64) - first + 1)
    index = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    return step * index, step * (count - 1), exp(_LOG_DROPPED)


def _choose_period(total: _ShiftedSum, c: float, deviation: float, smoothing: float, accuracy: float) -> float:
    """A period whose aliases are below `accuracy`, relatively, if few tries find one."""
    period = max(6.5 * deviation, 14 / c)
    base = total.users * float(total.cgf(np.array([c]))[0][0])
    main = 0.4 / (c * c * max(deviation, 1 / c))  # roughly what the integral is, over e^base
    for _ in range(12):
        if _bound_aliases(total, c, period, smoothing, base) <= accuracy * main:
            break
        period *= 1.25
    return period


def _bound_aliases(total: _ShiftedSum, c: float, period: float, smoothing: float, base: float) -> float:
    """Σ_{j≠0} e^{cjT}·E[(S + ηN − jT)₊] over e^base: by the best t below c for j < 0, above c for j > 0."""
    span = period * (1 - 4 * EPS)
    top = float(total.value.max())
    below, above = c * (1 - np.arange(1, 24) / 24), c * (1 + 2.0 ** np.arange(-6, 5, 0.5))
    above = above[above * top < 1.1 * _LARGEST_POWER]
    sums = []
    for t in (below, above):
        if not len(t):
            return inf
        k, error = total.cgf(t)
        logs = total.users * (k + error) + smoothing / 2 * t * t - np.log(t) - 1 - base
        gap = np.abs(t - c) * span
        sums.append(float(np.exp(np.minimum(logs + 1e-12 * np.abs(logs) - gap - np.log(-np.expm1(-gap)), 600.0)).min()))
    return (sums[0] + sums[1]) * (1 + 1e-9)


# A shuffled event among others.


@dataclass(frozen=True, slots=True)
class ShuffledPld(CgfBound):
    """The privacy loss of one shuffled event alone: its curve is computed from the pair; of K only c·max L is known."""

    pair: ShufflePair

    @property
    def max_loss(self) -> float:
        """As in `Pld`."""
        return self.pair.max_loss

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """As in `Pld`."""
        value = c * self.max_loss
        return value, 4 * EPS * value


@lru_cache(maxsize=32)
def build_dominating_pld(pair: ShufflePair) -> tuple[DiscretePld, float]:
    """A list of a few hundred privacy losses that dominates the pair, and ln of its finite mass, rounded down.

    **Proof.** As a function of x = e^ε, δ is convex and falls. Upper bounds on it at some points, δ = 1 at x = 0, and δ(1/x)
    = 1 − (1 − δ(x))/x, as both directions are alike, bound it by the largest convex function below all these points: a
    polygon, which is the curve of losses at its corners; what is left at the last corner is at infinity [DGKKM22].
    """
    if pair.is_identical:
        return DiscretePld.of([0.0], [0.0]), 0.0
    if pair.is_bare:  # binary randomised response of ε0 dominates
        most = pair.max_loss
        return DiscretePld.of([most, -most], [-log1p(exp(-most)), -most - log1p(exp(-most))], EPS, 4 * EPS), 0.0
    listed = list_outcomes(pair)
    if listed is not None and len(listed[0].loss) <= _MAX_LISTED_LOSSES:
        return listed[0], log1p(-2 * listed[1])
    rights = []
    for epsilon in _choose_grid(pair).tolist():
        x = Fraction(exp(epsilon))
        low = log_bounds(x)[0]  # δ is larger there, if anything
        rights.append((x, Fraction(_bound_from_above(pair, max(0.0, floor_float(low))))))
    lefts = [(1 / x, 1 - (1 - d) / x) for x, d in reversed(rights) if x > 1]
    corners = _find_hull([(Fraction(0), Fraction(1)), *lefts, *rights])
    slopes = [(d - c) / (b - a) for (a, c), (b, d) in pairwise(corners)] + [Fraction(0)]
    atoms = [(x, x * (after - before)) for (x, _), (before, after) in zip(corners[1:], pairwise(slopes), strict=True)]
    loss = [nearest_float(log_bounds(x)[0]) for x, _ in atoms]
    mass = [nearest_float(log_bounds(p)[0]) for _, p in atoms]
    return DiscretePld.of(loss, mass, EPS, 4 * EPS), log1p(-ceil_float(corners[-1][1])) * (1 + 4 * EPS)


def _bound_from_above(pair: ShufflePair, epsilon: float) -> float:
    return bound_delta(pair, epsilon, _GRID_ACCURACY)[1] if epsilon < pair.max_loss else 0.0


def _choose_grid(pair: ShufflePair) -> Floats:
    """Points from 0 to where δ is below `_LEAST_DELTA`, and pure ε if that is near."""
    most, high = pair.max_loss, pair.max_loss
    while high > 1e-12 and _ShiftedSum.at(pair, high / 2).chernoff() <= _LEAST_DELTA:
        high /= 2
    grid = np.linspace(0.0, high, _GRID_POINTS)
    return grid if high < most else np.append(grid[:-1], most * (1 + 8 * EPS))


def _find_hull(points: Sequence[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """The corners of the largest convex function below these points, which are sorted."""
    hull: list[tuple[Fraction, Fraction]] = []
    for x, d in points:
        while len(hull) > 1:
            (a, c), (b, e) = hull[-2:]
            if (e - c) * (x - a) < (d - c) * (b - a):
                break
            hull.pop()
        hull.append((x, d))
    return hull
