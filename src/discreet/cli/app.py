"""The program that the commands belong to, and the overview that it prints without a command.

Python names parameters and the command line names flags. `App` makes every command rewrite the errors that it raises, so
that the rest of discreet writes them once, for Python; it also knows the page that explains the command. The rest of
discreet writes a parameter as Python does: `unit="id"`, `bounds={"pay": (0, 200)}`, `fresh=True`, or `size=` without a
value. `spell_flags` is the one place that translates them.

>>> from discreet.errors import BadParameter
>>> print(spell_flags(BadParameter("bounds", "5", "not bounds", 'give bounds={"pay": (0, 200)}'), {"bounds": "--bounds"}))
--bounds is 5: not bounds. Give --bounds pay=0:200.
"""

import re
import sys
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from shlex import quote
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command_name

from discreet.errors import (
    PARAMETER_PAGES,
    BadExpression,
    BadParameter,
    DiscreetError,
    LedgerUnavailable,
    MissingDeclarations,
    raise_interrupts,
)

PANELS = ASKING, BUDGETING, ACCOUNTING, CHECKING, LEARNING = (
    "Query data", "Manage budgets", "Compute costs", "Check claims", "Learn",
)  # fmt: skip

OVERVIEW = """[bold]discreet[/bold] runs differentially private SQL over data about people.

  [bold]Run a demo[/bold]            discreet demo
  [bold]Query a table[/bold]         discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.5
  [bold]See the cost first[/bold]    discreet quote people.csv "SELECT COUNT(*) AS n FROM people" --unit id --error 10
  [bold]Publish many tables[/bold]   discreet publish plan.toml --dry-run
  [bold]Make synthetic rows[/bold]   discreet synthesize published --to rows.csv
  [bold]Count over time[/bold]       discreet stream open visits.csv --plan plan.toml --ledger hr.ledger
  [bold]Declare a table[/bold]       discreet policy init people.csv --unit id
  [bold]Prepare a large one[/bold]   discreet prepare people.parquet --unit id
  [bold]Open an account[/bold]       discreet ledger open hr.ledger --account hr --epsilon 2
  [bold]See what remains[/bold]      discreet budget hr.ledger
  [bold]Collect with noise[/bold]    discreet local plan --values 100 --epsilon 1 --error 1%
  [bold]Plan a study[/bold]          discreet plan mean --bounds 0:100 --error 2 --n 1000
  [bold]Compute an ε[/bold]          discreet epsilon "1000*gaussian(sigma=50)" --delta 1e-6
  [bold]Verify a certificate[/bold]  discreet verify release.json --ledger hr.ledger
  [bold]Audit a mechanism[/bold]     discreet audit mynoise:noisy_sum --epsilon 1
  [bold]See the textbook live[/bold] discreet lab list

Every command has --help with examples, and --json for programs. discreet help lists the pages of the documentation.
Exit codes: 0 done, 1 a check failed, 2 usage or a refused query, 3 budget, 4 source, engine, ledger or service."""


PAGES = {
    "account": "docs/accounting.md#on-the-command-line",
    "audit": "docs/auditing.md#any-function",
    "budget": "docs/ledger.md#accounts",
    "calibrate": "docs/accounting.md#calibrate-noise-to-a-target",
    "epsilon": "docs/accounting.md#on-the-command-line",
    "help": "docs/index.md#where-to-go-next",
    "lab": "docs/lab.md",
    "ledger": "docs/ledger.md#accounts",
    "local": "docs/local.md#on-the-command-line",
    "local collection": "docs/local.md#a-collection-from-end-to-end",
    "local days": "docs/local.md#rappor-apple-microsoft",
    "local decode": "docs/local.md#decoding-where-the-reports-are",
    "local encode": "docs/local.md#a-collection-from-end-to-end",
    "local plan": "docs/local.md#planning",
    "local simulate": "docs/local.md#planning",
    "local shuffle": "docs/shuffling.md#the-ε-of-a-crowd",
    "login": "docs/serve.md#signing-in",
    "logout": "docs/serve.md#signing-in",
    "ledger check": "docs/ledger.md#what-a-check-finds",
    "ledger rotate-key": "docs/ledger.md#upgrades-key-rotation-and-labels",
    "plan": "docs/planning.md#what-can-be-planned",
    "policy": "docs/asking.md#the-policy-file",
    "prepare": "docs/scale.md#prepare-a-table-once",
    "publish": "docs/publishing.md#the-plan-file",
    "reproduce": "docs/tabulation.md#publishing",
    "serve": "docs/serve.md",
    "source": "docs/ledger.md#quarantine",
    "stream": "docs/streams.md#on-the-command-line",
    "synthesize": "docs/synthesis.md#from-a-shell",
    "tabulate": "docs/tabulation.md#what-can-be-tabulated",
    "verify": "docs/ledger.md#certificates",
}
"""The page about the parameters of a command or of a group. Of other commands, each parameter has a page of its own."""

