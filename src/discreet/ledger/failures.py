"""When a source is quarantined: the rule, without a place to keep it.

An engine that fails on particular rows tells one bit about them. A filter chosen by the analyst decides which rows those
are, so repeated failures would find one person's row by bisection, at almost no cost. A failure to *decode* what the source
holds therefore quarantines the source at once. A failure of *resources* (memory, time, a connection) also happens where no
row is at fault, so the third one quarantines.
"""

import enum
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

RESOURCE_LIMIT = 3
"""The resource failure that quarantines a source."""


class FailureKind(enum.Enum):
    """Why an engine could not answer."""

    DECODING = "decoding"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How often queries on a source failed since the owner last lifted its quarantine.

    >>> counts = FailureCounts().add_failure(FailureKind.RESOURCE).add_failure(FailureKind.RESOURCE)
    >>> counts.quarantined, counts.add_failure(FailureKind.RESOURCE).quarantined
    (False, True)
    >>> FailureCounts().add_failure(FailureKind.DECODING).quarantined
    True
    """

    decoding: int = 0
    resource: int = 0

    @property
    def quarantined(self) -> bool:
        """Whether the source may not be queried."""
        return self.decoding > 0 or self.resource >= RESOURCE_LIMIT

    def add_failure(self, kind: FailureKind) -> "FailureCounts":
        """Count one more failure."""
        match kind:
            case FailureKind.DECODING:
                return replace(self, decoding=self.decoding + 1)
            case FailureKind.RESOURCE:
                return replace(self, resource=self.resource + 1)
            case _:
                assert_never(kind)


@dataclass(frozen=True, slots=True)
class QuarantinedSource:
    """A source that may not be queried, and the failures that led to it. For its owner only."""

    source: str
    failures: FailureCounts


class Quarantine(Protocol):
    """Sources that may not be queried. A source is named by its identity, the text by which a ledger knows it."""

    def check(self, source: str) -> None:
        """Raise `SourceQuarantined` if the source may not be queried."""
        ...

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """Count a failed query; the count is durable when this returns."""
        ...

    def lift(self, source: str) -> None:
        """Allow queries again and count failures from 0. Raise `BadParameter` if the source is not quarantined."""
        ...

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """Every source that may not be queried, sorted by name."""
        ...
