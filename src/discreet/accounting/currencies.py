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
from functools import lru_cache
from math import inf, isfinite
from typing import Any, TypeAlias, assert_never

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    check_probability,
    floor_float,
    format_rational,
    format_up,
    parse_rational,
    read_decimal,
    read_positive,
    sqrt_up,
    to_rational,
)
from discreet.accounting.basic import split_delta
from discreet.accounting.conversions import (
    divergence_within,
    epsilon_from_gdp,
    epsilon_from_rdp,
    epsilon_from_zcdp,
    mu_within,
    rho_within,
)
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.gdp import mu_squared
from discreet.accounting.pure import pure
from discreet.accounting.pure import pure as pure_epsilon
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp as zcdp_rho
from discreet.errors import DELTA_CURRENCY, BadParameter, BudgetExceeded
from discreet.events import Event


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

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> budget, release = zcdp_filter(Fraction(1, 100)), GaussianEvent(Fraction(10), to_sensitivity(1))  # ρ = 1/200
    >>> budget.charge(release).charge(release).remaining
    Fraction(0, 1)
    >>> budget.charge(release * 3)
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: This costs zCDP ρ = 0.015, and zCDP ρ = 0.01 remains. \
Ask for less, or for a coarser answer.
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
            raise BudgetExceeded(SYMBOLS[type(self.currency)], cost=amount, remaining=self.remaining)
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

    >>> from discreet.events import Claim
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


SYMBOLS = {Pure: "ε", Zcdp: "zCDP ρ", Rdp: "Rényi divergence", Gdp: "μ²"}


# The currencies by name, and what one and the same release costs in each of them.
#
# Only the account's own currency is ever charged. The others are for a reader who keeps books of another kind: each is what
# a filter of that currency would take for this release, and its leak δ.


RENYI_ORDERS = (Fraction(2), Fraction(8), Fraction(32))
ALL_CURRENCIES: tuple[Currency, ...] = (Pure(), Zcdp(), Gdp(), *map(Rdp, RENYI_ORDERS))
DEFAULT_DELTA = Fraction(1, 10**6)
"""Where ε is read if the session has no δ of its own."""


def currency_name(currency: Currency) -> str:
    """The currency, as printed and typed.

    >>> currency_name(Rdp(Fraction(16)))
    'rdp(16)'
    """
    match currency:
        case Pure():
            return "pure"
        case Zcdp():
            return "zcdp"
        case Gdp():
            return "gdp"
        case Rdp(order=order):
            return f"rdp({order})"
        case _:
            assert_never(currency)


def parse_currency(text: str) -> Currency:
    """The currency that has this name.

    >>> parse_currency("zcdp"), parse_currency("rdp(16)")
    (Zcdp(), Rdp(order=Fraction(16, 1)))
    """
    plain = {currency_name(currency): currency for currency in (Pure(), Zcdp(), Gdp())}
    if not isinstance(text, str):
        raise BadParameter("currency", type(text).__name__, "not a currency", f"name one: {', '.join(plain)} or rdp(16)")
    if text in plain:
        return plain[text]
    try:
        order = parse_rational(text.removeprefix("rdp(").removesuffix(")"))
    except BadParameter:
        order = Fraction(0)
    if order > 1 and text == f"rdp({text[4:-1]})":
        return Rdp(order)
    raise BadParameter("currency", repr(text), "no such currency", f"take {', '.join(plain)} or rdp(16)")


@dataclass(frozen=True, slots=True)
class CurrencyCost:
    """A price in one currency: `value` of what `symbol` stands for, and the leak δ beside it."""

    name: str
    json_key: str  # its name in JSON
    symbol: str
    value: Bounds
    delta: Fraction

    def to_dict(self) -> dict[str, Any]:
        """In plain values, prices rounded up; infinity is the string "inf"."""
        ends = {"lower": to_json_number(self.value.lower), "upper": to_json_number(self.value.upper)}
        return {self.json_key: ends if self.name == "epsilon" else ends["upper"], "delta": ceil_float(self.delta)}

    def __str__(self) -> str:
        beside = f" at δ = {format_up(self.delta, 3)}" if self.delta else ""
        return f"{self.symbol} = {format_up(self.value.upper)}{beside}"


@lru_cache(maxsize=64)
def compare_costs(event: Event, delta: Fraction) -> tuple[CurrencyCost, ...]:
    """The certified ε at δ (at 10⁻⁶ if there is no δ), then the price in every currency.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import count
    >>> [str(reading) for reading in compare_costs(GaussianEvent(Fraction(10), count()), Fraction(0))][1:4]
    ['pure ε = inf', 'zCDP ρ = 0.005', 'GDP μ = 0.1']
    """
    at = delta or DEFAULT_DELTA
    return (
        CurrencyCost("epsilon", "epsilon", "ε", certified_epsilon(event, at), at),
        *(_cost_in(kept, event) for kept in ALL_CURRENCIES),
    )


def _cost_in(currency: Currency, event: Event) -> CurrencyCost:
    amount, leak = compute_cost(currency, event)
    if isinstance(currency, Gdp) and isfinite(amount):
        amount = sqrt_up(to_rational(amount))  # a filter adds up μ², people speak of μ
    field, symbol = _json_key_and_symbol(currency)
    return CurrencyCost(currency_name(currency), field, symbol, Bounds(floor_float(amount), ceil_float(amount)), leak)


