"""What a question costs in an account, and what the price for a wanted error is. No row is read here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import TypeAlias

from discreet.accounting.filters import Currency, Filter, price
from discreet.accuracy import read_error, read_weights, smallest_epsilon
from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import Bounds, Number, rational, read_positive, shown_down, shown_up
from discreet.ledger.budget import amount
from discreet.loss import Composition, compose
from discreet.mechanisms.quantile import confident
from discreet.query import plan
from discreet.query.auto import Found
from discreet.query.bound import Bounded
from discreet.query.measure import Measurement, measure
from discreet.query.pilot import Pilot
from discreet.query.price import Price
from discreet.query.quote import depends_on_size, excess, promised, sized
from discreet.query.release import Release
from discreet.query.work import check_totals

Shares: TypeAlias = Mapping[str, Fraction]
Paid: TypeAlias = Found | Pilot
"""What was paid for on the way to an answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an analyst says about a question's price: ε, or the error that it may have, relative to a size."""

    epsilon: Number | None = None
    error: str | Number | None = None
    size: int | None = None
    confidence: float = 0.95
    weights: Mapping[str, Number] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", confident(self.confidence))
        if self.size is not None:
            sized(self.size)

    def shares(self, bounded: Bounded) -> Shares | None:
        """The weights, checked against the columns of the question."""
        return read_weights(self.weights, tuple(name for name, _ in bounded.query.aggregates))

    def lacks_size(self, bounded: Bounded) -> bool:
        """Whether the error is relative to a size that is not given."""
        if self.error is None or self.size is not None:
            return False
        _, relative = read_error(self.error)
        return relative or any(depends_on_size(aggregate) for _, aggregate in bounded.query.aggregates)

    def excess(self, bounded: Bounded) -> Callable[[Measurement, str], Fraction | float]:
        """The ratio of a column's half-width to the error; refused where no measurement could say so."""
        assert self.error is not None
        allowed, relative = read_error(self.error)
        if not relative and any(isinstance(aggregate, plan.Quantile) for _, aggregate in bounded.query.aggregates):
            raise QuestionRefused(
                "how far off a quantile is depends on the values; beforehand only the error of its rank is known",
                'give a share of the rows, error="2%" with a size, or a price',
            )
        if self.lacks_size(bounded):
            raise QuestionRefused(
                "how many rows an answer rests on is private, so this error needs a size to be relative to",
                "give size=, the smallest group that matters (--size 1000), or ask with pilot=, the ε that a private count "
                "of it may cost (--pilot 0.01)",
            )
        sizes = (1,) if self.size is None else (sized(self.size),)
        return lambda planned, name: excess(promised(planned, name, self.confidence, sizes), allowed, relative=relative)

    def met(self, bounded: Bounded) -> Callable[[Measurement], bool]:
        """Whether a measurement's half-widths are all within the error."""
        ratio, names = self.excess(bounded), [name for name, _ in bounded.query.aggregates]
        return lambda planned: all(ratio(planned, name) <= 1 for name in names)


