"""What every plan of a tabulation says of its cost."""

from fractions import Fraction
from functools import cached_property

from discreet._numbers import to_rational
from discreet.accounting.cost import Cost
from discreet.events import Composition
from discreet.session.charging import ChargeTerms
from discreet.session.session import Session


class PricedPlan:
    """Noise that was fixed before a row is read: an event, the terms on which it is charged, and the session that pays."""

    session: Session
    terms: ChargeTerms

    @property
    def event(self) -> Composition:
        """What will have happened once the tables are measured."""
        raise NotImplementedError

    @cached_property
    def charge(self) -> Fraction:
        """What the plan costs, in the account's currency."""
        return to_rational(self.terms.compute_charge(self.event))

    @property
    def fits(self) -> bool:
        """Whether that is within the plan's own budget. What remains of the account's is for the account to say."""
        return self.charge <= self.terms.limit

    @property
    def sufficient_epsilon(self) -> Fraction | float:
        """The `epsilon` that would be enough for the plan: what buys its charge. The certified ε of the event is less."""
        currency = self.terms.currency
        return self.charge if currency.counts_epsilon else currency.epsilon(self.charge, self.session.delta)

    @property
    def cost(self) -> Cost:
        """ε at δ, the charge, and what remains of the account's budget now."""
        budget = self.session.account.budget
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, budget.remaining, budget.limit)
