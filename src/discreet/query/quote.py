"""What a question would cost and how good its answer would be, said before anything is paid or any row is read.

The error of counts and sums is known outright. That of an average depends on how many rows it is taken over, which is
private; so it is stated for a size that is given, or for a few.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any, assert_never

from discreet import formats
from discreet.errors import BadParameter
from discreet.exact import ceil_float, nearest_float, shown, shown_down, sqrt_up, whole
from discreet.loss import Composition
from discreet.mechanisms import Laplace
from discreet.mechanisms.quantile import confident, exact_confidence
from discreet.query import plan
from discreet.query.bound import Bounded
from discreet.query.cells import Average
from discreet.query.currency import Reading, prices
from discreet.query.measure import Measurement
from discreet.query.measures import Counts, Measure, Total, in_words, measures_of
from discreet.query.price import Price
from discreet.query.quantiles import Reader
from discreet.query.release import explain

SIZES = (100, 1_000, 10_000)
MOST_ROWS = 10**15


@dataclass(frozen=True, slots=True)
class Promise:
    """One column of the answer: its noise, and its half-width outright (`size` None) or over so many rows."""

    column: str
    noises: tuple[tuple[str, str], ...]  # the totals it is made of, and the noise of each
    half_widths: tuple[tuple[int | None, float], ...]
    relative_to: tuple[tuple[int | None, float], ...]  # what an error in percent is a percentage of
    unit: str = ""  # of the half-widths, if not the column's own

    def to_dict(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "column": self.column,
            "noise": [{"total": total, "mechanism": noise} for total, noise in self.noises],
            "half_width": [{"size": size, "value": half} for size, half in self.half_widths],
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Quote:
    """What `Session.quote` returns."""

    question: str
    price: Price
    loss: Composition
    confidence: float
    promises: tuple[Promise, ...]
    selection: str | None  # how unknown keys are found
    explanation: str
    notes: tuple[str, ...]

    @property
    def prices(self) -> tuple[Reading, ...]:
        """The price in every currency. Found when it is first asked for: some readings are searched."""
        return prices(self.loss, self.price.delta)

    def to_dict(self) -> dict[str, Any]:
        """Price, noise and half-width per column, in plain values."""
        return {
            "question": self.question,
            "price": self.price.to_dict(),
            "prices": {reading.name: reading.to_dict() for reading in self.prices},
            "confidence": float(self.confidence),
            "columns": [promise.to_dict() for promise in self.promises],
            "selection": self.selection,
            "explanation": self.explanation,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return formats.json_text(self.to_dict())

    def __rich__(self) -> Any:
        header, lines = self._table()
        return formats.rich_with_notes(formats.rich_table(None, header, lines, left=2), self._below())

    def _repr_html_(self) -> str:
        return formats.html_table(*self._table(), self._below())

    def _table(self) -> tuple[list[str], list[formats.Line]]:
        sized = any(size is not None for promise in self.promises for size, _ in promise.half_widths)
        header = ["column", "noise", *(["size"] if sized else []), f"± at {shown_down(float(self.confidence))}"]
        return header, [line for promise in self.promises for line in _lines(promise, sized)]

    def _below(self) -> list[str]:
        everywhere = f"The same in every currency: {', '.join(map(str, self.prices))}."
        selection = [self.selection] if self.selection else []
        return [f"Price: {self.price}.", everywhere, self.explanation, *selection, *self.notes]


def quote(
    measurement: Measurement,
    price: Price,
    *,
    question: str,
    confidence: float = 0.95,
    size: int | None = None,
    notes: tuple[str, ...] = (),
) -> Quote:
    """Everything that can be said of a measurement before it is paid for."""
    confidence = confident(confidence)
    sizes = SIZES if size is None else (sized(size),)
    promises = tuple(promised(measurement, name, confidence, sizes) for name, _ in measurement.bounded.query.aggregates)
    selection, explanation = _selection(measurement, confidence), explain(measurement.bounded)
    return Quote(question, price, measurement.loss, confidence, promises, selection, explanation, notes)


def sized(size: int) -> int:
    """A number of rows that an answer may rest on."""
    if whole(size, "size", 1) > MOST_ROWS:
        raise BadParameter("size", shown(Fraction(size)), "no group has so many rows", f"give at most {MOST_ROWS:,}")
    return int(size)


def promised(measurement: Measurement, name: str, confidence: float, sizes: tuple[int, ...]) -> Promise:
    """The noise and the half-widths of one column."""
    bounded = measurement.bounded
    aggregate = dict(bounded.query.aggregates)[name]
    measures = measures_of(aggregate, bounded.table)
    off = [int(measurement.noise(measure).error(confidence, len(measures))) for measure in measures]
    noises = tuple((in_words(measure), _noise(measurement, measure)) for measure in measures)
    plain = tuple((None, size) for size in sizes)
    match aggregate:
        case plan.CountRows() | plan.CountUnits() | plan.CountValues():
            return Promise(name, noises, ((None, float(off[0])),), tuple((size, float(size)) for _, size in plain))
        case plan.Sum(value=value):
            span = bounded.span(Total(value, 0))
            half, most = ceil_float(off[0] * span.grid), max(span.most, 1) * span.grid
            return Promise(name, noises, ((None, half),), tuple((size, ceil_float(size * most)) for size in sizes))
        case plan.Mean(value=value):
            average = Average.of(value, bounded)
            halves = tuple((size, ceil_float(average.mean_error(size, off[0], off[1]))) for size in sizes)
            return Promise(name, noises, halves, ((None, ceil_float(_range(value, bounded))),))
        case plan.Variance(value=value, root=root):
            average = Average.of(value, bounded)
            errors = [(size, average.variance_error(size, off[0], off[1], off[2])) for size in sizes]
            halves = tuple((size, ceil_float(sqrt_up(error) if root else error)) for size, error in errors)
            most = _range(value, bounded) / 2
            return Promise(name, noises, halves, ((None, ceil_float(most if root else most**2)),))
        case plan.Histogram():
            return Promise(name, noises, ((None, float(off[0])),), tuple((size, float(size)) for _, size in plain))
        case plan.Quantile(q=q):
            rank = Reader(_tree(measures[0]), q).rank_error(measurement.noise(measures[0]), float(confidence))
            shares = tuple((size, min(1.0, rank / size)) for size in sizes)
            return Promise(name, noises, shares, ((None, 1.0),), unit="of the rows")
        case _:
            assert_never(aggregate)


def _tree(measure: Measure) -> Counts:
    assert isinstance(measure, Counts)
    return measure


def depends_on_size(aggregate: plan.Aggregate) -> bool:
    """Whether the error of a column depends on how many rows it is taken over."""
    return isinstance(aggregate, plan.Mean | plan.Variance | plan.Quantile)


def count_error(measurement: Measurement, aggregate: plan.Aggregate, confidence: float) -> float | None:
    """How far the noisy count of rows behind an average, a variance or a quantile may be off; None for other aggregates."""
    measures = measures_of(aggregate, measurement.bounded.table)
    noise = measurement.noise(measures[-1])
    match aggregate:
        case plan.Mean() | plan.Variance():
            return noise.error(confidence, len(measures))
        case plan.Quantile(q=q):
            return Reader(_tree(measures[-1]), q).size_error(noise, float((1 - exact_confidence(confidence)) / 2))
        case _:
            return None


def excess(promise: Promise, error: Fraction, *, relative: bool) -> Fraction | float:
    """How many times the allowed error the half-width is: as it is, or as a share of what the column is relative to."""
    half = max(value for _, value in promise.half_widths)
    allowed = error * (Fraction(min(value for _, value in promise.relative_to)) if relative else 1)
    return Fraction(half) / allowed if isfinite(half) else inf


def _noise(measurement: Measurement, measure: Measure) -> str:
    """The mechanism, in the column's own units: the noise itself counts grid steps."""
    noise = measurement.noise(measure)
    grid = measurement.bounded.span(measure).grid ** measure.power if isinstance(measure, Total) else Fraction(1)
    if isinstance(noise, Laplace):
        return f"Laplace(scale={nearest_float(noise.scale * grid):.6g})"
    return f"Gaussian(sigma={nearest_float(noise.sigma * grid):.6g})"


