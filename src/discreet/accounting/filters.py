"""Filters: budgets that stay sound when every next release, and its parameters, are chosen after seeing the last answers.

The budget and its one currency are fixed before the first answer. A release fits if the running sum stays within the budget;
the decision looks only at sums of prices, and those are what the theorems allow to adapt:
- `pure`: Σε ≤ ε and Σδ ≤ δ make all of it (ε, δ)-private [RRUV16];
- `zcdp`: Σρ ≤ ρ and Σδ ≤ δ make all of it δ-approximately ρ-zCDP [WRRW23, Thm 1];
- `rdp`: ΣD_α ≤ ε̄ at *one* order fixed in advance makes all of it (α, ε̄)-RDP [FZ21; Lec21]; no leak is allowed;
- `gdp`: Σμ² ≤ μ² and Σδ ≤ δ: all of it is a leak of δ in front of a μ-GDP core, δ(ε) ≤ δ_μ(ε) + δ [ST22; KTH23].
  With leaks: weight every path by Π(1−δᵢ) of its steps; what is cut off weighs at most Σδᵢ ≤ δ.
There is no filter on the composed curve δ(ε) and none on "the best order so far": neither is sound [TKRH26], see
docs/decisions/0002-no-filter-on-the-curve.md.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import TypeAlias, assert_never

from discreet.accounting.conversions import epsilon_from_gdp, epsilon_from_rdp, epsilon_from_zcdp
from discreet.accounting.gdp import mu_squared
from discreet.accounting.leak import split_delta
from discreet.accounting.pure import pure as pure_epsilon
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp as zcdp_rho
from discreet.errors import DELTA_CURRENCY, BadParameter, BudgetExceeded
from discreet.exact import Number, ceil_float, check_probability, read_decimal, read_positive, sqrt_up, to_rational
from discreet.loss import Event


@dataclass(frozen=True, slots=True)
class Pure:
    """Prices are ε."""


@dataclass(frozen=True, slots=True)
class Zcdp:
    """Prices are ρ."""


@dataclass(frozen=True, slots=True)
class Rdp:
    """Prices are Rényi divergences at this order, which was fixed before the first answer."""

    order: Fraction


@dataclass(frozen=True, slots=True)
class Gdp:
    """Prices are μ²."""


MAX_DENOMINATOR_BITS = 128
"""A fraction whose denominator has at most so many bits is kept as it is."""

Currency: TypeAlias = Pure | Zcdp | Rdp | Gdp


@dataclass(frozen=True, slots=True)
class Filter:
    """A budget in one currency, and what has been spent of it. Paying makes a new filter.

    >>> from discreet.loss import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> budget, release = zcdp_filter(Fraction(1, 100)), GaussianEvent(Fraction(10), to_sensitivity(1))  # ρ = 1/200
    >>> budget.charge(release).charge(release).remaining
    Fraction(0, 1)
    >>> budget.charge(release * 3)
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this costs 0.015 (zCDP ρ) but 0.01 is left; ask for less, or for a coarser answer
    """

    currency: Currency
    limit: Fraction
    delta_limit: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    delta_spent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """What is left in the currency."""
        return self.limit - self.spent

    @property
    def delta_remaining(self) -> Fraction:
        """What is left of the δ for leaks."""
        return self.delta_limit - self.delta_spent

    def charge(self, event: Event) -> "Filter":
        """The filter once `loss` is paid; refused, and unchanged, if it does not fit."""
        return self.charge_cost(*compute_cost(self.currency, event))

    def charge_cost(self, amount: Fraction | float, delta: Fraction) -> "Filter":
        """The filter once a known price is paid."""
        if amount > self.remaining:
            raise BudgetExceeded(_SYMBOLS[type(self.currency)], cost=amount, remaining=self.remaining)
        if delta > self.delta_remaining:
            raise BudgetExceeded(DELTA_CURRENCY, cost=delta, remaining=self.delta_remaining)
        return replace(self, spent=self.spent + to_rational(amount), delta_spent=self.delta_spent + delta)

    def shorten(self) -> "Filter":
        """The same with what is spent raised to 128 bits where it is longer: a long history makes no long fractions."""
        # The exact sums fit, so rounding them up need not pass the limit.
        spent, leaked = round_up(self.spent), round_up(self.delta_spent)
        return replace(self, spent=min(spent, self.limit), delta_spent=min(leaked, self.delta_limit))

    def epsilon(self, delta: Number) -> float:
        """The ε that the whole *budget* promises at δ, of which `leak_limit` is kept for leaks; rounded up."""
        target = read_decimal(delta, "delta")
        if isinstance(self.currency, Pure):
            return ceil_float(self.limit) if target >= self.delta_limit else inf
        rest = check_probability(target, "delta") - self.delta_limit
        return inf if rest <= 0 else to_epsilon(self.currency, self.limit, rest)


def compute_cost(currency: Currency, event: Event) -> tuple[Fraction | float, Fraction]:
    """What a release costs in this currency, and its leak δ; an infinite price never fits.

    >>> from discreet.loss import Claim
    >>> compute_cost(Pure(), Claim(Fraction(1), Fraction(1, 1000)))
    (Fraction(1, 1), Fraction(1, 1000))
    """
    core, leak = split_delta(event)
    match currency:
        case Pure():
            return pure_epsilon(core), leak
        case Zcdp():
            return zcdp_rho(core), leak
        case Rdp(order=order):
            return (renyi(core, order), leak) if leak == 0 else (inf, Fraction(0))
        case Gdp():
            return mu_squared(core), leak
        case _:
            assert_never(currency)


def round_up(exact: Fraction) -> Fraction:
    """The same number while it is short, else raised to 128 significant bits.

    >>> round_up(Fraction(1, 3)), round_up(Fraction(1, 3**100)).numerator.bit_length() <= 129
    (Fraction(1, 3), True)
    """
    if exact.denominator.bit_length() <= MAX_DENOMINATOR_BITS:
        return exact
    shift = MAX_DENOMINATOR_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length())
    return Fraction(-(-(exact.numerator << shift) // exact.denominator), 1 << shift)


def pure_filter(epsilon: Number, delta: Number = 0) -> Filter:
    """Σε ≤ epsilon and Σδ ≤ delta."""
    return Filter(Pure(), read_positive(epsilon, "epsilon"), _check_delta_limit(delta))


def zcdp_filter(rho: Number, delta: Number = 0) -> Filter:
    """Σρ ≤ rho, and Σδ ≤ delta for releases that leak."""
    return Filter(Zcdp(), read_positive(rho, "rho"), _check_delta_limit(delta))


def rdp_filter(order: Number, divergence: Number) -> Filter:
    """ΣD_α ≤ divergence at this one order; releases that leak are refused."""
    alpha = read_decimal(order, "order")
    if alpha <= 1:
        raise BadParameter("order", order, "must exceed 1", "fix an order above 1, for example 16")
    return Filter(Rdp(alpha), read_positive(divergence, "divergence"))


def gdp_filter(mu: Number, delta: Number = 0) -> Filter:
    """Σμ² ≤ mu², and Σδ ≤ delta for releases that leak."""
    return Filter(Gdp(), read_positive(mu, "mu") ** 2, _check_delta_limit(delta))


def _check_delta_limit(delta: Number) -> Fraction:
    exact = read_decimal(delta, "delta")
    if not 0 <= exact < 1:
        raise BadParameter(
            "delta", delta, "must lie in [0, 1)", "give 0, or something far below one in the number of people"
        )
    return exact


def to_epsilon(currency: Zcdp | Rdp | Gdp, limit: Fraction, delta: Fraction) -> float:
    """The ε that so much of a currency promises at δ, rounded up."""
    match currency:
        case Zcdp():
            return epsilon_from_zcdp(limit, delta)
        case Rdp(order=order):
            return epsilon_from_rdp(order, limit, delta)
        case Gdp():
            return epsilon_from_gdp(sqrt_up(limit), delta)
        case _:
            assert_never(currency)


_SYMBOLS = {Pure: "ε", Zcdp: "zCDP ρ", Rdp: "Rényi divergence", Gdp: "μ²"}
