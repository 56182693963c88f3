"""Quantiles from a tree of noisy counts, with an interval of values.

For a share q let D(b) = (1−q)·(rows in cells up to b) − q·(rows in cells above b). It only grows with b, and the quantile's
cell b* is the first where D ≥ 0. Going down the tree to b, every level has one node's siblings to the left, which are below,
and to the right, which are above; so D(b) is a weighted sum of noises that are few, independent and never reused, and its
error e(b) at a fixed b is known.

The interval takes cells from the left while D̃ < −e and from the right while D̃(·−1) > e. It misses b* only if D̃ is wrong by
more than e at b* itself, or at b*−1: two fixed places, each with half of the probability that is allowed, however many
cells there are. (A sequence of tests in a fixed order needs no correction for its length.)
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.quantile import read_confidence
from discreet.mechanisms.sums import weighted_sum_error
from discreet.query.measures import CellCounts

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


def sum_tree_levels(counts: CellCounts, cells: Ints) -> Ints:
    """All levels' counts, root's children first, from the leaves' (one row per group)."""
    levels, size = [], 1
    for fan in counts.branching:
        size *= fan
        levels.append(cells.reshape(len(cells), size, -1).sum(axis=2))
    return np.concatenate(levels, axis=1)


@dataclass(frozen=True)
class QuantileEstimator:
    """Reads one quantile off a tree."""

    tree: CellCounts
    q: Fraction

    def ranks(self, noisy: Ints) -> Reals:
        """D̃ at every cell, one row per group."""
        rows, found, size, start = len(noisy), np.zeros((len(noisy), 1)), 1, 0
        left, right = float(1 - self.q), float(self.q)
        for fan in self.tree.branching:
            level = noisy[:, start : start + size * fan].astype(np.float64).reshape(rows, size, fan)
            upto = level.cumsum(axis=2)
            siblings = left * (upto - level) - right * (upto[:, :, -1:] - upto)
            found = (found[:, :, None] + siblings).reshape(rows, size * fan)
            start, size = start + size * fan, size * fan
        return found + left * noisy[:, -size:]

    @cached_property
    def left_noise_counts(self) -> Ints:
        """How many noises stand to the left in D(b), the cell's own included; the rest stand to the right."""
        found = np.zeros(1, np.int64)
        for fan in self.tree.branching:
            found = (found[:, None] + np.arange(fan)).ravel()
        return found + 1

    def errors(self, noise: Laplace | Gaussian, tail: float) -> Reals:
        """e(b) with P(D̃(b) − D(b) > e(b)) ≤ tail, and the same on the other side."""
        many = sum(self.tree.branching) - len(self.tree.branching) + 1
        table = [
            weighted_sum_error(noise, ((1 - self.q, k), (self.q, many - k)), tail) if k else 0.0 for k in range(many + 1)
        ]
        return np.array(table)[self.left_noise_counts]

    def rank_error(self, noise: Laplace | Gaussian, confidence: float) -> float:
        """How many rows the noisy rank of a fixed value may be off, at the worst place."""
        return float(self.errors(noise, float((1 - read_confidence(confidence)) / 2)).max())

    def sizes(self, noisy: Ints) -> Ints:
        """The noisy number of rows of every group: the sum of the root's children, the fewest noises that add up to it."""
        return np.asarray(noisy[:, : self.tree.branching[0]].sum(axis=1))

    def size_error(self, noise: Laplace | Gaussian, tail: float) -> float:
        """e with P(noisy size − size > e) ≤ tail, and the same on the other side."""
        return weighted_sum_error(noise, ((Fraction(1), self.tree.branching[0]),), tail)

    def locate(self, noisy: Ints, noise: Laplace | Gaussian, tail: float) -> "QuantileLocation":
        """Where the quantile lies, for every group; outside of it with probability at most 2·tail."""
        ranks = self.ranks(noisy)
        slack = self.errors(noise, tail) + 1e-9 * np.abs(ranks).max(axis=1, keepdims=True)  # for the rounding of doubles
        reached, passed = ranks >= -slack, ranks[:, :-1] <= slack[:, :-1]
        end = ranks.shape[1] - 1
        first = np.where(reached.any(axis=1), reached.argmax(axis=1), end)
        last = np.where(passed.any(axis=1), end - passed[:, ::-1].argmax(axis=1), 0)
        agree = first <= last  # else the two sides contradict each other, and one of them is wrong
        first, last = np.minimum(first, last), np.maximum(first, last)
        # where the best non-decreasing fit of D̃ crosses zero: its running sum is least there
        running = np.concatenate([np.zeros((len(ranks), 1)), np.cumsum(ranks[:, :-1], axis=1)], axis=1)
        cell = np.clip(running.argmin(axis=1), first, last)
        return QuantileLocation(cell, _interpolate_crossing(ranks, cell), first, last, agree)


@dataclass(frozen=True, slots=True)
class QuantileLocation:
    """Per group: most likely a share `inside` of the way through `cell`; surely enough from cell `first` to cell `last`.

    `agree` is false where the tests from the left and from the right exclude every cell.
    """

    cell: Ints
    fraction: Reals
    first_cell: Ints
    last_cell: Ints
    sides_agree: NDArray[np.bool_]


def _interpolate_crossing(ranks: Reals, cell: Ints) -> Reals:
    """How far into the cell a straight line through D̃ at its two ends crosses zero; halfway if it does not rise."""
    row = np.arange(len(ranks))
    before, after = np.where(cell > 0, ranks[row, cell - 1], -1.0), ranks[row, cell]
    rising = after > before
    return np.where(rising, np.clip(-before / np.where(rising, after - before, 1.0), 0.0, 1.0), 0.5)
