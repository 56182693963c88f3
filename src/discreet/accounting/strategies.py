"""How the curve of a sum of independent privacy losses is computed: step 3 of the road in `curve`.

`STRATEGIES` are tried in order, and the first that fits computes the curve: in closed form for Gaussians (`GaussianCurve`)
and for one sampled event (`SampledCurve`), with their atom counted apart for a few rounds of Gaussian noise without
replacement (`KinkedCurve`), by listing the values of the sum where they are few (`DiscreteCurve`), by its own contour for
one shuffled event (`ShuffledCurve`), on a contour in the complex plane for all others (`ContourCurve`).

A strategy bounds the part of δ(ε) that finite losses contribute. Every step rounds outwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, fsum, inf, isfinite, log, log1p
from typing import ClassVar

import numpy as np

from discreet._numbers import invert_falling, nearest_float, smallest_where, sqrt_up
from discreet.accounting.contour import (
    Contour,
    bound_delta_by_contour,
    bound_epsilon_by_contour,
    coarse_table,
    find_saddle_point,
    find_saddle_point_for_delta,
    fit_contour,
)
from discreet.accounting.pld import EPS, Floats, Interval, Parts
from discreet.accounting.pld.discrete import DiscretePld, convolve, convolve_lattice
from discreet.accounting.pld.gaussian import GaussianPld, gaussian_delta, guess_gaussian_epsilon
from discreet.accounting.pld.sampled import SampledPld, bound_sampled_delta
from discreet.accounting.pld.without_replacement import OffKinkPld, WithoutReplacementPld
from discreet.accounting.shuffle_pairs import ShuffledPld, ShufflePair, list_outcomes
from discreet.accounting.shuffle_pairs import bound_delta as bound_shuffled_delta
from discreet.accounting.shuffle_pairs import bound_epsilon as bound_shuffled_epsilon

_MAX_LISTED_ATOMS = 1 << 12
_MAX_LISTED_PARTS = 25
_MOST_KINKED_ROUNDS = 64
_LEAST_KINKED_RATE = Fraction(1, 200)


def bound_pure_epsilon(parts: Parts) -> Interval:
    """ε at δ = 0: the largest loss of all, Σ times·max L; ∞ where a distribution has none."""
    total = sum(times * pld.max_loss for pld, times in parts)
    slip = sum(2 * times * float(pld.loss_error.max()) for pld, times in parts if isinstance(pld, DiscretePld))
    return (max(0.0, total * (1 - 1e-14) - slip), max(0.0, total * (1 + 1e-14))) if isfinite(total) else (inf, inf)


class Curve(ABC):
    """δ(ε) of a sum of finite privacy losses, by one method."""

    __slots__ = ()

    is_final: ClassVar[bool] = True
    """Whether no later strategy is tried, however wide the interval is."""
    margin: ClassVar[float] = 0.0
    """How far from a guess at ε, relatively, the search for its bracket begins."""
    omitted_mass: float = 0.0
    """Probability that the curve leaves out; the ε of a δ that is not far above it is left to a later strategy."""

    @abstractmethod
    def bound_delta(self, epsilon: float, rtol: float = 0.0) -> Interval:
        """δ at ε between two doubles; `rtol` is the relative width to aim at, if there is a choice."""

    def bound_epsilon(self, target: float, rtol: float, infinity_mass: Interval) -> Interval:
        """The ε at which δ(ε), together with the mass at infinity, is `target`."""
        (low, high), guess = infinity_mass, self.guess_epsilon(target - infinity_mass[0])
        shrink, grow = 1 - 2**-52 if low else 1.0, 1 + 2**-52 if high else 1.0  # rounding of the additions
        return invert_falling(
            lambda e: (((found := self.bound_delta(e))[0] + low) * shrink, (found[1] + high) * grow),
            target,
            guess,
            min(rtol / 8, self.margin),
        )

    def guess_epsilon(self, target: float) -> float:
        """Roughly where δ(ε) is `target`; only speed depends on it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class GaussianCurve(Curve):
    """The exact curve of Gaussians, which together are one [BW18, Thm 8], at both ends of what is known of μ = Δ/σ."""

    margin = 4e-14

    mu_low: Fraction
    mu_high: Fraction

    @classmethod
    def match(cls, parts: Parts) -> GaussianCurve | None:
        """The curve, if all losses are Gaussian; `dominating_pairs` has added them up."""
        if len(parts) != 1 or not isinstance(parts[0][0], GaussianPld):
            return None
        mu = sqrt_up(parts[0][1] * parts[0][0].squared)  # at most 2^-90 above the truth
        return cls(mu * (1 - Fraction(1, 1 << 80)), mu)

    def bound_delta(self, epsilon: float, rtol: float = 0.0) -> Interval:
        """As in `Curve`."""
        point = Fraction(epsilon)
        return gaussian_delta(self.mu_low, point).lower, gaussian_delta(self.mu_high, point).upper

    def guess_epsilon(self, target: float) -> float:
        """As in `Curve`."""
        return guess_gaussian_epsilon(nearest_float(self.mu_high), target)


