"""When a source is quarantined: the rule, without a place to keep it.

An engine that fails on particular rows tells one bit about them. A filter chosen by the analyst decides which rows those
are, so repeated failures would find one person's row by bisection, at almost no cost. A failure to *decode* what the source
holds therefore quarantines the source at once. A failure of *resources* (memory, time, a connection) also happens where no
row is at fault, so the third one quarantines.
"""

import enum
from dataclasses import dataclass, replace
from typing import assert_never

RESOURCE_LIMIT = 3
"""The resource failure that quarantines a source."""


class FailureKind(enum.Enum):
    """Why an engine could not answer."""

    DECODING = "decoding"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How often queries on a source failed since the owner last lifted its quarantine.

    >>> counts = FailureCounts().after(FailureKind.RESOURCE).after(FailureKind.RESOURCE)
    >>> counts.quarantined, counts.after(FailureKind.RESOURCE).quarantined
    (False, True)
    >>> FailureCounts().after(FailureKind.DECODING).quarantined
    True
    """

    decoding: int = 0
    resource: int = 0

    @property
    def quarantined(self) -> bool:
        """Whether the source may not be queried."""
        return self.decoding > 0 or self.resource >= RESOURCE_LIMIT

    def after(self, kind: FailureKind) -> "FailureCounts":
        """Count one more failure."""
        match kind:
            case FailureKind.DECODING:
                return replace(self, decoding=self.decoding + 1)
            case FailureKind.RESOURCE:
                return replace(self, resource=self.resource + 1)
            case _:
                assert_never(kind)
