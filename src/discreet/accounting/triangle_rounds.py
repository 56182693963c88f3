"""Many rounds of Gaussian noise on samples without replacement, from below: a statistic with values at a triangle's corners.

**Proof** that what is computed is attained. One unit is replaced, a share q of all units is sampled, and all other units are
alike. The statistic is a vector: 0 if neither the unit nor its replacement is in the sample, u if the unit is, v if the
replacement is. With |u| = |v| = |u − v| = Δ, the corners of an equilateral triangle, every unit of a sample that is replaced
moves it by at most Δ, and of the events it is only known that their l2 norm is at most Δ. So the answers are distributed as
P = (1 − q)N(0) + qN(u) and as Q = (1 − q)N(0) + qN(v), in two dimensions, with μ = Δ/σ.

Of many rounds, whose losses are small, the variance of the loss decides: it is about 2q²(e^{μ²} − e^{μ²/2}), and q²(e^{μ²} −
1) where the replacement does not move the statistic. Some rounds may be of one kind and the others of the other.

*The list.* Along u − v the three means are 0, μ/2 and −μ/2, along u + v they are 0, √¾·μ and √¾·μ. Cells are products of
intervals in these coordinates, so their masses are products; to merge outcomes into cells, and cells with each other, is
post-processing. The mass outside is left out: no outcome counts less than 0.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Floats, Part
from discreet.accounting.pld.cells import log_normal_cells, merge_below
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pld.sampled import SampledGaussianPld
from discreet.events import Composition, Event, GaussianEvent, SampledWithoutReplacement

_LEAST_ROUNDS = 100  # of fewer, the other kind is worse
_CELLS = 280  # along each side
_REACH = 9.0


@lru_cache(maxsize=16)
def build_triangle_pld(squared: Fraction, rate: Fraction) -> DiscretePld:
    """A list that the triangle's pair dominates; `squared` is μ².

    >>> pld = build_triangle_pld(Fraction(1), Fraction(1, 100))
    >>> 0.999 < float(np.exp(pld.log_mass).sum()) < 1
    True
    """
    # A shorter side is attained too, so μ may be rounded down.
    mu = sqrt(nearest_float(squared)) * (1 - 8 * EPS)
    return _list_pair(mu, mu / 2, sqrt(0.75) * (1 - 4 * EPS) * mu, rate)


def _list_pair(mu: float, side: float, height: float, rate: Fraction) -> DiscretePld:
    """The list where the means are (±`side`, `height`)."""
    far = _REACH + mu
    edges = 3 * np.sinh(np.linspace(-np.arcsinh(far / 3), np.arcsinh(far / 3), _CELLS + 1))  # narrower in the middle

    def masses(shift: float) -> tuple[Floats, Floats]:
        log_mass, error = log_normal_cells(edges - shift)
        return log_mass, error + 8 * EPS * (1 + (np.abs(edges[1:]) + mu) * (mu + 1)) / np.diff(edges)

    (along, e0), (right, e1), (left, e2) = masses(0.0), masses(side), masses(-side)
    (up, e3), (raised, e4) = (along, e0), masses(height)
    away, there = log(nearest_float(1 - rate)), log(nearest_float(rate))
    none = away + np.add.outer(along, up)
    log_p, log_q = (np.logaddexp(none, there + np.add.outer(one, raised)).ravel() for one in (right, left))
    error = np.add.outer(np.maximum(np.maximum(e0, e1), e2), np.maximum(e3, e4)).ravel()
    error = error + 16 * EPS * (4 + np.abs(log_p) + np.abs(log_q))
    certain = error < 1e-6  # others, far out, are left out
    loss = (log_p - log_q)[certain]
    return merge_below(DiscretePld.of(loss, log_p[certain], 2 * error[certain], error[certain]))


@dataclass(frozen=True, slots=True)
class TriangleRounds:
    """`times` rounds of Gaussian noise with μ² = `squared` on a share `rate` of the units."""

    squared: Fraction
    rate: Fraction
    times: int

    def list_parts(self) -> tuple[tuple[Part, ...], ...]:
        """Losses of neighbours that exist: all rounds of this kind, and half of them."""
        triangle = build_triangle_pld(self.squared, self.rate)
        removed = SampledGaussianPld(self.squared, self.rate, removed=True)
        half = self.times // 2
        return ((triangle, self.times),), ((triangle, half), (removed, self.times - half))


def find_triangle_rounds(event: Event) -> TriangleRounds | None:
    """The rounds that an event is, if they are many of one Gaussian whose l2 norm alone is known.

    With a norm l0 of 1, as a count has, only one coordinate may move, and a triangle takes two.
    """
    match event:
        case Composition(
            parts=((SampledWithoutReplacement(event=GaussianEvent(sigma=sigma, sensitivity=norms), rate=rate), times),)
        ) if _LEAST_ROUNDS <= times <= 10**9 and Fraction(1, 10**6) < rate < 1:
            squared = norms.l2_squared / sigma**2
            is_free = norms.l0 is None and norms.l1 is None and norms.linf**2 >= norms.l2_squared
            return TriangleRounds(squared, rate, times) if is_free and Fraction(1, 100) < squared < 16 else None
    return None
