"""Calls in worker processes, started afresh: for black boxes that are slow, or that hang where no alarm is heard."""

import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from math import inf
from multiprocessing import get_context
from typing import Any, TypeVar

from discreet.auditor.answers import Answers, together
from discreet.auditor.game import LEAST, Calls, Columns
from discreet.auditor.where import Where, found, named
from discreet.errors import BadParameter

GRACE = 5.0
"""Seconds beyond its own limits after which a worker is ended."""
ALIKE = 16
"""So many answers at the start of every process are compared."""

T = TypeVar("T")


class Crowd:
    """Several processes that call one function: given as "module:function", or one that can be sent by name."""

    quick = False

    def __init__(self, function: Where, workers: int, limit: float = 1.0) -> None:
        self.where, self.limit, self._compared = named(function), limit, False
        start = (function, limit, list(sys.path))
        self._pools = [ProcessPoolExecutor(1, get_context("spawn"), _arrive, start) for _ in range(workers)]

    def __enter__(self) -> "Crowd":
        """Wait until all have arrived."""
        self._all([(pool.submit(_ready), inf) for pool in self._pools])
        return self

    def __exit__(self, *raised: object) -> None:
        """End the workers."""
        for pool in self._pools:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)

    def answers(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Answers:
        """n answers, shared out over the workers."""
        if not self._compared:
            self._compare(data)
        shares = [n // len(self._pools) + (i < n % len(self._pools)) for i in range(len(self._pools))]
        return together(self._each(data, shares, until, columns))

    def again(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """In one of the workers."""
        return self._all([(self._pools[0].submit(_again, first, then, n, until), self._patience(2 * n, until))])[0]

    def _compare(self, data: Any) -> None:
        """Processes that begin alike do not draw independent noise; only the first answers can show it."""
        self._compared = True
        soon = time.monotonic() + LEAST * self.limit
        first, *others = self._each(data, [ALIKE] * len(self._pools), soon, ())
        if any(_alike(first, other) for other in others):
            raise BadParameter(
                "workers", len(self._pools), "every process draws the same noise, so their answers are not independent",
                "do not seed noise; with restart every call starts a process, and the leak is certified",
            )  # fmt: skip

    def _each(self, data: Any, shares: list[int], until: float, columns: Columns) -> list[Answers]:
        tasks = [
            (pool.submit(_work, data, share, until, columns), self._patience(share, until))
            for pool, share in zip(self._pools, shares, strict=True)
            if share
        ]
        return self._all(tasks)

    def _patience(self, calls: int, until: float) -> float:
        """How long to wait for so many calls: a worker looks at the clock when it has made a few."""
        return min(calls * self.limit, max(0.0, until - time.monotonic()) + LEAST * self.limit) + GRACE

    def _all(self, tasks: "list[tuple[Future[T], float]]") -> list[T]:
        try:
            return [task.result(None if patience == inf else patience) for task, patience in tasks]
        except Exception as raised:  # one death must not be counted as many answers
            reason = "hears no alarm" if isinstance(raised, NotYet) else "ends its process"
            raise BadParameter("function", repr(self.where), reason, "audit it with restart") from None


_CALLS: list[Calls] = []


def _arrive(where: Where, limit: float, path: list[str]) -> None:
    sys.path[:] = path
    _CALLS[:] = [Calls(found(where), limit)]


def _ready() -> None:
    pass


def _work(data: Any, n: int, until: float, columns: Columns) -> Answers:
    return _CALLS[0].answers(data, n, until, columns)


def _again(first: Any, then: Any, n: int, until: float) -> int | None:
    return _CALLS[0].again(first, then, n, until)


def _alike(one: Answers, other: Answers) -> bool:
    """Whether two processes begin alike although no answer is common: an accident once in 4^ALIKE times."""
    if min(len(one), len(other)) < ALIKE or (one.whole != other.whole).any():
        return False
    return max(Counter(one.whole.tolist()).values()) <= ALIKE / 4
