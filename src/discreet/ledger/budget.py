"""What (ε, δ) buys in one currency, rounded down, and the largest ε that what is left still buys.

Half of δ is reserved for selections and claims; the rest converts the currency.
"""

from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from discreet.accounting import filters
from discreet.accounting.conversions import divergence_within, mu_within, rho_within
from discreet.accounting.filters import Currency, Filter, Gdp, Pure, Rdp, Zcdp, to_epsilon
from discreet.errors import BadParameter
from discreet.exact import Number, check_probability, format_rational, read_decimal, read_positive, to_rational

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
            return filters.pure_filter(eps, fail)
        case Rdp(order=order):
            return filters.rdp_filter(order, compute_amount(Rdp(order), eps, fail))
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
