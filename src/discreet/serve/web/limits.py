"""How often a person may ask for something, and how much of what takes long runs at once.

Counted per process and in memory: the budget is what protects data, this protects time.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import TypeVar

from discreet.serve.web.problems import Refusal

MAX_BUCKETS = 10_000
Value = TypeVar("Value")


class RateLimit:
    """At most `rate` calls per second for each key, and a burst of `burst`.

    >>> limit = RateLimit(1, 2, "quotes")
    >>> limit.take("a", now=0.0), limit.take("a", now=0.0)
    (None, None)
    >>> limit.take("a", now=0.0)
    Traceback (most recent call last):
    discreet.serve.web.problems.Refusal: Too many quotes. Try again in 1 s.
    >>> limit.take("b", now=0.0), limit.take("a", now=1.0)
    (None, None)
    """

    def __init__(self, rate: float | None, burst: float, what: str) -> None:
        self._rate, self._burst, self._what, self._lock = rate, burst, what, threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float | None = None) -> None:
        """Count one call.

        Raises:
            Refusal: 429 with the seconds after which the next one is allowed.
        """
        if self._rate is None:
            return
        now = time.monotonic() if now is None else now
        with self._lock:
            level, at = self._buckets.pop(key, (self._burst, now))
            level = min(self._burst, level + (now - at) * self._rate)
            allowed = level >= 1
            self._buckets[key] = (level - allowed, now)
            while len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        if not allowed:
            seconds = max(1, ceil((1 - level) / self._rate))
            raise Refusal(429, f"Too many {self._what}. Try again in {seconds} s.", {"Retry-After": str(seconds)})


class LimitedPool:
    """A few threads of its own for work that takes long, and a short queue before them.

    What waits in the queue holds no thread, and what runs here takes none of those that all other requests share. Who finds
    the queue full is refused at once, and so is a person who has `per_person` of its places: one person cannot fill it.
    """

    def __init__(
        self, threads: int, queue: int, what: str, *, per_person: int | None = None, rate: RateLimit | None = None
    ) -> None:
        self._rate = rate
        self._threads, self._most, self._what = threads, threads + queue, what
        self._per_person = self._most if per_person is None else per_person
        self._lock, self._taken = threading.Lock(), Counter[str]()
        self._executor: ThreadPoolExecutor | None = None  # no thread is started before it is needed

    async def run(self, person: str, work: Callable[[], Value]) -> Value:
        """Return the result of work in a thread of this pool.

        Raises:
            Refusal: 503 with the seconds after which to try again, if the queue is full; 429 if the person's rate is.
        """
        if self._rate is not None:
            self._rate.take(person)
        with self._lock:
            if self._taken.total() >= self._most or self._taken[person] >= self._per_person:
                reason = f"Too many {self._what} wait. Try again in a few seconds."
                raise Refusal(503, reason, {"Retry-After": "3"})
            self._taken[person] += 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="discreet-limited")
            executor = self._executor
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, work)
        finally:
            with self._lock:
                self._taken[person] -= 1
                if not self._taken[person]:
                    del self._taken[person]

    def close(self) -> None:
        """Start nothing that waits, and let what runs end by itself."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
