"""The exponential mechanism: choose one of several candidates by a score, privately."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

import numpy as np

from discreet._numbers import Number, check_int, check_positive, nearest_float, read_positive, to_rational
from discreet.errors import BadParameter, BadValues
from discreet.events import ExponentialEvent, PermuteAndFlipEvent
from discreet.mechanisms._additive_noise import ArrayLike, read_array_like, tail_per_error
from discreet.noise import Bits, SelectionRule, select
from discreet.units import Sensitivity, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """Chooses candidate i with P(i) ∝ e^{rate·score_i} [MT07], or by permute-and-flip at the same rate [MS20].

    >>> chooser = Exponential.for_epsilon(2, sensitivity=1)
    >>> chooser.release([0, 500, 3])
    1
    """

    rate: Fraction
    rule: SelectionRule

    def __init__(self, rate: Number, rule: SelectionRule = SelectionRule.EXPONENTIAL) -> None:
        object.__setattr__(self, "rate", check_positive(rate, "rate"))
        object.__setattr__(self, "rule", SelectionRule(rule))

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        sensitivity: Sensitivity | Number,
        rule: SelectionRule = SelectionRule.EXPONENTIAL,
        *,
        monotone: bool = False,
    ) -> "Exponential":
        """Return the ε-private mechanism: rate = ε/2Δ, where one unit moves each score by at most Δ.

        If one unit moves all scores in the same direction they are `monotone`, and rate = ε/Δ.
        """
        return cls(read_positive(epsilon, "epsilon") / ((1 if monotone else 2) * to_sensitivity(sensitivity).linf), rule)

    def release(self, values: Sequence[Number] | ArrayLike, bits: Bits | None = None) -> int:
        """Return the index of the chosen candidate; `values` are the scores: integers, rationals or exact floats."""
        scores = read_array_like(values) if hasattr(values, "__array__") and type(values) is not np.ndarray else values
        listed = scores.ndim > 0 if isinstance(scores, np.ndarray) else isinstance(scores, Sequence)
        if not listed or isinstance(scores, str) or len(scores) == 0:
            raise BadValues("are no list of scores", "give one score for each candidate, and at least one")
        exact = [score if type(score) is int else _read_score(score) for score in scores]
        return select(exact, self.rate, self.rule, bits)

    def event(
        self, sensitivity: Sensitivity | Number, grid: Number = 1, *, monotone: bool = False
    ) -> ExponentialEvent | PermuteAndFlipEvent:
        """Return the event: ε = 2·rate·Δ, or rate·Δ for monotone scores. Scores are exact, so the grid is not used."""
        epsilon = (1 if monotone else 2) * self.rate * to_sensitivity(sensitivity).linf
        return ExponentialEvent(epsilon) if self.rule is SelectionRule.EXPONENTIAL else PermuteAndFlipEvent(epsilon)

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return by how much the chosen of `size` scores is below the best at most, with the given confidence 1 − β.

        It is (ln size + ln 1/β)/rate [DR14, Thm 3.11]; permute-and-flip does at least as well [MS20, Thm 2].
        """
        beta, rate = tail_per_error(confidence, 1), nearest_float(self.rate)
        return log(check_int(size, "size", 1) / beta) / rate * (1 + 1e-12) if rate else inf


def _read_score(value: Number) -> Fraction:
    try:
        return to_rational(value, "score")
    except BadParameter:
        raise BadValues("hold a score that is no finite number", "give integers, rationals or finite floats") from None
