"""The client: from a value to the bytes of a report, on the device that has the value.

**Theory of operation.** `Client.report` does, in one transaction of the device's store:

1. if the occasion (a day, a version; a name that never leaves the device) has a report, return the same bytes again;
2. draw the nonce, then all fresh integers, and only then select with the value (see `mechanism`);
3. debit the device's account, or refuse;
4. store the report under its occasion, and only then return its bytes.

**Retries.** A report that is drawn anew for a retry would be a second report: an operator who lets messages fail could
average the noise away. So a report is drawn once, stored before it is sent, and repeated byte for byte, its nonce included.

**Account.** Costs are counted for life, without refill, for the collection and for all collections of the device together.
A report that does not fit is refused, and nothing is sent.
"""

from fractions import Fraction

from discreet.errors import BadParameter, BudgetExceeded
from discreet.local.collection import Collection
from discreet.local.draws import Draws, KeyedDraws, SystemDraws
from discreet.local.mechanism import State, draw_report
from discreet.local.store import BILLION, DeviceState, Entry, Sent, Store
from discreet.local.wire import NONCE_BYTES, Form, Wire


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
        """Read a collection that was delivered, refuse any but the pinned one, and return its client."""
        return cls(Collection.read(text, pinned), store, form)

    def report(self, value: str | int | None, occasion: str) -> bytes:
        """Return the message that reports a value on an occasion; the same again for the same occasion.

        Raises:
            BudgetExceeded: the collection or the device has no budget left. Nothing was charged; send nothing.
            BadParameter: the report of this occasion was confirmed.
        """
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
        with self.store.transaction() as state:
            entry = state.collections.get(self.id, Entry())
            if occasion not in entry.sent:
                raise BadParameter("occasion", repr(occasion), "it has no report", "call report first")
            entry.sent[occasion] = None

    @property
    def spent(self) -> Fraction:
        """ε that this device has spent on the collection, in the sense of `lifetime.condition`."""
        with self.store.transaction() as state:
            return Fraction(state.collections.get(self.id, Entry()).spent, BILLION)

    def _charge(self, state: DeviceState, entry: Entry, memo: State) -> None:
        """Debit a report, unless its state is paid for; refuse it if it does not fit."""
        life = self.collection.lifetime
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


def mark_state(secret: bytes, collection_id: str, state: State) -> str:
    """Return a mark by which a device recognises a state that it paid for, without keeping the state itself.

    >>> mark_state(bytes(32), "ab12", (1, 0)) == mark_state(bytes(32), "ab12", (1, 0)) != mark_state(bytes(32), "ab12", (1,))
    True
    """
    label = f"discreet.local mark {collection_id} state {','.join(map(str, state))}".encode("ascii")
    return KeyedDraws(secret, label).take(16).hex()
