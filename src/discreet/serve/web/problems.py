"""Every error of the service as a problem of RFC 9457, `application/problem+json`; those of the framework too.

No client learns what went wrong inside: an exception that discreet did not raise on purpose becomes one constant text, and
the log gets the kind of the exception without its message, which may quote a query.
"""

import logging
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from discreet.errors import DiscreetError
from discreet.remote.wire import to_problem
from discreet.serve.control.errors import (
    ControlUnavailable,
    KeyTaken,
    PersonExists,
    StateChanged,
    TooManyWaiting,
    TrailBroken,
)
from discreet.serve.rules import NoSuchTable, NotAllowed

log = logging.getLogger("discreet.serve.web")
PROBLEM = "application/problem+json"

TITLES = {
    400: ("bad-request", "The request cannot be read"),
    401: ("not-signed-in", "Not signed in"),
    403: ("not-allowed", "Not allowed"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "This address does not take that method"),
    406: ("not-acceptable", "There is no such format"),
    408: ("too-slow", "The request did not arrive in time"),
    409: ("conflict", "The state does not allow that"),
    413: ("too-large", "The request is too large"),
    415: ("unsupported-media-type", "The body is of a kind that is not read here"),
    421: ("wrong-host", "This host is not served here"),
    422: ("bad-parameter", "A field is wrong"),
    428: ("key-needed", "A key is needed"),
    429: ("too-many-requests", "Too many requests"),
    500: ("internal-error", "The service failed"),
    503: ("service-unavailable", "The service is busy"),
}
STATUSES: dict[type[DiscreetError], int] = {
    NotAllowed: 403, KeyTaken: 422, PersonExists: 409, StateChanged: 409, TooManyWaiting: 429, TrailBroken: 503,
}  # fmt: skip
"""Errors of the service that clients know by their status alone."""
UNAVAILABLE = "The service cannot reach its database. Try again in a minute."
NOT_FOUND = "There is nothing here that you may see. Check the name, or ask a steward for a grant."
INTERNAL = "The service failed. Nothing about the reason is shown; the operator finds it in the log of the service."


class Refusal(Exception):
    """A request that is refused for a reason that is no error of discreet's own: a limit, a missing right, a state."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **fields: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.fields = status, detail, dict(headers or {}), fields


def not_found() -> Refusal:
    """Return the one refusal of what is not there and of what is not granted: the two look alike."""
    return Refusal(404, NOT_FOUND)


def make_problem(status: int, detail: str, **fields: Any) -> dict[str, Any]:
    """Return a problem that has no class of its own.

    >>> make_problem(404, "No.")["type"]
    '/errors#not-found'
    """
    slug, title = TITLES.get(status, ("error", "Refused"))
    return {"type": f"/errors#{slug}", "title": title, "status": status, "detail": detail, "fields": fields}


def respond(problem: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as a response."""
    status = int(problem["status"])
    sent = {"Cache-Control": "no-store", **(headers or {})}
    if status == 401:
        sent.setdefault("WWW-Authenticate", 'Bearer realm="discreet"')
    if status in (429, 503):
        sent.setdefault("Retry-After", str(_read_pause(problem)))
    return Response(msgspec.json.encode(problem), status, sent, PROBLEM)


def _read_pause(problem: Mapping[str, Any]) -> int:
    """Return the whole seconds after which a refused request may be sent again; 1 unless the problem says more."""
    fields = problem.get("fields")
    seconds = fields.get("retry_after") if isinstance(fields, Mapping) else None
    return max(1, ceil(seconds)) if isinstance(seconds, int | float) else 1


def to_response(error: Exception) -> Response:
    """Return any error as a response."""
    match error:
        case Refusal():
            return respond(make_problem(error.status, error.detail, **error.fields), error.headers)
        case NoSuchTable():
            return respond(make_problem(404, NOT_FOUND))
        case ControlUnavailable():  # its text says where the database is
            log.error("the control database is unavailable")
            return respond(make_problem(503, UNAVAILABLE))
        case DiscreetError():
            status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
            return respond(to_problem(error) if status is None else make_problem(status, str(error)))
        case RequestValidationError():
            return respond(make_problem(422, _describe(error), errors=_list_errors(error)))
        case HTTPException():
            detail = NOT_FOUND if error.status_code == 404 else TITLES.get(error.status_code, ("", "Refused"))[1] + "."
            return respond(make_problem(error.status_code, detail), error.headers)
    log.error("a request failed: %s", type(error).__name__)
    return respond(make_problem(500, INTERNAL))


def _list_errors(error: RequestValidationError) -> list[dict[str, str]]:
    """Return which fields are wrong and why, without the values: they may be a token or a query."""
    return [
        {"field": ".".join(map(str, each.get("loc", ()))), "reason": str(each.get("msg", ""))}
        for each in error.errors()[:20]
    ]


def _describe(error: RequestValidationError) -> str:
    [first, *rest] = _list_errors(error) or [{"field": "body", "reason": "cannot be read"}]
    more = f" {len(rest)} more fields are wrong." if rest else ""
    return f"{first['field']}: {first['reason']}.{more} See /api/v1/openapi.json for what is expected."


def add_handlers(app: FastAPI) -> None:
    """Make every error of the application a problem."""

    async def handle(_: Request, error: Exception) -> Response:
        return to_response(error)

    for kind in (Refusal, DiscreetError, RequestValidationError, HTTPException):  # others: the guard, see app.py
        app.add_exception_handler(kind, handle)
