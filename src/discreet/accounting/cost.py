"""The cost of a query and the state of a budget, in the form that quotes, answers and budgets share.

People read three digits, rounded against us: costs up, what remains down. Programs read all digits.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from discreet._numbers import Bounds, decimal_down, decimal_up, format_down, format_up
from discreet.accounting.currencies import Currency, Filter, certified_epsilon, to_json_number
from discreet.accounting.pure import pure
from discreet.events import Event


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an event: `amount` in the account's currency, of a budget of `limit`, of which `remaining` remains.

    >>> from discreet.accounting.currencies import Zcdp, create_budget
    >>> budget = create_budget(1.5, 1e-6)
    >>> cost = Fraction(622482, 10**8)
    >>> print(Cost(Bounds(0.446, 0.446189), Fraction(1, 10**6), Zcdp(), cost, budget.limit - cost, budget.limit))
    Cost: ε = 0.447 at δ = 1e-6. Budget: 13% spent, ε ≈ 1.39 of 1.5 remaining (ρ = 0.0427 of 0.0489).
    """

    event_or_bounds: Event | Bounds  # the event, or the ε that is known of it
    delta: Fraction
    currency: Currency
    amount: Fraction | float
    remaining: Fraction
    limit: Fraction

    @property
    def epsilon(self) -> Bounds:
        """A proven interval around the ε at δ. It is a report; the account is charged `amount`."""
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
        """Plain values for JSON: the cost rounded up, what remains rounded down; infinity is the string "inf"."""
        lower, upper = self.exact_epsilon
        return {
            "epsilon": {"lower": to_json_number(decimal_down(lower)), "upper": to_json_number(decimal_up(upper))},
            "delta": decimal_up(self.delta),
            "currency": self.currency.name,
            "amount": to_json_number(decimal_up(self.amount)),
            "remaining": decimal_down(self.remaining),
        }

    def __str__(self) -> str:
        epsilon = format_up(self.exact_epsilon[1], 3)
        return f"Cost: ε = {epsilon}{format_at(self.delta)}. Budget: {self._describe_budget()}."

    def _describe_budget(self, at: str = "") -> str:
        return describe_budget(Filter(self.currency, self.limit, spent=self.limit - self.remaining), self.delta, at)


@dataclass(frozen=True, slots=True)
class Budget(Cost):
    """The state of a whole budget: `amount` is what was spent, and `epsilon` what the budget guarantees at δ.

    >>> from discreet.accounting.currencies import Pure
    >>> print(Budget(Bounds(2.0, 2.0), Fraction(0), Pure(), Fraction(1, 2), Fraction(3, 2), Fraction(2)))
    Budget: 25% spent, ε = 1.5 of 2 remaining.
    """

    def __str__(self) -> str:
        return f"Budget: {self._describe_budget(format_at(self.delta))}."


def format_at(delta: Fraction) -> str:
    """The δ at which an ε holds, to be put behind it; nothing if δ is 0.

    >>> format_at(Fraction(1, 10**6)), format_at(Fraction(0))
    (' at δ = 1e-6', '')
    """
    return f" at δ = {format_up(delta, 3)}" if delta else ""


def describe_amount(currency: Currency, amount: Fraction) -> str:
    """An amount of a currency with its symbol and its notion, rounded down.

    >>> from discreet.accounting.currencies import Zcdp
    >>> describe_amount(Zcdp(), Fraction(541316, 10**7))
    'ρ = 0.0541, zCDP'
    """
    notion = currency.reported_symbol.partition(" ")[0]
    return f"{currency.symbol} = {format_down(amount, 3)}, {notion}"


def describe_budget(budget: Filter, delta: Fraction, at: str = "") -> str:
    """The share that is spent and what remains, first in ε at the account's δ, then in the currency.

    >>> from discreet.accounting.currencies import create_budget
    >>> describe_budget(create_budget(2, 1e-9), Fraction(1, 10**9))
    '0% spent, ε ≈ 2 of 2 remaining (ρ = 0.0541 of 0.0541)'
    """
    percent = 100 * budget.spent / budget.limit
    spent = str(ceil(percent)) if percent >= 1 else format_up(percent, 2)
    remaining, limit = format_down(budget.remaining, 3), format_down(budget.limit, 3)
    if budget.currency.counts_epsilon:
        return f"{spent}% spent, ε = {remaining} of {limit} remaining{at}"
    epsilons = " of ".join(_format_epsilon(budget.currency, amount, delta) for amount in (budget.remaining, budget.limit))
    return f"{spent}% spent, ε ≈ {epsilons} remaining{at} ({budget.currency.symbol} = {remaining} of {limit})"


def _format_epsilon(currency: Currency, amount: Fraction, delta: Fraction) -> str:
    """The ε that an amount guarantees, rounded down but for the error of converting it: what ε = 2 bought is shown as 2."""
    return format_down(float(f"{currency.epsilon(amount, delta):.9g}"), 3) if amount > 0 else "0"
