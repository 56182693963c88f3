"""What a question costs in an account, and what the price for a wanted error is. No row is read here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isfinite, log
from typing import TypeAlias

from discreet._numbers import (
    Number,
    check_positive,
    format_down,
    format_up,
    parse_rational,
    read_positive,
)
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Currency, Filter
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition
from discreet.mechanisms._tail_bounds import check_confidence
from discreet.query import ast
from discreet.query.calibrate import Measurement, calibrate_query
from discreet.query.contribution import BoundedQuery
from discreet.query.quote import check_size, depends_on_size, error_ratio, predict_accuracy
from discreet.query.validate import check_statistics

# From an error that is allowed to the price that buys it, and from what is typed about either to exact numbers.


MAX_EPSILON = 1 << 10
"""A search for accuracy gives up above this ε: it promises next to nothing."""


def read_error(error: str | Number) -> tuple[Fraction, bool]:
    """An allowed error, and whether it is relative.

    >>> read_error("5%"), read_error(20), read_error("±0.5")
    ((Fraction(1, 20), True), (Fraction(20, 1), False), (Fraction(1, 2), False))
    """
    if not isinstance(error, str):
        return read_positive(error, "error"), False
    text = error.strip().removeprefix("±").strip()
    try:
        found = parse_rational(text.removesuffix("%").strip())
    except BadParameter:
        raise BadParameter("error", repr(error), "not an error", 'write "5%" or a number') from None
    return check_positive(found / 100 if text.endswith("%") else found, "error"), text.endswith("%")


def read_weights(weights: Mapping[str, Number] | None, columns: tuple[str, ...]) -> dict[str, Fraction] | None:
    """How the price is shared out over the columns; one that is not named weighs 1.

    >>> read_weights({"n": 2}, ("n", "mean"))
    {'n': Fraction(2, 1), 'mean': Fraction(1, 1)}
    """
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise BadParameter("weights", type(weights).__name__, "not weights by column", 'give {"n": 2}')
    for name in weights:
        if name not in columns:
            raise BadParameter("weights", repr(name), "no such column in this question", f"name {', '.join(columns)}")
    return {name: read_positive(weights.get(name, 1), "weight") for name in columns}


def find_smallest_epsilon(error_ratio: Callable[[Fraction], Fraction | float]) -> Fraction:
    """The least ε of three digits whose `excess`, the ratio of the error to the allowed one, is at most 1.

    The excess never grows with ε, so its side of 1 alone decides. Its size only says where to look next: it is about a power
    of ε, the first guess being 1/ε. Outside a bracket, steps grow fourfold; inside one, a guess that does not halve it is
    followed by its middle.

    >>> looks = []
    >>> find_smallest_epsilon(lambda epsilon: looks.append(epsilon) or Fraction(1, 300) / epsilon), len(looks)
    (Fraction(167, 50000), 4)
    """
    low, high = FIRST_PLACE - 1, LAST_PLACE + 1
    at, stride, slope, width = _place_of(0.0), 1, -1.0, high - low
    seen: tuple[float, float] | None = None
    while high - low > 1:
        ratio = error_ratio(_decimal_at(at))
        here = log(_decimal_at(at)), log(ratio) if 0 < ratio < inf else inf
        low, high = (low, at) if ratio <= 1 else (at, high)
        if seen is not None and isfinite(here[1]) and isfinite(seen[1]) and here[1] != seen[1]:
            slope = (here[1] - seen[1]) / (here[0] - seen[0])
        seen = here
        aim = _place_of(here[0] - here[1] / slope) if isfinite(here[1]) and slope < 0 else at
        if low < FIRST_PLACE or high > LAST_PLACE:
            aim, stride = (min(aim, at - stride) if ratio <= 1 else max(aim, at + stride)), 4 * stride
        elif 2 * (high - low) > width:
            aim = (low + high) // 2
        width = high - low
        at = min(max(aim, low + 1), high - 1)
    if high > LAST_PLACE:
        raise QueryRefused(f"no ε up to {MAX_EPSILON} is accurate enough", "allow a larger error, or declare tighter bounds")
    return _decimal_at(high)


FIRST_PLACE, LAST_PLACE = (
    -9 * 900,
    3 * 900 + 2,
)  # 1.00e-9, the least ε that a search proposes, and 1.02e3, the last below MAX_EPSILON
"""Decimals of three digits in order: 900 to a power of ten, 1.00 at 0."""


def _decimal_at(place: int) -> Fraction:
    power, digits = divmod(place, 900)
    return (100 + digits) * Fraction(10) ** (power - 2)


def _place_of(logarithm: float) -> int:
    """Where the first decimal of three digits that is not below e^logarithm stands, within the range of a search."""
    power, rest = divmod(min(max(logarithm / log(10), -9), 4), 1)
    return min(max(900 * int(power) + ceil(100 * 10**rest - 1e-9) - 100, FIRST_PLACE), LAST_PLACE)


ColumnWeights: TypeAlias = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class AccuracyTarget:
    """What an analyst says about a question's price: ε, or the error that it may have, relative to a size."""

    epsilon: Number | None = None
    error: str | Number | None = None
    size: int | None = None
    confidence: float = 0.95
    weights: Mapping[str, Number] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        if self.size is not None:
            check_size(self.size)

    def column_weights(self, bounded: BoundedQuery) -> ColumnWeights | None:
        """The weights, checked against the columns of the question."""
        return read_weights(self.weights, tuple(name for name, _ in bounded.query.aggregates))

    def lacks_size(self, bounded: BoundedQuery) -> bool:
        """Whether the error is relative to a size that is not given."""
        if self.error is None or self.size is not None:
            return False
        _, relative = read_error(self.error)
        return relative or any(depends_on_size(aggregate) for _, aggregate in bounded.query.aggregates)

    def make_error_ratio(self, bounded: BoundedQuery) -> Callable[[Measurement, str], Fraction | float]:
        """The ratio of a column's half-width to the error; refused where no measurement could say so."""
        assert self.error is not None
        allowed, relative = read_error(self.error)
        if not relative and any(isinstance(aggregate, ast.Quantile) for _, aggregate in bounded.query.aggregates):
            raise QueryRefused(
                "how far off a quantile is depends on the values; beforehand only the error of its rank is known",
                'give a share of the rows, error="2%" with a size, or a price',
            )
        if self.lacks_size(bounded):
            raise QueryRefused(
                "how many rows an answer rests on is private, so this error needs a size to be relative to",
                "give size=, the smallest group that matters (--size 1000), or ask with pilot=, the ε that a private count "
                "of it may cost (--pilot 0.01)",
            )
        sizes = (1,) if self.size is None else (check_size(self.size),)
        return lambda planned, name: error_ratio(
            predict_accuracy(planned, name, self.confidence, sizes), allowed, relative=relative
        )

    def make_accuracy_check(self, bounded: BoundedQuery) -> Callable[[Measurement], bool]:
        """Whether a measurement's half-widths are all within the error."""
        ratio, names = self.make_error_ratio(bounded), [name for name, _ in bounded.query.aggregates]
        return lambda planned: all(ratio(planned, name) <= 1 for name in names)


