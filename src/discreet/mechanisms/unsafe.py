"""Mechanisms that must not be used: for the lab, and as targets that the auditor must find.

Catastrophe satisfies (ε, δ)-privacy, name-and-shame (0, δ)-privacy, and both publish records; float Laplace claims ε and
breaks it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import expm1, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, check_probability, read_positive, read_probability
from discreet.events import Claim
from discreet.mechanisms.laplace import Laplace
from discreet.noise import SYSTEM, Bits, bernoulli
from discreet.noise.bits import check_bits
from discreet.units import Sensitivity, to_sensitivity


def at_least_once(probability: Number, times: int) -> float:
    """Return 1 − (1 − p)^k: the probability that something happens at least once in k independent tries.

    >>> round(at_least_once(0.001, 1000), 4), at_least_once(1e-300, 2)
    (0.6323, 2e-300)
    """
    return -expm1(times * log1p(-float(check_probability(probability, "probability"))))


@dataclass(frozen=True, slots=True, init=False)
class Catastrophe:
    """Returns all the data with probability δ, otherwise q(x) + Lap(s/ε) [N1]: (ε, δ)-private, and a disaster.

    The query is an integer function of the list, `len` unless another is given; s is its sensitivity.

    >>> Catastrophe(1e-6, epsilon=1).event()
    Claim(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000))
    """

    delta: Fraction
    epsilon: Fraction
    query: Callable[[list[Any]], int]
    sensitivity: Sensitivity

    def __init__(
        self,
        delta: Number,
        epsilon: Number = 1,
        query: Callable[[list[Any]], int] = len,
        sensitivity: Sensitivity | Number = 1,
    ) -> None:
        object.__setattr__(self, "delta", read_probability(delta, "delta"))
        object.__setattr__(self, "epsilon", read_positive(epsilon, "epsilon"))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "sensitivity", to_sensitivity(sensitivity))

    def release(self, values: list[Any], bits: Bits | None = None) -> Any:
        """Return the data as a list, or the noisy result of the query as an integer."""
        if bernoulli(self.delta, 1, bits)[0]:
            return list(values)
        return Laplace.for_epsilon(self.epsilon, self.sensitivity).release(self.query(values), bits)

    def event(self) -> Claim:
        """Return the claim (ε, δ).

        P(E) ≤ δ + (1−δ)·L(E) ≤ δ + (1−δ)·e^ε·L'(E) ≤ e^ε·P'(E) + δ, where L is the distribution of the noisy query.
        """
        return Claim(self.epsilon, self.delta)

    def expected_exposures(self, n: int) -> float:
        """Return how many of n records are published on average: nδ, all at once."""
        return float(check_int(n, "n") * self.delta)


@dataclass(frozen=True, slots=True, init=False)
class NameAndShame:
    """Publishes each record with probability δ: (0, δ)-private, and nδ people are exposed on average."""

    delta: Fraction

    def __init__(self, delta: Number) -> None:
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    def release(self, values: list[Any], bits: Bits | None = None) -> list[Any]:
        """Return the records that are published."""
        return [value for value, shown in zip(values, bernoulli(self.delta, len(values), bits), strict=True) if shown]

    def event(self) -> Claim:
        """Return the claim (0, δ): one record's output changes, and differs with probability δ."""
        return Claim(self.delta * 0, self.delta)

    def expected_exposures(self, n: int) -> float:
        """Return how many of n records are published on average: nδ."""
        return float(check_int(n, "n") * self.delta)


@dataclass(frozen=True, slots=True, init=False)
class FloatLaplace:
    """Laplace noise in doubles, as in textbooks: the trailing bits of the output reveal the input [Mir12]."""

    scale: float

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", float(check_positive(scale, "scale")))

    def release(self, values: NDArray[np.float64], bits: Bits | None = None) -> NDArray[np.float64]:
        """Return x ± scale·ln U with a 53-bit U, in floating point."""
        array = np.asarray(values, np.float64)
        words = (SYSTEM if bits is None else check_bits(bits)).words(array.size).reshape(array.shape)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
        noise: NDArray[np.float64] = np.where(words & np.uint64(1), self.scale, -self.scale) * np.log(uniform)
        return array + noise
