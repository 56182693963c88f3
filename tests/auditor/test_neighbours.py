"""Generated pairs: every kind is there, since for every kind a box that misbehaves on it alone is found out."""

from collections.abc import Callable
from math import isfinite, isinf, isnan
from typing import Any

import pytest

from discreet import Laplace, audit
from discreet.auditor.neighbours import BASE_KEYS, NEW_GROUP, UNUSUAL, generate_pairs
from discreet.units import Neighbours

SURE = 1 - 1e-7
QUIET = Laplace(1)


def count(xs: list[Any]) -> int:
    return int(QUIET.release(len(xs)))


def numbers(xs: list[Any]) -> list[float]:
    return [float(x) for x in xs if isinstance(x, int | float)]


def bare_count(xs: list[Any]) -> int:
    return len(xs)


def empty_input(xs: list[Any]) -> int:
    return count(xs) + 0 // len(xs)


def no_clamp(xs: list[Any]) -> int:
    return int(QUIET.release(round(max(-1e6, min(1e6, sum(filter(isfinite, numbers(xs))))))))


def nan_goes_through(xs: list[Any]) -> float:
    return float("nan") if any(map(isnan, numbers(xs))) else count(xs)


def infinity_overflows(xs: list[Any]) -> int:
    return count(xs) + 0 * int(any(map(isinf, numbers(xs))) and float("inf"))


def keys_of_somebody(xs: list[Any]) -> dict[str, int]:
    """Only where there are a few: so a key that comes to people without one does not show it."""
    keys = [x for x in xs if isinstance(x, str)]
    return {key: int(QUIET.release(keys.count(key))) for key in sorted(set(keys))} if len(keys) > 2 else {}


def text_among_numbers(xs: list[Any]) -> int:
    return count(xs) if len({isinstance(x, str) for x in xs}) < 2 else -1


def missing_value(xs: list[Any]) -> int:
    return count(xs) + sum(0 * x for x in xs if x is None)  # type: ignore[misc]


def empty_record(xs: list[Any]) -> int:
    return count(xs) + sum(0 * ord(x[0]) for x in xs if isinstance(x, str))


INSIDE = [bare_count, empty_input]
OUTSIDE = [no_clamp, nan_goes_through, infinity_overflows, keys_of_somebody, text_among_numbers, missing_value, empty_record]


@pytest.mark.parametrize("box", INSIDE)
def test_within_the_domain(box: Callable[[Any], Any]) -> None:
    assert audit(box, 1, samples=6_000, confidence=SURE).violation


@pytest.mark.parametrize("box", OUTSIDE)
def test_with_any_record(box: Callable[[Any], Any]) -> None:
    """And not within the domain, where the box is right."""
    assert audit(box, 1, samples=16_000, domain="any", confidence=SURE).violation
    assert not audit(box, 1, samples=3_000, confidence=SURE).violation


def test_a_record_that_is_replaced() -> None:
    assert audit(no_clamp, 0.5, samples=20_000, relation=Neighbours.REPLACE, confidence=SURE).violation
    assert not audit(bare_count, 0.5, samples=6_000, relation=Neighbours.REPLACE, confidence=SURE).violation


def test_a_right_box_stays_unharmed() -> None:
    assert not audit(count, 1, samples=16_000, domain="any", confidence=SURE).violation


def test_pairs_are_neighbours() -> None:
    for pair in generate_pairs((2, 5)):
        assert pair.right[:-1] == pair.left
        assert all(2 <= x <= 5 for x in pair.right)
    assert any(pair.right[-1] not in pair.left for pair in generate_pairs((2, 5)) if len(pair.left) > 1), "a new group"
    for domain in ((2, 5), "any"):
        for pair in generate_pairs(domain, Neighbours.REPLACE):  # type: ignore[arg-type]
            assert len(pair.right) == len(pair.left)
            assert sum(a != b for a, b in zip(pair.left, pair.right, strict=True)) == 1
            assert pair.distance == 1
    for pair in (strange := generate_pairs("any")):
        assert pair.distance == (2 if len(pair.left) == len(pair.right) else 1)
    for odd in UNUSUAL:
        assert {len(pair.left) > 0 for pair in strange if repr(pair.right[-1]) == repr(odd) and pair.distance == 1} == {
            True,
            False,
        }
    assert any(pair.left == BASE_KEYS and pair.right[-1] == NEW_GROUP for pair in strange)
    assert any(pair.distance == 2 and isinstance(pair.right[-1], str) for pair in strange), "a change of type"
