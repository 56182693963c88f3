"""A figure in the terminal: its lines as letters on a grid of characters, without any drawing library.

The first array of numbers is x; every other array of the same length is a line. A figure without lines is shown as its
table of values.
"""

from math import ceil, log10

import numpy as np
from numpy.typing import NDArray

from discreet.lab.figures.figure import Numbers

MARKS = "abcdefghijklmnop"
Floats = NDArray[np.float64]


def draw_text(numbers: Numbers, width: int = 72, height: int = 18) -> list[str]:
    """Return the lines of a chart, with the range of each axis and a legend.

    >>> import numpy as np
    >>> print("\\n".join(draw_text({"k": np.arange(3), "twice": np.arange(3) * 2.0}, 9, 3)))
             4 ┤        a
               │    a
             0 ┤a
               └─────────
                0       2  (k)
    a  twice: 0 to 4
    """
    x_name, lines = _find_lines(numbers)
    if not lines:
        return _list_values(numbers)
    every_x, every = (np.concatenate([line[axis] for line in lines.values()]) for axis in (0, 1))
    over_x, over_y = _is_wide(every_x), _is_wide(every)
    grid = [[" "] * width for _ in range(height)]
    for mark, (x, values) in zip(MARKS, lines.values(), strict=False):
        columns, rows = _place(x, every_x, width, over_x), _place(values, every, height, over_y)
        for column, row, value in zip(columns, rows, values, strict=True):
            if np.isfinite(value):
                grid[height - 1 - row][column] = mark
    low, high = _range(every)
    labels = {0: f"{high:.4g}", height - 1: f"{low:.4g}"}
    drawn = [f"{labels.get(i, ''):>10} {'┤' if i in labels else '│'}{''.join(row)}".rstrip() for i, row in enumerate(grid)]
    left, right = f"{every_x.min():.4g}", f"{every_x.max():.4g}"
    scale = " and ".join(axis for axis, wide in (("x", over_x), ("y", over_y)) if wide)
    drawn.append(f"{'':11}└{'─' * width}")
    drawn.append(f"{'':12}{left}{right:>{max(1, width - len(left))}}  ({x_name}{f'; {scale} logarithmic' if scale else ''})")
    legend = [f"{m}  {name}: {v[0]:.4g} to {v[-1]:.4g}" for m, (name, (_, v)) in zip(MARKS, lines.items(), strict=False)]
    return [*drawn, *legend, *_list_values({n: v for n, v in numbers.items() if v.ndim == 0})]


def _find_lines(numbers: Numbers) -> tuple[str, dict[str, tuple[Floats, Floats]]]:
    """The name of x, and each line as x and y. A histogram has its edges under "NAME, edges": x is the middle of a bin."""
    arrays = {name: np.asarray(v, float) for name, v in numbers.items() if v.ndim == 1 and v.dtype.kind in "fiu"}
    if not arrays or next(iter(numbers.values())).dtype.kind not in "fiu":
        return "", {}
    edges = {name.removesuffix(", edges"): values for name, values in arrays.items() if name.endswith(", edges")}
    if edges:
        return "middle of the bin", {name: ((at[1:] + at[:-1]) / 2, arrays[name]) for name, at in edges.items()}
    x_name, x = next(iter(arrays.items()))
    rest = {name: (x, values) for name, values in arrays.items() if len(values) == len(x) and name != x_name}
    return x_name, rest if len(x) > 1 else {}


def _is_wide(values: Floats) -> bool:
    """Whether an axis spans three decades or more of positive values."""
    finite = values[np.isfinite(values)]
    return bool(finite.min() > 0 and finite.max() / finite.min() >= 1000)


def _range(values: Floats) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = float(finite.min()), float(finite.max())
    return low, high if high > low else low + (abs(low) or 1.0)


def _place(values: Floats, every: Floats, cells: int, logarithmic: bool) -> list[int]:
    low, high = _range(every)
    if logarithmic:
        share = (np.log10(np.maximum(values, low)) - log10(low)) / (log10(high) - log10(low))
    else:
        share = (np.where(np.isfinite(values), values, low) - low) / (high - low)
    return [min(cells - 1, max(0, ceil(float(part) * (cells - 1) - 0.5))) for part in share]


def _list_values(numbers: Numbers) -> list[str]:
    """Tables and single numbers, a line each."""
    out: list[str] = []
    first = next(iter(numbers.values()), None)
    if first is not None and first.ndim == 1 and first.dtype.kind == "U":  # a table with named rows
        columns = {name: v for name, v in numbers.items() if v.shape == first.shape}
        out += ["  ".join(f"{name:>16}" for name in columns)]
        out += ["  ".join(f"{value!s:>16}" for value in row) for row in zip(*columns.values(), strict=True)]
        numbers = {name: v for name, v in numbers.items() if name not in columns}
    for name, values in numbers.items():
        if values.ndim == 0:
            out.append(f"{name}: {values.item():.6g}")
        elif values.ndim == 2:
            out += [f"{name}:", *("   ".join(f"{value!s:>16}" for value in row) for row in values)]
        else:
            out.append(f"{name}: {', '.join(map(str, values))}")
    return out
