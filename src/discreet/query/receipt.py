"""Receipts: what an account hands out for a debit, and what an answer asks for before noise is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.events import Composition, compose


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a measurement was paid for. Only an account makes one."""

    entry: int
    event: Composition
    remaining: Fraction | None = None  # in the account's currency, right after this entry
    paid_by: str | None = None  # the other account of the family whose debit this continues; None: the account's own

    def split(self, events: Sequence[Composition]) -> "tuple[Receipt, ...]":
        """Return one receipt for each measurement of a workload that was paid for as one."""
        if compose(*events) != self.event:
            raise AssertionError("this receipt is for another workload")
        return tuple(replace(self, event=event) for event in events)
