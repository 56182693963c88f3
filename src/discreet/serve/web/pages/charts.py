"""Charts of pages: as SVG, in light or dark colours, and with panels as wide as the screen allows."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from fastapi import Response

from discreet.query.answer import Answer
from discreet.serve.web.answers import FORMATS
from discreet.serve.web.pages.drawing import Visit
from discreet.vega import Chart

NARROW, WIDE = 220, 860
"""The widths of a panel on a small and on a large screen, in pixels."""
LETTER = 5.7
"""The width of a letter of a subtitle, in pixels. Titles are not broken by the program that draws."""


def draw_chart(answer: Answer, visit: Visit, title: str | None = None) -> Response:
    """Return the chart of an answer as SVG, in light or dark colours, and with panels for small or large screens."""

    chart: Chart = answer.plot(title=title)
    if visit.field("narrow") == "1":
        chart = Chart(break_titles(narrow(chart.spec), NARROW))
    elif visit.field("wide") == "1":
        chart = Chart(break_titles(widen(chart.spec), WIDE))
    else:
        chart = Chart(break_titles(chart.spec, chart.spec.get("width", WIDE)))
    if visit.field("dark") == "1":
        chart = Chart({**chart.darken().spec, "background": "transparent"})
    headers = {"Cache-Control": "private, max-age=3600"}
    return Response(chart.to_svg().encode(), 200, headers, FORMATS["svg"].media)


def narrow(spec: Any) -> Any:
    """Return a chart whose panels are narrow.

    >>> narrow({"vconcat": [{"width": 560, "mark": {"width": 3}}, {"width": 100}]})
    {'vconcat': [{'width': 220, 'mark': {'width': 3}}, {'width': 100}]}
    """
    if isinstance(spec, Mapping):
        return {
            name: NARROW if name == "width" and isinstance(each, int) and each > NARROW else narrow(each)
            for name, each in spec.items()
        }
    return [narrow(each) for each in spec] if isinstance(spec, list | tuple) else spec


def widen(spec: Any) -> Any:
    """Return a chart whose panels are wide, unless several stand beside one another.

    >>> widen({"concat": [{"width": 400}, {"width": 400}], "columns": 1})
    {'concat': [{'width': 860}, {'width': 860}], 'columns': 1}
    >>> widen({"concat": [{"width": 400}, {"width": 400}], "columns": 2})["concat"]
    [{'width': 400}, {'width': 400}]
    """
    if isinstance(spec.get("concat"), list | tuple):
        return {**spec, "concat": [widen(each) for each in spec["concat"]]} if spec.get("columns") == 1 else spec
    return {**spec, "width": WIDE} if isinstance(spec.get("width"), int) else spec


def break_titles(spec: Any, width: int) -> Any:
    """Return a chart whose title and subtitle fit a panel.

    >>> break_titles({"title": {"text": "n by dept", "subtitle": ["95% intervals of the clipped statistics."]}}, 220)
    {'title': {'text': ['n by dept'], 'subtitle': ['95% intervals of the clipped', 'statistics.']}}
    """
    title = spec.get("title")
    if not isinstance(title, Mapping):
        return spec
    broken = {
        name: [line for text in ([lines] if isinstance(lines, str) else lines) for line in wrap(text, int(width / size))]
        for name, size in (("text", 1.3 * LETTER), ("subtitle", 1.15 * LETTER))
        if (lines := title.get(name))
    }
    return {**spec, "title": {**title, **broken}}
