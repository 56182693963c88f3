"""An exercise as a value: question, hint, and a function that solves it at any parameters; and the check of an answer.

A check says whether an answer is right to 1%, and if not, which mistake would give that number: first the mistakes that the
exercise names, then the usual ones (a factor of 2, a forgotten square root, a logarithm to base 10, …).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isclose, isfinite, log, sqrt
from typing import Any

from discreet.errors import BadParameter
from discreet.lab.parameters import check_options, default_options, format_options

TOLERANCE = 0.01
"""How far an answer may be off, relatively."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The steps of a computation or proof, line by line; its result in words; the numbers that a student is asked for."""

    work: tuple[str, ...]
    answer: str
    numbers: dict[str, Any]
    results: tuple[float, ...]
    mistakes: Mapping[str, float] = field(default_factory=dict)
    """What a wrong first number says: the mistake in words, and the number that it gives."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Whether an answer is right, and what is wrong with it."""

    right: bool
    message: str


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question of a textbook and its solution, which is hidden until it is asked for.

    >>> from discreet.lab import EXERCISES
    >>> EXERCISES["counties"].check(181.06).right
    True
    >>> print(EXERCISES["counties"].check(90.53).message)
    Not yet: with Δ₁ = 1 in place of 2. Replacing one person moves two counties.
    """

    name: str
    source: str
    statement: str
    asks: str
    """The numbers that a check takes, in words."""
    hint: str
    compute: Callable[..., Solution]

    @property
    def options(self) -> dict[str, Any]:
        """The parameters with their values."""
        return default_options(self.compute)

    def with_options(self, **options: Any) -> "Exercise":
        """Return the same exercise at other parameters."""
        return replace(self, compute=partial(self.compute, **check_options(self.name, self.options, options)))

    @property
    def question(self) -> str:
        """The statement at the parameters."""
        return self.statement.format(**format_options(self.options))

    def solve(self, **options: Any) -> Solution:
        """Compute the solution, at other parameters if they are given."""
        return (self.with_options(**options) if options else self).compute()

    def check(self, *answers: float) -> Feedback:
        """Compare answers with the solution."""
        return check_answers(answers, self.compute(), self.asks)


def check_answers(answers: Sequence[float], solution: Solution, asks: str) -> Feedback:
    """Compare the numbers one by one; the first that is wrong decides."""
    results = solution.results
    if not all(isfinite(answer) for answer in answers):
        raise BadParameter("check", list(answers), "not finite numbers", f"give {asks}")
    if len(answers) != len(results):
        count = f"{len(results)} number{'s' if len(results) > 1 else ''}"
        commas = ", separated by commas" * (len(results) > 1)
        return Feedback(False, f"Not yet: this asks for {count}{commas}: {asks}.")
    for position, (answer, result) in enumerate(zip(answers, results, strict=True), 1):
        if not is_right(answer, result):
            where = f"number {position}: " if len(results) > 1 else ""
            named = solution.mistakes if position == 1 else {}
            return Feedback(False, f"Not yet: {where}{find_mistake(answer, result, named)}")
    return Feedback(True, f"Right: {solution.answer}.")


def is_right(answer: float, result: float) -> bool:
    """Whether an answer is within 1% of the result."""
    return isclose(answer, result, rel_tol=TOLERANCE, abs_tol=1e-9 if result == 0 else 0)


def find_mistake(answer: float, result: float, named: Mapping[str, float]) -> str:
    """Say which mistake would give this answer.

    >>> find_mistake(4.0, 2.0, {})
    'twice the right number: off by a factor of 2.'
    >>> find_mistake(9.0, 3.0, {})
    'the square of the right number: was a square root forgotten?'
    >>> find_mistake(0.4343, 1.0, {})
    'as with a logarithm to base 10. Here log is the natural logarithm.'
    """
    for words, wrong in named.items():
        if is_right(answer, wrong) and not is_right(wrong, result):
            return words
    for words, wrong in _usual_mistakes(result):
        if is_right(answer, wrong):
            return words
    return "too large." if answer > result else "too small."


def _usual_mistakes(result: float) -> list[tuple[str, float]]:
    """The mistakes that are possible for any number; those that would be right anyway never come to be compared."""
    positive = [
        ("the square of the right number: was a square root forgotten?", result**2),
        ("the square root of the right number: one root too many?", sqrt(abs(result))),
        ("one divided by the right number.", 1 / result if result else 0.0),
    ]
    factors = [
        ("twice the right number: off by a factor of 2.", 2 * result),
        ("half the right number: off by a factor of 2.", result / 2),
        ("off by a factor of √2.", sqrt(2) * result),
        ("off by a factor of √2.", result / sqrt(2)),
        ("off by a factor of 4.", 4 * result),
        ("off by a factor of 4.", result / 4),
        ("as with a logarithm to base 10. Here log is the natural logarithm.", result / log(10)),
        ("as with a logarithm to base 2. Here log is the natural logarithm.", result / log(2)),
        ("the sign is wrong.", -result),
        *((f"off by a factor of {10**power:,}.", result * 10.0**sign) for power in (1, 2, 3) for sign in (power, -power)),
    ]
    return [
        (words, wrong)
        for words, wrong in (*factors[:2], *positive, *factors[2:])
        if wrong != 0 and not is_right(wrong, result)
    ]
