"""How outputs of a mechanism are collected: in bulk, by calls in this process, in worker processes, or one process per call.

Theory of operation
-------------------
`make_sampler` draws discreet's own mechanisms, and objects with `sample(input, n)`, in bulk (`VectorSampler`). Any other
function is called (`CallSampler`) with a copy of the input, with a time limit, with its standard output discarded; an
exception or a time-out counts as an output. `WorkerPool` makes the calls in several processes, for slow functions and for
functions that ignore the alarm. `RestartSampler` starts a process for every call, so that a seed that is set once per
process shows, and so that functions that nothing else stops can be killed.

All samplers return independent outputs only if the mechanism draws independent noise. `count_repeats` and
`WorkerPool._check_independence` test that.
"""

import copy
import io
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from math import inf
from multiprocessing import get_context
from types import FrameType, FunctionType
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from discreet.auditor.outputs import Outputs, concatenate, from_array, from_objects
from discreet.auditor.parse_output import NO_OUTPUT, RAISES, FailedCall, ParsedOutput, parse_output
from discreet.errors import BadParameter
from discreet.mechanisms import (
    Binomial,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    Threshold,
    TruncatedGeometric,
)

ELEMENTWISE = (
    Binomial, DiscreteGaussian, Gaussian, Laplace, OptimalPartitionSelection, RandomizedResponse, Threshold,
    TruncatedGeometric,
)  # fmt: skip
"""Mechanisms that treat all elements of an array alike and independently, so that n runs are one array."""

MIN_OUTPUTS = 6
"""Outputs that a sampler returns even when the time is over."""
MAX_NUMBERS_HELD = 1 << 23
"""Numbers that are held in memory at a time."""
PARSE_SECONDS = 5.0
"""Time limit for parsing one output."""
Columns: TypeAlias = tuple[str, ...] | None


