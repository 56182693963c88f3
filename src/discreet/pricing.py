"""What a question costs in an account, and what the price for a wanted error is. No row is read here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import TypeAlias

from discreet.accounting.filters import Currency, Filter, compute_cost
from discreet.accuracy import find_smallest_epsilon, read_error, read_weights
from discreet.errors import BadParameter, QueryRefused
from discreet.exact import Bounds, Number, format_down, format_up, read_positive, to_rational
from discreet.ledger.budget import compute_amount
from discreet.loss import Composition, compose
from discreet.mechanisms.quantile import check_confidence
from discreet.query import plan
from discreet.query.auto import DiscoveredBounds
from discreet.query.bound import BoundedQuery
from discreet.query.measure import Measurement, calibrate_query
from discreet.query.pilot import Pilot
from discreet.query.price import Cost
from discreet.query.quote import check_size, depends_on_size, error_ratio, predict_accuracy
from discreet.query.release import Answer
from discreet.query.work import check_statistics

ColumnWeights: TypeAlias = Mapping[str, Fraction]
PaidStep: TypeAlias = DiscoveredBounds | Pilot
"""What was paid for on the way to an answer."""


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
        if not relative and any(isinstance(aggregate, plan.Quantile) for _, aggregate in bounded.query.aggregates):
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
        spend = compute_amount(self.budget.currency, epsilon, self.delta) * fraction
        leak = self.budget.delta_limit * min(Fraction(1), spend / self.budget.limit)
        return calibrate_query(bounded, self.budget.currency, spend, leak, weights)

    def _check_least_epsilon(self, least: Fraction, epsilon: Fraction, fraction: Fraction, name: str) -> None:
        """Each debit costs at least what `least_epsilon` buys in the account's currency; for a whole ε that is to compare
        the two ε, because what ε buys grows with it."""
        if epsilon < least:
            raise make_least_epsilon_error(name, epsilon, least)
        if compute_amount(self.budget.currency, epsilon, self.delta) * fraction < smallest_amount(
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
        spent, _ = compute_cost(self.budget.currency, event)
        return Cost(
            event, self.delta, self.budget.currency, spent, self.budget.remaining if remaining is None else remaining
        )

    def combine_costs(self, answer: Answer, earlier_steps: Sequence[PaidStep]) -> Answer:
        """An answer and what was paid for on the way to it, as one. ε at δ is what the account's currency says of the sum:
        prices that depend on answers have a filter in one currency, and none on the certified curve."""
        assert answer.cost is not None
        spent = sum((paid.amount for paid in earlier_steps), to_rational(answer.cost.amount))
        promise = replace(self.budget, limit=spent, spent=Fraction(0)).epsilon(self.delta)
        whole_price = replace(answer.cost, event_or_bounds=Bounds(promise, promise), amount=spent)
        explanation = " ".join([answer.explanation, *map(str, earlier_steps)])
        losses = [paid.event for paid in earlier_steps]
        return replace(answer, event=compose(*losses, answer.event), cost=whole_price, explanation=explanation)


def smallest_amount(currency: Currency, least: Fraction, delta: Fraction) -> Fraction:
    """What the least ε of a debit buys in a currency; 0 where it is too small to buy anything."""
    try:
        return compute_amount(currency, least, delta)
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
