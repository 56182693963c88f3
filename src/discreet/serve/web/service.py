"""What the web process does for people, whether they come by the API or by a page: see tables, quote, ask, wait, withdraw.

An ask goes: grant (without one the table does not exist) → quote → rules → a row in the control database, which a worker
takes. The ε of the ask is fixed here, and so is the hash of what will be measured; the worker refuses to measure anything
else. Every refusal depends on the policy, the cost and the balance, and on no row.

A measurement that was answered before in the same family of accounts is shown at once and costs nothing, if the asker's own
grant and rules allow the query; otherwise it goes to a steward like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
from fastapi import Request, Response

from discreet.accounting.cost import Budget, Remaining
from discreet.errors import BadParameter, DiscreetError, ServiceUnavailable
from discreet.query.answer import explain_recorded
from discreet.remote.wire import budget_to_wire, cost_to_wire, quote_to_wire, remaining_to_wire
from discreet.serve.control.base import new_id
from discreet.serve.control.errors import DayLimitReached, KeyTaken
from discreet.serve.control.model import (
    Ask,
    AskOptions,
    AskState,
    Grant,
    RequestState,
    Role,
    Rules,
    Scope,
    Snapshot,
    TableEntry,
)
from discreet.serve.control.model import (
    Request as ApprovalRequest,
)
from discreet.serve.control.store import Control
from discreet.serve.quoting import Priced, Quoter, Target
from discreet.serve.rounding import round_parents, round_snapshot
from discreet.serve.rules import Decision, NeedsApproval, QuoteFacts, Refused, decide
from discreet.serve.schedule import (
    MARGIN,
    JumpFreeClock,
    choose_class,
    makes_moment,
    measure_backlog,
    measure_share,
)
from discreet.serve.web.bell import Bell
from discreet.serve.web.limits import LimitedPool, RateLimit
from discreet.serve.web.metrics import Metrics
from discreet.serve.web.oidc import Provider
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.settings import WebSettings
from discreet.serve.web.signing_in import Caller, SigningIn, render_plain

NO_RULES = Rules(fresh=True)
DEFAULT_SLOTS = 2
"""What is assumed before a worker has said how many jobs it runs at once."""
RESTART_SECONDS = 5.0
DRAWING_THREADS = 2
"""How many charts, figures and exercises of the lab are computed at once; each takes a core for a while."""
MAX_DRAWINGS = 16
"""How many more wait for that; half of them for one person."""
DRAWINGS_PER_SECOND, DRAWINGS_AT_ONCE = 0.5, 20.0
"""How many of them one person may have drawn, in the long run and in a row: each takes the time of quotes and answers."""
QUOTE_THREADS, MAX_QUOTES = 40, 1_000
"""Threads for quotes and asks that come by the API, most of which wait for a place of the quoter, and how many more wait for
a thread: they hold none of those that all other requests share."""
MAX_HEALTH_CHECKS = 50
SIGN_IN_THREADS = 4
MAX_SIGN_INS = 16
"""How many sign-ins talk to the provider at once, and how many more wait for that: it may not answer, and strangers begin
them."""
MAX_KEY = 150
"""The longest idempotency key: with the person's id it is an id of the ledger, which has at most 200 characters."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person asks of a table."""

    table: str
    query: str
    target: Target
    simultaneous: bool = False
    fresh: bool = False
    purpose: str = ""

    @property
    def options(self) -> AskOptions:
        """How the query is asked, besides its ε."""
        target = self.target
        weights = None if target.weights is None else dict(target.weights)
        return AskOptions(
            error=target.error, size=target.size, confidence=target.confidence, weights=weights,
            simultaneous=self.simultaneous, fresh=self.fresh,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quoted:
    """What is known of a question before it is asked."""

    entry: TableEntry
    grant: Grant
    account: str
    root: str
    priced: Priced
    recorded: Ask | None  # the ask that was answered with the same measurement
    approval: str | None  # why a steward must approve it
    refusal: DiscreetError | None  # why no approval helps
    class_seconds: float | None  # after which the answer leaves; None: when it is ready
    asked_today: Fraction | None  # of what the rules allow in a day; None: they state nothing


class Web:
    """What all routes of one process share."""

    def __init__(self, control: Control, settings: WebSettings, provider: Provider | None = None) -> None:
        self.control, self.settings = control, settings
        self.signing = SigningIn(control, settings, provider)
        self.quoter, self.bell, self.clock = Quoter(settings.quote_threads), Bell(control), JumpFreeClock()
        per_second, per_hour = settings.quotes_per_second, settings.asks_per_hour
        self.quote_limit = RateLimit(per_second, max(per_second or 1, 1) * 2, "quotes")
        self.ask_limit = RateLimit(None if per_hour is None else per_hour / 3600, max(per_hour or 1, 1), "asks")
        rate = RateLimit(None if per_second is None else DRAWINGS_PER_SECOND, DRAWINGS_AT_ONCE, "drawings")
        self.drawings = LimitedPool(DRAWING_THREADS, MAX_DRAWINGS, "drawings", per_person=MAX_DRAWINGS // 2, rate=rate)
        self.quotes = LimitedPool(QUOTE_THREADS, MAX_QUOTES, "quotes")
        self.health = LimitedPool(1, MAX_HEALTH_CHECKS, "checks of the service")
        self.sign_ins = LimitedPool(SIGN_IN_THREADS, MAX_SIGN_INS, "sign-ins")
        self.metrics = Metrics(control)
        self.streams: dict[str, int] = {}  # events that people read now; touched by the event loop alone
        self.render: Callable[[Request, str, dict[str, Any]], Response] = render_plain  # pages draw their own

    def close(self) -> None:
        """End what runs beside requests."""
        self.bell.close()
        self.drawings.close()
        self.quotes.close()
        self.health.close()
        self.sign_ins.close()

    # Tables and accounts

    def find_table(self, caller: Caller, name: str) -> tuple[TableEntry, Grant | None]:
        """Return a table that the caller may see, with the grant to ask of it. What is not granted is not looked for at all,
        so it takes no other time than what is not there."""
        grant = self.control.find_grant(caller.person.id, name)
        entry = self.control.find_table(name) if (grant is not None or caller.is_steward) and caller.may_use(name) else None
        if entry is None or not _may_see(caller, entry):
            raise not_found()
        return entry, grant

    def list_tables(self, caller: Caller) -> list[tuple[TableEntry, Grant | None]]:
        """Return the tables that the caller may see."""
        grants = {each.table: each for each in self.control.list_grants(person=caller.person.id)}
        rations = {} if caller.token is None else caller.token.accounts
        return [
            (entry, grants.get(entry.name))
            for entry in self.control.list_tables()
            if (entry.name in grants or caller.is_steward) and caller.may_use(entry.name) and _may_see(caller, entry)
            if not rations or entry.population in rations
        ]

    def find_lineage(self, account: str) -> list[Snapshot]:
        """Return an account and its parents, as workers last saw them. Empty until a worker has opened the account."""
        found, name = list[Snapshot](), account
        while name and (snapshot := self.control.find_snapshot(name)) is not None:
            found.append(snapshot)
            name = snapshot.parent or ""
        return found if not name else []

    def choose_account(self, caller: Caller, entry: TableEntry, grant: Grant) -> str:
        """Return what an ask is charged to: the token's own account where it has one. A token that has a ration in one
        population asks of no other: it would escape its ration there."""
        if caller.token is None or not caller.token.accounts:
            return grant.account
        if entry.population not in caller.token.accounts:
            raise not_found()
        return caller.token.accounts[entry.population]

    def list_own_accounts(self, caller: Caller) -> set[str]:
        """Return the accounts that the caller asks from: those of a token, and of the grants of tables that it reaches."""
        grants = self.control.list_grants(person=caller.person.id)
        mine = {grant.account for grant in grants if caller.may_use(grant.table)}
        return mine if caller.token is None else mine | set(caller.token.accounts.values())

    def describe_account(self, caller: Caller, account: str) -> dict[str, Any]:
        """Return an account and its parents. What remains of one that others spend from, too, is rounded down to 1%."""
        mine = self.list_own_accounts(caller)
        is_mine = _is_above(account, mine)
        may_see = is_mine or (caller.is_steward and not caller.is_limited)
        lineage = self.find_lineage(account) if may_see else []  # else not even looked for
        if not is_mine and not lineage:
            raise not_found()
        if not lineage:
            raise ServiceUnavailable("The account is not open yet", "try again in a moment", retry_after=1)
        return {
            "account": account,
            "lineage": [self._describe_snapshot(each, each.account in mine or caller.is_steward) for each in lineage],
            "remaining": remaining_to_wire(self.find_remaining(lineage, mine, caller.is_steward)),
        }

    def list_accounts(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the accounts that the caller asks from, or all for a steward."""
        names = self.list_own_accounts(caller)
        if caller.is_steward and not caller.is_limited:
            names |= {each.account for each in self.control.list_snapshots()}
        return [self.describe_account(caller, each) for each in sorted(names) if self.find_lineage(each)]

    def find_remaining(self, lineage: list[Snapshot], mine: set[str], exactly: bool) -> Remaining:
        """Return what can still be spent from an account; what others spend from, too, is rounded."""
        shown = [each if exactly or each.account in mine else round_snapshot(each) for each in lineage]
        return Remaining.of([(each.budget, Fraction(each.delta)) for each in shown])

    @staticmethod
    def _describe_snapshot(snapshot: Snapshot, exactly: bool) -> dict[str, Any]:
        shown = snapshot if exactly else round_snapshot(snapshot)
        budget = shown.budget
        return {
            "account": snapshot.account,
            "parent": snapshot.parent,
            "root": snapshot.root,
            "currency": snapshot.currency,
            "is_rounded": not exactly,
            "debits": snapshot.debits if exactly else None,
            "budget": budget_to_wire(Budget.of(budget, Fraction(snapshot.delta))),
        }

    # Quotes

    def quote(self, caller: Caller, question: Question) -> Quoted:
        """Return what a question would cost, how accurate its answer would be, when it would arrive, and who decides."""
        with self.control.reading():
            entry, grant = self.find_table(caller, question.table)
            if grant is None:
                raise not_found()  # a steward sees the table, and asks with a grant like everybody
            account = self.choose_account(caller, entry, grant)
            lineage = self.find_lineage(account)
        if not lineage:
            raise ServiceUnavailable("The account is not open yet", "try again in a moment", retry_after=1)
        shown = lineage if caller.is_steward else round_parents(lineage)
        priced = self.quoter.price(entry, shown, question.query, question.target, caller.limit_key)
        root = lineage[-1].account
        recorded = None if question.fresh else self.control.find_answered(root, priced.hash)
        per_day, now = entry.rules.epsilon_per_day, self.clock.now()
        asked_today = None if per_day is None else self.control.spent_today(caller.person.id, entry.name, now)
        decision = self._decide(caller, entry, grant, question, priced, recorded, asked_today)
        return Quoted(
            entry, grant, account, root, priced, recorded,
            decision.reason if isinstance(decision, NeedsApproval) else None,
            decision.error if isinstance(decision, Refused) else None,
            choose_class(entry.classes, entry.seconds_per_pass, priced.calibrated.bounded), asked_today,
        )  # fmt: skip

    def show_quote(self, caller: Caller, quoted: Quoted) -> dict[str, Any]:
        """Return a quote as the API shows it."""
        priced = quoted.priced
        mine = {quoted.account}
        lineage = self.find_lineage(quoted.account)
        left = self.find_remaining(lineage, mine, caller.is_steward)
        return {
            "quote": quote_to_wire(priced.quote),
            "epsilon": str(priced.epsilon),
            "measurement": priced.hash,
            "arrives_in": None if quoted.recorded is not None else quoted.class_seconds,
            "recorded": quoted.recorded is not None,
            "needs_approval": quoted.approval,
            "today": None
            if quoted.asked_today is None
            else {
                "asked": str(quoted.asked_today),
                "allowed": quoted.entry.rules.epsilon_per_day,
            },
            "refused": None if quoted.refusal is None else str(quoted.refusal),
            "share": float(priced.amount / left.amount) if left.amount > 0 else None,
            "remaining": remaining_to_wire(left),
        }

    def _decide(
        self, caller: Caller, entry: TableEntry, grant: Grant, question: Question, priced: Priced, recorded: Ask | None,
        asked_today: Fraction | None,
    ) -> Decision:  # fmt: skip
        """Ask the rules. What the person has been answered already needs no second approval."""
        if recorded is not None and recorded.person == caller.person.id:
            entry = msgspec.structs.replace(entry, rules=NO_RULES)
        facts = QuoteFacts(
            question.query, priced.epsilon, needs_undeclared_keys=priced.calibrated.discovers_keys, fresh=question.fresh,
            spent_today=asked_today or Fraction(0),
        )  # fmt: skip
        return decide(caller.person, caller.token, grant, entry, facts, recorded is not None)

    # Asks

    def ask(self, caller: Caller, question: Question, key: str | None = None) -> Ask:
        """Take a question. With a key that the person used for the same question before, return that ask.

        Raises:
            BadParameter: if the key belongs to another question.
            BudgetExceeded: if the cost fits no longer; nothing was charged.
            Refusal: if a limit is reached or the account is paused.
        """
        caller.require(Scope.ASK)
        key = check_key(key) if key is not None else new_id()
        earlier = self.control.find_ask_by_key(caller.person.id, key)
        if earlier is not None and _is_same(earlier, question) and caller.may_use(earlier.table):
            return earlier
        if earlier is not None:
            raise _make_key_error(key)
        self.ask_limit.take(caller.limit_key)
        quoted = self.quote(caller, question)
        if quoted.refusal is not None:
            raise quoted.refusal
        ask = self._make_ask(caller, question, quoted, key)
        try:
            return self._add(ask, question, quoted)
        except KeyTaken:
            raise _make_key_error(key) from None

    def _add(self, ask: Ask, question: Question, quoted: Quoted) -> Ask:
        person = ask.person
        if quoted.approval is None and quoted.recorded is not None:
            if _shows_alike(quoted.recorded, question):
                return self.control.add_ask(_repeat(ask, quoted, self.clock.now()))
        elif quoted.recorded is None:
            quoted.priced.check_budget()
        if quoted.approval is not None:
            return self._add_for_approval(ask, question, quoted.approval)
        check = (lambda: self._check_queue(ask)) if quoted.recorded is None else None
        limit = self.settings.max_waiting
        per_day = None if quoted.recorded is not None else quoted.entry.rules.epsilon_per_day  # what is recorded is free
        try:
            return self.control.add_ask(ask, waiting_limit=limit, epsilon_per_day=per_day, by=person, check_queue=check)
        except DayLimitReached as reached:
            return self._add_for_approval(ask, question, str(reached))

    def _check_queue(self, ask: Ask) -> None:
        """Refuse an ask that the workers would not answer at its moment; nothing was charged, and nothing is queued.

        Raises:
            ServiceUnavailable: with the seconds after which the queue is short enough.
        """
        if ask.class_seconds is None:
            return
        slots = self.control.count_slots()
        if slots == 0:
            reason = "No worker of the service is running; nothing was charged"
            raise ServiceUnavailable(reason, "try again in a minute, or tell its steward", retry_after=RESTART_SECONDS)
        slots = DEFAULT_SLOTS if slots is None else slots
        self._check_share(ask, slots)
        ahead = measure_backlog(self.control.list_unfinished(), slots, ask.accepted_at)
        # between two queries of a publication asks go first; so one of its queries is ahead, on the one engine of the table
        ahead += slots * max(self.control.list_publishing(ask.table), default=0.0)
        if not makes_moment(ask.class_seconds, [ahead], slots):
            over = ahead / (MARGIN * slots) + ask.class_seconds / MARGIN - ask.class_seconds
            reason = "The service has too much to do to answer in time; nothing was charged"
            raise ServiceUnavailable(reason, "try again in a moment", retry_after=round(over + 0.05, 2))

    def _check_share(self, ask: Ask, slots: int) -> None:
        """Refuse an ask of a longer class than the shortest of the service while the person has others of these ahead: long
        asks of one person, one after another, would keep everybody from asking short ones. They have half of the slots.

        Raises:
            ServiceUnavailable: with the seconds after which the person may ask it.
        """
        seconds = ask.class_seconds
        shortest = min((each.classes[0] for each in self.control.list_tables() if each.classes), default=seconds)
        if seconds is None or shortest is None or seconds <= shortest:
            return
        mine = [(accepted, each) for accepted, each in self.control.list_unfinished(ask.person) if each > shortest]
        ahead = measure_share(mine, slots, ask.accepted_at)
        if ahead > 0 and ahead + seconds > (MARGIN - 1) * slots * shortest / 2:
            reason = "Your earlier asks take your share of the service; nothing was charged"
            wait = round(2 * ahead / (MARGIN * slots) + 0.05, 2)
            raise ServiceUnavailable(reason, "try again in a moment", retry_after=wait)

    def _add_for_approval(self, ask: Ask, question: Question, reason: str) -> Ask:
        request = ApprovalRequest(
            ask=ask.id, person=ask.person, table=ask.table, purpose=question.purpose, reason=reason,
            measurement=ask.measurement, state=RequestState.OPEN, created=ask.accepted_at,
        )  # fmt: skip
        waiting = msgspec.structs.replace(ask, state=AskState.APPROVAL, reason=reason, release_at=None)
        with self.control.transaction():
            added = self.control.add_ask(waiting, request, waiting_limit=self.settings.max_waiting, by=ask.person)
            if added.id == ask.id:
                self.control.enqueue("alert", ask.table, {"kind": "request"})
        return added

    def _make_ask(self, caller: Caller, question: Question, quoted: Quoted, key: str) -> Ask:
        now, priced = self.clock.now(), quoted.priced
        return Ask(
            id=new_id(), key=key, person=caller.person.id, table=question.table, account=quoted.account, root=quoted.root,
            query=question.query, options=question.options, epsilon=str(priced.epsilon), measurement=priced.hash,
            cost=cost_to_wire(priced.cost), state=AskState.WAITING, accepted_at=now,
            token=None if caller.token is None else caller.token.id, class_seconds=quoted.class_seconds,
            release_at=None if quoted.class_seconds is None else now + quoted.class_seconds,
        )  # fmt: skip

    def find_ask(self, caller: Caller, ask: str) -> Ask:
        """Return an ask of the caller's, or of anybody's for a steward; of another analyst's what `share` shows of it, or
        the answer alone if a steward released it."""
        found = self.control.find_ask(ask)
        if found is not None and (found.person == caller.person.id or caller.is_steward) and caller.may_use(found.table):
            return found
        # the same steps for what is not there as for what is not granted; what is released is no secret
        grant = self.control.find_grant(caller.person.id, "" if found is None else found.table)
        if found is None or not caller.may_use(found.table):
            raise not_found()
        is_released = found.released is not None and _sees_released(caller)
        if grant is None and not is_released:
            raise not_found()
        try:
            return self.share(caller, found)
        except Refusal:
            if not is_released:
                raise
            return _leave_out_asker(found)

    def find_answered(self, caller: Caller, ask: str) -> Ask:
        """Return an ask that has an answer, if the caller may see it."""
        found = self.find_ask(caller, ask)
        if found.state is not AskState.ANSWERED or found.answer is None:
            raise Refusal(409, f"The ask is {found.state}: it has no answer.", state=found.state.value)
        return found

    def list_released(self, caller: Caller) -> list[Ask]:
        """Return the newest released answers, without who asked and who released them: readers see these, and analysts."""
        if not _sees_released(caller) and not caller.is_steward:
            return []
        return [_leave_out_asker(each) for each in self.control.list_released() if caller.may_use(each.table)]

    def share(self, caller: Caller, ask: Ask) -> Ask:
        """Return another analyst's ask that was answered, if the caller could ask the same for nothing: then its address may
        be passed on. Who asked it, with which key and from which account, is left out; account and cost are the caller's.

        Raises:
            Refusal: 404, as if there were none, in every other case.
        """
        options = ask.options
        weights = None if options.weights is None else tuple(sorted(options.weights.items()))
        target = Target(epsilon=ask.epsilon, size=options.size, confidence=options.confidence, weights=weights)
        try:
            quoted = self.quote(caller, Question(ask.table, ask.query, target, options.simultaneous))
        except DiscreetError:
            raise not_found() from None
        is_same = (quoted.root, quoted.priced.hash) == (ask.root, ask.measurement)
        is_free = quoted.approval is None and quoted.refusal is None and quoted.recorded is not None
        if not is_same or not is_free or ask.state is not AskState.ANSWERED:
            raise not_found()
        return _leave_out_asker(ask, quoted.account, quoted.priced)

    async def wait(self, ask: Ask, seconds: float) -> Ask:
        """Return an ask when it has ended, or as it is after `seconds`. No thread is held meanwhile."""
        if ask.state.is_final or ask.state is AskState.APPROVAL:
            return ask
        return await self.bell.wait(ask, min(seconds, self.settings.max_wait), until_final=True)

    def withdraw(self, caller: Caller, ask: str) -> Ask:
        """Withdraw an ask of the caller's own that no worker has taken."""
        found = self.find_ask(caller, ask)
        if found.person != caller.person.id:
            raise not_found()
        return self.control.withdraw_ask(found.id, by=caller.person.id)

    def show_ask(self, ask: Ask) -> dict[str, Any]:
        """Return an ask as the API shows it, without its answer."""
        now = self.clock.now()
        left = None if ask.release_at is None else max(0.0, ask.release_at - now)
        return {
            "id": ask.id,
            "key": ask.key,
            "state": ask.state.value,
            "table": ask.table,
            "query": ask.query,
            "epsilon": ask.epsilon,
            "options": msgspec.to_builtins(ask.options),
            "measurement": ask.measurement,
            "cost": ask.cost,
            "account": ask.account,
            "person": ask.person,
            "accepted_at": ask.accepted_at,
            "arrives_at": None if ask.state.is_final else ask.release_at,
            "answered_at": ask.answered_at,
            "retry_after": None if ask.state.is_final else 1.0 if left is None else round(left + 0.05, 2),
            "reason": ask.reason,
            "problem": ask.problem,
        }

    def show_answer(self, ask: Ask, known: tuple[int, str] | None = None) -> dict[str, Any]:
        """Return an ask that was answered, with its answer and the head of the ledger; and whether the ledger continues
        `known`, the head that the client has seen."""
        with self.control.reading():
            shown = self.show_ask(ask) | {"answer": ask.answer, "head": self.show_head()}
            return shown if known is None else shown | {"continues": self.control.has_head(*known)}

    def show_head(self) -> dict[str, Any] | None:
        """Return the last head that a worker saw; clients remember it and notice a ledger that was set back."""
        head = self.control.last_head()
        return None if head is None else {"number": head.number, "hash": head.hash}


def _sees_released(caller: Caller) -> bool:
    """Whether a role includes what stewards released. Students see invented tables alone."""
    return caller.person.role in (Role.READER, Role.ANALYST)


def _leave_out_asker(ask: Ask, account: str = "", priced: Priced | None = None) -> Ask:
    """Return an ask that others are shown: not who asked, with which key and from which account, nor who released it. Its
    cost is that in the account of who sees it, or left out, because it states the balance of an account."""
    answer, cost = ask.answer, None
    if answer is not None:
        answer = {**answer, "charged": False, "cost": None} if priced is None else _show_recorded(ask, priced)
    if priced is not None:
        cost = cost_to_wire(priced.cost)
    return msgspec.structs.replace(
        ask, person="", key="", token=None, reason=None, account=account, released=None, cost=cost, answer=answer
    )


def check_key(key: str) -> str:
    """Return an idempotency key that a ledger can hold."""
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise BadParameter("id", repr(key[:20]), f"not 1 to {MAX_KEY} printable characters", "choose another id")
    return key


def _make_key_error(key: str) -> BadParameter:
    return BadParameter(
        "id",
        repr(key),
        "it belongs to another measurement: query, data, policy or noise differ",
        "take a new id for a new query",
    )


def _is_same(earlier: Ask, question: Question) -> bool:
    """Whether an ask was made with the same words."""
    same = (earlier.table, earlier.query, earlier.options) == (question.table, question.query, question.options)
    if question.target.epsilon is None:
        return same and question.target.error is not None
    try:
        return same and Fraction(question.target.epsilon) == Fraction(earlier.epsilon)
    except (ValueError, ZeroDivisionError):
        return False


def _shows_alike(recorded: Ask, question: Question) -> bool:
    """Whether a recorded answer is what the question shows: the same text, so the same ORDER BY, LIMIT and HAVING, and the
    same kind of intervals. Another text of the same measurement is free as well, and a worker answers it."""
    options = recorded.options
    asked = question.options
    return recorded.query == question.query and (options.confidence, options.simultaneous) == (
        asked.confidence, asked.simultaneous,
    )  # fmt: skip


def _repeat(ask: Ask, quoted: Quoted, now: float) -> Ask:
    """Return an ask that shows what was recorded before. Nothing is charged."""
    assert quoted.recorded is not None
    return msgspec.structs.replace(
        ask, state=AskState.ANSWERED, answer=_show_recorded(quoted.recorded, quoted.priced), answered_at=now,
        release_at=now, class_seconds=None, is_free=True,
    )  # fmt: skip


def _show_recorded(recorded: Ask, priced: Priced) -> dict[str, Any]:
    """Return a recorded answer with its cost in the account of who sees it, to which nothing was charged."""
    assert recorded.answer is not None
    answer = {**recorded.answer, "charged": False, "cost": cost_to_wire(priced.cost, priced.calibrated.measurement.event)}
    said = explain_recorded(answer["reference"]["entry"])
    answer["notes"] = [*(each for each in answer["notes"] if each != said), said]
    return answer


def _may_see(caller: Caller, entry: TableEntry) -> bool:
    return caller.person.role is not Role.STUDENT or entry.invented


def _is_above(account: str, mine: set[str]) -> bool:
    return any(each == account or each.startswith(f"{account}/") for each in mine)
