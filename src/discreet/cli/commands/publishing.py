"""A whole publication at once: publish."""

from typing import Annotated

import typer

from discreet.cli.app import ASKING, app
from discreet.cli.options import Json, KeyFile


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples:\n\n[bold]discreet publish examples/publish.toml --dry-run[/bold]\n\n"
    "[bold]discreet publish examples/publish.toml --to people-2026 --yes[/bold]",
)
def publish(
    plan: Annotated[str, typer.Argument(help="A plan.toml: source, questions, wanted errors, budget.")],
    to: Annotated[str, typer.Option(help="The folder to make.")] = "published",
    yes: Annotated[bool, typer.Option("--yes", help="Pay and publish without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the price and what it buys; ask and pay nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier publication in that folder.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Pay for new noise; needs budget.id in the plan.")] = False,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Publish several tables about one source: the cheapest noise for the errors you want, paid once, written as one folder.

    Shows the half-widths and the reliable cells at half the price, the price and twice the price, then asks, pays, reads,
    and writes CSV, Parquet and a picture per question, the guarantee in words, and the certificate where a ledger pays."""
    from discreet.cli.publish import PublishOptions, run

    run(plan, PublishOptions(to=to, yes=yes, dry_run=dry_run, force=force, fresh=fresh, key=key, as_json=json))
