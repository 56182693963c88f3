"""Which noise each exact total gets, what that costs and how far off it may be: all known before any row is read.

The price is divided equally over the totals (and the selection of keys, where they are unknown), so every total's noise
stands in the same relation to what one unit can do to it. The noise is Laplace or Gaussian, whichever has the smaller
error at that price in the account's currency; in a pure account only Laplace has a price.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, log
from typing import TypeAlias

from discreet._numbers import nearest_float, smallest_where, sqrt_up
from discreet.accounting.currencies import Currency
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition, Event, compose
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise.laplace import check_sampler_scale
from discreet.query.contribution import BoundedQuery
from discreet.query.statistics import Statistic, statistics_of
from discreet.units import Sensitivity

Noise: TypeAlias = Laplace | Gaussian
COMPARISON_CONFIDENCE = 0.95
SCALE_TOLERANCE = 2.0**-24
MAX_SECANT_STEPS = 10


@dataclass(frozen=True)
class Measurement:
    """A question with its noise: everything that a ledger needs to charge it, and an engine to answer it."""

    bounded: BoundedQuery
    noises: tuple[tuple[Statistic, Noise], ...]
    selection: Threshold | None

    @cached_property
    def event(self) -> Composition:
        """What will have happened once it is released."""
        facts: list[Event] = [noise.event(self.bounded.sensitivity(measure)) for measure, noise in self.noises]
        if self.selection is not None:
            facts.append(self.selection.event(self._selection_sensitivity()))
        return compose(*facts)

    def noise(self, statistic: Statistic) -> Noise:
        """The noise of one total."""
        return self._noise_by_statistic[statistic]

    @cached_property
    def _noise_by_statistic(self) -> dict[Statistic, Noise]:
        return dict(self.noises)

    def _selection_sensitivity(self) -> Sensitivity:
        return Sensitivity(l0=self.bounded.max_groups * self.bounded.neighbours.differing_units, linf=1)


def calibrate_query(
    bounded: BoundedQuery,
    currency: Currency,
    amount: Fraction,
    delta: Fraction,
    weights: Mapping[str, Fraction] | None = None,
) -> Measurement:
    """Spend `amount` of the currency (and δ, if keys must be selected) on the question; equal shares unless columns of the
    answer are given weights."""
    shares = weigh_statistics(bounded, weights or {})
    unit = amount / (sum(shares.values()) + (bounded.keys is None))
    noises = tuple(
        (m, least_error_mechanism(bounded.sensitivity(m), currency, shares[m] * unit)) for m in bounded.statistics
    )
    selection = _calibrate_selection(bounded, currency, unit, delta) if bounded.keys is None else None
    for noise in (*(noise for _, noise in noises), *([] if selection is None else [selection])):
        check_scale(noise.sigma if isinstance(noise, Gaussian) else noise.scale)
    return Measurement(bounded, noises, selection)


def weigh_statistics(bounded: BoundedQuery, weights: Mapping[str, Fraction]) -> dict[Statistic, Fraction]:
    """The weight of each total: the largest of the columns that need it; 1 unless given."""
    found: dict[Statistic, Fraction] = {}
    for name, aggregate in bounded.query.aggregates:
        for each in statistics_of(aggregate, bounded.table):
            found[each] = max(found.get(each, Fraction(0)), weights.get(name, Fraction(1)))
    return found


@lru_cache(maxsize=256)
def least_error_mechanism(sensitivity: Sensitivity, currency: Currency, share: Fraction) -> Noise:
    """The noise with the smallest error at this price."""
    if currency.counts_epsilon:  # Laplace noise is exact in ε, and Gaussian noise has none
        return Laplace.for_epsilon(share, sensitivity)
    variance = currency.gaussian_variance(share, sensitivity.l2_squared)
    if variance is None:
        return _calibrate_laplace(sensitivity, currency, share, 1.0)
    gaussian = Gaussian(sqrt_up(variance))
    if currency.prefers_gaussian or _is_laplace_worse(sensitivity, currency, share, gaussian):
        return gaussian
    laplace = _calibrate_laplace(sensitivity, currency, share, float(gaussian.sigma))
    choices: tuple[Noise, ...] = (laplace, gaussian)
    return min(choices, key=lambda noise: noise.error(COMPARISON_CONFIDENCE))


def _is_laplace_worse(sensitivity: Sensitivity, currency: Currency, share: Fraction, gaussian: Gaussian) -> bool:
    """Whether all Laplace noise at this price has the larger error, seen without the search for the least of it: a scale
    whose error is already larger costs more than the share, and less noise has no lower price."""
    aim = (gaussian.error(COMPARISON_CONFIDENCE) + 1) / -log(1 - COMPARISON_CONFIDENCE)
    laplace = Laplace(Fraction(aim * 1.01))
    return (
        laplace.error(COMPARISON_CONFIDENCE) > gaussian.error(COMPARISON_CONFIDENCE)
        and currency.cost(laplace.event(sensitivity))[0] > share
    )


def _calibrate_laplace(sensitivity: Sensitivity, currency: Currency, share: Fraction, start: float) -> Laplace:
    """The least Laplace noise at this price, to about seven digits."""

    def cost(scale: float) -> Fraction | float:
        return currency.cost(Laplace(scale).event(sensitivity))[0]

    def ratio(scale: float) -> float:
        amount = cost(scale)
        return inf if amount == inf else nearest_float(Fraction(amount) / share)

    return Laplace(
        Fraction(
            smallest_where(lambda scale: cost(scale) <= share, start, SCALE_TOLERANCE, guess=_approximate_root(ratio, start))
        )
    )


def _approximate_root(ratio: Callable[[float], float], start: float) -> float:
    """About where a falling ratio, which is close to a power, passes 1. Nothing rests on it but speed."""
    at, power, before = start, -2.0, None
    for _ in range(MAX_SECANT_STEPS):
        here = ratio(at)
        if not 0 < here < inf:
            break
        if before is not None and here != before[1]:
            power = log(here / before[1]) / log(at / before[0])
        before = at, here
        following = at * here ** (-1 / power) if power < 0 else at
        if not 0 < following < inf or abs(following / at - 1) < SCALE_TOLERANCE / 8:
            break
        at = following
    return at


def check_scale(scale: Fraction) -> None:
    """Refuse noise that the samplers are not made for, before it is paid for."""
    try:
        check_sampler_scale(scale)
    except BadParameter:
        fault, hint = (
            ("wider than 2^50 grid steps", "pay more, or declare tighter bounds or fewer rows")
            if scale > 1
            else ("narrower than 2^-60 grid steps", "pay less")
        )
        raise QueryRefused(f"the noise of this would be {fault}", hint) from None


def _calibrate_selection(bounded: BoundedQuery, currency: Currency, share: Fraction, delta: Fraction) -> Threshold:
    """Noise and threshold on distinct units, at this price and δ."""
    if delta <= 0 and not currency.spends_delta:
        raise QueryRefused(
            f"the keys are not known, finding them out costs δ, and an {currency.family} account has none to give",
            "list the keys, for example --keys dept=a,b,c, or open an account in zcdp",
        )
    if delta <= 0:
        raise QueryRefused(
            "the keys are not known, and finding them out costs δ",
            "list the keys, for example --keys dept=a,b,c, or open a δ",
        )
    moved = Sensitivity(l0=bounded.max_groups * bounded.neighbours.differing_units, linf=1)
    if currency.counts_epsilon:
        return Threshold.for_epsilon(share, delta, moved)
    noise = _calibrate_laplace(moved, currency, share, 1.0)
    return Threshold.for_epsilon(moved.l1 / noise.scale if moved.l1 else share, delta, moved)
