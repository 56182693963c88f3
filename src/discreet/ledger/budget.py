"""What (ε, δ) buys in one currency, rounded down, and the largest ε that what is left still buys.

Half of δ is reserved for selections and claims; the rest converts the currency.
"""

from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from discreet.accounting import filters
from discreet.accounting.conversions import divergence_within, mu_within, rho_within
from discreet.accounting.filters import Currency, Filter, Gdp, Pure, Rdp, Zcdp, converted
from discreet.errors import BadParameter
from discreet.exact import Number, open_unit, rational, read_decimal, read_positive, shown

RESERVED = Fraction(1, 2)
"""The part of δ that is kept for selections and claims; the rest converts the currency."""

MOST = float(1 << 20)
"""An ε beyond which nothing is proposed."""


def budget(epsilon: Number, delta: Number, currency: Currency | None = None) -> Filter:
    """A filter that promises (ε, δ). Without a δ it is kept in pure ε, else in zCDP unless another currency is named.

    >>> budget(1, 0).currency, budget(1, 1e-6).currency, budget(1, 1e-6, Pure()).limit
    (Pure(), Zcdp(), Fraction(1, 1))
    """
    eps, fail = read_positive(epsilon, "epsilon"), read_decimal(delta, "delta")
    if fail != 0:
        open_unit(fail, "delta")
    match currency or (Pure() if fail == 0 else Zcdp()):
        case Pure():
            return filters.pure(eps, fail)
        case Rdp(order=order):
            return filters.rdp(order, amount(Rdp(order), eps, fail))
        case Zcdp() | Gdp() as kept:
            return Filter(kept, amount(kept, eps, fail), fail * RESERVED)


@lru_cache(maxsize=1024)
def amount(currency: Currency, epsilon: Fraction, delta: Fraction) -> Fraction:
    """How much of the currency (ε, δ) buys, rounded down; ε itself in a pure account."""
    if not isinstance(currency, Pure) and delta == 0:
        raise BadParameter("delta", "0", "this currency promises an ε only at some δ", "give a δ, for example 1e-6")
    match currency:
        case Pure():
            return epsilon
        case Zcdp():
            return _bought(Fraction(rho_within(epsilon, delta * (1 - RESERVED))), epsilon)
        case Gdp():
            return _bought(Fraction(mu_within(epsilon, delta * (1 - RESERVED))) ** 2, epsilon)
        case Rdp(order=order):
            return _bought(divergence_within(order, epsilon, delta), epsilon)
        case _:
            assert_never(currency)


def _bought(found: Fraction, epsilon: Fraction) -> Fraction:
    if found <= 0:
        raise BadParameter("epsilon", shown(epsilon), "too small at this δ to buy anything", "take a larger ε or δ")
    return found


def epsilon_that_fits(left: Filter, delta: Fraction) -> Fraction:
    """The largest ε whose amount is still there, to four digits, rounded down; 0 if nothing is."""
    if left.left <= 0:
        return Fraction(0)
    if isinstance(left.currency, Pure):
        return left.left
    promised = converted(left.currency, left.left, delta if isinstance(left.currency, Rdp) else delta * (1 - RESERVED))
    found = rounded_down(rational(min(promised, MOST)))  # what is left promises it: `amount` is the inverse, up to rounding
    while found > 0 and not fits(left, found, delta):
        found -= step_of(found, 4)
    return found


def fits(left: Filter, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether a question at this ε can still be paid."""
    try:
        return amount(left.currency, epsilon, delta) <= left.left
    except BadParameter:
        return True  # too small to buy anything


def rounded_down(value: Fraction, digits: int = 4) -> Fraction:
    """The largest decimal with so many digits that is not above `value`.

    >>> rounded_down(Fraction(2, 3)), rounded_down(Fraction(0))
    (Fraction(3333, 5000), Fraction(0, 1))
    """
    if value <= 0:
        return Fraction(0)
    step = step_of(value, digits)
    return value // step * step


def step_of(value: Fraction, digits: int) -> Fraction:
    """The last of so many digits of a positive number."""
    exponent = int(f"{float(value):.17e}".partition("e")[2])
    return Fraction(10) ** (exponent - digits + 1)
