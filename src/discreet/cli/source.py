"""`discreet source`: the sources that are quarantined because a query on them failed. For the data owner."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.app import BUDGETING, App, app
from discreet.cli.options import Json
from discreet.cli.output import print_json, print_line

if TYPE_CHECKING:
    from discreet.ledger.quarantine import Quarantine

source = App(no_args_is_help=True, help="Manage quarantined sources. For the data owner.")
app.add_typer(source, name="source", rich_help_panel=BUDGETING)

QuarantineOption = Annotated[
    str | None,
    typer.Option("--ledger", help="The ledger that pays for the queries; the owner's state folder, unless given."),
]


@source.command("list", epilog="Example: [bold]discreet source list --ledger hr.ledger[/bold]")
def source_list(ledger: QuarantineOption = None, json: Json = False) -> None:
    """List the sources that may not be queried because a query on them failed. For the data owner only."""
    listing = _open_quarantine(ledger).list_quarantined()
    if json:
        counts = [
            {"source": each.source, "decoding": each.failures.decoding, "resource": each.failures.resource}
            for each in listing
        ]
        print_json({"quarantined": counts})
        return
    for each in listing:
        print_line(f"{each.source!r}: {each.failures.decoding} decoding and {each.failures.resource} resource failures")
    if not listing:
        print_line("No source is quarantined.")


@source.command("lift", epilog="Example: [bold]discreet source lift people.csv --ledger hr.ledger[/bold]")
def source_lift(
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="As listed, or a path or pattern of its files.")],
    ledger: QuarantineOption = None,
    json: Json = False,
) -> None:
    """Allow queries on a source again. First read the owner's log and correct the source: each failure reveals one bit."""
    quarantine = _open_quarantine(ledger)
    listed = {each.source for each in quarantine.list_quarantined()}
    pattern = _to_absolute(name)
    lifted = [known for known in sorted(listed) if known == name or fnmatchcase(known, pattern)] or [name]
    for known in lifted:
        quarantine.lift(known)
    if json:
        print_json({"lifted": lifted})
        return
    for known in lifted:
        print_line(f"Queries on {known!r} are allowed again.")


def _open_quarantine(ledger: str | None) -> "Quarantine":
    from discreet.ledger import open_ledger
    from discreet.ledger.owner_state import FileQuarantine, default_state_path

    return FileQuarantine(default_state_path()) if ledger is None else open_ledger(ledger).quarantine


def _to_absolute(path: str) -> str:
    """The path of a file as an engine names it."""
    try:
        return str(Path(path).expanduser().resolve())
    except (OSError, RuntimeError, ValueError):  # not a path at all
        return path
