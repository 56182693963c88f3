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
from discreet.accounting.filters import Currency, Gdp, Pure, Rdp, Zcdp, compute_cost
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.exact import Bounds, ceil_float, floor_float, format_up, parse_rational, sqrt_up, to_rational
from discreet.loss import Event

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

    >>> from discreet.loss import GaussianEvent
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
