"""The cheapest prices of a whole workload, found together. No row is read.

Every column with a wanted error gets the most noise that still meets it; columns without one share, by weight, what the
budget has left. All of it is fixed before the first answer, so it is one plan: in an account of its own, or a pure one of a
ledger, with a δ, its price is a point of the certified curve of the whole; in any other account, its sum in the currency.

On the curve neither noise is always the cheaper one, so three plans are priced (all Laplace, all Gaussian, each column the
one that has less zCDP) and the best is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, log

from discreet.accounting.calibration import least_scale
from discreet.accounting.conversions import epsilon_from_zcdp
from discreet.accounting.filters import Currency, Gdp, Pure, Zcdp, price
from discreet.accounting.search import least
from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import positive, rational
from discreet.ledger.account import price_at
from discreet.ledger.budget import RESERVED, amount
from discreet.loss import Composition, compose
from discreet.publisher.parts import CLOSE, Part, Piece, bounded_of, cheapest, merged, pieces_of
from discreet.publisher.workload import Workload
from discreet.query.bound import Bounded
from discreet.query.measure import JUDGED_AT, Measurement
from discreet.query.price import Price
from discreet.session import Session

WIDEST = 2.0**50
"""Noise beyond this is none that anybody could use: nothing was left to pay for less."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How an account charges a plan, and the most that this one may cost."""

    currency: Currency
    delta: Fraction  # at which ε is read
    at: Fraction  # the δ of the certified point; 0 where the currency's own sum is charged
    most: Fraction
    leak: Fraction  # the δ that selecting unknown keys may take

    @classmethod
    def of(cls, workload: Workload, session: Session) -> "Terms":
        """The terms of the session's account. Nothing of it depends on what was spent: a retry finds the same plan."""
        kept, epsilon, delta = session.account.budget, positive(workload.epsilon, "epsilon"), rational(workload.delta)
        if isinstance(kept.currency, Pure):
            return cls(kept.currency, delta, delta, epsilon, delta * RESERVED)
        most = amount(kept.currency, epsilon, session.delta)
        return cls(kept.currency, session.delta, Fraction(0), most, kept.leak_limit * min(Fraction(1), most / kept.limit))

    def charge(self, loss: Composition) -> Fraction | float:
        """What a plan costs."""
        return price_at(self.currency, loss, self.at)[0]

    def least_noise(self, loss: Callable[[float], Composition], most: Fraction) -> float:
        """The least factor on some noises at which the plan costs no more than `most`; ∞ if no factor does.

        A reading of the curve takes its time. So it is looked for where pure ε or zCDP says, and then with few readings.
        """
        if not self.at:
            return least(lambda noise: self.charge(loss(noise)) <= most, 1.0, CLOSE)

        def surely(noise: float) -> bool:
            here = loss(noise)
            return min(price(Pure(), here)[0], epsilon_from_zcdp(price(Zcdp(), here)[0], self.at)) <= most

        near = least(surely, 1.0, 2.0**-5)
        try:
            start = near if near < WIDEST else 1.0
            return float(least_scale(lambda noise: loss(float(noise)), most, self.at, start))
        except BadParameter:  # no noise is enough
            return inf


@dataclass(frozen=True)
class Solved:
    """A workload with its noise and its price: all that is known before it is paid for."""

    workload: Workload
    session: Session
    terms: Terms
    bounded: tuple[Bounded, ...]  # the questions
    pieces: tuple[Piece, ...]  # their columns
    parts: tuple[Part, ...]  # the noise of each column

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """One per question."""
        mine: list[list[Measurement]] = [[] for _ in self.bounded]
        for piece, part in zip(self.pieces, self.parts, strict=True):
            mine[piece.question].append(part.measurement)
        return tuple(merged(bounded, alone) for bounded, alone in zip(self.bounded, mine, strict=True))

    @cached_property
    def loss(self) -> Composition:
        """What will have happened once all of it is released."""
        return compose(*(measurement.loss for measurement in self.measurements))

    @cached_property
    def charge(self) -> Fraction:
        """What the plan costs, in the account's currency."""
        return rational(self.terms.charge(self.loss))

    @property
    def fits(self) -> bool:
        """Whether that is within the plan's own budget. What the account has left is the account's to say."""
        return self.charge <= self.terms.most

    @property
    def price(self) -> Price:
        """The same as everywhere: ε at δ, the charge, and what the account has left now."""
        return Price(self.loss, self.terms.delta, self.terms.currency, self.charge, self.session.account.budget.left)

    def at_budget(self, most: Fraction) -> "Solved":
        """The same plan with every noise larger or smaller by one factor, so that it costs `most`."""

        def scaled(noise: float) -> Solved:
            return replace(self, parts=tuple(part.times(1 / noise) for part in self.parts))

        return scaled(self.terms.least_noise(lambda noise: scaled(noise).loss, most))


