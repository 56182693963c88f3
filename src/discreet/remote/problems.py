"""Errors as RFC 9457 problems, and back: `except BudgetExceeded as refused: refused.fitting_epsilon` works remotely.

A problem names the class of the error and holds its fields, each read as the type that the class gives it; exact rationals
are texts. A class or a field that this version does not know makes a plain `DiscreetError` with the same message. What only
the owner may read (`SourceRefused.for_owner`) is left out of both message and fields, and so is what only the local command
line uses (`MissingDeclarations.details`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from discreet import errors
from discreet.errors import DiscreetError, ServiceUnavailable
from discreet.remote.plain import (
    amount_from_plain,
    amount_to_plain,
    any_from_plain,
    any_to_plain,
    check_depth,
    malformed,
    number_from_plain,
    number_to_plain,
    rational_from_plain,
    rational_to_plain,
    to_shown_text,
)

Codec: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise malformed("a field that is no text")
    return to_shown_text(value)


def _read_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise malformed("a field that is no whole number")
    return value


def _read_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise malformed("a field that is no list")
    return tuple(map(_read_text, value))


def _read_problems(value: Any) -> tuple[DiscreetError, ...]:
    if not isinstance(value, list):
        raise malformed("a field that is no list")
    return tuple(map(from_problem, value))


def _optional(codec: Codec) -> Codec:
    write, read = codec
    return lambda value: None if value is None else write(value), lambda value: None if value is None else read(value)


def _leave_out(value: Any) -> None:
    return None


TEXT: Codec = str, _read_text
TEXTS: Codec = list, _read_texts
INTEGER: Codec = int, _read_integer
RATIONAL: Codec = rational_to_plain, rational_from_plain
AMOUNT: Codec = amount_to_plain, amount_from_plain
NUMBER: Codec = number_to_plain, number_from_plain
ANY: Codec = any_to_plain, any_from_plain
OWNERS_LINES: Codec = lambda _: [], lambda _: ()
DETAILS: Codec = _leave_out, _leave_out
PROBLEMS: Codec = lambda problems: [*map(to_problem, problems)], _read_problems

_REASON = {"reason": TEXT, "hint": TEXT}
_PARAMETER = {"name": TEXT, "value": ANY, **_REASON}
_PLACE = {"line": _optional(INTEGER), "column": _optional(INTEGER)}
_LEDGER = {"where": TEXT, "hint": TEXT}
FIELDS: dict[type[DiscreetError], tuple[int, Mapping[str, Codec]]] = {
    errors.DiscreetError: (400, {}),
    errors.BadParameter: (422, {**_PARAMETER, "of_column": _optional(TEXT)}),
    errors.TheoremNotApplicable: (422, {"theorem": TEXT, "hypothesis": TEXT, "hint": TEXT}),
    errors.BadValues: (422, {"problem": TEXT, "hint": TEXT}),
    errors.BadExpression: (422, {"text": TEXT, "column": INTEGER, "problem": TEXT, "hint": TEXT}),
    errors.BadEventEncoding: (422, {"problem": TEXT, "hint": TEXT}),
    errors.BudgetExceeded: (
        409,
        {
            "currency": TEXT, "cost": AMOUNT, "remaining": RATIONAL, "fitting_epsilon": _optional(RATIONAL),
            "cost_epsilon": _optional(AMOUNT), "remaining_epsilon": _optional(RATIONAL), "limit": _optional(RATIONAL),
        },
    ),
    errors.QueryRefused: (422, {**_REASON, **_PLACE}),
    errors.MissingDeclarations: (422, {**_PARAMETER, **_PLACE, "missing": TEXTS, "command": TEXT, "details": DETAILS}),
    errors.PlanRefused: (422, {"problems": PROBLEMS}),
    errors.SourceRefused: (503, {**_REASON, "for_owner": OWNERS_LINES}),
    errors.SourceQuarantined: (503, {**_REASON, "for_owner": OWNERS_LINES, "source": TEXT, "ledger": _optional(TEXT)}),
    errors.EngineFailed: (500, {}),
    errors.LedgerUnavailable: (503, {**_LEDGER, "reason": TEXT, "make_at": _optional(TEXT)}),
    errors.LedgerCorrupted: (503, {**_LEDGER, "problem": TEXT}),
    errors.NotSignedIn: (401, _REASON),
    errors.NotFound: (404, _REASON),
    errors.AskPending: (409, {"id": TEXT, "state": TEXT, "hint": TEXT}),
    errors.ServiceUnavailable: (503, {**_REASON, "retry_after": _optional(NUMBER)}),
    errors.ServiceChanged: (409, {"service": TEXT, **_REASON}),
}  # fmt: skip
"""The status of every error, and how its fields are written and read."""

KINDS = {kind.__name__: kind for kind in FIELDS}


def to_problem(error: DiscreetError, base: str = "") -> dict[str, Any]:
    """Return an error as a problem. `base` is the address of the service, whose page /errors has one section per class.

    >>> problem = to_problem(errors.EngineFailed(), "https://data.example")
    >>> problem["type"], problem["title"], problem["status"], problem["error"]
    ('https://data.example/errors#engine-failed', 'Engine failed', 500, 'EngineFailed')
    """
    kind = next(each for each in type(error).__mro__ if each in FIELDS)
    status, codecs = FIELDS[kind]
    given = vars(error)
    words = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    fields = {name: write(given[name]) for name, (write, _) in codecs.items() if name in given}
    return {
        "type": f"{base.rstrip('/')}/errors#{words}",
        "title": words.replace("-", " ").capitalize(),
        "status": status,
        "detail": _public_message(error),
        "error": kind.__name__,
        "fields": fields | ({"see": error.see} if "see" in given else {}),
        "see": error.see,
    }


def _public_message(error: DiscreetError) -> str:
    """Return the message without the lines that only the owner may read."""
    hidden = len(getattr(error, "for_owner", ()))
    lines = str(error).split("\n")
    return "\n".join(lines[: len(lines) - hidden])


def from_problem(problem: Any, status: int | None = None) -> DiscreetError:
    """Return the error that a problem states. What is no problem of discreet becomes an error of its kind by its status.

    >>> from_problem({"detail": "No such table. Name another.", "error": "NotFound", "fields": {}}, 404)
    NotFound('No such table. Name another.')
    """
    given = problem if isinstance(problem, dict) else {}
    detail, name, fields = given.get("detail"), given.get("error"), given.get("fields")
    try:
        check_depth(problem)
        kind = KINDS.get(name) if isinstance(name, str) else None
        if kind is None or not isinstance(detail, str) or not isinstance(fields, dict):
            return _guess_error(given, status)
        _, codecs = FIELDS[kind]
        read = {field: codec[1](fields[field]) for field, codec in codecs.items() if field in fields}
        if isinstance(fields.get("see"), str) and _PAGE.fullmatch(fields["see"]):
            read["see"] = fields["see"]
    except ServiceUnavailable:
        return _guess_error(given, None)
    missing = [field for field in codecs if field not in read]
    if set(missing) - _LATER and kind in (errors.BudgetExceeded, errors.PlanRefused, errors.MissingDeclarations):
        return _guess_error(given, None)
    return errors.restore_error(kind, (to_shown_text(detail),), dict.fromkeys(missing) | read)


_PAGE = re.compile(r"docs/[\w./-]+\.md(?:#[\w%.ε-]*)?")
_LATER = {"remaining_epsilon", "limit"}
"""Fields that may be unknown, and that earlier services do not state."""
_BY_STATUS = {401: errors.NotSignedIn, 403: errors.NotSignedIn, 404: errors.NotFound}


def _guess_error(given: Mapping[str, Any], status: int | None) -> DiscreetError:
    """Return the error of an answer that is no problem of discreet: a proxy's page, or a later version's class."""
    detail = given.get("detail") or given.get("title")
    text = to_shown_text(detail) if isinstance(detail, str) else ""
    kind: Any = _BY_STATUS.get(status or 0)
    if kind is None and status is not None and (status >= 500 or status == 429):
        kind = ServiceUnavailable
    if kind is not None and text:  # it says what to do itself
        more = {"retry_after": None} if kind is ServiceUnavailable else {}
        return errors.restore_error(kind, (text,), {"reason": text, "hint": "", **more})
    if kind is not None:
        hint = "sign in: discreet login" if kind is errors.NotSignedIn else "check the address, and try again later"
        return cast(DiscreetError, kind(f"The service answered {status}", hint))
    return DiscreetError(*(text or f"The service answered {status}").split("\n"))
