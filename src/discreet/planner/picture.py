"""The plan as a picture: the error against ε, and against n or the number of questions. Needs the extra `plot`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log10
from typing import Any

from discreet import formats
from discreet.errors import BadParameter
from discreet.planner.central import CENTRAL
from discreet.planner.crossing import Crossover
from discreet.planner.local import LOCAL
from discreet.planner.solve import LEAST_EPSILON, MOST_N, Way
from discreet.planner.task import Aim, Task

COLOURS = {"Laplace": "#0072B2", "Gaussian": "#D55E00", LOCAL.name: "#009E73"}  # Okabe and Ito
POINTS = 25
BOOK = "the textbooks' bound, in the same colour"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What of a plan is drawn: its task, the mechanism that it takes, and where that stands."""

    task: Task
    mechanism: str
    epsilon: float
    n: int | None
    reached: float
    crossovers: tuple[Crossover, ...]
    by_n: bool
    """Whether more people help."""


def draw(plan: Drawn) -> Any:
    """Two panels, 800 pixels wide at the 100 dots per inch that the figure has."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError:
        raise formats.missing("matplotlib", "discreet[plot]") from None
    figure = Figure(figsize=(8, 8), dpi=100, layout="constrained")
    above, below = figure.subplots(2, 1)
    _against_epsilon(above, plan)
    if plan.by_n:
        _against_n(below, plan)
    else:
        _against_queries(below, plan)
    figure.suptitle(f"{plan.task.queries:,} × {plan.task.question}" if plan.task.queries > 1 else str(plan.task.question))
    handles, labels = above.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    known |= {BOOK: Line2D([], [], color="0.3", linewidth=1.2, linestyle="--")} if BOOK in known else {}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=3, fontsize=10)
    return figure


def _ways(plan: Drawn) -> list[Way]:
    """The discrete Gaussian's line would lie on the Gaussian's."""
    central: list[Way] = [CENTRAL[0], *([CENTRAL[1]] if plan.task.delta else [])]
    return central if plan.n is None else [*central, LOCAL]


def _against_epsilon(axes: Any, plan: Drawn) -> None:
    middle = plan.epsilon
    spread = [middle * 10 ** (-1.5 + 3 * i / (POINTS - 1)) for i in range(POINTS)]
    prices = [Fraction(x) for x in spread if x >= LEAST_EPSILON]
    for way in _ways(plan):
        _line(axes, plan, way, prices, lambda task, x: (task, x, plan.n))
    fixed = "" if plan.n is None else f" with n = {plan.n:,}"
    _finish(axes, plan, "ε", f"What an ε buys{fixed}", middle)


def _against_n(axes: Any, plan: Drawn) -> None:
    assert plan.n is not None
    usable = [c.at for c in plan.crossovers if c.what == "n"]
    low, high = log10(max(1, plan.n / 30)), log10(min(MOST_N, max([plan.n * 30, *(3 * at for at in usable)])))
    sizes = sorted({round(10 ** (low + (high - low) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(plan.epsilon)
    for way in _ways(plan):
        _line(axes, plan, way, sizes, lambda task, x: (task, epsilon, int(x)))
    for at in usable:
        _mark(axes, at, f"randomised response is as good\nfrom about n = {at:,}", "right")
    _finish(axes, plan, "n, the number of people", f"What more people buy at ε = {plan.epsilon:.4g}", plan.n)


def _against_queries(axes: Any, plan: Drawn) -> None:
    crossing = [c.at for c in plan.crossovers if c.what == "queries"]
    most = max([30, 4 * plan.task.queries, *(4 * at for at in crossing)])
    counts = sorted({round(10 ** (log10(most) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(plan.epsilon)
    for way in _ways(plan)[: 2 if plan.task.delta else 1]:  # what each person adds would hide the crossing
        _line(axes, plan, way, counts, lambda task, x: (replace(task, queries=int(x)), epsilon, plan.n))
    for at in crossing:
        _mark(axes, at, f"Gaussian noise wins\nfrom {at:,} on", "left")
    _finish(axes, plan, "questions at once", f"So many such questions at ε = {plan.epsilon:.4g} in all", plan.task.queries)


def _line(
    axes: Any,
    plan: Drawn,
    way: Way,
    xs: Sequence[Fraction | int],
    at: Callable[[Task, Any], tuple[Task, Fraction, int | None]],
) -> None:
    """The exact error, and the textbook's beside it."""
    colour = COLOURS[way.name]
    exact, book = [], []
    for x in xs:
        task, epsilon, n = at(plan.task, x)
        try:
            exact.append((float(x), float(way.accuracy(task, epsilon, n).aimed(task.aim))))
        except BadParameter:  # noise too wide to be drawn
            continue
        known = None if task.aim is Aim.RMSE else way.textbook(task, epsilon, n)
        book += [] if known is None else [(float(x), known)]
    _draw_positive(axes, exact, color=colour, linewidth=2.2, label=way.name)
    _draw_positive(axes, book, color=colour, linewidth=1.2, linestyle="--", label=BOOK)


def _draw_positive(axes: Any, points: Sequence[Point], **look: Any) -> None:
    """A logarithmic axis has no place for an error of 0."""
    kept = [(x, y) for x, y in points if y > 0]
    if kept:
        axes.plot(*zip(*kept, strict=True), **look)


def _mark(axes: Any, at: float, text: str, side: str) -> None:
    axes.axvline(at, color="0.45", linewidth=1, linestyle="-.")
    axes.annotate(
        text, (at, 0.03), xycoords=("data", "axes fraction"), xytext=(-6 if side == "right" else 6, 0), ha=side, va="bottom",
        textcoords="offset points", fontsize=9, color="0.25",
    )  # fmt: skip


def _finish(axes: Any, plan: Drawn, label: str, title: str, chosen: float) -> None:
    if plan.reached > 0:
        axes.axhline(plan.reached, color="0.6", linewidth=1, linestyle=":")
        axes.plot([chosen], [plan.reached], "o", color="black", markersize=8, label=f"the plan: {plan.mechanism}", zorder=5)
    several = plan.task.answers > 1 and plan.task.aim is Aim.LARGEST
    sure = f"{float(100 * plan.task.confidence):g}%"
    error = "RMSE" if plan.task.aim is Aim.RMSE else f"± of all answers at {sure}" if several else f"± at {sure}"
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=error, title=title)
    axes.grid(which="major", color="0.9", linewidth=0.8)
