"""A chart as a Vega-Lite specification: shown in notebooks, written as SVG, PNG, HTML or JSON.

vl-convert (the extra `plot`) draws it without a browser and without a network. The page of HTML holds the scripts that draw
it, so that it needs no network either; its policy lets it load nothing, and evaluates no text as a script.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import PurePath
from typing import Any

from discreet.errors import BadParameter
from discreet.formats import missing_library_error, refuse_unwritable

MIME_TYPE = "application/vnd.vegalite.v5+json"
VERSION = "5.21"
SUFFIXES = (".svg", ".png", ".html", ".json")
PIXELS_PER_UNIT = 2.0
"""Of a PNG, so that it is sharp where screens are."""
DARK_INK, DARK_GRID, DARK_PAPER = "#DDDDDD", "#3A3A3A", "#161616"


@dataclass(frozen=True)
class Chart:
    """A chart: its Vega-Lite specification, and how it is shown and written.

    >>> x = {"field": "n", "type": "quantitative"}
    >>> chart = Chart({"data": {"values": [{"n": 5}]}, "mark": "bar", "encoding": {"x": x}})
    >>> chart.to_svg()[:4], chart.to_png()[1:4]
    ('<svg', b'PNG')
    """

    spec: Mapping[str, Any]

    def darken(self) -> "Chart":
        """Return the same chart in light colours on a dark ground."""
        return Chart({**self.spec, "config": _darken(self.spec.get("config", {}))})

    def to_svg(self) -> str:
        """Draw it as SVG. Needs the extra `plot`."""
        return str(_load_converter().vegalite_to_svg(self.spec, vl_version=VERSION, allowed_base_urls=[]))

    def to_png(self) -> bytes:
        """Draw it as PNG. Needs the extra `plot`."""
        drawn = _load_converter().vegalite_to_png(self.spec, vl_version=VERSION, scale=PIXELS_PER_UNIT, allowed_base_urls=[])
        return bytes(drawn)

    def to_html(self) -> str:
        """Return a page that draws it, in the colours that the reader's browser prefers. Needs the extra `plot`."""
        scripts = _bundle_scripts()
        title = escape(str(self.spec.get("description", "Chart")))
        spec = {name: part for name, part in self.spec.items() if name != "$schema"}  # newer scripts warn of an older one
        dark = _to_script(_darken(spec.get("config", {})))
        return _PAGE.format(title=title, scripts=scripts, spec=_to_script(spec), dark=dark, paper=DARK_PAPER)

    def to_json(self) -> str:
        """Return the specification as JSON."""
        return json.dumps(self.spec, indent=1, allow_nan=False) + "\n"

    def save(self, path: Any) -> None:
        """Write it to a file; the end of the name says how: .svg, .png, .html or .json."""
        suffix = check_chart_path(path)
        texts = {".svg": self.to_svg, ".html": self.to_html, ".json": self.to_json}
        drawn = self.to_png() if suffix == ".png" else texts[suffix]().encode()
        with refuse_unwritable(path), open(path, "wb") as file:
            file.write(drawn)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """For a notebook: the specification, which most of them draw, and an SVG for those that do not."""
        bundle: dict[str, Any] = {MIME_TYPE: dict(self.spec), "text/plain": repr(self)}
        with suppress(BadParameter):  # without the extra the specification must do
            bundle["image/svg+xml"] = self.to_svg()
        return bundle

    def __repr__(self) -> str:
        return f"<Chart: {self.spec.get('description', 'a Vega-Lite specification')}>"


def draw_lines() -> None:
    """Draw the specifications that stand in the lines of the standard input: an SVG for each, as a line of JSON; null for
    one that cannot be drawn. The converter is loaded before the first of them comes."""
    _draw_or_none({"data": {"values": [{"n": 5}]}, "mark": "bar", "encoding": {"x": {"field": "n", "type": "quantitative"}}})
    for line in sys.stdin.buffer:
        drawn = json.dumps(_draw_or_none(json.loads(line)))
        sys.stdout.buffer.write(drawn.encode() + b"\n")
        sys.stdout.buffer.flush()


def _draw_or_none(spec: Mapping[str, Any]) -> str | None:
    try:
        return Chart(spec).to_svg()
    except Exception:
        return None


def check_chart_path(path: Any, name: str = "path") -> str:
    """Return how a file of this name is written, and refuse a name or a missing library before anything is drawn."""
    suffix = PurePath(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadParameter(name, repr(str(path)), "not a format of charts", f"end the name with {', '.join(SUFFIXES)}")
    if suffix != ".json":
        _load_converter(name, repr(str(path)))
    return suffix


def _load_converter(name: str = "format", value: str | None = None) -> Any:
    try:
        import vl_convert
    except ImportError:
        raise missing_library_error("vl-convert-python", "discreet[plot]", name, value) from None
    return vl_convert


@cache
def _bundle_scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, of the newest version. Making it takes seconds."""
    return str(_load_converter().javascript_bundle())


def _darken(config: Any) -> Any:
    """Return a configuration with light colours on a dark ground: paper is dark, grids are dim, all else is light."""

    def darken(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {part: darken(part, each) for part, each in value.items()}
        if not (isinstance(value, str) and value.startswith("#")):
            return value
        return {"background": DARK_PAPER, "gridColor": DARK_GRID}.get(name, DARK_INK)

    return darken("", config)


def _to_script(value: Any) -> str:
    """Return JSON that is also JavaScript, and that no text in it can end."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 1.5rem; background: #FFFFFF }}
@media (prefers-color-scheme: dark) {{ body {{ background: {paper} }} }}
</style>
</head>
<body>
<div id="chart"></div>
<script>{scripts}</script>
<script>
const spec = {spec};
const dark = {dark};
const wants = window.matchMedia("(prefers-color-scheme: dark)");
function draw() {{
  const drawn = wants.matches ? {{ ...spec, config: dark }} : spec;
  vegaEmbed("#chart", drawn, {{ mode: "vega-lite", actions: false, renderer: "svg", ast: true }});
}}
wants.addEventListener("change", draw);
draw();
</script>
</body>
</html>
"""
