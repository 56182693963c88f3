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
from discreet.exact import rational, read_decimal, read_positive
from discreet.ledger.account import price_at
from discreet.ledger.budget import RESERVED, amount
from discreet.loss import Composition, compose
from discreet.pricing import below_least, least_amount, raised_note
from discreet.publisher.parts import CLOSE, Part, Piece, bounded_of, cheapest, merged, pieces_of
from discreet.publisher.workload import Workload
from discreet.query.bound import Bounded
from discreet.query.measure import JUDGED_AT, Measurement
from discreet.query.price import Price
from discreet.session import Session

WIDEST = 2.0**50
"""Noise beyond this is none that anybody could use: nothing was left to pay for less."""

FAR = 1.5
"""A plan whose noises are estimated to be so many times as large, on average, is not looked at again."""


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
        kept = session.account.budget
        epsilon, delta = read_positive(workload.epsilon, "epsilon"), read_decimal(workload.delta)
        if isinstance(kept.currency, Pure):
            return cls(kept.currency, delta, delta, epsilon, delta * RESERVED)
        most = amount(kept.currency, epsilon, session.delta)
        return cls(kept.currency, session.delta, Fraction(0), most, kept.leak_limit * min(Fraction(1), most / kept.limit))

    def charge(self, loss: Composition) -> Fraction | float:
        """What a plan costs."""
        return price_at(self.currency, loss, self.at)[0]

    def near_noise(self, loss: Callable[[float], Composition], most: Fraction) -> float:
        """A factor on some noises at which the plan surely costs no more than `most`; ∞ if none is found.

        A reading of the curve takes its time, so there only pure ε and zCDP are asked, which is quick."""

        def surely(noise: float) -> bool:
            here = loss(noise)
            if not self.at:
                return self.charge(here) <= most
            return min(price(Pure(), here)[0], epsilon_from_zcdp(price(Zcdp(), here)[0], self.at)) <= most

        return least(surely, 1.0, 2.0**-5 if self.at else CLOSE)

    def least_noise(self, loss: Callable[[float], Composition], most: Fraction, near: float) -> float:
        """The least such factor, looked for around `near`; ∞ if no factor does."""
        if not self.at:
            return near
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
    raised: bool = False  # the wanted errors need less than the policy's least ε, which is what the plan now costs

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
    def notes(self) -> tuple[str, ...]:
        """What is to be said about the plan and its source."""
        least = self.session.table.least_epsilon
        return (*self.session.notes, *([raised_note(least)] if self.raised else []))

    @property
    def price(self) -> Price:
        """The same as everywhere: ε at δ, the charge, and what the account has left now."""
        return Price(self.loss, self.terms.delta, self.terms.currency, self.charge, self.session.account.budget.left)

    def at_budget(self, most: Fraction) -> "Solved":
        """The same plan with every noise larger or smaller by one factor, so that it costs `most`."""

        def scaled(noise: float) -> Solved:
            return replace(self, parts=tuple(part.times(1 / noise) for part in self.parts))

        def loss(noise: float) -> Composition:
            return scaled(noise).loss

        return scaled(self.terms.least_noise(loss, most, self.terms.near_noise(loss, most)))


def solve(workload: Workload) -> Solved:
    """Open the source and the account, and find the prices. Whatever can be refused is refused here, unpaid.

    >>> from discreet.publisher import Asked
    >>> plan = solve(Workload(source="examples/people.csv", unit="id", unique=True, epsilon=1, questions=(
    ...     Asked(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20),)))
    >>> plan.measurements[0].noises[0][1].error(0.95), float(plan.charge) < 0.15
    (20.0, True)
    """
    session = workload.open()
    least_allowed, most = session.table.least_epsilon, read_positive(workload.epsilon, "budget.epsilon")
    if most < least_allowed:
        raise below_least("budget.epsilon", most, least_allowed)
    terms = Terms.of(workload, session)
    bounded = tuple(bounded_of(asked, session) for asked in workload.questions)
    asked = zip(workload.questions, bounded, strict=True)
    pieces = tuple(piece for i, each in enumerate(asked) for piece in pieces_of(i, *each, workload.confidence))
    leak = terms.leak / max(1, sum(each.keys is None for each in bounded))
    empty = Solved(workload, session, terms, bounded, pieces, ())
    drafts = [_Draft.of(empty, wanted, kind, leak) for wanted, kind in _choices(pieces, terms, leak)]
    plans = [plan for draft in _promising(drafts) if (plan := draft.filled()) is not None]
    if not plans:
        raise _nothing_fits(drafts[0])
    return _at_least(min(plans, key=lambda plan: (not plan.fits, _loudness_of_the_rest(plan), plan.charge)))


