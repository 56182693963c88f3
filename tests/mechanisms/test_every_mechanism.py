"""Every mechanism at every parameter: an answer or a refusal that says what to do, never another exception."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from inspect import isfunction, signature
from math import inf, isnan
from typing import Any

import numpy as np
import pytest

from discreet import (
    BadParameter,
    Binomial,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    Sensitivity,
    Threshold,
    TruncatedGeometric,
    noise,
    pure,
    zcdp,
)
from discreet._numbers import to_rational
from discreet.accounting import delta, epsilon
from discreet.errors import DiscreetError
from discreet.mechanisms.unsafe import FloatLaplace
from tests.support.every_mechanism import HUGE, MAKERS, SCALES, TINY


@pytest.mark.parametrize("scale", SCALES, ids=["tiny", "2^-60", "1/3", "2^50", "1e300", "huge"])
@pytest.mark.parametrize("name", MAKERS)
def test_the_error_of_any_scale_is_a_number_or_refused(name: str, scale: Fraction) -> None:
    try:
        found = MAKERS[name](scale).error(confidence=0.95)
    except DiscreetError:
        return
    assert isinstance(found, float)
    assert not isnan(found)
    assert found >= 0


def test_errors_past_the_doubles() -> None:
    assert Laplace(TINY).error(0.95) == 0
    assert Laplace(HUGE).error(0.95) == inf
    assert Gaussian(TINY).error(0.95) == 0
    assert Gaussian(HUGE).error(0.95) == inf
    assert Exponential(TINY).error(0.95) == inf


@pytest.mark.parametrize("name", MAKERS)
def test_the_event_of_any_scale_has_a_sound_curve(name: str) -> None:
    for scale in SCALES:
        event = MAKERS[name](scale).event(1)
        found = delta(event, 1, 1e-3)
        assert 0 <= found.lower <= found.upper <= 1


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_numpy_integers_are_integers(kind: type[np.integer[Any]]) -> None:
    three = kind(3)
    assert type(to_rational(three).numerator) is int
    assert Laplace(three).event(three) == Laplace(3).event(3)
    sensitivity = Sensitivity(l0=three, linf=three)
    assert sensitivity == Sensitivity(l0=3, linf=3)
    for one, two in ((Gaussian, Gaussian.for_epsilon), (DiscreteGaussian, DiscreteGaussian.for_epsilon)):
        assert one(three).event(sensitivity) == one(3).event(Sensitivity(l0=3, linf=3))
        assert two(1, 1e-6, three) == two(1, 1e-6, 3)
    assert epsilon(Laplace(three).event(three) * int(three), 1e-6) == epsilon(Laplace(3).event(3) * 3, 1e-6)
    assert Laplace.for_epsilon(three, three) == Laplace(1)


PARAMETERS = [0, -1, float("nan"), float("inf"), "3", None, True]


@pytest.mark.parametrize("bad", PARAMETERS, ids=repr)
def test_bad_parameters_are_refused_by_every_mechanism(bad) -> None:  # type: ignore[no-untyped-def]
    makers = [
        lambda: Laplace(bad), lambda: Gaussian(bad), lambda: DiscreteGaussian(bad), lambda: TruncatedGeometric(bad, 0, 9),
        lambda: Binomial(bad), lambda: RandomizedResponse(bad), lambda: Exponential(bad), lambda: Threshold(bad, 9),
        lambda: OptimalPartitionSelection(bad, 1e-6), lambda: OptimalPartitionSelection(1, bad),
        lambda: Laplace.for_epsilon(bad, 1), lambda: Laplace.for_epsilon(1, bad), lambda: Gaussian.for_epsilon(bad, 1e-6, 1),
        lambda: Gaussian.for_epsilon(1, bad, 1), lambda: Gaussian.for_epsilon(1, 1e-6, bad),
        lambda: DiscreteGaussian.for_epsilon(bad, 1e-6, 1), lambda: DiscreteGaussian.for_rho(bad, 1),
        lambda: Binomial.for_epsilon(bad, 1e-6, 1), lambda: Binomial.for_epsilon(1, bad, 1),
        lambda: RandomizedResponse.for_epsilon(bad), lambda: Exponential.for_epsilon(bad, 1),
        lambda: Threshold.for_epsilon(bad, 1e-6, 1), lambda: Threshold.for_epsilon(1, bad, 1),
        lambda: Laplace(1).error(bad), lambda: Gaussian(1).error(bad), lambda: Binomial(10).error(bad),
    ]  # fmt: skip
    for make in makers:
        with pytest.raises(BadParameter):
            make()


@pytest.mark.parametrize("delta", [1, 2, -1e-9])
def test_delta_must_lie_strictly_between_0_and_1(delta: float) -> None:
    for make in (Gaussian.for_epsilon, DiscreteGaussian.for_epsilon, Binomial.for_epsilon, Threshold.for_epsilon):
        with pytest.raises(BadParameter, match="delta"):
            make(1, delta, 1)


def test_events_have_the_stated_guarantees() -> None:
    assert pure(Laplace(10).event(Sensitivity(l0=3, linf=2))) == Fraction(6, 10)
    assert pure(Laplace(10).event(Sensitivity(l2=1))) == inf
    assert pure(Gaussian(10).event(1)) == pure(DiscreteGaussian(3).event(1)) == pure(Binomial(4).event(1)) == inf
    assert zcdp(Gaussian(10).event(Sensitivity(l0=4, linf=1))) == Fraction(4, 200)
    assert zcdp(DiscreteGaussian(10).event(1)) == Fraction(1, 200)
    assert pure(TruncatedGeometric(5, 0, 9).event(2)) == Fraction(2, 5)
    assert pure(Exponential.for_epsilon(1, 1).event(1)) == 1
    assert pure(Exponential.for_epsilon(1, 1, monotone=True).event(1, monotone=True)) == 1
    assert zcdp(Exponential.for_epsilon(1, 1).event(1)) == Fraction(1, 8)


RELEASES: dict[str, Callable[[Any], Any]] = {
    **{name: partial(make(Fraction(1, 3)).release, [0, 1]) for name, make in MAKERS.items()},
    "Laplace, one number": partial(Laplace(2).release, 120),
    "Laplace, on a grid": partial(Laplace(2).release, 120.5, grid=0.5),
    "Binomial": partial(Binomial(100).release, [0, 1]),
    "FloatLaplace": partial(FloatLaplace(1).release, np.array([1.0])),
    "discrete_laplace": partial(noise.discrete_laplace, 2, 3),
    "geometric": partial(noise.geometric, 2, 3),
    "rounded_gaussian": partial(noise.rounded_gaussian, 2, 3),
    "discrete_gaussian": partial(noise.discrete_gaussian, 2, 3),
    "binomial": partial(noise.binomial, 2, 3),
    "bernoulli": partial(noise.bernoulli, Fraction(1, 3), 3),
    "bernoulli_exp": partial(noise.bernoulli_exp, 2, 3),
    "uniform_below": partial(noise.uniform_below, 3, 3),
    "poisson": partial(noise.poisson, 2, 3),
    "truncated_negative_binomial": partial(noise.truncated_negative_binomial, 1, Fraction(1, 3), 3),
    "select": partial(noise.select, [0, 1], 1, noise.SelectionRule.EXPONENTIAL),
}


@pytest.mark.parametrize("wrong", [10, 0, "10", [1, 2], np.random.default_rng(1)], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", RELEASES)
def test_what_is_no_source_of_bits_is_refused_and_an_array_is_named(name: str, wrong: Any) -> None:
    """A second number is taken for a number of draws."""
    with pytest.raises(BadParameter, match=r"bits is .*: not a source of bits\. Leave it out; .* give an array"):
        RELEASES[name](wrong)


def test_every_sampler_is_among_them() -> None:
    functions = {name for name in noise.__all__ if isfunction(getattr(noise, name))}
    samplers = {name for name in functions if "bits" in signature(getattr(noise, name)).parameters}
    assert samplers <= RELEASES.keys()
