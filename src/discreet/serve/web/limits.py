"""How often a person may ask for something.

Counted per process and in memory: the budget is what protects data, this protects time.
"""

import threading
import time
from collections import OrderedDict
from math import ceil

from discreet.serve.web.problems import Refusal

MAX_BUCKETS = 10_000


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
