"""What was spent when, and what that guarantees so far.

The control database knows the asks that were charged and the publications; their amounts, in the currency of the account,
are the steps of the history. It ends at what the ledger says is spent: what happened before the first step that is known
(asks by other tokens, opening) is where the line begins.

**Two figures of ε.** The *guarantee so far* is the ε of the sum in the account's currency. It holds whatever was chosen
after which answer, and it is what the filter limits. The *certified curve* of the same events is often smaller, but is a
report: it holds for questions that were all fixed in advance (decision 2). So it is never compared with a budget. It is
computed only on request, and only if the event of every debit is known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from discreet._numbers import format_up
from discreet.accounting.cost import format_percent_up
from discreet.accounting.currencies import Filter, certified_epsilon
from discreet.events import compose
from discreet.remote.wire import event_from_wire
from discreet.serve.control.model import Ask, AskState, PublicationState, Snapshot
from discreet.serve.control.store import Control

MAX_STEPS = 200
"""Of a history. What is older is where it begins."""
MAX_EVENTS = 100
"""Of a report: the curve of many different events takes long."""
MAX_LISTED = 20
NOTHING = Fraction(1, 10**6)
"""A share that is left over because a ledger rounds what it charges."""
WIDTH, HEIGHT = 600, 120


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was charged."""

    at: float
    amount: Fraction
    account: str
    text: str
    address: str


@dataclass(frozen=True, slots=True)
class Line:
    """A step as the table of a history shows it."""

    at: float
    text: str
    address: str
    share: str
    total: str


@dataclass(frozen=True, slots=True)
class History:
    """The history of an account: a chart of steps, and its last steps as a table."""

    account: str
    path: str  # of the chart, in an SVG of WIDTH × HEIGHT
    most: str  # the share at the top of the chart
    first: float
    last: float
    sentence: str
    lines: tuple[Line, ...]
    left_out: int


def list_steps(control: Control, person: str | None) -> list[Step]:
    """Return what was charged, oldest first: for a person, or for everybody."""
    found = list[Step]()
    for state in (AskState.ANSWERED, AskState.FAILED):
        for ask in control.list_asks(person=person, state=state, limit=MAX_STEPS).items:
            if not ask.is_free:
                at = ask.accepted_at if ask.answered_at is None else ask.answered_at
                found.append(Step(at, read_amount(ask.cost), ask.account, ask.query, f"/a/{ask.id}"))
    for each in control.list_publications(state=PublicationState.PUBLISHED, limit=MAX_STEPS).items:
        grant = control.find_grant(each.by, each.table)
        if grant is not None and person in (None, each.by):
            cost = (each.quote or {}).get("cost") or {}
            found.append(Step(each.created, read_amount(cost), grant.account, each.title, f"/p/{each.id}"))
    return sorted(found, key=lambda each: each.at)[-MAX_STEPS:]


def read_amount(cost: dict[str, Any]) -> Fraction:
    """Return what a cost amounts to in the currency of its account; 0 if that cannot be read."""
    try:
        return Fraction(str(cost.get("amount", 0)))
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def make_history(snapshot: Snapshot, steps: Iterable[Step]) -> History | None:
    """Return the history of an account and of those under it; None if nothing is known of it."""
    name, limit, spent = snapshot.account, Fraction(snapshot.limit), Fraction(snapshot.spent)
    own = [each for each in steps if each.account == name or each.account.startswith(f"{name}/")]
    if not own or limit <= 0:
        return None
    unexplained = spent - sum((each.amount for each in own), Fraction(0))
    total = unexplained if unexplained > limit * NOTHING else Fraction(0)
    start, points, lines = total, list[tuple[float, Fraction]](), list[Line]()
    for step in own:
        total = min(total + step.amount, spent)
        points.append((step.at, total / limit))
        share = format_percent_up(step.amount / limit)
        lines.append(Line(step.at, step.text, step.address, share, format_percent_up(total / limit)))
    top = _round_top(max(share for _, share in points))
    sentence = (
        f"{len(own)} charged question{'s' * (len(own) != 1)}; {format_percent_up(start / limit)} spent before the first, "
        f"{format_percent_up(total / limit)} after the last."
    )
    return History(
        name, _draw(points, start / limit, top), f"{100 * float(top):g}%", own[0].at, own[-1].at, sentence,
        tuple(reversed(lines[-MAX_LISTED:])), max(0, len(lines) - MAX_LISTED),
    )  # fmt: skip


