"""A plan as it is shown: rows, text, HTML, JSON, and a chart of the error against ε and n."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log10
from typing import Any, Literal

from discreet import formats
from discreet._numbers import ceil_float, format_up
from discreet.errors import BadParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace, RandomizedResponse
from discreet.planner.mechanisms import CENTRAL_MECHANISMS, LOCAL_MECHANISM, Mechanism
from discreet.planner.search import MAX_N, MIN_EPSILON, Crossover
from discreet.planner.task import ErrorMetric, Goal, Task

Unknown = Literal["epsilon", "error", "n"]


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism with its ε, n and errors. Half-widths and errors are rounded up, in the unit of the answer."""

    mechanism: str
    noise: Laplace | Gaussian | DiscreteGaussian | RandomizedResponse
    """What to release with: on the statistics, which a proportion and a mean then divide by n; or by each person."""
    epsilon: float
    delta: float
    n: int | None
    half_width: float
    """At the confidence: of the largest error of all answers, or of each answer alone with `each=True`."""
    each: float
    """The half-width of one answer alone."""
    rmse: float
    textbook: float | None
    """The half-width by the textbooks' bounds at the same ε; None where their hypothesis fails."""

    @property
    def scale(self) -> float:
        """The noise's scale or σ, on the statistics; the probability of the truth for randomised response."""
        match self.noise:
            case Laplace(scale=scale) | Gaussian(sigma=scale) | DiscreteGaussian(sigma=scale):
                return ceil_float(scale)
            case RandomizedResponse(truth=truth):
                return float(truth)

    def get_error(self, metric: ErrorMetric) -> float:
        """Return the error by a metric."""
        return self.rmse if metric is ErrorMetric.RMSE else self.half_width

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        names = ("mechanism", "scale", "epsilon", "delta", "n", "half_width", "each", "rmse", "textbook")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Plan:
    """What `plan` found, best mechanism first.

    >>> from discreet import Count, plan
    >>> found = plan(Count(), epsilon=1, n=1000)
    >>> isinstance(found, Plan), found.winner.mechanism, found.half_width
    (True, 'Laplace', 3.0)
    """

    task: Task
    goal: Goal | None
    unknown: Unknown
    rows: tuple[Row, ...]
    infeasible: tuple[tuple[str, str], ...]
    """Mechanisms that cannot reach the goal, and why."""
    crossovers: tuple[Crossover, ...]
    warnings: tuple[str, ...]

    @property
    def winner(self) -> Row:
        """The best mechanism: with the least ε, the least error or the fewest people."""
        return self.rows[0]

    @property
    def epsilon(self) -> float:
        """The winner's ε."""
        return self.winner.epsilon

    @property
    def n(self) -> int | None:
        """The winner's number of people."""
        return self.winner.n

    @property
    def half_width(self) -> float:
        """The winner's half-width, at the confidence."""
        return self.winner.half_width

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "query": str(self.task.query),
            "queries": self.task.queries,
            "neighbours": self.task.neighbours.definition,
            "confidence": float(self.task.confidence),
            "aim": self.task.metric.value,
            "goal": None if self.goal is None else self.goal.format(self.task.query),
            "unknown": self.unknown,
            "winner": self.winner.mechanism,
            "rows": [row.to_dict() for row in self.rows],
            "left_out": [{"mechanism": name, "reason": reason} for name, reason in self.infeasible],
            "crossovers": [
                {"mechanism": c.mechanism, "what": c.quantity, "at": c.at, "said": c.message} for c in self.crossovers
            ],
            "warnings": list(self.warnings),
        }

    def plot(self) -> Any:
        """Draw the error against ε, and against n or the number of queries. Needs the extra `lab`."""
        return _draw_chart(self)

    def __str__(self) -> str:
        header, lines = self._table()
        widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
        table = [_align_columns(line, widths) for line in [header, *lines]]
        return "\n".join([self._title(), *table, *self._footer_lines()])

    def __rich__(self) -> Any:
        return formats.add_rich_notes(formats.make_rich_table(self._title(), *self._table()), self._footer_lines())

    def _repr_html_(self) -> str:
        return formats.make_html_table(*self._table(), [self._title(), *self._footer_lines()])

    def _title(self) -> str:
        many = "" if self.task.queries == 1 else f"{self.task.queries:,} times a "
        confidence = f"at {float(100 * self.task.confidence):g}%"
        if self.goal is None:
            return f"{many}{self.task.query}: how accurate {confidence}{self._format_given()}?"
        one = self.task.answers == 1 and self.task.metric is not ErrorMetric.RMSE
        target = f"{'error' if one else self.task.metric.value} within {self.goal.format(self.task.query)}"
        target += "" if self.task.metric is ErrorMetric.RMSE else f" {confidence}"
        unknown = "which ε" if self.unknown == "epsilon" else "how many people"
        return f"{many}{self.task.query}, {target}: {unknown}{self._format_given()}?"

    def _format_given(self) -> str:
        """Write what is the same for all rows."""
        best, delta = self.winner, float(self.task.delta)
        given = [] if self.unknown == "epsilon" else [f"ε = {_format_four_digits(best.epsilon)}"]
        given += [f"δ = {delta:g}"] if delta else []
        given += [] if self.unknown == "n" or best.n is None else [f"n = {best.n:,}"]
        return f" with {', '.join(given)}" if given else ""

    def _table(self) -> tuple[list[str], list[list[str]]]:
        several = self.task.answers > 1 and self.task.metric is not ErrorMetric.EACH
        unknown = {"epsilon": ["ε"], "n": ["n"], "error": []}[self.unknown]
        header = ["mechanism", "scale", *unknown, *(["± all", "± each"] if several else ["±"]), "RMSE", "textbook"]
        return header, [_format_row(row, self.unknown, several) for row in self.rows]

    def _footer_lines(self) -> list[str]:
        best = self.winner
        solution = {
            "epsilon": f"ε = {_format_four_digits(best.epsilon)}",
            "error": f"± {_format_four_digits(best.half_width)}",
            "n": f"n = {best.n or 0:,}",
        }
        lines = [f"Use {best.mechanism}: {solution[self.unknown]}."]
        lines += [f"Not listed: {name}, because {reason}." for name, reason in self.infeasible]
        return [*lines, *map(str, self.crossovers), *(f"Warning: {text}" for text in self.warnings), _NOISE_NOTE]


