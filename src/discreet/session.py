"""One analyst, one table, one budget: pay, then look.

The budget and its one currency are fixed when the session is opened. Every question is priced before any row is read, paid
before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of the data.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.accounting.filters import Currency, price
from discreet.accuracy import least_epsilon, read_error, read_weights
from discreet.engines.duckdb import DuckDB
from discreet.engines.progress import watched
from discreet.errors import BadParameter, BudgetExceeded, QuestionRefused, SourceRefused
from discreet.exact import Bounds, Number, open_unit, positive, rational, shown, whole
from discreet.ledger.memory import MemoryAccount, amount, budget, epsilon_that_fits
from discreet.loss import compose
from discreet.noise import Bits
from discreet.query.bound import Bounded, bound
from discreet.query.measure import Measurement, measure
from discreet.query.parse import Question, read_question
from discreet.query.pilot import CONFIDENCE, Pilot, pilot_query, smallest
from discreet.query.policy import read_policy, read_public
from discreet.query.price import Price
from discreet.query.quote import Quote, depends_on_size, noise_in_words, promised, quote, within
from discreet.query.release import Release, release
from discreet.query.table import SALT, Column, Key, Table
from discreet.query.write import written
from discreet.units import Neighbours


@dataclass(frozen=True, slots=True)
class Session:
    """What `connect` returns."""

    engine: DuckDB
    table: Table
    account: MemoryAccount
    delta: Fraction
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)  # one statement at a time

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
        bounded = self._bounded(question)
        shares = _shares(weights, bounded)
        found = None
        if pilot is not None:
            found = self._pilot(bounded, pilot, epsilon, error, size, shares, bits, progress)
            size = found.size
        planned = self._measured(bounded, self._epsilon(bounded, epsilon, error, confidence, size, shares), shares)
        answer = self._look(planned, confidence, simultaneous, bits, progress)
        return answer if found is None else self._with_pilot(answer, found)

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
        return bound(read_question(question, self.table), self.table, self.neighbours)

    def _measured(self, bounded: Bounded, epsilon: Fraction, shares: Mapping[str, Fraction] | None) -> Measurement:
        kept = self.account.budget
        spend = amount(kept.currency, epsilon, self.delta)
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

    def _with_pilot(self, answer: Release, found: Pilot) -> Release:
        """Both as one. ε at δ is what the account's currency says of the sum: prices that depend on answers have a filter
        in one currency, and none on the certified curve."""
        assert answer.price is not None
        kept, spent = self.account.budget, found.amount + rational(answer.price.amount)
        promise = replace(kept, limit=spent, spent=Fraction(0)).epsilon(self.delta)
        whole_price = replace(answer.price, reading=Bounds(promise, promise), amount=spent)
        explanation = f"{answer.explanation} {found}"
        return replace(answer, loss=compose(found.loss, answer.loss), price=whole_price, explanation=explanation)

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
            except BadParameter:  # too small at this δ to buy anything in this currency
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
    bounds: Mapping[str, tuple[Number, Number]] | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Session:
    """Open a source with a budget of (ε, δ).

    The source is a CSV or Parquet file (globs too), a DuckDB file or connection, an Arrow table, a pandas or Polars frame.
    What is not declared here may be declared in a policy file. Without a δ the budget is kept in pure ε; with one in zCDP,
    half of δ being reserved for selecting keys, unless another currency is named. `public` names tables about nobody, each
    from whatever a source can be, that questions may be joined to.
    """
    kept = budget(epsilon, delta, currency)
    declared, notes = declare(
        source, unit=unit, policy=policy, table=table, bounds=bounds, keys=keys, max_groups=max_groups, max_rows=max_rows,
        unique=unique, public=public,
    )  # fmt: skip
    engine, whole_table = declared
    return Session(engine, whole_table, MemoryAccount(kept), rational(delta, "delta"), neighbours, notes)


def declare(
    source: Any,
    *,
    unit: str | None,
    policy: str | Path | Table | None = None,
    table: str | None = None,
    bounds: Mapping[str, tuple[Number, Number]] | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
) -> tuple[tuple[DuckDB, Table], tuple[str, ...]]:
    """The open source, what is declared about it, and what was left undeclared."""
    given, listed = _given(policy)
    kinds = None if given is None else {name: column.kind for name, column in given.columns.items()}
    engine = DuckDB.open(source, table or _name(source) or (given.name if given else None), kinds)
    columns = engine.columns() if given is None else _agreed(given, engine.columns())
    for name, (low, high) in (bounds or {}).items():
        columns[name] = columns[_known(name, columns)].within(low, high)
    for name, known in (keys or {}).items():
        columns[name] = columns[_known(name, columns)].shown_as(tuple(known))
    person = unit or (given.unit if given else None)
    if person is None:
        raise BadParameter("unit", "missing", "it must be known whose data this is", "name the column with unit=")
    base = given or Table(engine.table, _known(person, columns), columns)
    engine, lookups = engine.with_public({**listed, **(public or {})})
    final = Table(
        engine.table,
        _known(person, columns),
        columns,
        base.max_groups if max_groups is None else max_groups,
        base.max_rows if max_rows is None else max_rows,
        base.unique if unique is None else unique,
        base.salt,
        lookups,
    )
    return (engine, final), _notes(final, given, max_groups, max_rows)


def _notes(final: Table, given: Table | None, max_groups: int | None, max_rows: int | None) -> tuple[str, ...]:
    if given is not None or final.unique:
        return ()
    named = (("max_groups", max_groups), ("max_rows", max_rows))
    left_out = [name for name, value in named if value is None]
    if not left_out:
        return ()
    verb = "was" if len(left_out) == 1 else "were"
    return (
        f"{' and '.join(left_out)} {verb} not declared: 1 is taken, and what one {final.unit} has beyond that is left out.",
    )


def _agreed(policy: Table, found: Mapping[str, Column]) -> dict[str, Column]:
    """The policy's columns, which must be there and of the declared kind."""
    for name, column in policy.columns.items():
        if found[_known(name, found)].kind is not column.kind:
            raise BadParameter(
                "policy", f"{name}: {column.kind.value}", f"the source holds {found[name].kind.value} there", "correct it"
            )
    return dict(policy.columns)


def _given(policy: str | Path | Table | None) -> tuple[Table | None, dict[str, str]]:
    """The policy, and where its public tables are: beside it, unless a path says otherwise."""
    if policy is None or isinstance(policy, Table):
        return policy, {}
    text = _read(policy)
    return read_policy(text), {name: str(Path(policy).parent / path) for name, path in read_public(text).items()}


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SourceRefused("this policy cannot be read", "check the path") from None


def _name(source: Any) -> str | None:
    """A name for a glob, which has none of its own: what stands before the first wildcard."""
    if not isinstance(source, str | Path) or not any(mark in str(source) for mark in "*?["):
        return None
    stem = Path(str(source)).name
    for mark in "*?[":
        stem = stem.partition(mark)[0]
    return stem.rstrip("-_.") or "data"


def _known(name: str, columns: Mapping[str, Any]) -> str:
    if name not in columns:
        raise BadParameter("column", repr(name), "the source has no such column", f"take one of {', '.join(columns)}")
    return name


__all__ = ["Session", "connect", "read_error"]