def solve(workload: Workload) -> Solved:
    """Open the source and the account, and find the prices. Whatever can be refused is refused here, unpaid.

    >>> from discreet.publisher import Asked
    >>> plan = solve(Workload(source="examples/people.csv", unit="id", unique=True, epsilon=1, questions=(
    ...     Asked(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20),)))
    >>> plan.measurements[0].noises[0][1].error(0.95), float(plan.charge) < 0.15
    (20.0, True)
    """
    session = workload.open()
    terms = Terms.of(workload, session)
    bounded = tuple(bounded_of(asked, session) for asked in workload.questions)
    asked = zip(workload.questions, bounded, strict=True)
    pieces = tuple(piece for i, each in enumerate(asked) for piece in pieces_of(i, *each, workload.confidence))
    leak = terms.leak / max(1, sum(each.keys is None for each in bounded))
    empty = Solved(workload, session, terms, bounded, pieces, ())
    found = [_filled(empty, wanted, kind, leak) for wanted, kind in _choices(pieces, terms, leak)]
    plans = [plan for plan in found if plan is not None]
    if not plans:
        names = dict.fromkeys(piece.asked.key() for piece in pieces if piece.wanted is None)
        raise QuestionRefused(
            f"the wanted errors use up budget.epsilon, and nothing is left for {', '.join(names)}",
            "raise the budget, allow larger errors, or leave these questions out",
        )
    return min(plans, key=lambda plan: (not plan.fits, _loudness_of_the_rest(plan), plan.charge))


def _choices(pieces: Sequence[Piece], terms: Terms, leak: Fraction) -> Iterator[tuple[list[Part | None], Currency]]:
    """The noise of the columns with a wanted error, and the kind of noise of the others."""
    curve, pure = terms.at > 0, isinstance(terms.currency, Pure)
    laplace = [cheapest(piece, Pure(), leak) for piece in pieces]
    if pure:
        yield laplace, Pure()
    if pure and not curve:
        return
    gaussian = [cheapest(piece, Gdp(), leak) for piece in pieces]
    if curve:
        yield gaussian, Gdp()
    judge: Currency = Zcdp() if curve else terms.currency

    def cost(part: Part) -> Fraction | float:
        return price(judge, part.measurement.loss)[0]

    both = zip(laplace, gaussian, strict=True)
    yield [None if one is None or other is None else min(one, other, key=cost) for one, other in both], judge


def _filled(empty: Solved, wanted: Sequence[Part | None], kind: Currency, leak: Fraction) -> Solved | None:
    """The plan in which the columns without a wanted error get, by their shares, all that the budget has left; None if
    nothing is."""
    power = 1 if isinstance(kind, Pure) else 0.5  # ε is proportional to 1/scale; ρ, μ² and divergences to its square
    parts = [
        piece.bare(kind, leak).times(float(piece.share) ** power) if part is None else part
        for piece, part in zip(empty.pieces, wanted, strict=True)
    ]

    def at(noise: float) -> Solved:
        found = (old if old is not None else new.times(1 / noise) for old, new in zip(wanted, parts, strict=True))
        return replace(empty, parts=tuple(found))

    if None not in wanted:
        return at(1.0)
    found = empty.terms.least_noise(lambda noise: at(noise).loss, empty.terms.most)
    return at(found) if found < WIDEST and all(part.drawable for part in at(found).parts) else None


def _loudness_of_the_rest(plan: Solved) -> float:
    """How loud the noise is where no error is wanted: what the choice between plans of the same price turns on."""
    free = [part for piece, part in zip(plan.pieces, plan.parts, strict=True) if piece.wanted is None]
    return sum(log(1 + noise.error(JUDGED_AT)) for part in free for _, noise in part.measurement.noises)
