"""The columns of a workload one by one: what each is by itself, and with how much noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.accounting.filters import Currency
from discreet.accounting.search import least
from discreet.accuracy import MOST_EPSILON
from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import Number, read_positive
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.mechanisms.quantile import confident
from discreet.pricing import Wanted
from discreet.publisher.refusals import under
from discreet.publisher.workload import Asked
from discreet.query.bound import Bounded
from discreet.query.measure import JUDGED_AT, Measurement, Noise, drawable, measure
from discreet.query.measures import Measure, measures_of
from discreet.session import Session
from discreet.units import Sensitivity

CLOSE = 2.0**-14
"""How near, relatively, the noise comes to the largest that a budget or an error allows."""

SMALL = Fraction(1, 100)
"""How much of a currency the noises are compared at: as little as a column of a publication gets."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One column of one question by itself."""

    question: int
    asked: Asked
    column: str
    alone: Bounded  # the question with this column only
    wanted: Wanted | None
    share: Fraction  # of what is left, if no error is wanted

    def bare(self, kind: Currency, leak: Fraction) -> "Part":
        """The noise that a little of this currency buys, to be made louder or quieter."""
        with under(self.asked.key()):
            return Part(measure(self.alone, kind, SMALL, leak), 1.0, leak)


@dataclass(frozen=True, slots=True)
class Part:
    """A column's noise: that of `base`, divided by `factor`."""

    base: Measurement
    factor: float
    leak: Fraction  # the δ of selecting unknown keys

    def times(self, factor: float) -> "Part":
        """With the noise divided once more."""
        return replace(self, factor=self.factor * factor)

    @property
    def measurement(self) -> Measurement:
        """The column with this noise."""
        by, base = Fraction(self.factor), self.base
        noises = tuple((measure, _divided(noise, by)) for measure, noise in base.noises)
        return Measurement(base.bounded, noises, None if base.selection is None else self._selection(base.selection, by))

    @property
    def drawable(self) -> bool:
        """Whether the samplers are made for it."""
        return self.refusal is None

    @property
    def refusal(self) -> QuestionRefused | None:
        """Why they are not."""
        found = self.measurement
        widths = [noise.sigma if isinstance(noise, Gaussian) else noise.scale for _, noise in found.noises]
        try:
            for width in (*widths, *([] if found.selection is None else [found.selection.scale])):
                drawable(width)
        except QuestionRefused as refused:
            return refused
        return None

    def _selection(self, rule: Threshold, by: Fraction) -> Threshold:
        bounded = self.base.bounded
        moved = Sensitivity(l0=bounded.groups * bounded.neighbours.changes, linf=1)
        return Threshold.for_epsilon(bounded.groups * bounded.neighbours.changes * by / rule.scale, self.leak, moved)


def _divided(noise: Noise, by: Fraction) -> Noise:
    return Gaussian(noise.sigma / by) if isinstance(noise, Gaussian) else Laplace(noise.scale / by)


def bounded_of(asked: Asked, session: Session) -> Bounded:
    """The question with what one unit can do to it, if what is wanted of it makes sense."""
    with under(asked.key("sql")):
        found = session.outline(asked.sql)
    columns = [name for name, _ in found.query.aggregates]
    for name in asked.error if isinstance(asked.error, Mapping) else ():
        if name not in columns:
            raise BadParameter(
                asked.key(f"error.{name}"), "given", "the question has no such column", f"take {', '.join(columns)}"
            )
    if len(asked.sizes) > 1 and found.keys is not None and len(asked.sizes) != len(found.keys):
        raise BadParameter(
            asked.key("size"),
            f"{len(asked.sizes)} sizes",
            f"there are {len(found.keys)} groups",
            "give one for each, or one",
        )
    return found


def pieces_of(i: int, asked: Asked, bounded: Bounded, confidence: Number) -> Iterator[Piece]:
    """The columns of one question."""
    size, columns = min(asked.sizes, default=None), bounded.query.aggregates
    for name, aggregate in columns:
        only = replace(bounded.query, aggregates=((name, aggregate),))
        alone = replace(bounded, query=only, measures=measures_of(aggregate, bounded.table))
        error = asked.wanted(name)
        wanted = None if error is None else Wanted(None, error, size, confident(confidence))
        yield Piece(i, asked, name, alone, wanted, read_positive(asked.weight, "weight") / len(columns))


def cheapest(piece: Piece, kind: Currency, leak: Fraction) -> Part | None:
    """The most noise of this kind that meets the wanted error; None where none is wanted."""
    if piece.wanted is None:
        return None
    with under(piece.asked.key("error")):
        met = piece.wanted.met(piece.alone)
    bare = piece.bare(kind, leak)

    found = bare.times(least(lambda factor: met(bare.times(factor).measurement), nearness=CLOSE))
    if not (found.factor < MOST_EPSILON / SMALL and found.drawable):
        raise QuestionRefused(
            f"{piece.asked.key('error')}: no ε up to {MOST_EPSILON} makes the error of {piece.column} this small",
            "allow a larger error, or declare tighter bounds",
        )
    return found


def merged(bounded: Bounded, alone: Sequence[Measurement]) -> Measurement:
    """The columns of a question together. A total that several of them need gets the least of their noises."""
    found: dict[Measure, Noise] = {}
    for total, noise in (pair for each in alone for pair in each.noises):
        if total not in found or noise.error(JUDGED_AT) < found[total].error(JUDGED_AT):
            found[total] = noise
    selections = [each.selection for each in alone if each.selection is not None]
    noises = tuple((total, found[total]) for total in bounded.measures)
    return Measurement(bounded, noises, min(selections, key=lambda rule: rule.scale, default=None))
