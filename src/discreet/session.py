"""One analyst, one table, one budget: pay, then look, then record, then show.

The budget and its one currency are fixed when the account is opened. Every question is priced before any row is read, paid
before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from discreet.accounting.filters import price
from discreet.declare import Declared
from discreet.engines.engine import Engine
from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import Bounds, Number, rational, read_positive, shown
from discreet.ledger.account import proper
from discreet.ledger.book import LedgerAccount
from discreet.ledger.certificate import certificate
from discreet.ledger.keys import Key as SecretKey
from discreet.ledger.quarantine import MemoryQuarantine, Quarantine, quarantine_for
from discreet.ledger.store import Purse
from discreet.noise import Bits
from discreet.pricing import Paid, Pricing, Wanted
from discreet.query.auto import SHARE, Found, bounds_question, found_bounds, without_bounds
from discreet.query.bound import Bounded, bound
from discreet.query.measure import Measurement
from discreet.query.parse import Question, read_question
from discreet.query.pilot import CONFIDENCE, Pilot, pilot_query, smallest
from discreet.query.price import Price
from discreet.query.quote import Quote, quote
from discreet.query.record import Paper
from discreet.query.release import Release
from discreet.query.table import Table
from discreet.query.write import written
from discreet.till import Manner, Shape, Till
from discreet.units import Neighbours


@dataclass(frozen=True, slots=True)
class Session:
    """What `connect` returns."""

    engine: Engine
    table: Table
    account: Purse
    delta: Fraction
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    auto: frozenset[str] = frozenset()  # columns whose bounds shall be found privately
    quarantine: Quarantine = field(default_factory=MemoryQuarantine, repr=False, compare=False)
    label: str | None = None  # which state of the source is queried, for example "2026-11"
    _found: dict[str, Found] = field(default_factory=dict, repr=False, compare=False)
    _searched: dict[tuple[str, Fraction, str | None], tuple[str, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )  # the columns whose bounds a query had to find when it was first asked

    @classmethod
    def of(
        cls, declared: Declared, account: Purse, delta: Fraction, neighbours: Neighbours, label: str | None = None
    ) -> "Session":
        """A session over an open source; refused if the source is quarantined or has cells that cannot be read."""
        quarantine = quarantine_for(account, lasting=declared.engine.lasting, anchor=declared.engine.anchor)
        for origin in declared.engine.origins:
            quarantine.check(origin)
        declared.validate()
        return cls(
            declared.engine, declared.table, account, delta, neighbours, declared.notes, declared.auto, quarantine,
            None if label is None else read_label(label),
        )  # fmt: skip

    @property
    def price(self) -> Price:
        """The whole budget: the ε that it promises at δ, what is spent and what is left."""
        kept = self.account.budget
        promised_epsilon = kept.epsilon(self.delta)
        return Price(Bounds(promised_epsilon, promised_epsilon), self.delta, kept.currency, kept.spent, kept.left)

    @property
    def till(self) -> Till:
        """Where questions are paid for and answered."""
        return Till(self.engine, self.account, self.delta, self.quarantine, self.label)

    @property
    def pricing(self) -> Pricing:
        """Prices in this account, as it is now."""
        return self.till.pricing

    def outline(self, question: Question) -> Bounded:
        """The question with what one unit can do to it. Bounds that are still to be found are stood in for by others."""
        table = self._known_table(self._without_bounds(question))
        return bound(read_question(question, table), table, self.neighbours)

    def measurement(
        self, question: Question, *, epsilon: Number, weights: Mapping[str, Number] | None = None
    ) -> Measurement:
        """The question with its noise and its price. No row is read."""
        return self.pricing.plan(self._bounded(question), Wanted(epsilon, weights=weights))

    def quote(
        self,
        question: Question,
        *,
        epsilon: Number | None = None,
        error: str | Number | None = None,
        confidence: float = 0.95,
        size: int | None = None,
        weights: Mapping[str, Number] | None = None,
        pilot: Number | None = None,
    ) -> Quote:
        """What the question would cost and how good its answer would be. Nothing is paid and no row is read."""
        if pilot is not None:
            raise QuestionRefused("a quote reads no row, so it can run no pilot", "give size=, or ask with the pilot")
        bounded, prices = self._bounded(question), self.pricing
        wanted = Wanted(epsilon, error, size, confidence, weights)
        spending = prices.spending(bounded, wanted)
        planned = prices.buy(bounded, spending.epsilon, wanted.shares(bounded))
        said = question if isinstance(question, str) else written(bounded.query, bounded.table.unit)
        cost = prices.price(planned.loss)
        return quote(planned, cost, question=said, confidence=confidence, size=size, notes=(*self.notes, *spending.notes))

    def ask(
        self,
        question: Question,
        *,
        epsilon: Number | None = None,
        error: str | Number | None = None,
        size: int | None = None,
        pilot: Number | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        id: str | None = None,
        fresh: bool = False,
        bits: Bits | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Release:
        """Pay for the question, then answer it. Give its price as ε, or the error that it may have.

        An error that needs a size takes it from `size`, or from a private count that costs `pilot` in ε and is paid first,
        for good; the answer's loss and price are then those of both. `weights` share the price out over the columns: one
        that weighs 2 gets twice as much of it as one that weighs 1. `progress` is told the share that is done, from 0 to 1.

        A question that was answered before is answered the same again, for free; `fresh` pays for new noise. Whoever gives
        an `id` can ask again with it after a crash: what was paid is not paid twice.
        """
        # whatever can be refused is refused before it is paid for
        wanted, manner = Wanted(epsilon, error, size, confidence, weights), Manner(bits, progress, id, fresh)
        shape = Shape(wanted.confidence, simultaneous)
        earlier: list[Paid] = [*self._bounds_of(question, wanted, manner)]
        rest = 1 - SHARE if earlier else Fraction(1)
        bounds = self._found | {each.column: each for each in earlier if isinstance(each, Found)}
        bounded = self._bounded(question, bounds)
        after = [bounds[name].paper for name in without_bounds(bounded.query, self.table) if name in bounds]
        if pilot is not None:
            found = self._pilot(bounded, pilot, wanted, manner, after)
            wanted = replace(wanted, size=found.size)
            earlier.append(found)
            after.append(found.paper)
        spending = self.pricing.spending(bounded, wanted)
        planned = self.pricing.buy(bounded, spending.epsilon, wanted.shares(bounded), rest)
        answer = self.till.look(planned, manner, shape, after)
        answer = replace(answer, explanation=" ".join((answer.explanation, *self.notes, *spending.notes)))
        return self.pricing.together(answer, earlier) if earlier else answer

    def find_bounds(
        self, column: str, *, epsilon: Number, id: str | None = None, fresh: bool = False, bits: Bits | None = None
    ) -> tuple[Fraction, Fraction]:
        """Find the bounds of a numeric column privately, for this price; later questions use them."""
        planned = self._bounds_plan(column, read_positive(epsilon, "epsilon"), Fraction(1))
        manner = Manner(bits, id=id, fresh=fresh)
        self._found[column] = self._find(column, planned, manner.step(_step_name(column)))
        return self._found[column].ends

    def epsilon_for(
        self,
        question: Question,
        error: str | Number,
        *,
        size: int | None = None,
        confidence: float = 0.95,
        weights: Mapping[str, Number] | None = None,
    ) -> Fraction:
        """The least ε, to three digits, at which every column's half-width is at most `error`; the policy's `least_epsilon`
        if that is larger.

        "5%" is relative: to `size` for counts, to `size` times the largest value for sums, to the declared range for
        averages. A number is absolute, in the column's own unit.
        """
        return self.pricing.spending(self._bounded(question), Wanted(None, error, size, confidence, weights)).epsilon

    def certificate(self, answer: Release, key: SecretKey) -> dict[str, Any]:
        """release.json for an answer of this session: signed, and checked by `discreet verify`. Only a ledger's answers
        have one."""
        if not isinstance(self.account, LedgerAccount) or answer.paper is None:
            raise BadParameter("release", "not recorded", "only a ledger's answers have a certificate", "ask with a ledger")
        paper: Paper = answer.paper
        return certificate(
            self.account, paper.entry, measurement=paper.measurement, release=paper.recorded, after=paper.after,
            software=f"discreet {version('discreet')}", key=key, tainted=answer.tainted,
        )  # fmt: skip

    def _bounded(self, question: Question, bounds: Mapping[str, Found] | None = None) -> Bounded:
        """The question with these found bounds; those that the session has found, unless given."""
        if bounds is None and (unbounded := self._without_bounds(question)):
            raise self._not_found(unbounded)
        table = self._known_table(bounds=bounds)
        return bound(read_question(question, table), table, self.neighbours)

    def _known_table(self, provisional: tuple[str, ...] = (), bounds: Mapping[str, Found] | None = None) -> Table:
        """What is declared, and the bounds that were found."""
        found = {name: each.ends for name, each in (self._found if bounds is None else bounds).items()}
        found |= dict.fromkeys(provisional, (Fraction(0), Fraction(1)))
        if not found:
            return self.table
        columns = {name: self.table.columns[name].within(*ends) for name, ends in found.items()}
        return replace(self.table, columns={**self.table.columns, **columns})

    def _without_bounds(self, question: Question) -> tuple[str, ...]:
        """The columns that the question computes with, whose bounds are still to be found."""
        if not self.auto - self._found.keys():
            return ()
        table = self._known_table()
        return tuple(name for name in without_bounds(read_question(question, table), table) if name in self.auto)

    def _not_found(self, columns: tuple[str, ...]) -> QuestionRefused:
        return QuestionRefused(
            f"the bounds of {' and '.join(columns)} are still to be found, and the noise depends on them",
            f"ask with a price, a quarter of which finds them, or call find_bounds({columns[0]!r}, epsilon=0.1) first",
        )

    def _bounds_of(self, question: Question, wanted: Wanted, manner: Manner) -> tuple[Found, ...]:
        """Find the bounds that a query needs first, for a part of its price. A query that is asked again finds the bounds
        that it had to find when it was first asked, so that it is the same query at the same price and continues what was
        paid: without `fresh`, whenever it is asked again; with it, under the same id."""
        unbounded = self._without_bounds(question)
        if not self.auto or wanted.epsilon is None:
            if unbounded:
                raise self._not_found(unbounded)
            return ()
        outline, epsilon = self.outline(question), read_positive(wanted.epsilon, "epsilon")
        asked = written(outline.query, self.table.unit), epsilon
        anew = manner.fresh and manner.id is None
        columns = unbounded if anew else self._searched.get((*asked, manner.id if manner.fresh else None), unbounded)
        if not columns:
            return ()
        steps = [(self._bounds_plan(name, epsilon, SHARE / len(columns)), manner.step(_step_name(name))) for name in columns]
        self.till.check_steps(steps, manner.id, rest=self.pricing.plan(outline, wanted, 1 - SHARE))
        for id in {None, manner.id}:
            self._searched.setdefault((*asked, id), columns)
        found = tuple(self._find(name, *step) for name, step in zip(columns, steps, strict=True))
        for each in found:
            self._found.setdefault(each.column, each)
        return found

    def _bounds_plan(self, column: str, epsilon: Fraction, part: Fraction) -> Measurement:
        return self.pricing.buy(bound(bounds_question(column, self.table), self.table, self.neighbours), epsilon, part=part)

    def _find(self, column: str, planned: Measurement, manner: Manner) -> Found:
        answer = self.till.look(planned, manner, Shape(CONFIDENCE))
        assert answer.paper is not None
        paid = rational(price(self.account.budget.currency, planned.loss)[0])
        return Found(column, found_bounds(planned, answer), planned.loss, paid, answer.paper)

    def _pilot(self, bounded: Bounded, pilot: Number, wanted: Wanted, manner: Manner, after: Sequence[Paper]) -> Pilot:
        """Find the size that the error needs, privately."""
        cost, prices = read_positive(pilot, "pilot"), self.pricing
        if wanted.epsilon is not None or not wanted.lacks_size(bounded):
            raise BadParameter("pilot", shown(cost), "no size is missing here", 'give it with error="5%" and no size')
        asked = bound(pilot_query(bounded), self._known_table(), self.neighbours)
        planned, step = prices.buy(asked, cost, name="pilot"), manner.step("pilot")
        prices.buy(bounded, cost, wanted.shares(bounded))  # what cannot be planned is refused before the pilot is paid for
        self.till.check_steps([(planned, step)], manner.id, after)
        answer = self.till.look(planned, step, Shape(CONFIDENCE), after)
        assert answer.paper is not None
        rows, group = smallest(answer)
        paid = rational(price(prices.kept.currency, planned.loss)[0])
        return Pilot(rows, group, cost, planned.loss, paid, answer.paper)


def read_label(label: str) -> str:
    """A label as every ledger can hold it.

    >>> read_label(202611)
    Traceback (most recent call last):
    discreet.errors.BadParameter: label is 202611: it is not a text; name the state of the source, label="2026-11"
    """
    if not isinstance(label, str):
        raise BadParameter("label", repr(label), "it is not a text", 'name the state of the source, label="2026-11"')
    return proper(label, "label")


def _step_name(column: str) -> str:
    """What the search for a column's bounds adds to the id of its query."""
    return f"bounds of {column}"
