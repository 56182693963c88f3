"""What an audit may spend, in answers or in seconds, and what it has spent."""

import time
from dataclasses import dataclass, field
from math import inf

MOST_SAMPLES = 40_000_000
MARGIN = 0.05
"""By this share, and a second, may counting overrun the time."""


@dataclass
class Purse:
    """Answers, seconds, or both."""

    samples: int | None
    seconds: float | None
    start: float = field(default_factory=time.monotonic)
    used: int = 0
    waited: float = 0.0  # seconds in the black box
    heard: int = 0  # answers that came in them

    def pay(self, answers: int, seconds: float) -> None:
        """So many answers were given."""
        self.used += answers
        self.heard += answers
        self.waited += seconds

    def forget(self) -> None:
        """Do not reckon with the first answers, which may be slow."""
        self.waited, self.heard = 0.0, 0

    @property
    def cost(self) -> float:
        """Seconds an answer."""
        return self.waited / max(1, self.heard)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def left(self) -> int:
        """How many more answers there may be."""
        found = MOST_SAMPLES if self.samples is None else self.samples - self.used
        if self.seconds is not None:
            found = min(found, int((self.seconds - self.elapsed) / max(self.cost, 1e-9)))
        return max(0, min(found, MOST_SAMPLES))

    @property
    def until(self) -> float:
        """When the time is over."""
        return inf if self.seconds is None else self.start + self.seconds

    @property
    def deadline(self) -> float:
        """When nothing is waited for any longer."""
        return inf if self.seconds is None else self.until + 1 + MARGIN * self.seconds

    @property
    def part(self) -> float:
        """The part of it that is spent."""
        by_count = 0.0 if self.samples is None else self.used / self.samples
        return min(1.0, max(by_count, 0.0 if self.seconds is None else self.elapsed / self.seconds))
