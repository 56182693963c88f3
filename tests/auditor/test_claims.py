"""Claims as points of a curve, and generated pairs: for every kind of record there is a mutant that fails on it alone."""

from collections.abc import Callable
from math import exp, isfinite, isinf, isnan
from typing import Any

import pytest

from discreet import Gaussian, Laplace, audit
from discreet.auditor import Mu, RenyiPoint, Rho
from discreet.auditor.claims import BASE_KEYS, NEW_GROUP, UNUSUAL, Point, generate_pairs, sample_curve
from discreet.errors import BadParameter
from discreet.units import Neighbours

CONFIDENCE = 1 - 1e-7
NOISE = Laplace(1)


def test_claims_are_curves() -> None:
    assert sample_curve(1) == (Point(1.0, 0.0),)
    gaussian = sample_curve(Gaussian(2).event(1))
    assert gaussian[0].epsilon == 0
    assert abs(gaussian[0].delta - 0.19741) < 1e-4  # 2Φ(1/4) − 1
    for a, b in zip(gaussian, sample_curve(Mu(0.5)), strict=True):
        assert abs(a.delta - b.delta) < 1e-3
    for looser in (Rho(0.125), RenyiPoint(4, 0.5)):  # what 1/2-GDP implies guarantees less than it does
        for point in sample_curve(looser):
            tight = [near for near in gaussian if near.epsilon >= point.epsilon]
            assert not tight or point.delta >= tight[0].delta
    assert Point(1.0, 0.0) in sample_curve(Laplace(1).event(1))
    for wrong in (-1, (1, 2), (1, 1)):
        with pytest.raises(BadParameter):
            sample_curve(wrong)  # type: ignore[arg-type]


def test_a_pair_at_distance_two_certifies_the_epsilon_of_one_unit() -> None:
    """At ε and δ for one unit, two may reach e^{2ε}·q + (1 + e^ε)·δ and no more."""
    for epsilon, delta, q in ((1.0, 0.0, 0.1), (0.3, 0.01, 0.2), (2.0, 1e-6, 0.004)):
        largest = exp(2 * epsilon) * q + (1 + exp(epsilon)) * delta
        two = Point(epsilon, delta).for_two_units()
        assert abs(two.max_probability(q) - largest) < 1e-9
        assert abs(two.refuted_epsilon(largest, q) - epsilon) < 1e-9
        assert two.claimed_point == Point(epsilon, delta)
        assert Point(epsilon, delta).refuted_epsilon(largest, q) > epsilon
    assert Point(1.0, 0.2).for_two_units().refuted_epsilon(0.1, 0.5) == 0


# -- mutants that fail on one kind of record --------------------------------------------------------------------------------


def count(xs: list[Any]) -> int:
    return int(NOISE.release(len(xs)))


def numbers(xs: list[Any]) -> list[float]:
    return [float(x) for x in xs if isinstance(x, int | float)]


def bare_count(xs: list[Any]) -> int:
    return len(xs)


def empty_input(xs: list[Any]) -> int:
    return count(xs) + 0 // len(xs)


def no_clipping(xs: list[Any]) -> int:
    return int(NOISE.release(round(max(-1e6, min(1e6, sum(filter(isfinite, numbers(xs))))))))


def nan_passes(xs: list[Any]) -> float:
    return float("nan") if any(map(isnan, numbers(xs))) else count(xs)


def infinity_overflows(xs: list[Any]) -> int:
    return count(xs) + 0 * int(any(map(isinf, numbers(xs))) and float("inf"))


def no_partition_selection(xs: list[Any]) -> dict[str, int]:
    """Only where there are a few keys: so a key that is added to numbers does not show it."""
    keys = [x for x in xs if isinstance(x, str)]
    return {key: int(NOISE.release(keys.count(key))) for key in sorted(set(keys))} if len(keys) > 2 else {}


def text_among_numbers(xs: list[Any]) -> int:
    return count(xs) if len({isinstance(x, str) for x in xs}) < 2 else -1


def missing_value(xs: list[Any]) -> int:
    return count(xs) + sum(0 * x for x in xs if x is None)  # type: ignore[misc]


def empty_record(xs: list[Any]) -> int:
    return count(xs) + sum(0 * ord(x[0]) for x in xs if isinstance(x, str))


WRONG_IN_THE_DOMAIN = [bare_count, empty_input]
WRONG_OUTSIDE = [
    no_clipping, nan_passes, infinity_overflows, no_partition_selection, text_among_numbers, missing_value, empty_record,
]  # fmt: skip


@pytest.mark.parametrize("mutant", WRONG_IN_THE_DOMAIN)
def test_a_fault_within_the_domain_is_found(mutant: Callable[[Any], Any]) -> None:
    assert audit(mutant, 1, samples=6_000, confidence=CONFIDENCE).violation


@pytest.mark.parametrize("mutant", WRONG_OUTSIDE)
def test_a_fault_outside_the_domain_is_found_with_any_record(mutant: Callable[[Any], Any]) -> None:
    """And not within the domain, where the function is correct."""
    assert audit(mutant, 1, samples=16_000, domain="any", confidence=CONFIDENCE).violation
    assert not audit(mutant, 1, samples=3_000, confidence=CONFIDENCE).violation


def test_a_fault_under_replacement_is_found() -> None:
    assert audit(no_clipping, 0.5, samples=20_000, relation=Neighbours.REPLACE, confidence=CONFIDENCE).violation
    assert not audit(bare_count, 0.5, samples=6_000, relation=Neighbours.REPLACE, confidence=CONFIDENCE).violation


def test_a_correct_function_is_not_refuted_with_any_record() -> None:
    assert not audit(count, 1, samples=16_000, domain="any", confidence=CONFIDENCE).violation


def test_generated_pairs_are_neighbours() -> None:
    for pair in generate_pairs((2, 5)):
        assert pair.right[:-1] == pair.left
        assert all(2 <= x <= 5 for x in pair.right)
    assert any(pair.right[-1] not in pair.left for pair in generate_pairs((2, 5)) if len(pair.left) > 1), "a new group"
    for domain in ((2, 5), "any"):
        for pair in generate_pairs(domain, Neighbours.REPLACE):  # type: ignore[arg-type]
            assert len(pair.right) == len(pair.left)
            assert sum(a != b for a, b in zip(pair.left, pair.right, strict=True)) == 1
            assert pair.distance == 1
    for pair in (with_any := generate_pairs("any")):
        assert pair.distance == (2 if len(pair.left) == len(pair.right) else 1)
    for record in UNUSUAL:
        added = [pair for pair in with_any if repr(pair.right[-1]) == repr(record) and pair.distance == 1]
        assert {len(pair.left) > 0 for pair in added} == {True, False}
    assert any(pair.left == BASE_KEYS and pair.right[-1] == NEW_GROUP for pair in with_any)
    assert any(pair.distance == 2 and isinstance(pair.right[-1], str) for pair in with_any), "a change of type"
