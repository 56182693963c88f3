"""The chart of an answer: one Vega-Lite specification, a pure function of the answer.

A number per group is a bar with its interval. Where a group key has an order (numbers, bins, dates), the numbers are points
on a line. A histogram is drawn with all its cells. Every bar has its number beside it, and so have points and cells where
there is room. What is not reliable is pale, has a dashed outline and a label. Every column has a panel of its own; with
several group keys, a panel has one part for each value of the others.

A chart uses the answer and nothing else, so it is post-processing and costs nothing.

**Texts of others** (keys, names of columns) are data or plain titles, and are made printable first. The fields of the data
and all expressions are fixed texts of this module: Vega parses field names and expressions, and nothing of an answer is
either. No channel leads to an address.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import pairwise
from math import inf, isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet._numbers import format_down
from discreet.errors import BadParameter
from discreet.formats import format_interval, format_value
from discreet.query.estimates import Estimate
from discreet.query.schema import Key
from discreet.query.series import Series, split_series
from discreet.text import to_printable

if TYPE_CHECKING:
    from discreet.query.answer import Answer

Spec: TypeAlias = dict[str, Any]
Keys: TypeAlias = tuple[Key, ...]
Rows: TypeAlias = Sequence[tuple[Keys, tuple[Estimate, ...]]]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
SKY, BLUE, INK, GRID = "#56B4E9", "#0072B2", "#222222", "#DDDDDD"
"""Both blues are Okabe and Ito's, safe for colour-blind readers."""
PALE = 0.18
"""The opacity of what is not reliable, so that it is pale on a white ground and dim on a dark one."""
MAX_PANELS, MAX_BARS, MAX_POINTS, MAX_PARTS = 12, 200, 2_000, 40
MAX_LABEL, MAX_TITLE, MAX_TICKS = 40, 90, 16
MAX_NUMBERS = 12
"""Points or cells side by side whose numbers are printed, if these are short enough."""
WIDTH, LETTER = 560, 5.5
"""Of a panel with points or cells, and of a letter beside them, in pixels."""
MIN_ORDERED = 3
"""With fewer ordered keys than these a line says no more than bars do."""
MAX_WIDTH_RATIO = 10.0
"""Cells whose widths differ more are drawn as bars of the same width: the narrow ones would not be seen."""
LARGEST = 1e300
"""A scale over more than this overflows a double."""
SIDES = ("left", "top", "right", "bottom")
CONFIG: Spec = {
    "font": "Arial, Helvetica, Liberation Sans, sans-serif",  # as wide as each other; the last one is the viewer's
    "mark": {"aria": False},  # Vega-Lite would write titles into the expressions of descriptions
    "background": "#FFFFFF",
    "view": {"stroke": None},
    "title": {"anchor": "start", "frame": "bounds", "color": INK, "subtitleColor": INK, "offset": 12},
    "axis": {
        "domainColor": INK, "gridColor": GRID, "labelColor": INK, "tickColor": INK, "titleColor": INK, "labelLimit": 300,
        "titleLimit": 400, "titleFontWeight": "normal",
    },
    "header": {"labelColor": INK, "titleColor": INK, "titleFontWeight": "normal", "labelLimit": 300},
    "rule": {"color": INK},
    "tick": {"color": INK},
    "text": {"color": INK},
    "point": {"fill": INK, "stroke": INK},
}  # fmt: skip


def make_spec(answer: "Answer", title: str | None = None) -> Spec:
    """Return the Vega-Lite specification of an answer's chart."""
    series = split_series(answer.schema)
    shown, rows = series[:MAX_PANELS], _limit_rows(answer.groups, answer.rows, series)
    head = to_printable(title) if title is not None else _name_chart(answer.groups, series)
    notes = [_describe_intervals(answer), *wrap(to_printable(answer.view_note), MAX_TITLE)]
    notes += wrap(to_printable(answer.outside_note), MAX_TITLE)
    if any(not estimate.reliable for _, row in rows for estimate in row):
        notes.append("Pale with a dashed outline: not reliable.")
    if len(rows) < len(answer.rows):
        notes.append(f"The first {len(rows)} of {len(answer.rows):,} keys.")
    if len(shown) < len(series):
        notes.append(f"The first {len(shown)} of {len(series)} columns.")
    if answer.tainted:
        notes.append("Made with reproducible bits: for tests, never for publication.")
    panels = [_make_panel(answer.groups, rows, each) for each in shown] if rows else [_make_empty_panel()]
    body = panels[0] if len(panels) == 1 else {"concat": panels, "columns": _count_columns(len(rows), shown), "spacing": 30}
    return {
        "$schema": SCHEMA,
        "description": f"{_shorten(head, MAX_TITLE)}. {' '.join(notes)}",
        "title": {"text": _shorten(head, MAX_TITLE), "subtitle": notes},
        "padding": dict(zip(SIDES, (8 + _count_label_characters(body), 8, 12, 8), strict=True)),
        **body,
        "config": CONFIG,
    }


