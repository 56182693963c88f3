"""`discreet ledger`: open accounts, check the ledger, sign its head, show and rotate its key."""

from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.app import BUDGETING, App, app
from discreet.cli.options import CurrencyName, Delta, Json, LedgerArgument, PublicKey, SecretKey, complete_accounts
from discreet.cli.output import parse_number, print_json, print_line, print_warning
from discreet.errors import BadParameter

ledger = App(no_args_is_help=True, help="Manage durable budgets: accounts in a file or in PostgreSQL.")
app.add_typer(ledger, name="ledger", rich_help_panel=BUDGETING)


@ledger.command(
    "open",
    epilog="Example: [bold]discreet ledger open hr.ledger --account hr --epsilon 2 --delta 1e-9 --currency zcdp[/bold]",
)
def ledger_open(
    place: LedgerArgument,
    account: Annotated[str, typer.Option(help="A name, such as the data and the purpose, or the analyst.")],
    epsilon: Annotated[str, typer.Option(help="The ε that the whole account guarantees.")],
    delta: Delta = "0",
    currency: CurrencyName = None,
    parent: Annotated[
        str | None,
        typer.Option(help="An account of the same currency that caps the sum.", autocompletion=complete_accounts),
    ] = None,
    json: Json = False,
) -> None:
    """Open an account with a budget that cannot be changed. Creates the ledger if it does not exist."""
    from discreet._numbers import decimal_down, decimal_up, format_down, format_up
    from discreet.accounting.cost import SHOWN_DIGITS, describe_amount, format_at, warn_of_weak_budget
    from discreet.accounting.currencies import largest_epsilon, parse_currency
    from discreet.ledger import open_ledger
    from discreet.ledger.account import AccountState, warn_of_unrelated
    from discreet.query.quote import explain_currency
    from discreet.query.schema import DEFAULT_LEAST_EPSILON

    kept = None if currency is None else parse_currency(currency)
    guarantee = parse_number(epsilon, "epsilon"), parse_number(delta, "delta")
    AccountState.open(account, *guarantee, kept)  # refuses what is wrong before a file is made
    created = open_ledger(place, create=True).open_account(account, *guarantee, kept, parent)
    opened, budget = created.initial_state, created.initial_state.budget
    warning = warn_of_unrelated(opened, created.list_unrelated())
    for weak in warn_of_weak_budget(guarantee[0], opened.delta):
        print_warning(weak)
    if guarantee[0] < DEFAULT_LEAST_EPSILON:
        least = format_up(DEFAULT_LEAST_EPSILON, SHOWN_DIGITS)
        print_warning(f"No query fits this budget: each costs at least ε = {least}, unless a policy lowers least_epsilon.")
    notes = [*explain_currency(budget.currency, guarantee[0], opened.delta), *([] if warning is None else [warning])]
    notes += [
        f'The parent account "{each.name}" caps it: all of its accounts together can spend at most ε = '
        f"{format_down(largest_epsilon(budget.currency, each.budget.limit, each.delta), SHOWN_DIGITS)}."
        for each in opened.lineage[1:]
        if each.budget.limit < budget.limit
    ]
    if json:
        limits = {"limit": decimal_down(budget.limit), "reserved": decimal_down(budget.delta_limit)}
        promise = {"epsilon": decimal_up(guarantee[0]), "delta": decimal_up(opened.delta)}
        print_json({"account": opened.name, "currency": budget.currency.name} | limits | promise | {"notes": notes})
        return
    amount = "" if budget.currency.counts_epsilon else f" ({describe_amount(budget.currency, budget.limit)})"
    words = f"ε = {format_up(guarantee[0], SHOWN_DIGITS)}{format_at(opened.delta)}{amount}"
    print_line(f'Opened account "{opened.name}": {words}. The budget cannot be changed.')
    if budget.delta_limit:
        reserved = format_down(budget.delta_limit, SHOWN_DIGITS)
        print_line(f"δ = {reserved} is reserved for partition selection and claims.")
    for note in notes:
        print_line(note)


