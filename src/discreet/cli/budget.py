"""`discreet budget`: spent, left, entries, a bar; and the certified ε of what was spent, as a report."""

from collections import Counter
from typing import Any

from discreet import codec
from discreet.cli.output import print_json, print_line, print_styled
from discreet.exact import Bounds, ceil_float, floor_float, shown_down, shown_up
from discreet.ledger import ledger_at
from discreet.ledger.account import Account
from discreet.ledger.book import Ledger
from discreet.ledger.certificate import so_far
from discreet.loss import Loss, compose, repeat
from discreet.query.currency import name_of
from discreet.query.price import Price

MOST_KINDS = 500
"""With more kinds of facts than this the report is read from the sum alone, which is quick and larger."""


def run(place: str, account: str | None, *, as_json: bool) -> None:
    """Print every account, or one."""
    ledger = ledger_at(place)
    chosen = ledger.accounts() if account is None else (ledger.account(account).account,)
    shown = [(each, spent(ledger, each)) for each in chosen]
    if as_json:
        print_json({"accounts": [_plain(each, price) for each, price in shown]})
        return
    for each, price in shown:
        print_styled(f"{each.name}  {_bar(each)}", "bold")
        for line in _lines(each, price):
            print_styled(f"  {line}", "")
    if not shown:
        print_line("no account is open; discreet ledger open makes one")


def spent(ledger: Ledger, account: Account) -> Price:
    """What was spent: the sum that counts, and the certified ε of all that was paid from it, which is only a report."""
    kept = account.kept
    below = {each.name for each in ledger.accounts() if account.name in {above.name for above in each.line}}
    with ledger.store.reading() as pages:
        counts = Counter[bytes]()
        for name in sorted(below):
            counts.update(pages.facts(name, MOST_KINDS + 1))
    reading: Loss | Bounds = Bounds(0.0, so_far(account, kept.spent, kept.leaked))
    if len(counts) <= MOST_KINDS:
        reading = compose(*(repeat(codec.decode(facts), times) for facts, times in counts.items()))
    return Price(reading, account.delta, kept.currency, kept.spent, kept.left)


def _plain(account: Account, price: Price) -> dict[str, Any]:
    kept = account.kept
    return {
        "account": account.name,
        "parent": account.parent.name if account.parent else None,
        "entries": account.debits,
        "whose": account.whose or None,
        "limit": floor_float(kept.limit),
        "leak": {"limit": floor_float(kept.leak_limit), "left": floor_float(kept.leak_left)},
        "price": price.to_dict(),
    }


def _lines(account: Account, price: Price) -> list[str]:
    kept, unit = account.kept, name_of(account.kept.currency)
    lines = [
        f"spent {shown_up(kept.spent, 6)} of {shown_down(kept.limit, 6)} ({unit}), {shown_down(kept.left, 6)} left, "
        f"{account.debits} entr{'y' if account.debits == 1 else 'ies'}"
    ]
    if kept.leak_limit:
        lines.append(
            f"δ for selections and claims: {shown_down(kept.leak_left, 3)} of {shown_down(kept.leak_limit, 3)} left"
        )
    if account.whose:
        lines.append(f"speaks of: {account.whose}")
    if account.parent:
        lines.append(f"capped by {account.parent.name}: {shown_down(account.parent.kept.left, 6)} left there")
    failing = f" at δ = {shown_up(account.delta, 3)}" if account.delta else ""
    lines.append(f"report: what was spent is certified as ε ≤ {shown_up(price.ends[1], 6)}{failing} (not what is charged)")
    return lines


def _bar(account: Account, width: int = 30) -> str:
    share = account.kept.spent / account.kept.limit
    full = min(width, -(-share.numerator * width // share.denominator))
    return f"{'█' * full}{'░' * (width - full)} {ceil_float(100 * share):.1f}%"
