"""Calls in worker processes, started afresh: for black boxes that are slow, or that hang where no alarm is heard."""

import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from math import inf
from multiprocessing import get_context
from typing import Any, TypeVar

from discreet.auditor.answers import Outputs, concatenate
from discreet.auditor.game import MIN_OUTPUTS, CallSampler, Columns
from discreet.auditor.where import FunctionReference, get_import_path, load_function
from discreet.errors import BadParameter

GRACE_SECONDS = 5.0
"""Seconds beyond its own limits after which a worker is ended."""
COMPARED_OUTPUTS = 16
"""So many answers at the start of every process are compared."""

T = TypeVar("T")


class WorkerPool:
    """Several processes that call one function: given as "module:function", or one that can be sent by name."""

    is_fast = False

    def __init__(self, function: FunctionReference, workers: int, limit: float = 1.0) -> None:
        self.where, self.limit, self._compared = get_import_path(function), limit, False
        start = (function, limit, list(sys.path))
        self._pools = [ProcessPoolExecutor(1, get_context("spawn"), _start_worker, start) for _ in range(workers)]

    def __enter__(self) -> "WorkerPool":
        """Wait until all have arrived."""
        self._collect_results([(pool.submit(_confirm_ready), inf) for pool in self._pools])
        return self

    def __exit__(self, *raised: object) -> None:
        """End the workers."""
        for pool in self._pools:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """n answers, shared out over the workers."""
        if not self._compared:
            self._check_independence(data)
        shares = [n // len(self._pools) + (i < n % len(self._pools)) for i in range(len(self._pools))]
        return concatenate(self._draw_each(data, shares, until, columns))

    def count_repeats(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """In one of the workers."""
        return self._collect_results(
            [(self._pools[0].submit(_count_repeats_in_worker, first, then, n, until), self._compute_timeout(2 * n, until))]
        )[0]

    def _check_independence(self, data: Any) -> None:
        """Processes that begin alike do not draw independent noise; only the first answers can show it."""
        self._compared = True
        soon = time.monotonic() + MIN_OUTPUTS * self.limit
        first, *others = self._draw_each(data, [COMPARED_OUTPUTS] * len(self._pools), soon, ())
        if any(_start_alike(first, other) for other in others):
            raise BadParameter(
                "workers", len(self._pools), "every process draws the same noise, so their answers are not independent",
                "do not seed noise; with restart every call starts a process, and the leak is certified",
            )  # fmt: skip

    def _draw_each(self, data: Any, shares: list[int], until: float, columns: Columns) -> list[Outputs]:
        tasks = [
            (pool.submit(_draw_in_worker, data, share, until, columns), self._compute_timeout(share, until))
            for pool, share in zip(self._pools, shares, strict=True)
            if share
        ]
        return self._collect_results(tasks)

    def _compute_timeout(self, calls: int, until: float) -> float:
        """How long to wait for so many calls: a worker looks at the clock when it has made a few."""
        return min(calls * self.limit, max(0.0, until - time.monotonic()) + MIN_OUTPUTS * self.limit) + GRACE_SECONDS

    def _collect_results(self, tasks: "list[tuple[Future[T], float]]") -> list[T]:
        try:
            return [task.result(None if patience == inf else patience) for task, patience in tasks]
        except Exception as raised:  # one death must not be counted as many answers
            reason = "hears no alarm" if isinstance(raised, NotYet) else "ends its process"
            raise BadParameter("function", repr(self.where), reason, "audit it with restart") from None


_WORKER_SAMPLER: list[CallSampler] = []


def _start_worker(function: FunctionReference, limit: float, path: list[str]) -> None:
    sys.path[:] = path
    _WORKER_SAMPLER[:] = [CallSampler(load_function(function), limit)]


def _confirm_ready() -> None:
    pass


def _draw_in_worker(data: Any, n: int, until: float, columns: Columns) -> Outputs:
    return _WORKER_SAMPLER[0].draw(data, n, until, columns)


def _count_repeats_in_worker(first: Any, then: Any, n: int, until: float) -> int | None:
    return _WORKER_SAMPLER[0].count_repeats(first, then, n, until)


def _start_alike(one: Outputs, other: Outputs) -> bool:
    """Whether two processes begin alike although no answer is common: an accident once in 4^ALIKE times."""
    if min(len(one), len(other)) < COMPARED_OUTPUTS or (one.digests != other.digests).any():
        return False
    return max(Counter(one.digests.tolist()).values()) <= COMPARED_OUTPUTS / 4
