"""Checks of answers: right to 1%, named mistakes, usual mistakes; parameters; nothing of the solution is shown."""

from math import log, sqrt

import pytest

from discreet.errors import BadParameter
from discreet.lab import EXERCISES, Exercise, Solution
from discreet.lab.exercises.exercise import check_answers, find_mistake, is_right


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_its_parts(name: str) -> None:
    exercise = EXERCISES[name]
    solution = exercise.solve()
    assert isinstance(solution, Solution)
    assert "?" in exercise.question
    assert "{" not in exercise.question
    assert exercise.hint
    assert exercise.asks
    assert solution.work
    assert solution.numbers
    assert solution.results
    assert solution == exercise.solve(), "reproducible"
    assert solution.answer not in exercise.question + exercise.hint


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_is_right_and_its_mistakes_are_named(name: str) -> None:
    exercise = EXERCISES[name]
    solution = exercise.solve()
    assert exercise.check(*solution.results).right
    assert exercise.check(*(result * 1.005 for result in solution.results)).right
    for words, wrong in solution.mistakes.items():
        feedback = exercise.check(wrong, *solution.results[1:])
        assert not feedback.right, "a mistake is not within 1% of the right number"
        assert words in feedback.message
    off = exercise.check(solution.results[0] * 1.17 + 0.01, *solution.results[1:])
    assert not off.right


@pytest.mark.parametrize("name", EXERCISES)
def test_every_parameter_is_read_or_refused(name: str) -> None:
    exercise = EXERCISES[name]
    for option, value in exercise.options.items():
        changed = max(1, value // 2) if isinstance(value, int) else value * 3 / 4
        other = exercise.with_options(**{option: changed})
        assert other.options[option] == changed
        assert (other.question, other.solve()) != (exercise.question, exercise.solve()), f"{option} changes nothing"
        assert other.check(*other.solve().results).right
        for wrong in (-1, 0, "many", None, float("inf"), True):
            with pytest.raises(BadParameter):
                exercise.with_options(**{option: wrong})
    with pytest.raises(BadParameter, match="not a parameter"):
        exercise.with_options(speed=3)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (lambda r: 2 * r, "factor of 2"),
        (lambda r: r / 2, "factor of 2"),
        (lambda r: r * r, "square root forgotten"),
        (lambda r: sqrt(r), "one root too many"),
        (lambda r: r / log(10), "base 10"),
        (lambda r: r / log(2), "base 2"),
        (lambda r: 1 / r, "one divided by"),
        (lambda r: -r, "sign"),
        (lambda r: 1000 * r, "factor of 1,000"),
        (lambda r: 1.3 * r, "too large"),
        (lambda r: 0.77 * r, "too small"),
    ],
)
def test_usual_mistakes_are_recognised(factor, words: str) -> None:  # type: ignore[no-untyped-def]
    for result in (7.3, 181.06):
        assert words in find_mistake(factor(result), result, {})


def test_right_is_within_one_percent() -> None:
    assert is_right(100.9, 100)
    assert not is_right(101.2, 100)
    assert is_right(0, 0)
    assert not is_right(0.001, 0)


def test_the_number_of_answers_is_checked_and_the_wrong_one_named() -> None:
    solution = Solution((), "3 and 5", {}, (3.0, 5.0))
    assert "asks for 2 numbers" in check_answers([3.0], solution, "two numbers").message
    assert "number 2: twice" in check_answers([3.0, 10.0], solution, "two numbers").message
    assert check_answers([3.0, 5.0], solution, "two numbers").right
    with pytest.raises(BadParameter, match="finite"):
        check_answers([float("nan"), 1.0], solution, "two numbers")


def test_a_wrong_solution_would_be_noticed() -> None:
    """The mutant: an exercise whose named mistake is its own result never says so."""
    mutant = Exercise("m", "S4", "What?", "a number", "none", lambda: Solution(("",), "2", {}, (2.0,), {"wrong": 2.0}))
    assert mutant.check(2.0).right
    assert "wrong" not in mutant.check(4.0).message
