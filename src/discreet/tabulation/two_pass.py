"""Least squares on a spine, in two passes: estimates of all nodes from the measurements of all levels, and their variances.

**Theory of operation.** All nodes of a level are measured alike, so generalised least squares splits by residual: for one
residual, level l has measured y = x + noise on every node, with the same precision τ_l for all of them, and the x of the
children add up to that of their parent. One `TwoPass` is one residual; its arrays hold one row per node and one column per
coordinate of the residual.

    up:    last level: π = τ, z = y.  Above: S = Σ 1/π_c, Z = Σ z_c over the children, π = τ + 1/S, z = (τ·y + Z/S)/π
    down:  top: f = z, V = 1/π.  Child c of v: g = (1/π_c)/S_v, f_c = z_c + g·(f_v − Z_v), V_c = (1 − g)/π_c + g²·V_v

z is the estimate of a node from its own subtree and π its precision; f is the estimate from everything and V its variance.
π, S, g and V depend on shape and level alone (`tabulation/shapes.py`).

**Proof** that this is generalised least squares, for normal noise (the best linear estimate depends on variances alone).
Up: given the subtree below, x_v = Σ x_c is known through Z with variance S, independently of y_v, so precisions add. Down:
the errors of z_c are independent with variances 1/π_c; given x_v, the best correction of z_c splits f_v − Z_v in proportion
to these variances. What lies outside the subtree of v tells of x_c through x_v alone, so f_c = g·f_v + (z_c − g·Z_v). The
second term is uncorrelated with f_v and has the variance (1 − g)/π_c. ∎ The children's g add up to 1, so Σ f_c = f_v.

**Levels without a measurement** have τ = 0. Above the last measured level nothing changes: z = Z. Below it nothing is known
but the sum: an only child is its parent, and a node with siblings cannot be estimated, which is refused. (All nodes of a
level are measured alike, so all or none of a node's children have π = 0.)

**Squared weights.** An estimate is Σ l_j·y_j. Intervals need Σ l_j²·ω for other ω than the variances 1/τ, such as 1 for the
number of roundings, or 0 for tables of another noise. W of z follows the up pass: W_z = (τ²ω + W_Z/S²)/π², W_Z = Σ W_{z_c}.
f_v contains z_v with the factor D_v, and so every z_c with κ = D_v/(S·π_v). Expanding f_c = z_c + g·(f_v − Z_v):

    W_c = W_{z_c}·(1 − 2g) + g²·W_Z + g²·W_v + 2gκ·(W_{z_c} − g·W_Z),    D_c = 1 − g·(1 − κ),    D = 1 at the top.

**Sums of nodes** (`Regions`). A sum Σ e_v·f_v is rewritten from below: f_c = g_c·f_v + (z_c − g_c·Z_v), so that e_v grows by
G_v = Σ g_c·e_c. Then from above: t at the top is e; a child has t_c = e_c − G_v + t_v/(S_v·π_v), and y_v has the weight
l_v = t_v·τ/π_v. A subtree in which no node is in the sum contributes t²·W_z as a whole: only the ancestors of the sum's
nodes are visited.

**Streaming.** The up pass of a subtree leaves one row, and the down pass needs one row per parent. `UpStream` takes one
subtree at a time and keeps sums per parent; `DownStream` takes the same measurements again. Measurements must be stored
between the passes: noise that is drawn again would be a second measurement.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import BadParameter
from discreet.tabulation.regions import Regions
from discreet.tabulation.shapes import Indexes
from discreet.tabulation.spine import Spine

Floats: TypeAlias = NDArray[np.float64]
Measured: TypeAlias = Sequence[NDArray[Any] | None]


class TwoPass:
    """Least squares of one residual on a spine. `precisions` is τ of each level; `lowest` is the lowest level to estimate.

    >>> spine = Spine.from_codes(["01", "02"], [0, 2])
    >>> both = TwoPass(spine, [1.0, 1.0])
    >>> [each.round(3).ravel().tolist() for each in both.estimate([np.array([12]), np.array([4, 5])])]
    [[11.0], [5.0, 6.0]]
    >>> [each.round(3).tolist() for each in both.variances]
    [[0.667], [0.667, 0.667]]
    """

    def __init__(self, spine: Spine, precisions: ArrayLike, lowest: str | int | None = None) -> None:
        self.spine = spine
        self.precisions = _check_precisions(precisions, len(spine.levels))
        self.lowest = len(spine.levels) - 1 if lowest is None else spine.level(lowest)
        self.deepest = int(np.flatnonzero(self.precisions)[-1])
        """The deepest level that is measured."""
        if spine.sizes[self.lowest] > spine.sizes[min(self.deepest, self.lowest)]:
            raise BadParameter(
                "precisions",
                f"0 below level `{spine.levels[self.deepest]}`",
                f"nodes of level `{spine.levels[self.lowest]}` cannot be estimated from the sum of several",
                "measure the table on a lower level, or leave it out there",
            )
        self._information, self._spread = self._combine_precisions()

    def _combine_precisions(self) -> tuple[list[Floats], list[Floats]]:
        """π and S of every shape, by level."""
        shapes = self.spine.shapes
        information = [np.full(len(shapes.counts[self.deepest]), self.precisions[self.deepest])]
        spread: list[Floats] = []
        for level in range(self.deepest - 1, -1, -1):
            spread.insert(0, shapes.children[level] @ (1 / information[0]))
            information.insert(0, self.precisions[level] + 1 / spread[0])
        return information, spread

    # -- variances ---------------------------------------------------------------------------------------------------------

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """The variance of every node's estimate, by level down to `lowest`; one number for each coordinate of the residual,
        before centring."""
        return self._expand(self._find_variances())

    def _find_variances(self) -> list[Floats]:
        paths = self.spine.paths
        found = [1 / self._information[0][paths.shapes[0]]]
        for level in range(1, min(self.deepest, self.lowest) + 1):
            r, g = self._gain(level)
            found.append(r * (1 - g) + g * g * found[-1][paths.parents[level]])
        return found

    def squared_weights(self, omega: ArrayLike) -> tuple[Floats, ...]:
        """Return Σ l²·ω for every node's estimate, by level. ω has one number per level, or a row of numbers.

        With ω = 1/τ these are the variances.
        """
        paths = self.spine.paths
        weights, above = self._squared_weights_up(self._check_omega(omega))
        found = [weights[0][paths.shapes[0]]]
        kept = np.ones((len(paths.shapes[0]), 1))  # D
        for level in range(1, min(self.deepest, self.lowest) + 1):
            parent, shape = paths.parents[level], paths.shapes[level]
            over = paths.shapes[level - 1][parent]
            g = self._gain(level)[1][:, None]
            kappa = kept[parent] / (self._spread[level - 1] * self._information[level - 1])[over][:, None]
            own, total = weights[level][shape], above[level - 1][over]
            mixed = 2 * g * kappa * (own - g * total)
            found.append(own * (1 - 2 * g) + g * g * total + g * g * found[-1][parent] + mixed)
            kept = 1 - g * (1 - kappa)
        return self._expand([each[:, 0] if np.ndim(omega) == 1 else each for each in found])

    def _squared_weights_up(self, omega: Floats) -> tuple[list[Floats], list[Floats]]:
        """W of z, and the sum of W over the children, for every shape, by level."""
        shapes = self.spine.shapes
        weights = [np.repeat(omega[self.deepest][None], len(shapes.counts[self.deepest]), axis=0)]
        above: list[Floats] = []
        for level in range(self.deepest - 1, -1, -1):
            above.insert(0, shapes.children[level] @ weights[0])
            own = self.precisions[level] ** 2 * omega[level]
            pi, spread = self._information[level][:, None], self._spread[level][:, None]
            weights.insert(0, (own + above[0] / spread**2) / pi**2)
        return weights, above

    def _gain(self, level: int) -> tuple[Floats, Floats]:
        """1/π and g of every group of nodes with the same path."""
        paths = self.spine.paths
        r = 1 / self._information[level][paths.shapes[level]]
        return r, r / self._spread[level - 1][paths.shapes[level - 1][paths.parents[level]]]

    def _expand(self, found: list[Floats]) -> tuple[Floats, ...]:
        """From groups of nodes to nodes. Below the deepest measured level every node is an only child."""
        nodes = [each[self.spine.paths.of_node[level]] for level, each in enumerate(found)]
        return tuple(nodes + [nodes[-1]] * (self.lowest - len(nodes) + 1))

    def sum_variances(self, regions: Regions) -> Floats:
        """Return the variances of sums of nodes."""
        tau = self.precisions
        return self.sum_squared_weights(regions, np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0))

    def sum_squared_weights(self, regions: Regions, omega: ArrayLike) -> Floats:
        """Return Σ l²·ω for sums of nodes: one row per sum, and one column per column of ω."""
        columns = self._check_omega(omega)
        visited = self._visit_ancestors(regions)
        weights, above = self._squared_weights_up(columns)
        total = np.zeros((regions.count, columns.shape[1]))
        for level, (t, t_below) in enumerate(self._weigh_ancestors(visited)):
            shape = self.spine.shapes.of_node[level][visited[level].nodes]
            own = t * self.precisions[level] / self._information[level][shape]
            part = own[:, None] ** 2 * columns[level]
            if level < self.deepest:
                below, rest = visited[level + 1], above[level][shape]
                np.subtract.at(rest, below.parent, weights[level + 1][self.spine.shapes.of_node[level + 1][below.nodes]])
                part += t_below[:, None] ** 2 * np.maximum(rest, 0)
            np.add.at(total, visited[level].sums, part)
        return total[:, 0] if np.ndim(omega) == 1 else total

    def _visit_ancestors(self, regions: Regions) -> list["_Visited"]:
        """By level: the nodes of the sums, and their ancestors."""
        found: list[_Visited] = []
        sums, nodes, e = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        for level in range(len(self.spine.levels) - 1, -1, -1):
            if level > self.lowest and len(regions.nodes[level]):
                wrong = f"below level `{self.spine.levels[self.lowest]}`"
                raise BadParameter("regions", wrong, "not estimated there", "give nodes of that level or above")
            passed, size = len(nodes), self.spine.sizes[level]
            keys = np.concatenate([sums, regions.sums[level]]) * size + np.concatenate([nodes, regions.nodes[level]])
            keys, place = np.unique(keys, return_inverse=True)
            e = np.bincount(place, np.concatenate([e, regions.factors[level]]), len(keys)).astype(float)
            sums, nodes = keys // size, keys % size
            if found:
                found[0] = found[0]._replace(parent=place[:passed])
            if level <= self.deepest:
                found.insert(0, _Visited(sums, nodes, e, place[:0]))
            if level:
                e = e * self._node_gain(level, nodes) if level <= self.deepest else e
                nodes = self.spine.parents[level][nodes]
        return found

    def _weigh_ancestors(self, visited: Sequence["_Visited"]) -> list[tuple[Floats, Floats]]:
        """By level: t of the nodes that are visited, and t of those of their children that are not."""
        found = []
        t = visited[0].e
        for level, (above, below) in enumerate(pairwise(visited)):
            shape = self.spine.shapes.of_node[level][above.nodes]
            given = np.bincount(below.parent, below.e * self._node_gain(level + 1, below.nodes), len(t))  # G
            rest = t / (self._spread[level] * self._information[level])[shape] - given
            found.append((t, rest))
            t = below.e + rest[below.parent]
        return [*found, (t, t)]

    def _node_gain(self, level: int, nodes: Indexes | slice) -> Floats:
        """g of nodes."""
        of_node = self.spine.shapes.of_node
        spread = self._spread[level - 1][of_node[level - 1][self.spine.parents[level][nodes]]]
        return 1 / (self._information[level][of_node[level][nodes]] * spread)

    def _check_omega(self, omega: ArrayLike) -> Floats:
        given = np.asarray(omega, float)
        if given.ndim not in (1, 2) or len(given) != len(self.spine.levels):
            raise BadParameter("omega", f"of shape {given.shape}", "not one row per level", "give one number per level")
        return given.reshape(len(given), -1)

    # -- estimates ---------------------------------------------------------------------------------------------------------

    def estimate(self, measured: Measured) -> list[Floats]:
        """Return the estimates of all nodes, by level down to `lowest`: one row per node.

        `measured` has one array per level, one row per node; None where the level is not measured.
        """
        everything = self.spine.slice_subtree(0, 0, self.spine.sizes[0])
        estimates, sums = self._up(measured, everything, 0)
        return self._down(estimates, sums, everything, 0)

    def open_stream(self, level: str | int, cells: int, *, keep_level: bool = False) -> "UpStream":
        """Open the up pass over the subtrees of a level, one at a time. `cells` is how many coordinates the residual has.

        With `keep_level`, one row per subtree is kept, so that the down pass knows the estimates of the level itself before
        it takes the first subtree again: display values need those of all siblings.
        """
        return UpStream(self, self.spine.level(level), cells, keep_level=keep_level)

    def _up(
        self, measured: Measured, where: Sequence[slice], top: int, floor: Floats | None = None
    ) -> tuple[list[Floats], list[Floats]]:
        """z and Z from level `top` down, for the nodes in `where`. `floor` is Z of the last of these levels, if known."""
        levels = range(top, top + len(measured)) if floor is not None else range(top, self.deepest + 1)
        estimates: list[Floats] = []
        sums: list[Floats] = []
        for level in reversed(levels):
            nodes = where[level - top]
            y = self._check_measured(measured, level, top, nodes.stop - nodes.start)
            if level == self.deepest:
                assert y is not None
                estimates.insert(0, np.array(y, np.float64))
                continue
            sums.insert(0, floor if floor is not None and not sums else self._sum_children(estimates[0], level, nodes))
            shape = self.spine.shapes.of_node[level][nodes]
            pi, spread = self._information[level][shape], self._spread[level][shape]
            if y is None:
                estimates.insert(0, sums[0].copy())
            else:
                z = sums[0] * (1 / (spread * pi))[:, None]
                z += y * (self.precisions[level] / pi)[:, None]
                estimates.insert(0, z)
        return estimates, sums

    def _down(self, estimates: list[Floats], sums: list[Floats], where: Sequence[slice], top: int) -> list[Floats]:
        """f from z and Z, in place, from the level below `top`, whose z is f already."""
        last = min(self.deepest, self.lowest, top + len(estimates) - 1)
        for level in range(top + 1, last + 1):
            place = level - top
            self._correct(
                estimates[place], estimates[place - 1] - sums[place - 1], level, where[place], where[place - 1].start
            )
        found = estimates[: last - top + 1]
        return found + [found[-1]] * (self.lowest - last if last == self.deepest else 0)

    def _sum_children(self, values: Floats, level: int, nodes: slice) -> Floats:
        """Add up the rows of the children of nodes of a level, in their order."""
        from scipy.sparse import csr_array

        starts = self.spine.starts[level][nodes.start : nodes.stop + 1]
        many = len(values)
        adding = csr_array((np.ones(many), np.arange(many), starts - starts[0]), shape=(len(starts) - 1, many))
        found: Floats = adding @ values
        return found

    def _correct(self, z: Floats, difference: Floats, level: int, nodes: slice, first_parent: int) -> None:
        """Add g times the difference of the parent to each row, in place."""
        from scipy.sparse import csr_array

        parents = self.spine.parents[level][nodes] - first_parent
        gains = csr_array((self._node_gain(level, nodes), parents, np.arange(len(z) + 1)), shape=(len(z), len(difference)))
        z += gains @ difference

    def _check_measured(self, measured: Measured, level: int, top: int, rows: int) -> NDArray[Any] | None:
        if self.precisions[level] == 0:
            return None
        name = f"of level `{self.spine.levels[level]}`"
        y = measured[level - top] if level - top < len(measured) else None
        if y is None:
            raise BadParameter("measured", f"missing {name}", "the level has a precision above 0", "give its measurements")
        if len(y) != rows:
            raise BadParameter("measured", f"{len(y)} rows {name}", f"there are {rows} nodes", "give one row per node")
        return y.reshape(rows, -1)


class _Visited(NamedTuple):
    """The nodes of a level that sums contain, or whose descendants they do. `e` is the factor of f, and `parent` the place
    of the parent among those of the level above."""

    sums: Indexes
    nodes: Indexes
    e: Floats
    parent: Indexes


class UpStream:
    """The up pass over the subtrees of one level: each is added once. Keeps one row for each of their parents, and with
    `keep_level` one for each subtree."""

    def __init__(self, two_pass: TwoPass, level: int, cells: int, *, keep_level: bool = False) -> None:
        if not 1 <= level <= two_pass.deepest:
            name = two_pass.spine.levels[level]
            hint = "take a level below the top, and not below the last that is measured"
            raise BadParameter("level", f"`{name}`", "no subtrees to be added", hint)
        self._two_pass, self._level = two_pass, level
        self._sums = np.zeros((two_pass.spine.sizes[level - 1], cells))
        self._added = np.zeros(two_pass.spine.sizes[level], bool)
        self._kept = np.zeros((len(self._added), cells)) if keep_level and level <= two_pass.lowest else None

    def add(self, first: int, measured: Measured, end: int | None = None) -> None:
        """Add the subtree of a node, or those of the nodes from `first` to `end` - 1. `measured` begins at their level."""
        where = self._two_pass.spine.slice_subtree(self._level, first, end)
        nodes = where[0]
        if np.any(self._added[nodes]):
            raise BadParameter("first", first, "this subtree was added before", "add each subtree once")
        estimates, _ = self._two_pass._up(measured, where, self._level)
        np.add.at(self._sums, self._two_pass.spine.parents[self._level][nodes], estimates[0])
        self._added[nodes] = True
        if self._kept is not None:
            self._kept[nodes] = estimates[0]

    def close(self, measured: Measured) -> "DownStream":
        """End the up pass with the measurements of the levels above, and estimate these."""
        if not np.all(self._added):
            missing = int(np.sum(~self._added))
            raise BadParameter("measured", f"without {missing} subtrees", "not all were added", "add each subtree once")
        two_pass = self._two_pass
        where = two_pass.spine.slice_subtree(0, 0, two_pass.spine.sizes[0])[: self._level]
        padded = [*measured, *[None] * (self._level - len(measured))]
        estimates, sums = two_pass._up(padded[: self._level], where, 0, self._sums)
        top = two_pass._down(estimates, sums, where, 0)
        differences = estimates[-1] - self._sums
        if self._kept is not None:
            two_pass._correct(self._kept, differences, self._level, slice(0, len(self._kept)), 0)
            top.append(self._kept)
        return DownStream(two_pass, self._level, top, differences)


class DownStream:
    """The down pass: `top` are the estimates of the levels above the subtrees, and of their own level if it was kept;
    `estimate` gives those of a subtree."""

    def __init__(self, two_pass: TwoPass, level: int, top: list[Floats], differences: Floats) -> None:
        self.top = top
        self._two_pass, self._level, self._differences = two_pass, level, differences

    def estimate(self, first: int, measured: Measured, end: int | None = None) -> list[Floats]:
        """Return the estimates of a subtree by level, from the same measurements that were added in the up pass."""
        two_pass, level = self._two_pass, self._level
        if two_pass.lowest < level:
            return []
        where = two_pass.spine.slice_subtree(level, first, end)
        estimates, sums = two_pass._up(measured, where, level)
        two_pass._correct(estimates[0], self._differences, level, where[0], 0)
        return two_pass._down(estimates, sums, where, level)


def _check_precisions(precisions: ArrayLike, levels: int) -> Floats:
    given = np.asarray(precisions, float)
    if given.shape != (levels,):
        raise BadParameter(
            "precisions", f"of shape {given.shape}", f"there are {levels} levels", "give one number per level"
        )
    if not (np.all(np.isfinite(given)) and np.all(given >= 0) and np.any(given > 0)):
        raise BadParameter("precisions", given.tolist(), "not finite numbers from 0 up, one above 0", "give 1/variance")
    return given