@dataclass(frozen=True, slots=True)
class SampledCurve(Curve):
    """The curve of one Gaussian or Laplace event on a sample, in closed form (`pld.sampled`)."""

    margin = 1e-10

    pld: SampledPld

    @classmethod
    def match(cls, parts: Parts) -> SampledCurve | None:
        """The curve, if one sampled event is all there is."""
        if len(parts) != 1 or parts[0][1] != 1:
            return None
        pld = parts[0][0]
        if isinstance(pld, WithoutReplacementPld):
            return cls(pld.single_sample)
        return cls(pld) if isinstance(pld, SampledPld) else None

    def bound_delta(self, epsilon: float, rtol: float = 0.0) -> Interval:
        """As in `Curve`."""
        return bound_sampled_delta(self.pld, epsilon)

    def guess_epsilon(self, target: float) -> float:
        """As in `Curve`: by bisection."""
        guess = smallest_where(lambda e: sum(bound_sampled_delta(self.pld, e)) / 2 <= target)
        return 0.0 if guess <= 1e-299 else guess


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteCurve(Curve):
    """The curve of a loss with few values, largest first: δ(ε) = Σ p·(1 − e^{ε − l})₊, every term ≥ 0."""

    is_final = False
    margin = 1e-12

    pld: DiscretePld
    omitted_mass: float = 0.0

    @classmethod
    def match(cls, parts: Parts) -> DiscreteCurve | None:
        """The curve, if the sum of the losses has few values, or few that matter."""
        if len(parts) > _MAX_LISTED_PARTS or not all(pld.is_discrete for pld, _ in parts):
            return None
        listed = [(pld.atoms(), times) for pld, times in parts]
        found = [(atoms[0], atoms[1], times) for atoms, times in listed if atoms is not None]
        if len(found) < len(parts):
            return None
        losses, omitted = [(pld, times) for pld, _, times in found], sum(times * omitted for _, omitted, times in found)
        summed = _list_sum(losses)
        if summed is None:
            return None
        total, left_out = summed
        order = np.argsort(-total.loss, kind="stable")
        ordered = DiscretePld(total.loss[order], total.log_mass[order], total.loss_error[order], total.mass_error[order])
        return cls(ordered, omitted + left_out)

    def bound_delta(self, epsilon: float, rtol: float = 0.0) -> Interval:
        """As in `Curve`: each term is moved by the errors of its loss and of its mass.

        >>> DiscreteCurve(DiscretePld.of([1.0, -1.0], [np.log(0.75), np.log(0.25)])).bound_delta(1.0)[0]
        0.0
        """
        ends = []
        for sign in (-1, 1):
            loss = self.pld.loss + sign * (self.pld.loss_error + 2 * EPS * (np.abs(self.pld.loss) + abs(epsilon)))
            # The list is sorted but for its errors: past the last loss above ε every term is 0.
            above = (loss > epsilon).nonzero()[0]
            last = int(above[-1]) + 1 if above.size else 0
            gain = -np.expm1(np.minimum(0.0, epsilon - loss[:last]))
            terms = np.exp(np.minimum(self.pld.log_mass[:last] + sign * self.pld.mass_error[:last], 0.0)) * gain
            value = fsum(terms.tolist()) if last < 512 else float(terms.sum()) * (1 + sign * EPS * 64)
            if isfinite(value):
                ends.append(max(0.0, value * (1 + sign * 16 * EPS) + sign * 1e-320 * last))
            else:  # some double overflowed on the way: nothing is known
                ends.append(float(sign > 0))
        return ends[0], min(1.0, ends[1] + self.omitted_mass)

    def guess_epsilon(self, target: float) -> float:
        """As in `Curve`: below a value l, δ rises by Q·(e^l − e^ε), with the mass Q that the values from l on have in the
        other distribution, until the next value. A sum of such steps is precise however small δ is."""
        loss: Floats = self.pld.loss
        reach = np.exp(np.minimum(np.logaddexp.accumulate(self.pld.log_mass - loss) + loss, 0.0))  # Q·e^l
        at = np.concatenate([[0.0], np.cumsum(reach[:-1] * -np.expm1(np.diff(loss)))])  # δ at every value
        i = max(0, int(np.searchsorted(at, target)) - 1)
        share = (target - float(at[i])) / float(reach[i]) if reach[i] > 0 else 0.0
        return max(0.0, float(loss[i]) + log1p(-share)) if share < 1 else 0.0


