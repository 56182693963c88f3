"""Deterministic replay: what every noise primitive of a question is given, on neighbouring tables, without any sampling.

The question is released as always, but with noises that write down what they are asked to hide and add nothing. If one unit
moves what a noise was given by more, in any norm, than the sensitivity in that noise's own loss, the price is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.events import DiscreteLaplaceEvent, GaussianEvent
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise import Bits
from discreet.query.answer import ExactTotals, Keys, Receipt, release
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Noise
from discreet.query.statistics import Statistic
from discreet.units import Sensitivity

NoiseInputs: TypeAlias = "Mapping[Any, int | float]"
"""What one noise was given, by key and place; what is not there is zero."""


class Engine(Protocol):
    """Whatever adds up exact integers."""

    def run(self, bounded: BoundedQuery) -> ExactTotals:
        """The integers behind a question."""
        ...


@dataclass(frozen=True, slots=True)
class NoiseTrace:
    """What each noise of a question was given."""

    statistics: Mapping[Statistic, NoiseInputs]
    selection: NoiseInputs  # distinct units per key, where keys are selected by them


def trace_noise_inputs(measurement: Measurement, engine: Engine) -> NoiseTrace:
    """Release the question once, listening instead of adding noise."""
    heard: dict[Statistic, list[NDArray[np.int64]]] = {measure: [] for measure, _ in measurement.noises}
    units: dict[Keys, int] = {}
    exact = engine.run(measurement.bounded)
    listening = replace(
        measurement,
        noises=tuple((measure, _make_recording(noise, heard[measure])) for measure, noise in measurement.noises),
        selection=None if measurement.selection is None else _make_selecting_all(measurement.selection),
    )
    seen = _record_units(exact.totals, units) if measurement.selection is not None else exact.totals
    answer = release(listening, replace(exact, totals=seen), Receipt(0, listening.event))
    keys = [key for key, _ in answer.rows]
    totals = {measure: _index_by_key(keys, np.concatenate(parts)) for measure, parts in heard.items() if parts}
    return NoiseTrace(totals, units)


def find_violations(measurement: Measurement, before: NoiseTrace, after: NoiseTrace) -> list[str]:
    """The noises that were moved further than their losses say, and in which norm."""
    found = []
    for measure, noise in measurement.noises:
        fact = noise.event(measurement.bounded.sensitivity(measure))
        found += find_exceeded_norms(
            repr(measure), before.statistics.get(measure, {}), after.statistics.get(measure, {}), _stated_sensitivity(fact)
        )
    if measurement.selection is not None:
        groups = measurement.bounded.max_groups * measurement.bounded.neighbours.differing_units
        found += find_exceeded_norms("distinct units", before.selection, after.selection, Sensitivity(l0=groups, linf=1))
    return found


def _stated_sensitivity(fact: DiscreteLaplaceEvent | GaussianEvent) -> Sensitivity:
    return fact.sensitivity


def find_exceeded_norms(name: str, before: NoiseInputs, after: NoiseInputs, limit: Sensitivity) -> list[str]:
    """The norms in which some numbers moved further than a sensitivity allows."""
    steps = [abs(Fraction(before.get(key, 0)) - Fraction(after.get(key, 0))) for key in {**before, **after}]
    steps = [step for step in steps if step]
    norms = {
        "l0": (len(steps), limit.l0),
        "l1": (sum(steps), limit.l1),
        "l2": (sum(step * step for step in steps), limit.l2_squared),
        "linf": (max(steps, default=Fraction(0)), limit.linf),
    }
    return [f"{norm} of {name}" for norm, (seen, most) in norms.items() if most is not None and seen > most]


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
    """Laplace noise that writes down what it is given and adds nothing."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _RecordingGaussian(Gaussian):
    """The same for Gaussian noise."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _SelectsAll(Threshold):
    """A selection that shows every key."""

    __slots__ = ()

    def release(self, values: Any, bits: Bits | None = None) -> Any:
        return np.ones(np.shape(values), bool)


def _make_recording(noise: Noise, given: list[NDArray[np.int64]]) -> Noise:
    heard: _RecordingLaplace | _RecordingGaussian
    heard = _RecordingLaplace(noise.scale) if isinstance(noise, Laplace) else _RecordingGaussian(noise.sigma)
    object.__setattr__(heard, "given", given)
    return heard


def _make_selecting_all(selection: Threshold) -> Threshold:
    return _SelectsAll(selection.scale, selection.threshold)
