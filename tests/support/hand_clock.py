"""A clock that a test moves. No time passes while a machine is busy, so what a worker does at a moment, and what it shows
before, does not depend on how quick the machine is; and a class of minutes takes no time to wait for."""

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from discreet.serve.schedule import JumpFreeClock

PATIENCE = 120.0
"""Seconds after which something that has not happened is taken for something that never will."""
LOOK_SECONDS = 0.002


def wait_until(is_so: Callable[[], object], said: str = "it never happens") -> None:
    """Wait until something is so, however busy the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, said
        time.sleep(LOOK_SECONDS)


def at(moments: Any) -> Any:
    """Return what equals a moment, or several, to a microsecond; `approx` alone would allow a millionth of the
    seconds since 1970."""
    return pytest.approx(moments, rel=0.0, abs=1e-6)


class HandClock(JumpFreeClock):
    """Shows the time that was set last. Threads of a worker that wait for a moment wait until it is set. Both clocks of the
    machine are the test's: the one that a person may set (`wall`), and the one that never jumps."""

    def __init__(self) -> None:
        self._start, self._seconds = float(int(time.time())), 0.0  # whole, so that sums with it are not rounded
        self.wall = self._start
        super().__init__(lambda: self.wall, lambda: self._seconds)
        self._lock, self._numbers = threading.Lock(), count()
        self._waits: dict[int, tuple[threading.Event, float]] = {}

    def set(self, moment: float) -> None:
        """Set the time. It never goes back."""
        with self._lock:
            self._seconds = max(self._seconds, moment - self._start)

    def wait(self, changed: threading.Event | threading.Condition, until: float | None) -> bool:
        """As in `JumpFreeClock`, by the time that is set."""
        if isinstance(changed, threading.Condition):
            return changed.wait(LOOK_SECONDS)
        number = next(self._numbers)
        with self._lock:
            self._waits[number] = changed, float("inf") if until is None else until
        try:
            while not changed.wait(LOOK_SECONDS):
                if until is not None and self.now() >= until:
                    return False
            return True
        finally:
            with self._lock:
                del self._waits[number]

    def list_waits(self, changed: threading.Event | None = None) -> list[float]:
        """Return until when threads wait now, the first moment first; those that wait for this event, if one is named."""
        with self._lock:
            return sorted(until for event, until in self._waits.values() if changed in (None, event))

    def find_wait(self, changed: threading.Event) -> float:
        """Return until when a thread waits for an event, once one does."""
        wait_until(lambda: self.list_waits(changed), "no thread waits")
        return self.list_waits(changed)[0]
