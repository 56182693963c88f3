"""The rules of an account, wherever it is stored, and `Account`, the protocol that a session charges.

An account is opened once, with a budget in one currency; neither can be changed. A parent of the same currency caps the sum
of its children: a debit of a child is a debit of all its parents, or of none.

All accounts under one root are a *family*. What is guaranteed is the root's budget, over everything that any of them was
shown, so an answer that one of them paid for may be shown to the others for free.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite
from typing import Protocol

from discreet._numbers import Number, check_probability, format_up, read_decimal, to_rational
from discreet.accounting.cost import SHOWN_DIGITS, format_at
from discreet.accounting.currencies import (
    MAX_DENOMINATOR_BITS,
    Currency,
    Filter,
    Receipt,
    create_budget,
    round_up,
    smallest_epsilon,
)
from discreet.errors import DELTA_CURRENCY, BadParameter, BudgetExceeded
from discreet.events import Composition, Event, check_additive, compose
from discreet.ledger.quarantine import Quarantine
from discreet.units import AMONG

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class AccountState:
    """A named budget and what was spent of it. A debit makes a new state.

    >>> from discreet.events import Claim
    >>> hr = AccountState.open("hr", 1)
    >>> half = Claim(Fraction(1, 2), Fraction(0))
    >>> hr.charge(half).charge(half).budget.remaining
    Fraction(0, 1)
    >>> hr.charge(half).charge_together([half, half])
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: This costs ε = 1, and ε = 0.5 remains. epsilon=0.5 would fit.
    """

    name: str
    budget: Filter
    delta: Fraction  # of the (ε, δ) that the budget guarantees
    parent: "AccountState | None" = None
    debits: int = 0  # its own, not those of its children
    privacy_unit: str = ""  # of its debits and its children's, with the neighbouring relation; "" until one states it
    own_split: bool = False  # whether its own limits, not its root's, divide δ: so it is in children of earlier versions

    @classmethod
    def open(
        cls,
        name: str,
        epsilon: Number,
        delta: Number = 0,
        currency: Currency | None = None,
        parent: "AccountState | None" = None,
    ) -> "AccountState":
        """Open an account with nothing spent."""
        return cls(
            validate_name(name, "account"), create_budget(epsilon, delta, currency), read_decimal(delta, "delta"), parent
        ).check_parent()

    def check_parent(self) -> "AccountState":
        """Return the account. Raise `BadParameter` if its parent has another currency."""
        if self.parent is not None and self.parent.budget.currency != self.budget.currency:
            raise BadParameter(
                "parent",
                repr(self.parent.name),
                f"it is kept in {self.parent.budget.currency.name}, and this account in {self.budget.currency.name}",
                "open the child in its parent's currency",
            )
        return self

    def compute_charge(self, event: Event, certified_delta: Number = 0) -> tuple[Fraction, Fraction]:
        """Return the cost of an event in this currency and in δ, both rounded up.

        `certified_delta` is for plans in a pure account: they cost their certified ε at that δ, and that δ.

        Raises:
            BudgetExceeded: if the event has no finite cost in this currency.
        """
        amount, delta = compute_charge(self.budget.currency, event, read_decimal(certified_delta, "certified_delta"))
        if amount == inf:
            self.budget.charge_cost(amount, delta)  # raises
        return round_up(to_rational(amount)), round_up(delta)

    def charge_cost(self, amount: Fraction, delta: Fraction, privacy_unit: str = "") -> "AccountState":
        """Return the account and its parents after a debit of a known cost. Raise `BudgetExceeded` if it does not fit in all
        of them."""
        return self._charge_with_parents(amount, delta, privacy_unit, self.debits + 1)

    def _charge_with_parents(self, amount: Fraction, delta: Fraction, privacy_unit: str, debits: int) -> "AccountState":
        above = self.parent
        parent = None if above is None else above._charge_with_parents(amount, delta, privacy_unit, above.debits)
        unit = require_same_unit(self.privacy_unit, privacy_unit, self.name)
        budget = self.budget.charge_cost(amount, delta, MAX_DENOMINATOR_BITS)
        return AccountState(self.name, budget, self.delta, parent, debits, unit, self.own_split)

    def charge(self, event: Event, certified_delta: Number = 0) -> "AccountState":
        """Return the account after a debit of an event. Raise `BudgetExceeded`, with the ε that would fit, if it is too
        much."""
        try:
            return self.charge_cost(*self.compute_charge(event, certified_delta))
        except BudgetExceeded as refused:
            raise self.suggest_epsilon(refused) from None

    def charge_together(self, events: Iterable[Event], certified_delta: Number = 0) -> "AccountState":
        """Charge several measurements, whose noise was fixed before the first answer, with one debit."""
        return self.charge(compose(*events), certified_delta)

    def suggest_epsilon(self, refused: BudgetExceeded) -> BudgetExceeded:
        """Return the same refusal, of the account in which least remains, with the largest ε that fits here and in every
        parent."""
        if refused.currency != DELTA_CURRENCY:
            tightest = min((account.budget for account in self.lineage), key=lambda budget: budget.remaining)
            refused = BudgetExceeded(
                refused.currency, cost=refused.cost, remaining=tightest.remaining, limit=tightest.limit
            )  # fmt: skip
        fitting = min(account.budget.fitting_epsilon(account.delta) for account in self.lineage)
        return state_in_epsilon(refused, self.budget.currency, self.delta, fitting)

    @property
    def lineage(self) -> "tuple[AccountState, ...]":
        """The account, its parent, the parent of that, and so on."""
        return (self,) if self.parent is None else (self, *self.parent.lineage)

    @property
    def condition(self) -> str:
        """What the data sets must agree on for the guarantee to hold: exact counts that are public; "" without any.

        >>> AccountState.open("hr", 1).condition
        ''
        """
        return self.privacy_unit.partition(AMONG)[2]

    @property
    def family_budget(self) -> Filter:
        """The budget whose limits divide δ over queries: the root's, so that the same query has the same threshold, and is
        the same measurement, in every account of a family."""
        return self.budget if self.own_split else self.lineage[-1].budget


MAX_LISTED_ACCOUNTS = 5
"""How many accounts a warning names."""


def warn_of_unrelated(account: AccountState, others: Sequence[AccountState]) -> str | None:
    """Warn that accounts which no parent has in common add up, if they cover the same people; None if there are none.

    A ledger knows names, budgets and privacy units, and neither rows nor people, so it cannot know whether they do. The sum
    is that of the budgets, by basic composition: each account is (ε, δ)-private whatever is asked, in whatever order.
    """
    if not others:
        return None
    roots = [account.lineage[-1], *others]
    epsilon = sum(Fraction(smallest_epsilon(each.budget.currency, each.budget.limit, each.delta)) for each in roots)
    delta = sum((each.delta for each in roots), Fraction(0))
    total = f"ε = {format_up(epsilon, SHOWN_DIGITS)}{format_at(delta)}" if delta < 1 else "δ = 1, which promises nothing"
    names = ", ".join(f'"{each.name}"' for each in others[:MAX_LISTED_ACCOUNTS])
    names += f" and {len(others) - MAX_LISTED_ACCOUNTS} more" if len(others) > MAX_LISTED_ACCOUNTS else ""
    return (
        f'Account "{account.name}" has no parent in common with {names}. If they cover the same people, their budgets add '
        f"up to {total}. Accounts that are opened under a common parent share its budget."
    )


def state_in_epsilon(
    refused: BudgetExceeded,
    currency: Currency,
    delta: Fraction,
    fitting: Fraction,
    hint: str = "",
    remaining: Fraction | None = None,
) -> BudgetExceeded:
    """Return a refusal that says what the cost and the rest are in ε at the account's δ. `fitting` is the ε that a query may
    still have, and `remaining` the ε that remains, if it is another."""
    amount = refused.cost
    epsilon = smallest_epsilon(currency, to_rational(amount), delta) if isfinite(amount) else inf
    return BudgetExceeded(
        refused.currency, cost=amount, remaining=refused.remaining, fitting_epsilon=fitting,
        cost_epsilon=None if refused.currency == DELTA_CURRENCY else epsilon, remaining_epsilon=remaining,
        limit=refused.limit, hint=hint,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def compute_charge(
    currency: Currency, event: Event, certified_delta: Fraction = Fraction(0)
) -> tuple[Fraction | float, Fraction]:
    """Return the cost of an event in a currency and in δ. Where the currency is ε, a `certified_delta` makes that the
    certified ε of the event at this δ, and this δ.

    Raises:
        TheoremNotApplicable: the event cannot be added to others.
    """
    check_additive(event)
    if certified_delta != 0 and currency.counts_epsilon:
        from discreet.accounting.curve import epsilon as certified  # only plans are charged by the curve

        return certified(event, check_probability(certified_delta, "certified_delta")).upper, certified_delta
    return currency.cost(event)


def require_same_unit(known: str, unit: str, name: str) -> str:
    """Return the privacy unit and neighbouring relation of an account after a debit. An account has one of each for life:
    the cost for one person's rows bounds nothing about a household's, and replacing a person is removing one and adding one,
    so a sum over several kinds of neighbours guarantees nothing for any of them."""
    if known and unit and known != unit:
        (base, _, condition), (new_base, _, new_condition) = known.partition(AMONG), unit.partition(AMONG)
        if base == new_base:
            raise BadParameter(
                "invariants", new_condition or "not given",
                f"the account {name!r} has {f'others ({condition})' if condition else 'none'}, and publications together "
                "guarantee something only among data sets that agree on the same exact counts",
                f"{'give the same' if condition else 'leave them out'}, or open another account",
            )  # fmt: skip
        (before, _, _), (now, _, relation) = known.partition(": "), unit.partition(": ")
        raise BadParameter(
            *(("neighbours", repr(relation)) if before == now else ("unit", repr(now))),
            f"the account {name!r} has another: its debits are about ({known}), and this query is about ({unit})",
            f"give the {'relation' if before == now else f'unit {before!r}'}, or open another account",
        )
    return known or unit


def validate_name(text: str, what: str) -> str:
    """Return a name or an id that every store can hold."""
    if not isinstance(text, str):
        raise BadParameter(what, f"of type {type(text).__name__}", "not a text", "give a text")
    if not text or len(text) > MAX_NAME_LENGTH or not text.isprintable() or text != text.strip():
        raise BadParameter(
            what,
            repr(text[:40]),
            "not a name",
            f"take 1 to {MAX_NAME_LENGTH} printable characters without blanks at the ends",
        )
    return text


def check_reserved(measurement: str, id: str | None, privacy_unit: str) -> None:
    """Refuse what a store could not hold or read back, before anything is looked up or written."""
    for name, text in (("measurement", measurement), ("privacy_unit", privacy_unit)):
        if not isinstance(text, str):
            raise BadParameter(name, f"of type {type(text).__name__}", "not a text", "give a text")
        if "\0" in text or not _has_encoding(text):
            raise BadParameter(name, repr(text[:40]), "not a text that every store holds", "leave NUL and surrogates out")
    if id is not None:
        validate_name(id, "id")


def _has_encoding(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_answer(answer: bytes) -> bytes:
    """Return an answer that can be recorded byte for byte."""
    if not isinstance(answer, bytes):
        raise BadParameter("answer", f"of type {type(answer).__name__}", "not bytes", 'encode it, as in b"about 40"')
    return answer


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """The answer that is recorded for a measurement: it is shown again for free."""

    entry: int  # of its debit
    id: str  # of its debit; empty if another account of the family paid: ids belong to their account
    answer: bytes


class Account(Protocol):
    """What a session needs of the account that it charges: reserve, run, record.

        reserved = account.reserve(event, measurement=..., id=...)
        if isinstance(reserved, CachedAnswer):      # the same measurement has its answer already: nothing was debited
            return reserved.answer
        ...                                         # read the rows, add the noise
        return account.record(reserved, answer)     # only what it returns may be shown

    A debit is durable before `reserve` returns, and an answer before `record` does. A crash between the two leaves a debit
    without an answer, and the next call with the same measurement continues it. If several callers continue one debit, the
    first to record wins and all of them show its answer: one debit pays for one answer.

    Both also hold across the accounts of a family, which share a root. A measurement that another account debited is not
    debited again: its answer is shown, and a debit without an answer is continued and recorded as that account's. The root
    has paid for it, the answer is the same for all, and what the family spends does not depend on who was quicker.
    """

    @property
    def budget(self) -> Filter:
        """The limit, and what is spent and remains of it."""
        ...

    @property
    def family_budget(self) -> Filter:
        """The budget whose limits divide δ over queries: that of the account's root."""
        ...

    @property
    def quarantine(self) -> Quarantine | None:
        """Where failures of sources are recorded; None if the account has no place for them."""
        ...

    def check(self, event: Composition, certified_delta: Number = 0) -> None:
        """Raise `BudgetExceeded` for what does not fit as a whole, before its first part is debited."""
        ...

    def is_paid(
        self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False, shared: bool = True
    ) -> bool:
        """Return whether `reserve` would debit nothing. Raise `BadParameter` if the id belongs to another measurement."""
        ...

    def has_debit(self, id: str) -> bool:
        """Return whether a debit has this id."""
        ...

    def pay(self, event: Composition) -> Receipt:
        """Debit an event for which no answer will be recorded."""
        ...

    def reserve(
        self,
        event: Composition,
        *,
        measurement: str,
        id: str | None = None,
        fresh: bool = False,
        tainted: bool = False,
        certified_delta: Number = 0,
        privacy_unit: str = "",
        shared: bool = True,
    ) -> Receipt | CachedAnswer:
        """Debit a measurement once, or return the answer that is recorded for it.

        Args:
            event: which noise will run.
            measurement: the hash of all that decides what is measured.
            id: makes the call idempotent; an id belongs to one measurement.
            fresh: debit again, though the same measurement has an answer; not if the id has a debit.
            tainted: whether the noise can be repeated. A ledger refuses that.
            certified_delta: in a pure account, the δ at which a plan is charged its certified ε.
            privacy_unit: the privacy unit and the neighbouring relation. An account keeps to one, and refuses others.
            shared: whether debits of other accounts of the family count as well; False for a measurement on which others
                rest, or which rests on others, because a certificate states such debits of one account.

        Raises:
            BudgetExceeded: if the cost does not fit; nothing is debited then.
            BadParameter: if the id or the account belongs to something else.
        """
        ...

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """Record an answer and return what may be shown: this answer, or the one that was recorded first."""
        ...


def steps_unpaid_error(id: str) -> BadParameter:
    """An id whose measurement was debited, though a step that it would rest on was not."""
    return BadParameter(
        "id",
        repr(id),
        "it belongs to another measurement, or to this one after bounds that another query found",
        "take a new id for a new query; to retry this one, first ask the queries again that came before it",
    )


class IdTaken(BadParameter):
    """An id that belongs to another measurement, with what the account knows of that one.

    `cost` is what it was charged in the account's currency, and `answer` what was recorded for it, if anything was.
    """

    def __init__(
        self, id: str, event: Event, cost: Fraction, answer: bytes | None, privacy_unit: str = "", differences: str = ""
    ) -> None:
        self.id, self.event, self.cost, self.answer, self.privacy_unit = id, event, cost, answer, privacy_unit
        differs = differences or "query, data, policy or noise differ"
        super().__init__("id", repr(id), f"it belongs to another measurement: {differs}", "take a new id for a new query")

    def explain(self, differences: str) -> "IdTaken":
        """Return the same refusal, which says what differs."""
        return IdTaken(self.id, self.event, self.cost, self.answer, self.privacy_unit, differences)
