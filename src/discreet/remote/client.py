"""A session on a service: the interface of a local session, over HTTP.

**Theory of operation.** `open_remote` parses the address, finds the token, compares the service with what is remembered of
it (`remote.trust`), and reads what is declared about the table. A quote is one request. An ask

1. gets an *id*, the caller's or a random one, before anything is sent;
2. is sent with it; if the connection is lost or the service is full, it is sent again with the same id, so it is charged
   once;
3. waits: the service holds the request until the answer's moment or for half a minute, and the client sends it again;
4. checks the head of the ledger that comes with the answer, and returns the same `Answer` that a local session returns.

An ask that needs a steward's approval, or takes longer than `patience`, raises `AskPending` with its id. Whatever can be
refused without the service is refused before anything is sent. The client computes nothing about privacy that it relies on:
what an answer cost and promises is what the service states, and a certificate proves.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quote_path
from uuid import uuid4

from discreet._numbers import Number, read_decimal
from discreet.accounting.cost import Budget, Remaining
from discreet.accounting.currencies import Filter
from discreet.errors import AskPending, BadParameter, DiscreetError, QueryRefused
from discreet.formats import count_things, make_html_notes, missing_library_error
from discreet.query.answer import (
    Answer,
    IntervalOptions,
    explain_recorded,
    explain_recorded_on_service,
    require_answer,
)
from discreet.query.ast import format_view, to_sql
from discreet.query.calibrate import AccuracyTarget
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import read_query
from discreet.query.quote import Quote
from discreet.query.schema import Table
from discreet.remote import trust
from discreet.remote.certified import Received, check_certificate
from discreet.remote.plain import malformed, rational_from_plain, to_shown_text
from discreet.remote.problems import from_problem
from discreet.remote.wire import answer_from_wire, budget_from_wire, quote_from_wire, remaining_from_wire, table_from_wire
from discreet.session.asking import Asking
from discreet.session.executor import RunOptions
from discreet.text import to_printable
from discreet.units import Neighbours

if TYPE_CHECKING:
    import httpx

    from discreet.query import QueryLike
    from discreet.remote.connection import Connection
    from discreet.session.session import Session

PATIENCE = 600.0
"""Seconds after which an ask without an answer raises `AskPending`."""
PROGRESS_SECONDS = 1
DUMMY_BUDGETS = 1000
"""How many budgets of a service a session over invented rows has."""


PENDING_STATES = ("for approval", "waiting", "running")
MAX_PENDING = 10_000
MAX_PURPOSE = 5_000


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A query that a service took and has not answered yet. Asking it again, or with its `id`, fetches its answer."""

    id: str
    query: str
    epsilon: Fraction
    state: str  # for approval, waiting or running
    reason: str | None = None  # why it needs approval
    ask: str = field(default="", repr=False)  # how the service names it

    @classmethod
    def from_wire(cls, value: Any) -> "PendingAsk":
        """Read an ask as the service shows it."""
        stated = _as_dict(value, "an ask")
        key, query, state, ask = (_read_text(stated.get(name), "an ask") for name in ("key", "query", "state", "id"))
        reason = None if stated.get("reason") is None else _read_text(stated["reason"], "a reason")
        return cls(key, query, _read_epsilon(stated.get("epsilon")), state, reason, ask)


