"""The float grid: an answer in doubles names its secret; one on the lattice does not."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Laplace
from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.float_grid import cannot_be_one, is_on_grid
from discreet.mechanisms.unsafe import FloatLaplace
from discreet.testing import seeded_bits
from tests.lab.chance import plausible

DRAWS = 40_000


@cache
def played() -> AttackResult:
    return run("float-grid")


@given(st.floats(-2, 2) | st.floats(-1.5, -0.5) | st.floats(allow_nan=False, allow_infinity=False))
def test_no_answer_about_one_is_given_away(noise: float) -> None:
    """Whatever the noise is: this is the proof in the module, tried."""
    assert not cannot_be_one(np.array([1.0 + noise])).any()


def test_the_textbook_names_its_secret() -> None:
    found = played().numbers
    assert found["floats_certain"] > found["answers"] / 10
    assert found["floats_false"] == 0
    assert 0.1 < found["delta_at_least"] < found["floats_certain"] / found["answers"]


def test_ours_does_not() -> None:
    found = played().numbers
    assert found["ours_certain"] == found["ours_false"] == 0
    assert found["on_lattice"]
    assert found["on_step"] == [found["asked"]] * 2
    assert found["step"] == 2.0**-20


@pytest.mark.parametrize("scale", [0.5, 1, 2, 100])
def test_it_is_the_floats_and_not_the_generator(scale: float) -> None:
    """The attack finds this library's own textbook twin as well, and nothing in the right one at any scale."""
    twin = cannot_be_one(FloatLaplace(scale).release(np.zeros(DRAWS), seeded_bits(1)))
    near = 1 - np.exp(-0.5 / scale)
    assert near / 3 < twin.mean() < near
    for secret in (0.0, 1.0):
        right = Laplace(scale).release(np.full(DRAWS, secret), seeded_bits(2))
        assert not cannot_be_one(right).any()
        assert is_on_grid(right, Laplace(scale).grid).all()
    assert not cannot_be_one(FloatLaplace(scale).release(np.ones(DRAWS), seeded_bits(3))).any()


def test_what_remains_is_what_epsilon_allows() -> None:
    """The likeliest secret by value alone, above 1/2 or not, is right as often from ours as the law says, and no more."""
    right = sum(int(((Laplace(2).release(np.full(DRAWS, x), seeded_bits(4)) > 0.5) == (x == 1)).sum()) for x in (0.0, 1.0))
    assert plausible(right, 2 * DRAWS, 1 - np.exp(-0.25) / 2)
    assert not plausible(right, 2 * DRAWS, 1 - np.exp(-0.3) / 2)
