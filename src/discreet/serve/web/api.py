"""The API, version 1: what programs of analysts use. `/api/v1` only grows; unknown fields of a request are refused.

Every route takes a bearer token and ignores cookies; all answers are JSON unless a format is asked for, all errors problems
of RFC 9457. Handlers run in threads, because the control database is synchronous; waiting for an answer holds none.
"""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool

from discreet import __version__
from discreet.serve.control.model import Ask, AskState, Grant, Scope, TableEntry
from discreet.serve.web import api_outcomes, api_stewards
from discreet.serve.web.api_common import (
    BASE,
    OBJECT,
    PAGE,
    Cursor,
    Id,
    Limit,
    Name,
    describe_json,
    json,
    make_caller,
    make_page,
    refuse_unknown,
)
from discreet.serve.web.bodies import HEAD, AskBody, QuoteBody, read_head, read_wait
from discreet.serve.web.problems import make_problem, respond
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import Caller

PRINTABLE = {"pattern": "^[!-~]([ -~]*[!-~])?$"}
"""For OpenAPI: a header of printable characters, without blanks around it."""


def make_router(web: Web) -> APIRouter:
    """Return all routes of the API."""
    router = APIRouter(prefix=BASE, default_response_class=Response, dependencies=[Depends(refuse_unknown)])
    find_caller = make_caller(web)
    add_service(router, web)
    add_tables(router, web, find_caller)
    add_asks(router, web, find_caller)
    api_outcomes.add_outcomes(router, web, find_caller)
    api_stewards.add_people(router, web, find_caller)
    api_stewards.add_requests(router, web, find_caller)
    api_stewards.add_records(router, web, find_caller)
    return router


def add_service(router: APIRouter, web: Web) -> None:
    """Add what everybody may read."""

    @router.get("", responses=describe_json(), summary="Name, version, public key, head and limits of the service")
    def show_service() -> Response:
        find = web.control.find_setting
        return json(
            {
                "name": find("name") or web.settings.name,
                "version": __version__,
                "api": "v1",
                "address": web.settings.address,
                "public_key": find("public_key"),
                "ledger": find("ledger_identity"),
                "head": web.show_head(),
                "limits": {
                    "quotes_per_second": web.settings.quotes_per_second,
                    "asks_per_hour": web.settings.asks_per_hour,
                    "max_body": web.settings.max_body,
                    "max_wait": web.settings.max_wait,
                },
            }
        )

    @router.get("/live", responses=describe_json(), summary="Whether the process runs")
    async def show_live() -> Response:
        return json({"live": True})

    @router.get("/ready", responses=describe_json(), summary="Whether the process reaches its database")
    async def show_ready() -> Response:
        # by a thread of its own: a load balancer must not take a busy process for one that has ended
        return json({"ready": await web.health.run("", web.control.last_head) is not None})

    @router.get("/openapi.json", include_in_schema=False)
    async def show_openapi(request: Request) -> Response:
        return json(request.app.openapi())


def describe_table(web: Web, caller: Caller, entry: TableEntry, grant: Grant | None) -> dict[str, Any]:
    """Return what is declared about a table, and the account that the caller asks from: the token's own, if it has one. No
    salt is in it: the control database has none."""
    table = web.quoter.read_table(entry)
    return {
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "population": entry.population,
        "table": {"policy": entry.policy, "public": list(entry.public)},
        "policy_hash": entry.policy_hash,
        "policy_version": entry.policy_version,
        "neighbours": entry.neighbours,
        "unit": table.unit,
        "unique": table.unique,
        "max_groups": table.max_groups,
        "max_rows": table.max_rows,
        "least_epsilon": str(table.least_epsilon),
        "rows_at_most": entry.rows_at_most,
        "columns": [
            {
                "name": name,
                "kind": column.kind.value,
                "lower": None if column.lower is None else str(column.lower),
                "upper": None if column.upper is None else str(column.upper),
                "keys": None if column.keys is None else [key if key is None else str(key) for key in column.keys],
            }
            for name, column in table.columns.items()
        ],
        "classes": list(entry.classes),
        "label": entry.label,
        "rules": msgspec.to_builtins(entry.rules),
        "notes": list(entry.notes),
        "invented": entry.invented,
        "is_open": entry.is_open,
        "account": None if grant is None else web.choose_account(caller, entry, grant),
        "paused": None if grant is None else grant.paused,
    }


