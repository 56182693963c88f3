"""Routes for people, tokens, grants, requests, publications, the trail and the ledger. What they do is in `stewardship`."""

import threading
from base64 import b64decode
from collections import Counter
from io import BytesIO
from typing import Annotated, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials

from discreet.serve.control.model import Publication, PublicationState, RequestState, Scope
from discreet.serve.web.api_common import BEARER, PAGE, PROBLEMS, Cursor, Id, Limit, Name, describe_json, json, make_page
from discreet.serve.web.bodies import (
    ApprovalBody,
    CommentBody,
    GrantBody,
    PauseBody,
    PersonBody,
    PersonChange,
    PolicyBody,
    PublicationBody,
    PublicBody,
    ReleaseBody,
    RulesBody,
    VerifyBody,
)
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import Caller
from discreet.serve.web.stewardship import Stewardship, to_plain

ALSO_STRANGERS: dict[str, Any] = {"security": [{}]}
"""For OpenAPI: no token is needed."""


def add_people(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add people, tokens and grants."""
    stewardship, control = Stewardship(web), web.control
    Known = Annotated[Caller, Depends(find_caller)]  # noqa: N806

    @router.get("/people", responses=describe_json(PAGE), summary="All people (stewards), or yourself")
    def list_people(caller: Known) -> Response:
        caller.require(Scope.READ)
        people = control.list_people() if caller.is_steward and not caller.is_limited else (caller.person,)
        return json({"items": [to_plain(each, "subject") for each in people], "cursor": None})

    @router.post("/people", status_code=201, responses=describe_json({"type": "object"}, 201), summary="Add a person")
    def add_person(body: PersonBody, caller: Known) -> Response:
        return json(to_plain(stewardship.add_person(caller, body.id, body.name, body.role, body.email)), 201)

    @router.patch("/people/{person}", responses=describe_json(), summary="Change a role, or shut a person out")
    def change_person(person: Name, body: PersonChange, caller: Known) -> Response:
        return json(to_plain(stewardship.change_person(caller, person, body.role, body.disabled), "subject"))

    @router.get("/tokens", responses=describe_json(PAGE), summary="Your tokens, without their secrets")
    def list_tokens(caller: Known, person: Annotated[str | None, Query(max_length=200)] = None) -> Response:
        caller.require(Scope.READ)
        if person is not None and person != caller.person.id:
            caller.require(Scope.STEWARD)
        tokens = (
            (caller.token,)
            if caller.token is not None and caller.is_limited
            else control.list_tokens(person or caller.person.id)
        )
        return json({"items": [to_plain(each) for each in tokens], "cursor": None})

    @router.delete("/tokens/{token}", responses=describe_json(), summary="Revoke this token; others on the page /me")
    def revoke_token(token: Id, caller: Known) -> Response:
        return json(to_plain(stewardship.revoke_token(caller, token)))

    @router.get("/grants", responses=describe_json(PAGE), summary="All grants (stewards), or yours")
    def list_grants(caller: Known) -> Response:
        caller.require(Scope.READ)
        grants = control.list_grants() if caller.is_steward else control.list_grants(person=caller.person.id)
        return json({"items": [to_plain(each) for each in grants if caller.may_use(each.table)], "cursor": None})

    @router.post(
        "/grants",
        status_code=202,
        responses=describe_json({"type": "object"}, 202),
        summary="Let a person ask of a table; a worker opens the account",
    )
    def add_grant(body: GrantBody, caller: Known) -> Response:
        grant, job = stewardship.grant(caller, body.person, body.table, body.epsilon)
        return json({**to_plain(grant), "job": None if job is None else job.id}, 202)

    @router.delete("/grants/{person}/{table}", responses=describe_json(), summary="Take a grant away")
    def revoke_grant(person: Name, table: Name, caller: Known) -> Response:
        stewardship.revoke_grant(caller, person, table)
        return json({"removed": True})

    @router.post("/grants/{person}/{table}/pause", responses=describe_json(), summary="Take no asks from an account")
    def pause(person: Name, table: Name, body: PauseBody, caller: Known) -> Response:
        return json(to_plain(stewardship.pause(caller, person, table, body.reason)))

    @router.post("/grants/{person}/{table}/resume", responses=describe_json(), summary="Take asks from it again")
    def resume(person: Name, table: Name, caller: Known) -> Response:
        return json(to_plain(stewardship.pause(caller, person, table, None)))


def add_requests(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add requests for approval, and proposals of policies."""
    stewardship, control = Stewardship(web), web.control
    Known = Annotated[Caller, Depends(find_caller)]  # noqa: N806

    def show(request: Any) -> dict[str, Any]:
        ask = control.find_ask(request.ask)
        asked = {} if ask is None else {"query": ask.query, "epsilon": ask.epsilon, "cost": ask.cost, "account": ask.account}
        return {**to_plain(request), **asked}

    @router.get("/requests", responses=describe_json(PAGE), summary="Requests for approval: all (stewards), or yours")
    def list_requests(
        request: Request,
        caller: Known,
        state: RequestState | None = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> Response:
        caller.require(Scope.READ)
        person = None if caller.is_steward else caller.person.id
        page = control.list_requests(person=person, state=state, cursor=cursor, limit=limit)
        return make_page([show(each) for each in page.items if caller.may_use(each.table)], page.cursor, request)

    @router.get("/requests/{ask}", responses=describe_json(), summary="One request")
    def show_request(ask: Id, caller: Known) -> Response:
        caller.require(Scope.READ)
        return json(show(stewardship.find_request(caller, ask)))

    @router.post("/requests/{ask}/approve", responses=describe_json(), summary="Approve the measurement that you saw")
    def approve(ask: Id, body: ApprovalBody, caller: Known) -> Response:
        return json(show(stewardship.approve(caller, ask, body.measurement, body.comment)))

    @router.post("/requests/{ask}/decline", responses=describe_json(), summary="Decline a request")
    def decline(ask: Id, body: CommentBody, caller: Known) -> Response:
        return json(show(stewardship.decline(caller, ask, body.comment)))

    @router.post("/requests/{ask}/return", responses=describe_json(), summary="Ask the analyst back")
    def send_back(ask: Id, body: CommentBody, caller: Known) -> Response:
        return json(show(stewardship.send_back(caller, ask, body.comment)))

    @router.post("/requests/{ask}/reply", responses=describe_json(), summary="Answer a steward who asked back")
    def reply(ask: Id, body: CommentBody, caller: Known) -> Response:
        caller.require(Scope.ASK)
        return json(show(stewardship.reply(caller, ask, body.comment)))

    @router.get("/tables/{table}/rules", responses=describe_json(), summary="What may be asked without approval")
    def show_rules(table: Name, caller: Known) -> Response:
        return json(to_plain(stewardship.find_rules(caller, table)))

    @router.put("/tables/{table}/rules", responses=describe_json(), summary="Set what may be asked without approval")
    def change_rules(table: Name, body: RulesBody, caller: Known) -> Response:
        return json(to_plain(stewardship.change_rules(caller, table, body.to_rules())))

    @router.get("/tables/{table}/proposals", responses=describe_json(PAGE), summary="Proposed policies of a table")
    def list_proposals(table: Name, caller: Known) -> Response:
        caller.require(Scope.STEWARD)
        web.find_table(caller, table)
        return json({"items": [to_plain(each) for each in control.list_proposals(table)], "cursor": None})

    @router.post(
        "/tables/{table}/proposals",
        status_code=201,
        responses=describe_json({"type": "object"}, 201),
        summary="Propose a policy; the owner accepts it where the worker runs",
    )
    def propose(table: Name, body: PolicyBody, caller: Known) -> Response:
        return json(to_plain(stewardship.propose_policy(caller, table, body.policy)), 201)


def add_records(router: APIRouter, web: Web, find_caller: Any) -> None:
    """Add publications, the trail, the ledger and the check of certificates."""
    stewardship, control = Stewardship(web), web.control
    Known = Annotated[Caller, Depends(find_caller)]  # noqa: N806

    def find_reader(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Caller | None:
        """Return who reads a publication; None for a stranger, who sees what is public."""
        return None if given is None else web.signing.authenticate(f"{given.scheme} {given.credentials}")

    Reader = Annotated[Caller | None, Depends(find_reader)]  # noqa: N806

    def show(publication: Publication, reader: Caller | None) -> dict[str, Any]:
        """Return a publication; who sees it because it is public does not see whose it is, who approved it, and its plan."""
        is_known = reader is not None and stewardship.may_read(reader, publication)
        hidden = () if is_known else ("by", "approvals", "plan")
        return {name: value for name, value in show_publication(publication).items() if name not in hidden}

    @router.get(
        "/publications", responses=describe_json(PAGE), openapi_extra=ALSO_STRANGERS, summary="Publications that you may see"
    )
    def list_publications(request: Request, reader: Reader, cursor: Cursor = None, limit: Limit = 50) -> Response:
        page = control.list_publications(cursor=cursor, limit=limit)
        seen = [each for each in page.items if _may_see(stewardship, reader, each)]
        return make_page([show(each, reader) for each in seen], page.cursor, request)

    @router.post(
        "/publications", status_code=202, responses=describe_json({"type": "object"}, 202), summary="Propose a publication"
    )
    def add_publication(body: PublicationBody, caller: Known) -> Response:
        return json(show_publication(stewardship.add_publication(caller, body.title, body.table, body.plan)), 202)

    @router.get(
        "/publications/{publication}", responses=describe_json(), openapi_extra=ALSO_STRANGERS, summary="One publication"
    )
    def find_publication(publication: Id, reader: Reader) -> Response:
        return json(show(stewardship.find_publication(reader, publication), reader))

    @router.get(
        "/publications/{publication}/folder.zip",
        responses={200: {"description": "The folder.", "content": {"application/zip": {}}}, **PROBLEMS},
        openapi_extra=ALSO_STRANGERS,
        summary="The published folder",
    )
    def download(publication: Id, reader: Reader) -> Response:
        found = stewardship.find_publication(reader, publication)
        if found.state is not PublicationState.PUBLISHED:
            raise Refusal(409, f"The publication is {found.state}: it has no folder.")
        headers = {"Content-Disposition": f'attachment; filename="publication-{found.id[:8]}.zip"'}
        return Response(make_zip(found), 200, headers, "application/zip")

    @router.post("/publications/{publication}/approve", responses=describe_json(), summary="Approve a publication")
    def approve(publication: Id, caller: Known) -> Response:
        return json(show_publication(stewardship.decide_publication(caller, publication, True)))

    @router.post("/publications/{publication}/decline", responses=describe_json(), summary="Decline a publication")
    def decline(publication: Id, caller: Known) -> Response:
        return json(show_publication(stewardship.decide_publication(caller, publication, False)))

    @router.post("/publications/{publication}/show", responses=describe_json(), summary="Show it to everybody, or not")
    def open_publication(publication: Id, body: PublicBody, caller: Known) -> Response:
        return json(show_publication(stewardship.open_publication(caller, publication, body.is_public)))

    @router.get(
        "/trail",
        responses={
            200: {"description": "Lines.", "content": {"application/json": {"schema": PAGE}, "application/x-ndjson": {}}},
            **PROBLEMS,
        },
        summary="The audit trail: all of it (stewards), or the lines about you",
    )
    def list_trail(request: Request, caller: Known, cursor: Cursor = None, limit: Limit = 50) -> Response:
        caller.require(Scope.READ)
        lines, following = stewardship.list_trail(caller, cursor, limit)
        if request.headers.get("accept", "").startswith("application/x-ndjson"):
            body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            return Response(body, 200, {} if following is None else {"X-Cursor": following}, "application/x-ndjson")
        return make_page([to_plain(line) for line in lines], following, request)

    @router.post(
        "/asks/{ask}/release",
        status_code=202,
        responses=describe_json({"type": "object"}, 202),
        summary="Release an answer: a worker mirrors it into the released tables",
    )
    def release_answer(ask: Id, body: ReleaseBody, caller: Known) -> Response:
        job = stewardship.release_answer(caller, ask, body.title)
        return json(show_job(job), 202, {"Location": f"/api/v1/jobs/{job.id}"})

    @router.get("/ledger/head", responses=describe_json(), summary="The last head of the ledger that was shown")
    def show_head(caller: Known) -> Response:
        return json({"head": web.show_head()})

    @router.get("/ledger/continues", responses=describe_json(), summary="Whether the ledger continues a head")
    def continues(
        caller: Known,
        number: Annotated[int, Query(ge=0, le=2**63 - 1)],
        hash: Annotated[str, Query(pattern="^[0-9a-f]{64}$")],
    ) -> Response:
        return json({"continues": control.has_head(number, hash), "head": web.show_head()})

    @router.post(
        "/ledger/check",
        status_code=202,
        responses=describe_json({"type": "object"}, 202),
        summary="Check the whole ledger: a job for a worker",
    )
    def check_ledger(caller: Known) -> Response:
        caller.require(Scope.STEWARD)
        job = control.enqueue("ledger_check", "ledger", by=caller.person.id)
        return json(show_job(job), 202, {"Location": f"/api/v1/jobs/{job.id}"})

    @router.get("/jobs/{job}", responses=describe_json(), summary="What became of a job")
    def find_job(job: Id, caller: Known) -> Response:
        caller.require(Scope.STEWARD)
        caller.require_all_tables()
        found = control.find_job(job)
        if found is None:
            raise not_found()
        return json(show_job(found))

    places = Places()

    @router.post("/verify", responses=describe_json(), summary="Check a certificate; no token is needed")
    def verify(body: VerifyBody, request: Request) -> Response:
        with places.take(find_address(web, request)):
            return json(check_certificate(body.certificate, body.public_key))


def show_job(job: Any) -> dict[str, Any]:
    """Return a job without its payload."""
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state.value,
        "created": job.created,
        "result": job.result,
        "problem": job.error,
    }


def show_publication(publication: Publication) -> dict[str, Any]:
    """Return a publication with the names of its files."""
    return {**to_plain(publication, "files", "account", "token"), "files": sorted(publication.files)}


def _may_see(stewardship: Stewardship, reader: Caller | None, publication: Publication) -> bool:
    try:
        stewardship.find_publication(reader, publication.id)
    except Refusal:
        return False
    return True


def make_zip(publication: Publication) -> bytes:
    """Return the folder of a publication. Names come from a worker; none of them leads out of the folder."""
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, content in sorted(publication.files.items()):
            if "/" not in name and "\\" not in name and not name.startswith("."):
                archive.writestr(ZipInfo(name, (1980, 1, 1, 0, 0, 0)), b64decode(content))
    return out.getvalue()


def find_address(web: Web, request: Request) -> str:
    """Return the address that a request comes from, as the proxy states it if there is one."""
    forwarded = request.headers.get("x-forwarded-for") if web.settings.trust_proxy else None
    if forwarded:
        return forwarded.rpartition(",")[2].strip()[:100]
    return request.client.host if request.client else ""


class Places:
    """One check at a time for each address, and few for all together: a check computes, and anybody may ask for one."""

    def __init__(self, most: int = 4) -> None:
        self._lock, self._busy, self._most = threading.Lock(), Counter[str](), most

    def take(self, address: str) -> "Place":
        """Return a context in which the address has its place.

        Raises:
            Refusal: 429 if it has one already, or all are taken.
        """
        with self._lock:
            if self._busy[address] or self._busy.total() >= self._most:
                raise Refusal(429, "A certificate is being checked. Try again when that is done.", {"Retry-After": "2"})
            self._busy[address] += 1
        return Place(self, address)

    def give_back(self, address: str) -> None:
        """Free the place of an address."""
        with self._lock:
            del self._busy[address]


class Place:
    """A place that is given back at the end of the block."""

    def __init__(self, places: Places, address: str) -> None:
        self._places, self._address = places, address

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._places.give_back(self._address)


def check_certificate(certificate: dict[str, Any], public_key: str | None) -> dict[str, Any]:
    """Return the verdict on a certificate: each claim, whether it holds, and what has to be trusted."""
    from discreet.ledger.verify import verify

    found = verify(certificate, public=public_key)
    return {
        "is_valid": found.is_valid,
        "conclusion": found.conclusion,
        "claims": [{"claim": each.claim, "is_valid": each.is_valid} for each in found.claims],
        "assumptions": list(found.assumptions),
    }
