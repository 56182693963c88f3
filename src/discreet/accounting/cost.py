"""Costs and budgets in words: the one home of what quotes, answers, sessions, accounts and refusals say about them.

ε stands first, with its δ; then a share of the budget; then the amount of the account's currency with its symbol. People
read three digits, rounded against us: what is spent up, what remains down. Programs read all digits (`to_dict`).

What "ε remains" means in a currency that is not ε: a query at that ε still fits. What an ε buys is rounded down
(`Currency.amount`), and so is the ε that is shown, so a person who asks for what is shown is not refused.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Any

from discreet import formats
from discreet._numbers import Bounds, ceil_digits, decimal_down, decimal_up, format_down, format_up, to_rational
from discreet.accounting.currencies import (
    Currency,
    Filter,
    certified_epsilon,
    smallest_epsilon,
    to_json_number,
)
from discreet.accounting.pure import pure
from discreet.events import Event

SHOWN_DIGITS = 3
"""How many digits of an ε or an amount people read."""

DUST = Fraction(1, 10**6)
"""An ε below this is what rounding leaves of a budget: people read 0, programs all digits."""

WEAK_EPSILON = 10
"""Above this ε a plan is warned of: up to it a guarantee is called reasonable [PHK23]."""
MAX_USUAL_EPSILON = 20
"""Above this ε a budget is warned of: it is more than the census of 2020 used, 19.61 [Cen21], the largest of the releases
that docs/choosing-epsilon.md lists."""
MAX_USUAL_DELTA = Fraction(1, 10**4)
"""Above this δ a budget is warned of: of 10,000 people, one record in clear satisfies it (docs/choosing-epsilon.md)."""


def warn_of_weak_budget(epsilon: Fraction | float, delta: Fraction) -> tuple[str, ...]:
    """Say plainly which part of a budget promises next to nothing; nothing of a usual one.

    >>> warn_of_weak_budget(Fraction(20), Fraction(1, 10**4))
    ()
    >>> print(*warn_of_weak_budget(Fraction(1000), Fraction(1, 2)), sep="\\n")
    ε = 1,000 promises next to nothing: an answer may be e^1,000 times as likely with one person's rows as without them. \
Published releases used at most about 20; see `discreet help choosing-epsilon`.
    δ = 0.5 promises next to nothing about 2 people or more: publishing one record in clear, chosen at random from n, \
satisfies δ = 1/n. Choose δ far below 1/n, for example 1e-6.
    """
    said = []
    if epsilon > MAX_USUAL_EPSILON:
        shown = format_up(epsilon, SHOWN_DIGITS)
        said.append(
            f"ε = {shown} promises next to nothing: an answer may be e^{shown} times as likely with one person's rows as "
            f"without them. Published releases used at most about {MAX_USUAL_EPSILON}; see "
            "`discreet help choosing-epsilon`."
        )
    if delta > MAX_USUAL_DELTA:
        said.append(
            f"δ = {format_up(delta, SHOWN_DIGITS)} promises next to nothing about {ceil(1 / delta):,} people or more: "
            "publishing one record in clear, chosen at random from n, satisfies δ = 1/n. Choose δ far below 1/n, for "
            "example 1e-6."
        )
    return tuple(said)


class _Sentence:
    """What is shown the same way by `print`, in a shell and in a notebook: one sentence or two."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return formats.make_html_notes([str(self)])


