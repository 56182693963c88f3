"""Every error of discreet, in one tree. Each names the thing, the reason and the way out, and `see` is the page about it.

DiscreetError
├── BadParameter         a scale, probability, ε, δ or sensitivity that makes no sense
├── TheoremNotApplicable      a theorem was asked for outside the range where it holds
├── BadValues            values that a mechanism cannot take (the message never shows a value)
├── BadExpression        a ledger written as text that cannot be read; says at which column
├── BadEventEncoding              stored bytes that are no fact, or none that this version knows
├── BudgetExceeded       a release costs more than what is left
├── QueryRefused      a question that is not in the language or cannot be answered safely
├── SourceRefused        a source that cannot be opened
│   └── SourceQuarantined    a source on which a query failed; only its owner opens it again
├── EngineFailed         the engine raised; one constant message
├── LedgerUnavailable         a ledger that cannot be opened, read or written; nothing is shown
└── LedgerCorrupted         a ledger whose chain, sums or file do not hold together
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import inf, nextafter
from typing import ClassVar

from discreet.text import to_printable


class DiscreetError(Exception):
    """Whatever discreet raises on purpose. Names and keys in a message are shown as `discreet.text` shows them."""

    see: ClassVar[str] = "docs/mechanisms.md#what-is-refused"

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(to_printable, lines)))


class BadParameter(DiscreetError, ValueError):
    """A public parameter is impossible.

    >>> raise BadParameter("scale", "-1", "must be positive", "give a scale above 0")
    Traceback (most recent call last):
    discreet.errors.BadParameter: scale is -1: must be positive; give a scale above 0
    """

    def __init__(self, name: str, value: object, reason: str, hint: str) -> None:
        self.name, self.value, self.reason, self.hint = name, value, reason, hint
        super().__init__(f"{name} is {value}: {reason}; {hint}")


class TheoremNotApplicable(DiscreetError, ValueError):
    """A textbook rule was asked for where its theorem is silent."""

    see = "docs/readings.md#from-one-notion-to-another"

    def __init__(self, theorem: str, hypothesis: str, hint: str) -> None:
        self.theorem, self.hypothesis, self.hint = theorem, hypothesis, hint
        super().__init__(f"{theorem} holds only if {hypothesis}; {hint}")


class BadValues(DiscreetError, TypeError, ValueError):
    """The values cannot be released as they are. The values themselves are never shown."""

    def __init__(self, problem: str, hint: str) -> None:
        self.problem, self.hint = problem, hint
        super().__init__(f"the values {problem}; {hint}")


class BadExpression(DiscreetError, ValueError):
    """A text that describes releases cannot be read. Columns count from 1."""

    see = "docs/accounting.md#on-the-command-line"

    def __init__(self, text: str, column: int, problem: str, hint: str) -> None:
        self.text, self.column, self.problem, self.hint = text, column, problem, hint
        super().__init__(f"column {column}: {problem}; {hint}", f"  {text}", f"  {' ' * (column - 1)}^")


class BadEventEncoding(DiscreetError, ValueError):
    """Stored bytes are not a fact in the form that this version writes."""

    see = "docs/ledger.md#what-a-check-finds"

    def __init__(self, problem: str, hint: str) -> None:
        self.problem, self.hint = problem, hint
        super().__init__(f"this is no stored fact: {problem}; {hint}")


DELTA_CURRENCY = "δ for leaks"
"""What selecting unknown keys and (ε, δ) claims use up besides ε."""


class BudgetExceeded(DiscreetError):
    """A release does not fit. Nothing was spent."""

    see = "docs/ledger.md#accounts"

    def __init__(
        self, currency: str, *, cost: Fraction | float, remaining: Fraction, fitting_epsilon: Fraction | None = None
    ) -> None:
        self.currency, self.cost, self.remaining, self.fitting_epsilon = currency, cost, remaining, fitting_epsilon
        if currency == DELTA_CURRENCY:
            hint = "no ε helps: use less δ (listed keys need none), or open an account with more"
        elif fitting_epsilon is None:
            hint = "ask for less, or for a coarser answer"
        elif fitting_epsilon == 0:
            hint = "the budget is used up"
        else:
            hint = f"epsilon={_round_down_as_written(fitting_epsilon)!r} would fit"
        cost_text, remaining_text = _format_apart(cost, remaining)
        super().__init__(f"this costs {cost_text} ({currency}) but {remaining_text} is left; {hint}")


def _round_down_as_written(exact: Fraction) -> float:
    """The largest double whose shortest decimal, at which an ε is read, is not above `exact`."""
    nearest = float(exact)
    return nearest if Fraction(repr(nearest)) <= exact else nextafter(nearest, 0)


def _format_apart(cost: Fraction | float, remaining: Fraction) -> tuple[str, str]:
    """Both amounts as decimals, with as many digits as tell them apart."""
    for digits in range(9, 41):
        shown = _format_digits(cost, digits), _format_digits(remaining, digits)
        if shown[0] != shown[1]:
            break
    return shown


def _format_digits(amount: Fraction | float, digits: int) -> str:
    if amount == inf:
        return "inf"
    top, bottom = amount.as_integer_ratio()
    found = Context(prec=digits).divide(Decimal(top), Decimal(bottom)).normalize()
    return f"{found:f}" if -6 <= found.adjusted() < digits else f"{found:e}"


class QueryRefused(DiscreetError, ValueError):
    """A question that is not in the language, or cannot be answered safely. It says where and what to write instead."""

    see = "docs/asking.md#what-a-question-may-be"

    def __init__(self, reason: str, hint: str, line: int | None = None, column: int | None = None) -> None:
        self.reason, self.hint, self.line, self.column = reason, hint, line, column
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{where}{reason}; {hint}")


class SourceRefused(DiscreetError):
    """A source that cannot be opened. `for_owner` are lines that only the data owner may read."""

    see = "docs/asking.md#what-is-declared-as-a-file"

    def __init__(self, reason: str, hint: str, *for_owner: str) -> None:
        self.reason, self.hint, self.for_owner = reason, hint, for_owner
        super().__init__(f"{reason}; {hint}", *(f"  {line}" for line in for_owner))


class SourceQuarantined(SourceRefused):
    """A query failed on this source. The message is the same whatever failed: the kind of failure may depend on a row.

    >>> raise SourceQuarantined("people.csv")
    Traceback (most recent call last):
    discreet.errors.SourceQuarantined: The source 'people.csv' is quarantined because a query failed on it. The data owner \