@dataclass(frozen=True, repr=False)
class RemoteSession(Asking):
    """What `connect("https://…")` returns. `print`, a shell and a notebook show the table and the budget."""

    connection: "Connection" = field(repr=False)
    name: str  # of the table on the service
    table: Table
    neighbours: Neighbours
    account: str
    identity: trust.Identity
    notes: tuple[str, ...] = ()
    label: str | None = None
    patience: float = PATIENCE
    account_notes: tuple[str, ...] = ()
    budget_warnings: tuple[str, ...] = ()
    seen: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the head, and the asks of entries

    def __copy__(self) -> "RemoteSession":
        """Return the session itself: it is frozen."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled: the token would be in the bytes."""
        reason, hint = "the copy would hold the token", "connect again in the other process, with DISCREET_TOKEN"
        raise BadParameter("session", "to be pickled or copied deeply", reason, hint)

    # The account

    @property
    def budget(self) -> Budget:
        """The budget of your account: the ε that remains at δ, the share that is spent, and both in its currency."""
        return self._read_lineage()[0]

    @property
    def shared_budget(self) -> Budget:
        """The budget of everybody together, which is what the people in the data are promised. What others spend of it is
        shown in whole percents."""
        return self._read_lineage()[-1]

    def state_budgets(self) -> tuple[str, ...]:
        """Say what remains for you, and what remains for everybody together."""
        lineage = self._read_lineage()
        return str(lineage[0]), f"Everybody together: {str(lineage[-1]).removeprefix('Budget: ')}"

    @property
    def remaining(self) -> Remaining:
        """What can still be spent: a query at this ε fits your account and that of everybody together."""
        return remaining_from_wire(self._read_account().get("remaining"))

    @property
    def delta(self) -> Fraction:
        """The δ at which the budget promises its ε."""
        return self.budget.delta

    def _read_lineage(self) -> list[Budget]:
        lineage = self._read_account().get("lineage")
        if not isinstance(lineage, list) or not lineage or not all(isinstance(each, dict) for each in lineage):
            raise malformed("not an account")
        return [budget_from_wire(each.get("budget")) for each in lineage]

    def _read_account(self) -> dict[str, Any]:
        return _as_dict(self.connection.get(f"/accounts/{quote_path(self.account)}"), "an account")

    # Queries

    def outline(self, query: "QueryLike") -> BoundedQuery:
        """Return a query with its sensitivities, computed here from what is declared about the table."""
        return bound_contributions(read_query(query, self.table), self.table, self.neighbours)

    def _quote(self, query: "QueryLike", target: AccuracyTarget) -> Quote:
        stated = self._post_quote(query, target)
        approval, refusal = (
            None if stated.get(name) is None else _read_text(stated[name], "a quote")
            for name in ("needs_approval", "refused")
        )
        seconds = None if stated.get("arrives_in") is None else _read_seconds(stated["arrives_in"])
        return replace(
            quote_from_wire(stated.get("quote")), approval_reason=approval, arrives_in=seconds,
            is_recorded=stated.get("recorded") is True, refusal=refusal,
        )  # fmt: skip

    def _find_epsilon(self, query: "QueryLike", target: AccuracyTarget) -> Fraction:
        return _read_epsilon(self._post_quote(query, target).get("epsilon"))

    def _post_quote(self, query: "QueryLike", target: AccuracyTarget) -> dict[str, Any]:
        return _as_dict(self.connection.post("/quotes", self._make_body(query, target))[1], "a quote")

    def _ask(
        self, query: "QueryLike", target: AccuracyTarget, pilot: Number | None, options: RunOptions,
        intervals: IntervalOptions,
    ) -> Answer:  # fmt: skip
        if options.bits is not None:
            reason = "a service draws its own noise: a person who chooses the bits knows the noise"
            hint = "leave it out; seeded bits work with invented rows, dummy()"
            raise BadParameter("bits", repr(options.bits), reason, hint)
        if pilot is not None:
            raise QueryRefused("A service runs no pilots", "give size=, or ask for the count yourself")
        body = self._make_body(query, target) | {"simultaneous": intervals.simultaneous, "fresh": options.fresh}
        if options.purpose:
            body["purpose"] = _check_purpose(options.purpose)
        return self._receive(body, uuid4().hex if options.id is None else options.id, options.progress)

    def _make_body(self, query: "QueryLike", target: AccuracyTarget) -> dict[str, Any]:
        """Return a query as it is sent."""
        if not isinstance(query, str):
            read = read_query(query, self.table)
            query = to_sql(read, self.table.unit) + format_view(read.view)
        epsilon, error, size, weights = target.epsilon, target.error, target.size, target.weights
        stated = {
            "epsilon": None if epsilon is None else str(read_decimal(epsilon, "epsilon")),
            "error": error if error is None or isinstance(error, str) else _to_decimal(read_decimal(error, "error")),
            "size": None if size is None else int(size),
            "weights": None if weights is None else {name: str(read_decimal(w, "weights")) for name, w in weights.items()},
        }
        given = {name: each for name, each in stated.items() if each is not None}
        return {"table": self.name, "query": query, "confidence": float(target.confidence), **given}

    def _receive(self, body: dict[str, Any], key: str, progress: Callable[[float], None] | None) -> Answer:
        """Send an ask until its answer is here."""
        from discreet.remote.connection import WAIT_SECONDS

        start = time.monotonic()
        wait = 0 if progress is not None else WAIT_SECONDS
        while True:
            known = self.seen.get("head")
            headers = {"Idempotency-Key": key} | ({"Prefer": f"wait={wait}"} if wait else {})
            headers |= {} if known is None else {"Ledger-Head": f"{known.number}:{known.hash}"}
            status, received = self.connection.post("/asks", body, headers)
            found = _as_dict(received, "an ask")
            if "answer" in found:
                break
            elapsed, left = time.monotonic() - start, _read_seconds(found.get("retry_after"))
            key = _read_key(found, key)
            self._check_state(found, key)
            if elapsed > self.patience:
                raise AskPending(key, str(found.get("state")))
            if progress is not None:
                progress(min(elapsed / (elapsed + left), 1.0) if elapsed + left > 0 else 0.0)
                wait = PROGRESS_SECONDS
            elif status == 202 and left > WAIT_SECONDS:
                self.connection.sleep(min(left - WAIT_SECONDS / 2, self.patience))
        answer = _restate_recorded(answer_from_wire(found["answer"]))
        self.check_head(found.get("head"), known if found.get("continues") is True else None)
        if answer.reference is not None and isinstance(found.get("id"), str):
            kept = Received.of(answer, found["id"], body)
            self.seen.setdefault("asks", {})[answer.reference.entry] = kept
        if progress is not None:
            progress(1.0)
        return answer

    def _check_state(self, found: dict[str, Any], key: str) -> None:
        """Raise what an ask ended with, or that it must be approved."""
        state, reason = found.get("state"), found.get("reason")
        said = to_shown_text(reason) if isinstance(reason, str) else ""
        if isinstance(found.get("problem"), dict):
            raise from_problem(found["problem"])
        if state in ("declined", "withdrawn", "refused", "failed"):
            raise QueryRefused(
                f"The ask was {state}{f': {said}' if said else ''}", "ask another query, or talk to a steward"
            )
        if state == "for approval":
            hint = f"a steward must approve it{f' ({said})' if said else ''}; then ask again with id={key!r}"
            raise AskPending(key, "for approval", hint)

    def list_pending(self) -> tuple["PendingAsk", ...]:
        """Return your queries of this table that have no answer yet, the newest first."""
        found = list[tuple[float, PendingAsk]]()
        for state in PENDING_STATES:
            cursor: str | None = None
            while True:
                query = {"table": self.name, "state": state, "limit": 100} | ({} if cursor is None else {"cursor": cursor})
                page = _as_dict(self.connection.get("/asks", query), "a list of asks")
                items = page.get("items")
                if not isinstance(items, list):
                    raise malformed("not a list of asks")
                found += [(_read_moment(each), PendingAsk.from_wire(each)) for each in items]
                cursor = page.get("cursor")
                if not isinstance(cursor, str) or not items or len(found) >= MAX_PENDING:
                    break
        return tuple(each for _, each in sorted(found, key=lambda pair: -pair[0]))

    def withdraw(self, id: "str | PendingAsk | AskPending") -> None:
        """Withdraw a query that no worker has taken: a request for approval, or one whose moment has not come. Nothing is
        charged. Give its id, what `list_pending` returned, or the `AskPending` that was raised."""
        name = id if isinstance(id, str) else getattr(id, "id", None)
        asked = next((each.ask for each in self.list_pending() if each.id == name), None)
        if asked is None:
            hint = "list_pending() lists the queries that wait; one that was answered cannot be withdrawn"
            raise BadParameter("id", repr(name), "no query of this table waits under it", hint)
        self.connection.delete(f"/asks/{quote_path(asked, safe='')}")

    def records(self, *columns: str, **more: Any) -> Any:
        """Refuse: rows do not leave a service, not even unread."""
        raise BadParameter(
            "session", "on a service", "models are fitted where the rows are",
            "connect to the source itself; a service answers queries",
        )  # fmt: skip

    def find_bounds(self, column: str, **more: Any) -> tuple[Fraction, Fraction]:
        """Refuse: bounds of a served table are declared in its policy."""
        raise QueryRefused(f"A service discovers no bounds of `{column}`", "ask its steward to declare them in the policy")

    # The ledger

    def check_head(self, stated: Any, continued: trust.Head | None = None) -> None:
        """Compare a head of the ledger with the highest one that was seen, and remember it.

        A ledger that was set back may have grown beyond the highest head since, so a higher number alone shows nothing: the
        service must say that its ledger continues the head that was seen. It says so with each answer, of the head that was
        sent with the ask (`continued`); otherwise it is asked.

        Raises:
            ServiceChanged: if the ledger was set back.
        """
        head, known = trust.Head.from_plain(stated), self.seen.get("head")
        if known is not None and head != known:
            is_same_entry = head is None or head.number == known.number
            if is_same_entry or not (known == continued or self._continues(known)):
                raise trust.set_back_error(self.identity.address, known)
        if head is not None and (known is None or head.number > known.number):
            self.seen["head"] = head
            trust.remember_head(self.identity, head)

    def _continues(self, head: trust.Head) -> bool:
        found = self.connection.get("/ledger/continues", {"number": head.number, "hash": head.hash})
        return _as_dict(found, "whether a ledger continues").get("continues") is True

    def certificate(self, answer: Answer) -> dict[str, Any]:
        """Return the certificate of an answer (release.json), signed by the service; `discreet verify` checks it.

        It is compared with the answer as it was received, and its signature with the key that is pinned.

        Raises:
            ServiceChanged: what the service showed is not what the ledger's key signed.
        """
        reference = require_answer(answer).reference
        entry = None if reference is None else reference.entry
        received: Received | None = self.seen.get("asks", {}).get(entry)
        if received is None:
            reason = "this session did not receive it from the service"
            raise BadParameter(
                "answer", "unknown", reason, "ask the same query again, which is free, and certify that answer"
            )
        address = f"/asks/{quote_path(received.ask, safe='')}/certificate"
        certificate = _as_dict(self.connection.get(address), "a certificate")
        check_certificate(certificate, received, self.table, self.identity.public_key, self.identity.address)
        return certificate

    def certify(self, answer: Answer, key: None = None) -> dict[str, Any]:
        """Return the certificate of an answer. The service signs it with its own key."""
        if key is not None:
            raise BadParameter("key", "given", "the service signs with its own key", "leave it out")
        return self.certificate(answer)

    # Invented rows

    def dummy(self, rows: int = 1000, seed: int = 0) -> "Session":
        """Return a local session over invented rows, made from the policy alone, with an ample budget of its own.

        Nothing is charged to your account, and no answer is about anybody. A query has the noise that it would have on the
        service: the budget is that of everybody together, many times over, so that a query has the same share of δ.
        """
        from discreet.remote.dummy import invent_session

        lineage = self._read_lineage()
        own, shared = lineage[0], lineage[-1]
        share = Fraction(1) if own.currency.counts_epsilon else own.currency.reserved_delta_share
        reserved = shared.delta * share
        times = DUMMY_BUDGETS if reserved == 0 else min(Fraction(DUMMY_BUDGETS), 1 / (2 * reserved))
        ample = Filter(own.currency, shared.limit * times, reserved * times)
        return invent_session(self.table, rows, seed, budget=ample, delta=own.delta, neighbours=self.neighbours)

    # What people see

    def _list_lines(self) -> list[str]:
        table, unit = self.table, self.table.unit
        groups, rows = count_things(table.max_groups, "group"), count_things(table.max_rows, "row")
        limits = f"one row per {unit}" if table.unique else f"at most {groups} per {unit}, {rows} per {unit} and group"
        limits = limits if table.unit_columns else "which is an assumption of the owner: each row is one person"
        try:
            state = list(self.state_budgets())
        except DiscreetError as error:
            state = [f"Budget: unknown. {error}"]
        where = f"Session on {self.name} at {self.identity.address}"
        return [f"{where}: privacy unit {unit} ({self.neighbours.definition}), {limits}.", *state, *self.notes]

    def __repr__(self) -> str:
        return "\n".join(map(to_printable, self._list_lines()))

    def _repr_html_(self) -> str:
        return make_html_notes(self._list_lines())


