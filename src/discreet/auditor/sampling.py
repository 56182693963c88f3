"""The game: two neighbouring inputs, and how answers to them are collected.

Ours are drawn in bulk through their vectorised samplers; anything else is called, here or in worker processes, with a time
limit, its output to the screen swallowed, and an exception counted as an answer.
"""

import copy
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from math import inf
from types import FrameType
from typing import Any, Protocol, TypeAlias

import numpy as np

from discreet.auditor.outputs import Outputs, concatenate, from_array, from_objects
from discreet.auditor.parse_output import FailedCall, ParsedOutput, parse_output
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
"""Mechanisms that treat every number of an array alike and apart, so that n runs are one array."""

MIN_OUTPUTS = 6
MAX_NUMBERS_HELD = 1 << 23
"""Numbers that are held at a time."""
PARSE_SECONDS = 5.0
"""Seconds that reading one answer may take."""
Columns: TypeAlias = tuple[str, ...] | None


@dataclass(frozen=True)
class Pair:
    """Two inputs that must be hard to tell apart; `changes` is 2 where the claim is about one unit and two differ."""

    left: Any
    right: Any
    distance: int = 1

    def __str__(self) -> str:
        return f"{shorten(self.left)} and {shorten(self.right)}" + (", two steps apart" if self.distance == 2 else "")


class Sampler(Protocol):
    """Something that answers."""

    @property
    def is_fast(self) -> bool:
        """Whether answers cost next to nothing."""
        ...

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """n independent answers to one input, with their numbers under these columns, or all of their numbers; fewer, but at
        least `LEAST`, if the clock strikes."""
        ...

    def count_repeats(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """Asked about `first` and at once about `then`, n times: how often the second answer is the first one over again.
        None if the clock strikes."""
        ...


class RepeatsByDrawing:
    """Asks twice by asking once and once more."""

    def count_repeats(self: Sampler, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """See `Sampler`."""
        same = 0
        for _ in range(n):
            if time.monotonic() > until:
                return None
            before, after = self.draw(first, 1, columns=()), self.draw(then, 1, columns=())
            same += bool(before.digests[0] == after.digests[0] and before.kinds[0] == after.kinds[0])
        return same


@dataclass(frozen=True)
class VectorSampler(RepeatsByDrawing):
    """Draws n answers at once: `sample(data, n)` is an array with one row per answer."""

    sample: Callable[[Any, int], Any]
    is_fast: bool = True

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """A few first: they tell how many there is room for at a time. Who asks for all numbers knows how many fit."""
        parts = [self._draw_block(data, min(n, MIN_OUTPUTS), columns)]
        size = n if columns is None else max(MIN_OUTPUTS, MAX_NUMBERS_HELD // max(1, parts[0][1]))
        while (done := sum(len(part) for part, _ in parts)) < n and parts[-1][0]:
            parts.append(self._draw_block(data, min(size, n - done), columns))
        return concatenate([part for part, _ in parts])

    def _draw_block(self, data: Any, n: int, columns: Columns) -> tuple[Outputs, int]:
        """Answers, and how many numbers there are in each."""
        drawn = self.sample(data, n)
        if isinstance(drawn, np.ndarray):
            return from_array(drawn, columns), drawn.size // max(1, len(drawn))
        return from_objects(list(drawn), columns), 1


@dataclass(frozen=True)
class CallSampler(RepeatsByDrawing):
    """Calls a function n times, each call with a time limit in seconds (where the system and the thread allow one)."""

    function: Callable[[Any], Any]
    limit: float = 1.0
    is_fast: bool = False

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        found: list[Any] = []
        sink, fresh = _NullStream(), _make_copier(data)
        with redirect_stdout(sink), redirect_stderr(sink), _open_timer() as ring:
            for _ in range(n):
                found.append(_parse_in_time(call_once(self.function, fresh(), ring, self.limit), columns, ring))
                if len(found) >= MIN_OUTPUTS and time.monotonic() > until:
                    break
        return from_objects(found, columns)


def _parse_in_time(output: Any, columns: Columns, set_timer: Callable[[float], None]) -> Any:
    """A number as it is, anything else as it is read, at once: it may be large, and reading it may run foreign code."""
    if type(output) in (int, float):
        return output
    found = call_once(lambda each: parse_output(each, columns), output, set_timer, PARSE_SECONDS)
    return found if isinstance(found, ParsedOutput) else FailedCall(f"a {type(output).__name__}: {found.name}")


def call_once(function: Callable[[Any], Any], data: Any, set_timer: Callable[[float], None], limit: float) -> Any:
    """What one call comes to."""
    try:
        set_timer(limit)
        try:
            return function(data)
        finally:
            set_timer(0)
    except _CallTimeout:
        set_timer(0)
        return FailedCall(f"no answer within {limit:g} s")
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # whatever a black box raises is an answer
        return FailedCall(f"raises {type(raised).__name__}")


def make_sampler(mechanism: Any, limit: float = 1.0) -> Sampler:
    """How this mechanism is played."""
    if hasattr(mechanism, "sample"):
        return VectorSampler(mechanism.sample)
    if isinstance(mechanism, ELEMENTWISE):
        return VectorSampler(lambda data, n: mechanism.release(np.repeat(np.asarray(data)[None], n, axis=0)))
    return CallSampler(getattr(mechanism, "release", mechanism), limit)


def _make_copier(data: Any) -> Callable[[], Any]:
    """A fresh copy for every call: an input that is changed must not change the next call."""
    if isinstance(data, int | float | str | bytes | None):
        return lambda: data
    if type(data) is list and all(isinstance(each, int | float | str | bytes | None) for each in data):
        return data.copy
    return lambda: copy.deepcopy(data)


class _CallTimeout(BaseException):
    """The alarm rang. Not an Exception, so that a black box which catches those does not catch this."""


@contextmanager
def _open_timer() -> Iterator[Callable[[float], None]]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield lambda seconds: None
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _CallTimeout

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, seconds) and None  # and again, if it is caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _NullStream(io.TextIOBase):
    """Takes any text and keeps none."""

    def write(self, text: str) -> int:
        return len(text)

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1


def shorten(data: Any) -> str:
    """An input in few letters."""
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"
