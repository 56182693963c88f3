"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Answers questions about people without telling on anyone.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from discreet import __version__

        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Answers questions about people without telling on anyone."""


@app.command(epilog="Example: [bold]discreet demo --epsilon 0.5[/bold]")
def demo(
    epsilon: Annotated[str, typer.Option(help="The price of each of the two releases.")] = "1",
    delta: Annotated[str, typer.Option(help="The chance of failure that Gaussian noise may take.")] = "1e-6",
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Release a histogram of a sample table twice, by Laplace and by Gaussian noise, with error bars and the price."""
    from discreet.cli.demo import run

    run(epsilon, delta, as_json=json)


def main() -> None:
    """The console script: a user's mistake gets one line and exit code 2, never a traceback."""
    from discreet.errors import DiscreetError

    try:
        app()
    except DiscreetError as mistake:
        typer.echo(f"discreet: {mistake}", err=True)
        raise SystemExit(2) from None
