"""`plan`: how accurate, how private, how many people: two of the three give the third, and the mechanism to take."""

from dataclasses import dataclass
from typing import Any, Literal

from discreet import formats
from discreet._numbers import ceil_float, format_up
from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace, RandomizedResponse
from discreet.planner.search import Crossover
from discreet.planner.task import ErrorMetric, Goal, Task

Unknown = Literal["epsilon", "error", "n"]


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism: what it needs, or what it gives. Half-widths and errors are rounded up, in the answer's own unit."""

    mechanism: str
    noise: Laplace | Gaussian | DiscreteGaussian | RandomizedResponse
    """What to release with: on the totals, which a proportion and a mean then divide by n; or by each person."""
    epsilon: float
    delta: float
    n: int | None
    half_width: float
    """At the confidence: of the largest error of all answers, or of each answer alone if that was asked for."""
    each: float
    """Of one answer alone."""
    rmse: float
    textbook: float | None
    """The half-width that the textbooks' bounds give at the same price; none where their hypothesis fails."""

    @property
    def scale(self) -> float:
        """The noise's scale or σ, on the totals; the probability of the truth for randomised response."""
        match self.noise:
            case Laplace(scale=scale) | Gaussian(sigma=scale) | DiscreteGaussian(sigma=scale):
                return ceil_float(scale)
            case RandomizedResponse(truth=truth):
                return float(truth)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        names = ("mechanism", "scale", "epsilon", "delta", "n", "half_width", "each", "rmse", "textbook")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found, best mechanism first."""

    task: Task
    goal: Goal | None
    unknown: Unknown
    rows: tuple[Row, ...]
    infeasible: tuple[tuple[str, str], ...]
    """Mechanisms that cannot do it, and why."""
    crossovers: tuple[Crossover, ...]
    warnings: tuple[str, ...]

    @property
    def winner(self) -> Row:
        """The mechanism to take: the least ε, the least error or the fewest people."""
        return self.rows[0]

    @property
    def epsilon(self) -> float:
        """The winner's."""
        return self.winner.epsilon

    @property
    def n(self) -> int | None:
        """The winner's."""
        return self.winner.n

    @property
    def half_width(self) -> float:
        """The winner's, at the confidence."""
        return self.winner.half_width

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "question": str(self.task.query),
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
        """A figure: the error against ε, and against n or the number of questions. Needs the extra `plot`."""
        from discreet.planner.charts import ChartData, draw_chart

        best, question = self.winner, self.task.query
        reached = best.rmse if self.task.metric is ErrorMetric.RMSE else best.half_width
        by_n = self.task.divides_by_n or (self.goal is not None and self.goal.depends_on_n(question))
        return draw_chart(ChartData(self.task, best.mechanism, best.epsilon, best.n, reached, self.crossovers, by_n))

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
        sure = f"at {float(100 * self.task.confidence):g}%"
        if self.goal is None:
            return f"{many}{self.task.query}: how accurate {sure}{self._format_given()}?"
        one = self.task.answers == 1 and self.task.metric is not ErrorMetric.RMSE
        asked = f"{'error' if one else self.task.metric.value} within {self.goal.format(self.task.query)}"
        asked += "" if self.task.metric is ErrorMetric.RMSE else f" {sure}"
        wanted = "which ε" if self.unknown == "epsilon" else "how many people"
        return f"{many}{self.task.query}, {asked}: {wanted}{self._format_given()}?"

    def _format_given(self) -> str:
        """What is the same for all rows."""
        best, delta = self.winner, float(self.task.delta)
        known = [] if self.unknown == "epsilon" else [f"ε = {_format_four_digits(best.epsilon)}"]
        known += [f"δ = {delta:g}"] if delta else []
        known += [] if self.unknown == "n" or best.n is None else [f"n = {best.n:,}"]
        return f" with {', '.join(known)}" if known else ""

    def _table(self) -> tuple[list[str], list[list[str]]]:
        several = self.task.answers > 1 and self.task.metric is not ErrorMetric.EACH
        found = {"epsilon": ["ε"], "n": ["n"], "error": []}[self.unknown]
        header = ["mechanism", "scale", *found, *(["± all", "± each"] if several else ["±"]), "RMSE", "textbook"]
        return header, [_format_row(row, self.unknown, several) for row in self.rows]

    def _footer_lines(self) -> list[str]:
        best = self.winner
        found = {
            "epsilon": f"ε = {_format_four_digits(best.epsilon)}",
            "error": f"± {_format_four_digits(best.half_width)}",
            "n": f"n = {best.n or 0:,}",
        }
        lines = [f"Take {best.mechanism}: {found[self.unknown]}."]
        lines += [f"Without {name}: {reason}." for name, reason in self.infeasible]
        return [*lines, *map(str, self.crossovers), *(f"Warning: {text}" for text in self.warnings), _NOISE_NOTE]


_NOISE_NOTE = (
    "Beside what is exact stands the half-width of the textbooks. Errors are those of the privacy noise; if the people are "
    "themselves a sample, that adds its own."
)


def _format_row(row: Row, unknown: Unknown, several: bool) -> list[str]:
    numbers = [row.half_width, *([row.each] * several), row.rmse]
    scale = f"p = {row.scale:.4f}" if isinstance(row.noise, RandomizedResponse) else f"{row.scale:.5g}"
    found = {"epsilon": [_format_four_digits(row.epsilon)], "n": [_format_people(row.n or 0)], "error": []}[unknown]
    return [
        row.mechanism,
        scale,
        *found,
        *map(_format_four_digits, numbers),
        "–" if row.textbook is None else _format_four_digits(row.textbook),
    ]


def _format_people(n: int) -> str:
    """In a table: the very large ones in four digits, rounded up."""
    return f"{n:,}" if n < 10**7 else _format_four_digits(n)


def _format_four_digits(value: float) -> str:
    """Four digits, rounded up.

    >>> _format_four_digits(0.12341), _format_four_digits(1234.01), _format_four_digits(2166012), _format_four_digits(0.0)
    ('0.1235', '1,235', '2.167e6', '0')
    """
    rounded = float(format_up(value))
    text = f"{rounded:,.0f}" if 1000 <= rounded < 10**6 else f"{rounded:.4g}"
    return text.replace("e+0", "e").replace("e+", "e")


def _align_columns(line: list[str], widths: list[int]) -> str:
    first, *others = (
        text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()
