"""What an audit may spend, in answers or in seconds, and what it has spent."""

import time
from dataclasses import dataclass, field
from math import inf

MAX_SAMPLES = 40_000_000
OVERRUN_SHARE = 0.05
"""By this share, and a second, may counting overrun the time."""


@dataclass
class SamplingBudget:
    """Answers, seconds, or both."""

    samples: int | None
    seconds: float | None
    start: float = field(default_factory=time.monotonic)
    spent: int = 0
    sampler_seconds: float = 0.0  # seconds in the black box
    timed_outputs: int = 0  # answers that came in them

    def record_outputs(self, answers: int, seconds: float) -> None:
        """So many answers were given."""
        self.spent += answers
        self.timed_outputs += answers
        self.sampler_seconds += seconds

    def reset_rate(self) -> None:
        """Do not reckon with the first answers, which may be slow."""
        self.sampler_seconds, self.timed_outputs = 0.0, 0

    @property
    def seconds_per_output(self) -> float:
        """Seconds an answer."""
        return self.sampler_seconds / max(1, self.timed_outputs)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def remaining(self) -> int:
        """How many more answers there may be."""
        found = MAX_SAMPLES if self.samples is None else self.samples - self.spent
        if self.seconds is not None:
            found = min(found, int((self.seconds - self.elapsed) / max(self.seconds_per_output, 1e-9)))
        return max(0, min(found, MAX_SAMPLES))

    @property
    def end_time(self) -> float:
        """When the time is over."""
        return inf if self.seconds is None else self.start + self.seconds

    @property
    def deadline(self) -> float:
        """When nothing is waited for any longer."""
        return inf if self.seconds is None else self.end_time + 1 + OVERRUN_SHARE * self.seconds

    @property
    def spent_share(self) -> float:
        """The part of it that is spent."""
        by_count = 0.0 if self.samples is None else self.spent / self.samples
        return min(1.0, max(by_count, 0.0 if self.seconds is None else self.elapsed / self.seconds))