def _round_top(share: Fraction) -> Fraction:
    """Return the share at the top of a chart.

    >>> [str(_round_top(Fraction(each))) for each in ("0.004", "0.11", "0.6", "1")]
    ['1/100', '1/5', '1', '1']
    """
    tops = (Fraction(each, 100) for each in (1, 2, 5, 10, 20, 50, 100))
    return next((each for each in tops if share <= each), Fraction(1))


def _draw(points: Sequence[tuple[float, Fraction]], start: Fraction, top: Fraction) -> str:
    """Return the steps as a path: right to a moment, then up by what was charged. Charges of one moment are one step."""
    first, last = points[0][0], points[-1][0]
    long = max(last - first, 1e-9)

    def place(share: Fraction) -> str:
        return f"{HEIGHT * (1 - float(share / top)):.1f}"

    parts = [f"M0 {place(start)}"]
    for at, share in points:
        across = 0.04 * WIDTH + 0.9 * WIDTH * (at - first) / long if last > first else WIDTH / 2
        parts.append(f"H{across:.1f}V{place(share)}")
    return "".join([*parts, f"H{WIDTH}"])


# What is guaranteed


@lru_cache(maxsize=2_000)
def state_so_far(snapshot: Snapshot) -> str:
    """Return the ε that everything charged so far guarantees together, rounded up. It holds for adaptive choices."""
    spent, delta_spent = Fraction(snapshot.spent), Fraction(snapshot.delta_spent)
    if not spent and not delta_spent:
        return "0"
    return format_up(Filter(snapshot.budget.currency, spent, delta_spent).epsilon(Fraction(snapshot.delta)), 3)


@dataclass(frozen=True, slots=True)
class Report:
    """The certified curve of an account's events at its δ, or why there is none."""

    account: str
    epsilon: str | None
    text: str


def make_report(control: Control, snapshot: Snapshot) -> Report:
    """Return the certified ε of everything that was charged to an account and to those under it."""
    name = snapshot.account
    debits = sum(
        each.debits for each in control.list_snapshots() if each.account == name or each.account.startswith(f"{name}/")
    )
    events = tuple(_list_events(control, name))
    if debits > MAX_EVENTS or len(events) > MAX_EVENTS:
        return Report(name, None, f"There are more than {MAX_EVENTS} debits, too many to certify here.")
    if len(events) != debits:
        why = f"The events of {len(events)} of {debits} debits are known here: failed questions and publications are not."
        return Report(name, None, why)
    if not events:
        return Report(name, "0", "Nothing was charged.")
    why = "It holds for these questions as if all had been fixed before the first answer."
    return Report(name, _certify(tuple(sorted(events)), snapshot.delta), why)


def _list_events(control: Control, account: str) -> Iterable[bytes]:
    """Return the encoded event of each answer that was charged to an account or to one under it."""
    asks = control.list_asks(state=AskState.ANSWERED, limit=MAX_STEPS, with_answers=True).items
    for ask in asks:
        event = _find_event(ask)
        if not ask.is_free and (ask.account == account or ask.account.startswith(f"{account}/")) and event is not None:
            yield event


def _find_event(ask: Ask) -> bytes | None:
    event = (ask.answer or {}).get("event")
    return msgspec.json.encode(event, order="deterministic") if isinstance(event, dict) else None


@lru_cache(maxsize=200)
def _certify(events: tuple[bytes, ...], delta: str) -> str:
    """Return the certified ε of encoded events, rounded up. Kept by value: the curve takes long."""
    return format_up(
        certified_epsilon(compose(*(event_from_wire(msgspec.json.decode(each)) for each in events)), Fraction(delta)).upper,
        3,
    )