def open_remote(source: str, token: str | None = None, http: "httpx.Client | None" = None) -> RemoteSession:
    """Open a table of a service.

    Raises:
        NotSignedIn: if there is no token, or the service does not know it.
        NotFound: if there is no such table, or no grant for it.
        ServiceUnavailable: if the service cannot be reached.
        ServiceChanged: if it is not the service of before.
    """
    connection, name = open_connection(source, token, http)
    identity, known, head = read_identity(connection)
    stated = _as_dict(connection.get(f"/tables/{quote_path(name, safe='')}"), "a table")
    session = RemoteSession(
        connection, name, table_from_wire(stated.get("table")), _read_neighbours(stated.get("neighbours")),
        _read_text(stated.get("account"), "the account of a table"), identity,
        tuple(_read_text(each, "a note") for each in stated.get("notes") or ()),
        None if stated.get("label") is None else _read_text(stated["label"], "a label"),
    )  # fmt: skip
    if known is not None:
        session.seen["head"] = known
        if not session._continues(known):  # also if the ledger has grown since it was set back
            raise trust.set_back_error(identity.address, known)
    session.check_head(head, known)
    return session


def open_connection(source: str, token: str | None, http: "httpx.Client | None" = None) -> "tuple[Connection, str]":
    """Return a connection to the service of a table, and the table's name. Nothing is sent yet."""
    try:
        from discreet.remote.connection import Address, Connection, check_token, choose_token
    except ModuleNotFoundError as error:
        raise missing_library_error(str(error.name), "discreet[remote]") from None
    if token is not None:
        check_token(token)
    address = Address.parse(source)
    secret = choose_token(address.service, token)
    return Connection.open(address.service, address.is_loopback, secret, http), address.table


