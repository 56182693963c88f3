"""Mechanisms that must not be used: for the lab, and as targets that an auditor has to find.

They satisfy a definition and are terrible (catastrophe, name and shame), or claim one and break it (float Laplace).
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
    """With probability δ returns all the data, else nothing: (0, δ)-private, and a disaster once in 1/δ."""

    delta: Fraction

    def __init__(self, delta: Number) -> None:
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    def release(self, values: list[Any], bits: Bits | None = None) -> list[Any]:
        """The data, or an empty list."""
        return list(values) if bernoulli(self.delta, 1, bits)[0] else []

    def event(self) -> Claim:
        """(0, δ): the event "everything" has probability δ, and nothing else differs."""
        return Claim(self.delta * 0, self.delta)

    def expected_exposures(self, n: int) -> float:
        """nδ, all at once."""
        return float(check_int(n, "n") * self.delta)


@dataclass(frozen=True, slots=True, init=False)
class NameAndShame:
    """Each record in clear with probability δ: (0, δ)-private, and nδ people are exposed in expectation."""

    delta: Fraction

    def __init__(self, delta: Number) -> None:
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    def release(self, values: list[Any], bits: Bits | None = None) -> list[Any]:
        """The unlucky ones."""
        return [value for value, out in zip(values, bernoulli(self.delta, len(values), bits), strict=True) if out]

    def event(self) -> Claim:
        """(0, δ): one record's output changes, and differs with probability δ."""
        return Claim(self.delta * 0, self.delta)

    def expected_exposures(self, n: int) -> float:
        """nδ."""
        return float(check_int(n, "n") * self.delta)


@dataclass(frozen=True, slots=True, init=False)
class FloatLaplace:
    """Textbook Laplace in doubles: the trailing bits of the answer tell which input it came from [Mir12]."""

    scale: float

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", float(check_positive(scale, "scale")))

    def release(self, values: NDArray[np.float64], bits: Bits | None = None) -> NDArray[np.float64]:
        """x ± scale·ln U with a 53-bit U, in floating point."""
        array = np.asarray(values, np.float64)
        words = (SYSTEM if bits is None else bits).words(array.size).reshape(array.shape)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
        noise: NDArray[np.float64] = np.where(words & np.uint64(1), self.scale, -self.scale) * np.log(uniform)
        return array + noise
