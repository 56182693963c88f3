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

from discreet.auditor.answers import Answers, of_array, of_objects, together
from discreet.auditor.reading import Raised, Reading, read
from discreet.mechanisms import (
    Binomial,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    OptimalThreshold,
    RandomizedResponse,
    Threshold,
    TruncatedGeometric,
)

ELEMENTWISE = (
    Binomial, DiscreteGaussian, Gaussian, Laplace, OptimalThreshold, RandomizedResponse, Threshold, TruncatedGeometric,
)  # fmt: skip
"""Mechanisms that treat every number of an array alike and apart, so that n runs are one array."""

LEAST = 6
ROOM = 1 << 23
"""Numbers that are held at a time."""
READING = 5.0
"""Seconds that reading one answer may take."""
Columns: TypeAlias = tuple[str, ...] | None


@dataclass(frozen=True)
class Pair:
    """Two inputs that must be hard to tell apart; `changes` is 2 where the claim is about one unit and two differ."""

    left: Any
    right: Any
    changes: int = 1

    def __str__(self) -> str:
        return f"{short(self.left)} and {short(self.right)}" + (", two steps apart" if self.changes == 2 else "")


class Player(Protocol):
    """Something that answers."""

    @property
    def quick(self) -> bool:
        """Whether answers cost next to nothing."""
        ...

    def answers(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Answers:
        """n independent answers to one input, with their numbers under these columns, or all of their numbers; fewer, but at
        least `LEAST`, if the clock strikes."""
        ...

    def again(self, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """Asked about `first` and at once about `then`, n times: how often the second answer is the first one over again.
        None if the clock strikes."""
        ...


class OneByOne:
    """Asks twice by asking once and once more."""

    def again(self: Player, first: Any, then: Any, n: int, until: float = inf) -> int | None:
        """See `Player`."""
        same = 0
        for _ in range(n):
            if time.monotonic() > until:
                return None
            before, after = self.answers(first, 1, columns=()), self.answers(then, 1, columns=())
            same += bool(before.whole[0] == after.whole[0] and before.sort[0] == after.sort[0])
        return same


@dataclass(frozen=True)
class Bulk(OneByOne):
    """Draws n answers at once: `sample(data, n)` is an array with one row per answer."""

    sample: Callable[[Any, int], Any]
    quick: bool = True

    def answers(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Answers:
        """A few first: they tell how many there is room for at a time. Who asks for all numbers knows how many fit."""
        parts = [self._drawn(data, min(n, LEAST), columns)]
        size = n if columns is None else max(LEAST, ROOM // max(1, parts[0][1]))
        while (done := sum(len(part) for part, _ in parts)) < n and parts[-1][0]:
            parts.append(self._drawn(data, min(size, n - done), columns))
        return together([part for part, _ in parts])

    def _drawn(self, data: Any, n: int, columns: Columns) -> tuple[Answers, int]:
        """Answers, and how many numbers there are in each."""
        drawn = self.sample(data, n)
        if isinstance(drawn, np.ndarray):
            return of_array(drawn, columns), drawn.size // max(1, len(drawn))
        return of_objects(list(drawn), columns), 1


@dataclass(frozen=True)
class Calls(OneByOne):
    """Calls a function n times, each call with a time limit in seconds (where the system and the thread allow one)."""

    function: Callable[[Any], Any]
    limit: float = 1.0
    quick: bool = False

    def answers(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Answers:
        found: list[Any] = []
        sink, fresh = _Nowhere(), _copier(data)
        with redirect_stdout(sink), redirect_stderr(sink), _alarm() as ring:
            for _ in range(n):
                found.append(_read(one(self.function, fresh(), ring, self.limit), columns, ring))
                if len(found) >= LEAST and time.monotonic() > until:
                    break
        return of_objects(found, columns)


def _read(answer: Any, columns: Columns, ring: Callable[[float], None]) -> Any:
    """A number as it is, anything else as it is read, at once: it may be large, and reading it may run foreign code."""
    if type(answer) in (int, float):
        return answer
    found = one(lambda each: read(each, columns), answer, ring, READING)
    return found if isinstance(found, Reading) else Raised(f"a {type(answer).__name__}: {found.name}")


def one(function: Callable[[Any], Any], data: Any, ring: Callable[[float], None], limit: float) -> Any:
    """What one call comes to."""
    try:
        ring(limit)
        try:
            return function(data)
        finally:
            ring(0)
    except _TooLong:
        ring(0)
        return Raised(f"no answer within {limit:g} s")
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # whatever a black box raises is an answer
        return Raised(f"raises {type(raised).__name__}")


def player(mechanism: Any, limit: float = 1.0) -> Player:
    """How this mechanism is played."""
    if hasattr(mechanism, "sample"):
        return Bulk(mechanism.sample)
    if isinstance(mechanism, ELEMENTWISE):
        return Bulk(lambda data, n: mechanism.release(np.repeat(np.asarray(data)[None], n, axis=0)))
    return Calls(getattr(mechanism, "release", mechanism), limit)


def _copier(data: Any) -> Callable[[], Any]:
    """A fresh copy for every call: an input that is changed must not change the next call."""
    if isinstance(data, int | float | str | bytes | None):
        return lambda: data
    if type(data) is list and all(isinstance(each, int | float | str | bytes | None) for each in data):
        return data.copy
    return lambda: copy.deepcopy(data)


class _TooLong(BaseException):
    """The alarm rang. Not an Exception, so that a black box which catches those does not catch this."""


@contextmanager
def _alarm() -> Iterator[Callable[[float], None]]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield lambda seconds: None
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, seconds) and None  # and again, if it is caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Nowhere(io.TextIOBase):
    """Takes any text and keeps none."""

    def write(self, text: str) -> int:
        return len(text)

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1


def short(data: Any) -> str:
    """An input in few letters."""
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"
