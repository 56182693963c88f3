"""A figure as a value: its caption, its parameters, its numbers and how they are drawn; its PNG and its SVG.

A PNG is reproducible bit for bit: no settings of the user are read, the fonts are those of matplotlib, and no date is
written. The caption and the numbers are stored in it. Drawing a PNG needs the extra `lab`; `draw_text`
draws in the terminal and needs nothing: lines are letters on a grid of characters. The first array of numbers is x; every
other array of the same length is a line. A figure without lines is shown as its table of values.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from math import ceil, log10
from pathlib import Path
from textwrap import wrap
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.lab.errata import ERRATA
from discreet.lab.parameters import check_options, default_options, format_options

Numbers: TypeAlias = dict[str, NDArray[Any]]
Axes: TypeAlias = Any  # of matplotlib, which is imported only to draw


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a textbook, computed with discreet's own functions; the same numbers in every run.

    Its defaults are the text's own parameters. The heading names them in braces.

    >>> from discreet.lab import FIGURES
    >>> FIGURES["noise-l1"].title
    'Laplace noise for k counts at ε = 0.1: one by one, or at once'
    >>> float(FIGURES["noise-l1"].with_options(epsilon=1, k=3).numbers()["vectorised"][-1])
    3.0
    """

    name: str
    heading: str
    description: str
    source: str
    compute: Callable[..., Mapping[str, Any]]
    paint: Callable[[Axes, Numbers], None]
    errata: tuple[int, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """The parameters with their values."""
        return default_options(self.compute)

    def with_options(self, **options: Any) -> "Figure":
        """Return the same figure at other parameters."""
        return replace(self, compute=partial(self.compute, **check_options(self.name, self.options, options)))

    @property
    def title(self) -> str:
        """The heading at the parameters."""
        return self.heading.format(**format_options(self.options))

    @property
    def caption(self) -> str:
        """What it shows and its source; then one line for each erratum of the source."""
        errata = [ERRATA[f"erratum-{number}"].caption for number in self.errata]
        words = self.description.format(**format_options(self.options))
        return "\n".join([f"{words} Source: {self.source}.", *errata])

    def numbers(self) -> Numbers:
        """Compute the data, by name; a single number is an array without dimensions."""
        return {name: np.asarray(values) for name, values in self.compute().items()}

    def _repr_png_(self) -> bytes | None:
        """The picture, for notebooks; none without matplotlib."""
        try:
            return render_png(self)
        except BadParameter:
            return None

    def draw(self, axes: Axes) -> None:
        """Draw onto the caller's axes."""
        self.paint(axes, self.numbers())


# -- pens: the colour-blind safe palette of Okabe and Ito, each with its own dashes -----------------------------------------


BLACK, BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777",
)  # fmt: skip


def _pen(colour: str, line: Any, width: float = 2.0) -> MappingProxyType[str, Any]:
    return MappingProxyType({"color": colour, "linestyle": line, "linewidth": width})


EXACT = _pen(BLACK, "-", 2.4)
"""The exact value, where a textbook has a bound."""
WRONG = _pen(VERMILLION, (0, (6, 2)))
"""What a textbook prints and is wrong."""
FIRST = _pen(BLUE, "-")
SECOND = _pen(GREEN, (0, (8, 2, 2, 2)))
THIRD = _pen(PURPLE, (0, (2, 1.5)))
FOURTH = _pen(ORANGE, (0, (10, 3)))
MARK = _pen(GREY, ":", 1.2)
"""A marked place."""


# -- PNG --------------------------------------------------------------------------------------------------------------------


WIDTH, HEIGHT, DPI = 8.0, 6.0, 100
"""800 × 600 pixels."""
_DRAWING = Lock()

_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 10, "axes.titlesize": 12, "axes.labelsize": 10.5, "legend.fontsize": 9,
    "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "legend.framealpha": 0.92,
}  # fmt: skip


