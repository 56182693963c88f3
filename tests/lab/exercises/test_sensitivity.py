"""The quiz, by the rule and by trying all."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.lab.exercises.sensitivity import brute_force_sensitivity, sensitivity_quiz
from discreet.units import Neighbours


def test_sensitivity_quiz() -> None:
    """Each answer names its relation: add/remove for the counts, replace for the salary."""
    found = sensitivity_quiz().numbers
    for name, add_remove, replace in (
        ("one predicate", 1, 1),
        ("two overlapping predicates", 2, 2),
        ("four disjoint hair colours", 1, 2),
    ):
        assert found[f"{name}, add-remove"] == [add_remove, add_remove]
        assert found[f"{name}, replace"] == [replace, replace]
    assert found["salary, clamped"] == pytest.approx(100 / 3)
    assert np.diff(np.log10(found["salary, unclamped"])) == pytest.approx([3, 3]), "proportional to the highest salary"
    tried = brute_force_sensitivity([0, 50], lambda d: [sum(d) / 4], Neighbours.REPLACE, size=4)
    assert sensitivity_quiz(Fraction(50), 4).results[-1] == tried == 12.5
