"""`discreet budget`: what each account has spent and what remains, with the certified ε of what was spent as a report."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import BUDGETING, app
from discreet.cli.options import Json, LedgerArgument, Token, complete_accounts
from discreet.cli.output import print_json, print_line, print_styled, read_token
from discreet.errors import BadParameter
from discreet.paths import is_service

if TYPE_CHECKING:
    from discreet.accounting.cost import Cost
    from discreet.ledger.account import AccountState
    from discreet.ledger.chain import Ledger

MAX_EVENT_KINDS = 500
"""With more kinds of events than this, the report is derived from the sum alone, which is quicker and larger."""


@app.command(rich_help_panel=BUDGETING, epilog="Example: [bold]discreet budget hr.ledger --account hr[/bold]")
def budget(
    place: LedgerArgument,
    account: Annotated[
        str | None, typer.Option(help="One account; all of them, unless given.", autocompletion=complete_accounts)
    ] = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show what each account has spent and what remains, and the certified ε of what was spent, as a report.

    Of a table on a service, https://…/people: your budget, and what remains for everybody together."""
    if is_service(place):
        _show_service(place, account, token, json)
        return
    if token is not None:
        raise BadParameter("token", "given", "only a service knows tokens", "leave it out, or name a service: https://…")
    from discreet.ledger import open_ledger

    ledger = open_ledger(place)
    chosen = ledger.list_accounts() if account is None else (ledger.get_account(account).state,)
    shown = [(each, compute_spending(ledger, each)) for each in chosen]
    if json:
        print_json({"accounts": [_to_dict(each, cost) for each, cost in shown]})
        return
    for each, cost in shown:
        print_styled(f"{each.name}  {_format_bar(each)}", "bold")
        for line in _format_lines(each, cost):
            print_styled(f"  {line}", "")
    if not shown:
        print_line("No account is open. Open one with: discreet ledger open")


def _show_service(address: str, account: str | None, token: str | None, json: bool) -> None:
    """Show the budget of a table on a service."""
    from discreet.session.connect import connect

    if account is not None:
        raise BadParameter("account", account, "a service knows your account by your token", "leave it out")
    session = connect(address, token=read_token(token, address))
    if json:
        shared = session.shared_budget.to_dict()
        print_json({"budget": session.budget.to_dict(), "remaining": session.remaining.to_dict(), "everybody": shared})
        return
    for line in session.state_budgets():
        print_styled(line, "")


def compute_spending(ledger: "Ledger", account: "AccountState") -> "Cost":
    """What was spent: the charged sum, and the certified ε of all its events, which is only a report."""
    from discreet import codec
    from discreet._numbers import Bounds
    from discreet.accounting.cost import Cost
    from discreet.events import Event, compose, repeat
    from discreet.ledger.certificate import compute_epsilon_spent

    budget = account.budget
    below = {each.name for each in ledger.list_accounts() if account.name in {above.name for above in each.lineage}}
    with ledger.store.read_transaction() as transaction:
        counts = Counter[bytes]()
        for name in sorted(below):
            counts.update(transaction.read_event_counts(name, MAX_EVENT_KINDS + 1))
    spent: Event | Bounds = Bounds(0.0, compute_epsilon_spent(account, budget.spent, budget.delta_spent))
    if len(counts) <= MAX_EVENT_KINDS:
        spent = compose(*(repeat(codec.decode(event), times) for event, times in counts.items()))
    return Cost(spent, account.delta, budget.currency, budget.spent, budget.remaining, budget.limit)


def _to_dict(account: "AccountState", cost: "Cost") -> dict[str, Any]:
    from discreet._numbers import decimal_down
    from discreet.accounting.cost import Budget

    budget = account.budget
    return {
        "account": account.name,
        "parent": account.parent.name if account.parent else None,
        "entries": account.debits,
        "privacy_unit": account.privacy_unit or None,
        **({"conditional_on": account.condition} if account.condition else {}),
        "limit": decimal_down(budget.limit),
        "delta": {"limit": decimal_down(budget.delta_limit), "remaining": decimal_down(budget.delta_remaining)},
        "cost": cost.to_dict(),
        "budget": Budget.of(budget, account.delta).to_dict(),
    }


def _format_lines(account: "AccountState", cost: "Cost") -> list[str]:
    from discreet._numbers import format_down, format_up
    from discreet.accounting.cost import describe_budget, format_at

    budget, at = account.budget, format_at(account.delta)
    entries = f"{account.debits} entr{'y' if account.debits == 1 else 'ies'}"
    lines = [f"{describe_budget(budget, account.delta, at)}, {entries}"]
    if budget.delta_limit:
        share = f"{format_down(budget.delta_remaining, 3)} of {format_down(budget.delta_limit, 3)} remaining"
        lines.append(f"δ for partition selection and claims: {share}")
    if account.privacy_unit:
        lines.append(f"privacy unit: {account.privacy_unit}")
    if account.condition:
        lines.append(f"CONDITIONAL: guaranteed only among data sets with the same {account.condition}")
    if account.parent:
        parent = account.parent
        lines.append(f"capped by {parent.name}: {describe_budget(parent.budget, parent.delta, format_at(parent.delta))}")
    epsilon = f"ε ≤ {format_up(cost.exact_epsilon[1], 3)}{at}"
    lines.append(f"certified ε of what was spent: {epsilon} (a report; the account charges {budget.currency.symbol})")
    return lines


def _format_bar(account: "AccountState", width: int = 30) -> str:
    """A bar of what is spent, rounded up."""
    share = account.budget.spent / account.budget.limit
    full = min(width, -(-share.numerator * width // share.denominator))
    return f"{'█' * full}{'░' * (width - full)}"
