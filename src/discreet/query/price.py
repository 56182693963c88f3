"""What something costs, in the one form that a quote, a release and a budget all print."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.filters import Currency, Pure
from discreet.exact import Bounds, ceil_float, floor_float, shown_down, shown_up
from discreet.loss import Loss
from discreet.query.currency import certified_epsilon, name_of, plain


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
        return self.reading if isinstance(self.reading, Bounds) else certified_epsilon(self.reading, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Prices rounded up, what is left rounded down; infinity is the string "inf"."""
        return {
            "epsilon": {"lower": plain(self.epsilon.lower), "upper": plain(self.epsilon.upper)},
            "delta": ceil_float(self.delta),
            "currency": name_of(self.currency),
            "amount": plain(ceil_float(self.amount)),
            "left": floor_float(self.left),
        }

    def __str__(self) -> str:
        """Prices rounded up, what is left rounded down.

        >>> print(Price(Bounds(0.1, 0.1200001), Fraction(1, 10**6), Pure(), 0.1200001, Fraction(2, 3)))
        ε = 0.120001 at δ = 1e-06; 0.666666 left
        """
        failing = "" if self.delta == 0 else f" at δ = {shown_up(self.delta, 3)}"
        cost, left = f"ε = {shown_up(self.epsilon.upper, 6)}{failing}", shown_down(self.left, 6)
        if isinstance(self.currency, Pure):
            return f"{cost}; {left} left"
        return f"{cost}; charged {shown_up(self.amount, 6)} of {name_of(self.currency)}, {left} left"
