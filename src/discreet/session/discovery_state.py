"""What a session has discovered so far. A session has it from its start, before any query brings in `discovery`."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet._numbers import format_rational
from discreet.events import Composition

if TYPE_CHECKING:
    from discreet.query.record import LedgerReference


@dataclass(frozen=True, slots=True)
class DiscoveredBounds:
    """The bounds of a column, and what was paid for them."""

    column: str
    bounds: tuple[Fraction, Fraction]
    event: Composition
    amount: Fraction  # in the account's currency
    reference: "LedgerReference"
    charged: bool  # whether it was paid now; False: it was recorded before

    def __str__(self) -> str:
        low, high = map(format_rational, self.bounds)
        return f"The bounds of {self.column} were discovered privately, as part of the cost: {low} to {high}."


@dataclass(slots=True)
class DiscoveryState:
    """What a session has discovered: the one part of it that changes."""

    bounds: dict[str, DiscoveredBounds] = field(default_factory=dict)
    columns_by_query: dict[tuple[str, Fraction, str | None], tuple[str, ...]] = field(default_factory=dict)
    """The columns whose bounds a query had to discover when it was first asked."""
