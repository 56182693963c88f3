"""What all routes of the API share: JSON, pages of lists, and how OpenAPI describes them."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from discreet.serve.control.base import CURSOR
from discreet.serve.web.problems import PROBLEM, Refusal
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import Caller

BASE = "/api/v1"
BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="A token, as `Authorization: Bearer dsc_…`.")
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string"},
        "fields": {"type": "object"},
        "see": {"type": "string"},
    },
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem of RFC 9457.", "content": {PROBLEM: {"schema": PROBLEM_SCHEMA}}}
}
OBJECT: dict[str, Any] = {"type": "object"}
PAGE = {
    "type": "object",
    "required": ["items", "cursor"],
    "properties": {"items": {"type": "array", "items": OBJECT}, "cursor": {"type": ["string", "null"]}},
}
Name = Annotated[str, Path(min_length=1, max_length=200)]
Id = Annotated[str, Path(min_length=1, max_length=100)]
Cursor = Annotated[str | None, Query(pattern=CURSOR)]
Limit = Annotated[int, Query(ge=1, le=200)]


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return plain values as JSON."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), "application/json")


def describe_json(schema: Mapping[str, Any] = OBJECT, *statuses: int, text: str = "") -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes a route that answers with JSON or with a problem."""
    shown = {"description": text or "The answer.", "content": {"application/json": {"schema": schema}}}
    return {**dict.fromkeys(statuses or (200,), shown), **PROBLEMS}


def make_page(items: list[Any], cursor: str | None, request: Request) -> Response:
    """Return a page of a list, with the address of the next one."""
    link = {} if cursor is None else {"Link": f'<{request.url.path}?cursor={cursor}>; rel="next"'}
    return json({"items": items, "cursor": cursor}, headers=link)


def make_caller(web: Web) -> Any:
    """Return the dependency that recognises who asks."""

    def find_caller(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Caller:
        return web.signing.authenticate(None if given is None else f"{given.scheme} {given.credentials}")

    return find_caller


async def refuse_unknown(request: Request) -> None:
    """Refuse a parameter of the address that the route does not have: a misspelt one must not pass unseen."""
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        raise Refusal(422, f"{unknown[0][:40]!r} is no parameter of this address. See /api/v1/openapi.json.")
