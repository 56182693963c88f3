"""One analyst, one table, one budget: pay, then look.

The budget and its one currency are fixed when the session is opened. Every question is priced before any row is read, paid
before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of the data.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from discreet.accounting.filters import Currency, price
from discreet.accuracy import least_epsilon, read_error, read_weights
from discreet.declare import Declared, Limits, declare
from discreet.engines.engine import Engine
from discreet.engines.progress import watched
from discreet.errors import BadParameter, BudgetExceeded, QuestionRefused
from discreet.exact import Bounds, Number, open_unit, positive, rational, shown, whole
from discreet.ledger.memory import MemoryAccount, amount, budget, epsilon_that_fits
from discreet.loss import compose
from discreet.noise import Bits
from discreet.query import plan
from discreet.query.auto import SHARE, Found, bounds_question, found_bounds, without_bounds
from discreet.query.bound import Bounded, bound
from discreet.query.measure import Measurement, measure
from discreet.query.parse import Question, read_question
from discreet.query.pilot import CONFIDENCE, Pilot, pilot_query, smallest
from discreet.query.price import Price
from discreet.query.quote import Quote, depends_on_size, noise_in_words, promised, quote, within
from discreet.query.release import Release, release
from discreet.query.table import SALT, Key, Table
from discreet.query.write import written
from discreet.units import Neighbours

Paid: TypeAlias = Found | Pilot
"""What was paid for on the way to an answer."""


@dataclass(frozen=True, slots=True)
class Session:
    """What `connect` returns."""

    engine: Engine
    table: Table
    account: MemoryAccount
    delta: Fraction
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    auto: frozenset[str] = frozenset()  # columns whose bounds shall be found privately
    _found: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict, repr=False, compare=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)  # one statement at a time

    @classmethod
    def of(cls, declared: Declared, account: MemoryAccount, delta: Fraction, neighbours: Neighbours) -> "Session":
        """A session over an open source."""
        return cls(declared.engine, declared.table, account, delta, neighbours, declared.notes, declared.auto)

    @property
    def price(self) -> Price:
        """The whole budget: the ε that it promises at δ, what is spent and what is left."""
        kept = self.account.budget
        promised_epsilon = kept.epsilon(self.delta)
        return Price(Bounds(promised_epsilon, promised_epsilon), self.delta, kept.currency, kept.spent, kept.left)

    def measurement(
        self, question: Question, *, epsilon: Number, weights: Mapping[str, Number] | None = None
    ) -> Measurement:
        """The question with its noise and its price. No row is read."""
        bounded = self._bounded(question)
        return self._measured(bounded, positive(epsilon, "epsilon"), _shares(weights, bounded))

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
        bounded = self._bounded(question)
        shares = _shares(weights, bounded)
        planned = self._measured(bounded, self._epsilon(bounded, epsilon, error, confidence, size, shares), shares)
        return quote(
            planned,
            self._price(planned),
            question=_said(question, planned),
            confidence=confidence,
            size=size,
            notes=self.notes,
        )

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
        bits: Bits | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Release:
        """Pay for the question, then answer it. Give its price as ε, or the error that it may have.

        An error that needs a size takes it from `size`, or from a private count that costs `pilot` in ε and is paid first,
        for good; the answer's loss and price are then those of both. `weights` share the price out over the columns: one
        that weighs 2 gets twice as much of it as one that weighs 1. `progress` is told the share that is done, from 0 to 1.
        """
        open_unit(confidence, "confidence")  # whatever can be refused is refused before it is paid for
        earlier: list[Paid] = []
        unbounded, rest = self._without_bounds(question), Fraction(1)
        if unbounded:
            if epsilon is None:
                raise self._not_found(unbounded)
            rest = 1 - SHARE
            earlier += [self._find(name, epsilon, SHARE / len(unbounded), bits, progress) for name in unbounded]
        bounded = self._bounded(question)
        shares = _shares(weights, bounded)
        if pilot is not None:
            found = self._pilot(bounded, pilot, epsilon, error, size, shares, bits, progress)
            size = found.size
            earlier.append(found)
        planned = self._measured(bounded, self._epsilon(bounded, epsilon, error, confidence, size, shares), shares, rest)
        answer = self._look(planned, confidence, simultaneous, bits, progress)
        return self._together(answer, earlier) if earlier else answer

    def find_bounds(self, column: str, *, epsilon: Number, bits: Bits | None = None) -> tuple[Fraction, Fraction]:
        """Find the bounds of a numeric column privately, for this price; later questions use them."""
        self._find(column, epsilon, Fraction(1), bits, None)
        return self._found[column]

    def epsilon_for(
        self,
        question: Question,
        error: str | Number,
        *,
        size: int | None = None,
        confidence: float = 0.95,
        weights: Mapping[str, Number] | None = None,
    ) -> Fraction:
        """The least ε, to three digits, at which every column's half-width is at most `error`.

        "5%" is relative: to `size` for counts, to `size` times the largest value for sums, to the declared range for
        averages. A number is absolute, in the column's own unit.
        """
        bounded = self._bounded(question)
        return self._epsilon(bounded, None, error, confidence, size, _shares(weights, bounded))

    def _bounded(self, question: Question) -> Bounded:
        if unbounded := self._without_bounds(question):
            raise self._not_found(unbounded)
        table = self._known_table()
        return bound(read_question(question, table), table, self.neighbours)

    def _known_table(self) -> Table:
        """What is declared, and the bounds that were found."""
        if not self._found:
            return self.table
        found = {name: self.table.columns[name].within(*ends) for name, ends in self._found.items()}
        return replace(self.table, columns={**self.table.columns, **found})

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

    def _find(
        self, column: str, epsilon: Number, part: Fraction, bits: Bits | None, progress: Callable[[float], None] | None
    ) -> Found:
        bounded = bound(bounds_question(column, self.table), self.table, self.neighbours)
        planned = self._measured(bounded, positive(epsilon, "epsilon"), None, part)
        answer = self._look(planned, CONFIDENCE, False, bits, progress)
        self._found[column] = found_bounds(planned, answer)
        assert answer.price is not None
        return Found(column, self._found[column], planned.loss, rational(answer.price.amount))

    def _measured(
        self, bounded: Bounded, epsilon: Fraction, shares: Mapping[str, Fraction] | None, part: Fraction = Fraction(1)
    ) -> Measurement:
        """For this part of what ε buys."""
        kept = self.account.budget
        spend = amount(kept.currency, epsilon, self.delta) * part
        return measure(bounded, kept.currency, spend, kept.leak_limit * min(Fraction(1), spend / kept.limit), shares)

    def _look(
        self,
        planned: Measurement,
        confidence: float,
        simultaneous: bool,
        bits: Bits | None,
        progress: Callable[[float], None] | None,
    ) -> Release:
        """Pay, then look."""
        try:
            receipt = self.account.pay(planned.loss)
        except BudgetExceeded as refused:
            raise self._with_way_out(refused) from None
        with self._turn, watched(self.engine, progress):
            exact = self.engine.exact(planned.bounded)
            answer = release(planned, exact, receipt, confidence=confidence, simultaneous=simultaneous, bits=bits)
        ran = exact.statements if self.table.salt == SALT else self.engine.statements(_without_salt(planned.bounded))
        return replace(answer, price=self._price(planned, receipt.left), pipeline=(*ran, *noise_in_words(planned)))

    def _pilot(
        self,
        bounded: Bounded,
        pilot: Number,
        epsilon: Number | None,
        error: str | Number | None,
        size: int | None,
        shares: Mapping[str, Fraction] | None,
        bits: Bits | None,
        progress: Callable[[float], None] | None,
    ) -> Pilot:
        """Find the size that the error needs, privately."""
        cost = positive(pilot, "pilot")
        if error is None or epsilon is not None or size is not None or not _needs_size(error, bounded):
            raise BadParameter("pilot", shown(cost), "no size is missing here", 'give it with error="5%" and no size')
        asked = bound(pilot_query(bounded), self.table, self.neighbours)
        self._measured(bounded, cost, shares)  # a question that cannot be planned is refused before the pilot is paid for
        planned = self._measured(asked, cost, None)
        counted = self._look(planned, CONFIDENCE, False, bits, progress)
        rows, group = smallest(counted)
        return Pilot(rows, group, cost, planned.loss, rational(price(self.account.budget.currency, planned.loss)[0]))

    def _together(self, answer: Release, earlier: Sequence[Paid]) -> Release:
        """All as one. ε at δ is what the account's currency says of the sum: prices that depend on answers have a filter
        in one currency, and none on the certified curve."""
        assert answer.price is not None
        kept, spent = self.account.budget, sum((paid.amount for paid in earlier), rational(answer.price.amount))
        promise = replace(kept, limit=spent, spent=Fraction(0)).epsilon(self.delta)
        whole_price = replace(answer.price, reading=Bounds(promise, promise), amount=spent)
        explanation = " ".join([answer.explanation, *map(str, earlier)])
        losses = [paid.loss for paid in earlier]
        return replace(answer, loss=compose(*losses, answer.loss), price=whole_price, explanation=explanation)

    def _epsilon(
        self,
        bounded: Bounded,
        epsilon: Number | None,
        error: str | Number | None,
        confidence: float,
        size: int | None,
        shares: Mapping[str, Fraction] | None,
    ) -> Fraction:
        if (epsilon is None) == (error is None):
            raise BadParameter(
                "epsilon", "missing" if epsilon is None else "given", "a question has either a price or an error",
                'give epsilon=0.5, or error="5%" with a size',
            )  # fmt: skip
        if epsilon is not None:
            return positive(epsilon, "epsilon")
        assert error is not None
        allowed, relative = read_error(error)
        if not relative and any(isinstance(aggregate, plan.Quantile) for _, aggregate in bounded.query.aggregates):
            raise QuestionRefused(
                "how far off a quantile is depends on the values; beforehand only the error of its rank is known",
                'give a share of the rows, error="2%" with a size, or a price',
            )
        if size is None and _needs_size(error, bounded):
            raise QuestionRefused(
                "how many rows an answer rests on is private, so this error needs a size to be relative to",
                "give size=, the smallest group that matters (--size 1000), or ask with pilot=, the ε that a private count "
                "of it may cost (--pilot 0.01)",
            )
        sizes = (1,) if size is None else (whole(size, "size", 1),)

        def good(price: Fraction) -> bool:
            try:
                planned = self._measured(bounded, price, shares)
            except (BadParameter, QuestionRefused):  # too small to buy anything, or noise too wide to be drawn
                return False
            columns = (promised(planned, name, confidence, sizes) for name, _ in bounded.query.aggregates)
            return all(within(column, allowed, relative=relative) for column in columns)

        return least_epsilon(good)

    def _price(self, planned: Measurement, left: Fraction | None = None) -> Price:
        kept, loss = self.account.budget, planned.loss
        spent, _ = price(kept.currency, loss)
        return Price(loss, self.delta, kept.currency, spent, kept.left if left is None else left)

    def _with_way_out(self, refused: BudgetExceeded) -> BudgetExceeded:
        fitting = epsilon_that_fits(self.account.budget, self.delta)
        return BudgetExceeded(refused.currency, asked=refused.asked, left=refused.left, fitting=fitting)


def _shares(weights: Mapping[str, Number] | None, bounded: Bounded) -> dict[str, Fraction] | None:
    return read_weights(weights, tuple(name for name, _ in bounded.query.aggregates))


def _needs_size(error: str | Number, bounded: Bounded) -> bool:
    _, relative = read_error(error)
    return relative or any(depends_on_size(aggregate) for _, aggregate in bounded.query.aggregates)


def _without_salt(bounded: Bounded) -> Bounded:
    """What ran may be published; a salt of the owner's own stays with the owner."""
    return replace(bounded, table=replace(bounded.table, salt="secret"))