def add_tables(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add tables and accounts."""

    @router.get("/tables", responses=describe_json(PAGE), summary="The tables that you may ask of")
    def list_tables(caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        return json({"items": [describe_table(web, caller, *each) for each in web.list_tables(caller)], "cursor": None})

    @router.get("/tables/{table}", responses=describe_json(), summary="What is declared about a table")
    def show_table(table: Name, request: Request, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        return json(describe_table(web, caller, *web.find_table(caller, table)))

    @router.get("/accounts", responses=describe_json(PAGE), summary="Your accounts, with their parents")
    def list_accounts(caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        return json({"items": web.list_accounts(caller), "cursor": None})

    @router.get("/accounts/{account:path}", responses=describe_json(), summary="One account, with its parents")
    def show_account(account: Name, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        return json(web.describe_account(caller, account))


def show_result(web: Web, ask: Ask, known: tuple[int, str] | None = None) -> Response:
    """Return where an ask is: 200 with its answer, 202 while it is on its way, or the problem that ended it."""
    location = f"{BASE}/asks/{ask.id}"
    if ask.state is AskState.ANSWERED:
        return json(web.show_answer(ask, known), headers={"Location": location})
    if ask.problem is not None:
        return respond({**ask.problem, "ask": ask.id}, {"Location": location})
    if ask.state.is_final:
        reason = f": {ask.reason}" if ask.reason else ""
        return respond({**make_problem(409, f"The ask was {ask.state}{reason}. Nothing was charged."), "ask": ask.id})
    shown = web.show_ask(ask)
    return json(shown, 202, {"Location": location, "Retry-After": str(max(1, round(shown["retry_after"] or 1)))})


def add_asks(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add quotes and asks."""

    @router.post("/quotes", responses=describe_json(), summary="Cost, error and arrival of a query; nothing is charged")
    async def quote(body: QuoteBody, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.ASK)
        web.quote_limit.take(caller.limit_key)

        def compute() -> Response:
            return json(web.show_quote(caller, web.quote(caller, body.to_question())))

        return await web.quotes.run(caller.person.id, compute)

    @router.post("/asks", responses=describe_json(OBJECT, 200, 202), summary="Ask a query")
    async def ask(
        body: AskBody,
        caller: Annotated[Caller, Depends(find_caller)],
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=150, json_schema_extra=PRINTABLE)] = None,
        prefer: Annotated[str | None, Header(max_length=200)] = None,
        ledger_head: Annotated[str | None, Header(pattern=HEAD)] = None,
    ) -> Response:
        taken = await web.quotes.run(caller.person.id, lambda: web.ask(caller, body.to_question(), idempotency_key))
        seconds = read_wait(prefer)
        if seconds is not None and not taken.state.is_final:
            taken = await web.wait(taken, seconds)
        return await run_in_threadpool(show_result, web, taken, read_head(ledger_head))

    @router.get("/asks", responses=describe_json(PAGE), summary="Your asks, newest first")
    def list_asks(
        request: Request,
        caller: Annotated[Caller, Depends(find_caller)],
        table: Annotated[str | None, Query(max_length=200)] = None,
        state: AskState | None = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> Response:
        caller.require(Scope.READ)
        page = web.control.list_asks(person=caller.person.id, table=table, state=state, cursor=cursor, limit=limit)
        return make_page([web.show_ask(each) for each in page.items if caller.may_use(each.table)], page.cursor, request)

    @router.get("/released", responses=describe_json(PAGE), summary="The newest answers that stewards released")
    def list_released(caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        return json({"items": [web.show_ask(each) for each in web.list_released(caller)], "cursor": None})

    @router.get("/asks/{ask}", responses=describe_json(), summary="Where an ask is, and its answer")
    def show_ask(ask: Id, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        found = web.find_ask(caller, ask)
        shown = web.show_answer(found) if found.state is AskState.ANSWERED else web.show_ask(found)
        return json(shown)

    @router.delete("/asks/{ask}", responses=describe_json(), summary="Withdraw an ask that no worker has taken")
    def withdraw_ask(ask: Id, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.ASK)
        return json(web.show_ask(web.withdraw(caller, ask)))


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API in OpenAPI 3.1; computed once."""
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes, openapi_version="3.1.0"
        )
        for operations in described["paths"].values():
            for operation in operations.values():
                for parameter in operation.get("parameters", ()):
                    parameter["schema"] = remove_null(parameter["schema"])
        app.openapi_schema = described
    return app.openapi_schema


def remove_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without `null`: a header or a part of an address can be left out, not be null.

    >>> remove_null({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Cursor"})
    {'title': 'Cursor', 'type': 'string'}
    """
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    plain: dict[str, Any] = {name: each for name, each in schema.items() if name != "anyOf"} | kinds[0]
    return plain
