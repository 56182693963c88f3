"""Choosing one of several candidates by a score, privately."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

import numpy as np

from discreet.errors import BadParameter, BadValues
from discreet.exact import Number, nearest_float, positive, rational, read_positive, whole
from discreet.loss import ExponentialLoss, PermuteAndFlipLoss
from discreet.mechanisms.quantile import allowed_miss
from discreet.noise import Bits, Race, select
from discreet.units import Sensitivity
from discreet.units import sensitivity as bound


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """Chooses candidate i with P(i) ∝ e^{rate·score_i} [MT07], or by permute-and-flip at the same rate [MS20].

    >>> chooser = Exponential.for_epsilon(2, sensitivity=1)
    >>> chooser.release([0, 500, 3])
    1
    """

    rate: Fraction
    race: Race

    def __init__(self, rate: Number, race: Race = Race.EXPONENTIAL) -> None:
        object.__setattr__(self, "rate", positive(rate, "rate"))
        object.__setattr__(self, "race", Race(race))

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        sensitivity: Sensitivity | Number,
        race: Race = Race.EXPONENTIAL,
        *,
        monotone: bool = False,
    ) -> "Exponential":
        """rate = ε/2Δ, where one unit moves each score by at most Δ; ε/Δ if it moves all of them the same way."""
        return cls(read_positive(epsilon, "epsilon") / ((1 if monotone else 2) * bound(sensitivity).linf), race)

    def release(self, values: Sequence[Number], bits: Bits | None = None) -> int:
        """The index of the chosen one; `values` are the scores, whole numbers or rationals or floats taken exactly."""
        if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or len(values) == 0:
            raise BadValues("are no list of scores", "give at least one candidate")
        return select([_score(value) for value in values], self.rate, self.race, bits)

    def loss(
        self, sensitivity: Sensitivity | Number, grid: Number = 1, *, monotone: bool = False
    ) -> ExponentialLoss | PermuteAndFlipLoss:
        """ε = 2·rate·Δ, or rate·Δ for monotone scores. Scores are taken exactly: a grid plays no part."""
        epsilon = (1 if monotone else 2) * self.rate * bound(sensitivity).linf
        return ExponentialLoss(epsilon) if self.race is Race.EXPONENTIAL else PermuteAndFlipLoss(epsilon)

    def error(self, confidence: Number, size: int = 1) -> float:
        """Among `size` candidates the chosen score falls short of the best by at most this: (ln size + ln 1/β)/rate
        [DR14, Thm 3.11]; permute-and-flip does at least as well [MS20, Thm 2]."""
        fail, rate = allowed_miss(confidence), nearest_float(self.rate)
        return log(whole(size, "size", 1) / fail) / rate * (1 + 1e-12) if rate else inf


def _score(value: Number) -> Fraction:
    try:
        return rational(value, "score")
    except BadParameter:
        raise BadValues("hold a score that is no finite number", "give integers, rationals or finite floats") from None