def _said(question: Question, planned: Measurement) -> str:
    """The question as text: as it was written, or as it could have been."""
    return question if isinstance(question, str) else written(planned.bounded.query, planned.bounded.table.unit)


def connect(
    source: Any,
    *,
    epsilon: Number,
    delta: Number = 0,
    unit: str | None = None,
    currency: Currency | None = None,
    policy: str | Path | Table | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: Limits | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Session:
    """Open a source with a budget of (ε, δ).

    The source is a CSV or Parquet file (globs too), a DuckDB file or connection, an Arrow table, a pandas, Polars or Spark
    frame, "postgresql://…" with a `table`, or "spark:local[2]" and "spark://…" with a `table` or the `path` of its files.
    What is not declared here may be declared in a policy file. Without a δ the budget is kept in pure ε; with one in zCDP,
    half of δ being reserved for selecting keys, unless another currency is named. `public` names tables about nobody, each
    from whatever a source can be, that questions may be joined to. `bounds={"pay": "auto"}`, or `bounds="auto"` for every
    number, has bounds found privately by the first question that needs them, for a quarter of its price.
    """
    kept = budget(epsilon, delta, currency)
    declared = declare(
        source, unit=unit, policy=policy, table=table, path=path, bounds=bounds, keys=keys, max_groups=max_groups,
        max_rows=max_rows, unique=unique, public=public,
    )  # fmt: skip
    return Session.of(declared, MemoryAccount(kept), rational(delta, "delta"), neighbours)
