"""Numbers, moments and budgets as people read them on pages. What is spent is rounded up, what remains is rounded down.

A budget is never stated alone: what an analyst has stands in one sentence with what everybody has together, because the
second is what is promised to the people in the data.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, isfinite
from typing import Any
from urllib.parse import quote

from discreet._numbers import format_down, format_up, to_rational
from discreet.accounting.cost import Cost, format_at, format_percent_up
from discreet.accounting.currencies import Currency, smallest_epsilon
from discreet.errors import BadParameter, DiscreetError
from discreet.query.calibrate import ColumnAccuracy
from discreet.query.estimates import SHARE_OF_ROWS
from discreet.query.schema import Table
from discreet.serve.control.model import AskState, Snapshot
from discreet.serve.schedule import format_duration

SMALL_QUESTIONS = "Small questions use up less of a budget than their ε suggests; the bars show what counts."
STATES = {
    AskState.APPROVAL: "A steward must approve it. Nothing is charged before.",
    AskState.WAITING: "It waits for a worker.",
    AskState.RUNNING: "It is being answered. The answer is shown at a fixed time, whatever the data hold.",
    AskState.ANSWERED: "Answered.",
    AskState.FAILED: "It failed after it was charged. Asking it again costs nothing.",
    AskState.REFUSED: "It was refused. Nothing was charged.",
    AskState.DECLINED: "A steward declined it. Nothing was charged.",
    AskState.WITHDRAWN: "It was withdrawn. Nothing was charged.",
}


@dataclass(frozen=True, slots=True)
class BudgetWords:
    """An account as a page shows it."""

    account: str
    remaining: str  # ε, rounded down
    limit: str
    at: str  # the δ, as in " at δ = 1e-9"
    spent_percent: float
    spent_words: str
    remaining_words: str

    @property
    def sentence(self) -> str:
        """What remains of it: "ε = 1.2 of 2 remaining at δ = 1e-9, 40% spent"."""
        return f"ε = {self.remaining} of {self.limit} remaining{self.at}, {self.spent_words} spent"


@lru_cache(maxsize=2_000)
def describe_snapshot(snapshot: Snapshot) -> BudgetWords:
    """Return an account in words. Kept by its value: finding an ε is a search."""
    budget, delta = snapshot.budget, Fraction(snapshot.delta)
    currency, share = budget.currency, budget.spent / budget.limit
    exact = budget.remaining if currency.counts_epsilon else budget.fitting_epsilon(delta)
    limit = smallest_epsilon(currency, budget.limit, delta)
    return BudgetWords(
        snapshot.account, format_down(max(exact, Fraction(0)), 3), format_up(limit, 3), format_at(delta),
        round(100 * float(share), 2), format_percent_up(share), f"{floor(100 * (1 - share))}%",
    )  # fmt: skip


def state_budgets(own: BudgetWords, root: BudgetWords, of: str | None = None) -> str:
    """State what an analyst has and what everybody has together, in one sentence. `of` names whose account it is, if it is
    not the reader's."""
    if own.account == root.account:
        return f"Everybody together has {root.sentence}."
    has = "You have" if of is None else f"{of} has"
    return f"{has} {own.sentence}; everybody together has {root.sentence}."


def format_epsilon(value: Any) -> str:
    """Return an ε with three digits, rounded up. Exact rationals are texts such as "1/10".

    >>> format_epsilon("1/3"), format_epsilon(0.5)
    ('0.334', '0.5')
    """
    exact = Fraction(value) if isinstance(value, str | int | Fraction) else value
    return format_up(exact, 3) if isfinite(exact) else "∞"


@lru_cache(maxsize=2_000)
def format_cost(cost: Cost) -> str:
    """Return the ε of a cost at its δ, rounded up."""
    return f"{format_cost_short(cost)}{format_at(cost.delta)}"


@lru_cache(maxsize=2_000)
def format_cost_short(cost: Cost) -> str:
    """Return the ε of a cost, for a button: what the amount that is charged promises.

    It is the ε that rules compare, that a refusal names, and that what remains is stated in. The certified ε of the query
    alone may be less; it is in the notes of a quote, and in the certificate.
    """
    if not isfinite(cost.amount):
        return "ε = ∞"
    return f"ε = {format_epsilon(smallest_epsilon(cost.currency, to_rational(cost.amount), cost.delta))}"


def format_share(share: Fraction | float) -> str:
    """Return a share in percent, rounded up.

    >>> format_share(0.25), format_share(Fraction(131))
    ('25%', 'more than all')
    """
    return format_percent_up(Fraction(share)) if share <= 1 else "more than all"


def explain_shares(currency: Currency) -> str:
    """Say why the ε of questions do not add up to what is spent; nothing where they do."""
    return "" if currency.counts_epsilon else SMALL_QUESTIONS


def format_half_width(value: float, unit: str = "") -> str:
    """Return a half-width with three digits, rounded up, and its unit. Only that of a count is ever 0.

    >>> format_half_width(12.01, "rows"), format_half_width(12345.2), format_half_width(0.02, "of the rows")
    ('12.1 rows', '12,346', '2% of the rows')
    >>> format_half_width(0, "rows")
    '0 rows: this ε leaves hardly any noise'
    """
    if not isfinite(value):
        return "any value"
    if unit == SHARE_OF_ROWS:
        return f"{format_up(100 * value, 3)}% {unit}"
    if value == 0:
        return f"0 {unit}".rstrip() + ": this ε leaves hardly any noise"
    number = f"{ceil(value):,}" if value >= 100 else format_up(value, 3)
    return f"{number} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class AccuracyWords:
    """How far off a column may be: outright, or over so many rows."""

    column: str
    lines: tuple[tuple[str, str], ...]  # half-width with its sign, and the size it holds for
    counts_ranks: bool = False  # whether it is a share of the rows: how far off the rank is, not the value


