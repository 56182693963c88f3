"""What something costs, in the one form that a quote, a release and a budget all print."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet._numbers import Bounds, decimal_down, decimal_up, format_down, format_up
from discreet.accounting.currencies import Currency, certified_epsilon, to_json_number
from discreet.accounting.pure import pure
from discreet.events import Event


@dataclass(frozen=True, slots=True)
class Cost:
    """`amount` of the account's currency, of which `left` is left; `epsilon` is the certified ε at δ of the same thing."""

    event_or_bounds: Event | Bounds  # a fact to be read, or an ε that was promised
    delta: Fraction
    currency: Currency
    amount: Fraction | float
    remaining: Fraction

    @property
    def epsilon(self) -> Bounds:
        """A proven interval around the ε at δ. It is a report; what is charged is `amount`."""
        return (
            self.event_or_bounds
            if isinstance(self.event_or_bounds, Bounds)
            else certified_epsilon(self.event_or_bounds, self.delta)
        )

    @property
    def exact_epsilon(self) -> tuple[Fraction | float, Fraction | float]:
        """The same interval, exact where ε is: no double is 3/10."""
        if self.delta == 0 and not isinstance(self.event_or_bounds, Bounds):
            return (pure(self.event_or_bounds),) * 2
        return self.epsilon.lower, self.epsilon.upper

    def to_dict(self) -> dict[str, Any]:
        """Prices rounded up, what is left rounded down; infinity is the string "inf"."""
        lower, upper = self.exact_epsilon
        return {
            "epsilon": {"lower": to_json_number(decimal_down(lower)), "upper": to_json_number(decimal_up(upper))},
            "delta": decimal_up(self.delta),
            "currency": self.currency.name,
            "amount": to_json_number(decimal_up(self.amount)),
            "left": decimal_down(self.remaining),
        }

    def __str__(self) -> str:
        """Prices rounded up, what is left rounded down.

        >>> from discreet.accounting.currencies import Pure
        >>> print(Cost(Bounds(0.1, 0.1200001), Fraction(1, 10**6), Pure(), 0.1200001, Fraction(2, 3)))
        ε = 0.120001 at δ = 1e-06; 0.666666 left
        """
        failing = "" if self.delta == 0 else f" at δ = {format_up(self.delta, 3)}"
        cost, left = f"ε = {format_up(self.exact_epsilon[1], 6)}{failing}", format_down(self.remaining, 6)
        if self.currency.counts_epsilon:
            return f"{cost}; {left} left"
        return f"{cost}; charged {format_up(self.amount, 6)} of {self.currency.name}, {left} left"
