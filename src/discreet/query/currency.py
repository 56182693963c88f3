"""The currencies by name, and what one and the same release costs in each of them.

Only the account's own currency is ever charged. The others are for a reader who keeps books of another kind: each is what
a filter of that currency would take for this release, and its leak δ.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, assert_never

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.filters import Currency, Gdp, Pure, Rdp, Zcdp, price
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.exact import Bounds, ceil_float, floor_float, from_text, rational, shown_up, sqrt_up
from discreet.loss import Loss

ORDERS = (Fraction(2), Fraction(8), Fraction(32))
EVERY: tuple[Currency, ...] = (Pure(), Zcdp(), Gdp(), *map(Rdp, ORDERS))
USUAL_DELTA = Fraction(1, 10**6)
"""Where ε is read if the session has no δ of its own."""


def name_of(currency: Currency) -> str:
    """The currency, as printed and typed.

    >>> name_of(Rdp(Fraction(16)))
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


def named(text: str) -> Currency:
    """The currency that has this name.

    >>> named("zcdp"), named("rdp(16)")
    (Zcdp(), Rdp(order=Fraction(16, 1)))
    """
    plain = {name_of(currency): currency for currency in (Pure(), Zcdp(), Gdp())}
    if not isinstance(text, str):
        raise BadParameter("currency", type(text).__name__, "not a currency", f"name one: {', '.join(plain)} or rdp(16)")
    if text in plain:
        return plain[text]
    try:
        order = from_text(text.removeprefix("rdp(").removesuffix(")"))
    except BadParameter:
        order = Fraction(0)
    if order > 1 and text == f"rdp({text[4:-1]})":
        return Rdp(order)
    raise BadParameter("currency", repr(text), "no such currency", f"take {', '.join(plain)} or rdp(16)")


@dataclass(frozen=True, slots=True)
class Reading:
    """A price in one currency: `value` of what `symbol` stands for, and the leak δ beside it."""

    name: str
    field: str  # its name in JSON
    symbol: str
    value: Bounds
    delta: Fraction

    def to_dict(self) -> dict[str, Any]:
        """In plain values, prices rounded up; infinity is the string "inf"."""
        ends = {"lower": plain(self.value.lower), "upper": plain(self.value.upper)}
        return {self.field: ends if self.name == "epsilon" else ends["upper"], "delta": ceil_float(self.delta)}

    def __str__(self) -> str:
        beside = f" at δ = {shown_up(self.delta, 3)}" if self.delta else ""
        return f"{self.symbol} = {shown_up(self.value.upper)}{beside}"


@lru_cache(maxsize=64)
def prices(loss: Loss, delta: Fraction) -> tuple[Reading, ...]:
    """The certified ε at δ (at 10⁻⁶ if there is no δ), then the price in every currency.

    >>> from discreet.loss import GaussianLoss
    >>> from discreet.units import count
    >>> [str(reading) for reading in prices(GaussianLoss(Fraction(10), count()), Fraction(0))][1:4]
    ['pure ε = inf', 'zCDP ρ = 0.005', 'GDP μ = 0.1']
    """
    at = delta or USUAL_DELTA
    return (Reading("epsilon", "epsilon", "ε", certified_epsilon(loss, at), at), *(_in(kept, loss) for kept in EVERY))


def _in(currency: Currency, loss: Loss) -> Reading:
    amount, leak = price(currency, loss)
    if isinstance(currency, Gdp) and isfinite(amount):
        amount = sqrt_up(rational(amount))  # a filter adds up μ², people speak of μ
    field, symbol = _written(currency)
    return Reading(name_of(currency), field, symbol, Bounds(floor_float(amount), ceil_float(amount)), leak)


def _written(currency: Currency) -> tuple[str, str]:
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
def certified_epsilon(loss: Loss, delta: Fraction) -> Bounds:
    """A proven interval around the ε at δ; the pure ε where δ is 0."""
    if delta == 0:
        exact = pure(loss)
        return Bounds(floor_float(exact), ceil_float(exact))
    return certified(loss, delta)


def plain(value: float) -> float | str:
    """What JSON can hold."""
    return value if isfinite(value) else str(value)
