"""The floating-point grid: an answer in doubles reveals its secret; one on a fixed grid does not."""

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
from tests.support.chance import is_plausible

DRAWS = 40_000


@cache
def get_result() -> AttackResult:
    return run("float-grid")


@given(st.floats(-2, 2) | st.floats(-1.5, -0.5) | st.floats(allow_nan=False, allow_infinity=False))
def test_no_answer_about_one_has_a_lower_bit(noise: float) -> None:
    """For any noise: the proof of the module, tested."""
    assert not cannot_be_one(np.array([1.0 + noise])).any()


def test_the_textbook_reveals_its_secret() -> None:
    found = get_result().numbers
    assert found["floats_certain"] > found["answers"] / 10
    assert found["floats_false"] == 0
    assert 0.1 < found["delta_at_least"] < found["floats_certain"] / found["answers"]


def test_discreet_does_not_reveal_it() -> None:
    found = get_result().numbers
    assert found["ours_certain"] == found["ours_false"] == 0
    assert found["on_lattice"]
    assert found["on_step"] == [found["asked"]] * 2
    assert found["step"] == 2.0**-20


@pytest.mark.parametrize("scale", [0.5, 1, 2, 100])
def test_the_cause_is_floating_point_and_not_the_generator(scale: float) -> None:
    """The attack also works on discreet's own unsafe Laplace, and fails on the correct one at every scale."""
    unsafe = cannot_be_one(FloatLaplace(scale).release(np.zeros(DRAWS), seeded_bits(1)))
    near = 1 - np.exp(-0.5 / scale)
    assert near / 3 < unsafe.mean() < near
    for secret in (0.0, 1.0):
        correct = Laplace(scale).release(np.full(DRAWS, secret), seeded_bits(2))
        assert not cannot_be_one(correct).any()
        assert is_on_grid(correct, Laplace(scale).grid).all()
    assert not cannot_be_one(FloatLaplace(scale).release(np.ones(DRAWS), seeded_bits(3))).any()


def test_guesses_by_value_are_as_good_as_epsilon_allows() -> None:
    """The guess by value alone, above 1/2 or not, is right as often as the distribution of the noise says."""
    right = sum(int(((Laplace(2).release(np.full(DRAWS, x), seeded_bits(4)) > 0.5) == (x == 1)).sum()) for x in (0.0, 1.0))
    assert is_plausible(right, 2 * DRAWS, 1 - np.exp(-0.25) / 2)
    assert not is_plausible(right, 2 * DRAWS, 1 - np.exp(-0.3) / 2)