class Sampler(Protocol):
    """A source of outputs."""

    @property
    def is_fast(self) -> bool:
        """Whether outputs are drawn in bulk."""
        ...

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """Draw n independent outputs for one input, with the numbers of these columns, or of all columns.

        When the time `until` has passed, fewer are drawn, but at least `MIN_OUTPUTS`.
        """
        ...

    def count_repeats(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """Run on `first` and then on `then`, n times, and count how often the second output equals the first.

        Returns None when the time `until` passes before.
        """
        ...


class RepeatsByDrawing:
    """Implements `count_repeats` by two draws of one output."""

    def count_repeats(self: Sampler, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """See `Sampler`."""
        repeats = 0
        for _ in range(n):
            if time.monotonic() > until:
                return None
            before, after = self.draw(first, 1, columns=()), self.draw(then, 1, columns=())
            repeats += bool(before.digests[0] == after.digests[0] and before.kinds[0] == after.kinds[0])
        return repeats


def make_sampler(mechanism: Any, limit: float = 1.0) -> Sampler:
    """Choose the sampler of a mechanism for this process; a sampler is its own."""
    if isinstance(mechanism, RepeatsByDrawing):
        return mechanism  # type: ignore[return-value]
    if hasattr(mechanism, "sample"):
        return VectorSampler(mechanism.sample)
    if isinstance(mechanism, ELEMENTWISE):
        return VectorSampler(lambda data, n: mechanism.release(np.repeat(np.asarray(data)[None], n, axis=0)))
    return CallSampler(getattr(mechanism, "release", mechanism), limit)


# -- in bulk ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorSampler(RepeatsByDrawing):
    """Draws n outputs at once: `sample(data, n)` is an array with one row per output."""

    sample: Callable[[Any, int], Any]
    is_fast: bool = True

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """Draw a few first: they show how many fit into memory at a time. With all columns the caller chose n to fit."""
        parts = [self._draw_block(data, min(n, MIN_OUTPUTS), columns)]
        size = n if columns is None else max(MIN_OUTPUTS, MAX_NUMBERS_HELD // max(1, parts[0][1]))
        while (done := sum(len(part) for part, _ in parts)) < n and parts[-1][0]:
            parts.append(self._draw_block(data, min(size, n - done), columns))
        return concatenate([part for part, _ in parts])

    def _draw_block(self, data: Any, n: int, columns: Columns) -> tuple[Outputs, int]:
        """Return outputs, and how many numbers each has."""
        drawn = self.sample(data, n)
        if isinstance(drawn, np.ndarray):
            return from_array(drawn, columns), drawn.size // max(1, len(drawn))
        return from_objects(list(drawn), columns), 1


# -- calls in this process --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallSampler(RepeatsByDrawing):
    """Calls a function n times, each call with a time limit in seconds (where the system and the thread allow one)."""

    function: Callable[[Any], Any]
    limit: float = 1.0
    is_fast: bool = False

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """See `Sampler`."""
        outputs: list[Any] = []
        sink, fresh_copy = _NullStream(), _make_copier(data)
        with redirect_stdout(sink), redirect_stderr(sink), _open_timer() as set_timer:
            for _ in range(n):
                output = call_once(self.function, fresh_copy(), set_timer, self.limit)
                outputs.append(_parse_in_time(output, columns, set_timer))
                if len(outputs) >= MIN_OUTPUTS and time.monotonic() > until:
                    break
        return from_objects(outputs, columns)


def call_once(function: Callable[[Any], Any], data: Any, set_timer: Callable[[float], None], limit: float) -> Any:
    """Return the result of one call, or a `FailedCall`."""
    start = time.monotonic()
    try:
        set_timer(limit)
        try:
            return function(data)
        finally:
            set_timer(0)
    except (_CallTimeout, KeyboardInterrupt) as raised:
        set_timer(0)
        has_timer = hasattr(signal, "setitimer")  # an alarm while DuckDB runs a statement is read as an interrupt
        if isinstance(raised, KeyboardInterrupt) and not (has_timer and time.monotonic() - start >= limit):
            raise
        return FailedCall(f"{NO_OUTPUT}{limit:g} s")
    except BaseException as raised:  # an exception of the audited function is an output
        return FailedCall(f"{RAISES}{type(raised).__name__}")


def _parse_in_time(output: Any, columns: Columns, set_timer: Callable[[float], None]) -> Any:
    """Keep a number as it is and parse anything else at once: it may be large, and parsing may run foreign code."""
    if type(output) in (int, float):
        return output
    parsed = call_once(lambda each: parse_output(each, columns), output, set_timer, PARSE_SECONDS)
    return parsed if isinstance(parsed, ParsedOutput) else FailedCall(f"a {type(output).__name__}: {parsed.name}")


def _make_copier(data: Any) -> Callable[[], Any]:
    """Return a function that copies the input: a call that changes its input must not affect the next call."""
    if isinstance(data, int | float | str | bytes | None):
        return lambda: data
    if type(data) is list and all(isinstance(each, int | float | str | bytes | None) for each in data):
        return data.copy
    return lambda: copy.deepcopy(data)


class _CallTimeout(BaseException):
    """Raised by the alarm. Not an Exception, so that a function which catches those does not catch this."""


@contextmanager
def _open_timer() -> Iterator[Callable[[float], None]]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield lambda seconds: None
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _CallTimeout

    before = signal.signal(signal.SIGALRM, ring)
    try:
        # The interval repeats the alarm, in case the function catches the first one.
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _NullStream(io.TextIOBase):
    """Discards all text."""

    def write(self, text: str) -> int:
        return len(text)

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1


# -- functions by name ------------------------------------------------------------------------------------------------------


FunctionReference: TypeAlias = str | Callable[[Any], Any]
"""A function, or "module:function"."""


def load_function(reference: FunctionReference) -> Callable[[Any], Any]:
    """Import a function given as "module:function"; what its module prints goes to standard error.

    >>> load_function("math:sqrt")(9)
    3.0
    """
    if not isinstance(reference, str):
        return reference
    function = load_attribute(reference)
    if not callable(function):
        raise BadParameter("function", repr(reference), "not callable", "name a function of one input")
    return function  # type: ignore[no-any-return]


def load_attribute(reference: str, parameter: str = "function") -> Any:
    """Import what is given as "module:name"; what its module prints goes to standard error."""
    module, _, name = reference.partition(":")
    if not module or not name:
        raise BadParameter(parameter, repr(reference), "not of the form module:name", "write, for example, noise:add")
    try:
        with redirect_stdout(sys.stderr):
            return getattr(import_module(module), name)
    except (ImportError, AttributeError) as missing:
        bare = module.removesuffix(".py").replace("/", ".")
        hint = "check the module's path and the name" if bare == module else f"name the module, not its file: {bare}:{name}"
        raise BadParameter(parameter, repr(reference), str(missing), hint) from None


def get_import_path(reference: FunctionReference) -> str:
    """Return the "module:function" under which another process can import a function."""
    if isinstance(reference, str):
        load_function(reference)
        return reference
    if (
        not isinstance(reference, FunctionType)
        or getattr(sys.modules.get(reference.__module__), reference.__qualname__, None) is not reference
    ):
        hint = 'define it at the top level of a module, or write "module:function"'
        raise BadParameter("function", repr(reference), "another process cannot import it", hint)
    return f"{reference.__module__}:{reference.__qualname__}"


# -- calls in worker processes ----------------------------------------------------------------------------------------------


GRACE_SECONDS = 5.0
"""Seconds beyond its own limits after which a worker is ended."""
COMPARED_OUTPUTS = 16
"""First outputs of every process that are compared."""

T = TypeVar("T")


class WorkerPool:
    """Several spawned processes that call one function: given as "module:function", or importable by its name."""

    is_fast = False

    def __init__(self, function: FunctionReference, workers: int, limit: float = 1.0) -> None:
        self.import_path, self.limit, self._compared = get_import_path(function), limit, False
        arguments = (function, limit, list(sys.path))
        self._pools = [ProcessPoolExecutor(1, get_context("spawn"), _start_worker, arguments) for _ in range(workers)]

    def __enter__(self) -> "WorkerPool":
        """Wait until all workers are ready."""
        self._collect_results([(pool.submit(_confirm_ready), inf) for pool in self._pools])
        return self

    def __exit__(self, *raised: object) -> None:
        """End the workers."""
        for pool in self._pools:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """Draw n outputs, divided over the workers."""
        if not self._compared:
            self._check_independence(data)
        shares = [n // len(self._pools) + (i < n % len(self._pools)) for i in range(len(self._pools))]
        return concatenate(self._draw_each(data, shares, until, columns))

    def count_repeats(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """Count in one of the workers; see `Sampler`."""
        task = self._pools[0].submit(_count_repeats_in_worker, first, then, n, until)
        return self._collect_results([(task, self._compute_timeout(2 * n, until))])[0]

    def _check_independence(self, data: Any) -> None:
        """Refuse processes that start with the same outputs: their noise is not independent, and only the start shows it."""
        self._compared = True
        soon = time.monotonic() + MIN_OUTPUTS * self.limit
        first, *others = self._draw_each(data, [COMPARED_OUTPUTS] * len(self._pools), soon, ())
        if any(_start_alike(first, other) for other in others):
            raise BadParameter(
                "workers", len(self._pools), "every process draws the same noise, so their outputs are not independent",
                "do not seed the noise; or audit with restart, where every call starts a process and the leak is certified",
            )  # fmt: skip

    def _draw_each(self, data: Any, shares: list[int], until: float, columns: Columns) -> list[Outputs]:
        tasks = [
            (pool.submit(_draw_in_worker, data, share, until, columns), self._compute_timeout(share, until))
            for pool, share in zip(self._pools, shares, strict=True)
            if share
        ]
        return self._collect_results(tasks)

    def _compute_timeout(self, calls: int, until: float) -> float:
        """Return how long to wait for so many calls: a worker checks the time after `MIN_OUTPUTS` of them."""
        return min(calls * self.limit, max(0.0, until - time.monotonic()) + MIN_OUTPUTS * self.limit) + GRACE_SECONDS

    def _collect_results(self, tasks: "list[tuple[Future[T], float]]") -> list[T]:
        try:
            return [task.result(None if timeout == inf else timeout) for task, timeout in tasks]
        except Exception as raised:  # one ended process must not be counted as many outputs
            reason = "ignores the time limit" if isinstance(raised, FutureTimeout) else "ends its process"
            raise BadParameter("function", repr(self.import_path), reason, "audit it with restart") from None


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
    """Whether two processes start with the same outputs although no output is common: by chance once in 4^16 times."""
    if min(len(one), len(other)) < COMPARED_OUTPUTS or (one.digests != other.digests).any():
        return False
    return max(Counter(one.digests.tolist()).values()) <= COMPARED_OUTPUTS / 4


# -- one process per call ---------------------------------------------------------------------------------------------------


CHILD_PROGRAM = """
import importlib, os, pickle, signal, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
sys.path[:], module, name, data, limit = pickle.load(sys.stdin.buffer)
function = getattr(importlib.import_module(module), name)
signal.setitimer(signal.ITIMER_REAL, limit)
try:
    result = True, function(data)
except BaseException as raised:
    result = False, type(raised).__name__
signal.setitimer(signal.ITIMER_REAL, 0)
try:
    sent = pickle.dumps(result)
except BaseException as raised:
    sent = pickle.dumps((None, type(result[1]).__name__))
out.write(sent)
out.flush()
os._exit(0)
"""
"""The alarm has no handler, so it ends the process."""
START_SECONDS = 60.0
"""Time limit for the start of a process."""


class RestartSampler(RepeatsByDrawing):
    """Calls a function, known by its name, in a new process each time, several in parallel."""

    is_fast = False

    def __init__(self, function: FunctionReference, workers: int = 1, limit: float = 1.0) -> None:
        self.import_path, self.workers, self.limit = get_import_path(function), workers, limit

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """See `Sampler`."""
        module, _, name = self.import_path.partition(":")
        request = pickle.dumps((sys.path, module, name, data, self.limit))
        outputs: list[Any] = []
        with ThreadPoolExecutor(self.workers) as threads:
            while len(outputs) < n and (len(outputs) < MIN_OUTPUTS or time.monotonic() <= until):
                fresh = threads.map(self._call_in_process, [request] * min(self.workers, n - len(outputs)))
                outputs += [each if type(each) in (int, float) else parse_output(each, columns) for each in fresh]
        return from_objects(outputs, columns)

    def _call_in_process(self, request: bytes) -> Any:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", CHILD_PROGRAM],
                input=request,
                capture_output=True,
                timeout=self.limit + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FailedCall(f"{NO_OUTPUT}{self.limit:g} s")
        if ended.returncode:
            late = ended.returncode == -signal.SIGALRM
            return FailedCall(f"{NO_OUTPUT}{self.limit:g} s" if late else "ends its process")
        try:
            returned, output = pickle.loads(ended.stdout)
        except Exception as raised:  # an output that raises while it is unpickled is an output too
            return FailedCall(f"an output that raises {type(raised).__name__} when it is received")
        if returned is None:
            return FailedCall(f"a {output} that cannot be pickled")
        return output if returned else FailedCall(f"{RAISES}{output}")
