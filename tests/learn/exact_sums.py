"""A release without noise: what a model sums over records, to be compared between neighbours in whole numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.learn.charging import NoisyVector
from discreet.learn.estimator import Declaration, PrivateEstimator
from discreet.learn.records import Records, to_records
from discreet.units import Neighbours

EXTREME = (-1e300, -1.0, -0.5, 0.0, 0.25, 1.0, 1e300, float("nan"), float("inf"), None, "text")
"""Values of a column with the bounds (−1, 1), and what is none."""


@dataclass(frozen=True)
class NoNoise:
    """Stands for a Gaussian, and adds nothing."""

    sigma: Fraction = Fraction(1)

    def release(self, values: Any, bits: Any = None) -> Any:
        """Return the sums as they are."""
        return np.array(values)


def declare(
    model: PrivateEstimator, records: Records, neighbours: Neighbours
) -> tuple[Declaration, tuple[NoisyVector, ...]]:
    """Return what a model declares and lists, between such neighbours."""
    declared = model.set_params(neighbours=neighbours)._declare(records)
    return declared, model._list_vectors(declared)


def sum_exactly(model: PrivateEstimator, X: Any, y: Any = None, names: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    """Return what a model would release without noise."""
    records = to_records(X, y)
    declared = model._declare(records)
    noises: Any = {each.name: NoNoise() for each in model._list_vectors(declared)}
    return model._release(declared, records.read(declared.features, declared.target), noises, None)  # type: ignore[arg-type]


def measure_distance(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> int:
    """Return the squared distance of two exact sums, in integers of any size."""
    return sum(int(a - b) ** 2 for a, b in zip(one[name].ravel().tolist(), other[name].ravel().tolist(), strict=True))