def choose_column(answer: "Answer", name: str) -> "Answer":
    """Return the answer with one of its columns only, or with all cells of one histogram."""
    series = split_series(answer.schema)
    for each in series:
        if each.name == name:
            part = slice(each.first, each.first + len(each.columns))
            return replace(answer, schema=answer.schema[part], rows=tuple((keys, row[part]) for keys, row in answer.rows))
    raise BadParameter("column", repr(name), "not in this answer", f"take one of {', '.join(each.name for each in series)}")


def _name_chart(groups: Sequence[str], series: Sequence[Series]) -> str:
    names = _join_words([each.title for each in series]) if len(series) <= 3 else f"{len(series)} columns"
    return to_printable(f"{names} by {_join_words(groups)}" if groups else names)


def _join_words(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _describe_intervals(answer: "Answer") -> str:
    share = format_down(100 * float(answer.confidence))
    together = ", all of them together" if answer.simultaneous else ""
    of_counts = all(column.is_count for column in answer.schema)  # nothing is clipped to be counted
    covered = "counts within the contribution bounds" if of_counts else "clipped statistics"
    return f"{share}% intervals of the {covered}{together}."


def _count_label_characters(spec: Any) -> int:
    """Return the length of the longest label. A viewer's letters may be a sixth wider than those that the place was
    measured for: about a pixel each."""
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    own = len(spec.get("inner", "")) + len(spec.get("outer", "")) if isinstance(spec, dict) and "inner" in spec else 0
    return max([own, *map(_count_label_characters, parts)])


def _count_columns(rows: int, series: Sequence[Series]) -> int:
    """How many panels stand side by side: long lists of bars do."""
    return min(3, len(series)) if rows > 12 and not any(each.cells for each in series) else 1


def _limit_rows(groups: Sequence[str], rows: Rows, series: Sequence[Series]) -> Rows:
    """Return as many of the first rows as can be read in one picture."""
    if any(each.cells for each in series):
        return rows[:MAX_PARTS]
    level = _find_ordered(groups, [keys for keys, _ in rows])
    if level is None:
        return rows[:MAX_BARS]
    parts = list(dict.fromkeys(_identify(keys[:level] + keys[level + 1 :]) for keys, _ in rows))[:MAX_PARTS]
    return [row for row in rows if _identify(row[0][:level] + row[0][level + 1 :]) in parts][:MAX_POINTS]


def _make_empty_panel() -> Spec:
    text = {"type": "text", "fontSize": 14, "text": "No keys are shown."}
    return {"width": 300, "height": 60, "data": {"values": [{}]}, "mark": text}


# -- one panel --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mark:
    """One estimate with its place in a panel."""

    outer: str  # the part of the panel
    inner: str  # the label of its bar
    place: tuple[float, float] | None  # where it stands on an ordered axis: from, to
    words: str  # its keys, for a tooltip
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class _Panel:
    """The marks of a series, and how they are drawn."""

    series: Series
    marks: tuple[_Mark, ...]
    inner_title: str
    draw: "Callable[[_Panel], Spec]"
    is_temporal: bool = False

    @property
    def is_split(self) -> bool:
        """Whether it has a part for each value of the other keys, whose names are in the title of the chart."""
        return any(mark.outer for mark in self.marks)

    @property
    def is_open(self) -> bool:
        """Whether an interval has no end."""
        return any(abs(_to_double(end)) == inf for mark in self.marks for end in (mark.estimate.lower, mark.estimate.upper))

    @property
    def domain(self) -> tuple[float, float]:
        """From where to where the values are shown: all finite ends and 0, with room for caps, or for ends that are none."""
        ends = [end for mark in self.marks for end in (mark.estimate.value, mark.estimate.lower, mark.estimate.upper)]
        finite = [number for number in map(_to_double, ends) if isfinite(number)]
        low, high = min([0.0, *finite]), max([0.0, *finite])
        room = (high - low) / (8 if self.is_open else 40) or 1.0
        return low - room if low < 0 or self.is_open else 0.0, high + room if high > 0 or self.is_open else room / 40

    @property
    def has_numbers(self) -> bool:
        """Whether there is room for the number of each estimate."""
        if self.draw is _draw_bars:
            return True
        longest = max(len(_format_number(mark.estimate) + " ?" * (not mark.estimate.reliable)) for mark in self.marks)
        places = len({mark.place for mark in self.marks})
        return places <= MAX_NUMBERS and places * longest * LETTER <= WIDTH

    def _label(self, estimate: Estimate, has_numbers: bool) -> str:
        """What stands beside an estimate."""
        doubt = "" if estimate.reliable else ", not reliable" if self.draw is _draw_bars else " ?"
        return f"{_format_number(estimate)}{doubt}" if has_numbers else doubt.strip()

    def to_values(self) -> list[Spec]:
        """The data of the panel: one object per estimate, in order."""
        (low, high), has_numbers = self.domain, self.has_numbers
        values: list[Spec] = []
        for order, mark in enumerate(self.marks):
            estimate = mark.estimate
            lower, upper = _to_double(estimate.lower), _to_double(estimate.upper)
            values.append(
                {
                    "order": order,
                    "outer": mark.outer,
                    "inner": mark.inner,
                    "value": min(max(_to_double(estimate.value), -LARGEST), LARGEST),
                    "lower": max(lower, low),
                    "upper": min(upper, high),
                    "label": max(min(upper, high), 0.0),
                    "no_lower_end": lower == -inf,
                    "no_upper_end": upper == inf,
                    "reliable": estimate.reliable,
                    "number": self._label(estimate, has_numbers),
                    "key": mark.words,
                    "estimate": _describe_estimate(estimate),
                }
                | ({} if mark.place is None else {"from": mark.place[0], "to": mark.place[1], "middle": sum(mark.place) / 2})
            )
        if self.draw is _draw_line:
            for one, then in pairwise(values):
                joins = one["outer"] == then["outer"]
                if joins:
                    one |= {"next": then["from"], "next_value": then["value"]}
                    one["joins_reliable"] = one["reliable"] and then["reliable"]
                then["run"] = one.setdefault("run", 0) + (not (joins and one["joins_reliable"]))
        return values


def _to_double(value: float) -> float:
    """Return the number as a double that a scale can hold, or an infinity."""
    try:
        double = float(value)
    except OverflowError:
        double = LARGEST if value > 0 else -LARGEST
    return double if abs(double) == inf else min(max(double, -LARGEST), LARGEST)


def _format_number(estimate: Estimate) -> str:
    numbers = (estimate.value, estimate.lower, estimate.upper)
    if all(abs(_to_double(number)) < LARGEST for number in numbers):
        return format_value(*numbers)
    return f"{_to_double(estimate.value):,.6g}"


def _describe_estimate(estimate: Estimate) -> str:
    numbers = (estimate.value, estimate.lower, estimate.upper)
    if all(abs(_to_double(number)) < LARGEST for number in numbers):
        text = format_interval(*numbers)
    else:
        value, lower, upper = (f"{_to_double(number):,.6g}" for number in numbers)
        text = f"{value} [{lower.replace('-inf', 'no bound')}, {upper.replace('inf', 'no bound')}]"
    return text if estimate.reliable else f"{text}, not reliable"


def _make_panel(groups: Sequence[str], rows: Rows, series: Series) -> Spec:
    panel = _place_cells(rows, series) if series.cells else _place_groups(groups, rows, series)
    inner = panel.draw(panel)
    if not panel.is_split:
        return {"data": {"values": panel.to_values()}, **inner}
    header = {"labelAngle": 0, "labelAlign": "left", "labelAnchor": "middle", "labelPadding": 10, "titlePadding": 6}
    row = {"field": "outer", "type": "nominal", "sort": {"field": "order", "op": "min"}, "title": None}
    return {
        "data": {"values": panel.to_values()},
        "facet": {"row": row | {"header": header}},
        "spacing": 10,
        "spec": inner,
        "resolve": {"scale": {"y": "independent"} if panel.draw is _draw_bars else {}},
    }


def _place_cells(rows: Rows, series: Series) -> _Panel:
    """A histogram: one part per group, one mark per cell."""
    outers = _label_keys([keys for keys, _ in rows])
    widths = [cell.upper - cell.lower for cell in series.cells]
    is_even = min(widths) > 0 and max(widths) <= MAX_WIDTH_RATIO * min(widths)
    marks = tuple(
        _Mark(outer, str(cell), (cell.lower, cell.upper), f"{outer} {cell}".strip(), estimate)
        for (_, row), outer in zip(rows, outers, strict=True)
        for cell, estimate in zip(series.cells, row[series.first :], strict=False)
    )
    title = to_printable(series.columns[0].histogram_of or series.name)
    return _Panel(series, marks, title, _draw_cells if is_even else _draw_bars)


def _place_groups(groups: Sequence[str], rows: Rows, series: Series) -> _Panel:
    """A number per group: a line along the last ordered key, if there is one, else bars."""
    keys, estimates = [key for key, _ in rows], [row[series.first] for _, row in rows]
    level = _find_ordered(groups, keys)
    words = [_word_keys(key) or "all" for key in keys]
    if level is not None:
        outers = _label_keys([key[:level] + key[level + 1 :] for key in keys])
        part = {outer: i for i, outer in enumerate(dict.fromkeys(outers))}
        places = [_to_place(key[level]) for key in keys]
        points = [
            _Mark(outer, "", (place, place), text, estimate)
            for outer, place, text, estimate in zip(outers, places, words, estimates, strict=True)
        ]
        points.sort(key=lambda mark: (part[mark.outer], mark.place))
        is_temporal = isinstance(keys[0][level], date)
        return _Panel(series, tuple(points), to_printable(groups[level]), _draw_line, is_temporal)
    is_nested = len(groups) > 1 and len({key[0] for key in keys}) < len(keys)
    outers = _label_keys([key[:1] for key in keys]) if is_nested else [""] * len(keys)
    inners = _label_apart(outers, [key[1:] if is_nested else key for key in keys])
    bars = tuple(
        _Mark(outer, inner or "all", None, text, estimate)
        for outer, inner, text, estimate in zip(outers, inners, words, estimates, strict=True)
    )
    return _Panel(series, bars, _join_names(groups[1:] if is_nested else groups), _draw_bars)


def _join_names(names: Sequence[str]) -> str:
    return " · ".join(map(to_printable, names))


# -- keys: their order and their labels -------------------------------------------------------------------------------------


def _find_ordered(groups: Sequence[str], keys: Sequence[Keys]) -> int | None:
    """Return the position of the last group key that has an order."""
    return next((i for i in reversed(range(len(groups))) if _is_ordered([key[i] for key in keys])), None)


def _is_ordered(keys: Sequence[Key]) -> bool:
    """Whether the keys are numbers, or dates, and enough of them for a line. True and False are no numbers here."""
    numbers = all(isinstance(key, int) and not isinstance(key, bool) for key in keys)
    return (numbers or all(isinstance(key, date) for key in keys)) and len(set(keys)) >= MIN_ORDERED


def _to_place(key: Key) -> float:
    """Where an ordered key stands on its axis; times are in milliseconds since 1970, UTC."""
    if isinstance(key, date):
        days = key.toordinal() - date(1970, 1, 1).toordinal()
        within = (key.hour * 60 + key.minute) * 60 + key.second if isinstance(key, datetime) else 0
        milliseconds = key.microsecond / 1000 if isinstance(key, datetime) else 0.0
        return (days * 86_400 + within) * 1000 + milliseconds
    assert isinstance(key, int)
    return key


def _word_keys(keys: Keys) -> str:
    return to_printable(" · ".join("NULL" if key is None else str(key) or EMPTY for key in keys))


EMPTY = '""'
"""An empty text as a key."""


def _shorten(text: str, length: int) -> str:
    """Leave out the middle: names of one kind often differ at their ends."""
    return text if len(text) <= length else f"{text[: length - length // 3 - 1]}…{text[-(length // 3) :]}"


def _label_keys(keys: Sequence[Keys]) -> list[str]:
    """Return one label per key: the same for the same keys, different ones for different keys."""
    distinct = list(dict.fromkeys(map(_identify, keys)))
    words = {_identify(key): _word_keys(key) for key in keys}
    labels = dict(zip(distinct, _make_distinct(_shorten_apart([words[each] for each in distinct])), strict=True))
    return [labels[_identify(key)] for key in keys]


def _shorten_apart(texts: Sequence[str]) -> list[str]:
    """Shorten texts, and those that would look the same so that the part in which they differ stays.

    >>> _shorten_apart(["x" * 50 + "a" + "y" * 50, "x" * 50 + "b" + "y" * 50, "z"])
    ['…xxxxxxxxayyyyyyyyyyyyyyyyyyyyyyyyyyyyy…', '…xxxxxxxxbyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…', 'z']
    """
    labels, alike = [_shorten(text, MAX_LABEL) for text in texts], dict[str, list[int]]()
    for i, label in enumerate(labels):
        alike.setdefault(label, []).append(i)
    for places in alike.values():
        if len({texts[i] for i in places}) > 1:
            letters = zip(*(texts[i] for i in places), strict=False)
            same = next((n for n, each in enumerate(letters) if len(set(each)) > 1), min(len(texts[i]) for i in places))
            start = max(0, same - MAX_LABEL // 5)
            for i in places:
                rest = texts[i][start:]
                cut = rest if len(rest) < MAX_LABEL else f"{rest[: MAX_LABEL - 2]}…"
                labels[i] = f"…{cut}" if start else cut
    return labels


def _identify(keys: Keys) -> tuple[tuple[type, Key], ...]:
    """True and 1 are equal in Python, and two keys."""
    return tuple((type(key), key) for key in keys)


def _label_apart(outers: Sequence[str], keys: Sequence[Keys]) -> list[str]:
    """Return a label per key that differs from the others of its part."""
    labels = [""] * len(keys)
    for outer in dict.fromkeys(outers):
        places = [i for i, each in enumerate(outers) if each == outer]
        for i, label in zip(places, _label_keys([keys[i] for i in places]), strict=True):
            labels[i] = label
    return labels


def _make_distinct(labels: Sequence[str]) -> list[str]:
    """Number the labels that occur again: shortened or unprintable texts may look the same."""
    found: dict[str, None] = {}
    for label in labels:
        other, times = label, 1
        while other in found:
            times += 1
            other = f"{label} [same label, no. {times}]"
        found[other] = None
    return list(found)


# -- bars, lines, cells -----------------------------------------------------------------------------------------------------

_SHADE: Spec = {
    "fillOpacity": {"condition": {"test": "datum.reliable", "value": 1}, "value": PALE},
    "strokeDash": {"condition": {"test": "datum.reliable", "value": [1, 0]}, "value": [4, 3]},
    "tooltip": [{"field": "key", "title": "key"}, {"field": "estimate", "title": "estimate"}],
}
_OUTLINE: Spec = {"fill": SKY, "stroke": BLUE, "strokeWidth": 1}


def _draw_bars(panel: _Panel) -> Spec:
    """Lying bars, so that long names can be read."""
    axis = {"grid": False, "ticks": False, "domain": False, "labelOverlap": False, "labelPadding": 6} | _TITLE_ON_TOP
    y: Spec = {
        "field": "inner",
        "type": "nominal",
        "sort": {"field": "order", "op": "min"},
        "title": panel.inner_title if panel.inner_title and not panel.is_split else None,
    }
    y["axis"] = axis
    bar = {"mark": {"type": "bar", "height": {"band": 0.7}, **_OUTLINE}, "encoding": {"y": y, "x": _value(panel), **_SHADE}}
    text = {"align": "left", "baseline": "middle", "dx": 7}
    layers = [bar, *_draw_intervals(panel, {"y": y}, "x", text)]
    return {"width": 400, "height": {"step": 24}, "layer": layers}


_TITLE_ON_TOP: Spec = {
    "titleAngle": 0,
    "titleAlign": "right",
    "titleAnchor": "end",
    "titleBaseline": "bottom",
    "titleX": -6,
    "titleY": -4,
}
"""Above the labels of lying bars, where there is room for it however few they are."""


def _draw_line(panel: _Panel) -> Spec:
    """Points with intervals on a line, along an ordered axis."""
    places = sorted({mark.place[0] for mark in panel.marks if mark.place is not None})
    x: Spec = {"field": "from", "title": panel.inner_title, "axis": {"grid": False, "labelOverlap": True}}
    if panel.is_temporal:
        x |= {"type": "temporal", "scale": {"type": "utc", "padding": 14}}
    else:
        x |= {"type": "quantitative", "scale": {"zero": False, "nice": False, "padding": 14}}
        x["axis"] |= {"format": "d" if max(map(abs, places)) < 10_000 else ",d", "tickMinStep": 1}
        x["axis"] |= {"values": places} if len(places) <= MAX_TICKS else {}
    lines: list[Spec] = [{"mark": {"type": "line", "color": BLUE}, "encoding": {"x": x, "y": _value(panel)}}]
    if not all(mark.estimate.reliable for mark in panel.marks):
        lines[0]["transform"] = [{"filter": "datum.reliable"}]
        lines[0]["encoding"]["detail"] = {"field": "run", "type": "nominal"}
        lines.append(_draw_doubtful_segments(panel, x))
    size = 60 if len(places) <= 40 else 20
    points = {
        "mark": {"type": "point", "size": size, "opacity": 1, **_OUTLINE},
        "encoding": {"x": x, "y": _value(panel), **_SHADE},
    }
    text = {"baseline": "bottom", "dy": -5}
    layers = [*lines, *_draw_intervals(panel, {"x": x}, "y", text), points]
    return {"width": WIDTH, "height": 130 if panel.is_split else 240, "layer": layers}


def _draw_doubtful_segments(panel: _Panel, x: Spec) -> Spec:
    """The pieces of a line that end at a point which is not reliable: thin, pale and dashed."""
    along = {"x": x, "x2": {"field": "next"}, "y": _value(panel), "y2": {"field": "next_value"}}
    style = {"type": "rule", "color": BLUE, "strokeWidth": 1, "strokeDash": [2, 3], "opacity": 0.5}
    return {"mark": style, "encoding": along, "transform": [{"filter": "datum.joins_reliable === false"}]}


def _draw_cells(panel: _Panel) -> Spec:
    """A histogram on the axis of its values."""
    edges = [panel.series.cells[0].lower, *(cell.upper for cell in panel.series.cells)]
    axis: Spec = {"grid": False, "labelOverlap": True} | ({"values": edges} if len(edges) <= 2 * MAX_TICKS + 1 else {})
    scale = {"zero": False, "nice": False, "domain": [edges[0], edges[-1]]}
    x = {"field": "from", "type": "quantitative", "title": panel.inner_title, "scale": scale, "axis": axis}
    middle = x | {"field": "middle"}
    box = {
        "mark": {"type": "bar", "orient": "vertical", "binSpacing": 1, **_OUTLINE},
        "encoding": {"x": x | {"bin": "binned"}, "x2": {"field": "to"}, "y": _value(panel), **_SHADE},
    }
    text = {"baseline": "bottom", "dy": -5}
    layers = [box, *_draw_intervals(panel, {"x": middle}, "y", text)]
    return {"width": WIDTH, "height": 130 if panel.is_split else 240, "layer": layers}


def _value(panel: _Panel, field: str = "value") -> Spec:
    """The axis of the values."""
    title = to_printable(panel.series.label)
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [*panel.domain], "nice": False},
        "axis": {"tickCount": 4 if panel.is_split else 6},
    }


