"""What becomes of an ask: its answer in many formats, its certificate, its states as they change; and invented rows.

Events tell states and moments, which the clock decides. No event tells how far an engine is: that depends on the rows.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from discreet.formats import to_arrow, to_csv, to_json_value
from discreet.remote.invented import invent_columns
from discreet.serve.control.model import Ask, Job, JobState, Scope, TableEntry
from discreet.serve.web.answers import FORMATS, choose_format, write_answer, write_arrow, write_objects, write_parquet
from discreet.serve.web.api_common import PROBLEMS, Id, Name, describe_json, json
from discreet.serve.web.problems import Refusal, respond
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import Caller

HEARTBEAT_SECONDS = 15.0
MAX_STREAMS = 20
"""Streams of events that one person may have open."""
MAX_INVENTED = 100_000
CERTIFICATE_SECONDS = 20.0
OTHERS_CERTIFICATE = (
    "Another analyst paid for this answer, and its certificate names their account. Ask them or a steward for it, or ask "
    "the query with `fresh`, which is charged to you."
)

FILES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The answer.", "content": {each.media.partition(";")[0]: {} for each in FORMATS.values()}},
    304: {"description": "You have it."},
    **PROBLEMS,
}


def add_outcomes(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add answers, certificates, events and invented rows."""

    @router.get("/asks/{ask}/answer", responses=FILES, summary="The answer, in a format of your choice")
    async def show_answer(
        ask: Id,
        caller: Annotated[Caller, Depends(find_caller)],
        format: Annotated[str | None, Query(max_length=20)] = None,
        accept: Annotated[str | None, Header(max_length=2000)] = None,
        if_none_match: Annotated[str | None, Header(max_length=2000)] = None,
    ) -> Response:
        caller.require(Scope.READ)
        found = await run_in_threadpool(web.find_answered, caller, ask)
        name = choose_format(format, accept)
        write = partial(write_answer, found, name, if_none_match)
        return await (web.drawings.run(caller.person.id, write) if FORMATS[name].is_drawn else run_in_threadpool(write))

    @router.get(
        "/asks/{ask}/certificate", responses=describe_json(), summary="The signed certificate; a worker makes it on demand"
    )
    async def show_certificate(ask: Id, caller: Annotated[Caller, Depends(find_caller)]) -> Response:
        caller.require(Scope.READ)
        found = await run_in_threadpool(web.find_answered, caller, ask)
        job = await fetch_certificate(web, caller, found)
        if job.error is not None:
            return respond(job.error)
        if job.result is None:
            raise Refusal(503, "The certificate is not signed yet. Try again in a moment.", {"Retry-After": "1"})
        return json(job.result["certificate"], headers={"Cache-Control": "private, max-age=3600"})

    @router.get(
        "/asks/{ask}/events",
        responses={200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}, **PROBLEMS},
        summary="The states of an ask, as they change",
    )
    async def show_events(
        ask: Id,
        caller: Annotated[Caller, Depends(find_caller)],
        last_event_id: Annotated[str | None, Header(max_length=200)] = None,
    ) -> Response:
        caller.require(Scope.READ)
        found = await run_in_threadpool(web.find_ask, caller, ask)
        return stream_events(web, found, caller.person.id, last_event_id)

    @router.get("/tables/{table}/dummy", responses=FILES, summary="Invented rows, made from the policy alone")
    async def show_invented(
        table: Name,
        caller: Annotated[Caller, Depends(find_caller)],
        rows: Annotated[int, Query(ge=1, le=MAX_INVENTED)] = 1000,
        seed: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
        format: Annotated[str | None, Query(pattern="^(csv|ndjson|arrow|parquet|json)$")] = None,
        accept: Annotated[str | None, Header(max_length=2000)] = None,
    ) -> Response:
        caller.require(Scope.READ)
        entry, _ = await run_in_threadpool(web.find_table, caller, table)
        web.quote_limit.take(caller.limit_key)
        write = partial(write_invented, web, entry, rows, seed, format or choose_format(None, accept))
        return await web.drawings.run(caller.person.id, write)


