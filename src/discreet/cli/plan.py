"""`discreet plan`."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from discreet._numbers import parse_rational
from discreet.cli.output import parse_number, print_json, print_styled
from discreet.errors import BadParameter
from discreet.planner import Count, Histogram, Mean, Plan, PlannerQuery, Proportion, Sum, plan
from discreet.units import Neighbours

KINDS = ("count", "proportion", "sum", "mean", "histogram")
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What was typed."""

    question: str
    bounds: str | None
    whole: bool
    cells: int | None
    queries: int
    neighbours: str | None
    error: str | None
    rmse: str | None
    size: str | None
    each: bool
    confidence: str
    epsilon: str | None
    delta: str
    n: int | None

    def parse_query(self) -> PlannerQuery:
        """The question, if what describes it fits it."""
        if self.question not in KINDS:
            raise BadParameter(
                "question", repr(self.question), "no question that can be planned", f"take {', '.join(KINDS)}"
            )
        bounded, celled = self.question in ("sum", "mean"), self.question == "histogram"
        for name, given, fits in (("--bounds", self.bounds, bounded), ("--cells", self.cells, celled)):
            if (given is not None) != fits:
                hint = "--bounds 0:100, --cells 50" if fits else "leave it out"
                reason = f"a {self.question} {'needs it' if fits else 'has none'}"
                raise BadParameter(name, "missing" if given is None else given, reason, hint)
        if self.whole and not bounded:
            raise BadParameter("--whole", "given", f"a {self.question} is whole anyway", "leave it out")
        if self.bounds is not None:
            low, high = _parse_bounds(self.bounds)
            kind = Sum if self.question == "sum" else Mean
            return kind(low, high, whole=self.whole)
        if self.cells is not None:
            return Histogram(self.cells)
        return Count() if self.question == "count" else Proportion()

    def plan(self) -> Plan:
        """What the planner says."""
        return plan(
            self.parse_query(),
            error=self.error,
            rmse=self.rmse,
            epsilon=None if self.epsilon is None else parse_number(self.epsilon, "epsilon"),
            delta=parse_number(self.delta, "delta"),
            n=self.n,
            queries=self.queries,
            confidence=parse_number(self.confidence, "confidence"),
            size=None if self.size is None else parse_number(self.size, "size"),
            each=self.each,
            neighbours=None if self.neighbours is None else Neighbours.parse(self.neighbours),
        )


def run(request: PlanRequest, *, plot: str | None, as_json: bool) -> None:
    """Print the plan, and draw it."""
    if plot is not None and Path(plot).suffix.lower() not in PICTURES:
        raise BadParameter("--plot", plot, "no picture that can be drawn", f"end its name with {', '.join(PICTURES)}")
    found = request.plan()
    if plot is not None:
        _save(found, plot)
    if as_json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
    if plot is not None:
        print_styled(f"picture written to {plot}")


def _save(found: Plan, path: str) -> None:
    try:
        found.plot().savefig(path)
    except OSError as failed:
        raise BadParameter(
            "--plot", path, failed.strerror or "cannot be written", "name a file in a folder that exists"
        ) from None


def _parse_bounds(text: str) -> tuple[Fraction, Fraction]:
    low, colon, high = text.partition(":")
    if not colon:
        raise BadParameter("--bounds", text, "no interval", "write 0:100")
    return parse_rational(low, "lower"), parse_rational(high, "upper")
