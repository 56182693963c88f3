"""What a ledger keeps: ledger, budget, verify."""

from typing import Annotated

import typer

from discreet.cli.app import CHECKING, KEEPING, app
from discreet.cli.options import CurrencyName, Delta, Json, LedgerArgument, PublicKey, SecretKey

ledger = typer.Typer(no_args_is_help=True, help="Budgets that survive: accounts in a file or in PostgreSQL.")
app.add_typer(ledger, name="ledger", rich_help_panel=KEEPING)


@ledger.command(
    "open",
    epilog="Example: [bold]discreet ledger open hr.ledger --account hr --epsilon 2 --delta 1e-9 --currency zcdp[/bold]",
)
def ledger_open(
    place: LedgerArgument,
    account: Annotated[str, typer.Option(help="A name: the data and the purpose, or the analyst.")],
    epsilon: Annotated[str, typer.Option(help="The ε that the whole account promises.")],
    delta: Delta = "0",
    currency: CurrencyName = None,
    parent: Annotated[str | None, typer.Option(help="An account of the same currency that caps the sum.")] = None,
    json: Json = False,
) -> None:
    """Open an account with a budget for life. The ledger is made if there is none."""
    from discreet.cli.ledger import open_account

    open_account(place, account, epsilon, delta, currency, parent, as_json=json)


@ledger.command("check", epilog="Example: [bold]discreet ledger check hr.ledger --head head.json[/bold]")
def ledger_check(
    place: LedgerArgument,
    head: Annotated[str | None, typer.Option(help="A signed head that was kept elsewhere.")] = None,
    key: PublicKey = None,
    json: Json = False,
) -> None:
    """Recompute the chain, every price and every sum. Ends with 1 if something does not hold."""
    from discreet.cli.ledger import check_ledger

    if not check_ledger(place, head, key, as_json=json):
        raise typer.Exit(1)


@ledger.command("head", epilog="Example: [bold]discreet ledger head hr.ledger > head.json[/bold]")
def ledger_head(place: LedgerArgument, key: SecretKey = None) -> None:
    """Print the signed head of the chain, to be kept where the ledger's keeper cannot change it."""
    from discreet.cli.ledger import print_head

    print_head(place, key)


@ledger.command("key", epilog="Example: [bold]discreet ledger key hr.ledger[/bold]")
def ledger_key(place: LedgerArgument, key: SecretKey = None) -> None:
    """Print the public key that the ledger signs with, and its fingerprint."""
    from discreet.cli.ledger import print_public_key

    print_public_key(place, key)


@ledger.command("rotate-key", epilog="Example: [bold]discreet ledger rotate-key hr.ledger[/bold]")
def ledger_rotate_key(place: LedgerArgument, key: SecretKey = None, json: Json = False) -> None:
    """Replace the key that the ledger signs with. Earlier certificates and heads still verify."""
    from discreet.cli.ledger import rotate

    rotate(place, key, as_json=json)


@app.command(rich_help_panel=KEEPING, epilog="Example: [bold]discreet budget hr.ledger --account hr[/bold]")
def budget(
    place: LedgerArgument,
    account: Annotated[str | None, typer.Option(help="One account; all of them unless given.")] = None,
    json: Json = False,
) -> None:
    """What was spent, what is left, and the certified ε of what was spent as a report."""
    from discreet.cli.budget import run

    run(place, account, as_json=json)


@app.command(rich_help_panel=CHECKING, epilog="Example: [bold]discreet verify release.json --ledger hr.ledger[/bold]")
def verify(
    release: Annotated[str, typer.Argument(help="A certificate: release.json.")],
    key: PublicKey = None,
    ledger: Annotated[str | None, typer.Option(help="The ledger that it must be in.")] = None,
    json: Json = False,
) -> None:
    """Check a certificate: signature, price, entry; and say what is proven and what is trusted. Ends with 1 if it fails."""
    from discreet.cli.verify import run

    if not run(release, key, ledger, as_json=json):
        raise typer.Exit(1)
