"""What a query would cost and how accurate it would be, from a registered table and mirrored accounts alone.

The web process has no engine and no ledger. It needs neither: a quote depends on the policy, on the budget and on the query.
`Quoter.price` parses, bounds contributions and calibrates as a session does, and arrives at the same measurement. The hash
of that measurement is what a steward approves and what a worker computes again before it charges anything; so a web process
that was taken over, or a policy that was widened after the approval, changes nothing unseen.

The policy in the control database has no salt. The salt decides which rows of a unit count and nothing that is computed
here, but it is part of the hash of the policy; that hash is the registered one.

Work is bounded: a text has at most 20,000 characters, the parser and the validator refuse what would take long, and a
quote takes one of a few places, so that texts made to be slow delay each other and no other request. One person has one of
these places at a time, and the place that becomes free is for who waited since the longest ago was served: texts made to be
slow delay those of the same person.

What was calibrated is kept by everything that it depends on, and by the account. So a quote is quicker if it was asked for
before from the same account, which tells a person nothing about others; and a policy, an account or a table that changed is
another key. Grants and rules are no part of it: they are read and decided for each request. Nothing here depends on a row,
so neither does the time it takes.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from discreet._numbers import parse_rational
from discreet.accounting.cost import Cost, Remaining
from discreet.errors import BudgetExceeded, MissingDeclarations, QueryRefused, ServiceUnavailable
from discreet.ledger.account import AccountState, state_in_epsilon
from discreet.ledger.entries import hash_measurement, privacy_unit_of
from discreet.query.ast import Query
from discreet.query.calibrate import AccuracyTarget, Calibrator, Measurement
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.missing import find_missing
from discreet.query.parser import MAX_CHARACTERS, read_query
from discreet.query.policy import read_policy
from discreet.query.postprocess import explain_view
from discreet.query.quote import Quote, quote
from discreet.query.record import measurement_spec
from discreet.query.schema import Table
from discreet.remote.wire import table_from_wire
from discreet.serve.control.model import Snapshot, TableEntry
from discreet.units import Neighbours

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
MAX_CACHED = 2_000
WAIT_SECONDS = 5.0


def build_account(lineage: Sequence[Snapshot]) -> AccountState:
    """Return the account whose snapshot stands first, under its parents, which follow."""
    state: AccountState | None = None
    for snapshot in reversed(lineage):
        state = snapshot.to_account(state)
    if state is None:
        raise ServiceUnavailable("The account is not open yet", "try again in a moment")
    return state


@dataclass(frozen=True, slots=True)
class Target:
    """What an analyst says of a query's cost, as values that can be compared."""

    epsilon: str | None = None
    error: str | None = None
    size: int | None = None
    confidence: float = 0.95
    weights: tuple[tuple[str, str], ...] | None = None

    def to_accuracy(self) -> AccuracyTarget:
        """Return the target that a calibrator takes."""
        epsilon = None if self.epsilon is None else parse_rational(self.epsilon, "epsilon")
        weights = None if self.weights is None else {name: parse_rational(each, "weights") for name, each in self.weights}
        return AccuracyTarget(epsilon, self.error, self.size, self.confidence, weights)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A query with its noise: all that depends on neither what is spent nor who asks."""

    measurement: Measurement
    epsilon: Fraction
    notes: tuple[str, ...]  # on the choice of ε
    spec: Mapping[str, Any]
    hash: str

    @property
    def bounded(self) -> BoundedQuery:
        """The query with its sensitivities."""
        return self.measurement.bounded

    @property
    def discovers_keys(self) -> bool:
        """Whether group keys are not declared, so that δ is paid to select them."""
        return self.measurement.selection is not None


@dataclass(frozen=True)
class Priced:
    """A calibrated query against an account."""

    calibrated: Calibrated
    account: AccountState
    query: str
    target: Target
    notes: tuple[str, ...]  # on the table

    @cached_property
    def cost(self) -> Cost:
        """What the query costs in the account."""
        return make_calibrator(self.account).cost_of(self.calibrated.measurement.event)

    @cached_property
    def quote(self) -> Quote:
        """The cost, and how accurate the answer would be. Computed on access: an ask needs the cost alone."""
        calibrated, target = self.calibrated, self.target
        said = self.cost.explain_epsilon(calibrated.epsilon)
        notes = (*(() if said is None else (said,)), *self.notes, *calibrated.notes)
        return quote(
            calibrated.measurement, self.cost, query_text=self.query, confidence=target.confidence, size=target.size,
            notes=(*notes, *explain_view(calibrated.bounded.query)),
        )  # fmt: skip

    @property
    def hash(self) -> str:
        """The hash of the measurement."""
        return self.calibrated.hash

    @property
    def epsilon(self) -> Fraction:
        """The exact ε that the query is asked at."""
        return self.calibrated.epsilon

    @property
    def amount(self) -> Fraction:
        """What the account is charged, in its currency."""
        return self.account.compute_charge(self.calibrated.measurement.event)[0]

    @property
    def remaining(self) -> Remaining:
        """What the asker can still spend, parents included."""
        return Remaining.of([(each.budget, each.delta) for each in self.account.lineage])

    @property
    def share(self) -> float | None:
        """The cost as a share of what remains; None if nothing does."""
        left = self.remaining.amount
        return float(self.amount / left) if left > 0 else None

    def check_budget(self) -> None:
        """Refuse a cost that does not fit in the account and every parent of it. No data decides it."""
        unit = privacy_unit_of(self.calibrated.spec)
        try:
            self.account.charge_cost(*self.account.compute_charge(self.calibrated.measurement.event), unit)
        except BudgetExceeded as refused:
            stated = self.account.suggest_epsilon(refused)
            fitting = stated.fitting_epsilon or Fraction(0)
            allowed = fitting if fitting >= self.calibrated.bounded.table.least_epsilon else Fraction(0)
            raise state_in_epsilon(
                stated, self.account.budget.currency, self.account.delta, allowed, remaining=fitting
            ) from None


def make_calibrator(account: AccountState) -> Calibrator:
    """Return calibration against an account."""
    return Calibrator(account.budget, account.delta, account.family_budget)


def _declared(entry: TableEntry) -> tuple[str, bytes]:
    """Return what decides which table an entry declares."""
    return entry.policy, msgspec.json.encode(entry.public) if entry.public else b""


class _Cache(Generic[_Key, _Value]):
    """The values that were used last. Safe in threads; a value that two threads miss is computed twice."""

    def __init__(self, size: int = MAX_CACHED) -> None:
        self._size, self._lock = size, threading.Lock()
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        """Return what is kept under a key."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: _Key, value: _Value) -> _Value:
        """Keep a value, and return it."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value


_PARSED: _Cache[tuple[Any, ...], Query] = _Cache(500)


def parse_once(query: str, entry: TableEntry, table: Table, account: str) -> Query:
    """Return what a text asks of the table that an entry declares; the web and the worker of one process parse it once.

    The salt of the table decides nothing here. `entry` and `table` are the caller's own: a worker never takes what the
    control database says of a table.
    """
    key = query, account, *_declared(entry)
    found = _PARSED.get(key)
    return _PARSED.put(key, read_query(query, table)) if found is None else found


class FairPlaces:
    """A few places, of which one person has one at a time. Of those who wait, the one who was served longest ago is next, so
    a person who waits with many requests delays another by one of them at most."""

    def __init__(self, places: int, wait: float = WAIT_SECONDS) -> None:
        self._free, self._wait = places, wait
        self._changed, self._number = threading.Condition(), 0
        self._waiting: dict[int, str] = {}  # by ticket
        self._has_place: set[str] = set()
        self._served: dict[str, int] = {}  # of people who wait or have a place

    @contextmanager
    def take(self, person: str) -> Iterator[None]:
        """Wait for a place, and have it in this block.

        Raises:
            ServiceUnavailable: if none is free for too long.
        """
        with self._changed:
            self._number += 1
            ticket = self._number
            self._waiting[ticket] = person
            is_next = self._changed.wait_for(lambda: self._find_next() == ticket, self._wait)
            del self._waiting[ticket]
            if not is_next:
                self._changed.notify_all()
                raise ServiceUnavailable("Too many queries are being quoted", "try again in a few seconds")
            self._free -= 1
            self._has_place.add(person)
            self._number += 1
            self._served[person] = self._number
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._has_place.remove(person)
                kept = {*self._waiting.values(), *self._has_place}
                self._served = {each: number for each, number in self._served.items() if each in kept}
                self._changed.notify_all()

    def _find_next(self) -> int | None:
        """Return the ticket whose turn it is; the caller holds the lock."""
        waiting = [
            (self._served.get(person, 0), each) for each, person in self._waiting.items() if person not in self._has_place
        ]
        return min(waiting)[1] if waiting and self._free > 0 else None


class Quoter:
    """Quotes of one process. `threads` is how many are computed at once."""

    def __init__(self, threads: int = 2, wait: float = WAIT_SECONDS) -> None:
        self._places = FairPlaces(threads, wait)
        self._tables: _Cache[tuple[str, bytes], Table] = _Cache(200)
        self._calibrated: _Cache[tuple[Any, ...], Calibrated] = _Cache()

    def read_table(self, entry: TableEntry) -> Table:
        """Return the table that an entry declares. Its salt is not the owner's, which no web process knows."""
        key = _declared(entry)
        found = self._tables.get(key)
        if found is None:
            read = table_from_wire({"policy": entry.policy, "public": list(entry.public)}) if entry.public else None
            found = self._tables.put(key, read or read_policy(entry.policy))
        return found

    def price(self, entry: TableEntry, lineage: Sequence[Snapshot], query: str, target: Target, person: str = "") -> Priced:
        """Return a query with its noise, its quote and the hash of its measurement; `person` is who waits for it.

        Raises:
            QueryRefused, BadParameter: if the query cannot be answered, or not at this ε or error.
            ServiceUnavailable: if other quotes take all places for too long.
        """
        if len(query) > MAX_CHARACTERS:
            raise QueryRefused(f"The query is longer than {MAX_CHARACTERS:,} characters", "ask several shorter ones")
        account = build_account(lineage)
        key = (
            entry.policy_hash, _declared(entry), entry.identity, entry.label, entry.neighbours, query, target,
            *((each.account, each.currency, each.limit, each.delta_limit, each.delta, each.own_split) for each in lineage),
        )  # fmt: skip
        calibrated = self._calibrated.get(key)
        if calibrated is None:
            with self._places.take(person):
                try:
                    calibrated = self._calibrate(entry, account, query, target)
                except QueryRefused as refused:
                    raise self._list_missing(entry, account, query, refused) from None
            self._calibrated.put(key, calibrated)
        return Priced(calibrated, account, query, target, entry.notes)

    def _calibrate(self, entry: TableEntry, account: AccountState, query: str, target: Target) -> Calibrated:
        table, relation, calibrator = self.read_table(entry), Neighbours.parse(entry.neighbours), make_calibrator(account)
        bounded = bound_contributions(parse_once(query, entry, table, account.name), table, relation)
        choice = calibrator.choose_epsilon(bounded, target.to_accuracy())
        measurement = calibrator.calibrate(bounded, choice.epsilon, choice.weights)
        spec = measurement_spec(measurement, entry.identity, entry.label) | {"policy": entry.policy_hash}
        return Calibrated(measurement, choice.epsilon, choice.notes, spec, hash_measurement(spec))

    def _list_missing(self, entry: TableEntry, account: AccountState, query: str, refused: QueryRefused) -> QueryRefused:
        """Return what the policy does not declare and the query needs, all at once, as a session does; the refusal itself
        if the query lacks nothing. The policy is the owner's, so there is no command to fill in."""
        discovers_keys = account.delta > 0 and account.budget.currency.spends_delta
        try:
            missing = find_missing(query, self.read_table(entry), discovers_keys=discovers_keys)
        except QueryRefused:
            return refused
        if not missing.count:
            return refused
        problem = f"The policy of {entry.name} declares no {missing.name_columns(' and no ')}"
        hint = f"ask a steward to declare {missing.name_columns(' and ')}"
        return MissingDeclarations(problem, tuple(missing.parameters()), "", details=None, hint=hint)
