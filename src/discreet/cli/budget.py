"""`discreet budget`: spent, left, entries, a bar; and the certified ε of what was spent, as a report."""

from collections import Counter
from typing import Any

from discreet import codec
from discreet._numbers import Bounds, ceil_float, floor_float, format_down, format_up
from discreet.accounting.cost import Cost
from discreet.cli.output import print_json, print_line, print_styled
from discreet.events import Event, compose, repeat
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.certificate import compute_epsilon_spent
from discreet.ledger.chain import Ledger

MAX_EVENT_KINDS = 500
"""With more kinds of facts than this the report is read from the sum alone, which is quick and larger."""


def run(place: str, account: str | None, *, as_json: bool) -> None:
    """Print every account, or one."""
    ledger = open_ledger(place)
    chosen = ledger.list_accounts() if account is None else (ledger.get_account(account).state,)
    shown = [(each, compute_spending(ledger, each)) for each in chosen]
    if as_json:
        print_json({"accounts": [_to_dict(each, price) for each, price in shown]})
        return
    for each, price in shown:
        print_styled(f"{each.name}  {_format_bar(each)}", "bold")
        for line in _format_lines(each, price):
            print_styled(f"  {line}", "")
    if not shown:
        print_line("no account is open; discreet ledger open makes one")


def compute_spending(ledger: Ledger, account: AccountState) -> Cost:
    """What was spent: the sum that counts, and the certified ε of all that was paid from it, which is only a report."""
    kept = account.budget
    below = {each.name for each in ledger.list_accounts() if account.name in {above.name for above in each.lineage}}
    with ledger.store.read_transaction() as pages:
        counts = Counter[bytes]()
        for name in sorted(below):
            counts.update(pages.read_event_counts(name, MAX_EVENT_KINDS + 1))
    reading: Event | Bounds = Bounds(0.0, compute_epsilon_spent(account, kept.spent, kept.delta_spent))
    if len(counts) <= MAX_EVENT_KINDS:
        reading = compose(*(repeat(codec.decode(facts), times) for facts, times in counts.items()))
    return Cost(reading, account.delta, kept.currency, kept.spent, kept.remaining)


def _to_dict(account: AccountState, price: Cost) -> dict[str, Any]:
    kept = account.budget
    return {
        "account": account.name,
        "parent": account.parent.name if account.parent else None,
        "entries": account.debits,
        "whose": account.privacy_unit or None,
        "limit": floor_float(kept.limit),
        "leak": {"limit": floor_float(kept.delta_limit), "left": floor_float(kept.delta_remaining)},
        "price": price.to_dict(),
    }


def _format_lines(account: AccountState, price: Cost) -> list[str]:
    kept, unit = account.budget, account.budget.currency.name
    lines = [
        f"spent {format_up(kept.spent, 6)} of {format_down(kept.limit, 6)} ({unit}), {format_down(kept.remaining, 6)} left, "
        f"{account.debits} entr{'y' if account.debits == 1 else 'ies'}"
    ]
    if kept.delta_limit:
        lines.append(
            f"δ for selections and claims: {format_down(kept.delta_remaining, 3)} of {format_down(kept.delta_limit, 3)} left"
        )
    if account.privacy_unit:
        lines.append(f"speaks of: {account.privacy_unit}")
    if account.parent:
        lines.append(f"capped by {account.parent.name}: {format_down(account.parent.budget.remaining, 6)} left there")
    failing = f" at δ = {format_up(account.delta, 3)}" if account.delta else ""
    lines.append(
        f"report: what was spent is certified as ε ≤ {format_up(price.exact_epsilon[1], 6)}{failing} (not what is charged)"
    )
    return lines


def _format_bar(account: AccountState, width: int = 30) -> str:
    share = account.budget.spent / account.budget.limit
    full = min(width, -(-share.numerator * width // share.denominator))
    return f"{'█' * full}{'░' * (width - full)} {ceil_float(100 * share):.1f}%"
