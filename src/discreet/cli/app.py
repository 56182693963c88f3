"""The program that the commands belong to, and the overview that it prints without a command.

Python names parameters and the command line names flags. `App` makes every command rewrite the errors that it raises, so
that the rest of discreet writes them once, for Python.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from discreet.errors import (
    BadParameter,
    BudgetExceeded,
    DiscreetError,
    MissingDeclarations,
    QueryRefused,
    SourceRefused,
)

PANELS = ASKING, BUDGETING, ACCOUNTING, CHECKING, LEARNING = (
    "Query data", "Manage budgets", "Compute costs", "Check claims", "Learn",
)  # fmt: skip

OVERVIEW = """[bold]discreet[/bold] runs differentially private SQL over data about people.

  [bold]Run a demo[/bold]            discreet demo
  [bold]Query a table[/bold]         discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.5
  [bold]See the cost first[/bold]    discreet quote people.csv "SELECT COUNT(*) AS n FROM people" --unit id --error 10
  [bold]Publish many tables[/bold]   discreet publish plan.toml --dry-run
  [bold]Declare a table[/bold]       discreet policy init people.csv --unit id
  [bold]Open an account[/bold]       discreet ledger open hr.ledger --account hr --epsilon 2
  [bold]See what remains[/bold]      discreet budget hr.ledger
  [bold]Plan a study[/bold]          discreet plan mean --bounds 0:100 --error 2 --n 1000
  [bold]Compute an ε[/bold]          discreet epsilon "1000*gaussian(sigma=50)" --delta 1e-6
  [bold]Verify a certificate[/bold]  discreet verify release.json --ledger hr.ledger
  [bold]Audit a mechanism[/bold]     discreet audit mynoise:noisy_sum --epsilon 1
  [bold]See the textbook live[/bold] discreet lab list

Every command has --help with examples, and --json for programs. The documentation is in docs/.
Exit codes: 0 done, 1 a check failed, 2 usage or a refused query, 3 budget, 4 source, engine or ledger."""


class Command(TyperCommand):
    """A command that names its flags in the errors that it raises."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except DiscreetError as mistake:
            options = [str(each.name) for each in self.params if each.param_type_name == "option"]
            raise spell_flags(mistake, options) from None


class App(typer.Typer):
    """A group of commands."""

    def command(self, *names: Any, **settings: Any) -> Callable[..., Any]:
        """Register a command; as in `typer.Typer`."""
        return super().command(*names, cls=Command, **settings)


app = App(
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Run differentially private SQL over data about people.",
)


def _print_version(given: bool) -> None:
    if given:
        from discreet import __version__

        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run differentially private SQL over data about people."""
    if context.invoked_subcommand is None:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(OVERVIEW)


_ARGUMENT = re.compile(r"""\b(?P<name>[a-z_]+)=(?P<value>\{[^{}]*\}|"[^"]*"|'[^']*'|[\w.+-]*\w)?""")


def spell_flags(mistake: DiscreetError, options: Collection[str]) -> DiscreetError:
    """The same error, with flags in place of the parameters that are options of the command.

    >>> print(spell_flags(BadParameter("bounds", "5", "not bounds", 'give bounds={"pay": (0, 200)}'), ["bounds"]))
    --bounds is 5: not bounds. Give --bounds pay=0:200.
    """
    match mistake:
        case MissingDeclarations():  # `main` writes its command, with the words that were typed
            return mistake
        case BadParameter():
            name = f"--{mistake.name.replace('_', '-')}" if mistake.name in options else mistake.name
            return type(mistake)(name, mistake.value, mistake.reason, _spell_hint(mistake.hint, options))
        case QueryRefused():
            return QueryRefused(mistake.reason, _spell_hint(mistake.hint, options), mistake.line, mistake.column)
        case SourceRefused() if type(mistake) is SourceRefused:
            return SourceRefused(mistake.reason, _spell_hint(mistake.hint, options), *mistake.for_owner)
        case BudgetExceeded():
            mistake.args = (_spell_hint(str(mistake), options),)
    return mistake


def _spell_hint(hint: str, options: Collection[str]) -> str:
    """Spell `unit="id"` as `--unit id`, `bounds={"pay": (0, 200)}` as `--bounds pay=0:200`, `fresh=True` as `--fresh`.

    >>> _spell_hint('give size=, weights={"n": 2} or fresh=True', ["size", "weight", "fresh"])
    'give --size, --weight n=2 or --fresh'
    """

    def spell(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        option = name if name in options else name.removesuffix("s")  # the flag of `weights` is --weight
        if option not in options:
            return found[0]
        flag = f"--{option.replace('_', '-')}"
        return flag if value in (None, "True") else f"{flag} {_spell_value(value)}"

    return _ARGUMENT.sub(spell, hint)


def _spell_value(value: str) -> str:
    if not value.startswith("{"):
        return value.strip("\"'")
    try:
        parsed = literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    marks: dict[type, str] = {tuple: ":", list: ","}
    return " ".join(
        f"{name}={marks[type(each)].join(map(str, each)) if type(each) in marks else each}" for name, each in parsed.items()
    )
