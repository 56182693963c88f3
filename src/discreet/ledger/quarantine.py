"""Sources that may not be queried because a query on them failed, until their owner lifts the quarantine.

**Why.** An engine that fails on particular rows reveals one bit about them. The analyst's filter decides which rows are
read, so repeated failures would find one person's row by bisection, at almost no cost.

**The rule.** A failure to *decode* what the source holds quarantines the source at once. A failure of *resources* (memory,
time, a connection) also happens where no row is at fault, so the third one quarantines. A failure is durable before
`record_failure` returns, and two processes that record at once count both.

**Where it is recorded.** In the ledger that the session charges, as entries of its chain, so that `discreet ledger check`
covers them (`chain.LedgerQuarantine`). Without a ledger, in the owner's state: a ledger without accounts, in one file
(`owner_state.FileQuarantine`). In memory for a source that ends with the process (`MemoryQuarantine`).
"""

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

from discreet.errors import BadParameter, SourceQuarantined

RESOURCE_LIMIT = 3
"""The resource failure that quarantines a source."""


class FailureKind(enum.Enum):
    """Why an engine failed."""

    DECODING = "decoding"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How often queries on a source failed since the owner last lifted its quarantine.

    >>> counts = FailureCounts().add_failure(FailureKind.RESOURCE).add_failure(FailureKind.RESOURCE)
    >>> counts.is_quarantined, counts.add_failure(FailureKind.RESOURCE).is_quarantined
    (False, True)
    >>> FailureCounts().add_failure(FailureKind.DECODING).is_quarantined
    True
    """

    decoding: int = 0
    resource: int = 0

    @property
    def is_quarantined(self) -> bool:
        """Whether the source may not be queried."""
        return self.decoding > 0 or self.resource >= RESOURCE_LIMIT

    def add_failure(self, kind: FailureKind) -> "FailureCounts":
        """Return the counts with one more failure."""
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
        """Return every source that may not be queried, sorted by name."""
        ...


class MemoryQuarantine:
    """A quarantine for sources that end with the process, such as a frame.

    >>> quarantine = MemoryQuarantine()
    >>> quarantine.record_failure("a frame", FailureKind.RESOURCE); quarantine.check("a frame")
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, FailureCounts] = {}

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        if self._counts.get(source, FailureCounts()).is_quarantined:
            raise SourceQuarantined(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`; durable as long as the source is."""
        with self._lock:
            self._counts[source] = self._counts.get(source, FailureCounts()).add_failure(kind)

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        with self._lock:
            if not self._counts.get(source, FailureCounts()).is_quarantined:
                raise not_quarantined_error(source, select_quarantined(self._counts))
            self._counts[source] = FailureCounts()

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        with self._lock:
            return select_quarantined(self._counts)


def select_quarantined(sources: Mapping[str, FailureCounts]) -> tuple[QuarantinedSource, ...]:
    """Return the quarantined ones of some sources, sorted by name."""
    return tuple(QuarantinedSource(name, counts) for name, counts in sorted(sources.items()) if counts.is_quarantined)


def not_quarantined_error(source: str, quarantined: tuple[QuarantinedSource, ...]) -> BadParameter:
    """A source whose quarantine cannot be lifted because it has none."""
    names = ", ".join(repr(each.source) for each in quarantined) or "none"
    return BadParameter("source", repr(source), "it is not quarantined", f"the quarantined sources are: {names}")