def open_service(service: str, token: str, http: "httpx.Client | None" = None) -> "Connection":
    """Return a connection to a service, whatever its tables."""
    connection, _ = open_connection(f"{service.rstrip('/')}/-", token, http)
    return connection


def parse_service_address(service: str) -> str:
    """Return the address of a service in the form that it is remembered by."""
    from discreet.remote.connection import parse_service

    return parse_service(service)[0]


def read_identity(connection: "Connection") -> tuple[trust.Identity, trust.Head | None, Any]:
    """Return what a service says it is, compared with what is remembered; the highest head seen of it; and its head now."""
    stated = _as_dict(connection.get(""), "a service")
    key, ledger = (
        None if stated.get(name) is None else _read_text(stated[name], "a key") for name in ("public_key", "ledger")
    )
    identity = trust.Identity(connection.service, connection.is_loopback, key, ledger)
    return identity, trust.pin(identity), stated.get("head")


def _as_dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed(f"not {what}")
    return value


def _read_text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise malformed(f"not {what}")
    return to_shown_text(value)


def _read_neighbours(value: Any) -> Neighbours:
    for each in Neighbours:
        if value in (each.value, each.definition):
            return each
    try:
        return Neighbours.parse(value)
    except (BadParameter, TypeError, AttributeError):
        raise malformed("not a neighbouring relation") from None