must read the owner's log (the file that DISCREET_OWNER_LOG names), correct the source, and lift the quarantine \
with: discreet source lift SOURCE
    """

    see = "docs/ledger.md#quarantine"

    def __init__(self, source: str) -> None:
        self.source = source
        super().__init__(f"The source {source!r} is quarantined because a query failed on it", _LIFT_HINT)

    def __str__(self) -> str:
        return f"{self.reason}. {self.hint}"


_LIFT_HINT = (
    "The data owner must read the owner's log (the file that DISCREET_OWNER_LOG names), correct the source, and lift the "
    "quarantine with: discreet source lift SOURCE"
)


class EngineFailed(DiscreetError):
    """The engine raised. Its own words may hold somebody's value, so they go to the owner's log only."""

    see = "docs/asking.md#what-is-not-hidden"

    def __init__(self) -> None:
        super().__init__(
            "the engine could not answer, and what was paid stays paid; the data owner's log (the file that "
            "DISCREET_OWNER_LOG names) says why, and asking the same again, with its id= if it had one, costs nothing more"
        )


class LedgerUnavailable(DiscreetError):
    """A ledger cannot be opened, read or written. Nothing is shown; what was debited stays debited."""

    see = "docs/ledger.md#pay-look-record"

    def __init__(self, where: str, reason: str, hint: str) -> None:
        self.where, self.reason, self.hint = where, reason, hint
        super().__init__(f"ledger {where}: {reason}; {hint}")


class LedgerCorrupted(DiscreetError):
    """A ledger does not hold together: somebody or something changed it."""

    see = "docs/ledger.md#what-a-check-finds"

    def __init__(self, where: str, problem: str, hint: str = "restore it, and compare it with a signed head") -> None:
        self.where, self.problem, self.hint = where, problem, hint
        super().__init__(f"ledger {where}: {problem}; {hint}")
