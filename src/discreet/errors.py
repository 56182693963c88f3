"""Every error of discreet, in one tree. Each says what is wrong and what to do, and `see` names the page about it.

DiscreetError
├── BadParameter          a scale, probability, ε, δ or sensitivity that is impossible
├── TheoremNotApplicable  a theorem was used where its hypothesis does not hold
├── BadValues             values that a mechanism cannot take (the message never shows a value)
├── BadExpression         events as text that cannot be parsed; gives the column
├── BadEventEncoding      stored bytes that are no event, or none that this version knows
├── BudgetExceeded        the cost exceeds the remaining budget; nothing was charged
├── QueryRefused          a query that is not in the language or cannot be answered safely
│   └── MissingDeclarations  what a query needs and that is not declared, all at once
├── PlanRefused           several problems of a plan.toml at once; one alone is raised as itself
├── SourceRefused         a source that cannot be opened
│   └── SourceQuarantined a source on which a query failed; only its owner can lift that
├── EngineFailed          the engine raised; the message is always the same
├── LedgerUnavailable     a ledger that cannot be opened, read or written; nothing is shown
├── LedgerCorrupted       a ledger whose chain, sums or file are inconsistent
├── NotSignedIn           a service does not know who asks, or the token may not do this
├── NotFound              a service has no such thing, or the person who asks has no grant for it
├── AskPending            a query that a service took and has not answered yet; its id fetches the answer
├── ServiceUnavailable    a service that cannot be reached, is full, or answers what is no answer
└── ServiceChanged        a service that is not the one of before: another key, or a ledger that was set back

The parts of a message are fields too: `name`, `value`, `reason`, `hint` and so on.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import inf
from shlex import quote
from typing import Any

from discreet.text import to_printable

_PAGES = {
    "docs/asking.md#what-is-declared-and-why": "unit bounds keys lower upper max_groups max_rows unique salt",
    "docs/asking.md#the-policy-file": "policy columns",
    "docs/asking.md#what-a-query-may-be": "having order_by limit query",
    "docs/asking.md#the-least-ε-of-a-query": "least_epsilon",
    "docs/asking.md#joining-a-public-table": "public",
    "docs/asking.md#state-the-error-get-the-cost": "error size pilot weights",
    "docs/choosing-epsilon.md#what-ε-means": "epsilon delta",
    "docs/asking.md#charts": "plot",
    "docs/asking.md#from-a-shell": "csv json spreadsheet",
    "docs/asking.md#a-frame-with-a-name": "name",
    "docs/asking.md#what-an-interval-means": "confidence simultaneous",
    "docs/asking.md#post-processing": "consistent non_negative integers total column",
    "docs/asking.md#asking-again": "id fresh label",
    "docs/asking.md#the-same-in-python": "progress session",
    "docs/noise.md#random-bits": "bits",
    "docs/asking.md#which-files-can-be-read": "source table",
    "docs/scale.md#spark": "path",
    "docs/scale.md#prepare-a-table-once": "output group_by",
    "docs/ledger.md#accounts": "ledger account budget currency parent",
    "docs/ledger.md#certificates": "key release answer certificate",
    "docs/ledger.md#what-a-check-finds": "head",
    "docs/guarantees.md": "neighbours relation",
    "docs/mechanisms.md#sensitivity": "sensitivity l0 l1 l2 l2_squared linf",
    "docs/publishing.md#the-plan-file": "plan questions workload",
    "docs/publishing.md#how-the-noise-is-found": "weight",
    "docs/tabulation.md#what-can-be-tabulated": "by computed margin tabulation tables where",
    "docs/hierarchies.md#publishing": "levels",
    "docs/synthesis.md#from-python": "model publication",
    "docs/publishing.md#what-is-written": "folder",
    "docs/learn.md#what-is-declared-and-why": "categories classes target_bounds expected X y target",
    "docs/learn.md#the-models": "steps clip alpha",
    "docs/learn.md#train-and-test": "score search test records",
    "docs/serve.md#from-python": "token service rows seed",
    "docs/serve.md#people-grants-and-approval": "purpose",
    "docs/auditing.md#any-function": "claim function mechanism pairs domain seconds limit workers samples report",
    "docs/auditing.md#clients-of-local-privacy": "command player right",
    "docs/auditing.md#training": "training target batches records",
    "docs/planning.md#what-can-be-planned": "n rmse cells whole queries question",
    "docs/planning.md#training-with-dp-sgd": "batch epochs",
    "docs/accounting.md#selecting-the-best-of-several-runs": "eta gamma runs",
    "docs/accounting.md#calibrate-noise-to-a-target": "times rate sigma",
}
PARAMETER_PAGES = {name: page for page, names in _PAGES.items() for name in names.split()}
"""The page that explains a parameter. The command line asks `cli.app` first: each command has a page of its own."""


class DiscreetError(Exception):
    """Any error that discreet raises on purpose. Names and keys in its message are made printable by `discreet.text`."""

    see: str = "docs/mechanisms.md#what-is-refused"

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(to_printable, lines)))

    def __reduce__(self) -> tuple[object, ...]:
        return restore_error, (type(self), self.args, vars(self))


def restore_error(kind: type[DiscreetError], args: tuple[object, ...], fields: dict[str, object]) -> DiscreetError:
    """Return a copy of an error, from its message and its fields.

    >>> restore_error(NotFound, ("No such table.",), {"reason": "No such table", "hint": ""}).reason
    'No such table'
    """
    copied = kind.__new__(kind, *args)
    copied.args = args
    vars(copied).update(fields)
    return copied


def _to_sentences(problem: str, hint: str) -> str:
    """Write what is wrong and what to do as two sentences. A hint that ends with a command gets no full stop to copy.

    >>> _to_sentences("scale is -1: must be positive", "give a scale above 0")
    'scale is -1: must be positive. Give a scale above 0.'
    >>> _to_sentences("pandas is not installed", "pip install pandas")
    'pandas is not installed. pip install pandas'
    """
    if _VERB.match(hint):
        hint = hint[0].upper() + hint[1:]
    end = "" if hint.endswith((".", "?", "!", "…")) or _COMMAND.search(hint) else "."
    return f"{problem.removesuffix('.')}. {hint}{end}"


_VERB = re.compile(r"(?!pip |discreet )[a-z]+(?=[ ,]|$)")
_COMMAND = re.compile(r"(?:^|: )(?:pip|discreet|chmod|SET) [^;]*$")


class BadParameter(DiscreetError, ValueError):
    """A public parameter is impossible.

    >>> raise BadParameter("scale", "-1", "must be positive", "give a scale above 0")
    Traceback (most recent call last):
    discreet.errors.BadParameter: scale is -1: must be positive. Give a scale above 0.

    `column` is the column whose declaration is wrong. With `is_field`, `value` is the wrong field of a file, and `file` is
    the name of that file, if it has one.
    """

    def __init__(
        self, name: str, value: object, reason: str, hint: str,
        *, column: str | None = None, is_field: bool = False, file: str = "",
    ) -> None:  # fmt: skip
        self.name, self.value, self.reason, self.hint, self.of_column = name, value, reason, hint, column
        self.see = PARAMETER_PAGES.get(name.partition(".")[0].removeprefix("--").replace("-", "_"), type(self).see)
        of = "" if column is None else f" of `{column}`"
        verb = f"{file and ' '}{file}," if is_field else f"{of} are" if of and name.endswith("s") else f"{of} is"
        wrong = f"{name}{verb} {value}" if value != "" or not is_field else f"{name}{file and ' '}{file}"  # the whole file
        super().__init__(_to_sentences(f"{wrong}: {reason}", hint))


class TheoremNotApplicable(DiscreetError, ValueError):
    """A textbook rule was used where the hypothesis of its theorem does not hold."""

    see = "docs/guarantees.md#from-one-notion-to-another"

    def __init__(self, theorem: str, hypothesis: str, hint: str) -> None:
        self.theorem, self.hypothesis, self.hint = theorem, hypothesis, hint
        super().__init__(_to_sentences(f"{theorem} is proven only for {hypothesis}", hint))


class BadValues(DiscreetError, TypeError, ValueError):
    """The values cannot be released as they are. The message never shows a value."""

    def __init__(self, problem: str, hint: str) -> None:
        self.problem, self.hint = problem, hint
        super().__init__(_to_sentences(f"The values {problem}", hint))


class BadExpression(DiscreetError, ValueError):
    """A text that describes events cannot be parsed. Columns count from 1."""

    see = "docs/accounting.md#on-the-command-line"

    def __init__(self, text: str, column: int, problem: str, hint: str) -> None:
        self.text, self.column, self.problem, self.hint = text, column, problem, hint
        message = _to_sentences(f"column {column}: {problem}", hint)
        super().__init__(message, f"  {text}", f"  {' ' * (column - 1)}^")


class BadEventEncoding(DiscreetError, ValueError):
    """Stored bytes are not an event in the form that this version writes."""

    see = "docs/ledger.md#what-a-check-finds"

    def __init__(self, problem: str, hint: str) -> None:
        self.problem, self.hint = problem, hint
        super().__init__(_to_sentences(f"This is no stored event: {problem}", hint))


DELTA_CURRENCY = "δ"
"""What partition selection and (ε, δ) claims use besides ε."""


class BudgetExceeded(DiscreetError):
    """The cost exceeds the remaining budget. Nothing was charged.

    `currency` is the symbol of what is counted: ε, ρ, … or `DELTA_CURRENCY`.
    `fitting_epsilon` is the largest ε that fits, if it is known; 0 if none does.
    `cost_epsilon` is the ε that the cost promises, where another currency is counted and it is known.
    `remaining_epsilon` is the ε that remains, where it is another than `fitting_epsilon`: a policy's least ε may forbid it.
    `limit` is the whole budget, if it is known: a cost within it is never shown as more than it.
    Three digits are shown, the cost rounded up and what remains down: so the two never look alike.

    >>> rho = {"cost": Fraction(3, 200), "remaining": Fraction(1, 100)}
    >>> raise BudgetExceeded("ρ", **rho, fitting_epsilon=Fraction(1, 2), cost_epsilon=Fraction(5, 8))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: This costs ε = 0.625, and ε = 0.5 remains (ρ = 0.015, and ρ = 0.01 remains). \
