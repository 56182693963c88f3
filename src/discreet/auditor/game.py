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
from typing import Any, Protocol

import numpy as np

from discreet.auditor.answers import Answers, Raised, of_array, of_objects
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


@dataclass(frozen=True)
class Pair:
    """Two inputs that must be hard to tell apart; `changes` is 2 where the claim is about one unit and two differ."""

    left: Any
    right: Any
    changes: int = 1

    def __str__(self) -> str:
        return f"{_short(self.left)} and {_short(self.right)}"


class Player(Protocol):
    """Something that answers."""

    @property
    def quick(self) -> bool:
        """Whether answers cost next to nothing."""
        ...

    def answers(self, data: Any, n: int, until: float = inf) -> Answers:
        """n independent answers to one input; fewer, but at least `LEAST`, if the clock strikes."""
        ...


@dataclass(frozen=True)
class Bulk:
    """Draws n answers at once: `sample(data, n)` is an array with one row per answer."""

    sample: Callable[[Any, int], Any]
    quick: bool = True

    def answers(self, data: Any, n: int, until: float = inf) -> Answers:
        return of_array(np.asarray(self.sample(data, n)))


@dataclass(frozen=True)
class Calls:
    """Calls a function n times, each call with a time limit in seconds (where the system and the thread allow one)."""

    function: Callable[[Any], Any]
    limit: float = 1.0
    quick: bool = False

    def answers(self, data: Any, n: int, until: float = inf) -> Answers:
        found: list[Any] = []
        sink, fresh = _Nowhere(), _copier(data)
        with redirect_stdout(sink), redirect_stderr(sink), _alarm() as ring:
            for _ in range(n):
                found.append(one(self.function, fresh(), ring, self.limit))
                if len(found) >= LEAST and time.monotonic() > until:
                    break
        return of_objects(found)


def one(function: Callable[[Any], Any], data: Any, ring: Callable[[float], None], limit: float) -> Any:
    """What one call comes to."""
    try:
        ring(limit)
        try:
            return function(data)
        finally:
            ring(0)
    except _TooLong:
        return Raised(f"no answer within {limit:g} s")
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # whatever a black box raises is an answer
        return Raised(f"raises {type(raised).__name__}")


def player(mechanism: Any, limit: float = 1.0) -> Player:
    """How this mechanism is played."""
    if hasattr(mechanism, "answers"):
        return mechanism  # type: ignore[no-any-return]
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
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Nowhere(io.TextIOBase):
    """Takes any text and keeps none."""

    def write(self, text: str) -> int:
        return len(text)

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"
