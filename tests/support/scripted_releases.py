"""Replay of a fit without noise: what each release was given, along a path that is the same for all data sets.

A fit is adaptive: which sums it computes next depends on what was released before. Its sensitivity is a statement about
equal releases before. So the noise here writes down the exact sums that it is given and releases numbers of a script,
whatever the sums are: two neighbours are then compared along the same path.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.learn.estimator import PrivateEstimator
from discreet.learn.records import to_records
from discreet.noise import SYSTEM


@dataclass
class ScriptedNoise:
    """Stands for a Gaussian: keeps what it is given, releases numbers of a seed on the scale of its σ."""

    sigma: Fraction
    seed: int
    given: list[np.ndarray] = field(default_factory=list)

    def release(self, exact: Any, bits: Any = None) -> Any:
        """Keep the exact sums, and release the next numbers of the script."""
        assert exact.dtype == np.int64
        self.given.append(exact.copy())
        script = np.random.default_rng([self.seed, len(self.given)])
        return np.rint(script.normal(size=exact.shape) * float(self.sigma)).astype(np.int64)


def replay(model: PrivateEstimator, features: Any, target: Any, seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Return the exact sums that each release of a fit was given, by its name."""
    records = to_records(features, target)
    declared = model._declare(records)
    records.check(declared.features, declared.target)
    plan = model._plan(declared, model._list_vectors(declared))
    noises: Any = {name: ScriptedNoise(each.sigma, seed) for name, each in plan.noises.items()}
    released = model._release(declared, records.read(declared.features, declared.target), noises, SYSTEM)
    assert {name: each.shape for name, each in released.items()} == dict(model._list_shapes(declared))
    return {name: each.given for name, each in noises.items()}


def measure_distance(one: list[np.ndarray], other: list[np.ndarray]) -> int:
    """Return the largest squared distance of two sequences of exact sums, in integers of any size."""
    assert [each.shape for each in one] == [each.shape for each in other]
    return max(sum(int(d) ** 2 for d in (a - b).flat) for a, b in zip(one, other, strict=True))