def noise_in_words(measurement: Measurement) -> tuple[str, ...]:
    """What was added to each exact total, one line each."""
    names: dict[Measure, str] = {measure: f"total{i}" for i, measure in enumerate(measurement.bounded.scalars)}
    lines = [f"{names.get(m, 'counts')}: {in_words(m)} + {_noise(measurement, m)}" for m, _ in measurement.noises]
    rule = measurement.selection
    chosen = [] if rule is None else [f"keys: shown if units + Laplace noise reaches {rule.threshold}"]
    return (*lines, *chosen)


def _range(value: plan.Value, bounded: Bounded) -> Fraction:
    span = bounded.span(Total(value, 0))
    return max(span.upper - span.lower, 1) * span.grid


def _selection(measurement: Measurement, confidence: float) -> str | None:
    rule = measurement.selection
    if rule is None:
        return None
    enough = rule.error(confidence) if confidence >= 0.5 else float(rule.threshold)
    return (
        f"Keys are not known: one is shown if its noisy number of units reaches {rule.threshold}; "
        f"a key with {enough:.0f} units is shown with probability at least {shown_down(max(float(confidence), 0.5))}."
    )


def _lines(promise: Promise, sized: bool) -> list[formats.Line]:
    noise = tuple(f"{total}: {mechanism}" for total, mechanism in promise.noises)
    lines: list[formats.Line] = []
    for i, (size, half) in enumerate(promise.half_widths):
        first: list[str | tuple[str, ...]] = [promise.column, noise] if i == 0 else ["", ""]
        lines.append(
            [*first, *(["" if size is None else f"{size:,} rows"] if sized else []), f"{half:,.6g} {promise.unit}".rstrip()]
        )
    return lines