epsilon=0.5 would fit.
    """

    see = "docs/ledger.md#accounts"

    def __init__(
        self,
        currency: str,
        *,
        cost: Fraction | float,
        remaining: Fraction,
        fitting_epsilon: Fraction | None = None,
        cost_epsilon: Fraction | float | None = None,
        remaining_epsilon: Fraction | None = None,
        limit: Fraction | None = None,
        hint: str = "",
    ) -> None:
        self.currency, self.cost, self.remaining, self.fitting_epsilon = currency, cost, remaining, fitting_epsilon
        self.limit = limit
        self.cost_epsilon = cost_epsilon
        self.remaining_epsilon = fitting_epsilon if remaining_epsilon is None else remaining_epsilon
        problem = _compare_amounts(currency, cost, remaining, limit)
        if currency == DELTA_CURRENCY:
            hint = "no ε helps: declare the group keys, which costs no δ, or open an account with a larger δ"
        elif fitting_epsilon is not None:
            if currency != "ε" and cost_epsilon is not None:
                problem = f"{_compare_amounts('ε', cost_epsilon, self.remaining_epsilon or Fraction(0))} ({problem})"
            shown = _format_digits(fitting_epsilon, ROUND_FLOOR).replace(",", "")  # never above what is said to remain
            used_up = "the budget is used up" if remaining <= 0 else "nothing usable remains: less than any query can cost"
            hint = hint or (used_up if fitting_epsilon == 0 else f"epsilon={shown} would fit")
        super().__init__(_to_sentences(f"This costs {problem}", hint or "ask for less, or for a coarser answer"))


def _compare_amounts(symbol: str, cost: Fraction | float, remaining: Fraction, limit: Fraction | None = None) -> str:
    """Write a cost and what remains, with three digits: the cost rounded up, what remains down. A cost that rounds to more
    than the limit, and is not, is written as the limit is: rounded down. What remains is then less than the limit."""
    shown, left = _format_digits(cost, ROUND_CEILING), _format_digits(remaining, ROUND_FLOOR)
    if limit is not None and cost <= limit and (whole := _format_digits(limit, ROUND_FLOOR)) != left:
        shown = _format_digits(cost, ROUND_FLOOR) if _format_digits(cost, ROUND_FLOOR) == whole else shown
    return f"{symbol} = {shown}, and {symbol} = {left} remains"


def _format_digits(amount: Fraction | float, rounding: str, digits: int = 3) -> str:
    if amount == inf:
        return "inf"
    top, bottom = amount.as_integer_ratio()
    decimal = Context(prec=digits, rounding=rounding).divide(Decimal(top), Decimal(bottom)).normalize()
    if -4 <= decimal.adjusted() < 6:  # as `_numbers.format_up` shows them
        return f"{decimal:,f}"
    return f"{decimal:e}".replace("e+", "e")


class QueryRefused(DiscreetError, ValueError):
    """A query is not in the language, or cannot be answered safely. The message says where, and what to write instead."""

    see = "docs/asking.md#what-a-query-may-be"

    def __init__(
        self, reason: str, hint: str, line: int | None = None, column: int | None = None, *, parameter: str | None = None
    ) -> None:
        self.reason, self.hint, self.line, self.column = reason, hint, line, column
        if parameter is not None:  # that would make the query one that can be answered
            self.see = PARAMETER_PAGES[parameter]
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(_to_sentences(f"{where}{reason}", hint))


class PlanRefused(DiscreetError, ValueError):
    """A plan has several problems, each of which names its key. They are listed at once, before anything is charged.

    >>> problem = BadParameter("budget.epsilon", "-1", "must be positive", "give an ε above 0")
    >>> raise PlanRefused([problem, QueryRefused("questions.a.sql: no aggregate", "add a count")])
    Traceback (most recent call last):
    discreet.errors.PlanRefused: The plan has 2 problems:
      budget.epsilon is -1: must be positive. Give an ε above 0.
      questions.a.sql: no aggregate. Add a count.
    """

    see = "docs/publishing.md#the-plan-file"

    def __init__(self, problems: Sequence[DiscreetError], what: str = "The plan") -> None:
        self.problems = tuple(problems)
        lines = (f"  {line}" for problem in problems for line in str(problem).split("\n"))
        super().__init__(f"{what} has {len(problems)} problems:", *lines)


class Problems:
    """Problems that are collected, so that all of them can be listed at once.

    >>> problems = Problems()
    >>> for number in (1, -2, -3):
    ...     with problems.collect():
    ...         if number < 0:
    ...             raise BadParameter("number", number, "must not be negative", "give 0 or more")
    >>> problems.raise_all("The list")
    Traceback (most recent call last):
    discreet.errors.PlanRefused: The list has 2 problems:
      number is -2: must not be negative. Give 0 or more.
      number is -3: must not be negative. Give 0 or more.
    """

    def __init__(self, found: Iterable[DiscreetError] = ()) -> None:
        self.found = list(found)

    def add(self, *problem: Any) -> None:
        """Add a parameter that is wrong: its name, its value, the reason, and what to do."""
        self.found.append(BadParameter(*problem))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep what the body refuses, and go on after it."""
        try:
            yield
        except PlanRefused as refused:
            self.found += refused.problems
        except DiscreetError as problem:
            self.found.append(problem)

    @contextmanager
    def collect_new(self) -> Iterator[None]:
        """Keep what the body refuses, unless it was said before, and go on after it."""
        found, said = Problems(), {str(each) for each in self.found}
        with found.collect():
            yield
        self.found += [each for each in {str(each): each for each in found.found}.values() if str(each) not in said]

    def raise_all(self, what: str = "The plan") -> None:
        """Raise one problem as it is, several as `PlanRefused`; nothing if there is none."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise PlanRefused(self.found, what)


class MissingDeclarations(QueryRefused, BadParameter):
    """All that a query needs and that was not declared, with one command to fill in. No value of the data is in it.

    `missing` are the names of the parameters, and `command` is what to fill in, at the words in capitals. It is empty, and
    `hint` says what to do, where another person declares them: the policy of a service is its steward's.
    """

    see = "docs/asking.md#all-that-is-missing"

    def __init__(
        self, problem: str, missing: tuple[str, ...], command: str, alternatives: Iterable[str] = (), details: object = None,
        *, hint: str | None = None,
    ) -> None:  # fmt: skip
        self.missing, self.command, self.details = missing, command, details
        self.name, self.value = ", ".join(missing), "missing"
        self.reason, self.line, self.column = problem, None, None
        self.hint = "fill in the words in capitals" if hint is None else hint
        if hint is not None:
            DiscreetError.__init__(self, _to_sentences(problem, hint), *alternatives)
            return
        first = f"{problem.removesuffix('.')}. Fill in the words in capitals, from what you know and not from the data:"
        DiscreetError.__init__(self, first, f"  {command}", *alternatives)


class SourceRefused(DiscreetError):
    """A source cannot be opened. `for_owner` are lines that only the data owner may read."""

    see = "docs/asking.md#which-files-can-be-read"

    def __init__(self, reason: str, hint: str, *for_owner: str, parameter: str | None = None) -> None:
        self.reason, self.hint, self.for_owner = reason, hint, for_owner
        if parameter is not None:  # that names the file
            self.see = PARAMETER_PAGES[parameter]
        super().__init__(_to_sentences(reason, hint), *(f"  {line}" for line in for_owner))


class SourceQuarantined(SourceRefused):
    """A query failed on this source. The message is the same whatever failed: the kind of failure may depend on a row.

    >>> raise SourceQuarantined("people.csv", "hr.ledger")
    Traceback (most recent call last):
    discreet.errors.SourceQuarantined: The source 'people.csv' is quarantined because a query failed on it. The data owner \
