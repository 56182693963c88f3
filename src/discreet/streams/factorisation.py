"""Integer factorisations of the prefix sum: what a stream measures at each step, and how running totals follow from it.

A stream adds x_t at step t = 1..n and shows the running totals x_1 + … + x_t. Noise on each x_t alone would add up to an
error of √n. A factorisation A = B·C of the matrix A of prefix sums (lower-triangular ones) measures C·x + noise instead
and shows B times that. Here C is a matrix of *integers*, so what is measured is an exact integer, and the noise on it is
too.

**Square root** (`SquareRoot`, for Gaussian noise). C is lower triangular and Toeplitz with the coefficients c_j =
round(2^k·r_j), r_j = r_{j−1}·(2j−1)/(2j): those of 1/√(1−z), whose square is 1/(1−z), the prefix sum [FHU23]. B is
A·C⁻¹, again Toeplitz. The table of c_j is public, and norms are those of the integers themselves, so rounding costs
accuracy (1.00002 times the error at n = 1024 and k = 10) and never privacy.

**Proof** of `max_squares`: among all patterns of at most k steps, no two nearer than b, ‖Σ_{s∈S} C_s‖² is largest for S*
= {1, 1+b, 1+2b, …} [KL24, for real coefficients]. It is the sum over pairs s ≤ s' in S of Σ_{j=0}^{n−s'} c_j·c_{j+s'−s},
twice where s < s'. All terms are non-negative, and c does not increase, so a pair's sum does not decrease if its gap
s'−s or its later step s' becomes smaller. The i-th step of any S is at least that of S*, and the gap between its i-th
and its i'-th step is at least (i'−i)·b, as in S*. So every pair of S has a pair of S* that is no smaller, and more pairs
add no less. Rounding keeps the c_j non-negative and non-increasing, so this holds of the integers.

**Binary tree** (`Tree`, for Laplace noise and so for pure ε) [DNPR10; CSS11]. C has a row for every dyadic interval
(node) that ends within the n steps: entries 0 and 1. A step is in at most one node of each of ⌊log₂ n⌋ + 1 levels, and a
running total is the sum of one node per binary digit of t.

**Proof** of the sums under the replacing relation, one counter and one event: e_s − e_t moves the nodes that hold
exactly one of s and t. The top level has one node, of the first 2^L' steps, L' = ⌊log₂ n⌋. If it holds both, at most two
nodes on each other level move: 2L'. If it holds s alone, the L' + 1 nodes of s move and those of t, of which there are
at most as many as the n − 2^L' steps outside have binary digits. `tests/streams` compares both classes with dense
matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import ceil_float, check_int
from discreet.errors import BadParameter

MAX_STEPS = 4096
"""The longest horizon: eleven years of days. The table of B takes half a second to compute then."""

MIN_BITS = 10
"""c_0 = 2^10 for up to 1024 steps; one bit more for each doubling, so that the last coefficient keeps about five bits."""

FIXED_BITS, DIGIT_BYTES = 96, 20
"""B is kept as integers over 2^96. They are multiplied by C exactly, as one product of two numbers whose digits of 20 bytes
are the coefficients: sums of 4096 products of 97 by 13 bits take 122 bits."""

REFINEMENTS = 2
"""Each makes what is left of A − B·C smaller by the precision of doubles, until only the rounding to 2^-96 is left."""

MAX_COUNT = 1 << 40
"""What one step may add to a counter; more is cut off, which moves no two data sets further apart. Products of it with a row
of C stay below 2^62."""

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]


def check_steps(steps: int) -> int:
    """Return the number of steps of a horizon; refuse what no table is made for."""
    found = check_int(steps, "steps", 1)
    if found > MAX_STEPS:
        raise BadParameter(
            "steps", found, f"a stream has at most {MAX_STEPS:,}", "take longer periods, every=, or fewer steps"
        )
    return found


class Factorisation(Protocol):
    """What is measured at each step, and the weights of the measurements in a running total or a sliding window."""

    @property
    def steps(self) -> int:
        """The horizon n."""
        ...

    def measure(self, counts: Counts, step: int) -> Counts:
        """Return the exact rows of C·x that belong to a step, given x_1..x_step as rows, one column per counter."""
        ...

    def rows_at(self, step: int) -> int:
        """Return how many rows of C belong to a step."""
        ...

    def max_squares(self, at_most: int, apart: int) -> int:
        """Return the largest ‖Σ_{s∈S} C_s‖² over patterns S of at most so many steps, none nearer than `apart`."""
        ...

    def max_sum(self, at_most: int) -> int:
        """Return a bound on the largest sum of the entries of Σ_{s∈S} C_s over patterns of so many steps."""
        ...

    def replaced_squares(self) -> int:
        """Return the largest ‖C_s − C_t‖² over two steps, or ‖C_s‖² if that is larger."""
        ...

    def replaced_sum(self) -> int:
        """Return the largest sum of the absolute entries of C_s − C_t, or of C_s if that is larger."""
        ...


@lru_cache(maxsize=16)
def square_root(steps: int) -> "SquareRoot":
    """Return the square-root factorisation for a horizon, made once.

    >>> square_root(4).coefficients, square_root(1024).coefficients[-1]
    ((1024, 512, 384, 320), 18)
    """
    return SquareRoot(check_steps(steps))


@dataclass(frozen=True)
class SquareRoot:
    """The square root of the prefix sum, scaled and rounded to integers."""

    steps: int

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """c_0, …, c_{n−1}: the first column of C, which does not increase."""
        return round_coefficients(self.steps)

    @cached_property
    def inverse(self) -> tuple[int, ...]:
        """The coefficients of B = A·C⁻¹, as integers over 2^FIXED_BITS: a solution in doubles, refined by what it leaves."""
        c = np.array(self.coefficients, np.float64)
        found = _to_fixed(_solve(c, np.ones(self.steps)))
        for _ in range(REFINEMENTS):
            left = self._subtract_product(found)
            scaled = np.array([float(Fraction(each, 1 << FIXED_BITS)) for each in left])
            found = [each + more for each, more in zip(found, _to_fixed(_solve(c, scaled)), strict=True)]
        return tuple(found)

    @cached_property
    def residual(self) -> Fraction:
        """The largest entry of A − B·C, exactly: about 2^-85. A running total is off by at most this times the sum of x."""
        return Fraction(max(map(abs, self._subtract_product(self.inverse))), 1 << FIXED_BITS)

    @cached_property
    def residual_bound(self) -> float:
        """`residual` as a double, rounded up."""
        return ceil_float(self.residual)

    def _subtract_product(self, inverse: Sequence[int]) -> list[int]:
        """Return 2^FIXED_BITS − Σ_i c_i·b_{j−i} for every j, exactly."""
        product = _pack(self.coefficients) * _pack(inverse)
        digits = product.to_bytes(2 * self.steps * DIGIT_BYTES, "little")
        starts = range(0, self.steps * DIGIT_BYTES, DIGIT_BYTES)
        return [(1 << FIXED_BITS) - int.from_bytes(digits[start : start + DIGIT_BYTES], "little") for start in starts]

    @cached_property
    def _reversed(self) -> Counts:
        return np.array(self.coefficients[::-1], np.int64)

    @cached_property
    def weights(self) -> Reals:
        """The coefficients of B as doubles, each the nearest."""
        return np.array([float(Fraction(each, 1 << FIXED_BITS)) for each in self.inverse])

    def rows_at(self, step: int) -> int:
        """One row per step."""
        return 1

    def measure(self, counts: Counts, step: int) -> Counts:
        """As in `Factorisation`: Σ_s c_{t−s}·x_s, one row."""
        return np.asarray(self._reversed[self.steps - step :] @ counts[:step], np.int64)[None]

    def sum_squares(self, step: int, window: int | None = None) -> Fraction:
        """Return the sum of the squared weights of a running total, or of a window of so many steps."""
        return self._squares(window or self.steps)[step - 1]

    @lru_cache(maxsize=8)  # noqa: B019 - factorisations are made once per horizon and kept
    def _squares(self, window: int) -> tuple[Fraction, ...]:
        b = self.inverse
        differences = (each - (b[i - window] if i >= window else 0) for i, each in enumerate(b))
        return tuple(Fraction(each, 1 << 2 * FIXED_BITS) for each in accumulate(each * each for each in differences))

    def max_squares(self, at_most: int, apart: int) -> int:
        """As in `Factorisation`; the proof is at the head of this file."""
        c, total = np.array(self.coefficients, np.int64), np.zeros(self.steps, np.int64)
        for start in range(0, self.steps, apart)[:at_most]:
            total[start:] += c[: self.steps - start]
        return int(total @ total)  # below 2^50: no coefficient exceeds 2^12, nor their sum 2^19

    def max_sum(self, at_most: int) -> int:
        """As in `Factorisation`."""
        return min(at_most, self.steps) * sum(self.coefficients)

    def replaced_squares(self) -> int:
        """As in `Factorisation`: ‖C_s‖² + ‖C_t‖² − 2⟨C_s, C_t⟩, over all s < t.

        Of one gap g = t − s it is Σ_{j<n−s} d_j², d_j = c_j − c_{j−g}, which is largest for s = 1.
        """
        c, n = np.array(self.coefficients, np.int64), self.steps
        own = int(c @ c)
        return max([own, *(own + int(c[: n - g] @ c[: n - g]) - 2 * int(c[g:] @ c[: n - g]) for g in range(1, n))])

    def replaced_sum(self) -> int:
        """As in `Factorisation`, by the triangle inequality."""
        return 2 * sum(self.coefficients)


def _solve(c: Reals, right: Reals) -> Reals:
    """Solve C·v = right in doubles, one coefficient after the other."""
    found, backwards = np.zeros(c.size), c[::-1].copy()
    for j in range(c.size):
        found[j] = (right[j] - backwards[c.size - 1 - j : c.size - 1] @ found[:j]) / c[0]
    return found


def _pack(coefficients: Sequence[int]) -> int:
    """Return coefficients, none negative, as the digits of one number."""
    return int.from_bytes(b"".join(each.to_bytes(DIGIT_BYTES, "little") for each in coefficients), "little")


def _to_fixed(values: Reals) -> list[int]:
    """Return doubles as integers over 2^FIXED_BITS, each the nearest."""
    return [round(Fraction(each) * (1 << FIXED_BITS)) for each in values.tolist()]


@lru_cache(maxsize=64)
def round_coefficients(steps: int) -> tuple[int, ...]:
    """Return round(2^k·r_j), r_j the coefficients of 1/√(1−z), exactly: r_j = binomial(2j, j)/4^j.

    >>> round_coefficients(6)
    (1024, 512, 384, 320, 280, 252)
    """
    bits = max(MIN_BITS, (steps - 1).bit_length())
    found, top = [], 1  # r_j = top/4^j
    for j in range(steps):
        shift = 2 * j - bits
        found.append((top + (1 << shift >> 1)) >> shift if shift > 0 else top << -shift)
        top = top * (2 * (2 * j + 1)) // (j + 1)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Tree:
    """The binary tree: at step t, one count for every interval of 2^l steps that ends there."""

    steps: int

    def __post_init__(self) -> None:
        check_steps(self.steps)

    @property
    def levels(self) -> int:
        """How many levels the tree has: no step is in more nodes."""
        return self.steps.bit_length()

    def rows_at(self, step: int) -> int:
        """As many nodes end at a step as its number has zeros at the end in binary, and one."""
        return (step & -step).bit_length()

    def first_row(self, step: int) -> int:
        """Return how many nodes end before a step: Σ_{s<t} `rows_at` = 2(t − 1) − (ones of t − 1 in binary)."""
        return 2 * (step - 1) - (step - 1).bit_count()

    def measure(self, counts: Counts, step: int) -> Counts:
        """As in `Factorisation`: the sum over the last 2^l steps, for each l."""
        return np.stack([counts[step - (1 << level) : step].sum(axis=0) for level in range(self.rows_at(step))])

    def nodes(self, step: int) -> frozenset[tuple[int, int]]:
        """Return the nodes that a running total adds up, each as (the step that it ends at, its level).

        >>> sorted(Tree(8).nodes(7))
        [(4, 2), (6, 1), (7, 0)]
        """
        found = set[tuple[int, int]]()
        while step:
            found.add((step, self.rows_at(step) - 1))
            step &= step - 1
        return frozenset(found)

    def signed_nodes(self, step: int, window: int | None = None) -> dict[tuple[int, int], int]:
        """Return the nodes of a running total, or of a window of so many steps, each with its sign.

        What both ends of a window share cancels, and so does its noise.
        """
        here = self.nodes(step)
        before = frozenset[tuple[int, int]]() if window is None or window >= step else self.nodes(step - window)
        return dict.fromkeys(here - before, 1) | dict.fromkeys(before - here, -1)

    def max_squares(self, at_most: int, apart: int) -> int:
        """As in `Factorisation`, as a bound: all events in one node of each level."""
        return min(at_most, -(-self.steps // apart)) ** 2 * self.levels

    def max_sum(self, at_most: int) -> int:
        """As in `Factorisation`: each event is in at most one node per level."""
        return min(at_most, self.steps) * self.levels

    def replaced_squares(self) -> int:
        """As in `Factorisation`: entries are 0 and ±1, so squares are sums."""
        return self.replaced_sum()

    def replaced_sum(self) -> int:
        """As in `Factorisation`; the proof is at the head of this file."""
        outside = self.steps - (1 << self.levels - 1)  # steps beyond the only node of the top level
        return max(self.levels, 2 * self.levels - 2, self.levels + outside.bit_length())


def is_non_increasing(coefficients: tuple[int, ...]) -> bool:
    """Return whether the hypothesis of the theorem on patterns holds."""
    return coefficients[-1] >= 0 and all(before >= after for before, after in pairwise(coefficients))