@ledger.command(
    "check",
    epilog="Examples:\n\n[bold]discreet ledger check hr.ledger --head head.json[/bold]\n\n"
    "[bold]discreet ledger check hr.ledger --since checked.json[/bold]",
)
def ledger_check(
    place: LedgerArgument,
    head: Annotated[str | None, typer.Option(help="A signed head that was kept elsewhere.")] = None,
    key: PublicKey = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="A file for the result. If an earlier check wrote it, only later entries are read: a change of earlier "
            "ones is not found. Keep it where those who write the ledger cannot change it."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute the chain, every cost and every sum, and compare with a signed head. Exit code 1 if something is wrong."""
    from discreet.ledger import open_ledger
    from discreet.ledger.check import check_ledger, read_checkpoint, write_checkpoint
    from discreet.ledger.keys import read_public_key
    from discreet.ledger.verify import find_divergence

    if key is not None and head is None:
        raise BadParameter(
            "--key", repr(key), "there is no head to verify with it", "add --head head.json, or leave --key out"
        )
    if since == "":
        raise BadParameter("--since", "empty", "no file is named", "name a file for the result: --since checked.json")
    opened = open_ledger(place)
    earlier = None if since is None else read_checkpoint(Path(since))
    report = check_ledger(opened, earlier)
    problem = report.problem
    if problem is None and head is not None:
        problem = find_divergence(opened, read_json(head, "--head"), None if key is None else read_public_key(key))
    is_known = problem is None or report.entries > 0  # a chain that does not hold the head of --since was not read
    if json:
        print_json(
            {
                "holds": problem is None,
                "entries": report.entries if is_known else None,
                "read_from": 1 if earlier is None else earlier.number + 1 if is_known else None,
                "hash": report.hash if is_known else None,
                "unanswered": list(report.unanswered),
                "quarantined": list(report.quarantined),
                "problem": problem,
            }
        )
    elif problem is not None:
        print_line(f"BROKEN: {problem}")
    else:
        names = ", ".join(account.name for account in report.accounts) or "none"
        counted = "1 entry is" if report.entries == 1 else f"{report.entries} entries are"
        print_line(f"{counted} consistent; accounts: {names}")
        if earlier is not None:
            print_line(f"Entries up to {earlier.number} were checked before and not read again.")
            print_line("A change of one of them since, or of the file's own structure, is found by a check without --since.")
        if head is not None:
            print_line("The ledger continues the signed head.")
        for id in report.unanswered:
            print_line(f"Charged and not answered: {id}. The query crashed or still runs; a retry with this id is free.")
        for source in report.quarantined:
            print_line(f"Quarantined: {source!r} (a query on it failed; see discreet source list)")
    if problem is not None:
        raise typer.Exit(1)
    if since is not None and report.checkpoint is not None:
        write_checkpoint(report.checkpoint, Path(since))  # after the result, which is worth having if this fails
        if not json:
            print_line(f"Wrote {since}: the next check reads from entry {report.entries + 1}.")


@ledger.command("head", epilog="Example: [bold]discreet ledger head hr.ledger > head.json[/bold]")
def ledger_head(place: LedgerArgument, key: SecretKey = None) -> None:
    """Print the signed head of the chain as JSON. Keep it where the keeper of the ledger cannot change it."""
    from discreet.ledger import open_ledger
    from discreet.ledger.keys import load_key, resolve_key_path
    from discreet.ledger.verify import sign_head

    opened = open_ledger(place)
    print_json(sign_head(opened, load_key(resolve_key_path(place, key, "--key"))))


@ledger.command("key", epilog="Example: [bold]discreet ledger key hr.ledger[/bold]")
def ledger_key(place: LedgerArgument, key: SecretKey = None) -> None:
    """Print the public key that the ledger signs with, and its fingerprint."""
    from discreet.ledger.keys import format_fingerprint, load_key, resolve_key_path

    public_key = load_key(resolve_key_path(place, key, "--key")).public
    print_json({"public_key": public_key, "fingerprint": format_fingerprint(public_key)})


@ledger.command("rotate-key", epilog="Example: [bold]discreet ledger rotate-key hr.ledger[/bold]")
def ledger_rotate_key(place: LedgerArgument, key: SecretKey = None, json: Json = False) -> None:
    """Replace the key that the ledger signs with. Earlier certificates and heads still verify."""
    from discreet.ledger import open_ledger
    from discreet.ledger.keys import format_fingerprint, resolve_key_path, rotate_key

    rotated = rotate_key(open_ledger(place), resolve_key_path(place, key, "--key"))
    if json:
        print_json({"old": rotated.old, "new": rotated.new, "entry": rotated.entry})
        return
    print_line(f"The ledger signs with a new key from entry {rotated.entry} on. Give its public key to your readers:")
    print_line(f"  new: {rotated.new} ({format_fingerprint(rotated.new)})")
    print_line(f"  old: {rotated.old} ({format_fingerprint(rotated.old)})")
    print_line("Earlier certificates and heads verify with the old public key, or with the new one and --ledger.")


def read_json(path: str, name: str) -> Any:
    """Read a JSON file that an argument or flag names."""
    from discreet.text import parse_json

    try:
        return parse_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadParameter(name, path, f"cannot be read ({error.strerror})", "name a file that can") from None
    except (ValueError, RecursionError):
        raise BadParameter(name, path, "not JSON", "give the file as it was written") from None
