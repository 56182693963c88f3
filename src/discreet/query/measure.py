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
from typing import TypeAlias, assert_never

from discreet.accounting.filters import Currency, Gdp, Pure, Rdp, Zcdp, price
from discreet.accounting.search import least
from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import nearest_float, sqrt_up
from discreet.loss import Composition, Loss, compose
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise.laplace import in_range
from discreet.query.bound import Bounded
from discreet.query.measures import Measure, measures_of
from discreet.units import Sensitivity

Noise: TypeAlias = Laplace | Gaussian
JUDGED_AT = 0.95
NEARNESS = 2.0**-24
SECANTS = 10


@dataclass(frozen=True)
class Measurement:
    """A question with its noise: everything that a ledger needs to charge it, and an engine to answer it."""

    bounded: Bounded
    noises: tuple[tuple[Measure, Noise], ...]
    selection: Threshold | None

    @cached_property
    def loss(self) -> Composition:
        """What will have happened once it is released."""
        facts: list[Loss] = [noise.loss(self.bounded.sensitivity(measure)) for measure, noise in self.noises]
        if self.selection is not None:
            facts.append(self.selection.loss(self._keys_per_unit()))
        return compose(*facts)

    def noise(self, measure: Measure) -> Noise:
        """The noise of one total."""
        return self._by_measure[measure]

    @cached_property
    def _by_measure(self) -> dict[Measure, Noise]:
        return dict(self.noises)

    def _keys_per_unit(self) -> Sensitivity:
        return Sensitivity(l0=self.bounded.groups * self.bounded.neighbours.changes, linf=1)


def measure(
    bounded: Bounded,
    currency: Currency,
    amount: Fraction,
    delta: Fraction,
    weights: Mapping[str, Fraction] | None = None,
) -> Measurement:
    """Spend `amount` of the currency (and δ, if keys must be selected) on the question; equal shares unless columns of the
    answer are given weights."""
    shares = weighed(bounded, weights or {})
    unit = amount / (sum(shares.values()) + (bounded.keys is None))
    noises = tuple((m, quietest(bounded.sensitivity(m), currency, shares[m] * unit)) for m in bounded.measures)
    selection = _selection(bounded, currency, unit, delta) if bounded.keys is None else None
    for noise in (*(noise for _, noise in noises), *([] if selection is None else [selection])):
        drawable(noise.sigma if isinstance(noise, Gaussian) else noise.scale)
    return Measurement(bounded, noises, selection)


def weighed(bounded: Bounded, weights: Mapping[str, Fraction]) -> dict[Measure, Fraction]:
    """The weight of each total: the largest of the columns that need it; 1 unless given."""
    found: dict[Measure, Fraction] = {}
    for name, aggregate in bounded.query.aggregates:
        for each in measures_of(aggregate, bounded.table):
            found[each] = max(found.get(each, Fraction(0)), weights.get(name, Fraction(1)))
    return found


@lru_cache(maxsize=256)
def quietest(moved: Sensitivity, currency: Currency, share: Fraction) -> Noise:
    """The noise with the smallest error at this price."""
    match currency:
        case Pure():
            return Laplace.for_epsilon(share, moved)
        case Zcdp():
            gaussian = Gaussian(sqrt_up(moved.l2_squared / (2 * share)))
        case Gdp():  # ε-private noise costs −2Φ⁻¹(1/(1+e^ε)) in μ [DRS22], at which Gaussian noise is never the larger
            return Gaussian(sqrt_up(moved.l2_squared / share))
        case Rdp(order=order):
            gaussian = Gaussian(sqrt_up(moved.l2_squared * order / (2 * share)))
        case _:
            assert_never(currency)
    if _surely_louder(moved, currency, share, gaussian):
        return gaussian
    laplace = _laplace(moved, currency, share, float(gaussian.sigma))
    choices: tuple[Noise, ...] = (laplace, gaussian)
    return min(choices, key=lambda noise: noise.error(JUDGED_AT))


def _surely_louder(moved: Sensitivity, currency: Currency, share: Fraction, gaussian: Gaussian) -> bool:
    """Whether all Laplace noise at this price has the larger error, seen without the search for the least of it: a scale
    whose error is already larger costs more than the share, and less noise has no lower price."""
    aim = (gaussian.error(JUDGED_AT) + 1) / -log(1 - JUDGED_AT)
    laplace = Laplace(Fraction(aim * 1.01))
    return laplace.error(JUDGED_AT) > gaussian.error(JUDGED_AT) and price(currency, laplace.loss(moved))[0] > share


def _laplace(moved: Sensitivity, currency: Currency, share: Fraction, start: float) -> Laplace:
    """The least Laplace noise at this price, to about seven digits."""

    def cost(scale: float) -> Fraction | float:
        return price(currency, Laplace(scale).loss(moved))[0]

    def ratio(scale: float) -> float:
        amount = cost(scale)
        return inf if amount == inf else nearest_float(Fraction(amount) / share)

    return Laplace(Fraction(least(lambda scale: cost(scale) <= share, start, NEARNESS, near=_secant(ratio, start))))


def _secant(ratio: Callable[[float], float], start: float) -> float:
    """About where a falling ratio, which is close to a power, passes 1. Nothing rests on it but speed."""
    at, power, before = start, -2.0, None
    for _ in range(SECANTS):
        here = ratio(at)
        if not 0 < here < inf:
            break
        if before is not None and here != before[1]:
            power = log(here / before[1]) / log(at / before[0])
        before = at, here
        following = at * here ** (-1 / power) if power < 0 else at
        if not 0 < following < inf or abs(following / at - 1) < NEARNESS / 8:
            break
        at = following
    return at


def drawable(scale: Fraction) -> None:
    """Refuse noise that the samplers are not made for, before it is paid for."""
    try:
        in_range(scale)
    except BadParameter:
        fault, way_out = (
            ("wider than 2^50 grid steps", "pay more, or declare tighter bounds or fewer rows")
            if scale > 1
            else ("narrower than 2^-60 grid steps", "pay less")
        )
        raise QuestionRefused(f"the noise of this would be {fault}", way_out) from None


def _selection(bounded: Bounded, currency: Currency, share: Fraction, delta: Fraction) -> Threshold:
    """Noise and threshold on distinct units, at this price and δ."""
    if delta <= 0 and isinstance(currency, Rdp):
        raise QuestionRefused(
            "the keys are not known, finding them out costs δ, and an rdp account has none to give",
            "list the keys, for example --keys dept=a,b,c, or open an account in zcdp",
        )
    if delta <= 0:
        raise QuestionRefused(
            "the keys are not known, and finding them out costs δ",
            "list the keys, for example --keys dept=a,b,c, or open a δ",
        )
    moved = Sensitivity(l0=bounded.groups * bounded.neighbours.changes, linf=1)
    if isinstance(currency, Pure):
        return Threshold.for_epsilon(share, delta, moved)
    noise = _laplace(moved, currency, share, 1.0)
    return Threshold.for_epsilon(moved.l1 / noise.scale if moved.l1 else share, delta, moved)
