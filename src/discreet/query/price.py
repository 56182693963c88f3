"""What something costs, in the one form that a quote, a release and a budget all print."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.filters import Currency, Pure
from discreet.accounting.pure import pure
from discreet.exact import Bounds, decimal_down, decimal_up, shown_down, shown_up
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

    @property
    def ends(self) -> tuple[Fraction | float, Fraction | float]:
        """The same interval, exact where ε is: no double is 3/10."""
        if self.delta == 0 and not isinstance(self.reading, Bounds):
            return (pure(self.reading),) * 2
        return self.epsilon.lower, self.epsilon.upper

    def to_dict(self) -> dict[str, Any]:
        """Prices rounded up, what is left rounded down; infinity is the string "inf"."""
        lower, upper = self.ends
        return {
            "epsilon": {"lower": plain(decimal_down(lower)), "upper": plain(decimal_up(upper))},
            "delta": decimal_up(self.delta),
            "currency": name_of(self.currency),
            "amount": plain(decimal_up(self.amount)),
            "left": decimal_down(self.left),
        }

    def __str__(self) -> str:
        """Prices rounded up, what is left rounded down.

        >>> print(Price(Bounds(0.1, 0.1200001), Fraction(1, 10**6), Pure(), 0.1200001, Fraction(2, 3)))
        ε = 0.120001 at δ = 1e-06; 0.666666 left
        """
        failing = "" if self.delta == 0 else f" at δ = {shown_up(self.delta, 3)}"
        cost, left = f"ε = {shown_up(self.ends[1], 6)}{failing}", shown_down(self.left, 6)
        if isinstance(self.currency, Pure):
            return f"{cost}; {left} left"
        return f"{cost}; charged {shown_up(self.amount, 6)} of {name_of(self.currency)}, {left} left"
