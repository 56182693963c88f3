"""Charts of pages: as SVG, in light or dark colours, and with narrow panels for small screens."""

from collections.abc import Mapping
from typing import Any

from fastapi import Response

from discreet.query.answer import Answer
from discreet.serve.web.answers import FORMATS, draw_bounded
from discreet.serve.web.pages.drawing import Visit
from discreet.vega import Chart

NARROW = 220
"""The width of a panel of a chart on a small screen, in pixels."""


def draw_chart(answer: Answer, visit: Visit, title: str | None = None) -> Response:
    """Return the chart of an answer as SVG, in light or dark colours, and with narrow panels for small screens."""

    def write(answer: Answer) -> bytes:
        chart: Chart = answer.plot(title=title)
        if visit.field("narrow") == "1":
            chart = Chart(narrow(chart.spec))
        if visit.field("dark") == "1":
            chart = Chart({**chart.darken().spec, "background": "transparent"})
        return chart.to_svg().encode()

    headers = {"Cache-Control": "private, max-age=3600"}
    return Response(draw_bounded(write, answer), 200, headers, FORMATS["svg"].media)


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
