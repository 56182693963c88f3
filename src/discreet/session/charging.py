"""How an account charges a plan: noise that is fixed before the first answer, and costs one amount for all of it.

In an account in memory, or a pure account of a ledger with a δ, a plan costs a point of the certified curve of the whole; in
any other account, its sum in the currency.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from discreet._numbers import Number, read_decimal, read_positive, smallest_where
from discreet.accounting.conversions import epsilon_from_zcdp
from discreet.accounting.currencies import RESERVED_DELTA_SHARE, Currency, Pure, Zcdp
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.ledger.account import compute_charge
from discreet.mechanisms.calibration import find_smallest_scale
from discreet.query.calibrate import make_least_epsilon_error
from discreet.session.session import Session

RELATIVE_TOLERANCE = 2.0**-14
"""How near, relatively, the noise comes to the largest that a budget or an error allows."""

MAX_NOISE_FACTOR = 2.0**50
"""Noise beyond this factor is useless: nothing remained to pay for less."""


def check_least_epsilon(session: Session, epsilon: Number) -> Fraction:
    """Return an ε; refuse one that the session's policy does not allow."""
    exact, least = read_positive(epsilon, "epsilon"), session.table.least_epsilon
    if exact < least:
        raise make_least_epsilon_error("epsilon", exact, least)
    return exact


@dataclass(frozen=True, slots=True)
class ChargeTerms:
    """How an account charges a plan, and the most that the plan may cost."""

    currency: Currency
    delta: Fraction  # at which ε is stated
    certified_delta: Fraction  # the δ of the certified point; 0 where the currency's own sum is charged
    limit: Fraction
    selection_delta: Fraction  # the δ that partition selection may spend
    asked: Fraction | None = None  # the ε that the plan was asked for

    @classmethod
    def of(cls, epsilon: Number, delta: Number, session: Session) -> "ChargeTerms":
        """Return the terms of the session's account. They do not depend on what was spent: a retry finds the same plan.

        `delta` is that of the certified point, if the account is a pure one; another account has its own.
        """
        budget = session.account.budget
        epsilon, delta = read_positive(epsilon, "epsilon"), read_decimal(delta)
        if budget.currency.counts_epsilon:
            return cls(budget.currency, delta, delta, epsilon, delta * RESERVED_DELTA_SHARE, epsilon)
        limit = budget.currency.amount(epsilon, session.delta)
        return cls(budget.currency, session.delta, Fraction(0), limit, session.calibrator.selection_delta(limit), epsilon)

    @classmethod
    def of_gaussian(cls, session: Session, epsilon: Number, delta: Number | None, what: str) -> "ChargeTerms":
        """Return the terms of a plan that draws Gaussian noise; refuse an account that cannot pay for it.

        `delta` is that of the certified point, if the account is a pure one: unless given, as large a share of the account's
        δ as `epsilon` is of its ε. `what` says in an error what draws the noise: "a tabulation".
        """
        budget, exact = session.account.budget, check_least_epsilon(session, epsilon)
        if not budget.currency.counts_epsilon:
            if delta is not None:
                raise BadParameter("delta", delta, "the account has its own, which cannot be changed", "leave it out")
            return cls.of(exact, 0, session)
        share = min(Fraction(1), exact / budget.limit) * session.delta
        exact_delta = share if delta is None else read_decimal(delta, "delta")
        if exact_delta <= 0:
            raise BadParameter(
                "delta", "0", f"{what} draws Gaussian noise, which has no pure ε",
                "open the account with a δ such as 1e-6, or with a currency such as zcdp",
            )  # fmt: skip
        return cls.of(exact, exact_delta, session)

    @classmethod
    def of_pure(cls, session: Session, epsilon: Number) -> "ChargeTerms":
        """Return the terms of a plan that is ε-private without a δ."""
        return cls.of(check_least_epsilon(session, epsilon), 0, session)

    def compute_charge(self, event: Composition) -> Fraction | float:
        """Return what a plan costs."""
        return compute_charge(self.currency, event, self.certified_delta)[0]

    def estimate_noise_factor(self, event_at: Callable[[float], Composition], limit: Fraction) -> float:
        """Return a factor on some noises at which the plan costs no more than the limit; ∞ if none is found.

        The certified curve takes its time, so there only pure ε and zCDP are computed, which is quick."""

        def fits(noise: float) -> bool:
            event = event_at(noise)
            if not self.certified_delta:
                return self.compute_charge(event) <= limit
            return min(Pure().cost(event)[0], epsilon_from_zcdp(Zcdp().cost(event)[0], self.certified_delta)) <= limit

        return smallest_where(fits, 1.0, 2.0**-5 if self.certified_delta else RELATIVE_TOLERANCE)

    def find_noise_factor(self, event_at: Callable[[float], Composition], limit: Fraction, estimate: float) -> float:
        """Return the least such factor, searched for around an estimate; ∞ if no factor does."""
        if not self.certified_delta:
            return estimate
        try:
            start = estimate if estimate < MAX_NOISE_FACTOR else 1.0
            return float(find_smallest_scale(lambda noise: event_at(float(noise)), limit, self.certified_delta, start))
        except BadParameter:  # no noise is enough
            return inf
