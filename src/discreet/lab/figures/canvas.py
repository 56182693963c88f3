"""From a figure to a PNG, bit for bit the same every time, with its caption on it and its numbers in it.

Needs the extra `plot`. Nobody's settings are read: the fonts are those that matplotlib brings, and no date is written.
"""

import json
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from discreet.errors import BadParameter
from discreet.lab.figures.figure import Figure, Numbers

WIDTH, HEIGHT, DPI = 8.0, 6.0, 100
"""800 × 600 pixels."""

_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 10, "axes.titlesize": 12, "axes.labelsize": 10.5, "legend.fontsize": 9,
    "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "legend.framealpha": 0.92,
}  # fmt: skip


def render_png(figure: Figure, numbers: Numbers | None = None) -> bytes:
    """The picture. Give the numbers if they are at hand; they are computed otherwise.

    >>> from discreet.lab import FIGURES
    >>> render_png(FIGURES["noise-l1"])[1:4]
    b'PNG'
    """
    known = figure.numbers() if numbers is None else numbers
    try:
        from matplotlib import style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Sheet
    except ImportError:
        raise BadParameter("picture", figure.name, "matplotlib is not installed", "pip install 'discreet[plot]'") from None
    lines = [line for part in figure.caption.split("\n") for line in wrap(part, 114)]
    with style.context(["default", _STYLE]):
        sheet = Sheet(figsize=(WIDTH, HEIGHT), dpi=DPI)
        canvas: Any = FigureCanvasAgg(sheet)
        foot = 0.035 + 0.026 * len(lines)
        axes = sheet.add_axes((0.095, foot + 0.085, 0.875, 0.93 - foot - 0.085))
        axes.set_title(figure.title, loc="left", pad=8, fontweight="bold")
        figure.paint(axes, known)
        sheet.text(0.03, foot, "\n".join(lines), fontsize=8.5, va="top", color="#333333", linespacing=1.3)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    return _encode_png(pixels, _build_metadata(figure, known))


def save_png(figure: Figure, path: str | Path, numbers: Numbers | None = None) -> None:
    """Write the picture into a file."""
    if Path(path).suffix.lower() != ".png":
        raise BadParameter("path", path, "figures are PNG files", "end its name with .png")
    picture = render_png(figure, numbers)
    try:
        Path(path).write_bytes(picture)
    except OSError as problem:
        reason = problem.strerror or "cannot be written"
        raise BadParameter("path", path, reason, "name a file in a folder that is there") from None


def read_numbers(path: str | Path) -> dict[str, Any]:
    """The numbers that a picture was drawn from: they travel inside it, nine digits each."""
    from PIL import Image

    with Image.open(path) as picture:
        return dict[str, Any](json.loads(picture.info["Numbers"]))


def _encode_png(pixels: Any, metadata: Any) -> bytes:
    """256 colours are enough for lines and letters, and a third of the size."""
    from PIL import Image

    out = BytesIO()
    flat = Image.fromarray(pixels).quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    flat.save(out, format="png", optimize=True, pnginfo=metadata)
    return out.getvalue()


def _build_metadata(figure: Figure, numbers: Numbers) -> Any:
    from PIL.PngImagePlugin import PngInfo

    facts = PngInfo()
    facts.add_itxt("Title", figure.title)
    facts.add_itxt("Description", figure.caption)
    facts.add_itxt("Numbers", json.dumps({name: _round_values(values) for name, values in numbers.items()}), zip=True)
    return facts


def _round_values(values: Any) -> Any:
    if values.dtype.kind != "f":
        return values.tolist()
    return np.vectorize(lambda value: float(f"{value:.9g}"), otypes=[float])(values).tolist()