def _at_least(plan: Solved) -> Solved:
    """The plan, with as much less noise as makes its one debit cost what the policy's least ε buys."""
    floor = least_amount(plan.terms.currency, plan.session.table.least_epsilon, plan.session.delta)
    if plan.charge >= floor:
        return plan
    return replace(plan.at_budget(min(plan.terms.most, floor * (1 + Fraction(4 * CLOSE)))), raised=True)


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


@dataclass(frozen=True)
class _Draft:
    """A plan in which the columns without a wanted error are still to get, by their shares, what the budget has left."""

    empty: Solved
    parts: tuple[Part, ...]
    free: tuple[bool, ...]  # which of them

    @classmethod
    def of(cls, empty: Solved, wanted: Sequence[Part | None], kind: Currency, leak: Fraction) -> "_Draft":
        power = 1 if isinstance(kind, Pure) else 0.5  # ε is proportional to 1/scale; ρ, μ² and divergences to its square
        parts = (
            piece.bare(kind, leak).times(float(piece.share) ** power) if part is None else part
            for piece, part in zip(empty.pieces, wanted, strict=True)
        )
        return cls(empty, tuple(parts), tuple(part is None for part in wanted))

    def at(self, noise: float) -> Solved:
        """With the noise of the free columns so many times as large."""
        found = (part.times(1 / noise) if free else part for part, free in zip(self.parts, self.free, strict=True))
        return replace(self.empty, parts=tuple(found))

    def loss(self, noise: float) -> Composition:
        return self.at(noise).loss

    @cached_property
    def near(self) -> float:
        """About how large the noise has to be; 1 where none is free."""
        return self.empty.terms.near_noise(self.loss, self.empty.terms.most) if any(self.free) else 1.0

    def filled(self) -> Solved | None:
        """The plan that uses the budget up; None if nothing is left for the free columns."""
        if not any(self.free):
            return self.at(1.0)
        found = self.empty.terms.least_noise(self.loss, self.empty.terms.most, self.near)
        return self.at(found) if found < WIDEST and all(part.drawable for part in self.at(found).parts) else None


def _nothing_fits(draft: _Draft) -> QuestionRefused:
    """Why no noise for the free columns is both within the budget and drawable."""
    free = [piece for piece, is_free in zip(draft.empty.pieces, draft.free, strict=True) if is_free]
    names = ", ".join(dict.fromkeys(piece.asked.key() for piece in free))
    for piece, part in zip(draft.empty.pieces, draft.at(draft.near).parts, strict=True) if draft.near < WIDEST else ():
        if piece in free and (refusal := part.refusal) is not None:
            way_out = "lower budget.epsilon" if "narrower" in refusal.reason else "raise its weight or budget.epsilon"
            return QuestionRefused(f"budget.epsilon: {refusal.reason} ({piece.asked.key()})", way_out)
    if all(draft.free):
        return QuestionRefused(f"budget.epsilon is too small for any answer to {names}", "raise it, or ask for less")
    return QuestionRefused(
        f"the wanted errors use up budget.epsilon, and nothing is left for {names}",
        "raise the budget, allow larger errors, or leave these questions out",
    )


def _promising(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Those that are not already seen to be far louder than another: their exact readings are saved."""
    loud = {i: _loudness_of_the_rest(draft.at(draft.near)) for i, draft in enumerate(drafts) if draft.near < WIDEST}
    noises = sum(len(part.base.noises) for part, free in zip(drafts[0].parts, drafts[0].free, strict=True) if free)
    most = min(loud.values(), default=inf) + noises * log(FAR)
    return [draft for i, draft in enumerate(drafts) if loud.get(i, most) <= most]


def _loudness_of_the_rest(plan: Solved) -> float:
    """How loud the noise is where no error is wanted: what the choice between plans of the same price turns on."""
    free = [part for piece, part in zip(plan.pieces, plan.parts, strict=True) if piece.wanted is None]
    return sum(log(1 + noise.error(JUDGED_AT)) for part in free for _, noise in part.measurement.noises)
