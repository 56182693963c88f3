"""Sums of nodes of a spine: regions off the spine (places, districts), differences of regions, or any weighted sum.

A region is a set of nodes of the last level. Its **minimal cover** is the fewest nodes of any level that together are the
region: a node whose children are all in the region stands for them. Estimates add up to those of the parent, so the sum over
the cover is the sum over the last level, with fewer terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.tabulation.shapes import Indexes
from discreet.tabulation.spine import Spine


@dataclass(frozen=True, eq=False)
class Regions:
    """`count` weighted sums of nodes. On level l, sum `sums[l][i]` contains node `nodes[l][i]`, times `factors[l][i]`.

    >>> spine = Spine.from_codes(["0101", "0102", "0201", "0202"], [0, 2, 4])
    >>> place = Regions.cover(spine, [[0, 1, 3]])
    >>> [each.tolist() for each in place.nodes]
    [[], [0], [3]]
    """

    count: int
    sums: tuple[Indexes, ...]
    nodes: tuple[Indexes, ...]
    factors: tuple[NDArray[np.float64], ...]

    @staticmethod
    def cover(spine: Spine, leaves: Sequence[Sequence[int] | Indexes]) -> "Regions":
        """Return the minimal covers of regions, each given as places on the last level."""
        held = [np.unique(np.asarray(each, np.int64)) for each in leaves]
        last = spine.sizes[-1]
        if wrong := [each for each in held if len(each) and not 0 <= each[0] <= each[-1] < last]:
            bad = wrong[0][0] if wrong[0][0] < 0 else wrong[0][-1]
            raise BadParameter("leaves", bad, "no place on the last level", f"give places from 0 to {last - 1}")
        sums = np.repeat(np.arange(len(held)), [len(each) for each in held])
        found = [(sums, np.concatenate([*held, np.zeros(0, np.int64)]))]
        for parents, starts in zip(spine.parents[:0:-1], spine.starts[::-1], strict=True):
            which, nodes = found[0]
            size = len(starts) - 1
            above, place, many = np.unique(which * size + parents[nodes], return_inverse=True, return_counts=True)
            whole = many == np.diff(starts)[above % size]
            found[0] = which[~whole[place]], nodes[~whole[place]]
            found.insert(0, (above[whole] // size, above[whole] % size))
        factors = tuple(np.ones(len(nodes)) for _, nodes in found)
        return Regions(len(held), tuple(each for each, _ in found), tuple(each for _, each in found), factors)

    def sum_estimates(self, estimates: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64]:
        """Return the sums of estimates, one row per sum. Levels without terms may be missing, as None or at the end."""
        total: NDArray[np.float64] | None = None
        for level, (sums, nodes, factors) in enumerate(zip(self.sums, self.nodes, self.factors, strict=True)):
            values = estimates[level] if level < len(estimates) else None
            if values is None:
                if len(nodes):
                    raise BadParameter(
                        "estimates", f"missing on level {level}", "a sum has terms there", "estimate that level"
                    )
                continue
            terms = values[nodes] * factors.reshape(-1, *(1,) * (values.ndim - 1))
            total = np.zeros((self.count, *values.shape[1:])) if total is None else total
            np.add.at(total, sums, terms)
        return np.zeros(self.count) if total is None else total