@dataclass(frozen=True, slots=True, repr=False)
class Cost(_Sentence):
    """The cost of an event: `amount` in the account's currency, of a budget of `limit`, of which `remaining` remains.

    >>> from discreet.accounting.currencies import Zcdp, create_budget
    >>> budget = create_budget(1.5, 1e-6)
    >>> cost = Fraction(622482, 10**8)
    >>> Cost(Bounds(0.446, 0.446189), Fraction(1, 10**6), Zcdp(), cost, budget.limit - cost, budget.limit)
    Cost: ε = 0.447 at δ = 1e-6, 13% of the budget. Budget: ε = 1.39 of 1.5 remaining, 13% spent \
(ρ = 0.0427 of 0.0489, zCDP).
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

    @property
    def budget(self) -> Filter:
        """The budget of the account, with what is spent of it."""
        return Filter(self.currency, self.limit, spent=self.limit - self.remaining)

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

    def describe(self) -> str:
        """The cost alone: ε at δ, and its share of the budget.

        >>> from discreet.accounting.currencies import Pure
        >>> Cost(Bounds(0.5, 0.5), Fraction(0), Pure(), Fraction(1, 2), Fraction(2), Fraction(2)).describe()
        'ε = 0.5, 25% of the budget'
        """
        epsilon = f"ε = {format_up(self.exact_epsilon[1], SHOWN_DIGITS)}{format_at(self.delta)}"
        return f"{epsilon}, {format_share_up(to_rational(self.amount), self.limit)}" if isfinite(self.amount) else epsilon

    def describe_charge(self) -> str:
        """The cost alone, with what the account was charged in its currency, rounded up.

        >>> from discreet.accounting.currencies import Zcdp
        >>> Cost(Bounds(0.5, 0.5), Fraction(1, 10**6), Zcdp(), Fraction(1, 99), Fraction(2), Fraction(2)).describe_charge()
        'ε = 0.5 at δ = 1e-6, 0.51% of the budget (ρ = 0.0102, zCDP)'
        """
        amount = f"{self.currency.symbol} = {self._format_amount()}, {notion_of(self.currency)}"
        return self.describe() if self.currency.counts_epsilon else f"{self.describe()} ({amount})"

    def _format_amount(self) -> str:
        """The amount, rounded up; but what fits is not shown as more than its budget, which is shown rounded down.

        >>> from discreet.accounting.currencies import Zcdp
        >>> whole = Fraction(22911, 10**6)
        >>> Cost(Bounds(0.9, 0.9), Fraction(1, 10**6), Zcdp(), whole, Fraction(0), whole)._format_amount()
        '0.0229'
        """
        if isfinite(self.amount) and to_rational(self.amount) <= self.limit < ceil_digits(self.amount, SHOWN_DIGITS):
            return format_down(self.limit, SHOWN_DIGITS)
        return format_up(self.amount, SHOWN_DIGITS)

    def __str__(self) -> str:
        return f"Cost: {self.describe()}. Budget: {describe_budget(self.budget, self.delta)}."

    def describe_free(self, recorded: str = "") -> str:
        """Say that an answer that was recorded before is free, and what it cost then.

        >>> from discreet.accounting.currencies import Pure
        >>> Cost(Bounds(0.5, 0.5), Fraction(0), Pure(), Fraction(1, 2), Fraction(1), Fraction(2)).describe_free(" (entry 3)")
        'Free: recorded before (entry 3); its cost was ε = 0.5, 25% of the budget. Budget: ε = 1 of 2 remaining, 50% spent.'
        """
        budget = describe_budget(self.budget, self.delta)
        return f"Free: recorded before{recorded}; its cost was {self.describe()}. Budget: {budget}."

    def explain_addition(self) -> tuple[str, ...]:
        """Say what adds up, where it is not ε."""
        if self.currency.counts_epsilon:
            return ()
        return (f"In {notion_of(self.currency)}, {self.currency.symbol} adds up and ε does not.",)

    def explain_epsilon(self, asked: Fraction, what: str = "this query alone") -> str | None:
        """Say why the ε that is reported differs from the ε that was asked for; None if people see no difference.

        The ε of a cost is certified from the event. The account charges its own currency, in which costs add up whatever is
        asked next, and an ε buys less of it: the conversion has a margin, and a part of δ may be reserved.
        """
        reported = format_up(self.exact_epsilon[1], SHOWN_DIGITS)
        if reported == format_up(asked, SHOWN_DIGITS) or self.delta == 0 or isinstance(self.event_or_bounds, Bounds):
            return None
        said = f"ε = {format_up(asked, SHOWN_DIGITS)} was asked for; the certified cost of {what} is ε = {reported}"
        if self.currency.counts_epsilon:
            return f"{said}: with a δ, the certified ε of several noises is less than their sum."
        reserved = self.currency.reserved_delta_share
        share = (
            f", and {format_percent_up(reserved)} of δ is reserved for partition selection and claims" if reserved else ""
        )
        return (
            f"{said}: the account charges {self.currency.symbol} = {self._format_amount()} "
            f"({notion_of(self.currency)}), whose conversion to ε has a margin{share}."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Budget(Cost):
    """The state of a whole budget: `amount` is what was spent, and `epsilon` what remains at δ.

    >>> from discreet.accounting.currencies import pure_filter
    >>> Budget.of(pure_filter(2).charge_cost(Fraction(1, 2), Fraction(0)), Fraction(0))
    Budget: ε = 1.5 of 2 remaining, 25% spent.
    """

    @classmethod
    def of(cls, budget: Filter, delta: Fraction) -> "Budget":
        """The state of a filter whose ε is stated at δ."""
        return cls(remaining_bounds(budget, delta), delta, budget.currency, budget.spent, budget.remaining, budget.limit)

    @property
    def limit_epsilon(self) -> float:
        """The ε that the whole budget promises at δ, rounded up."""
        return decimal_up(smallest_epsilon(self.currency, self.limit, self.delta, 12))

    def to_dict(self) -> dict[str, Any]:
        """As for a cost: `epsilon` and `remaining` are what remains, `amount` is what was spent; beside them the limit."""
        limit = {"epsilon": to_json_number(self.limit_epsilon), "amount": decimal_down(self.limit)}
        lower, upper = _exact_remaining(self.budget, self.delta)
        epsilon = {"lower": decimal_down(lower), "upper": to_json_number(decimal_up(upper))}
        # not super(): a dataclass with slots is another class than the one that super() was written in
        return Cost.to_dict(self) | {"epsilon": epsilon, "limit": limit}

    def __str__(self) -> str:
        return f"Budget: {describe_budget(self.budget, self.delta, format_at(self.delta))}."


@dataclass(frozen=True, slots=True, repr=False)
class Remaining(_Sentence):
    """What can still be spent: a query at `epsilon` fits. `float()` is that ε.

    >>> from discreet.accounting.currencies import create_budget
    >>> remaining = Remaining.of([(create_budget(1, 1e-6), Fraction(1, 10**6))])
    >>> remaining, float(remaining)
    (Remaining: ε = 1 at δ = 1e-6, 100% of the budget (ρ = 0.0229, zCDP)., 1.0)
    """

    epsilon: Fraction  # a short decimal, rounded down
    delta: Fraction
    currency: Currency
    amount: Fraction
    limit: Fraction

    @classmethod
    def of(cls, budgets: "list[tuple[Filter, Fraction]]") -> "Remaining":
        """What remains of an account, which stands first, and of all its parents, each with its δ."""
        (own, delta), amount = budgets[0], min(budget.remaining for budget, _ in budgets)
        epsilon = min(budget.fitting_epsilon(at) for budget, at in budgets)
        return cls(epsilon, delta, own.currency, max(amount, Fraction(0)), own.limit)

    def __float__(self) -> float:
        return decimal_down(self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, rounded down."""
        return {
            "epsilon": float(self),
            "delta": decimal_up(self.delta),
            "currency": self.currency.name,
            "amount": decimal_down(self.amount),
        }

    def __str__(self) -> str:
        share = f"{floor(100 * self.amount / self.limit)}% of the budget"
        amount = "" if self.currency.counts_epsilon else f" ({describe_amount(self.currency, self.amount)})"
        return f"Remaining: ε = {format_down(self.epsilon, SHOWN_DIGITS)}{format_at(self.delta)}, {share}{amount}."


