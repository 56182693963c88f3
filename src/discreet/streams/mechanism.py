"""The noise of a stream: what the whole horizon costs, and how far off each running total is.

**What is private.** Two histories of the data are neighbours if they differ in what one unit contributed, at any of its
steps: a unit that is there in one and not in the other, or (replace) that contributed something else. `state` lets a
unit count in at most `at_most` steps, at least `apart` steps apart, with at most `max_groups` counters and `max_rows`
rows in each per step; what it cut is never revised. Later data, and who looks at the stream, may depend on everything
that was shown.

**Proof** of the sensitivity. One unit's contributions are non-negative integers u_{s,i} ≤ r in steps s of a pattern S
and counters i, at most m counters per step. C has no negative entry, so with G = CᵀC

    Σ_i ‖C·u_i‖² ≤ r² Σ_{s,s'∈S} G_{ss'}·#{i: both s and s' count in i} ≤ m·r²·max_S ‖Σ_{s∈S} C_s‖² = m·r²·`max_squares`,

and Σ_i ‖C·u_i‖₁ ≤ m·r·`max_sum`. A replaced unit moves C by u − v, both of this kind. G has no negative entry, so
‖C(u − v)‖² ≤ ‖C·u‖² + ‖C·v‖²: twice as much; for one counter and one event it is r²·‖C_s − C_t‖² at most (a convex
function of two sizes between 0 and r is largest at their ends), which is less than twice.

**Proof** of the guarantee, Gaussian noise. What is released at step t is round((C·x)_t + N(0, σ²)), because C·x is an
integer: post-processing of a Gaussian mechanism whose shift d_t between the two histories is fixed before its noise is
drawn, and Σ_t d_t² ≤ Δ² whatever was released. That is a fully adaptive composition of Gaussian mechanisms with Σμ_t² ≤
(Δ/σ)², which is Δ/σ-GDP without loss [ST22; KTH23]; for factorisations it is the theorem on adaptive streams of [DEN22].
So one GaussianEvent with l2 = Δ is what ran: its whole curve holds, for any `at_most`. With discrete Gaussian noise only
its ρ would.

**Proof**, Laplace noise. Of the nodes that end at step t, each moves by an integer that is fixed before its noise is
drawn, and the sum of all moves is at most Δ₁ whatever was released. So the ratio of the probabilities of any outputs is
at most e^{Δ₁/scale}. With one event per unit, the two histories agree until it happens and then differ by fixed amounts:
the event is that of at most m·levels coordinates that each move by r. With several, one coordinate that moves by Δ₁
dominates: a shift by d and then, whatever is seen, shifts of Δ₁ − d are no easier to tell apart than one shift of Δ₁
(`accounting/dominating_pairs.py`).

**Intervals.** The error of a running total is Σ_j w_j·z_j for public weights w (`factorisation`). A rounded Gaussian draw
is a normal one and a rounding error of at most ½, which is symmetric; both are independent over draws. With β₁ + β₂ = 1 −
confidence, the normal parts exceed z_{1−β₁/2}·σ·√Σw² with probability β₁, and the rounding errors √(½·Σw²·ln(2/β₂)) with
probability β₂ at most (Hoeffding's inequality); the two need not be independent of each other. Laplace noise: the tail of
the sum of so many draws (`mechanisms/weighted_sums.py`). Both are proven for the noise that is drawn, not for its normal
approximation.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log, sqrt
from typing import TypeAlias

import numpy as np

from discreet._numbers import ceil_float, sqrt_up
from discreet.accounting.currencies import Currency
from discreet.errors import BadParameter
from discreet.events import Composition, compose
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error
from discreet.noise import Bits
from discreet.noise.laplace import check_sampler_scale
from discreet.streams.factorisation import MAX_COUNT, Counts, Reals, SquareRoot, Tree, square_root
from discreet.units import Neighbours, Sensitivity

SAFETY_FACTOR = 1 + 1e-9
"""More than the rounding of a few operations on doubles."""

ROUNDING_SHARES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-6)
"""The shares of 1 − confidence that the rounding part may get; the smallest sum is taken. They are public."""


@dataclass(frozen=True, slots=True)
class Participation:
    """How often one unit counts in a stream, and how much."""

    at_most: int  # steps in which it counts
    apart: int  # steps between two of them, at least
    max_groups: int = 1  # counters per step
    max_rows: int = 1  # rows per step and counter
    counters: int = 1  # how many there are
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def sensitivity(self, matrix: SquareRoot | Tree) -> Sensitivity:
        """Return how far one unit moves all that is measured over the horizon; the proof is at the head of this file."""
        m, r = min(self.max_groups, self.counters), self.max_rows
        is_replaced = self.neighbours is Neighbours.REPLACE
        is_single = is_replaced and self.at_most == 1 and self.counters == 1
        if isinstance(matrix, SquareRoot):
            squares = matrix.max_squares(self.at_most, self.apart) * (2 if is_replaced else 1)
            return Sensitivity(l2_squared=(matrix.replaced_squares() if is_single else m * squares) * r**2)
        if self.at_most == 1 and not is_replaced:
            return Sensitivity(l0=m * matrix.levels, linf=r)
        events = min(self.at_most, ceil(matrix.steps / self.apart))
        sums = matrix.max_sum(events) * (2 if is_replaced else 1)
        return Sensitivity(l1=(matrix.replaced_sum() if is_single else m * sums) * r)


@dataclass(frozen=True, slots=True)
class SquareRootMechanism:
    """Rounded Gaussian noise on the square root of the prefix sum."""

    matrix: SquareRoot
    noise: Gaussian

    @property
    def scale(self) -> Fraction:
        """σ, in units of C·x."""
        return self.noise.sigma

    def event(self, sensitivity: Sensitivity) -> Composition:
        """Return the event of the whole horizon."""
        return compose(self.noise.event(sensitivity))

    def measure(self, counts: Counts, step: int, bits: Bits | None = None) -> list[list[int]]:
        """Return the noisy rows of a step."""
        return _add_noise(self.noise, self.matrix.measure(counts, step), bits)

    def estimate(self, measured: Counts, step: int, window: int | None = None) -> tuple[Reals, Reals]:
        """Return the running totals of all counters after a step, or their sums over a window, and bounds on the error of
        computing them in doubles; `measured` holds the noisy rows of all steps so far, in order.

        **Proof** of the bounds: a sum of t products of doubles, each of which is rounded at most three times before, is
        off by at most (t + 4)·2^-53/(1 − (t + 4)·2^-53) times the sum of their absolute values [Hig02, §3.1]; twice
        that is taken. B·C is not quite A (`SquareRoot.residual`), which is added.
        """
        values = measured[:step].astype(np.float64)
        weights = self.matrix.weights[:step].copy()
        if window is not None and window < step:
            weights[window:] -= self.matrix.weights[: step - window]
        sizes = np.abs(self.matrix.weights[:step]) + np.abs(weights)
        slack = 2 * (step + 4) * 2.0**-53 * (sizes[::-1] @ np.abs(values))
        slack += 2 * self.matrix.residual_bound * MAX_COUNT * step
        return np.asarray(weights[::-1] @ values), np.asarray(slack)

    def half_width(self, step: int, window: int | None, confidence: float) -> float:
        """Return an error that a running total, or a window, does not exceed with this confidence."""
        squares = ceil_float(self.matrix.sum_squares(step, None if window is None or window >= step else window))
        return sqrt(squares) * _unit_half_width(self.noise.sigma, confidence)


@lru_cache(maxsize=64)
def _unit_half_width(sigma: Fraction, confidence: float) -> float:
    """Return the half-width where Σw² = 1. Both parts of an interval grow with √Σw², so one division is best for all."""
    from scipy.special import ndtri

    scale, failure = ceil_float(sigma), 1 - confidence

    def width(share: float) -> float:
        return -float(ndtri(failure * (1 - share) / 2)) * scale + sqrt(log(2 / (failure * share)) / 2)

    return min(map(width, ROUNDING_SHARES)) * SAFETY_FACTOR


@dataclass(frozen=True, slots=True)
class TreeMechanism:
    """Discrete Laplace noise on the nodes of a binary tree: pure ε."""

    matrix: Tree
    noise: Laplace

    @property
    def scale(self) -> Fraction:
        """The scale of the noise of a node."""
        return self.noise.scale

    def event(self, sensitivity: Sensitivity) -> Composition:
        """Return the event of the whole horizon."""
        return compose(self.noise.event(sensitivity))

    def measure(self, counts: Counts, step: int, bits: Bits | None = None) -> list[list[int]]:
        """Return the noisy nodes that end at a step."""
        return _add_noise(self.noise, self.matrix.measure(counts, step), bits)

    def estimate(self, measured: Counts, step: int, window: int | None = None) -> tuple[Reals, Reals]:
        """Return the running totals of all counters after a step, or their sums over a window: sums of nodes, exact below
        2^53."""
        nodes = self.matrix.signed_nodes(step, window)
        rows = {place: measured[self.matrix.first_row(place[0]) + place[1]].astype(object) for place in nodes}
        total = sum(sign * rows[place] for place, sign in nodes.items())
        values = np.asarray(total, np.float64)
        return values, np.abs(values) * 2.0**-52

    def half_width(self, step: int, window: int | None, confidence: float) -> float:
        """Return an error that a running total, or a window, does not exceed with this confidence."""
        nodes = len(self.matrix.signed_nodes(step, window))
        return weighted_sum_error(self.noise, ((Fraction(1), nodes),), (1 - confidence) / 2)


StreamMechanism: TypeAlias = SquareRootMechanism | TreeMechanism


def calibrate_stream(
    steps: int, participation: Participation, currency: Currency, amount: Fraction
) -> tuple[StreamMechanism, Composition]:
    """Return the noise that an amount of the account's currency buys for a whole horizon, and its event.

    An account in ε gets the tree with Laplace noise; every other one the square root with Gaussian noise.

    >>> from discreet.accounting.currencies import parse_currency
    >>> mechanism, event = calibrate_stream(1024, Participation(1, 1), parse_currency("zcdp"), Fraction(1, 8))
    >>> round(mechanism.half_width(1024, None, 0.95), 2)  # 1.96 · 3.27263 · 2, and a little for the rounding
    12.83
    """
    mechanism: StreamMechanism
    if currency.counts_epsilon:
        tree = Tree(steps)
        sensitivity = participation.sensitivity(tree)
        mechanism = TreeMechanism(tree, Laplace.for_epsilon(amount, sensitivity))
    else:
        matrix = square_root(steps)
        sensitivity = participation.sensitivity(matrix)
        variance = currency.gaussian_variance(amount, sensitivity.l2_squared)
        if variance is None:
            raise BadParameter("currency", currency.name, "Gaussian noise has no cost in it", "open an account in zcdp")
        mechanism = SquareRootMechanism(matrix, Gaussian(sqrt_up(variance)))
    check_sampler_scale(mechanism.scale)
    return mechanism, mechanism.event(sensitivity)


def make_mechanism(kind: str, steps: int, scale: Fraction) -> StreamMechanism:
    """Return the mechanism that a ledger describes by its kind and its scale."""
    if kind == "tree":
        return TreeMechanism(Tree(steps), Laplace(scale))
    if kind == "square root":
        return SquareRootMechanism(square_root(steps), Gaussian(scale))
    raise BadParameter("stream", repr(kind), "no such factorisation", "read it with the version that opened it")


def kind_of(mechanism: StreamMechanism) -> str:
    """Return the kind of a mechanism, as a ledger holds it."""
    return "tree" if isinstance(mechanism, TreeMechanism) else "square root"


def round_interval(value: float, half_width: float) -> tuple[int, int]:
    """Return the integers of an interval around a count that is an integer of at least 0.

    >>> round_interval(10.3, 4.9), round_interval(-7.0, 3.5), round_interval(2.5, 0.1)
    ((6, 15), (0, 0), (2, 2))
    """
    lower, upper = max(0, ceil(value - half_width)), max(0, floor(value + half_width))
    return (lower, upper) if lower <= upper else (upper, upper)


def _add_noise(noise: Gaussian | Laplace, exact: Counts, bits: Bits | None) -> list[list[int]]:
    """Return counts plus fresh noise, saturating: neither an overflow nor an error depends on a value."""
    noisy: Counts = noise.release(exact, bits)
    return [[int(each) for each in row] for row in noisy]
