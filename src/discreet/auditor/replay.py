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

from discreet.loss import DiscreteLaplaceLoss, GaussianLoss
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.noise import Bits
from discreet.query.bound import Bounded
from discreet.query.groups import Exact, Keys
from discreet.query.measure import Measurement, Noise
from discreet.query.measures import Measure
from discreet.query.release import Receipt, release
from discreet.units import Sensitivity

Given: TypeAlias = "Mapping[Any, int | float]"
"""What one noise was given, by key and place; what is not there is zero."""


class Engine(Protocol):
    """Whatever adds up exact integers."""

    def exact(self, bounded: Bounded) -> Exact:
        """The integers behind a question."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """What each noise of a question was given."""

    totals: Mapping[Measure, Given]
    selection: Given  # distinct units per key, where keys are selected by them


def record(measurement: Measurement, engine: Engine) -> Record:
    """Release the question once, listening instead of adding noise."""
    heard: dict[Measure, list[NDArray[np.int64]]] = {measure: [] for measure, _ in measurement.noises}
    units: dict[Keys, int] = {}
    exact = engine.exact(measurement.bounded)
    listening = replace(
        measurement,
        noises=tuple((measure, _listener(noise, heard[measure])) for measure, noise in measurement.noises),
        selection=None if measurement.selection is None else _showing(measurement.selection),
    )
    seen = _noting(exact.totals, units) if measurement.selection is not None else exact.totals
    answer = release(listening, replace(exact, totals=seen), Receipt(0, listening.loss))
    keys = [key for key, _ in answer.rows]
    totals = {measure: _by_key(keys, np.concatenate(parts)) for measure, parts in heard.items() if parts}
    return Record(totals, units)


def breaches(measurement: Measurement, before: Record, after: Record) -> list[str]:
    """The noises that were moved further than their losses say, and in which norm."""
    found = []
    for measure, noise in measurement.noises:
        fact = noise.loss(measurement.bounded.sensitivity(measure))
        found += beyond(repr(measure), before.totals.get(measure, {}), after.totals.get(measure, {}), _stated(fact))
    if measurement.selection is not None:
        groups = measurement.bounded.groups * measurement.bounded.neighbours.changes
        found += beyond("distinct units", before.selection, after.selection, Sensitivity(l0=groups, linf=1))
    return found


def _stated(fact: DiscreteLaplaceLoss | GaussianLoss) -> Sensitivity:
    return fact.sensitivity


def beyond(name: str, before: Given, after: Given, limit: Sensitivity) -> list[str]:
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


def _by_key(keys: list[Keys], given: NDArray[np.int64]) -> dict[Any, int]:
    table = given.reshape(len(keys), -1)
    places = zip(*np.nonzero(table), strict=True)
    return {(keys[i], int(j)): int(table[i, j]) for i, j in places}


def _noting(
    totals: Iterable[tuple[tuple[int, ...], Keys]], units: dict[Keys, int]
) -> Iterator[tuple[tuple[int, ...], Keys]]:
    for row, keys in totals:
        units[keys] = row[-1]
        yield row, keys


class _HeardLaplace(Laplace):
    """Laplace noise that writes down what it is given and adds nothing."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _HeardGaussian(Gaussian):
    """The same for Gaussian noise."""

    __slots__ = ("given",)
    given: list[NDArray[np.int64]]

    def release(self, values: Any, bits: Bits | None = None, **more: Any) -> Any:
        self.given.append(np.array(values))
        return values


class _ShowsAll(Threshold):
    """A selection that shows every key."""

    __slots__ = ()

    def release(self, values: Any, bits: Bits | None = None) -> Any:
        return np.ones(np.shape(values), bool)


def _listener(noise: Noise, given: list[NDArray[np.int64]]) -> Noise:
    heard: _HeardLaplace | _HeardGaussian
    heard = _HeardLaplace(noise.scale) if isinstance(noise, Laplace) else _HeardGaussian(noise.sigma)
    object.__setattr__(heard, "given", given)
    return heard


def _showing(selection: Threshold) -> Threshold:
    return _ShowsAll(selection.scale, selection.threshold)
