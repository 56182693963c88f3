"""One analyst, one table, one budget: pay, then look.

The budget and its one currency are fixed when the session is opened. Every question is priced before any row is read,
paid before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of
the data.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting import filters
from discreet.accounting.conversions import rho_within
from discreet.accounting.filters import Filter
from discreet.engines.duckdb import DuckDB
from discreet.errors import BadParameter
from discreet.exact import Number, open_unit, positive, rational
from discreet.loss import Composition
from discreet.noise import Bits
from discreet.query.bound import bound
from discreet.query.measure import Measurement, measure
from discreet.query.parse import parse
from discreet.query.release import Receipt, Release, release
from discreet.query.table import Key, Table
from discreet.units import Neighbours

RESERVED = Fraction(1, 2)
"""The part of δ that is kept for selecting keys; the rest converts the currency."""


class MemoryAccount:
    """A budget that lives as long as the process. One lock: two threads never spend the same cent."""

    def __init__(self, budget: Filter) -> None:
        self._lock, self._budget, self._entries = threading.Lock(), budget, 0

    @property
    def budget(self) -> Filter:
        """What was opened, and what is left of it."""
        return self._budget

    def pay(self, loss: Composition) -> Receipt:
        """Debit, or refuse and leave everything as it was."""
        with self._lock:
            self._budget = self._budget.after(loss)
            self._entries += 1
            return Receipt(self._entries, loss)


@dataclass(frozen=True, slots=True)
class Session:
    """What `connect` returns."""

    engine: DuckDB
    table: Table
    account: MemoryAccount
    delta: Fraction
    neighbours: Neighbours

    def measurement(self, question: str, *, epsilon: Number) -> Measurement:
        """The question with its noise and its price. No row is read."""
        bounded = bound(parse(question, self.table), self.table, self.neighbours)
        budget = self.account.budget
        amount = self._amount(positive(epsilon, "epsilon"))
        return measure(bounded, budget.currency, amount, budget.leak_limit * min(Fraction(1), amount / budget.limit))

    def ask(self, question: str, *, epsilon: Number, confidence: float = 0.95, bits: Bits | None = None) -> Release:
        """Pay for the question, then answer it."""
        planned = self.measurement(question, epsilon=epsilon)
        receipt = self.account.pay(planned.loss)
        return release(planned, self.engine.totals(planned.bounded), receipt, confidence=confidence, bits=bits)

    def _amount(self, epsilon: Fraction) -> Fraction:
        if isinstance(self.account.budget.currency, filters.Pure):
            return epsilon
        return rational(rho_within(epsilon, self.delta * (1 - RESERVED)))


def connect(
    source: Any,
    *,
    unit: str,
    epsilon: Number,
    delta: Number = 0,
    table: str | None = None,
    bounds: Mapping[str, tuple[Number, Number]] | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int = 1,
    max_rows: int = 1,
    unique: bool = False,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Session:
    """Open a source with a budget.

    Without a δ the budget is kept in pure ε; with one it is kept in zCDP, half of δ being reserved for selecting keys.
    """
    engine = DuckDB.open(source, table)
    columns = engine.columns()
    for name, (low, high) in (bounds or {}).items():
        columns[_known(name, columns)] = columns[name].within(low, high)
    for name, listed in (keys or {}).items():
        columns[_known(name, columns)] = columns[name].shown_as(tuple(listed))
    declared = Table(engine.table, _known(unit, columns), columns, max_groups, max_rows, unique)
    eps, fail = positive(epsilon, "epsilon"), rational(delta, "delta")
    if fail == 0:
        return Session(engine, declared, MemoryAccount(filters.pure(eps)), fail, neighbours)
    open_unit(fail, "delta")
    rho = rho_within(eps, fail * (1 - RESERVED))
    return Session(engine, declared, MemoryAccount(filters.zcdp(rho, fail * RESERVED)), fail, neighbours)


def _known(name: str, columns: Mapping[str, Any]) -> str:
    if name not in columns:
        raise BadParameter("column", repr(name), "the source has no such column", f"take one of {', '.join(columns)}")
    return name
