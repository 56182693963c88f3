"""How an error that was written for Python reads in a shell: parameters become the flags and arguments of the command.

The rest of discreet names parameters, and writes each as Python does: `unit="id"`, `bounds={"pay": (0, 200)}`, `fresh=True`,
or `size=` without a value. `spell_flags` is the one place that translates them.

>>> from discreet.errors import BadParameter
>>> print(spell_flags(BadParameter("bounds", "5", "not bounds", 'give bounds={"pay": (0, 200)}'), {"bounds": "--bounds"}))
--bounds is 5: not bounds. Give --bounds pay=0:200.
"""

import re
from ast import literal_eval
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from discreet.errors import BadExpression, BadParameter, DiscreetError, LedgerUnavailable

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
    return " ".join(
        f"{name}={marks[type(each)].join(map(str, each)) if type(each) in marks else each}" for name, each in parsed.items()
    )