must read the owner's log (the file that DISCREET_OWNER_LOG names), correct the source, and lift the quarantine \
with: discreet source lift people.csv --ledger hr.ledger
    """

    see = "docs/ledger.md#quarantine"

    def __init__(self, source: str, ledger: str | None = None) -> None:
        self.source, self.ledger = source, ledger
        where = "" if ledger is None else f" --ledger {quote(ledger)}"
        super().__init__(
            f"The source {source!r} is quarantined because a query failed on it",
            "The data owner must read the owner's log (the file that DISCREET_OWNER_LOG names), correct the source, and "
            f"lift the quarantine with: discreet source lift {quote(source)}{where}",
        )


class EngineFailed(DiscreetError):
    """The engine raised. Its own message may quote a value of the data, so it goes to the owner's log only."""

    see = "docs/asking.md#what-is-not-hidden"

    def __init__(self) -> None:
        super().__init__(
            "The query failed after the budget was charged. Retrying it, with the same id= if it had one, is free. Details "
            "are in the owner's log (the file that DISCREET_OWNER_LOG names)."
        )


@contextmanager
def raise_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where DuckDB raises an error of its own in its place.

    While a statement runs, DuckDB calls the handlers of signals itself, and drops the exception that one of them raises.

    >>> try:
    ...     with raise_interrupts():
    ...         raise RuntimeError("Query interrupted")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