def remaining_bounds(budget: Filter, delta: Fraction) -> Bounds:
    """The ε that remains of a budget: a query at the lower end fits, none above the upper end does."""
    lower, upper = _exact_remaining(budget, delta)
    return Bounds(decimal_down(lower), decimal_up(upper))


def _exact_remaining(budget: Filter, delta: Fraction) -> tuple[Fraction, Fraction | float]:
    if budget.remaining <= 0:
        return Fraction(0), Fraction(0)
    if budget.currency.counts_epsilon:
        return budget.remaining, budget.remaining
    lower = budget.fitting_epsilon(delta)
    return lower, max(lower, smallest_epsilon(budget.currency, budget.remaining, delta, 12))


def format_at(delta: Fraction) -> str:
    """The δ at which an ε holds, to be put behind it; nothing if δ is 0.

    >>> format_at(Fraction(1, 10**6)), format_at(Fraction(0))
    (' at δ = 1e-6', '')
    """
    return f" at δ = {format_up(delta, SHOWN_DIGITS)}" if delta else ""


def format_percent_up(share: Fraction) -> str:
    """A share in percent, rounded up: whole from 1% on.

    >>> format_percent_up(Fraction(1, 3)), format_percent_up(Fraction(1, 3000)), format_percent_up(Fraction(0))
    ('34%', '0.034%', '0%')
    """
    percent = 100 * share
    return f"{ceil(percent) if percent >= 1 else format_up(percent, 2)}%"


