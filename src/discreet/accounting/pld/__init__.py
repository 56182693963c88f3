"""Privacy-loss distributions: the privacy loss of one event in one direction, by its moment-generating function.

Write L = ln P/Q under P for a dominating pair (P, Q), and M(z) = E_P[e^{zL}; L < ∞]; the mass at +∞ is kept apart, in
`dominating_pairs.Direction`. The contour needs M on a line Re z = c. A `Pld` answers, in doubles and each with a proven
error:

- `cgf(c)`: K = ln M at real points, never below the truth by more than the stated error; ∞ where it would cost too much;
- `mgf_ratio(c, base, s)`: ln(M(c + is)/e^base), and a bound on the absolute error of its exponential;
- `max_loss`: the largest value of L, which L does not exceed by more than a few roundings; ∞ if there is none;
- `modulus_bounds(c, s)`: cheap bounds on ln(|M(c + is)|/M(c));
- `decay_bound(c, s)`: a number that ln(|M(c + it)|/M(c)) does not exceed for any t ≥ s; `quick_decay_bound(c, s)` another;
- `atoms()`, where `is_discrete`: all values with their masses.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from discreet.accounting.pld.discrete import DiscretePld

Floats: TypeAlias = NDArray[np.floating[Any]]
Complexes: TypeAlias = NDArray[np.complexfloating[Any, Any]]
Interval: TypeAlias = tuple[float, float]
"""Two doubles with the exact value between them."""

EPS = 2.0**-52
"""Twice the unit round-off. NumPy's exp, log, sin, cos and expm1 are trusted to 4·EPS; the tests measure them."""

SPECIAL_ERROR = 32 * 2.0**-52
"""Relative error assumed of scipy's erfcx (about 1e-15 is claimed for it); the tests measure it against Arb."""


@dataclass(frozen=True, slots=True)
class MgfRatio:
    """ln of M(c + is)/e^base at many s, and how far its exponential may be from the true quotient."""

    log: Complexes
    error: Floats


class Pld(ABC):
    """A privacy-loss distribution that the contour can integrate."""

    __slots__ = ()

    is_discrete: ClassVar[bool] = False
    """Whether `atoms` may list all values."""

    @property
    @abstractmethod
    def max_loss(self) -> float:
        """The largest finite loss, or ∞."""

    @abstractmethod
    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """K at the points c > 0, and its error bound."""

    @abstractmethod
    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        """ln(M(c + is)/e^base) at the points s ≥ 0."""

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """Cheap bounds, at most 0 or nearly so, on ln(|M(c + is)|/M(c)) at the points s > 0; 0 where none is known."""
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        """A bound, at most 0, on ln(|M(c + it)|/M(c)) for all t ≥ s; 0 for distributions with atoms, which do not decay."""
        return 0.0

    def quick_decay_bound(self, c: float, s: float) -> float:
        """The same where there is a quicker way to a bound that is not as good."""
        return self.decay_bound(c, s)

    def atoms(self) -> "tuple[DiscretePld, float] | None":
        """All values, and the mass that the list leaves out; None where there are too many."""
        return None


Part: TypeAlias = tuple[Pld, int]
"""A distribution, and how many independent losses have it."""

Parts: TypeAlias = Sequence[Part]
"""Independent losses, which add up."""
