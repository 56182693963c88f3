"""What can be asked: the interface that local sessions and sessions on a service share, and the one home of its parameters.

`Asking` reads the parameters of `quote`, `ask` and `find_epsilon`, and refuses what is impossible wherever the rows are; a
session says what it makes of them in `_quote`, `_ask` and `_find_epsilon`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet import query as queries
from discreet import session
from discreet._numbers import parse_rational
from discreet.errors import QueryRefused

if TYPE_CHECKING:
    from discreet import noise
    from discreet._numbers import Number
    from discreet.accounting.cost import Budget, Remaining
    from discreet.query.schema import Table
    from discreet.units import Neighbours


def _read_epsilon(epsilon: "str | Number | None") -> "Number | None":
    return parse_rational(epsilon, "epsilon") if isinstance(epsilon, str) else epsilon


class Asking(ABC):
    """A table that can be queried from a budget, wherever its rows are: a `Session` or a `RemoteSession`."""

    if TYPE_CHECKING:  # fields of the sessions; a property here would be their default value

        @property
        def table(self) -> Table:
            """What is declared about the table."""

        @property
        def neighbours(self) -> Neighbours:
            """The neighbouring relation."""

        @property
        def notes(self) -> tuple[str, ...]:
            """What every answer says of the source."""

        @property
        def delta(self) -> Fraction:
            """The δ at which the budget promises its ε."""

    @property
    @abstractmethod
    def budget(self) -> "Budget":
        """The budget: what is spent and what remains."""

    @property
    @abstractmethod
    def remaining(self) -> "Remaining":
        """What can still be spent."""

    @abstractmethod
    def outline(self, query: "queries.QueryLike") -> "queries.BoundedQuery":
        """Return a query with its sensitivities."""

    def quote(
        self,
        query: "queries.QueryLike",
        *,
        epsilon: "str | Number | None" = None,
        error: "str | Number | None" = None,
        confidence: float = 0.95,
        size: int | None = None,
        weights: "Mapping[str, Number] | None" = None,
        pilot: "Number | None" = None,
    ) -> "queries.Quote":
        """Return what a query would cost and how accurate its answer would be. Nothing is charged and no row is read."""
        if pilot is not None:
            raise QueryRefused("A quote reads no row, so it can run no pilot", "give size=, or ask with the pilot")
        return self._quote(query, queries.AccuracyTarget(_read_epsilon(epsilon), error, size, confidence, weights))

    def ask(
        self,
        query: "queries.QueryLike",
        *,
        epsilon: "str | Number | None" = None,
        error: "str | Number | None" = None,
        size: int | None = None,
        pilot: "Number | None" = None,
        weights: "Mapping[str, Number] | None" = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        id: str | None = None,
        fresh: bool = False,
        bits: "noise.Bits | None" = None,
        progress: Callable[[float], None] | None = None,
        purpose: str = "",
    ) -> "queries.Answer":
        """Charge the account for a query, then answer it. Give its ε, or the error that it may have; an ε may be a text, as
        pages and files write it: "0.05", "3/10".

        An error in percent is relative to `size`, or to a private count that costs `pilot` in ε and is charged first; the
        answer's event and cost are then those of both. `weights` divide the cost over the columns: one that weighs 2 gets
        twice as much of it as one that weighs 1. `progress` is called with the share that is done, from 0 to 1; on a
        service, with the share of the waiting time that is over, which depends on the clock and on no row.

        A query that was answered before returns the recorded answer, for free; `fresh` pays for new noise. `id` makes the
        call idempotent: a retry with the same `id` is not charged again. `purpose` is for a service: its steward reads it
        where the query needs approval.

        Raises:
            BudgetExceeded: if the account, or a parent of it, does not hold the cost; nothing was charged.
            QueryRefused, BadParameter: if it cannot be asked; nothing was charged.
            EngineFailed: if the query failed after it was charged.
            AskPending: if a steward of a service must approve it, or no answer came within its `patience`; ask again with
                the same `id`.
        """
        # whatever can be refused is refused before anything is charged
        target = queries.AccuracyTarget(_read_epsilon(epsilon), error, size, confidence, weights)
        options = session.RunOptions(bits, progress, id, fresh, purpose)
        return self._ask(query, target, pilot, options, queries.IntervalOptions(target.confidence, simultaneous))

    def find_epsilon(
        self,
        query: "queries.QueryLike",
        error: "str | Number",
        *,
        size: int | None = None,
        confidence: float = 0.95,
        weights: "Mapping[str, Number] | None" = None,
    ) -> Fraction:
        """Return the least ε, to three digits, at which every column's half-width is at most `error`; the policy's
        `least_epsilon` if that is larger.

        "5%" is relative: to `size` for counts, to `size` times the largest value for sums, to the declared range for
        averages. A number is absolute, in the column's own unit.
        """
        return self._find_epsilon(query, queries.AccuracyTarget(None, error, size, confidence, weights))

    @abstractmethod
    def _quote(self, query: "queries.QueryLike", target: "queries.AccuracyTarget") -> "queries.Quote": ...

    @abstractmethod
    def _ask(
        self,
        query: "queries.QueryLike",
        target: "queries.AccuracyTarget",
        pilot: "Number | None",
        options: "session.RunOptions",
        intervals: "queries.IntervalOptions",
    ) -> "queries.Answer": ...

    @abstractmethod
    def _find_epsilon(self, query: "queries.QueryLike", target: "queries.AccuracyTarget") -> Fraction: ...
