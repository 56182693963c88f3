"""Mechanisms that must not be used: for the lab, and as targets that the auditor must find.

Catastrophe and name-and-shame satisfy (0, δ)-privacy and still publish records; float Laplace claims ε and breaks it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, read_probability
from discreet.events import Claim
from discreet.noise import SYSTEM, Bits, bernoulli


@dataclass(frozen=True, slots=True, init=False)
class Catastrophe:
    """Returns all the data with probability δ, else nothing: (0, δ)-private, and a disaster once in 1/δ releases."""

    delta: Fraction

    def __init__(self, delta: Number) -> None:
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    def release(self, values: list[Any], bits: Bits | None = None) -> list[Any]:
        """Return the data, or an empty list."""
        return list(values) if bernoulli(self.delta, 1, bits)[0] else []

    def event(self) -> Claim:
        """Return the claim (0, δ): the outcome "everything" has probability δ, and nothing else differs."""
        return Claim(self.delta * 0, self.delta)

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
        words = (SYSTEM if bits is None else bits).words(array.size).reshape(array.shape)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
        noise: NDArray[np.float64] = np.where(words & np.uint64(1), self.scale, -self.scale) * np.log(uniform)
        return array + noise
