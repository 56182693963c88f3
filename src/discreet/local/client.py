"""The client: from a value to the bytes of a report, on the device that has the value.

**Theory of operation.** `Client.report` does, in one transaction of the device's store:

1. if the occasion (a day, a version; a name that never leaves the device) has a report, return the same bytes again;
2. draw the nonce, then all fresh integers, and only then select with the value (see `mechanism`);
3. debit the device's account, or refuse;
4. store the report under its occasion, and only then return its bytes.

**Retries.** A report that is drawn anew for a retry would be a second report: an operator who lets messages fail could
average the noise away. So a report is drawn once, stored before it is sent, and repeated byte for byte, its nonce included.

**Account.** Costs are counted for life, without refill, for the collection and for all collections of the device together.
A report that does not fit is refused, and nothing is sent. With `per` "state" the account counts an ε that holds only
between histories with the same pattern of changes: `Client.spent` says so, with the ε between any two histories, and a limit
of the device does not count it unless its owner allows that (`store`).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from discreet._numbers import format_up
from discreet.accounting.pure import pure
from discreet.errors import BadParameter, BudgetExceeded
from discreet.local.collection import Collection
from discreet.local.domains import is_text
from discreet.local.draws import Draws, KeyedDraws, SystemDraws
from discreet.local.mechanism import State, draw_report, is_memoising
from discreet.local.store import BILLION, DeviceState, Entry, Sent, Store
from discreet.local.wire import NONCE_BYTES, Form, Wire


@dataclass(frozen=True, slots=True)
class Spent:
    """ε that a device has spent on a collection, the condition under which it holds, and the ε between any two histories.

    >>> print(Spent(Fraction(2), inf, "equal patterns of changes"))
    ε = 2, holding between equal patterns of changes; between any two histories no finite ε
    """

    epsilon: Fraction
    unconditional: Fraction | float
    condition: str

    def __str__(self) -> str:
        anything = "no finite ε" if self.unconditional == inf else f"ε = {format_up(self.unconditional, 3)}"
        stated = f"ε = {format_up(self.epsilon, 3)}, holding between {self.condition}"
        return stated if self.unconditional == self.epsilon else f"{stated}; between any two histories {anything}"


class Client:
    """One device's reports for one collection.

    >>> from fractions import Fraction
    >>> from discreet.local.collection import Lifetime
    >>> from discreet.local.domains import Listed
    >>> from discreet.local.oracles import Direct
    >>> from discreet.local.store import MemoryStore
    >>> mechanism = Direct(3, Fraction(3))
    >>> colours = Collection("colours", 1, mechanism, Listed(("red", "green")), Lifetime.of(mechanism, 2))
    >>> client = Client(colours, MemoryStore())
    >>> client.report("red", "monday") == client.report("red", "monday")
    True
    >>> client.report("red", "tuesday")
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: This costs ε = 1.1, and ε = 0.901 remains. This device has reported for life.
    """

    def __init__(self, collection: Collection, store: Store, form: Form = Form.JSON, *, draws: Draws | None = None) -> None:
        self.collection, self.store, self.wire = collection, store, Wire(collection, form)
        self.id, self._draws = collection.id, SystemDraws() if draws is None else draws

    @classmethod
    def open(cls, text: str | bytes, pinned: str, store: Store, form: Form = Form.JSON) -> "Client":
        """Read a collection that was delivered, refuse any but the pinned one, and return its client.

        Raises:
            BadParameter: it is another than the pinned one, or none is pinned.
        """
        if not isinstance(pinned, str) or not pinned:
            raise BadParameter("pinned", repr(pinned), "not the id of a collection", "ship the client with the id to expect")
        return cls(Collection.read(text, pinned), store, form)

    def report(self, value: str | int | None, occasion: str) -> bytes:
        """Return the message that reports a value on an occasion; the same again for the same occasion.

        Raises:
            BudgetExceeded: the collection or the device has no budget left. Nothing was charged; send nothing.
            BadParameter: the occasion is no text, its report was confirmed, or the device's limit cannot count the
                collection's ε.
        """
        check_occasion(occasion)
        with self.store.transaction() as state:
            entry = state.collections.setdefault(self.id, Entry())
            if occasion not in entry.sent:
                nonce = self._draws.take(NONCE_BYTES)
                memo, report = draw_report(
                    self.collection.mechanism, self.collection.domain.index(value), self._draws,
                    bytes.fromhex(state.secret), self.id,
                )  # fmt: skip
                self._charge(state, entry, memo)
                entry.sent[occasion] = Sent(nonce.hex(), report)
            sent = entry.sent[occasion]
        if sent is None:
            raise BadParameter("occasion", repr(occasion), "its report was confirmed", "name a new occasion")
        return self.wire.write(bytes.fromhex(sent.nonce), sent.report)

    def confirm(self, occasion: str) -> None:
        """Forget the report of an occasion, which the receiver has; the occasion stays used."""
        check_occasion(occasion)
        with self.store.transaction() as state:
            entry = state.collections.get(self.id, Entry())
            if occasion not in entry.sent:
                raise BadParameter("occasion", repr(occasion), "it has no report", "call report first")
            entry.sent[occasion] = None

    @property
    def spent(self) -> Spent:
        """ε that this device has spent on the collection, with its condition."""
        with self.store.transaction() as state:
            entry = state.collections.get(self.id, Entry())
        epsilon, life = Fraction(entry.spent, BILLION), self.collection.lifetime
        anything = self._bound_histories(entry.reports) if life.per == "state" else epsilon
        return Spent(epsilon, anything, life.condition)

    def _bound_histories(self, reports: int) -> Fraction | float:
        """Return ε of so many reports of a memo between any two histories."""
        mechanism = self.collection.mechanism
        if reports <= 1:
            return reports * pure(mechanism.event())
        fresh = mechanism.instantaneous_event() if is_memoising(mechanism) else mechanism.event()
        return inf if fresh is None else reports * pure(fresh)

    def _charge(self, state: DeviceState, entry: Entry, memo: State) -> None:
        """Debit a report, unless its state is paid for; refuse it if it does not fit."""
        life = self.collection.lifetime
        if life.per == "state" and state.limit is not None and not state.conditional:
            raise BadParameter(
                "collection", self.collection.name,
                f"its ε holds only between {life.condition}, and this device's limit holds between any two",
                "open a new store with conditional=True, so that the limit holds on that condition too",
            )  # fmt: skip
        mark = mark_state(bytes.fromhex(state.secret), self.id, memo)
        cost = 0 if life.per == "state" and mark in entry.states else life.cost
        remaining = 0 if life.per == "once" and entry.reports else life.limit - entry.spent
        if state.limit is not None:
            remaining = min(remaining, state.limit - state.spent)
        if cost > remaining:
            raise BudgetExceeded(
                "ε", cost=Fraction(cost, BILLION), remaining=Fraction(max(0, remaining), BILLION),
                hint="this device has reported for life",
            )  # fmt: skip
        entry.reports += 1
        entry.spent += cost
        if life.per == "state" and mark not in entry.states:
            entry.states.append(mark)


def check_occasion(occasion: str) -> None:
    """Refuse an occasion that is no text: 5 and "5", or bytes, would be two occasions before they are stored and one after.

    >>> check_occasion(5)
    Traceback (most recent call last):
    discreet.errors.BadParameter: occasion is of type int: not a text in Unicode. Name it, for example "2026-11-17".
    """
    if not isinstance(occasion, str) or not is_text(occasion):
        kind = "a text with half a character" if isinstance(occasion, str) else f"of type {type(occasion).__name__}"
        raise BadParameter("occasion", kind, "not a text in Unicode", 'name it, for example "2026-11-17"')


def mark_state(secret: bytes, collection_id: str, state: State) -> str:
    """Return a mark by which a device recognises a state that it paid for, without keeping the state itself.

    >>> mark_state(bytes(32), "ab12", (1, 0)) == mark_state(bytes(32), "ab12", (1, 0)) != mark_state(bytes(32), "ab12", (1,))
    True
    """
    label = f"discreet.local mark {collection_id} state {','.join(map(str, state))}".encode("ascii")
    return KeyedDraws(secret, label).take(16).hex()
