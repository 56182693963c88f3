"""What can be asked: the interface that a local session and a session on a service share."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from discreet import noise
    from discreet import query as queries
    from discreet._numbers import Number
    from discreet.accounting.cost import Budget, Remaining
    from discreet.query.schema import Table
    from discreet.session.session import Session
    from discreet.units import Neighbours


@runtime_checkable
class Asking(Protocol):
    """A table that can be queried from a budget, wherever its rows are. `Session` and `RemoteSession` are such."""

    @property
    def table(self) -> "Table":
        """What is declared about the table."""

    @property
    def neighbours(self) -> "Neighbours":
        """The neighbouring relation."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What every answer says of the source."""

    @property
    def delta(self) -> Fraction:
        """The δ at which the budget promises its ε."""

    @property
    def budget(self) -> "Budget":
        """The budget: what is spent and what remains."""

    @property
    def remaining(self) -> "Remaining":
        """What can still be spent."""

    def quote(
        self,
        query: "queries.QueryLike",
        *,
        epsilon: "Number | None" = None,
        error: "str | Number | None" = None,
        confidence: float = 0.95,
        size: int | None = None,
        weights: "Mapping[str, Number] | None" = None,
        pilot: "Number | None" = None,
    ) -> "queries.Quote":
        """Return what a query would cost and how accurate its answer would be."""

    def ask(
        self,
        query: "queries.QueryLike",
        *,
        epsilon: "Number | None" = None,
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
    ) -> "queries.Answer":
        """Charge the account for a query, then answer it."""

    def find_epsilon(
        self,
        query: "queries.QueryLike",
        error: "str | Number",
        *,
        size: int | None = None,
        confidence: float = 0.95,
        weights: "Mapping[str, Number] | None" = None,
    ) -> Fraction:
        """Return the least ε at which every column's half-width is at most `error`."""

    def outline(self, query: "queries.QueryLike") -> "queries.BoundedQuery":
        """Return a query with its sensitivities."""


@runtime_checkable
class AskingRemotely(Asking, Protocol):
    """A table of a service. `RemoteSession` is such."""

    def certificate(self, answer: "queries.Answer") -> dict[str, Any]:
        """Return the certificate of an answer, signed by the service."""

    def dummy(self, rows: int = 1000, seed: int = 0) -> "Session":
        """Return a local session over invented rows, made from the policy alone."""
