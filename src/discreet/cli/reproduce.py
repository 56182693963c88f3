"""`discreet reproduce`: estimate the tables of a published tabulation again, from its measurements alone."""

from typing import Annotated

import typer

from discreet.cli.app import CHECKING, app
from discreet.cli.options import Json
from discreet.cli.output import print_json, print_line, show_progress


@app.command(rich_help_panel=CHECKING, epilog="Example: [bold]discreet reproduce people-2026[/bold]")
def reproduce(
    folder: Annotated[str, typer.Argument(help="The folder of a published tabulation.")],
    json: Json = False,
) -> None:
    """Estimate all tables of a published tabulation again, and compare them with its files. Exit code 1 if one differs.

    It reads measurements.json and measurements.parquet, or the folder
    measurements of a hierarchy, and needs neither the data nor the ledger.
    """
    from discreet.tabulation.files import Reproduction
    from discreet.tabulation.files import reproduce as estimate_again
    from discreet.tabulation.hierarchy_files import HierarchyReproduction, is_hierarchy_folder, reproduce_hierarchy

    with show_progress("estimating …"):
        found: Reproduction | HierarchyReproduction
        found = reproduce_hierarchy(folder) if is_hierarchy_folder(folder) else estimate_again(folder)
    if json:
        kinds = {"same": found.same, "different": found.different, "missing": found.missing, "unknown": found.unknown}
        print_json({kind: list(names) for kind, names in kinds.items()} | {"reproduced": found.is_complete})
    else:
        for mark, names, text in (
            ("✓", found.same, "is what the measurements say"),
            ("✗", found.different, "differs from what the measurements say"),
            ("✗", found.missing, "is missing"),
            ("✗", found.unknown, "is no table of the measurements"),
        ):
            for name in names:
                print_line(f"  {mark} {name} {text}")
        print_line("All tables follow from the measurements." if found.is_complete else "Not all tables follow from them.")
    if not found.is_complete:
        raise typer.Exit(1)
