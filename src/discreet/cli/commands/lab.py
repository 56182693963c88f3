"""The textbook live: lab list, show, all, attack."""

from typing import Annotated

import typer

from discreet.cli.app import LEARNING, app
from discreet.cli.options import Json

lab = typer.Typer(no_args_is_help=True, help="The textbook live: figures, errata, exercises and attacks.")
app.add_typer(lab, name="lab", rich_help_panel=LEARNING)


@lab.command("list", epilog="Example: [bold]discreet lab list[/bold]")
def lab_list(json: Json = False) -> None:
    """Everything there is to see, by name."""
    from discreet.cli.lab import list_all

    list_all(as_json=json)


@lab.command(
    "show",
    epilog="Examples:\n\n[bold]discreet lab show composition-10000 --save composition.png[/bold]\n\n"
    "[bold]discreet lab show erratum-1[/bold]\n\n[bold]discreet lab show counties --json[/bold]",
)
def lab_show(
    name: Annotated[str, typer.Argument(help="A figure, an erratum or an exercise, as `lab list` calls it.")],
    save: Annotated[str | None, typer.Option(help="Draw a figure into this PNG file.")] = None,
    json: Json = False,
) -> None:
    """What a figure shows and its numbers; what a text has wrong and how we know; an exercise with its answer."""
    from discreet.cli.lab import show

    show(name, save, as_json=json)


@lab.command("all", epilog="Example: [bold]discreet lab all --out pictures[/bold]")
def lab_all(
    out: Annotated[str, typer.Option(help="The folder for the pictures; it is made if there is none.")],
    json: Json = False,
) -> None:
    """Draw every figure, one PNG each; bit for bit the same every time."""
    from discreet.cli.lab import draw_all

    draw_all(out, as_json=json)


@lab.command("attack", epilog="Example: [bold]discreet lab attack averaging[/bold]")
def lab_attack(
    name: Annotated[str, typer.Argument(help="An attack, as `lab list` calls it.")],
    json: Json = False,
) -> None:
    """Play an attack, without discreet and with it: what the attacker learned."""
    from discreet.cli.lab import attack

    attack(name, as_json=json)
