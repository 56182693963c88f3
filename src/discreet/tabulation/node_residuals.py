"""The residuals of many nodes at once: noisy tables of nodes split into residuals, and tables rebuilt from these.

It is `residuals.py` with one more axis, that of the nodes, which all have the same noise: see there for the theory.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.tabulation.intervals import ErrorModel
from discreet.tabulation.margins import Floats, Margin, count_cells, drop_single_columns, list_subsets, shape_of

Tables = Mapping[Margin, NDArray[np.integer]]


def split_nodes(
    sizes: Sequence[int], measured: Tables, errors: ErrorModel, wanted: Iterable[Margin]
) -> tuple[dict[Margin, Floats], dict[Margin, float]]:
    """Return the least-squares estimate of each wanted residual from the measured tables of each node alone, and the largest
    magnitude that was in it before it was centred.

    Tables have one row per node and their cells flat. Residuals that no table holds are left out.
    """
    found: dict[Margin, Floats] = {}
    largest: dict[Margin, float] = {}
    wanted = set(wanted)
    for margin, table in measured.items():
        kept = drop_single_columns(sizes, margin)
        nodes, cells = table.shape[0], count_cells(sizes, kept)
        weight = 1 / errors.variances[margin]
        for b, sums in _sum_down(sizes, kept, table.reshape(nodes, *shape_of(sizes, kept)), wanted):
            factor = weight * count_cells(sizes, b) / cells / errors.precisions[b]
            weighted: Floats = np.multiply(sums, factor, dtype=np.float64)
            largest[b] = largest.get(b, 0.0) + max(float(weighted.max()), -float(weighted.min()))
            if b in found:
                found[b] += weighted
            else:
                found[b] = weighted
    for b, part in found.items():
        for axis in range(1, len(b) + 1):
            part -= part.mean(axis=axis, keepdims=True)
    return {b: part.reshape(len(part), -1) for b, part in found.items()}, largest


def _sum_down(
    sizes: Sequence[int], margin: Margin, table: NDArray[np.integer], wanted: set[Margin]
) -> "list[tuple[Margin, NDArray[np.integer]]]":
    """The sums of the tables to each wanted margin that they contain, each from the smallest that is known; in 64 bits."""
    known: dict[Margin, NDArray[np.integer]] = {margin: table}
    found = []
    for b in reversed(list_subsets(margin)):
        if b not in wanted:
            continue
        if b not in known:
            whole = min((each for each in known if set(b) < set(each)), key=lambda each: count_cells(sizes, each))
            away = tuple(1 + axis for axis, i in enumerate(whole) if i not in b)
            known[b] = known[whole].sum(axis=away, dtype=np.int64)
        found.append((b, known[b]))
    return found


def rebuild_nodes(sizes: Sequence[int], parts: Mapping[Margin, Floats], margin: Margin) -> Floats:
    """Return the table of a margin of each node, flat, from residuals; those that are missing count as 0.

    Parts are added from small to large, each to the sum of those that it contains, so that most work is on small tables.
    """
    kept = drop_single_columns(sizes, margin)
    cells = count_cells(sizes, kept)
    nodes = len(next(iter(parts.values())))
    out = np.zeros((nodes, *shape_of(sizes, kept)))
    for i, group in _group_by_last(kept):
        partial = np.zeros((nodes, *(sizes[j] if j <= i else 1 for j in kept)))
        for b in group:
            if b in parts:
                shape = [sizes[j] if j in b else 1 for j in kept]
                partial += parts[b].reshape(nodes, *shape) * (count_cells(sizes, b) / cells)
        out += partial
    return out.reshape(nodes, cells)


def _group_by_last(margin: Margin) -> list[tuple[int, list[Margin]]]:
    """The subsets of a margin by their last column, so that all columns after it are one."""
    groups: dict[int, list[Margin]] = {}
    for b in list_subsets(margin):
        groups.setdefault(b[-1] if b else -1, []).append(b)
    return sorted(groups.items())