def render_png(figure: Figure, numbers: Numbers | None = None) -> bytes:
    """Draw a figure as PNG; its numbers are computed unless they are given.

    >>> from discreet.lab import FIGURES
    >>> render_png(FIGURES["noise-l1"])[1:4]
    b'PNG'
    """
    known = figure.numbers() if numbers is None else numbers
    lines = [line for part in figure.caption.split("\n") for line in wrap(part, 114)]
    with _style_sheet(figure, _STYLE) as sheet:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas: Any = FigureCanvasAgg(sheet)
        foot = 0.035 + 0.026 * len(lines)
        axes = sheet.add_axes((0.095, foot + 0.085, 0.875, 0.93 - foot - 0.085))
        axes.set_title(figure.title, loc="left", pad=8, fontweight="bold")
        figure.paint(axes, known)
        sheet.text(0.03, foot, "\n".join(lines), fontsize=8.5, va="top", color="#333333", linespacing=1.3)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    return _encode_png(pixels, _build_metadata(figure, known))


def render_svg(figure: Figure, numbers: Numbers | None = None) -> bytes:
    """Draw a figure as SVG, for pages that show title and caption themselves; the same bytes every time.

    >>> from discreet.lab import FIGURES
    >>> b"<svg" in render_svg(FIGURES["noise-l1"])
    True
    """
    known = figure.numbers() if numbers is None else numbers
    out = BytesIO()
    with _style_sheet(figure, _STYLE | {"svg.hashsalt": figure.name, "svg.fonttype": "path"}) as sheet:
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        canvas: Any = FigureCanvasSVG(sheet)
        figure.paint(sheet.add_axes((0.095, 0.1, 0.875, 0.86)), known)
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


@contextmanager
def _style_sheet(figure: Figure, settings: Mapping[str, Any]) -> Iterator[Any]:
    """Yield an empty sheet. matplotlib's settings are global, so one figure is drawn at a time."""
    try:
        from matplotlib import style
        from matplotlib.figure import Figure as Sheet
    except ImportError:
        raise BadParameter("picture", figure.name, "matplotlib is not installed", "pip install 'discreet[lab]'") from None
    with _DRAWING, style.context(["default", dict(settings)]):
        yield Sheet(figsize=(WIDTH, HEIGHT), dpi=DPI)


def save_png(figure: Figure, path: str | Path, numbers: Numbers | None = None) -> None:
    """Draw a figure into a PNG file."""
    if Path(path).suffix.lower() != ".png":
        raise BadParameter("path", path, "figures are PNG files", "give a name that ends with .png")
    picture = render_png(figure, numbers)
    try:
        Path(path).write_bytes(picture)
    except OSError as problem:
        reason = problem.strerror or "cannot be written"
        raise BadParameter("path", path, reason, "name a file in a folder that exists") from None


def read_numbers(path: str | Path) -> dict[str, Any]:
    """Read the numbers stored in a PNG, nine digits each."""
    from PIL import Image

    with Image.open(path) as picture:
        return dict[str, Any](json.loads(picture.info["Numbers"]))


def _encode_png(pixels: Any, metadata: Any) -> bytes:
    """Encode with 256 colours, which are enough for lines and text and take a third of the size."""
    from PIL import Image

    out = BytesIO()
    flat = Image.fromarray(pixels).quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    flat.save(out, format="png", optimize=True, pnginfo=metadata)
    return out.getvalue()


def _build_metadata(figure: Figure, numbers: Numbers) -> Any:
    from PIL.PngImagePlugin import PngInfo

    metadata = PngInfo()
    metadata.add_itxt("Title", figure.title)
    metadata.add_itxt("Description", figure.caption)
    metadata.add_itxt("Numbers", json.dumps({name: _round_values(values) for name, values in numbers.items()}), zip=True)
    return metadata


def _round_values(values: Any) -> Any:
    if values.dtype.kind != "f":
        return values.tolist()
    return np.vectorize(lambda value: float(f"{value:.9g}"), otypes=[float])(values).tolist()


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