class LedgerUnavailable(DiscreetError):
    """A ledger cannot be opened, read or written. Nothing is shown, and no debit is refunded.

    `make_at` is the path at which there is none, and one can be made.
    """

    see = "docs/ledger.md#reserve-run-record"

    def __init__(self, where: str, reason: str, hint: str, *, make_at: str | None = None) -> None:
        self.where, self.reason, self.hint, self.make_at = where, reason, hint, make_at
        super().__init__(_to_sentences(f"ledger {where}: {reason}", hint))


class LedgerCorrupted(DiscreetError):
    """A ledger is inconsistent: its file, its chain or its sums were changed by another program or by a fault."""

    see = "docs/ledger.md#what-a-check-finds"

    def __init__(self, where: str, problem: str, hint: str = "restore it, and compare it with a signed head") -> None:
        self.where, self.problem, self.hint = where, problem, hint
        super().__init__(_to_sentences(f"ledger {where}: {problem}", hint))


class NotSignedIn(DiscreetError):
    """A service does not know who asks, or the token may not do this.

    >>> raise NotSignedIn("https://data.example/people: no token", "sign in: discreet login https://data.example/people")
    Traceback (most recent call last):
    discreet.errors.NotSignedIn: https://data.example/people: no token. Sign in: discreet login https://data.example/people
    """

    see = "docs/serve.md#signing-in"

    def __init__(self, reason: str, hint: str) -> None:
        self.reason, self.hint = reason, hint
        super().__init__(_to_sentences(reason, hint))


