"""The privacy loss of one release as a random variable, in one direction: what its moment generating function is.

Write L = ln P/Q under P for a dominating pair (P, Q), and M(z) = E_P[e^{zL}; L < ∞] (mass at +∞ is kept apart, in
`directions.Direction`). The contour needs M on a line Re z = c. A law answers five questions, in doubles, each with a proven
error:

- `real(c)`: K = ln M on real points, never below the truth by more than the stated error; ∞ where it would cost too much;
- `ratio(c, base, s)`: ln(M(c + is)/e^base) and a bound on the absolute error of its exponential;
- `most`: the largest value of L, which nothing exceeds by more than a few roundings; ∞ if there is none;
- `size(c, s)`: bounds on ln(|M(c + is)|/M(c)), cheaply;
- `envelope(c, s)`: a number that ln(|M(c + it)|/M(c)) does not exceed for any t ≥ s.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Complexes: TypeAlias = NDArray[np.complexfloating[Any, Any]]

EPS = 2.0**-52
"""Twice the unit round-off. NumPy's exp, log, sin, cos and expm1 are trusted to 4·EPS; the tests measure them."""


@dataclass(frozen=True, slots=True)
class MgfRatio:
    """ln of M(c + is)/e^base at many s, and how far its exponential may be from the true quotient."""

    log: Complexes
    error: Floats


class Pld(Protocol):
    """A privacy-loss random variable that the contour can integrate."""

    @property
    def max_loss(self) -> float:
        """The largest finite loss, or ∞."""

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """K at the points c > 0, and its error bound."""

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        """ln(M(c + is)/e^base) at the points s ≥ 0."""

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """Cheap bounds, at most 0 or nearly so, on ln(|M(c + is)|/M(c)) at the points s > 0."""

    def decay_bound(self, c: float, s: float) -> float:
        """A bound, at most 0, on ln(|M(c + it)|/M(c)) for all t ≥ s."""


SPECIAL_ERROR = 32 * 2.0**-52
"""Relative error assumed of scipy's erfcx (about 1e-15 is claimed for it); the tests measure it against Arb."""