def format_share_up(amount: Fraction, limit: Fraction) -> str:
    """An amount as a share of its budget, rounded up; in times of it where it is more than the whole.

    >>> format_share_up(Fraction(1), Fraction(4)), format_share_up(Fraction(3), Fraction(2))
    ('25% of the budget', '1.5 times the budget')
    """
    if amount > limit:
        return f"{format_up(amount / limit, SHOWN_DIGITS)} times the budget"
    return f"{format_percent_up(amount / limit)} of the budget"


def notion_of(currency: Currency) -> str:
    """The name of a currency's notion, for people.

    >>> from discreet.accounting.currencies import Zcdp
    >>> notion_of(Zcdp())
    'zCDP'
    """
    return currency.reported_symbol.partition(" ")[0]


def describe_amount(currency: Currency, amount: Fraction) -> str:
    """An amount of a currency with its symbol and its notion, rounded down.

    >>> from discreet.accounting.currencies import Zcdp
    >>> describe_amount(Zcdp(), Fraction(541316, 10**7))
    'ρ = 0.0541, zCDP'
    """
    return f"{currency.symbol} = {format_down(amount, SHOWN_DIGITS)}, {notion_of(currency)}"


def describe_budget(budget: Filter, delta: Fraction, at: str = "") -> str:
    """What remains, first in ε at the account's δ; then the share that is spent; then what remains in the currency.

    >>> from discreet.accounting.currencies import create_budget
    >>> describe_budget(create_budget(2, 1e-9), Fraction(1, 10**9))
    'ε = 2 of 2 remaining, 0% spent (ρ = 0.0541 of 0.0541, zCDP)'
    >>> from discreet.accounting.currencies import pure_filter
    >>> describe_budget(pure_filter(2).charge_cost(2 - Fraction(1, 10**8), Fraction(0)), Fraction(0))
    'ε = 0 of 2 remaining, 100% spent'
    """
    currency = budget.currency
    remaining = format_down(budget.remaining, SHOWN_DIGITS)
    limit = format_up(smallest_epsilon(currency, budget.limit, delta), SHOWN_DIGITS)
    fitting = budget.remaining if currency.counts_epsilon else budget.fitting_epsilon(delta)
    if fitting < DUST:
        fitting, remaining = Fraction(0), "0"
    spent = format_percent_up(budget.spent / budget.limit)
    spent = "more than 99%" if fitting and spent == "100%" else spent
    said = f"ε = {format_down(fitting, SHOWN_DIGITS)} of {limit} remaining{at}, {spent} spent"
    if currency.counts_epsilon:
        return said
    return f"{said} ({currency.symbol} = {remaining} of {format_down(budget.limit, SHOWN_DIGITS)}, {notion_of(currency)})"