def _read_epsilon(text: Any) -> Fraction:
    return rational_from_plain(text if isinstance(text, str) and "/" in text else f"{text}/1")


def _read_moment(value: Any) -> float:
    moment = _as_dict(value, "an ask").get("accepted_at")
    return float(moment) if isinstance(moment, int | float) else 0.0


def _read_key(found: dict[str, Any], sent: str) -> str:
    """Return the id that an ask is known by: an earlier one, if the same query waits already."""
    return sent if found.get("key") is None else _read_text(found["key"], "an id")


def _restate_recorded(answer: Answer) -> Answer:
    """Return an answer whose notes advise what can be done on a service: only its owner labels the data."""
    if answer.reference is None:
        return answer
    entry = answer.reference.entry
    old, new = explain_recorded(entry), explain_recorded_on_service(entry)
    explanation = answer.explanation.replace(old, new)
    return replace(answer, explanation=explanation, notes=tuple(new if each == old else each for each in answer.notes))


def _check_purpose(purpose: str) -> str:
    if len(purpose) > MAX_PURPOSE:
        raise BadParameter("purpose", f"{len(purpose):,} characters", f"more than {MAX_PURPOSE:,}", "say it in fewer words")
    return purpose


def _read_seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e7 else 1.0


def _to_decimal(exact: Fraction) -> str:
    """Return a rational as a decimal if it is one."""
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
    return f"{decimal:f}" if Fraction(decimal) == exact else str(exact)
