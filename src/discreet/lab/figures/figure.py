"""A figure as a value: its caption, its parameters, its numbers and how they are drawn; its PNG and its SVG.

A PNG is reproducible bit for bit: no settings of the user are read, the fonts are those of matplotlib, and no date is
written. The caption and the numbers are stored in it. Drawing a PNG needs the extra `lab`; `discreet.lab.figures.terminal`
draws in the terminal and needs nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
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