async def fetch_certificate(web: Web, caller: Caller, ask: Ask) -> Job:
    """Return the job that signs the certificate of an ask, when it has ended or after `CERTIFICATE_SECONDS`.

    A certificate holds the debit byte for byte, under the signature: who was charged, under which key, and what their
    account had spent. So it is for who paid, and for stewards; an analyst who was shown the answer for nothing gets none.

    Raises:
        Refusal: 403 if another person paid for the answer.
    """
    if ask.person != caller.person.id and not caller.is_steward:
        raise Refusal(403, OTHERS_CERTIFICATE)
    job = await run_in_threadpool(_find_certificate, web, ask)
    job = await web.bell.wait_for_job(job, CERTIFICATE_SECONDS)
    if job.result is not None and not caller.is_steward:
        certificate = job.result["certificate"]
        debits = [msgspec.json.decode(entry)["id"] for entry in (certificate["entry"], *certificate["earlier"])]
        if not all(each.startswith(f"{caller.person.id}:") for each in debits):  # as `Ask.debit_id` is written
            raise Refusal(403, OTHERS_CERTIFICATE)
    return job


def _find_certificate(web: Web, ask: Ask) -> Job:
    """Return the job that signs the certificate of an ask; queue it if there is none, or if it failed."""
    jobs = web.control.list_jobs(subject=ask.id, limit=20)
    made = next((job for job in jobs if job.kind == "certificate" and job.state is not JobState.FAILED), None)
    return made or web.control.enqueue("certificate", ask.id, person=ask.person, by=ask.person)


def stream_events(web: Web, ask: Ask, person: str, last: str | None = None) -> Response:
    """Return the states of an ask as server-sent events, until it ends. The reader resumes with the last id it saw."""
    if web.streams.get(person, 0) >= MAX_STREAMS:
        raise Refusal(429, f"You have {MAX_STREAMS} streams open. Close one.", {"Retry-After": "10"})

    web.streams[person] = web.streams.get(person, 0) + 1  # before another request is checked: this runs in the event loop
    counted = [person]

    def forget() -> None:
        for each in [counted.pop()] if counted else []:
            left = web.streams.get(each, 1) - 1
            if left > 0:
                web.streams[each] = left
            else:
                web.streams.pop(each, None)

    async def produce(ask: Ask, last: str | None) -> AsyncIterator[bytes]:
        try:
            while True:
                name = f"{ask.state.value}/{ask.overruns}"
                if name != last:
                    shown = {"state": ask.state.value, "arrives_at": ask.release_at, "now": web.clock.now()}
                    yield f"event: state\nid: {name}\ndata: {msgspec.json.encode(shown).decode()}\n\n".encode()
                    last = name
                if ask.state.is_final or web.bell.is_closed:
                    return
                following = await web.bell.wait(ask, HEARTBEAT_SECONDS)
                if following == ask:
                    yield b": still here\n\n"
                ask = following
        finally:
            forget()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return CountedStream(forget, produce(ask, last), headers=headers, media_type="text/event-stream")


class CountedStream(StreamingResponse):
    """A stream that is no longer counted when it has ended, also where its reader left before it began."""

    def __init__(self, forget: Callable[[], None], *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._forget = forget

    async def __call__(self, *given: Any) -> None:
        try:
            await super().__call__(*given)
        finally:
            self._forget()


def write_invented(web: Web, entry: TableEntry, rows: int, seed: int, name: str) -> Response:
    """Return invented rows in a format. They come from the policy and the seed, and from no row of the table."""
    columns = {each: column.to_list() for each, column in invent_columns(web.quoter.read_table(entry), rows, seed).items()}
    header, records = tuple(columns), list(zip(*columns.values(), strict=True))
    match name:
        case "csv" | "spreadsheet":
            body = to_csv(header, records, spreadsheet=name == "spreadsheet").encode()
        case "ndjson":
            body = write_objects(header, records)
        case "arrow":
            body = write_arrow(to_arrow(header, records))
        case "parquet":
            body = write_parquet(to_arrow(header, records))
        case _:
            name, plain = "json", {each: [*map(to_json_value, values)] for each, values in columns.items()}
            body = msgspec.json.encode({"invented": True, "rows": rows, "seed": seed, "columns": plain})
    headers = {"X-Invented": "policy", "Cache-Control": "private, max-age=3600", "Vary": "Accept, Authorization"}
    if FORMATS[name].is_download:
        headers["Content-Disposition"] = f'attachment; filename="invented.{FORMATS[name].suffix}"'
    return Response(body, 200, headers, FORMATS[name].media)
