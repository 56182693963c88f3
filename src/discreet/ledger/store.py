"""What a session asks of whatever keeps its budget: reserve, look, record.

    paid = purse.reserve(loss, measurement=..., id=...)
    if isinstance(paid, Recorded):       # this question has its answer already: nothing was paid
        return paid.answer
    ...                                  # read the data, add the noise
    return purse.record(paid, answer)    # what it returns may be shown, and nothing else

A debit is durable before `reserve` returns and an answer is durable before `record` does. Between the two a crash leaves a
debit without an answer; asking again continues that debit. However many continue it, the first to record wins and all
of them show its answer, so one debit pays for one answer.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from discreet._numbers import Number
from discreet.accounting.currencies import Filter
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.ledger.failures import Quarantine
from discreet.ledger.sql_store import Transaction
from discreet.query.answer import Receipt


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer that was paid for earlier."""

    entry: int  # of its debit
    id: str
    answer: bytes


class Account(Protocol):
    """An account in whatever place it is kept."""

    @property
    def budget(self) -> Filter:
        """What was opened, and what is left of it."""
        ...

    @property
    def quarantine(self) -> Quarantine | None:
        """Where failures of sources are kept, if the account's place keeps them."""
        ...

    def check(self, event: Composition) -> None:
        """Refuse what cannot be paid for as a whole, before its first part is."""
        ...

    def is_paid(self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False) -> bool:
        """Whether `reserve` would debit nothing. Raise `BadParameter` if the id belongs to another measurement."""
        ...

    def has_debit(self, id: str) -> bool:
        """Whether a debit has this id."""
        ...

    def pay(self, event: Composition) -> Receipt:
        """Debit, or refuse and leave everything as it was."""
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
    ) -> Receipt | CachedAnswer:
        """Debit once for this measurement (the hash of all of it), or return what is recorded.

        The same id, or without `fresh` the same measurement, is not paid twice. An id belongs to one measurement. `at` is
        the δ of the certified point at which a pure account pays for a plan. `privacy_unit` says about whom it is:
        an account speaks of one unit and one change, for life.
        """
        ...

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """Keep the answer for good and return what may be shown: this answer, or the one that was recorded first."""
        ...


class Store(Protocol):
    """A place that only remembers."""

    location: str

    def write_transaction(self) -> AbstractContextManager[Transaction]:
        """A transaction that nobody else writes beside; durable when it is left, undone if it is left by an error."""
        ...

    def read_transaction(self) -> AbstractContextManager[Transaction]:
        """One consistent view."""
        ...

    def check_integrity(self) -> str | None:
        """What the place itself finds wrong with what it holds, besides the chain; None where it finds nothing."""
        ...

    def close(self) -> None:
        """Let go of the place."""
        ...


def steps_unpaid_error(id: str) -> BadParameter:
    """An id whose measurement was paid, though a step that it would rest on was not."""
    return BadParameter(
        "id",
        repr(id),
        "it belongs to another measurement, or to this one after bounds that another query found",
        "take a new id for a new query; to retry this one, first ask the queries again that came before it",
    )


def id_taken_error(id: str) -> BadParameter:
    """An id that belongs to something else."""
    return BadParameter(
        "id",
        repr(id),
        "it belongs to another measurement (question, data, policy, noise)",
        "take a new id for a new question",
    )