def _json_key_and_symbol(currency: Currency) -> tuple[str, str]:
    match currency:
        case Pure():
            return "epsilon", "pure ε"
        case Zcdp():
            return "rho", "zCDP ρ"
        case Gdp():
            return "mu", "GDP μ"
        case Rdp(order=order):
            return "divergence", f"Rényi D({order})"
        case _:
            assert_never(currency)


@lru_cache(maxsize=256)
def certified_epsilon(event: Event, delta: Fraction) -> Bounds:
    """A proven interval around the ε at δ; the pure ε where δ is 0."""
    if delta == 0:
        exact = pure(event)
        return Bounds(floor_float(exact), ceil_float(exact))
    return certified(event, delta)


def to_json_number(value: float) -> float | str:
    """What JSON can hold."""
    return value if isfinite(value) else str(value)


# What (ε, δ) buys in one currency, rounded down, and the largest ε that what is left still buys.
#
# Half of δ is reserved for selections and claims; the rest converts the currency.


RESERVED_DELTA_SHARE = Fraction(1, 2)
"""The part of δ that is kept for selections and claims; the rest converts the currency."""

MAX_PROPOSED_EPSILON = float(1 << 20)
"""An ε beyond which nothing is proposed."""


def create_budget(epsilon: Number, delta: Number, currency: Currency | None = None) -> Filter:
    """A filter that promises (ε, δ). Without a δ it is kept in pure ε, else in zCDP unless another currency is named.

    >>> create_budget(1, 0).currency, create_budget(1, 1e-6).currency, create_budget(1, 1e-6, Pure()).limit
    (Pure(), Zcdp(), Fraction(1, 1))
    """
    eps, fail = read_positive(epsilon, "epsilon"), read_decimal(delta, "delta")
    if fail != 0:
        check_probability(fail, "delta")
    match currency or (Pure() if fail == 0 else Zcdp()):
        case Pure():
            return pure_filter(eps, fail)
        case Rdp(order=order):
            return rdp_filter(order, compute_amount(Rdp(order), eps, fail))
        case Zcdp() | Gdp() as kept:
            return Filter(kept, compute_amount(kept, eps, fail), fail * RESERVED_DELTA_SHARE)


@lru_cache(maxsize=1024)
def compute_amount(currency: Currency, epsilon: Fraction, delta: Fraction) -> Fraction:
    """How much of the currency (ε, δ) buys, rounded down; ε itself in a pure account."""
    if not isinstance(currency, Pure) and delta == 0:
        raise BadParameter("delta", "0", "this currency promises an ε only at some δ", "give a δ, for example 1e-6")
    match currency:
        case Pure():
            return epsilon
        case Zcdp():
            return _check_amount(Fraction(rho_within(epsilon, delta * (1 - RESERVED_DELTA_SHARE))), epsilon)
        case Gdp():
            return _check_amount(Fraction(mu_within(epsilon, delta * (1 - RESERVED_DELTA_SHARE))) ** 2, epsilon)
        case Rdp(order=order):
            return _check_amount(divergence_within(order, epsilon, delta), epsilon)
        case _:
            assert_never(currency)


def _check_amount(amount: Fraction, epsilon: Fraction) -> Fraction:
    if amount <= 0:
        raise BadParameter(
            "epsilon", format_rational(epsilon), "too small at this δ to buy anything", "take a larger ε or δ"
        )
    return amount


def find_fitting_epsilon(budget: Filter, delta: Fraction) -> Fraction:
    """The largest ε whose amount is still there, to four digits, rounded down; 0 if nothing is."""
    if budget.remaining <= 0:
        return Fraction(0)
    if isinstance(budget.currency, Pure):
        return budget.remaining
    promised = to_epsilon(
        budget.currency, budget.remaining, delta if isinstance(budget.currency, Rdp) else delta * (1 - RESERVED_DELTA_SHARE)
    )
    found = round_down(
        to_rational(min(promised, MAX_PROPOSED_EPSILON))
    )  # what is left promises it: `amount` is the inverse, up to rounding
    while found > 0 and not can_pay(budget, found, delta):
        found -= digit_step(found, 4)
    return found


def can_pay(budget: Filter, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether a question at this ε can still be paid."""
    try:
        return compute_amount(budget.currency, epsilon, delta) <= budget.remaining
    except BadParameter:
        return True  # too small to buy anything


def round_down(value: Fraction, digits: int = 4) -> Fraction:
    """The largest decimal with so many digits that is not above `value`.

    >>> round_down(Fraction(2, 3)), round_down(Fraction(0))
    (Fraction(3333, 5000), Fraction(0, 1))
    """
    if value <= 0:
        return Fraction(0)
    step = digit_step(value, digits)
    return value // step * step


def digit_step(value: Fraction, digits: int) -> Fraction:
    """The last of so many digits of a positive number."""
    exponent = int(f"{float(value):.17e}".partition("e")[2])
    return Fraction(10) ** (exponent - digits + 1)
