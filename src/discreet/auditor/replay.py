"""Deterministic replay: compare what every noise of a query is given on neighbouring tables, without sampling.

The query is run as usual, but with noises that record the exact values which they are given and add nothing. The cost of a
measurement follows from the sensitivities in its events. If one unit moves the values of a noise further, in any norm, than
the sensitivity in that noise's event, the cost is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.currencies import Receipt
from discreet.events import DiscreteLaplaceEvent, GaussianEvent
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise import Bits
from discreet.query.answer import ExactTotals, Keys, release
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Noise
from discreet.query.statistics import Statistic
from discreet.units import Sensitivity

NoiseInputs: TypeAlias = "Mapping[Any, int | float]"
"""The exact values that one noise was given, by group key and place; missing ones are zero."""


class Engine(Protocol):
    """What computes exact totals."""

    def run(self, bounded: BoundedQuery) -> ExactTotals:
        """Compute the exact totals of a query."""
        ...


@dataclass(frozen=True, slots=True)
class NoiseTrace:
    """What each noise of a query was given."""

    statistics: Mapping[Statistic, NoiseInputs]
    selection: NoiseInputs  # distinct units per key, where partition selection uses them


def trace_noise_inputs(measurement: Measurement, engine: Engine) -> NoiseTrace:
    """Run a measurement once with noises that record instead of adding noise."""
    recorded: dict[Statistic, list[NDArray[np.int64]]] = {statistic: [] for statistic, _ in measurement.noises}
    units: dict[Keys, int] = {}
    exact = engine.run(measurement.bounded)
    recording = replace(
        measurement,
        noises=tuple((statistic, _make_recording(noise, recorded[statistic])) for statistic, noise in measurement.noises),
        selection=None if measurement.selection is None else _make_selecting_all(measurement.selection),
    )
    totals = _record_units(exact.totals, units) if measurement.selection is not None else exact.totals
    answer = release(recording, replace(exact, totals=totals), Receipt(0, recording.event))
    keys = [key for key, _ in answer.rows]
    inputs = {statistic: _index_by_key(keys, np.concatenate(parts)) for statistic, parts in recorded.items() if parts}
    return NoiseTrace(inputs, units)


def find_violations(measurement: Measurement, before: NoiseTrace, after: NoiseTrace) -> list[str]:
    """Return the noises that were moved further than the sensitivities in their events, and in which norm."""
    violations = []
    for statistic, noise in measurement.noises:
        event: DiscreteLaplaceEvent | GaussianEvent = noise.event(measurement.bounded.sensitivity(statistic))
        first, second = (trace.statistics.get(statistic, {}) for trace in (before, after))
        violations += find_exceeded_norms(repr(statistic), first, second, event.sensitivity)
    if measurement.selection is not None:
        groups = measurement.bounded.max_groups * measurement.bounded.neighbours.differing_units
        limit = Sensitivity(l0=groups, linf=1)
        violations += find_exceeded_norms("distinct units", before.selection, after.selection, limit)
    return violations


def find_exceeded_norms(name: str, before: NoiseInputs, after: NoiseInputs, limit: Sensitivity) -> list[str]:
    """Return the norms in which two sets of values differ by more than a sensitivity allows."""
    steps = [abs(Fraction(before.get(key, 0)) - Fraction(after.get(key, 0))) for key in {**before, **after}]
    steps = [step for step in steps if step]
    norms = {
        "l0": (len(steps), limit.l0),
        "l1": (sum(steps), limit.l1),
        "l2": (sum(step * step for step in steps), limit.l2_squared),
        "linf": (max(steps, default=Fraction(0)), limit.linf),
    }
    return [f"{norm} of {name}" for norm, (distance, bound) in norms.items() if bound is not None and distance > bound]


def _index_by_key(keys: list[Keys], given: NDArray[np.int64]) -> dict[Any, int]:
    table = given.reshape(len(keys), -1)
    places = zip(*np.nonzero(table), strict=True)
    return {(keys[i], int(j)): int(table[i, j]) for i, j in places}


def _record_units(
    totals: Iterable[tuple[tuple[int, ...], Keys]], units: dict[Keys, int]
) -> Iterator[tuple[tuple[int, ...], Keys]]:
    for row, keys in totals:
        units[keys] = row[-1]
        yield row, keys


class _RecordingLaplace(Laplace):
    """Laplace noise that records what it is given and adds nothing."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _RecordingGaussian(Gaussian):
    """Gaussian noise that records what it is given and adds nothing."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _SelectsAll(Threshold):
    """A partition selection that keeps every key."""

    __slots__ = ()

    def release(self, values: Any, bits: Bits | None = None) -> Any:
        return np.ones(np.shape(values), bool)


def _make_recording(noise: Noise, given: list[NDArray[np.int64]]) -> Noise:
    recording: _RecordingLaplace | _RecordingGaussian
    recording = _RecordingLaplace(noise.scale) if isinstance(noise, Laplace) else _RecordingGaussian(noise.sigma)
    object.__setattr__(recording, "given", given)
    return recording


def _make_selecting_all(selection: Threshold) -> Threshold:
    return _SelectsAll(selection.scale, selection.threshold)
