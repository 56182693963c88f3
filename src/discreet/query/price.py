"""What something costs, in the one form that a quote, a release and a budget all print."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.filters import Currency, Pure
from discreet.exact import Bounds, ceil_float, floor_float
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
        failing = "" if self.delta == 0 else f" at δ = {ceil_float(self.delta):.3g}"
        if isinstance(self.currency, Pure):
            return f"ε = {self.epsilon.upper:.6g}{failing}; {floor_float(self.left):.6g} left"
        unit = name_of(self.currency)
        spent, left = ceil_float(self.amount), floor_float(self.left)
        return f"ε = {self.epsilon.upper:.6g}{failing}; charged {spent:.6g} of {unit}, {left:.6g} left"
