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
    ending = "parquet" if isinstance(found, HierarchyReproduction) else "csv"
    if json:
        print_json(
            {"same": list(found.same), "different": list(found.different), "missing": list(found.missing),
             "reproduced": found.is_complete}
        )  # fmt: skip
    else:
        for mark, names, said in (("✓", found.same, "is"), ("✗", found.different, "differs from"), ("✗", found.missing, "")):
            for name in names:
                print_line(
                    f"  {mark} {name}.{ending} {said} what the measurements say"
                    if said
                    else f"  {mark} {name}.{ending} is missing"
                )
        print_line("All tables follow from the measurements." if found.is_complete else "Not all tables follow from them.")
    if not found.is_complete:
        raise typer.Exit(1)
