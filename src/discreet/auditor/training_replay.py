"""Replay of training without noise: compare in whole numbers what every noise is given on neighbouring data.

A model is fitted as usual, but its noises write down the integers that they are given. On the neighbouring data they return
what the first run released, so that both runs follow the same path, and each draw is compared on its own: that is what
adaptive composition asks for. If one record moves the integers of a draw further than the sensitivity that was charged for,
if a draw has another shape, or there are more of them than were paid for, the cost is wrong. No statistics are involved.

`replay_estimator` is for the models of `discreet.learn`; `trainer_replay` does the same for `PrivateTrainer`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.finding import Check
from discreet.errors import BadParameter
from discreet.learn.charging import NoisyVector
from discreet.learn.estimator import PrivateEstimator
from discreet.learn.records import to_records
from discreet.mechanisms import Gaussian
from discreet.noise import SYSTEM, Bits
from discreet.noise.bits import Ints
from discreet.units import Neighbours

MAX_REMOVED = 8
"""So many records are removed, one at a time, unless others are named."""


def squared_distance(one: Ints, other: Ints) -> int:
    """Return ‖one − other‖² of arrays of integers, exactly.

    >>> squared_distance(np.array([2**62, 0]), np.array([-(2**62), 3])) == 2**126 + 9
    True
    """
    differing = np.flatnonzero(one.ravel() != other.ravel())
    pairs = zip(one.ravel()[differing].tolist(), other.ravel()[differing].tolist(), strict=True)
    return sum((int(a) - int(b)) ** 2 for a, b in pairs)


@dataclass
class NoiseTrace:
    """What one noise was given, draw by draw, and what it returned instead of the noisy values."""

    sigma: Fraction
    given: list[Ints] = field(default_factory=list)
    returned: list[Ints] = field(default_factory=list)


class _ScriptedGaussian(Gaussian):
    """Gaussian noise that writes down what it is given, and returns what a script says, or the same without noise."""

    __slots__ = ("script", "trace")
    trace: NoiseTrace
    script: Sequence[Ints]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        exact = np.array(values)
        self.trace.given.append(exact)
        place = len(self.trace.returned)
        scripted = self.script[place] if place < len(self.script) else exact
        self.trace.returned.append(scripted)
        return scripted.copy()


def _make_scripted(noise: Gaussian, script: Sequence[Ints]) -> _ScriptedGaussian:
    scripted = _ScriptedGaussian(noise.sigma)
    object.__setattr__(scripted, "trace", NoiseTrace(noise.sigma))
    object.__setattr__(scripted, "script", script)
    return scripted


Traces = Mapping[str, NoiseTrace]


def trace_fit(model: PrivateEstimator, features: Any, target: Any = None, script: Traces | None = None) -> Traces:
    """Fit a model without noise and without a charge; return what its noises were given. The model is not changed."""
    records = to_records(features, target)
    declared = model._declare(records)
    records.check(declared.features, declared.target)
    plan = model._plan(declared, model._list_vectors(declared))
    known = {} if script is None else script
    noises = {
        name: _make_scripted(noise, known[name].returned if name in known else ()) for name, noise in plan.noises.items()
    }
    model._release(declared, records.read(declared.features, declared.target), noises, SYSTEM)
    return {name: noise.trace for name, noise in noises.items()}


def find_moved_too_far(vectors: Iterable[NoisyVector], before: Traces, after: Traces) -> str:
    """Return in words what one unit changed beyond what was charged for; an empty text if nothing."""
    for vector in vectors:
        one, other = before[vector.name], after[vector.name]
        if len(one.given) != len(other.given) or one.sigma != other.sigma:
            return f"the noise of {vector.name} is drawn {len(one.given)} and {len(other.given)} times"
        if len(one.given) > vector.times:
            return f"{vector.name} is released {len(one.given)} times and paid for {vector.times} times"
        for step, (a, b) in enumerate(zip(one.given, other.given, strict=True)):
            if a.shape != b.shape or a.dtype.kind not in "iu":
                return f"{vector.name} has shapes {a.shape} and {b.shape} in draw {step + 1}, or is no array of integers"
            if (moved := squared_distance(a, b)) > vector.l2_squared:
                ratio = float(Fraction(moved) / vector.l2_squared) ** 0.5
                return f"one record moves {vector.name} by {ratio:.4g} times the stated norm in draw {step + 1}"
    return ""


def _find_difference(before: Traces, after: Traces) -> str:
    for name, one in before.items():
        given = after[name].given
        if len(one.given) != len(given) or not all(np.array_equal(a, b) for a, b in zip(one.given, given, strict=True)):
            return name
    return ""


def replay_estimator(
    model: PrivateEstimator, features: Any, target: Any = None, *, removed: Sequence[int] | None = None
) -> dict[str, Check]:
    """Replay a model of `discreet.learn` on data without one record, in another order, and with a record that has no target.

    Nothing is charged and the model stays as it is. The rows are the caller's own, for example invented ones.

    >>> from discreet.learn import LinearRegression
    >>> model = LinearRegression(epsilon=1, delta=1e-6, bounds={"x": (0, 1)}, target_bounds=(0, 1), expected=100, steps=3)
    >>> x, y = np.linspace(-1, 2, 20), np.linspace(0, 5, 20)
    >>> [check.violation for check in replay_estimator(model, {"x": x}, y).values()]
    [False, False, False]
    """
    count = _count_rows(features)
    declared = model._declare(to_records(features, target))
    vectors = model._list_vectors(declared)
    everyone = np.arange(count)
    base = trace_fit(model, features, target)
    spaced = np.unique(np.linspace(0, count - 1, min(count, MAX_REMOVED)).astype(int)) if count else everyone
    chosen = spaced.tolist() if removed is None else removed
    replaces = declared.neighbours is Neighbours.REPLACE
    problem = ""
    for place in chosen:
        others = np.where(everyone == place, (place + 1) % count, everyone) if replaces else np.delete(everyone, place)
        after = trace_fit(model, *_take_rows(features, target, others), base)
        problem = problem or find_moved_too_far(vectors, base, after)
    norm = f"{len(chosen)} neighbouring data sets move every draw by at most the stated norm, in whole numbers"
    shuffled = trace_fit(model, *_take_rows(features, target, everyone[::-1]), base)
    moved = _find_difference(base, shuffled)
    checks = {
        "sensitivity": Check("sensitivity", problem, norm),
        "order": Check("order", f"{moved} depends on the order of the records" if moved else "", "the order has no effect"),
    }
    if target is not None and count:
        checks["no target"] = _check_missing_target(model, features, target, base, everyone)
    return checks


def _check_missing_target(
    model: PrivateEstimator, features: Any, target: Any, base: Traces, everyone: NDArray[np.int64]
) -> Check:
    """Add a record whose target is missing: it must contribute nothing."""
    more, _ = _take_rows(features, target, np.append(everyone, 0))
    longer = np.array([*np.asarray(target).tolist(), None], object)
    moved = _find_difference(base, trace_fit(model, more, longer, base))
    return Check(
        "no target", f"a record without a target changes {moved}" if moved else "", "a record without a target adds nothing"
    )


def _count_rows(features: Any) -> int:
    if isinstance(features, Mapping):
        return len(next(iter(features.values()), ()))
    try:
        return len(features)
    except TypeError:
        raise BadParameter(
            "rows", f"of type {type(features).__name__}", "a replay removes records, so it needs to see them",
            "give a frame, a dict of columns or an array of invented records",
        ) from None  # fmt: skip


def _take_rows(features: Any, target: Any, places: NDArray[np.int64]) -> tuple[Any, Any]:
    take: Callable[[Any], Any] = lambda column: np.asarray(column)[places]  # noqa: E731
    if isinstance(features, Mapping):
        rows: Any = {name: take(column) for name, column in features.items()}
    elif hasattr(features, "iloc"):
        rows = features.iloc[places]
    else:
        rows = features[places] if hasattr(features, "columns") else take(features)
    return rows, None if target is None else take(target)