def describe_accuracy(column: ColumnAccuracy, unit: str) -> AccuracyWords:
    """Return the half-widths of a column. `unit` is what the column counts; the error of others is in their own unit."""
    shown = column.unit or unit
    counts_ranks = shown == SHARE_OF_ROWS
    sign = "rank ±" if counts_ranks else "±"
    return AccuracyWords(
        column.column,
        tuple(
            (f"{sign} {format_half_width(value, shown)}", "" if size is None else f"at {size:,} rows")
            for size, value in column.half_widths
        ),
        counts_ranks,
    )


def describe_unit(table: Table) -> str:
    """Say what is protected, with the unit's own name."""
    if not table.unit_columns:
        return "Each row is one person; this is an assumption of the owner."
    unit = table.unit
    if table.unique:
        return f"One row per {unit}. What is protected is everything that one {unit} contributes: its row."
    groups, rows = table.max_groups, table.max_rows
    return (
        f"One {unit} may have many rows. At most {groups:,} group{'s' * (groups != 1)} and {rows:,} row{'s' * (rows != 1)} "
        f"in each count; the rest of its rows do not."
    )


def describe_neighbours(neighbours: str, table: Table) -> str:
    """Say which difference of two tables is hidden. Who has the relation's name of the field reads it, too.

    >>> from discreet.query.policy import read_policy
    >>> table = read_policy('table = "t"\\nunit = "id"\\n[columns.id]\\nkind = "integer"')
    >>> describe_neighbours("add-remove", table)
    'telling whether one id is in the table (add-remove)'
    """
    unit = table.unit if table.unit_columns else "row"
    told = f"telling whether one {unit} is in the table" if neighbours == "add-remove" else f"telling what one {unit} holds"
    return f"{told} ({neighbours})"


def format_bound(value: Any) -> str:
    """Return a declared bound as it is written in a policy."""
    if isinstance(value, Fraction):
        return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):g}"
    return str(value)


def describe_declared(column: Any) -> str:
    """Return what is declared of a column beside its kind."""
    parts = []
    if column.lower is not None and column.upper is not None:
        parts.append(f"{format_bound(column.lower)} to {format_bound(column.upper)}")
    if column.keys is not None:
        shown = ", ".join("NULL" if key is None else str(key) for key in column.keys[:12])
        parts.append(shown + (f" and {len(column.keys) - 12:,} more" if len(column.keys) > 12 else ""))
    return "; ".join(parts) or "nothing"


def format_moment(seconds: float | None) -> str:
    """Return a moment in UTC.

    >>> format_moment(0.0)
    '1 Jan 1970, 00:00 UTC'
    """
    if seconds is None:
        return "never"
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def format_bytes(count: int) -> str:
    """Return a size of a disk, rounded down.

    >>> format_bytes(12_345_678_901), format_bytes(999_999)
    ('12.3 GB', '0 GB')
    """
    return f"{format_down(Fraction(count, 10**9), 3) if count >= 10**7 else 0} GB"


def format_seconds(seconds: float) -> str:
    """Return a duration in words.

    >>> format_seconds(5.0), format_seconds(0.05), format_seconds(120.0)
    ('5 s', '50 ms', '2 m')
    """
    text = format_duration(seconds)
    cut = next(i for i, letter in enumerate(text) if letter.isalpha())
    return f"{text[:cut]} {text[cut:]}"


def split_figures(text: str) -> list[tuple[bool, str]]:
    """Split a text into figures such as "δ = 1e-9", which no line shall break, and the rest.

    >>> split_figures("You have ε = 2.9 of 3 at δ = 1e-9.")
    [(False, 'You have '), (True, 'ε = 2.9'), (False, ' of 3 at '), (True, 'δ = 1e-9.')]
    """
    parts = re.split(r"([εδρ] = [^\s,;]+)", text)
    return [(i % 2 == 1, part) for i, part in enumerate(parts) if part]


def drop_parameters(text: str) -> str:
    """Return a verdict without its advice to callers of Python.

    >>> drop_parameters("whether the ledger charged for it (give ledger=)")
    'whether the ledger charged for it'
    """
    return re.sub(r" \(give \w+=\)", "", text)


FIELD_NAMES = {
    "epsilon_per_ask": "ε per question", "epsilon_per_day": "ε per person and day", "epsilon": "ε",
    "ration": "ε per student", "templates": "The template", "id": "The short name", "email": "The e-mail address",
    "days": "The number of days", "rows": "The number of people", "title": "The title", "table": "The table",
    "role": "The role",
}  # fmt: skip
"""What the fields of forms are called on pages, by the parameter that a refusal names."""


def describe_refusal(error: DiscreetError) -> str:
    """Return why a form is refused, with the name that its field has on the page.

    >>> describe_refusal(BadParameter("epsilon_per_ask", "'x'", "not a number", "write one such as 0.1"))
    "ε per question is 'x': not a number. Write one such as 0.1."
    """
    if not isinstance(error, BadParameter) or error.name not in FIELD_NAMES:
        return str(error)
    return f"{FIELD_NAMES[error.name]}{str(error).removeprefix(error.name)}"


def quote_path(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(str(text), safe="")