_NOISE_NOTE = (
    "The last column is the half-width by the textbooks' bounds. All errors are those of the privacy noise; sampling error "
    "is not included."
)


def _format_row(row: Row, unknown: Unknown, several: bool) -> list[str]:
    numbers = [row.half_width, *([row.each] * several), row.rmse]
    scale = f"p = {row.scale:.4f}" if isinstance(row.noise, RandomizedResponse) else f"{row.scale:.5g}"
    solution = {"epsilon": [_format_four_digits(row.epsilon)], "n": [_format_people(row.n or 0)], "error": []}[unknown]
    textbook = "–" if row.textbook is None else _format_four_digits(row.textbook)
    return [row.mechanism, scale, *solution, *map(_format_four_digits, numbers), textbook]


def _format_people(n: int) -> str:
    """Write a number of people in a table: very large ones with four digits, rounded up."""
    return f"{n:,}" if n < 10**7 else _format_four_digits(n)


def _format_four_digits(value: float) -> str:
    """Write four digits, rounded up.

    >>> _format_four_digits(0.12341), _format_four_digits(1234.01), _format_four_digits(2166012), _format_four_digits(0.0)
    ('0.1235', '1,235', '2.167e6', '0')
    """
    return format_up(value)


def _align_columns(line: list[str], widths: list[int]) -> str:
    first, *others = (
        text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


# -- the chart --------------------------------------------------------------------------------------------------------------

COLOURS = {"Laplace": "#0072B2", "Gaussian": "#D55E00", LOCAL_MECHANISM.name: "#009E73"}  # Okabe and Ito
POINTS = 25
TEXTBOOK_LABEL = "the textbooks' bound, in the same colour"
Point = tuple[float, float]


def _draw_chart(plan: Plan) -> Any:
    """Draw two panels, 800 pixels wide at 100 dots per inch."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError:
        raise formats.missing_library_error("matplotlib", "discreet[lab]") from None
    task = plan.task
    figure = Figure(figsize=(8, 8), dpi=100, layout="constrained")
    above, below = figure.subplots(2, 1)
    _draw_against_epsilon(above, plan)
    if task.divides_by_n or (plan.goal is not None and plan.goal.depends_on_n(task.query)):
        _draw_against_n(below, plan)
    else:
        _draw_against_queries(below, plan)
    figure.suptitle(f"{task.queries:,} × {task.query}" if task.queries > 1 else str(task.query))
    handles, labels = above.get_legend_handles_labels()
    legend = dict(zip(labels, handles, strict=True))
    if TEXTBOOK_LABEL in legend:
        legend[TEXTBOOK_LABEL] = Line2D([], [], color="0.3", linewidth=1.2, linestyle="--")
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=3, fontsize=10)
    return figure


def _mechanisms_to_draw(plan: Plan) -> list[Mechanism]:
    """Return all but the discrete Gaussian, whose line would lie on the Gaussian's."""
    central: list[Mechanism] = [CENTRAL_MECHANISMS[0], *([CENTRAL_MECHANISMS[1]] if plan.task.delta else [])]
    return central if plan.n is None else [*central, LOCAL_MECHANISM]


def _draw_against_epsilon(axes: Any, plan: Plan) -> None:
    around = [plan.epsilon * 10 ** (-1.5 + 3 * i / (POINTS - 1)) for i in range(POINTS)]
    epsilons = [Fraction(x) for x in around if x >= MIN_EPSILON]
    for mechanism in _mechanisms_to_draw(plan):
        _draw_line(axes, plan, mechanism, epsilons, lambda task, x: (task, x, plan.n))
    fixed = "" if plan.n is None else f" with n = {plan.n:,}"
    _finish_axes(axes, plan, "ε", f"The error by ε{fixed}", plan.epsilon)


def _draw_against_n(axes: Any, plan: Plan) -> None:
    assert plan.n is not None
    usable = [c.at for c in plan.crossovers if c.quantity == "n"]
    low, high = log10(max(1, plan.n / 30)), log10(min(MAX_N, max([plan.n * 30, *(3 * at for at in usable)])))
    sizes = sorted({round(10 ** (low + (high - low) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(plan.epsilon)
    for mechanism in _mechanisms_to_draw(plan):
        _draw_line(axes, plan, mechanism, sizes, lambda task, x: (task, epsilon, int(x)))
    for at in usable:
        _draw_mark(axes, at, f"randomised response reaches it\nfrom about n = {at:,}", "right")
    _finish_axes(axes, plan, "n, the number of people", f"The error by n at ε = {plan.epsilon:.4g}", plan.n)


def _draw_against_queries(axes: Any, plan: Plan) -> None:
    queries = plan.task.queries
    crossing = [c.at for c in plan.crossovers if c.quantity == "queries"]
    most = max([30, 4 * queries, *(4 * at for at in crossing)])
    counts = sorted({round(10 ** (log10(most) * i / (POINTS - 1))) for i in range(POINTS)})
    epsilon = Fraction(plan.epsilon)
    # central noise only: the errors of randomised response would make the crossing invisible
    for mechanism in _mechanisms_to_draw(plan)[: 2 if plan.task.delta else 1]:
        _draw_line(axes, plan, mechanism, counts, lambda task, x: (replace(task, queries=int(x)), epsilon, plan.n))
    for at in crossing:
        _draw_mark(axes, at, f"Gaussian noise is better\nfrom {at:,} on", "left")
    _finish_axes(axes, plan, "queries at once", f"The error by number of queries, all at ε = {plan.epsilon:.4g}", queries)


def _draw_line(
    axes: Any,
    plan: Plan,
    mechanism: Mechanism,
    xs: Sequence[Fraction | int],
    at: Callable[[Task, Any], tuple[Task, Fraction, int | None]],
) -> None:
    """Draw the exact error, and the textbooks' bound beside it."""
    colour = COLOURS[mechanism.name]
    exact, textbook = [], []
    for x in xs:
        task, epsilon, n = at(plan.task, x)
        try:
            exact.append((float(x), float(mechanism.predict_accuracy(task, epsilon, n).get(task.metric))))
        except BadParameter:  # noise too wide to be drawn
            continue
        bound = None if task.metric is ErrorMetric.RMSE else mechanism.textbook_half_width(task, epsilon, n)
        textbook += [] if bound is None else [(float(x), bound)]
    _draw_positive(axes, exact, color=colour, linewidth=2.2, label=mechanism.name)
    _draw_positive(axes, textbook, color=colour, linewidth=1.2, linestyle="--", label=TEXTBOOK_LABEL)


def _draw_positive(axes: Any, points: Sequence[Point], **style: Any) -> None:
    """Draw the points with a positive error, since the axis is logarithmic."""
    positive = [(x, y) for x, y in points if y > 0]
    if positive:
        axes.plot(*zip(*positive, strict=True), **style)


def _draw_mark(axes: Any, at: float, text: str, side: str) -> None:
    axes.axvline(at, color="0.45", linewidth=1, linestyle="-.")
    axes.annotate(
        text, (at, 0.03), xycoords=("data", "axes fraction"), xytext=(-6 if side == "right" else 6, 0), ha=side, va="bottom",
        textcoords="offset points", fontsize=9, color="0.25",
    )  # fmt: skip


def _finish_axes(axes: Any, plan: Plan, label: str, title: str, chosen: float) -> None:
    task, error = plan.task, plan.winner.get_error(plan.task.metric)
    if error > 0:
        axes.axhline(error, color="0.6", linewidth=1, linestyle=":")
        axes.plot([chosen], [error], "o", color="black", markersize=8, label=f"the plan: {plan.winner.mechanism}", zorder=5)
    several = task.answers > 1 and task.metric is ErrorMetric.LARGEST
    confidence = f"{float(100 * task.confidence):g}%"
    width = f"± of all answers at {confidence}" if several else f"± at {confidence}"
    metric = "RMSE" if task.metric is ErrorMetric.RMSE else width
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=metric, title=title)
    axes.grid(which="major", color="0.9", linewidth=0.8)