class NotFound(DiscreetError, LookupError):
    """A service has no such table, ask or account; or it has, and the person who asks has no grant for it. The message is
    the same for both."""

    see = "docs/serve.md#what-a-service-refuses"

    def __init__(self, reason: str, hint: str) -> None:
        self.reason, self.hint = reason, hint
        super().__init__(_to_sentences(reason, hint))


class AskPending(DiscreetError):
    """A service took a query and has not answered it yet: its moment has not come, or a steward must approve it.

    Asking again with `id` fetches the answer and charges nothing twice. `state` is where the ask is.
    """

    see = "docs/serve.md#what-a-service-refuses"

    def __init__(self, id: str, state: str, hint: str = "") -> None:
        self.id, self.state, self.hint = id, state, hint or f"ask again later with id={id!r}, which is not charged twice"
        super().__init__(_to_sentences(f"The query has no answer yet: it is {state}", self.hint))


class ServiceUnavailable(DiscreetError):
    """A service cannot be reached, is full, or answers what is no answer. `retry_after` are the seconds to wait, if it said.

    >>> raise ServiceUnavailable("https://data.example: the connection was lost", "try again later")
    Traceback (most recent call last):
    discreet.errors.ServiceUnavailable: https://data.example: the connection was lost. Try again later.
    """

    see = "docs/serve.md#what-a-service-refuses"

    def __init__(self, reason: str, hint: str, *, retry_after: float | None = None) -> None:
        self.reason, self.hint, self.retry_after = reason, hint, retry_after
        super().__init__(_to_sentences(reason, hint))


class ServiceChanged(DiscreetError):
    """A service is not the one of before: it has another key or ledger, or its ledger was set back, so that debits are
    forgotten. Nothing that it sent is shown."""

    see = "docs/serve.md#pinned-services"

    def __init__(self, service: str, reason: str, hint: str) -> None:
        self.service, self.reason, self.hint = service, reason, hint
        super().__init__(_to_sentences(f"{service}: {reason}", hint))
