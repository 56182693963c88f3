"""`discreet verify`: what a certificate proves, and what has to be trusted."""

from os.path import isdir
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.app import CHECKING, app, spell_text
from discreet.cli.ledger import read_json
from discreet.cli.options import Json, PublicKey, complete_files, complete_ledgers
from discreet.cli.output import print_json, print_line
from discreet.errors import BadParameter


@app.command(rich_help_panel=CHECKING, epilog="Example: [bold]discreet verify release.json --ledger hr.ledger[/bold]")
def verify(
    release: Annotated[
        str,
        typer.Argument(
            help="A certificate, release.json, or the folder of a publication.", autocompletion=complete_files(".json")
        ),
    ],
    key: PublicKey = None,
    ledger: Annotated[
        str | None, typer.Option(help="The ledger that must hold its entry.", autocompletion=complete_ledgers)
    ] = None,
    json: Json = False,
) -> None:
    """Check the signature, the cost and the entry of a certificate, and end with a verdict. Exit code 1 if one is wrong.

    Of the folder of a publication it also compares every table with the certificate.
    """
    from discreet.ledger import open_ledger
    from discreet.ledger import verify as verification
    from discreet.ledger.certificate import certified_cost
    from discreet.ledger.keys import read_public_key

    public_key = None if key is None else read_public_key(key)
    opened = None if ledger is None else open_ledger(ledger)
    is_folder = isdir(release)
    if is_folder and not (Path(release) / "release.json").exists():
        hint = "check its tables with `discreet reproduce`" if _is_tabulation(Path(release)) else (
            "publish with a ledger, which signs what it recorded"
        )  # fmt: skip
        raise BadParameter("release", repr(release), "it has no certificate, release.json: no ledger recorded it", hint)
    document = read_json(str(Path(release) / "release.json") if is_folder else release, "release")
    if is_folder:
        from discreet.workload.tables import verify_folder

        verdict = verify_folder(Path(release), document, public=public_key, ledger=opened)
    else:
        verdict = verification.verify(document, public=public_key, ledger=opened)
    cost = certified_cost(document) if verdict.is_valid else None
    flags = {"public": "--key", "ledger": "--ledger"}
    conclusion, *assumptions = (spell_text(each, flags) for each in (verdict.conclusion, *verdict.assumptions))
    if json:
        findings = [{"claim": finding.claim, "holds": finding.is_valid} for finding in verdict.claims]
        print_json(
            {"holds": verdict.is_valid, "findings": findings, "trusted": assumptions, "verdict": conclusion}
            | ({} if cost is None else {"cost": cost.to_dict()})
        )
    else:
        print_line("proven:" if verdict.is_valid else "checked:")
        for finding in verdict.claims:
            print_line(f"  {'✓' if finding.is_valid else '✗'} {finding.claim}")
        if cost is not None:
            print_line(f"  · {cost}")
        print_line("trusted:")
        for assumption in assumptions:
            print_line(f"  · {assumption}")
        print_line(conclusion)
    if not verdict.is_valid:
        raise typer.Exit(1)


def _is_tabulation(folder: Path) -> bool:
    from discreet.tabulation.hierarchy_files import is_hierarchy_folder

    return (folder / "measurements.json").exists() or is_hierarchy_folder(folder)
