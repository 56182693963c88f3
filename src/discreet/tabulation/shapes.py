"""Nodes of a spine grouped by shape, so that what depends on shape alone is computed once per group.

What least squares knows about a node depends on the shape of the subtree below it (`Shapes`), and what it knows in the end
also on the shapes on the way from the top (`Paths`); never on data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Indexes: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shapes:
    """The distinct shapes of subtrees, level by level.

    `counts[l][s]` nodes of level l have shape s. `children[l][s, t]`, a sparse matrix, is how many children of shape t a
    node of shape s has. `of_node[l]` is the shape of every node; empty where only the numbers of nodes are known.
    """

    counts: tuple[Indexes, ...]
    children: tuple[Any, ...]
    of_node: tuple[Indexes, ...] = ()

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.counts)

    @cached_property
    def transposed(self) -> tuple[Any, ...]:
        """`children`, seen from the child."""
        return tuple(each.T.tocsr() for each in self.children)


@dataclass(frozen=True, eq=False)
class Paths:
    """The nodes of each level grouped by their shape and the group of their parent: equal variances.

    `of_node[l]` is the group of every node, `shapes[l]` the shape and `parents[l]` the parent's group of every group.
    """

    of_node: tuple[Indexes, ...]
    shapes: tuple[Indexes, ...]
    parents: tuple[Indexes, ...]


def group_by_shape(starts_of: Sequence[Indexes], leaves: int) -> Shapes:
    """Group nodes by the shape of the subtree below them, from the starts of a spine and the size of its last level."""
    from scipy.sparse import csr_array

    of_node = [np.zeros(leaves, np.int64)]
    children: list[Any] = []
    for starts in starts_of[::-1]:
        below = of_node[0]
        widths = np.diff(starts)
        if below.max() == 0:  # all children alike: their number is the shape
            _, first, shape = np.unique(widths, return_index=True, return_inverse=True)
        else:
            below = below[np.lexsort((below, np.repeat(np.arange(len(widths)), widths)))]
            keys: dict[bytes, int] = {}
            pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
            shape = np.fromiter((keys.setdefault(below[a:b].tobytes(), len(keys)) for a, b in pairs), np.int64, len(widths))
            _, first = np.unique(shape, return_index=True)
        rows = np.repeat(np.arange(len(first)), widths[first])
        columns = np.concatenate([below[starts[v] : starts[v + 1]] for v in first])
        size = (len(first), int(below.max()) + 1)
        children.insert(0, csr_array((np.ones(len(rows)), (rows, columns)), shape=size))
        of_node.insert(0, shape.astype(np.int64))
    counts = tuple(np.bincount(each).astype(np.int64) for each in of_node)
    return Shapes(counts, tuple(children), tuple(of_node))


def group_by_path(parents: Sequence[Indexes], shapes: Shapes) -> Paths:
    """Group nodes by the shapes on the way from the top. `parents` is as in `Spine`."""
    of_node: list[Indexes] = []
    groups_shape: list[Indexes] = []
    groups_parent: list[Indexes] = []
    for level, shape in enumerate(shapes.of_node):
        above = of_node[-1][parents[level]] if level else np.zeros(len(shape), np.int64)
        many = len(shapes.counts[level])
        groups, place = np.unique(above * many + shape, return_inverse=True)
        of_node.append(place.astype(np.int64))
        groups_shape.append(groups % many)
        groups_parent.append(groups // many)
    return Paths(tuple(of_node), tuple(groups_shape), tuple(groups_parent))