def _draw_intervals(panel: _Panel, across: Mapping[str, Spec], along: str, text: Spec) -> Iterator[Spec]:
    """The interval of each estimate with a cap at each end, a triangle where it has none, and a label."""
    lower, upper = _value(panel, "lower"), _value(panel, "upper")
    rule = {"mark": "rule", "encoding": {**across, along: lower, f"{along}2": {"field": "upper"}}}
    yield rule
    cap = {"type": "tick", "size": 8, "thickness": 1, "orient": "vertical" if along == "x" else "horizontal"}
    shapes = ("triangle-left", "triangle-right") if along == "x" else ("triangle-down", "triangle-up")
    for end, field, shape in ((lower, "no_lower_end", shapes[0]), (upper, "no_upper_end", shapes[1])):
        encoding = {**across, along: end}
        yield {"mark": cap, "encoding": encoding, "transform": [{"filter": f"!datum.{field}"}]}
        if panel.is_open:
            arrow = {"type": "point", "shape": shape, "size": 40, "opacity": 1}
            yield {"mark": arrow, "encoding": encoding, "transform": [{"filter": f"datum.{field}"}]}
    if panel.has_numbers or not all(mark.estimate.reliable for mark in panel.marks):
        beside = {**across, along: _value(panel, "label"), "text": {"field": "number", "type": "nominal"}}
        for test, style in (("datum.reliable", {}), ("!datum.reliable", _DOUBTFUL[along])):
            yield {
                "mark": {"type": "text", "fontSize": 10, **text, **style},
                "encoding": beside,
                "transform": [{"filter": test}],
            }


_DOUBTFUL: dict[str, Spec] = {"x": {"fontStyle": "italic"}, "y": {"fontWeight": "bold"}}
"""How the label of an estimate looks that is not reliable, where bars lie and where they stand."""