@dataclass(frozen=True, slots=True)
class EpsilonChoice:
    """The ε of a query, and whether it is the policy's `least_epsilon` because the wanted error needs less."""

    epsilon: Fraction
    was_raised: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a quote and an answer say about it."""
        return (explain_raised_epsilon(self.epsilon),) if self.was_raised else ()


def explain_raised_epsilon(least: Fraction) -> str:
    """Say that a wanted error needs less than the least ε."""
    return f"The wanted error needs an ε below the policy's least_epsilon, so ε was raised to {format_up(least, 6)}."


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Prices in one account."""

    budget: Filter
    delta: Fraction

    def calibrate_to_target(
        self, bounded: BoundedQuery, target: AccuracyTarget, fraction: Fraction = Fraction(1)
    ) -> Measurement:
        """The question with the noise that its price buys, or this part of its price."""
        return self.calibrate(
            bounded, self.choose_epsilon(bounded, target).epsilon, target.column_weights(bounded), fraction
        )

    def calibrate(
        self,
        bounded: BoundedQuery,
        epsilon: Fraction,
        weights: ColumnWeights | None = None,
        fraction: Fraction = Fraction(1),
        name: str = "epsilon",
    ) -> Measurement:
        """The question with the noise that this part of ε buys. Raise `BadParameter`, which calls ε by this `name`, if that
        is less than the policy's `least_epsilon` buys."""
        self._check_least_epsilon(bounded.table.least_epsilon, epsilon, fraction, name)
        return self._calibrate(bounded, epsilon, weights, fraction)

    def _calibrate(
        self, bounded: BoundedQuery, epsilon: Fraction, weights: ColumnWeights | None, fraction: Fraction = Fraction(1)
    ) -> Measurement:
        spend = self.budget.currency.amount(epsilon, self.delta) * fraction
        leak = self.budget.delta_limit * min(Fraction(1), spend / self.budget.limit)
        return calibrate_query(bounded, self.budget.currency, spend, leak, weights)

    def _check_least_epsilon(self, least: Fraction, epsilon: Fraction, fraction: Fraction, name: str) -> None:
        """Each debit costs at least what `least_epsilon` buys in the account's currency; for a whole ε that is to compare
        the two ε, because what ε buys grows with it."""
        if epsilon < least:
            raise make_least_epsilon_error(name, epsilon, least)
        if self.budget.currency.amount(epsilon, self.delta) * fraction < smallest_amount(
            self.budget.currency, least, self.delta
        ):
            raise BadParameter(
                name,
                format_down(epsilon, 6),
                f"a part of it finds bounds, and that part is below the policy's least_epsilon = {format_up(least, 6)}",
                f"give a larger {name}, or declare the bounds",
            )

    def choose_epsilon(self, bounded: BoundedQuery, target: AccuracyTarget) -> EpsilonChoice:
        """The ε that is given, or the smallest, to three digits, at which every column's half-width is at most the error;
        the policy's `least_epsilon` if that is smaller still."""
        if (target.epsilon is None) == (target.error is None):
            raise BadParameter(
                "epsilon",
                "missing" if target.epsilon is None else "given",
                "a question has either a price or an error",
                'give epsilon=0.5, or error="5%" with a size',
            )
        if target.epsilon is not None:
            return EpsilonChoice(read_positive(target.epsilon, "epsilon"))
        excess, shares = target.make_error_ratio(bounded), target.column_weights(bounded)
        check_statistics((aggregate for _, aggregate in bounded.query.aggregates), len(bounded.statistics), for_error=True)

        unsettled = [name for name, _ in bounded.query.aggregates]

        def excess_at(epsilon: Fraction) -> Fraction | float:
            try:
                planned = self._calibrate(bounded, epsilon, shares)
            except (BadParameter, QueryRefused):  # too small to buy anything, or noise too wide to be drawn
                return inf
            found = {name: excess(planned, name) for name in unsettled}
            largest = max(found.values())
            if largest > 1:  # all that follow are larger than this ε, where a column that is good enough here stays so
                unsettled[:] = [name for name, ratio in found.items() if ratio > 1]
            return largest

        found, least = find_smallest_epsilon(excess_at), bounded.table.least_epsilon
        return EpsilonChoice(max(found, least), was_raised=found < least)

    def cost_of(self, event: Composition, remaining: Fraction | None = None) -> Cost:
        """What it costs here, and what is left after it or now."""
        spent, _ = self.budget.currency.cost(event)
        budget = self.budget
        return Cost(
            event, self.delta, budget.currency, spent, budget.remaining if remaining is None else remaining, budget.limit
        )


def smallest_amount(currency: Currency, least: Fraction, delta: Fraction) -> Fraction:
    """What the least ε of a debit buys in a currency; 0 where it is too small to buy anything."""
    try:
        return currency.amount(least, delta)
    except BadParameter:
        return Fraction(0)


def make_least_epsilon_error(name: str, epsilon: Fraction, least: Fraction) -> BadParameter:
    """An ε that the policy does not allow."""
    return BadParameter(
        name,
        format_down(epsilon, 6),
        f"it is below the policy's least_epsilon = {format_up(least, 6)}",
        f"give at least {format_up(least, 6)}, or ask the data owner to lower least_epsilon",
    )