@dataclass(frozen=True, slots=True)
class Spending:
    """The ε of a query, and whether it is the policy's `least_epsilon` because the wanted error needs less."""

    epsilon: Fraction
    raised: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a quote and an answer say about it."""
        return (raised_note(self.epsilon),) if self.raised else ()


def raised_note(least: Fraction) -> str:
    """Say that a wanted error needs less than the least ε."""
    return f"The wanted error needs an ε below the policy's least_epsilon, so ε was raised to {shown_up(least, 6)}."


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices in one account."""

    kept: Filter
    delta: Fraction

    def plan(self, bounded: Bounded, wanted: Wanted, part: Fraction = Fraction(1)) -> Measurement:
        """The question with the noise that its price buys, or this part of its price."""
        return self.buy(bounded, self.spending(bounded, wanted).epsilon, wanted.shares(bounded), part)

    def buy(
        self,
        bounded: Bounded,
        epsilon: Fraction,
        shares: Shares | None = None,
        part: Fraction = Fraction(1),
        name: str = "epsilon",
    ) -> Measurement:
        """The question with the noise that this part of ε buys. Raise `BadParameter`, which calls ε by this `name`, if that
        is less than the policy's `least_epsilon` buys."""
        self._check_least(bounded.table.least_epsilon, epsilon, part, name)
        return self._measure(bounded, epsilon, shares, part)

    def _measure(
        self, bounded: Bounded, epsilon: Fraction, shares: Shares | None, part: Fraction = Fraction(1)
    ) -> Measurement:
        spend = amount(self.kept.currency, epsilon, self.delta) * part
        leak = self.kept.leak_limit * min(Fraction(1), spend / self.kept.limit)
        return measure(bounded, self.kept.currency, spend, leak, shares)

    def _check_least(self, least: Fraction, epsilon: Fraction, part: Fraction, name: str) -> None:
        """Each debit costs at least what `least_epsilon` buys in the account's currency; for a whole ε that is to compare
        the two ε, because what ε buys grows with it."""
        if epsilon < least:
            raise below_least(name, epsilon, least)
        if amount(self.kept.currency, epsilon, self.delta) * part < least_amount(self.kept.currency, least, self.delta):
            raise BadParameter(
                name,
                shown_down(epsilon, 6),
                f"a part of it finds bounds, and that part is below the policy's least_epsilon = {shown_up(least, 6)}",
                f"give a larger {name}, or declare the bounds",
            )

    def spending(self, bounded: Bounded, wanted: Wanted) -> Spending:
        """The ε that is given, or the smallest, to three digits, at which every column's half-width is at most the error;
        the policy's `least_epsilon` if that is smaller still."""
        if (wanted.epsilon is None) == (wanted.error is None):
            raise BadParameter(
                "epsilon",
                "missing" if wanted.epsilon is None else "given",
                "a question has either a price or an error",
                'give epsilon=0.5, or error="5%" with a size',
            )
        if wanted.epsilon is not None:
            return Spending(read_positive(wanted.epsilon, "epsilon"))
        excess, shares = wanted.excess(bounded), wanted.shares(bounded)
        check_totals((aggregate for _, aggregate in bounded.query.aggregates), len(bounded.measures), searched=True)

        unsettled = [name for name, _ in bounded.query.aggregates]

        def excess_at(epsilon: Fraction) -> Fraction | float:
            try:
                planned = self._measure(bounded, epsilon, shares)
            except (BadParameter, QuestionRefused):  # too small to buy anything, or noise too wide to be drawn
                return inf
            found = {name: excess(planned, name) for name in unsettled}
            largest = max(found.values())
            if largest > 1:  # all that follow are larger than this ε, where a column that is good enough here stays so
                unsettled[:] = [name for name, ratio in found.items() if ratio > 1]
            return largest

        found, least = smallest_epsilon(excess_at), bounded.table.least_epsilon
        return Spending(max(found, least), raised=found < least)

    def price(self, loss: Composition, left: Fraction | None = None) -> Price:
        """What it costs here, and what is left after it or now."""
        spent, _ = price(self.kept.currency, loss)
        return Price(loss, self.delta, self.kept.currency, spent, self.kept.left if left is None else left)

    def together(self, answer: Release, earlier: Sequence[Paid]) -> Release:
        """An answer and what was paid for on the way to it, as one. ε at δ is what the account's currency says of the sum:
        prices that depend on answers have a filter in one currency, and none on the certified curve."""
        assert answer.price is not None
        spent = sum((paid.amount for paid in earlier), rational(answer.price.amount))
        promise = replace(self.kept, limit=spent, spent=Fraction(0)).epsilon(self.delta)
        whole_price = replace(answer.price, reading=Bounds(promise, promise), amount=spent)
        explanation = " ".join([answer.explanation, *map(str, earlier)])
        losses = [paid.loss for paid in earlier]
        return replace(answer, loss=compose(*losses, answer.loss), price=whole_price, explanation=explanation)


def least_amount(currency: Currency, least: Fraction, delta: Fraction) -> Fraction:
    """What the least ε of a debit buys in a currency; 0 where it is too small to buy anything."""
    try:
        return amount(currency, least, delta)
    except BadParameter:
        return Fraction(0)


def below_least(name: str, epsilon: Fraction, least: Fraction) -> BadParameter:
    """An ε that the policy does not allow."""
    return BadParameter(
        name,
        shown_down(epsilon, 6),
        f"it is below the policy's least_epsilon = {shown_up(least, 6)}",
        f"give at least {shown_up(least, 6)}, or ask the data owner to lower least_epsilon",
    )
