"""Numbers and tokens as typed, and what commands print: JSON for programs; lines, tables and a progress bar for people."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.text import to_printable, to_printable_lines

if TYPE_CHECKING:
    from discreet.query.answer import Answer


TEMPORARY_BUDGET = "This budget ends with the command: a second run starts with a new one. --ledger keeps one."


def parse_number(text: str, name: str) -> Fraction:
    """Exactly the decimal that was typed."""
    from discreet._numbers import parse_rational

    return parse_rational(text, name)


_Typed = TypeVar("_Typed", str, str | None)


def read_token(token: _Typed, service: str) -> _Typed:
    """Return a token that was typed; for -, read it from the standard input, where no list of processes shows it. In a
    terminal, say where to get one, and ask for it without showing it."""
    if token != "-":
        return token
    if not sys.stdin.isatty():
        return _require_token(sys.stdin.readline().strip(), service)
    from typer import echo, prompt

    echo(f"Make a token on the page /me of the service ({service}), or ask a steward for one.", err=True)
    return _require_token(str(prompt("Token", default="", show_default=False, hide_input=True, err=True)).strip(), service)


def _require_token(token: str, service: str) -> str:
    if not token:
        from discreet.errors import BadParameter

        hint = f"make one on the page /me of {service}, and paste it, or pipe it in: discreet login {service} < token.txt"
        raise BadParameter("token", "empty", "no token was given", hint)
    return token


def print_json(value: Any) -> None:
    """Print one JSON document; infinity is the string "inf"."""
    from json import dumps

    print(dumps(_to_json_value(value)))


def _to_json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def print_line(text: str) -> None:
    """Print one line for a person, with a box for every character that is not printable."""
    print(to_printable(text))


def print_data(text: str) -> None:
    """Print lines for a program unchanged; in a terminal with a box for every character that is not printable."""
    print(to_printable_lines(text) if sys.stdout.isatty() else text, end="")


def print_chart(answer: "Answer") -> None:
    """Draw an answer in the terminal."""
    from rich.console import Console

    from discreet.query.series import draw_text_chart

    for line in draw_text_chart(answer, Console().width):
        print_line(line)


def print_styled(text: str, style: str = "dim") -> None:
    """Print text for a person, folded at the width of the terminal, in a style of rich."""
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(to_printable(text), style=style))


def print_warning(text: str) -> None:
    """Print a note for who runs the command, on stderr: it is no part of the output."""
    print(to_printable(text), file=sys.stderr)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for a person: the first column aligned left, the others right."""
    from rich.console import Console

    from discreet.formats import make_rich_table

    Console().print(make_rich_table(title, columns, list(rows)))


@contextmanager
def show_progress(description: str) -> Iterator[Callable[[float], None] | None]:
    """Show a bar on stderr while the body runs, and yield the function that moves it; None if stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)  # it pulses until the engine reports a share
        yield lambda share: bar.update(task, total=1.0, completed=share)
