"""Calls in worker processes, started afresh: for black boxes that are slow, or that hang where no alarm is heard."""

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import redirect_stdout
from importlib import import_module
from math import inf
from multiprocessing import get_context
from typing import Any

from discreet.auditor.answers import Answers, together
from discreet.auditor.game import Calls
from discreet.errors import BadParameter

GRACE = 20.0
"""Seconds beyond its own limits after which a worker is ended."""

Where = str | Callable[[Any], Any]


class Crowd:
    """Several processes that call one function: given as "module:function", or one that can be sent by name."""

    quick = False

    def __init__(self, function: Where, workers: int, limit: float = 1.0) -> None:
        self.where, self.workers, self.limit = function, workers, limit
        self.local = Calls(found(function), limit)
        self._pool: ProcessPoolExecutor | None = None

    def answers(self, data: Any, n: int, until: float = inf) -> Answers:
        """n answers, shared out over the workers."""
        pool = self._started()
        shares = [n // self.workers + (i < n % self.workers) for i in range(self.workers)]
        tasks = [pool.submit(_work, data, share, until) for share in shares if share]
        parts = [self._answer(task, share) for task, share in zip(tasks, shares, strict=False)]
        first = parts[0]
        if len(first) >= 8 and len(set(first.whole.tolist())) > 1:
            for other in parts[1:]:
                if len(other) >= 8 and (first.whole[:8] == other.whole[:8]).all() and _surprising(first):
                    raise BadParameter(
                        "workers", self.workers, "every process draws the same noise, so their answers are not independent",
                        "use one worker, and do not seed noise",
                    )  # fmt: skip
        return together(parts)

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _answer(self, task: "Future[Answers]", share: int) -> Answers:
        try:
            return task.result(timeout=share * self.limit + GRACE)
        except Exception as raised:  # one death must not be counted as many answers
            self.close()
            reason = "hears no alarm" if isinstance(raised, NotYet) else "ends its process"
            raise BadParameter("function", repr(self.where), reason, "audit what it does before that") from None

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            arguments = (self.where, self.limit, list(sys.path))
            self._pool = ProcessPoolExecutor(self.workers, get_context("spawn"), _arrive, arguments)
        return self._pool


def found(where: Where) -> Callable[[Any], Any]:
    """The function itself."""
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    if not module or not name:
        raise BadParameter("function", repr(where), "not of the form module:function", "write, for example, noise:add")
    try:
        with redirect_stdout(sys.stderr):
            function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as missing:
        raise BadParameter("function", repr(where), str(missing), "check the module's path and the name") from None
    if not callable(function):
        raise BadParameter("function", repr(where), "cannot be called", "name a function of one input")
    return function  # type: ignore[no-any-return]


_CALLS: list[Calls] = []


def _arrive(where: Where, limit: float, path: list[str]) -> None:
    sys.path[:] = path
    _CALLS[:] = [Calls(found(where), limit)]


def _work(data: Any, n: int, until: float) -> Answers:
    return _CALLS[0].answers(data, n, until)


def _surprising(answers: Answers) -> bool:
    """Whether eight equal answers in two processes are no accident: no answer is common."""
    return max(Counter(answers.whole.tolist()).values()) <= len(answers) / 4
