"""The program that the commands belong to, and the map that it shows when nothing is asked of it."""

from typing import Annotated

import typer

PANELS = ASKING, KEEPING, ACCOUNTING, CHECKING, LEARNING = (
    "Ask", "Keep a budget", "Reckon prices", "Check claims", "Learn",
)  # fmt: skip

MAP = """[bold]discreet[/bold] answers questions about people without telling on anyone.

  [bold]See it work[/bold]           discreet demo
  [bold]Ask a table[/bold]           discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.5
  [bold]Know the price first[/bold]  discreet quote people.csv "SELECT COUNT(*) AS n FROM people" --unit id --error 10
  [bold]Publish many tables[/bold]   discreet publish plan.toml --dry-run
  [bold]Declare it once[/bold]       discreet policy init people.csv --unit id
  [bold]Keep a budget[/bold]         discreet ledger open hr.ledger --account hr --epsilon 2
  [bold]See what is left[/bold]      discreet budget hr.ledger
  [bold]How much do I need?[/bold]   discreet plan mean --bounds 0:100 --error 2 --n 1000
  [bold]Reckon a whole run[/bold]    discreet account "1000*gaussian(sigma=50)" --delta 1e-6
  [bold]Check a release[/bold]       discreet verify release.json --ledger hr.ledger
  [bold]Attack a claim[/bold]        discreet audit mynoise:noisy_sum --epsilon 1
  [bold]See the textbook live[/bold] discreet lab list

Every command has --help with examples; --json where a program reads along. The pages are in docs/.
Exit codes: 0 done, 1 a check failed, 2 usage or a refused question, 3 budget, 4 source, engine or ledger."""

app = typer.Typer(
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Answers questions about people without telling on anyone.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from discreet import __version__

        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Answers questions about people without telling on anyone."""
    if context.invoked_subcommand is None:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(MAP)
