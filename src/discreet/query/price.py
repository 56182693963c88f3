"""What something costs, in the one form that a quote, a release and a budget all print."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.filters import Currency, Gdp, Pure, Rdp, Zcdp
from discreet.accounting.pure import pure
from discreet.exact import Bounds, ceil_float, floor_float
from discreet.loss import Loss


@dataclass(frozen=True, slots=True)
class Price:
    """`amount` of the account's currency, of which `left` is left; `epsilon` is the certified ε at δ of the same thing."""

    reading: Loss | Bounds  # a fact to be read, or an ε that was promised
    delta: Fraction
    currency: Currency
    amount: Fraction | float
    left: Fraction

    @property
    def epsilon(self) -> Bounds:
        """A proven interval around the ε at δ. It is a report; what is charged is `amount`."""
        return self.reading if isinstance(self.reading, Bounds) else _certified(self.reading, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Prices rounded up, what is left rounded down; infinity is the string "inf"."""
        return {
            "epsilon": {"lower": _plain(self.epsilon.lower), "upper": _plain(self.epsilon.upper)},
            "delta": ceil_float(self.delta),
            "currency": name_of(self.currency),
            "amount": _plain(ceil_float(self.amount)),
            "left": floor_float(self.left),
        }

    def __str__(self) -> str:
        failing = "" if self.delta == 0 else f" at δ = {ceil_float(self.delta):.3g}"
        if isinstance(self.currency, Pure):
            return f"ε = {self.epsilon.upper:.6g}{failing}; {floor_float(self.left):.6g} left"
        unit = name_of(self.currency)
        spent, left = ceil_float(self.amount), floor_float(self.left)
        return f"ε = {self.epsilon.upper:.6g}{failing}; charged {spent:.6g} of {unit}, {left:.6g} left"


def name_of(currency: Currency) -> str:
    """The account's currency, as printed.

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


@lru_cache(maxsize=256)
def _certified(loss: Loss, delta: Fraction) -> Bounds:
    if delta == 0:
        exact = pure(loss)
        return Bounds(floor_float(exact), ceil_float(exact))
    return certified(loss, delta)


def _plain(value: float) -> float | str:
    return value if isfinite(value) else str(value)