def _list_sum(losses: list[tuple[DiscretePld, int]]) -> tuple[DiscretePld, float] | None:
    """The values of a sum, and the mass of those that are left out: all of them, or those on one lattice that matter, or the
    sums of such lattices; None if they are many."""
    total = convolve(losses, _MAX_LISTED_ATOMS)
    if total is not None:
        return total, 0.0
    on_one = convolve_lattice(losses)
    if on_one is not None or len(losses) == 1:
        return on_one
    apart = [found for one in losses if (found := convolve_lattice([one])) is not None]
    total = convolve([(pld, 1) for pld, _ in apart], _MAX_LISTED_ATOMS) if len(apart) == len(losses) else None
    return None if total is None else (total, sum(left_out for _, left_out in apart))


@dataclass(frozen=True, slots=True)
class ShuffledCurve(Curve):
    """The curve of one shuffled event (`shuffle_pairs`): by listing its multisets where they are few, else on a contour."""

    pair: ShufflePair

    @classmethod
    def match(cls, parts: Parts) -> ShuffledCurve | None:
        """The curve on a contour, if one shuffled event is all there is."""
        if len(parts) != 1 or parts[0][1] != 1 or not isinstance(parts[0][0], ShuffledPld):
            return None
        return cls(parts[0][0].pair)

    @classmethod
    def match_listed(cls, parts: Parts) -> DiscreteCurve | None:
        """The curve by a list, if one shuffled event is all there is and has few multisets."""
        found = cls.match(parts)
        listed = None if found is None or found.pair.is_identical else list_outcomes(found.pair)
        return None if listed is None else DiscreteCurve(*listed)

    def bound_delta(self, epsilon: float, rtol: float = 1e-6) -> Interval:
        """As in `Curve`."""
        return bound_shuffled_delta(self.pair, epsilon, rtol)

    def bound_epsilon(self, target: float, rtol: float, infinity_mass: Interval) -> Interval:
        """As in `Curve`; nothing is at infinity. A list that leaves out too much for so small a δ still has a lower end."""
        listed = self.match_listed(((ShuffledPld(self.pair), 1),))
        low, high = (0.0, inf) if listed is None else listed.bound_epsilon(target, rtol, infinity_mass)
        if low > self.pair.max_loss * (1 - rtol):
            return low, high
        found = bound_shuffled_epsilon(self.pair, target, rtol)
        return max(low, found[0]), min(high, found[1])


@dataclass(frozen=True, slots=True)
class ContourCurve(Curve):
    """The curve of any losses, by a contour integral (`contour`): this strategy fits everything."""

    parts: Parts

    def bound_delta(self, epsilon: float, rtol: float = 1e-6) -> Interval:
        """As in `Curve`."""
        return bound_delta_by_contour(self.parts, epsilon, rtol)

    def bound_epsilon(self, target: float, rtol: float, infinity_mass: Interval) -> Interval:
        """As in `Curve`."""
        return bound_epsilon_by_contour(self.parts, target, rtol, infinity_mass)