OWN_PAGES = {
    "audit": ("training", "command"),
    "publish": ("folder", "key"),
    "plan": ("epsilon", "delta"),
    "ledger open": ("epsilon", "delta"),
}
"""Parameters that have a page of their own even where the command has one."""

OWN_NAMES = {
    "audit": {"neighbours": "pairs", "relation": "neighbours", "mechanism": "function", "claim": "epsilon"},
    "budget": {"name": "account"},
    "ledger check": {"public": "key"},
    "lab show": {"path": "save", "picture": "save"},
    "lab all": {"path": "out", "picture": "out"},
    "lab attack": {"attack": "name"},
    "ledger open": {"name": "account"},
    "local collection": {"domain": "values", "other": "only"},
    "local decode": {"source": "reports", "hostile_share": "hostile", "consistent": "norm_sub"},
    "plan": {"query": "question"},
    "publish": {"workload": "plan", "KEY": "key"},
    "source lift": {"source": "name"},
    "stream open": {"query": "sql"},
    "stream show": {"path": "plot"},
    "synthesize": {"publication": "source", "folder": "source", "path": "to"},
    "tabulate": {"tables": "by", "columns": "computed"},
    "verify": {"certificate": "release", "public": "key"},
}
"""Parameters of Python that only one command calls otherwise, by the parameter of the command."""


UNNAMED_FILES = {("head", "this file"), ("release", "this file")}
"""Files whose name only the command knows. That of a source is not repeated: it may be an address with a password."""


