"""The plan as a picture: the error against ε, and against n or the number of questions. Needs the extra `plot`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log10
from typing import Any

from discreet import formats
from discreet.errors import BadParameter
from discreet.planner.central import CENTRAL_MECHANISMS
from discreet.planner.local import LOCAL_MECHANISM
from discreet.planner.search import MAX_N, MIN_EPSILON, Crossover, Mechanism
from discreet.planner.task import ErrorMetric, Task

COLOURS = {"Laplace": "#0072B2", "Gaussian": "#D55E00", LOCAL_MECHANISM.name: "#009E73"}  # Okabe and Ito
POINTS = 25
TEXTBOOK_LABEL = "the textbooks' bound, in the same colour"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChartData:
    """What of a plan is drawn: its task, the mechanism that it takes, and where that stands."""

    task: Task
    mechanism: str
    epsilon: float
    n: int | None
    error: float
    crossovers: tuple[Crossover, ...]
    by_n: bool
    """Whether more people help."""


def draw_chart(chart: ChartData) -> Any:
    """Two panels, 800 pixels wide at the 100 dots per inch that the figure has."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError:
        raise formats.missing_library_error("matplotlib", "discreet[plot]") from None
    figure = Figure(figsize=(8, 8), dpi=100, layout="constrained")
    above, below = figure.subplots(2, 1)
    _draw_against_epsilon(above, chart)
    if chart.by_n:
        _draw_against_n(below, chart)
    else:
        _draw_against_queries(below, chart)
    figure.suptitle(f"{chart.task.queries:,} × {chart.task.query}" if chart.task.queries > 1 else str(chart.task.query))
    handles, labels = above.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    known |= {TEXTBOOK_LABEL: Line2D([], [], color="0.3", linewidth=1.2, linestyle="--")} if TEXTBOOK_LABEL in known else {}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=3, fontsize=10)
    return figure


def _mechanisms_to_draw(chart: ChartData) -> list[Mechanism]:
    """The discrete Gaussian's line would lie on the Gaussian's."""
    central: list[Mechanism] = [CENTRAL_MECHANISMS[0], *([CENTRAL_MECHANISMS[1]] if chart.task.delta else [])]
    return central if chart.n is None else [*central, LOCAL_MECHANISM]


def _draw_against_epsilon(axes: Any, chart: ChartData) -> None:
    middle = chart.epsilon
    spread = [middle * 10 ** (-1.5 + 3 * i / (POINTS - 1)) for i in range(POINTS)]
    prices = [Fraction(x) for x in spread if x >= MIN_EPSILON]
    for way in _mechanisms_to_draw(chart):
        _draw_line(axes, chart, way, prices, lambda task, x: (task, x, chart.n))
    fixed = "" if chart.n is None else f" with n = {chart.n:,}"
    _finish_axes(axes, chart, "ε", f"What an ε buys{fixed}", middle)


def _draw_against_n(axes: Any, chart: ChartData) -> None:
    assert chart.n is not None
    usable = [c.at for c in chart.crossovers if c.quantity == "n"]
    low, high = log10(max(1, chart.n / 30)), log10(min(MAX_N, max([chart.n * 30, *(3 * at for at in usable)])))
    sizes = sorted({round(10 ** (low + (high - low) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(chart.epsilon)
    for way in _mechanisms_to_draw(chart):
        _draw_line(axes, chart, way, sizes, lambda task, x: (task, epsilon, int(x)))
    for at in usable:
        _draw_mark(axes, at, f"randomised response is as good\nfrom about n = {at:,}", "right")
    _finish_axes(axes, chart, "n, the number of people", f"What more people buy at ε = {chart.epsilon:.4g}", chart.n)


def _draw_against_queries(axes: Any, chart: ChartData) -> None:
    crossing = [c.at for c in chart.crossovers if c.quantity == "queries"]
    most = max([30, 4 * chart.task.queries, *(4 * at for at in crossing)])
    counts = sorted({round(10 ** (log10(most) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(chart.epsilon)
    for way in _mechanisms_to_draw(chart)[: 2 if chart.task.delta else 1]:  # what each person adds would hide the crossing
        _draw_line(axes, chart, way, counts, lambda task, x: (replace(task, queries=int(x)), epsilon, chart.n))
    for at in crossing:
        _draw_mark(axes, at, f"Gaussian noise wins\nfrom {at:,} on", "left")
    _finish_axes(
        axes, chart, "questions at once", f"So many such questions at ε = {chart.epsilon:.4g} in all", chart.task.queries
    )


def _draw_line(
    axes: Any,
    chart: ChartData,
    mechanism: Mechanism,
    xs: Sequence[Fraction | int],
    at: Callable[[Task, Any], tuple[Task, Fraction, int | None]],
) -> None:
    """The exact error, and the textbook's beside it."""
    colour = COLOURS[mechanism.name]
    exact, book = [], []
    for x in xs:
        task, epsilon, n = at(chart.task, x)
        try:
            exact.append((float(x), float(mechanism.predict_accuracy(task, epsilon, n).get(task.metric))))
        except BadParameter:  # noise too wide to be drawn
            continue
        known = None if task.metric is ErrorMetric.RMSE else mechanism.textbook_half_width(task, epsilon, n)
        book += [] if known is None else [(float(x), known)]
    _draw_positive(axes, exact, color=colour, linewidth=2.2, label=mechanism.name)
    _draw_positive(axes, book, color=colour, linewidth=1.2, linestyle="--", label=TEXTBOOK_LABEL)


def _draw_positive(axes: Any, points: Sequence[Point], **style: Any) -> None:
    """A logarithmic axis has no place for an error of 0."""
    kept = [(x, y) for x, y in points if y > 0]
    if kept:
        axes.plot(*zip(*kept, strict=True), **style)


def _draw_mark(axes: Any, at: float, text: str, side: str) -> None:
    axes.axvline(at, color="0.45", linewidth=1, linestyle="-.")
    axes.annotate(
        text, (at, 0.03), xycoords=("data", "axes fraction"), xytext=(-6 if side == "right" else 6, 0), ha=side, va="bottom",
        textcoords="offset points", fontsize=9, color="0.25",
    )  # fmt: skip


def _finish_axes(axes: Any, chart: ChartData, label: str, title: str, chosen: float) -> None:
    if chart.error > 0:
        axes.axhline(chart.error, color="0.6", linewidth=1, linestyle=":")
        axes.plot([chosen], [chart.error], "o", color="black", markersize=8, label=f"the plan: {chart.mechanism}", zorder=5)
    several = chart.task.answers > 1 and chart.task.metric is ErrorMetric.LARGEST
    sure = f"{float(100 * chart.task.confidence):g}%"
    error = "RMSE" if chart.task.metric is ErrorMetric.RMSE else f"± of all answers at {sure}" if several else f"± at {sure}"
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=error, title=title)
    axes.grid(which="major", color="0.9", linewidth=0.8)
