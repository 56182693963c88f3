"""Things to attack: wrong twins of right mechanisms, each with one fault, built on exact noise so that only the fault shows.

A twin states what it claims and inputs on which a fair opponent would try it. `CORRECT` holds the same designs without the
fault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.claims import Claim
from discreet.mechanisms import Gaussian, Laplace, SparseVector, TruncatedGeometric
from discreet.mechanisms.unsafe import Catastrophe, FloatLaplace, NameAndShame
from discreet.noise import SYSTEM, bernoulli, discrete_laplace
from discreet.noise.bits import SEED_BYTES, Keystream

Array = NDArray[Any]
SampleFunction = Callable[[Any, int], Any]


@dataclass(frozen=True)
class SampledMechanism:
    """A mechanism given by its sampler."""

    sample: SampleFunction


@dataclass(frozen=True)
class Target:
    """Something to audit: a mechanism, what it claims, and neighbouring inputs."""

    name: str
    mechanism: Any
    claim: Claim
    neighbours: tuple[tuple[Any, Any], ...]
    fault: str = ""


def draw_laplace(scale: Any, n: int) -> NDArray[np.int64]:
    """Exact noise."""
    return discrete_laplace(Fraction(scale), n)


def repeat_rows(data: Any, n: int) -> NDArray[np.int64]:
    """The same vector of counts n times."""
    return np.repeat(np.asarray(data, np.int64)[None], n, axis=0)


def make_noisy_counts(scale: Any) -> SampleFunction:
    """Laplace noise on every count."""
    return lambda data, n: repeat_rows(data, n) + draw_laplace(scale, n * len(data)).reshape(n, len(data))


# -- sparse vector: ten counts against a threshold of 0, c = 2, ε = 1: the wrong ones are [LSL17, Algs 3 to 6] --------------

ABOVE: tuple[tuple[Any, Any], ...] = (([0] * 10, [1] * 10), ([0] * 5 + [1] * 5, [1] * 5 + [0] * 5))
LAST: tuple[tuple[Any, Any], ...] = (([0] * 9 + [2], [1] * 9 + [1]), *ABOVE)
STOPS = 2


def _sparse(bar_scale: Any, scale: Any | None, *, stops: int | None = STOPS, numeric: bool = False) -> SampleFunction:
    def sample(data: Any, n: int) -> Array:
        values = repeat_rows(data, n)
        bar = draw_laplace(bar_scale, n)[:, None]
        heard = values if scale is None else values + draw_laplace(scale, values.size).reshape(values.shape)
        reached = heard >= bar
        over = np.cumsum(reached, axis=1) - reached >= (stops or values.shape[1] + 1)
        said = np.where(reached, heard + 1000 if numeric else 1, 0)
        return np.where(over, -1, said)

    return sample


SPARSE = [
    Target(
        "sparse vector that returns the noisy value",
        SampledMechanism(_sparse(2, 2, stops=1, numeric=True)),
        1,
        LAST,
        "value",
    ),
    Target(
        "sparse vector whose noise ignores the number of stops",
        SampledMechanism(_sparse(4, Fraction(4, 3))),
        1,
        ABOVE,
        "scale",
    ),
    Target(
        "sparse vector without noise on the answers", SampledMechanism(_sparse(2, None, stops=None)), 1, ABOVE, "no noise"
    ),
    Target("sparse vector that never stops", SampledMechanism(_sparse(2, 2, stops=None)), 1, ABOVE, "no stop"),
]


# -- counts, histograms, selection ------------------------------------------------------------------------------------------


def _max_value(data: Any, n: int) -> Array:
    return np.asarray(make_noisy_counts(2)(data, n).max(axis=1))


def _resample_until_inside(data: Any, n: int) -> Array:
    """Noise drawn again until the result lies in [0, 10]: the tails are cut off, and the scaling depends on the input."""
    found = np.full(n, -1, np.int64)
    while (missing := np.flatnonzero((found < 0) | (found > 10))).size:
        found[missing] = data + draw_laplace(1, missing.size)
    return found


def _count_all_rows(data: Any, n: int) -> Array:
    """Counts rows, with noise for one row per person; a person here may have three."""
    return np.asarray(len(data) + draw_laplace(1, n))


def _clamp_after_noise(data: Any, n: int) -> Array:
    return np.asarray(np.clip(round(sum(data)) + draw_laplace(1, n), 0, 20))


def _divide_by_true_count(data: Any, n: int) -> Array:
    return np.asarray((sum(data) + draw_laplace(1, n)) / max(1, len(data)))


def _answer_twenty_times(data: Any, n: int) -> Array:
    """Twenty answers with fresh noise for the price of one."""
    return np.asarray(make_noisy_counts(1)([data] * 20, n))


def _count_present_keys(data: Any) -> Any:
    """Noisy counts of the keys that somebody has."""
    return {key: data.count(key) + int(draw_laplace(1, 1)[0]) for key in sorted(set(data))}


# -- strange records --------------------------------------------------------------------------------------------------------


def _nan_sum(data: Any) -> Any:
    clamped = [x if isnan(x) else min(1.0, max(0.0, x)) for x in data]
    return Laplace(1).release(0) + sum(clamped)


def _raises(data: Any) -> Any:
    if any(x < 0 for x in data):
        raise ValueError("negative")
    return len(data) + Laplace(1).release(0)


# -- floats -----------------------------------------------------------------------------------------------------------------


def _float_normal(data: Any, n: int) -> Array:
    return np.asarray(data + 2 * np.random.default_rng(SYSTEM.words(4)).normal(size=n))


def _round_before_adding(data: Any, n: int) -> Array:
    return np.asarray(data + np.round(draw_laplace(2000, n) / 1000, 3))


# -- randomness -------------------------------------------------------------------------------------------------------------


def _stream(name: int) -> Keystream:
    return Keystream(lambda: name.to_bytes(SEED_BYTES, "little"), tainted=True)


def _same_seed(data: Any) -> Any:
    return Laplace(2).release(data, _stream(7))


class _OncePerProcess:
    """Noise drawn when the program starts, and used for every answer."""

    def __init__(self) -> None:
        self.noise = int(draw_laplace(10, 1)[0])

    def __call__(self, data: Any) -> Any:
        return data + self.noise


@cache
def _states() -> Array:
    return np.array([Laplace(20).release(0, _stream(1000 + k)) for k in range(256)])


def _short_period(data: Any, n: int) -> Array:
    """A generator with 256 states."""
    return np.asarray(data + _states()[(SYSTEM.words(n) >> np.uint64(56)).astype(np.int64)])


# -- failures that δ must cover ---------------------------------------------------------------------------------------------


def _catastrophe(delta: Any) -> SampleFunction:
    return lambda data, n: np.where(bernoulli(Fraction(delta), n), data, -1)


def _short_gaussian(share: Fraction) -> Target:
    right = Gaussian.for_epsilon(1, 1e-6, sensitivity=1)
    name = f"Gaussian {float(1 - share):.0%} short, against its curve"
    return Target(name, Gaussian(right.sigma * share), right.event(1), ((0, 1),), "σ")


MUTANTS = [
    Target("Laplace 5% short", Laplace(Fraction(95, 100)), 1, ((0, 1),), "scale"),
    _short_gaussian(Fraction(80, 100)),
    _short_gaussian(Fraction(95, 100)),
    Target(
        "Laplace in doubles",
        SampledMechanism(lambda x, n: FloatLaplace(2).release(np.full(n, x))),
        0.5,
        ((0.0, 1.0),),
        "floats",
    ),
    Target(
        "Gaussian in doubles", SampledMechanism(_float_normal), Gaussian(2).event(1), ((0.0, 1.0), (0.0, 1 / 3)), "floats"
    ),
    Target(
        "noise rounded before it is added", SampledMechanism(_round_before_adding), 0.5, ((0.0, 1 / 3), (0.0, 1.0)), "grid"
    ),
    *SPARSE,
    Target("noisy max that returns the value", SampledMechanism(_max_value), 1, (([0] * 5, [1] * 5),), "value"),
    Target(
        "histogram with the sensitivity of one cell",
        SampledMechanism(make_noisy_counts(1)),
        1,
        (([5, 5, 5, 5], [4, 6, 5, 5]),),
        "sensitivity",
    ),
    Target("catastrophe more often than δ", SampledMechanism(_catastrophe(0.01)), (0, 0.005), ((3, 4),), "δ"),
    Target("name and shame more often than δ", NameAndShame(0.02), (1, 0.005), ((["ann", "bob"], ["ann"]),), "δ"),
    Target("a sum that hands NaN on", _nan_sum, 1, (([0.5], [0.5, nan]), ([0.5], [0.5, 1.0])), "NaN"),
    Target("an exception on one record", _raises, 1, (([1], [1, 1]), ([1], [1, -1])), "exception"),
    Target("no bound on contributions", SampledMechanism(_count_all_rows), 1, ((["a"], ["a", "b", "b", "b"]),), "bound"),
    Target("keys that somebody has", _count_present_keys, 1, ((["a", "a"], ["a", "a", "b"]),), "keys"),
    Target("truncated geometric with its tails cut off", SampledMechanism(_resample_until_inside), 1, ((0, 1),), "tails"),
    Target("one seed for every call", _same_seed, 0.5, ((0, 1),), "seed"),
    Target("noise drawn once per process", _OncePerProcess(), 0.1, ((0, 1),), "seed"),
    Target("a generator with 256 states", SampledMechanism(_short_period), 0.05, ((0, 1),), "period"),
    Target("a sum clamped after the noise", SampledMechanism(_clamp_after_noise), 1, (([1, 1], [1, 1, 10]),), "clamp"),
    Target("a mean over the true number", SampledMechanism(_divide_by_true_count), 1, (([1, 1, 1], [1, 1, 1, 1]),), "n"),
    Target("twenty answers for the price of one", SampledMechanism(_answer_twenty_times), 1, ((0, 1),), "composition"),
]
"""Every one of these is to be caught."""

_SPARSE_RIGHT = SparseVector.for_epsilon(1, sensitivity=1, threshold=0, most=STOPS)
_TRUNCATED = TruncatedGeometric(1, 0, 10)

CORRECT = [
    Target("Laplace", Laplace(1), 1, ((0, 1),)),
    Target("Gaussian", Gaussian(4), Gaussian(4).event(1), ((0, 1),)),
    Target("sparse vector", SampledMechanism(lambda x, n: _SPARSE_RIGHT.run_batch(repeat_rows(x, n))), 1, ABOVE),
    Target("histogram of disjoint cells", SampledMechanism(make_noisy_counts(1)), 1, (([5, 5, 5, 5], [4, 5, 5, 5]),)),
    Target("truncated geometric", _TRUNCATED, 1, ((0, 1), (9, 10))),
    Target(
        "place of the noisy max",
        SampledMechanism(lambda x, n: make_noisy_counts(2)(x, n).argmax(axis=1)),
        1,
        (([0] * 5, [1, 0, 0, 0, 0]),),
    ),
    Target("catastrophe as often as δ", SampledMechanism(_catastrophe(0.01)), (0, 0.01), ((3, 4),)),
    Target("catastrophe, called", Catastrophe(0.02).release, (0, 0.02), ((["ann"], ["bob"]),)),
    Target("laplace on reals", Laplace(Fraction(21, 10)), 0.5, ((0.0, 1.0), (0.25, 1 / 3))),
]
"""None of these is."""
