"""Magics for notebooks: `%load_ext discreet`, then `%discreet SOURCE` and `%%ask`.

`%discreet people.csv unit=id epsilon=1` and `%discreet https://data.example/people` open a session; a value that Python can
read as a literal is one, any other is a text. `%%ask error=5% size=1000 -o answer` asks the SQL in its cell, shows the
answer, and names it; `%%quote` shows what it would cost. `%%ask --session people` asks another session than the last one.
Addresses and tokens: a token in a cell is saved with the notebook, so it is refused; use DISCREET_TOKEN or `discreet login`.
"""

import shlex
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from discreet.errors import BadParameter, DiscreetError

if TYPE_CHECKING:
    from discreet.session.asking import Asking

USAGE = "%%ask epsilon=0.5, or %%ask error=5% size=1000 -o answer"
FLAGS = {"-o": "output", "--output": "output", "--session": "session"}


def parse_line(line: str) -> tuple[list[str], dict[str, Any], dict[str, str]]:
    """Return the words of a line, its parameters, and its flags.

    >>> parse_line("people.csv unit=id epsilon=1 error=5% -o answer")
    (['people.csv'], {'unit': 'id', 'epsilon': 1, 'error': '5%'}, {'output': 'answer'})
    """
    try:
        parts = iter(shlex.split(line))
    except ValueError:
        raise BadParameter("line", repr(line), "a quote is not closed", f"write {USAGE}") from None
    words, parameters, flags = list[str](), dict[str, Any](), dict[str, str]()
    for part in parts:
        name, equals, text = part.partition("=")
        if part in FLAGS:
            flags[FLAGS[part]] = next(parts, "")
        elif equals and name.isidentifier():
            parameters[name] = _read_value(text)
        else:
            words.append(part)
    for flag, value in flags.items():
        if not value.isidentifier():
            raise BadParameter(flag, repr(value), "not a name", "name a variable: -o answer")
    return words, parameters, flags


def _read_value(text: str) -> Any:
    """Return a literal of Python, or the text itself."""
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


@contextmanager
def show_message_alone() -> Iterator[None]:
    """Make a notebook show the message of an error without a traceback: what is wrong is in the cell."""
    try:
        yield
    except DiscreetError as error:
        vars(error)["_render_traceback_"] = partial(list, [f"{type(error).__name__}: {error}"])  # as IPython calls it
        raise


def _check_parameters(parameters: dict[str, Any], method: Callable[..., Any], magic: str) -> None:
    """Refuse a parameter that the method has not, with the one that was meant."""
    from difflib import get_close_matches

    known = [name for name, each in signature(method).parameters.items() if each.kind is each.KEYWORD_ONLY]
    for name in parameters:
        if known and name not in known:
            close = [each for each in known if each.startswith(name)] or get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}={parameters[name]}?" if close else f"write {USAGE}"
            raise BadParameter(name, repr(parameters[name]), f"not a parameter of %%{magic}", hint)


class Magics:
    """The magics of one notebook, and the session that was opened last."""

    def __init__(self, shell: Any) -> None:
        self.shell, self.session = shell, None

    def open(self, line: str) -> "Asking":
        """`%discreet SOURCE name=value …`: open a session, which the next `%%ask` asks."""
        with show_message_alone():
            return self._open(line)

    def _open(self, line: str) -> "Asking":
        from discreet.session.connect import connect

        words, parameters, flags = parse_line(line)
        if len(words) != 1:
            raise BadParameter(
                "source", repr(" ".join(words)), "not one source", "write %discreet https://data.example/people"
            )
        if "token" in parameters:
            hint = "set DISCREET_TOKEN, or sign in once: discreet login"
            raise BadParameter("token", "given in a cell", "it would be saved with the notebook", hint)
        session: Any = connect(words[0], **parameters)
        self.session = session
        self._name(flags.get("output"), session)
        return self.session  # type: ignore[return-value]

    def ask(self, line: str, cell: str) -> Any:
        """`%%ask …`: ask the query of the cell."""
        return self._run("ask", line, cell)

    def quote(self, line: str, cell: str) -> Any:
        """`%%quote …`: show what the query of the cell would cost."""
        return self._run("quote", line, cell)

    def _run(self, magic: str, line: str, cell: str) -> Any:
        with show_message_alone():
            session, parameters, flags = self._read(line)
            method = getattr(session, magic)
            _check_parameters(parameters, method, magic)
            shown = method(cell.strip(), **parameters)
        self._name(flags.get("output"), shown)
        return shown

    def _read(self, line: str) -> tuple[Any, dict[str, Any], dict[str, str]]:
        words, parameters, flags = parse_line(line)
        if words:
            raise BadParameter("line", repr(" ".join(words)), "not name=value", f"write {USAGE}")
        session = self.shell.user_ns.get(flags["session"]) if "session" in flags else self.session
        if not callable(getattr(session, "ask", None)):
            hint = "open one first: %discreet people.csv unit=id epsilon=1, or %discreet https://data.example/people"
            raise BadParameter("session", "missing", "no session is open", hint)
        return session, parameters, flags

    def _name(self, name: str | None, value: Any) -> None:
        if name is not None:
            self.shell.push({name: value})


def load(shell: Any) -> None:
    """Register the magics; `%load_ext discreet` calls this."""
    magics = Magics(shell)
    shell.register_magic_function(magics.open, "line", "discreet")
    shell.register_magic_function(magics.ask, "cell", "ask")
    shell.register_magic_function(magics.quote, "cell", "quote")
