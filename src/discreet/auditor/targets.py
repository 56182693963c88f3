"""Mechanisms to audit: mutants with one fault each, and the correct designs.

Mutants are built on exact noise, so that only the fault shows. Each states its claim, the neighbouring inputs on which to
try it, and the fault. To add one, add a `Target` to `MUTANTS`, which an audit must refute, or to `CORRECT`, which it must
not.
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
    """A mechanism given by its sampler: `sample(input, n)` returns n outputs."""

    sample: SampleFunction


@dataclass(frozen=True)
class Target:
    """A mechanism, its claim, neighbouring inputs, and its fault if it has one."""

    name: str
    mechanism: Any
    claim: Claim
    neighbours: tuple[tuple[Any, Any], ...]
    fault: str = ""


def draw_laplace(scale: Any, n: int) -> NDArray[np.int64]:
    """Draw exact discrete Laplace noise."""
    return discrete_laplace(Fraction(scale), n)


def repeat_rows(data: Any, n: int) -> NDArray[np.int64]:
    """Repeat a vector of counts n times."""
    return np.repeat(np.asarray(data, np.int64)[None], n, axis=0)


def make_noisy_counts(scale: Any) -> SampleFunction:
    """Return a sampler that adds Laplace noise to every count."""
    return lambda data, n: repeat_rows(data, n) + draw_laplace(scale, n * len(data)).reshape(n, len(data))


# -- sparse vector: ten counts against a threshold of 0, c = 2, ε = 1; the mutants are [LSL17, Algs 3 to 6] -----------------

ABOVE: tuple[tuple[Any, Any], ...] = (([0] * 10, [1] * 10), ([0] * 5 + [1] * 5, [1] * 5 + [0] * 5))
LAST: tuple[tuple[Any, Any], ...] = (([0] * 9 + [2], [1] * 9 + [1]), *ABOVE)
STOPS = 2


def _sparse(bar_scale: Any, scale: Any | None, *, stops: int | None = STOPS, numeric: bool = False) -> SampleFunction:
    def sample(data: Any, n: int) -> Array:
        values = repeat_rows(data, n)
        bar = draw_laplace(bar_scale, n)[:, None]
        noisy = values if scale is None else values + draw_laplace(scale, values.size).reshape(values.shape)
        above = noisy >= bar
        stopped = np.cumsum(above, axis=1) - above >= (stops or values.shape[1] + 1)
        outputs = np.where(above, noisy + 1000 if numeric else 1, 0)
        return np.where(stopped, -1, outputs)

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
        "sparse vector with noise for one stop instead of two",
        SampledMechanism(_sparse(4, Fraction(4, 3))),
        1,
        ABOVE,
        "scale",
    ),
    Target(
        "sparse vector without noise on the queries", SampledMechanism(_sparse(2, None, stops=None)), 1, ABOVE, "no noise"
    ),
    Target("sparse vector that never stops", SampledMechanism(_sparse(2, 2, stops=None)), 1, ABOVE, "no stop"),
]


# -- counts, histograms, selection ------------------------------------------------------------------------------------------


def _max_value(data: Any, n: int) -> Array:
    return np.asarray(make_noisy_counts(2)(data, n).max(axis=1))


def _resample_until_inside(data: Any, n: int) -> Array:
    """Redraw noise until the result lies in [0, 10]: the tails are cut off, and the normalisation depends on the input."""
    outputs = np.full(n, -1, np.int64)
    while (outside := np.flatnonzero((outputs < 0) | (outputs > 10))).size:
        outputs[outside] = data + draw_laplace(1, outside.size)
    return outputs


def _count_all_rows(data: Any, n: int) -> Array:
    """Count rows with noise for one row per person, although a person has three: contributions are not bounded."""
    return np.asarray(len(data) + draw_laplace(1, n))


def _clip_after_noise(data: Any, n: int) -> Array:
    """Clip the noisy sum instead of the values."""
    return np.asarray(np.clip(round(sum(data)) + draw_laplace(1, n), 0, 20))


def _divide_by_true_count(data: Any, n: int) -> Array:
    """Divide a noisy sum by the exact number of people."""
    return np.asarray((sum(data) + draw_laplace(1, n)) / max(1, len(data)))


def _answer_twenty_times(data: Any, n: int) -> Array:
    """Answer twenty times with fresh noise at the cost of once."""
    return np.asarray(make_noisy_counts(1)([data] * 20, n))


def _count_present_keys(data: Any) -> Any:
    """Return noisy counts of exactly those keys that occur: no partition selection."""
    return {key: data.count(key) + int(draw_laplace(1, 1)[0]) for key in sorted(set(data))}


# -- unexpected records -----------------------------------------------------------------------------------------------------


def _nan_sum(data: Any) -> Any:
    clipped = [x if isnan(x) else min(1.0, max(0.0, x)) for x in data]
    return Laplace(1).release(0) + sum(clipped)


def _raises(data: Any) -> Any:
    if any(x < 0 for x in data):
        raise ValueError("negative")
    return len(data) + Laplace(1).release(0)


# -- floating point ---------------------------------------------------------------------------------------------------------


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
    """Draws noise when the process starts, and uses it for every output."""

    def __init__(self) -> None:
        self.noise = int(draw_laplace(10, 1)[0])

    def __call__(self, data: Any) -> Any:
        return data + self.noise


@cache
def _list_states() -> Array:
    return np.array([Laplace(20).release(0, _stream(1000 + k)) for k in range(256)])


def _short_period(data: Any, n: int) -> Array:
    """Draw noise from a generator with 256 states."""
    return np.asarray(data + _list_states()[(SYSTEM.words(n) >> np.uint64(56)).astype(np.int64)])


# -- outputs that δ must cover ----------------------------------------------------------------------------------------------


def _catastrophe(delta: Any) -> SampleFunction:
    return lambda data, n: np.where(bernoulli(Fraction(delta), n), data, -1)


def _short_gaussian(share: Fraction) -> Target:
    correct = Gaussian.for_epsilon(1, 1e-6, sensitivity=1)
    name = f"Gaussian {float(1 - share):.0%} short, against its curve"
    return Target(name, Gaussian(correct.sigma * share), correct.event(1), ((0, 1),), "σ")


MUTANTS = [
    Target("Laplace 5% short", Laplace(Fraction(95, 100)), 1, ((0, 1),), "scale"),
    _short_gaussian(Fraction(80, 100)),
    _short_gaussian(Fraction(95, 100)),
    Target(
        "Laplace in floating point",
        SampledMechanism(lambda x, n: FloatLaplace(2).release(np.full(n, x))),
        0.5,
        ((0.0, 1.0),),
        "floats",
    ),
    Target(
        "Gaussian in floating point",
        SampledMechanism(_float_normal),
        Gaussian(2).event(1),
        ((0.0, 1.0), (0.0, 1 / 3)),
        "floats",
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
    Target("a sum that passes NaN on", _nan_sum, 1, (([0.5], [0.5, nan]), ([0.5], [0.5, 1.0])), "NaN"),
    Target("an exception on one record", _raises, 1, (([1], [1, 1]), ([1], [1, -1])), "exception"),
    Target("no contribution bounding", SampledMechanism(_count_all_rows), 1, ((["a"], ["a", "b", "b", "b"]),), "bound"),
    Target("no partition selection", _count_present_keys, 1, ((["a", "a"], ["a", "a", "b"]),), "keys"),
    Target("truncated geometric with its tails cut off", SampledMechanism(_resample_until_inside), 1, ((0, 1),), "tails"),
    Target("one seed for every call", _same_seed, 0.5, ((0, 1),), "seed"),
    Target("noise drawn once per process", _OncePerProcess(), 0.1, ((0, 1),), "seed"),
    Target("a generator with 256 states", SampledMechanism(_short_period), 0.05, ((0, 1),), "period"),
    Target("a sum clipped after the noise", SampledMechanism(_clip_after_noise), 1, (([1, 1], [1, 1, 10]),), "clipping"),
    Target("a mean over the exact number", SampledMechanism(_divide_by_true_count), 1, (([1, 1, 1], [1, 1, 1, 1]),), "n"),
    Target("twenty answers at the cost of one", SampledMechanism(_answer_twenty_times), 1, ((0, 1),), "composition"),
]
"""An audit must refute each of these."""

_CORRECT_SPARSE = SparseVector.for_epsilon(1, sensitivity=1, threshold=0, most=STOPS)
_TRUNCATED = TruncatedGeometric(1, 0, 10)

CORRECT = [
    Target("Laplace", Laplace(1), 1, ((0, 1),)),
    Target("Gaussian", Gaussian(4), Gaussian(4).event(1), ((0, 1),)),
    Target("sparse vector", SampledMechanism(lambda x, n: _CORRECT_SPARSE.run_batch(repeat_rows(x, n))), 1, ABOVE),
    Target("histogram of disjoint cells", SampledMechanism(make_noisy_counts(1)), 1, (([5, 5, 5, 5], [4, 5, 5, 5]),)),
    Target("truncated geometric", _TRUNCATED, 1, ((0, 1), (9, 10))),
    Target(
        "index of the noisy max",
        SampledMechanism(lambda x, n: make_noisy_counts(2)(x, n).argmax(axis=1)),
        1,
        (([0] * 5, [1, 0, 0, 0, 0]),),
    ),
    Target("catastrophe as often as δ", SampledMechanism(_catastrophe(0.01)), (0, 0.01), ((3, 4),)),
    Target("catastrophe, called", Catastrophe(0.02).release, (1, 0.02), ((["ann"], ["ann", "bob"]),)),
    Target("Laplace on reals", Laplace(Fraction(21, 10)), 0.5, ((0.0, 1.0), (0.25, 1 / 3))),
]
"""An audit must refute none of these."""
