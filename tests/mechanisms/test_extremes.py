"""Every mechanism at every parameter: an answer or a refusal that says what to do, never another exception."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from math import inf, isnan
from typing import Any, get_type_hints

import numpy as np
import pytest

import discreet
from discreet import (
    BadParameter,
    BadValues,
    Binomial,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    RunningTotal,
    SparseVector,
    Threshold,
    TruncatedGeometric,
)
from discreet._numbers import to_rational
from discreet.accounting import compare_guarantees, delta, epsilon
from discreet.accounting.basic import basic_composition, split_delta
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import find_best_order, renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.textbook import optimal_composition
from discreet.accounting.zcdp import zcdp
from discreet.errors import DiscreetError
from discreet.events import (
    Composition,
    Group,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    group,
    parallel,
    repeat,
    subsample,
    subsample_without_replacement,
)
from discreet.mechanisms.partition_selection import probability_bits, selection_probabilities
from discreet.noise import discrete_laplace
from discreet.testing import seeded_bits
from discreet.units import Sensitivity

TINY, HUGE = Fraction(1, 10**400), Fraction(10**400)
SCALES = [TINY, Fraction(1, 1 << 60), Fraction(1, 3), Fraction(1 << 50), Fraction(10) ** 300, HUGE]

MAKERS: dict[str, Callable[[Fraction], Any]] = {
    "Laplace": Laplace,
    "Gaussian": Gaussian,
    "DiscreteGaussian": DiscreteGaussian,
    "TruncatedGeometric": lambda s: TruncatedGeometric(s, 0, 10),
    "Exponential": Exponential,
    "RandomizedResponse": lambda s: RandomizedResponse(Fraction(1, 2) + min(s, Fraction(1, 3))),
    "Threshold": lambda s: Threshold(s, 5),
    "SparseVector": lambda s: SparseVector(7, s, s),
    "SparseVector, one quiet noise": lambda s: SparseVector(7, s, 1),
    "OptimalThreshold": lambda s: OptimalPartitionSelection(s, Fraction(1, 100)),
    "OptimalThreshold, by δ": lambda s: OptimalPartitionSelection(1, min(s, Fraction(1, 3))),
}


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
def test_the_loss_of_any_scale_is_read_soundly(name: str) -> None:
    for scale in SCALES:
        loss = MAKERS[name](scale).event(1)
        found = delta(loss, 1, 1e-3)
        assert 0 <= found.lower <= found.upper <= 1


def mechanisms() -> list[Any]:
    return [*(make(Fraction(1, 3)) for make in MAKERS.values()), Binomial(4)]


GUARANTEES: dict[str, Callable[[Any], object]] = {
    "epsilon": lambda loss: epsilon(loss, 1e-5),
    "delta": lambda loss: delta(loss, 1),
    "pure": pure,
    "zcdp": zcdp,
    "gdp": gdp,
    "renyi": lambda loss: renyi(loss, 2),
    "best_order": lambda loss: find_best_order(loss, 1e-5),
    "tcdp": lambda loss: tcdp(loss, 4),
    "approx": basic_composition,
    "split": split_delta,
    "readings": lambda loss: compare_guarantees(loss, 1e-5),
    "compose": compose,
    "repeat": lambda loss: repeat(loss, 3),
    "group": lambda loss: group(loss, 2),
    "parallel": parallel,
    "subsample": lambda loss: subsample(loss, 0.5),
    "subsample_without_replacement": lambda loss: subsample_without_replacement(loss, 0.5),
    "Composition": lambda loss: Composition(((loss, 2),)),
    "Parallel": lambda loss: Parallel((loss,)),
    "Group": lambda loss: Group(loss, 2),
    "Subsampled": lambda loss: Subsampled(loss, Fraction(1, 2)),
    "SampledWithoutReplacement": lambda loss: SampledWithoutReplacement(loss, Fraction(1, 2)),
    "RunningTotal": lambda loss: RunningTotal.for_delta(1e-5).append(loss),
}


@pytest.mark.parametrize("name", GUARANTEES)
def test_what_is_no_event_is_refused_with_what_to_pass_instead(name: str) -> None:
    for wrong in [*mechanisms(), Gaussian, None, 3, "gaussian(sigma=1)", object()]:
        with pytest.raises(BadParameter, match=r"\.event\(sensitivity=1\)"):
            GUARANTEES[name](wrong)


def test_the_message_for_a_mechanism_names_it() -> None:
    with pytest.raises(BadParameter, match=r"Pass Gaussian\(sigma=1\.1\)\.event\(sensitivity=1\)"):
        epsilon(Gaussian(1.1), 1e-5)  # type: ignore[arg-type]


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_numpy_integers_are_integers(kind: type[np.integer[Any]]) -> None:
    three = kind(3)
    assert type(to_rational(three).numerator) is int
    assert Laplace(three).event(three) == Laplace(3).event(3)
    moved = Sensitivity(l0=three, linf=three)
    assert moved == Sensitivity(l0=3, linf=3)
    for one, two in ((Gaussian, Gaussian.for_epsilon), (DiscreteGaussian, DiscreteGaussian.for_epsilon)):
        assert one(three).event(moved) == one(3).event(Sensitivity(l0=3, linf=3))
        assert two(1, 1e-6, three) == two(1, 1e-6, 3)
    assert epsilon(Laplace(three).event(three) * int(three), 1e-6) == epsilon(Laplace(3).event(3) * 3, 1e-6)
    assert Laplace.for_epsilon(three, three) == Laplace(1)


def test_one_record_with_a_predicate() -> None:
    coin = RandomizedResponse(Fraction(3, 4), predicate=lambda age: age >= 18)
    assert coin.release(30) in (0, 1)
    assert coin.release(np.int64(30)) in (0, 1)
    assert coin.release(np.array(30)) in (0, 1)
    assert len(coin.release([30, 4])) == len(coin.release(np.array([30, 4]))) == len(coin.release({30, 4})) == 2
    text = RandomizedResponse(Fraction(3, 4), predicate=lambda name: len(name) > 3)
    assert text.release("Anna") in (0, 1)
    assert text.release({"name": "Anna"}) in (0, 1)
    with pytest.raises(BadValues):
        RandomizedResponse(Fraction(3, 4), predicate=lambda age: "yes").release(30)


def test_optimal_selection_at_a_tiny_delta() -> None:
    """Its table has some 460 entries; it took 7 s and then blamed ε."""
    rule = OptimalPartitionSelection(1, Fraction(1, 10**100))
    chances = selection_probabilities(rule.epsilon, rule.delta)
    assert len(chances) < 1000
    assert 0 < chances[1] < chances[2]
    assert abs(Fraction(chances[1], 1 << probability_bits(rule.delta)) * 10**100 - 1) < Fraction(1, 10**20)
    assert rule.release([1, 600]) == [False, True]
    assert 225 < rule.error(0.5) < 240


def test_a_table_that_is_too_long_is_refused_with_both_parameters() -> None:
    with pytest.raises(BadParameter, match="δ = 1e-100"):
        OptimalPartitionSelection(Fraction(1, 10**9), Fraction(1, 10**100)).error(0.5)


def test_optimal_composition_counts_what_each_release_leaks() -> None:
    assert optimal_composition(3000, 5, 1e-6, each=1e-6).epsilon == inf  # 5e-6 leaks
    assert optimal_composition(3000, 5, 1e-5, each=1e-6).epsilon == 15000
    assert optimal_composition(3000, 5, 1e-6).epsilon == 15000
    for wrong in (-1e-9, -1, 1.5, float("nan")):
        with pytest.raises(BadParameter, match="each"):
            optimal_composition(1, 5, 1e-6, each=wrong)


EDGES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("threshold", EDGES)
def test_sparse_vector_compares_exact_sums(threshold: int) -> None:
    """The same bits, in whole numbers of any size: no sum wraps or saturates."""
    rule = SparseVector(threshold, 9, 5, most=100)
    said = rule.run_batch(np.array([EDGES], np.int64), seeded_bits(3))[0]
    bits = seeded_bits(3)
    bar = threshold + int(discrete_laplace(9, 1, bits)[0])
    noise = discrete_laplace(5, len(EDGES), bits)
    assert said.tolist() == [int(value + int(drawn) >= bar) for value, drawn in zip(EDGES, noise, strict=True)]


@pytest.mark.parametrize("threshold", [2**63, -(2**63) - 1, 10**400])
def test_a_threshold_past_64_bits_is_refused(threshold: int) -> None:
    with pytest.raises(BadParameter, match="threshold"):
        SparseVector(threshold, 1, 1)


CORE = ("accounting", "cli", "mechanisms", "noise", "exact", "loss", "units")


def public_functions() -> list[Callable[..., Any]]:
    names = [m.name for m in pkgutil.walk_packages(discreet.__path__, "discreet.") if m.name.split(".")[1] in CORE]
    found: list[Callable[..., Any]] = [getattr(discreet, name) for name in discreet.__all__]
    for module in map(importlib.import_module, names):
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                found += [value, *vars(value).values()] if inspect.isclass(value) else [value]
    found = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in found]
    return [one for one in found if inspect.isfunction(one) or inspect.isclass(one)]


def test_annotations_resolve() -> None:
    """As documentation tools and validators resolve them."""
    every = public_functions()
    assert len(every) > 300
    for one in every:
        get_type_hints(one)
    assert "values" in get_type_hints(Laplace.release)
