"""The release schedule: at which moment the answer to a query leaves, fixed before any row is read.

**The threat.** How long a query runs depends on the rows. An analyst who sees when an answer arrives learns about them,
whatever ε was paid; random delays average out, and padding to a minimum shows everything above it.

**What is promised.** A table has *classes*, such as 1 s, 5 s and 30 s. The class of a query follows from its shape, the
declared number of rows and how long invented rows of that number took: from nothing that is in the table. An answer, or the
constant text of a failure, leaves at *accepted + class*, whether it was ready long before or not. What is not ready then
leaves at the moment of the next class; each of these overruns is counted, and three pause the account. After the last class
the ask fails with the constant text and stays charged. An answer that was released before leaves at once: that it exists is
no secret.

**What is not.** The choice among the classes after an overrun tells about log2 of their number in bits. Where workers have
more to do than they can, the asks of one analyst delay those of another: the moments then move for all of them.

The web process imports this module to tell an analyst when an answer will arrive, so it knows neither engine nor ledger.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil
from threading import Condition, Event

from discreet.errors import BadParameter
from discreet.query.contribution import BoundedQuery

OFF = "none"
"""In place of classes: answers leave when they are ready."""

MARGIN = 4.0
"""A class must be this many times as long as the same query took over invented rows: a busy machine is slower."""

MAX_OVERRUNS = 3
"""After this many overruns of one account no ask of it is taken until a steward resumes it."""

STANDARD_CLASSES = (1.0, 5.0, 30.0, 300.0)
"""What is proposed, from the first class that holds the simplest query on."""

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")


class JumpFreeClock:
    """Seconds since 1970 that never jump: the wall clock when the process started, and a monotonic clock since.

    A person who sets the clock of the machine back or forward moves no moment of an answer. A worker reads every moment from
    it, and waits for every moment with it.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Return the time."""
        return self._monotonic() + self._offset

    def wait(self, changed: Event | Condition, until: float | None) -> bool:
        """Wait until a moment, or without an end; less long if `changed` is set or notified. Return whether it was."""
        return changed.wait(None if until is None else max(0.0, until - self.now()))


def read_duration(text: object, name: str = "schedule") -> float:
    """Return the seconds of a text such as "5s".

    >>> read_duration("1s"), read_duration("2 m"), read_duration("50ms")
    (1.0, 120.0, 0.05)
    """
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or float(found[1]) == 0:
        raise BadParameter(name, repr(text), "not a duration", 'write "500ms", "5s", "2m" or "1h"')
    return float(found[1]) * UNIT_SECONDS[found[2]]


def format_duration(seconds: float) -> str:
    """Return the text of seconds.

    >>> format_duration(0.05), format_duration(5.0), format_duration(90.0), format_duration(120.0)
    ('50ms', '5s', '90s', '2m')
    """
    unit = "ms" if seconds < 1 else next((u for u in ("h", "m") if seconds % UNIT_SECONDS[u] == 0), "s")
    return f"{seconds / UNIT_SECONDS[unit]:g}{unit}"


def read_classes(value: object, name: str = "schedule") -> tuple[float, ...]:
    """Return the classes of a schedule: a list of durations, or "none" for no schedule.

    >>> read_classes(["1s", "5s"]), read_classes("none")
    ((1.0, 5.0), ())
    """
    if value == OFF:
        return ()
    if not isinstance(value, list | tuple) or not value:
        raise BadParameter(name, repr(value), "not a list of durations", 'write schedule = ["1s", "5s"], or "none"')
    classes = tuple(read_duration(each, name) for each in value)
    if any(first >= second for first, second in pairwise(classes)):
        raise BadParameter(name, repr(value), "each class must be longer than the one before it", "sort them")
    return classes


def count_passes(bounded: BoundedQuery) -> int:
    """Return how often a query goes over the table, roughly: more where contributions are bounded, because rows are then
    ranked within each unit, where public tables are joined, and once more for each histogram. It looks at the query and the
    policy alone."""
    ranking = 1 if bounded.table.unique else 3
    statements = (1 if bounded.totals else 0) + 2 * len(bounded.cell_counts)
    return statements * (ranking + len(bounded.query.joins))


def choose_class(classes: Sequence[float], seconds_per_pass: float, bounded: BoundedQuery) -> float | None:
    """Return the class of a query in seconds: the first that is `MARGIN` times as long as its passes would take, or the
    last. None if the schedule is off."""
    if not classes:
        return None
    needed = MARGIN * seconds_per_pass * count_passes(bounded)
    return next((each for each in classes if each >= needed), classes[-1])


def find_end_of_class(
    classes: Sequence[float], seconds_per_pass: float, queries: Iterable[BoundedQuery], elapsed: float
) -> float | None:
    """Return how many seconds after its start a publication leaves: the first class, or multiple of the last one, that is
    `MARGIN` times as long as the passes of all its queries would take, and not shorter than what has elapsed. None if the
    schedule is off.

    >>> [find_end_of_class([1.0, 5.0], 0.0, [], elapsed) for elapsed in (0.5, 4.0, 11.0)]
    [1.0, 5.0, 15.0]
    """
    if not classes:
        return None
    least = max(elapsed, MARGIN * seconds_per_pass * sum(map(count_passes, queries)))
    return next((each for each in classes if each >= least), classes[-1] * ceil(least / classes[-1]))


def find_next_class(classes: Sequence[float], seconds: float) -> float | None:
    """Return the class after one that was overrun; None after the last."""
    return next((each for each in classes if each > seconds), None)


def count_slot_seconds(class_seconds: float, elapsed: float) -> float:
    """Return how long an ask keeps the slot of its worker: a share of its class, or as many shares as have elapsed before
    its statement began, which no row decides. The next job begins then, whether the statement has ended or not.

    >>> count_slot_seconds(1.0, 0.01), count_slot_seconds(1.0, 0.2), count_slot_seconds(1.0, 0.3)
    (0.25, 0.25, 0.5)
    """
    share = class_seconds / MARGIN
    return share * max(1, ceil(elapsed / share))


def can_be_made(class_seconds: float, left: float) -> bool:
    """Return whether an ask that begins now keeps a moment that is so many seconds away. Too near is one for which less is
    left than half of the share of its class that its slot is kept for: whether it were made would depend on the rows. Too
    far is one that the clock of another machine set.

    >>> can_be_made(1.0, 0.25), can_be_made(1.0, 0.1), can_be_made(1.0, -3.0), can_be_made(1.0, 3600.0)
    (True, False, False, False)
    """
    return class_seconds / MARGIN / 2 <= left <= class_seconds


def makes_moment(class_seconds: float | None, ahead: Iterable[float], slots: int) -> bool:
    """Return whether an ask that is taken now would be answered at its moment: what is running and waiting before it, each
    at the whole length of its class divided by `MARGIN`, fits into its class. An ask that would not is refused before it
    is charged: an answer that misses its moment tells about what it waited for.

    >>> makes_moment(1.0, [1.0, 1.0], slots=1), makes_moment(1.0, [1.0] * 8, slots=1), makes_moment(None, [9.0], 1)
    (True, False, True)
    """
    if class_seconds is None:
        return True
    return sum(ahead) / (MARGIN * max(slots, 1)) + class_seconds / MARGIN <= class_seconds


def measure_backlog(accepted: Iterable[tuple[float, float]], slots: int, now: float) -> float:
    """Return what is still ahead of an ask that is taken now, in seconds of classes.

    `accepted` are the asks that have not ended: when each was accepted, and its class. Each adds its class, and `slots`
    slots work off `MARGIN` seconds of classes per second each. So what is ahead follows from moments of acceptance and from
    classes alone: whether an ask is refused for it tells nothing about how long a statement ran.

    >>> measure_backlog([(0.0, 1.0), (0.0, 1.0)], slots=1, now=0.0), measure_backlog([(0.0, 1.0)], slots=1, now=0.125)
    (2.0, 0.5)
    >>> measure_backlog([(0.0, 1.0), (9.0, 1.0)], slots=1, now=9.0), measure_backlog([], slots=1, now=0.0)
    (1.0, 0.0)
    """
    ahead, before, rate = 0.0, now, MARGIN * max(slots, 1)
    for moment, class_seconds in sorted(accepted):
        ahead = max(0.0, ahead - rate * max(0.0, moment - before)) + class_seconds
        before = moment
    return max(0.0, ahead - rate * max(0.0, now - before))


def measure_share(accepted: Iterable[tuple[float, float]], slots: int, now: float) -> float:
    """Return what is ahead of an ask as in `measure_backlog`, of asks that have half of the slots.

    >>> measure_share([(0.0, 1.0)], slots=1, now=0.125), measure_share([(0.0, 1.0)], slots=1, now=0.5)
    (0.75, 0.0)
    """
    return measure_backlog([(moment, 2 * seconds) for moment, seconds in accepted], slots, now) / 2


def propose_classes(seconds_per_pass: float) -> tuple[float, ...]:
    """Return classes for a table whose invented rows take this long per pass: the standard ones, from the first on in which
    a query of one pass fits.

    >>> propose_classes(0.01), propose_classes(0.5), propose_classes(1000.0)
    ((1.0, 5.0, 30.0), (5.0, 30.0, 300.0), (4000.0, 20000.0))
    """
    needed = MARGIN * seconds_per_pass
    fitting = tuple(each for each in STANDARD_CLASSES if each >= needed)
    return fitting[:3] if fitting else (float(round(needed)), float(round(5 * needed)))
