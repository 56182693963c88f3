"""Calls in worker processes, started afresh: for black boxes that are slow, or that hang where no alarm is heard."""

import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import redirect_stdout
from importlib import import_module
from math import inf
from multiprocessing import get_context
from time import monotonic
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

from discreet.auditor.outputs import Outputs, concatenate, from_objects
from discreet.auditor.parse_output import FailedCall, parse_output
from discreet.auditor.sampling import MIN_OUTPUTS, CallSampler, Columns, RepeatsByDrawing
from discreet.errors import BadParameter

# A function by its name.


FunctionReference: TypeAlias = str | Callable[[Any], Any]
"""A function, or "module:function"."""


def load_function(reference: FunctionReference) -> Callable[[Any], Any]:
    """The function itself; what its module prints goes to the errors.

    >>> load_function("math:sqrt")(9)
    3.0
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    if not module or not name:
        raise BadParameter("function", repr(reference), "not of the form module:function", "write, for example, noise:add")
    try:
        with redirect_stdout(sys.stderr):
            function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as missing:
        raise BadParameter("function", repr(reference), str(missing), "check the module's path and the name") from None
    if not callable(function):
        raise BadParameter("function", repr(reference), "cannot be called", "name a function of one input")
    return function  # type: ignore[no-any-return]


def get_import_path(reference: FunctionReference) -> str:
    """The name under which another process finds the function."""
    if isinstance(reference, str):
        load_function(reference)
        return reference
    if (
        not isinstance(reference, FunctionType)
        or getattr(sys.modules.get(reference.__module__), reference.__qualname__, None) is not reference
    ):
        way = 'put it at the top of a module, or write "module:function"'
        raise BadParameter("function", repr(reference), "no other process can find it", way)
    return f"{reference.__module__}:{reference.__qualname__}"


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


# Every call in a process of its own: for noise that is seeded when a program starts, and boxes that nothing else stops.


CHILD_PROGRAM = """
import importlib, os, pickle, signal, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
sys.path[:], module, name, data, limit = pickle.load(sys.stdin.buffer)
function = getattr(importlib.import_module(module), name)
signal.setitimer(signal.ITIMER_REAL, limit)
try:
    answer = True, function(data)
except BaseException as raised:
    answer = False, type(raised).__name__
signal.setitimer(signal.ITIMER_REAL, 0)
try:
    sent = pickle.dumps(answer)
except BaseException as raised:
    sent = pickle.dumps((None, type(answer[1]).__name__))
out.write(sent)
out.flush()
os._exit(0)
"""
"""An alarm that nobody waits for ends the process, wherever it is."""
START_SECONDS = 60.0
"""Seconds for a program to start."""


class RestartSampler(RepeatsByDrawing):
    """Calls a function, known by its name, in a fresh process each time, several side by side."""

    is_fast = False

    def __init__(self, function: FunctionReference, workers: int = 1, limit: float = 1.0) -> None:
        self.where, self.workers, self.limit = get_import_path(function), workers, limit

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """See `Sampler`."""
        module, _, name = self.where.partition(":")
        sent = pickle.dumps((sys.path, module, name, data, self.limit))
        found: list[Any] = []
        with ThreadPoolExecutor(self.workers) as side_by_side:
            while len(found) < n and (len(found) < MIN_OUTPUTS or monotonic() <= until):
                fresh = side_by_side.map(self._call_in_process, [sent] * min(self.workers, n - len(found)))
                found += [each if type(each) in (int, float) else parse_output(each, columns) for each in fresh]
        return from_objects(found, columns)

    def _call_in_process(self, sent: bytes) -> Any:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", CHILD_PROGRAM],
                input=sent,
                capture_output=True,
                timeout=self.limit + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FailedCall(f"no answer within {self.limit:g} s")
        if ended.returncode:
            late = ended.returncode == -signal.SIGALRM
            return FailedCall(f"no answer within {self.limit:g} s" if late else "ends its process")
        try:
            came, answer = pickle.loads(ended.stdout)
        except Exception as raised:  # what a black box makes of itself on arrival is an answer too
            return FailedCall(f"an answer that raises {type(raised).__name__} when it is received")
        if came is None:
            return FailedCall(f"a {answer} that cannot be sent")
        return answer if came else FailedCall(f"raises {answer}")