@dataclass(frozen=True, slots=True)
class KinkedCurve(Curve):
    """The curve of a few rounds of Gaussian noise on samples without replacement: that of one round off the kink in closed
    form, and that of several on a contour (proof in `pld.without_replacement`)."""

    is_final = False

    pld: WithoutReplacementPld
    times: int

    @classmethod
    def match(cls, parts: Parts) -> KinkedCurve | None:
        """The curve, if a few such rounds are all there is."""
        match parts:
            case ((WithoutReplacementPld(inner=GaussianPld()) as pld, times),) if (
                1 < times <= _MOST_KINKED_ROUNDS and pld.rate >= _LEAST_KINKED_RATE
            ):
                return cls(pld, times)
        return None

    @property
    def several(self) -> Parts:
        """The losses of several rounds off the kink."""
        return ((OffKinkPld(self.pld, self.times), 1),)

    def bound_delta(self, epsilon: float, rtol: float = 1e-6) -> Interval:
        """As in `Curve`."""
        one, more = self.bound_single(epsilon), bound_delta_by_contour(self.several, epsilon, rtol)
        return (one[0] + more[0]) * (1 - 2 * EPS), min(1.0, (one[1] + more[1]) * (1 + 2 * EPS))

    def bound_single(self, epsilon: float) -> Interval:
        """δ from outcomes where one round is off the kink: k·w^{k−1} times the curve of one."""
        low, high = bound_sampled_delta(self.pld.single_sample, epsilon)
        power = (self.times - 1) * OffKinkPld(self.pld, self.times).log_kink
        weight, slip = self.times * exp(power), 32 * EPS * (self.times - power + 4)
        return low * weight * (1 - slip), high * weight * (1 + slip)

    def bound_epsilon(self, target: float, rtol: float, infinity_mass: Interval) -> Interval:
        """As in `Curve`; what is too wide is left to the usual contour."""
        low, high = self._bound_near_saddle(target, rtol, infinity_mass)
        enough = max(rtol, min(16 * rtol, 1e-4))  # the usual contour is hardly ever better, and takes longer
        if high - low <= enough * high < inf:
            return low, high
        found = bound_epsilon_by_contour(((self.pld, self.times),), target, rtol, infinity_mass)
        return max(low, found[0]), min(high, found[1])

    def _bound_near_saddle(self, target: float, rtol: float, infinity_mass: Interval) -> Interval:
        """The same, or nothing, by a contour at the saddle point of several rounds, which is moved at most once."""
        aim, parts = target - infinity_mass[0], self.several
        table = coarse_table(tuple(parts))
        if not np.isfinite(table.k).any():
            return 0.0, inf
        saddle = find_saddle_point_for_delta(parts, table, aim)
        for attempt in range(2):
            contour = fit_contour(parts, saddle, 0.25 * min(0.1, rtol * max(1e-3, saddle.c * saddle.epsilon)), log(aim))
            bound = self._beside(contour, infinity_mass)
            guess = _solve_secant(bound, target, saddle.epsilon, saddle.c)
            if guess is None:
                return 0.0, inf
            if attempt == 1 or abs(guess - saddle.epsilon) * saddle.c <= 0.5:
                return invert_falling(bound, target, guess, rtol / 8, tries=16)
            saddle = find_saddle_point(parts, saddle.cgf_table, guess)
        raise AssertionError("the second guess is the last")

    def _beside(self, contour: Contour, infinity_mass: Interval) -> Callable[[float], Interval]:
        """δ with what this contour of several rounds has."""

        def bound(epsilon: float) -> Interval:
            one, more = self.bound_single(epsilon), contour.bound_delta(epsilon, infinity_mass)
            return (one[0] + more[0]) * (1 - 2 * EPS), (one[1] + more[1]) * (1 + 2 * EPS)

        return bound


def _solve_secant(bound: Callable[[float], Interval], level: float, start: float, slope: float) -> float | None:
    """Roughly where a curve is `level` whose logarithm falls by about `slope` per unit; None if that is not found."""
    at, height = start, sum(bound(start)) / 2
    for _ in range(12):
        if not 0 < height < inf or not 0 < slope < inf:
            return None
        move = max(log(height / level) / slope, -at)
        if abs(move) <= 1e-9 * at or at + move == 0:
            return at + move
        before, (at, height) = height, (at + move, sum(bound(at + move)) / 2)
        slope = log(before / height) / move if height > 0 else 0.0
    return None


STRATEGIES: tuple[Callable[[Parts], Curve | None], ...] = (
    GaussianCurve.match,
    SampledCurve.match,
    KinkedCurve.match,
    DiscreteCurve.match,
    ShuffledCurve.match_listed,
    ShuffledCurve.match,
    ContourCurve,
)
"""How to compute the curve of a sum of losses: the first that fits."""


def bound_finite_delta(parts: Parts, eps: float, rtol: float) -> Interval:
    """The part of δ(ε) that finite losses contribute: by the first strategy that fits and is accurate enough."""
    low, high = 0.0, 1.0
    for match in STRATEGIES:
        curve = match(parts)
        if curve is None:
            continue
        found = curve.bound_delta(eps, rtol)
        low, high = max(low, found[0]), min(high, found[1])
        if curve.is_final or high - low <= rtol * high:
            break
    return low, high


def bound_finite_epsilon(parts: Parts, target: float, rtol: float, infinity_mass: Interval) -> Interval:
    """The ε at which δ(ε) = target > the mass at infinity: by the first strategy that fits and resolves such a δ."""
    if all(pld.max_loss == 0 for pld, _ in parts):
        return 0.0, 0.0
    for match in STRATEGIES:
        curve = match(parts)
        if curve is not None and target >= 1e9 * curve.omitted_mass:
            return curve.bound_epsilon(target, rtol, infinity_mass)
    raise AssertionError("the contour fits everything")


def bound_pair_delta(pair: ShufflePair, epsilon: float, rtol: float) -> Interval:
    """δ at ε of the pair of a shuffled event."""
    return bound_finite_delta(((ShuffledPld(pair), 1),), epsilon, rtol)


def bound_pair_epsilon(pair: ShufflePair, target: float, rtol: float) -> Interval:
    """ε at δ = target > 0 of the pair of a shuffled event; never above pure ε."""
    low, high = bound_finite_epsilon(((ShuffledPld(pair), 1),), target, rtol, (0.0, 0.0))
    return min(low, pair.max_loss), min(high, pair.max_loss)