class Command(TyperCommand):
    """A command that names its flags, and the page about them, in the errors that it raises."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters of the command, `--help` included."""
        return _read_without_pydantic(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse what was typed. A flag with one value that is given twice is refused: the last one would win silently."""
        given = list(args)
        try:
            typed = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=list(args))[2]
            for each, times in Counter(typed).items():
                if times > 1 and not each.multiple and not getattr(each, "is_flag", True):
                    ctx.fail(f"Option {each.opts[0]} takes one value, and is given {times} times. Give it once.")
            return super().parse_args(ctx, args)
        except TyperException as mistake:
            self._explain_usage(mistake, ctx, given)
            raise

    def _explain_usage(self, mistake: Any, ctx: Any, given: list[str]) -> None:
        """Say all that is missing, what an extra argument may be, and which option was meant. The kinds of mistakes have no
        public names, so they are told apart by what they state."""
        mistake.ctx = getattr(mistake, "ctx", None) or ctx
        flags = {flag for each in self.params for flag in each.opts}
        if hasattr(mistake, "possibilities") and OTHER_FLAGS.get(mistake.option_name) in flags:
            mistake.possibilities = [OTHER_FLAGS[mistake.option_name]]
        elif isinstance(mistake, typer.BadParameter) and hasattr(mistake, "param_type"):  # it is missing
            found = self.make_parser(ctx).parse_args(args=given)[0]
            missing = [each.opts[0] for each in self.get_params(ctx) if each.required and found.get(each.name) is None]
            example = _EXAMPLE.search(self.epilog or "")
            text = f"Missing: {', '.join(missing)}." + (f" Example: {example[1]}" if example else "")
            ctx.fail(text)
        elif extra := _EXTRA.fullmatch(mistake.message):
            kinds = {each.name: each.param_type_name for each in self.params}
            hint = {
                "argument": "Put the whole query in double quotes",
                "option": 'A query is given as --sql "SELECT …"',
            }.get(kinds.get("sql", ""), "Leave it out, or put a text in quotes")
            mistake.message = f"Unexpected: {extra[1]}. {hint}"

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with raise_interrupts():  # commands that use DuckDB themselves
                return super().invoke(ctx)
        except DiscreetError as mistake:
            path = ctx.command_path.removeprefix(ctx.find_root().command_path).strip()
            page = PAGES.get(path, PAGES.get(path.partition(" ")[0]))
            if page is not None and isinstance(mistake, BadParameter) and not isinstance(mistake, MissingDeclarations):
                name = mistake.name.removeprefix("--")
                mistake.see = PARAMETER_PAGES[name] if name in OWN_PAGES.get(path, ()) else page
            own_names = OWN_NAMES.get(path, {})
            if isinstance(mistake, BadParameter) and (mistake.name, mistake.value) in UNNAMED_FILES:
                given = ctx.params.get(own_names.get(mistake.name, mistake.name))
                mistake.args = (str(mistake).replace(str(mistake.value), str(given), 1),)
            spellings = list_spellings(self.params, own_names)
            if isinstance(mistake, MissingDeclarations) and mistake.details is not None:  # a service says what to do itself
                raise _to_command(mistake, spellings) from None
            raise spell_flags(mistake, spellings) from None


def _to_command(mistake: MissingDeclarations, spellings: dict[str, str]) -> MissingDeclarations:
    """The same error with the command that was typed and the flags that it lacks; a plan keeps its own words."""
    from discreet.session.missing import to_shell

    details: Any = mistake.details
    missing, problem = details
    mistake.details = missing, spell_text(problem, spellings)
    return to_shell(mistake, sys.argv[1:])


OTHER_FLAGS = {"--people": "--n", "--rows": "--n", "--eps": "--epsilon", "--columns": "--bounds"}
"""Flags that people type, by the flag that they mean."""
_EXAMPLE = re.compile(r"\[bold\](.+?)\[/bold\]", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)


class PlainValues:
    """Reads texts, numbers and lists of texts. typer would load pydantic for that, which takes longer than a query."""

    def __init__(self, kind: type, flag: str) -> None:
        self.kind, self.flag = kind, flag

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as typer would return it."""
        if param.multiple:
            return list(value or ())
        if value is None or self.kind is str:
            return value
        try:
            return self.kind(value)
        except ValueError:
            what, example = ("a whole number", "5") if self.kind is int else ("a number", "0.95")
            raise BadParameter(self.flag, repr(value), f"not {what}", f"write {what} such as {example}") from None


def _read_without_pydantic(parameters: list[Any]) -> list[Any]:
    """The same parameters; those that hold texts or numbers read their values by `PlainValues`."""
    for each in parameters:
        kind = getattr(getattr(each, "type_descriptor", None), "annotation", None)
        if kind in (str, int, float, bool, list[str]):
            each.get_runtime_param = partial(PlainValues, kind, each.opts[0])
    return parameters


ROOM_FOR_HELP = 200
"""Characters of the first sentence about a command, before it is cut."""


class Group(TyperGroup):
    """Commands. What a user mistypes is one line on stderr, like every other error."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters before the command, `--help` included."""
        return _read_without_pydantic(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands as plain text. rich, which draws the help of a command, takes as long to load as the
        rest of `discreet --help`."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        options = [each.get_help_record(ctx) for each in self.get_params(ctx)]
        panels: dict[str, list[Any]] = {"Options": [record for record in options if record is not None]}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                panel = command.rich_help_panel if isinstance(command.rich_help_panel, str) else "Commands"
                panels.setdefault(panel, []).append((name, command.get_short_help_str(ROOM_FOR_HELP)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)

    def main(
        self,
        args: Any = None,
        prog_name: Any = None,
        complete_var: Any = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that was typed."""
        given = (args, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return super().main(*given, **extra)
        try:
            code = super().main(*given, **extra)
        except TyperException as mistake:
            context = getattr(mistake, "ctx", None)
            command = "discreet" if context is None else context.command_path
            print_error(_end_sentences(mistake.format_message()), f"{command} --help")
            raise SystemExit(mistake.exit_code) from None
        except typer.Abort:
            print_error("Aborted. Nothing was charged.")
            raise SystemExit(1) from None
        raise SystemExit(code if isinstance(code, int) else 0)


def print_error(message: str, see: str | None = None) -> None:
    """Print what is wrong and what to do, and the command that shows more."""
    typer.echo(f"discreet: {message}" + ("" if see is None else f"\nSee: {see}"), err=True)


def _end_sentences(text: str) -> str:
    """A sentence for what is wrong, and one for what was meant.

    >>> _end_sentences("No such option: --unti Did you mean --unit?")
    'No such option: --unti. Did you mean --unit?'
    """
    if " Example: " in text:  # it ends with a command, to copy
        return text
    problem, mark, rest = text.strip().partition(" Did you mean ")
    return f"{problem.rstrip('.')}.{mark}{rest}"


class App(typer.Typer):
    """A group of commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, **settings)

    def command(self, *names: Any, **settings: Any) -> Callable[..., Any]:
        """Register a command; as in `typer.Typer`."""
        return super().command(*names, cls=Command, **settings)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run the command that was typed. Only that one is built: all of them take longer than the query of an `ask`."""
        if args or settings or len(sys.argv) < 2:
            return super().__call__(*args, **settings)
        return typer.Typer.__call__(self.keep_only(sys.argv[1]))

    def keep_only(self, name: str) -> "App":
        """The same program with only the command or group of this name; all of it where there is none."""
        commands = [each for each in self.registered_commands if _name_command(each) == name]
        groups = [each for each in self.registered_groups if each.name == name]
        if not commands and not groups:
            return self
        kept = copy(self)
        kept.registered_commands, kept.registered_groups = commands, groups
        return kept


def _name_command(command: Any) -> str:
    """The name that typer gives a command."""
    return str(command.name or get_command_name(command.callback.__name__))


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


# -- how an error that was written for Python reads in a shell -------------------------------------------------------------

OTHER_NAMES = {"weights": "weight", "lower": "bounds", "upper": "bounds", "folder": "to", "ledger": "place", "query": "sql"}
"""Parameters of Python that a command calls otherwise, where it has no option or argument of the same name."""

_VALUE = r"""\([^()]*\)|\{[^{}]*\}|"[^"]*"|'[^']*'|[\w.+%-]*\w%?"""
_PARAMETER = re.compile(rf"(?<![\w.-])(?P<name>[a-z][a-z_0-9]*)=(?!=)(?P<value>{_VALUE})?")


def list_spellings(parameters: Iterable[Any], others: Mapping[str, str]) -> dict[str, str]:
    """What each parameter is called in a shell, by the options and arguments of a command.

    Args:
        parameters: those of the command, as typer has them.
        others: parameters of Python that this command calls otherwise, by the name of its own parameter.
    """
    known = {}
    for each in parameters:
        is_option = each.param_type_name == "option"
        known[str(each.name)] = each.opts[0] if is_option else str(each.metavar or each.name).upper()
    return {**{name: known[own] for name, own in OTHER_NAMES.items() if own in known}, **known} | {
        name: known[own] for name, own in others.items()
    }


def spell_flags(mistake: DiscreetError, spellings: Mapping[str, str]) -> DiscreetError:
    """The same error, with its message in the words of the command."""
    if isinstance(mistake, BadExpression):  # its epsilon= is part of the text that the user wrote
        return mistake
    message = str(mistake)
    if isinstance(mistake, LedgerUnavailable) and mistake.make_at is not None:
        hint = f"check ledger=, or make one: discreet ledger open {quote(mistake.make_at)} --account hr --epsilon 1"
        message = str(LedgerUnavailable(mistake.where, mistake.reason, hint))
    if isinstance(mistake, BadParameter) and mistake.name in spellings:
        message = spellings[mistake.name] + message.removeprefix(mistake.name)
        mistake.name = spellings[mistake.name]
    mistake.args = (spell_text(message, spellings),)
    return mistake


def spell_text(text: str, spellings: Mapping[str, str]) -> str:
    """Spell `unit="id"` as `--unit id`, `bounds={"pay": (0, 200)}` as `--bounds pay=0:200`, `fresh=True` as `--fresh`.

    >>> flags = {"size": "--size", "weights": "--weight", "fresh": "--fresh"}
    >>> spell_text('give size=, weights={"n": 2} or fresh=True', flags)
    'give --size, --weight n=2 or --fresh'
    """

    def spell(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in spellings:
            return found[0]
        return spellings[name] if value in (None, "True") else f"{spellings[name]} {_spell_value(value)}"

    return _PARAMETER.sub(spell, text)


def spell_notes(text: str) -> str:
    """Spell the parameters that the notes of an answer or of a quote name as flags.

    >>> spell_notes("max_rows is not declared; label= names their new state")
    '--max-rows is not declared; --label names their new state'
    """
    names = r"(?<![\w-])(max_groups|max_rows|label=|fresh=True)(?!\w)"
    return re.sub(names, lambda found: to_flag(found[0].partition("=")[0]), text)


def to_flag(name: str) -> str:
    """The flag of a parameter."""
    return f"--{name.replace('_', '-')}"


def _spell_value(value: str) -> str:
    if not value.startswith(("{", "(")):
        return value.strip("\"'")
    try:
        parsed = literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(parsed, tuple):  # names have commas between them, the ends of a range a colon
        return ("," if isinstance(parsed[0], str) else ":").join(map(str, parsed))
    marks: dict[type, str] = {tuple: ":", list: ","}

    def spell(each: Any) -> str:
        return "…" if each is ... else str(each)

    return " ".join(
        f"{name}={marks[type(each)].join(map(spell, each)) if type(each) in marks else spell(each)}"
        for name, each in parsed.items()
    )
