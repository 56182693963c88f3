"""Which numbers of an answer tell two inputs apart most: all of them are looked at, on the training part, and few are kept.

Four measures rank the columns, each for another kind of leak: the distance of the means in standard errors (a shift), the
largest distance of the distribution functions (a shape), and twice the excess of a chi-square over what chance explains, of
the exact values (atoms) and of their lowest bits (grids). The best of each are kept in turn, so no measure needs to be
compared with another. Nothing depends on this choice but the power of the attack.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.answers import Floats, Outputs, merge_columns
from discreet.auditor.features import compute_trailing_exponents
from discreet.auditor.reading import SUMMARY, TEXT_OF

MAX_COLUMNS = 64
MAX_CODED_COLUMNS = 4
"""Of so many columns the exact values and the lowest bits are looked at."""
MAX_COMPARED = 1 << 23
"""Numbers that are compared at most, unless fewer than `FEWEST` answers a side would be."""
MIN_COMPARED = 6
MAX_SCREENED_COLUMNS = 1 << 16
"""Of more columns than these, those whose means differ most are looked at more closely."""
STRIP_SIZE = 1 << 20
"""Numbers that are compared at a time."""


@dataclass(frozen=True)
class InformativeColumns:
    """The columns that are kept, and those of which exact values and lowest bits are looked at."""

    columns: tuple[str, ...]
    exact: tuple[str, ...]
    lowest: tuple[str, ...]


def select_informative_columns(left: Outputs, right: Outputs) -> InformativeColumns:
    """The columns to learn from."""
    names = merge_columns([left, right])
    single = [j for j, name in enumerate(names.own) if name not in SUMMARY]
    always = [name for name in names.own if name in SUMMARY]
    width = len(single) + len(names) - len(names.own)
    if width <= 1:
        every = (*always, *(name for name in names if name not in SUMMARY))
        return InformativeColumns(every, (), tuple(filter(_is_numeric, every)))
    rows = max(MIN_COMPARED, MAX_COMPARED // (2 * width))
    a, b = (side.select_rows(0, rows).align_columns(names) for side in (left, right))
    places = np.concatenate([np.array(single, np.int64), np.arange(len(names.own), len(names))])
    if width > MAX_SCREENED_COLUMNS:
        places = np.sort(
            places[
                np.argsort(-_apply_in_strips(_compute_mean_shifts, a, b, places)[0], kind="stable")[:MAX_SCREENED_COLUMNS]
            ]
        )
    measures = _apply_in_strips(_compute_separations, a, b, places)
    ranks = np.argsort(-measures, axis=1, kind="stable")
    kept, exact, lowest = (
        [names[int(places[j])] for j in found]
        for found in (_interleave_ranks(ranks), ranks[2][:MAX_CODED_COLUMNS], ranks[3][: 2 * MAX_CODED_COLUMNS])
    )
    return InformativeColumns((*always, *kept), tuple(exact), tuple(filter(_is_numeric, lowest))[:MAX_CODED_COLUMNS])


def _is_numeric(name: str) -> bool:
    return not name.startswith(TEXT_OF) and name not in SUMMARY


def _interleave_ranks(ranks: NDArray[np.int64]) -> list[int]:
    """The best columns of each measure in turn, until there are enough; in the order in which they stand."""
    return sorted(list(dict.fromkeys(ranks.T[:MAX_COLUMNS].ravel().tolist()))[:MAX_COLUMNS])


def _apply_in_strips(
    separation: Callable[[Floats, Floats], Floats], a: Floats, b: Floats, places: NDArray[np.int64]
) -> Floats:
    """The measures of these columns, some at a time."""
    step = max(1, STRIP_SIZE // (len(a) + len(b)))
    strips = (places[i : i + step] for i in range(0, len(places), step))
    return np.concatenate([separation(a[:, strip], b[:, strip]) for strip in strips], axis=1)


def _compute_separations(a: Floats, b: Floats) -> Floats:
    """The four measures of each column, one row each."""
    pooled = np.concatenate([a, b])
    far, apart = _compare_distributions(np.where(np.isnan(pooled), -np.inf, pooled), len(a))
    _, grid = _compare_distributions(compute_trailing_exponents(pooled).astype(np.float64), len(a))
    return np.stack([_compute_mean_shifts(a, b)[0], far, apart, grid])


def _compute_mean_shifts(a: Floats, b: Floats) -> Floats:
    """The means' distance in standard errors, as one row; what is missing counts as 0."""
    sides = [np.clip(np.nan_to_num(side, nan=0.0), -1e100, 1e100) for side in (a, b)]
    means = [side.mean(axis=0) for side in sides]
    spread = sum(side.var(axis=0) / len(side) for side in sides)
    least = 1e-15 * (1 + np.abs(means[0]) + np.abs(means[1]))  # where all are alike
    return np.asarray(np.abs(means[0] - means[1]) / np.sqrt(spread + least**2))[None]


def _compare_distributions(pooled: Floats, first: int) -> tuple[Floats, Floats]:
    """Per column, the first rows against the others: the largest distance of the distribution functions, and by how many
    standard deviations Σ (o − e)²/e over the distinct values exceeds what chance explains."""
    rows, width = pooled.shape
    second = rows - first
    order = np.argsort(pooled, axis=0, kind="stable")
    ordered = np.take_along_axis(pooled, order, axis=0)
    starts = np.ones((rows, width), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    mine = (order < first).T  # column after column, so that runs of equal values follow each other
    run = np.cumsum(starts.T.ravel()) - 1
    a = np.bincount(run, weights=mine.ravel())
    size = np.bincount(run).astype(np.float64)
    column = np.repeat(np.arange(width), rows)[starts.T.ravel()]
    excess = (a * second - (size - a) * first) ** 2 / (first * second * size) - 1
    noise = np.bincount(column, weights=2 * (1 - 1 / size), minlength=width)
    chi = np.bincount(column, weights=excess, minlength=width) / np.sqrt(noise + 1)
    gaps = np.cumsum(a / first - (size - a) / second)  # every column adds up to 0, so the sum starts anew in each
    far = np.zeros(width)
    np.maximum.at(far, column, np.abs(gaps))
    return far, chi
