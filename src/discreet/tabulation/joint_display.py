"""Display values of tables that overlap: all of them are sums of one table of nonnegative whole numbers.

**Theory of operation.** Let U be all columns of the wanted tables. If the table of U is itself wanted, it is made
nonnegative and rounded, and all others are its sums. Otherwise a table of U is fitted to the wanted ones, each made
nonnegative with the same total, by iterative proportional fitting: what they do not say is left even. It is rounded column
by column: the keys of the first column add up to the rounded total, those of the second to the first, and so on. So what is
displayed adds up to the last unit, whatever was fitted; how well it was fitted decides only how far display values are from
their estimates.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from discreet.tabulation.display import Counts, Floats, project_to_total, round_to_total
from discreet.tabulation.margins import Ints, Margin, count_cells, shape_of
from discreet.tabulation.residuals import Residuals

MAX_CELLS, MAX_WORK = 4_000_000, 1_000_000_000
"""Cells of a joint table, and cells times tables times rounds of fitting: a minute at most."""

FITTING_ROUNDS = 20


def display_tables(residuals: Residuals, margins: Sequence[Margin]) -> dict[Margin, Ints] | None:
    """Return display values of these tables; None if the table of all their columns is too large to be fitted."""
    sizes = residuals.sizes
    union = tuple(sorted({i for margin in margins for i in margin}))
    cells = count_cells(sizes, union)
    wanted = [*dict.fromkeys(margins)]
    known = residuals.has(union)
    if cells > MAX_CELLS or (not known and cells * len(wanted) * FITTING_ROUNDS > MAX_WORK):
        return None
    total = max(0, round(float(residuals.rebuild(()))))
    joint = residuals.rebuild(union) if known else _fit(residuals, union, wanted, total)
    shown = round_by_column(joint, total)
    away = {margin: tuple(axis for axis, i in enumerate(union) if i not in margin) for margin in wanted}
    return {margin: np.asarray(shown.sum(axis=axes), np.int64) for margin, axes in away.items()}


def _fit(residuals: Residuals, union: Margin, margins: Iterable[Margin], total: int) -> Floats:
    """A nonnegative table whose sums are near the wanted tables, made nonnegative, and which is otherwise even."""
    sizes = residuals.sizes
    targets = []
    for margin in margins:
        estimate = residuals.rebuild(margin).reshape(1, -1)
        target = project_to_total(estimate, np.array([float(total)])).reshape(shape_of(sizes, margin))
        axes = tuple(axis for axis, i in enumerate(union) if i not in margin)
        targets.append((axes, target.reshape([sizes[i] if i in margin else 1 for i in union])))
    joint = np.full(shape_of(sizes, union), total / count_cells(sizes, union))
    for _ in range(FITTING_ROUNDS):
        for axes, target in targets:
            sums = joint.sum(axis=axes, keepdims=True)
            joint *= np.divide(target, sums, out=np.zeros_like(target), where=sums > 0)
    return joint


def round_by_column(values: Floats, total: int) -> Counts:
    """Return nonnegative whole numbers near a table, whose sum is the total: first the sums by the first column, then by the
    first two, and so on.

    >>> round_by_column(np.array([[0.6, 0.6], [1.4, 1.5]]), 4).tolist()
    [[1, 0], [1, 2]]
    """
    shown = np.array([total], np.int64)
    for axis in range(values.ndim):
        sums = values.sum(axis=tuple(range(axis + 1, values.ndim)))
        shown = round_to_total(sums.reshape(len(shown), -1), shown).reshape(-1)
    return shown.reshape(values.shape)
