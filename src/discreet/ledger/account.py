"""The rules of an account, without a place to keep it: what is charged, what fits, what a refusal proposes.

An account is opened once, with a budget and one currency, and keeps both for life. A parent
of the same currency caps the sum of its children: paying a child pays the parent too, or neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf

from discreet._numbers import Number, check_probability, read_decimal, to_rational
from discreet.accounting.currencies import (
    MAX_DENOMINATOR_BITS,
    Currency,
    Filter,
    create_budget,
    round_up,
)
from discreet.accounting.curve import epsilon as certified
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Event, compose

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class AccountState:
    """A named budget and what was spent of it. Paying makes a new account.

    >>> from discreet.events import Claim
    >>> hr = AccountState.open("hr", 1)
    >>> half = Claim(Fraction(1, 2), Fraction(0))
    >>> hr.charge(half).charge(half).budget.remaining
    Fraction(0, 1)
    >>> hr.charge(half).charge_together([half, half])
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this costs 1 (ε) but 0.5 is left; epsilon=0.5 would fit
    """

    name: str
    budget: Filter
    delta: Fraction  # at which the budget promises its ε
    parent: "AccountState | None" = None
    debits: int = 0  # its own, not those of its children
    privacy_unit: str = (
        ""  # whose rows its debits, and its children's, speak of, and in which change; "" as long as none has said
    )

    @classmethod
    def open(
        cls,
        name: str,
        epsilon: Number,
        delta: Number = 0,
        currency: Currency | None = None,
        parent: "AccountState | None" = None,
    ) -> "AccountState":
        """An account with nothing spent."""
        return cls(
            validate_name(name, "account"), create_budget(epsilon, delta, currency), read_decimal(delta, "delta"), parent
        ).check_parent()

    def check_parent(self) -> "AccountState":
        """The same, if its parent may have such a child."""
        above = self.parent
        if above is not None and above.budget.currency != self.budget.currency:
            raise BadParameter(
                "parent", repr(above.name), "it has another currency", "open the child in its parent's currency"
            )
        return self

    def compute_charge(self, event: Event, certified_delta: Number = 0) -> tuple[Fraction, Fraction]:
        """What a loss costs here, and its leak; both rounded up. It is refused if it has no price in this currency.

        `at` is for plans in a pure account only: their certified ε at that δ, which the account's δ then pays.
        """
        amount, leak = compute_charge(self.budget.currency, event, read_decimal(certified_delta, "at"))
        if amount == inf:
            self.budget.charge_cost(amount, leak)  # raises
        return round_up(to_rational(amount)), round_up(leak)

    def charge_cost(self, amount: Fraction, delta: Fraction, privacy_unit: str = "") -> "AccountState":
        """The account, and its parents, once a known price is paid; refused, and unchanged, if it does not fit in all."""
        return replace(self._charge_with_parents(amount, delta, privacy_unit), debits=self.debits + 1)

    def _charge_with_parents(self, amount: Fraction, delta: Fraction, privacy_unit: str) -> "AccountState":
        above = None if self.parent is None else self.parent._charge_with_parents(amount, delta, privacy_unit)
        bound = require_same_unit(self.privacy_unit, privacy_unit, self.name)
        return replace(
            self, budget=self.budget.charge_cost(amount, delta, MAX_DENOMINATOR_BITS), parent=above, privacy_unit=bound
        )

    def charge(self, event: Event, certified_delta: Number = 0) -> "AccountState":
        """The account once `loss` is paid, or a refusal that says what would fit."""
        try:
            return self.charge_cost(*self.compute_charge(event, certified_delta))
        except BudgetExceeded as refused:
            raise self.suggest_epsilon(refused) from None

    def charge_together(self, events: Iterable[Event], certified_delta: Number = 0) -> "AccountState":
        """One entry for several measurements whose noise was fixed before the first answer."""
        return self.charge(compose(*events), certified_delta)

    def suggest_epsilon(self, refused: BudgetExceeded) -> BudgetExceeded:
        """The same refusal with the largest ε that still fits here and in every parent."""
        fitting = min(account.budget.fitting_epsilon(account.delta) for account in self.lineage)
        return BudgetExceeded(refused.currency, cost=refused.cost, remaining=refused.remaining, fitting_epsilon=fitting)

    @property
    def lineage(self) -> "tuple[AccountState, ...]":
        """The account, its parent, and so on."""
        return (self,) if self.parent is None else (self, *self.parent.lineage)


@lru_cache(maxsize=1024)
def compute_charge(
    currency: Currency, event: Event, certified_delta: Fraction = Fraction(0)
) -> tuple[Fraction | float, Fraction]:
    """What a loss costs in a currency, and its leak; with `at`, in a pure account, the certified point at that δ."""
    if certified_delta != 0 and currency.counts_epsilon:
        return certified(event, check_probability(certified_delta, "at")).upper, certified_delta
    return currency.cost(event)


def require_same_unit(known: str, unit: str, name: str) -> str:
    """Whose rows an account speaks of, once it has paid for these. It keeps to one unit and one change for life: what was
    paid for one person's rows says nothing of a household's, and a replaced person is one removed and one added, so a sum
    over several kinds of neighbours promises nothing to any of them."""
    if known and unit and known != unit:
        raise BadParameter(
            "account", repr(name), f"it has paid for ({known}) and keeps to that, and this is ({unit})", "open another one"
        )
    return known or unit


def validate_name(text: str, what: str) -> str:
    """A name or an id that every store can hold."""
    if not text or len(text) > MAX_NAME_LENGTH or not text.isprintable() or text != text.strip():
        raise BadParameter(
            what,
            repr(text[:40]),
            "not a name",
            f"take 1 to {MAX_NAME_LENGTH} printable characters without blanks around them",
        )
    return text
