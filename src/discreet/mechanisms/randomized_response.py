"""Randomized response: each person answers truthfully with a known probability and otherwise at random (local privacy)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, ceil_float, check_int, check_probability, format_rational, read_positive
from discreet.accounting.pure import response_epsilon, response_truth
from discreet.errors import BadParameter, BadValues
from discreet.events import RandomizedResponseEvent
from discreet.mechanisms._additive_noise import read_array_like, tail_per_error
from discreet.noise import Bits, bernoulli, uniform_below
from discreet.units import Sensitivity, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """Replaces one of `choices` answers 0, 1, … by the true one with probability `truth`, else by another at random.

    >>> coin = RandomizedResponse(Fraction(2, 3))
    >>> round(coin.epsilon, 12)
    0.69314718056
    >>> yes = RandomizedResponse.for_epsilon(1, predicate=lambda age: age >= 18)
    >>> len(yes.release([12, 30, 45]))
    3
    """

    truth: Fraction
    choices: int
    predicate: Callable[[Any], int] | None

    def __init__(self, truth: Number, choices: int = 2, predicate: Callable[[Any], int] | None = None) -> None:
        p, k = check_probability(truth, "truth"), check_int(choices, "choices", 2)
        if p * k <= 1:
            raise BadParameter("truth", format_rational(p), f"at most 1/{k}, so the answers hold no information", "raise it")
        for name, value in (("truth", p), ("choices", k), ("predicate", predicate)):
            object.__setattr__(self, name, value)

    @classmethod
    def for_epsilon(
        cls, epsilon: Number, choices: int = 2, predicate: Callable[[Any], int] | None = None
    ) -> "RandomizedResponse":
        """Return the ε-private mechanism: truth with probability e^ε/(e^ε + choices − 1), rounded down so that ε holds."""
        return cls(response_truth(read_positive(epsilon, "epsilon"), check_int(choices, "choices", 2)), choices, predicate)

    @property
    def epsilon(self) -> float:
        """The logarithm of the odds of the true answer against any one other, rounded up."""
        return ceil_float(response_epsilon(self.truth, self.choices))

    @property
    def other(self) -> Fraction:
        """The probability of any one answer that is not true."""
        return (1 - self.truth) / (self.choices - 1)

    def release(self, values: Any, bits: Bits | None = None) -> Any:
        """Return one randomized answer per person, in the same form.

        With a predicate φ, `values` are the records that it takes, or one record; φ is applied first, and the other answer
        is 1 − φ(x) (not φ(1 − x)).
        """
        if self.predicate is not None:
            values = [self.predicate(record) for record in values] if _is_batch(values) else self.predicate(values)
        answers = _check_answers(values, self.choices)
        truthful = bernoulli(self.truth, answers.size, bits)
        shift = 1 + uniform_below(self.choices - 1, answers.size, bits)
        out = np.where(truthful, answers.reshape(-1), (answers.reshape(-1) + shift) % self.choices).reshape(answers.shape)
        return out if hasattr(values, "__array__") and out.shape else out.tolist()

    def event(self, sensitivity: Sensitivity | Number = 1, grid: Number = 1) -> RandomizedResponseEvent:
        """Return the event of one person's answer. Every person answers once, so it is the event for all of them."""
        if to_sensitivity(sensitivity).l1 != 1:
            raise BadParameter("sensitivity", sensitivity, "a person gives one answer", "repeat the event for more")
        return RandomizedResponseEvent(self.truth, self.choices)

    def estimate(self, answers: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """Return unbiased numbers of people per true answer: (count − n·other)/(truth − other)."""
        checked = _check_answers(answers, self.choices).reshape(-1)
        counts = np.bincount(checked, minlength=self.choices)
        gap = float(self.truth - self.other)
        return np.asarray((counts - checked.size * float(self.other)) / gap, np.float64)

    def standard_deviation(self, n: int, holders: int | None = None) -> float:
        """Return the standard deviation of one estimated number, when `holders` of n people have that answer.

        For two choices it does not depend on `holders` and equals e^{ε/2}/(e^ε − 1)·√n.
        """
        people = check_int(n, "n")
        true_holders = people if holders is None else check_int(holders, "holders")
        p, q = self.truth, self.other
        variance = true_holders * p * (1 - p) + (people - true_holders) * q * (1 - q)
        return sqrt(variance) / float(p - q)

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return the error that an estimated number from `size` people does not exceed with the given confidence.

        By Hoeffding's inequality: each answer moves the estimate by 1/(truth − other); [S4, ex. 2.5] with
        2e^{-2t²} = 1 − confidence.
        """
        beta, gap = tail_per_error(confidence, 1), float(self.truth - self.other)
        return sqrt(log(2 / beta) / 2 * check_int(size, "size", 1)) / gap * (1 + 1e-12) if gap else inf


def _is_batch(values: Any) -> bool:
    """Say whether these are several records and not a single one; a text is one record."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)


def _check_answers(values: Any, choices: int) -> NDArray[np.int64]:
    foreign = hasattr(values, "__array__") and not isinstance(values, np.ndarray | np.generic)
    try:
        array = read_array_like(values) if foreign else np.asarray(values)
    except ValueError:
        raise BadValues("are nested irregularly", "give a list or an array of answers") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise BadValues(f"have dtype {array.dtype}", f"give answers 0 … {choices - 1}, or a predicate")
    if ((array < 0) | (array >= choices)).any():
        raise BadValues("hold an answer that is not among the choices", f"give answers 0 … {choices - 1}")
    return array.astype(np.int64)
