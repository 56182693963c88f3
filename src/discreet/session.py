"""One analyst, one table, one budget: pay, then look.

The budget and its one currency are fixed when the session is opened. Every question is priced before any row is read, paid
before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of the data.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.accounting.filters import Currency, price
from discreet.engines.duckdb import DuckDB
from discreet.errors import BadParameter, BudgetExceeded, QuestionRefused, SourceRefused
from discreet.exact import Bounds, Number, open_unit, positive, rational, whole
from discreet.ledger.memory import MemoryAccount, amount, budget, epsilon_that_fits, rounded_down, step_of
from discreet.noise import Bits
from discreet.query.bound import bound
from discreet.query.measure import Measurement, measure
from discreet.query.parse import Question, read_question
from discreet.query.policy import read_policy, read_public
from discreet.query.price import Price
from discreet.query.quote import Quote, depends_on_size, promised, quote, within
from discreet.query.release import Release, release
from discreet.query.table import Column, Key, Table
from discreet.query.write import written
from discreet.units import Neighbours

MOST_EPSILON = 1 << 10
"""A search for accuracy gives up above this ε: it promises next to nothing."""


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

    def measurement(self, question: Question, *, epsilon: Number) -> Measurement:
        """The question with its noise and its price. No row is read."""
        bounded = bound(read_question(question, self.table), self.table, self.neighbours)
        kept = self.account.budget
        spend = amount(kept.currency, positive(epsilon, "epsilon"), self.delta)
        return measure(bounded, kept.currency, spend, kept.leak_limit * min(Fraction(1), spend / kept.limit))

    def quote(
        self,
        question: Question,
        *,
        epsilon: Number | None = None,
        error: str | Number | None = None,
        confidence: float = 0.95,
        size: int | None = None,
    ) -> Quote:
        """What the question would cost and how good its answer would be. Nothing is paid and no row is read."""
        planned = self.measurement(question, epsilon=self._epsilon(question, epsilon, error, confidence, size))
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
        confidence: float = 0.95,
        simultaneous: bool = False,
        bits: Bits | None = None,
    ) -> Release:
        """Pay for the question, then answer it. Give its price as ε, or the error that it may have."""
        open_unit(confidence, "confidence")  # whatever can be refused is refused before it is paid for
        planned = self.measurement(question, epsilon=self._epsilon(question, epsilon, error, confidence, size))
        try:
            receipt = self.account.pay(planned.loss)
        except BudgetExceeded as refused:
            raise self._with_way_out(refused) from None
        with self._turn:
            totals = list(self.engine.totals(planned.bounded))
        answer = release(planned, totals, receipt, confidence=confidence, simultaneous=simultaneous, bits=bits)
        return replace(answer, price=self._price(planned, receipt.left))

    def epsilon_for(
        self, question: Question, error: str | Number, *, size: int | None = None, confidence: float = 0.95
    ) -> Fraction:
        """The least ε, to three digits, at which every column's half-width is at most `error`.

        "5%" is relative: to `size` for counts, to `size` times the largest value for sums, to the declared range for
        averages. A number is absolute, in the column's own unit.
        """
        allowed, relative = read_error(error)
        aggregates = bound(read_question(question, self.table), self.table, self.neighbours).query.aggregates
        if size is None and (relative or any(depends_on_size(aggregate) for _, aggregate in aggregates)):
            raise QuestionRefused(
                "how many rows an answer rests on is private, so this error needs a size to be relative to",
                "give size=, the smallest group that matters (--size 1000)",
            )
        sizes = (1,) if size is None else (whole(size, "size", 1),)

        def good(epsilon: Fraction) -> bool:
            planned = self.measurement(question, epsilon=epsilon)
            return all(
                within(promised(planned, name, confidence, sizes), allowed, relative=relative) for name, _ in aggregates
            )

        return _least(good)

    def _epsilon(
        self, question: Question, epsilon: Number | None, error: str | Number | None, confidence: float, size: int | None
    ) -> Fraction:
        if (epsilon is None) == (error is None):
            raise BadParameter(
                "epsilon", "missing" if epsilon is None else "given", "a question has either a price or an error",
                'give epsilon=0.5, or error="5%" with a size',
            )  # fmt: skip
        if error is not None:
            return self.epsilon_for(question, error, size=size, confidence=confidence)
        assert epsilon is not None
        return positive(epsilon, "epsilon")

    def _price(self, planned: Measurement, left: Fraction | None = None) -> Price:
        kept, loss = self.account.budget, planned.loss
        spent, _ = price(kept.currency, loss)
        return Price(loss, self.delta, kept.currency, spent, kept.left if left is None else left)

    def _with_way_out(self, refused: BudgetExceeded) -> BudgetExceeded:
        fitting = epsilon_that_fits(self.account.budget, self.delta)
        return BudgetExceeded(refused.currency, asked=refused.asked, left=refused.left, fitting=fitting)


def _said(question: Question, planned: Measurement) -> str:
    """The question as text, for the reader of a quote."""
    return question if isinstance(question, str) else written(planned.bounded.query, planned.bounded.table.unit)


def read_error(error: str | Number) -> tuple[Fraction, bool]:
    """An allowed error, and whether it is relative.

    >>> read_error("5%"), read_error(20), read_error("±0.5")
    ((Fraction(1, 20), True), (Fraction(20, 1), False), (Fraction(1, 2), False))
    """
    if not isinstance(error, str):
        return positive(error, "error"), False
    text = error.strip().removeprefix("±").strip()
    try:
        found = Fraction(text.removesuffix("%").strip())
    except (ValueError, ZeroDivisionError):
        raise BadParameter("error", repr(error), "not an error", 'write "5%" or a number') from None
    return positive(found / 100 if text.endswith("%") else found, "error"), text.endswith("%")


def _least(good: Any) -> Fraction:
    """The least ε that is good, to three digits; goodness only grows with ε."""
    low, high = Fraction(0), Fraction(1)
    while not good(high):
        low, high = high, 2 * high
        if high > MOST_EPSILON:
            raise QuestionRefused(
                f"no ε up to {MOST_EPSILON} is accurate enough", "allow a larger error, or declare tighter bounds"
            )
    if low == 0:
        while high > Fraction(1, 10**9) and good(high / 2):
            high /= 2
        low = high / 2
    while high - low > high / 2000:
        middle = (low + high) / 2
        low, high = (low, middle) if good(middle) else (middle, high)
    down = rounded_down(high, 3)
    return down if good(down) else down + step_of(down, 3)


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
    for name, shown in (keys or {}).items():
        columns[name] = columns[_known(name, columns)].shown_as(tuple(shown))
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
