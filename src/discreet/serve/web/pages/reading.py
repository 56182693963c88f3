"""Pages that need no sign-in: the check of a certificate, the API, and what each error means.

A certificate comes from a stranger. Its size is limited by the guard, the readers are strict, one check runs at a time for
each address, and the page shows what was verified, in our words.
"""

import re
from base64 import b64decode
from inspect import getdoc
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from discreet.errors import DiscreetError
from discreet.remote.plain import check_depth
from discreet.remote.problems import FIELDS
from discreet.serve.web.api_stewards import Places, check_certificate, find_address
from discreet.serve.web.pages.drawing import Pages, read_form
from discreet.serve.web.problems import TITLES, Refusal

MEANINGS = {
    "ask-pending": "The service took the question and has not answered it yet: answers are shown at a fixed time, or a "
    "steward must approve it.",
    "bad-parameter": "A number, a name or an option cannot be used. The message names it and what to give instead.",
    "bad-request": "The address or the body has another form than the API describes.",
    "conflict": "What was asked for is not possible any more, such as withdrawing what is answered. Load it again.",
    "discreet-error": "The request was refused for the reason in the message.",
    "internal-error": "A fault of the service. Nothing of the data is in the message; the steward finds more in its log.",
    "key-needed": "Asking by the API takes a header Idempotency-Key, so that a repeated request asks nothing twice.",
    "method-not-allowed": "The address exists, and takes another method, such as POST in place of GET.",
    "not-acceptable": "The answer is not written in this format. The message lists those that are.",
    "not-allowed": "You are signed in, and your role, your token or the form does not allow this.",
    "service-unavailable": "The service has too much to do or is starting. The header Retry-After says when to try again.",
    "source-refused": "The data cannot be opened now. Only the owner reads why.",
    "too-large": "The body is longer than the service reads. Send a shorter one.",
    "too-many-requests": "You sent more than the limit allows. The header Retry-After says when to go on.",
    "too-slow": "The request did not arrive in time. Send it again, over a better connection.",
    "unsupported-media-type": "Send JSON with the header Content-Type: application/json.",
    "wrong-host": "The service is reached under another name. Use the address that its steward gave you.",
}
"""What a problem means where its title or its description in Python does not say it to another person who reads a page."""
NO_CERTIFICATE = (
    "This is no certificate: it is not an object of JSON. Choose the JSON file of an answer, or release.json of a folder."
)
CERTIFICATE = "release.json"
"""The certificate in the folder of a publication."""
METHODS = ("get", "post", "put", "patch", "delete")


class Reading:
    """The public pages."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.places = pages, pages.web, Places()

    def add(self) -> None:
        """Add them."""

        async def show_verify(request: Request) -> Response:
            return await run_in_threadpool(self._show_verify, request)

        async def verify(request: Request) -> Response:
            form = await read_form(request)
            given = next((each for each in (*form.get("file", ()), *form.get("text", ())) if each.strip()), "")
            return await run_in_threadpool(self._verify, request, given, (form.get("key") or ("",))[0].strip())

        async def show_api(request: Request) -> Response:
            return await run_in_threadpool(self._draw_api, request)

        async def show_errors(request: Request) -> Response:
            return await run_in_threadpool(self.pages.render, request, "errors", {"errors": list_errors()})

        async def show_keys(request: Request) -> Response:
            return await run_in_threadpool(self.pages.render, request, "keys", {})

        for path, method, handler in (
            ("/verify", "GET", show_verify), ("/verify", "POST", verify), ("/api", "GET", show_api),
            ("/errors", "GET", show_errors), ("/keys", "GET", show_keys),
        ):  # fmt: skip
            self.pages.app.add_api_route(path, handler, methods=[method], include_in_schema=False, response_model=None)

    def _draw_api(self, request: Request) -> Response:
        caller = self.web.signing.find_caller(request)
        tables = [] if caller is None else self.web.list_tables(caller)
        table = tables[0][0].name if tables else "TABLE"
        values = {"operations": list_operations(self.pages.app.openapi(), table), "table": table}
        return self.pages.render(request, "api", values)

    def _show_verify(self, request: Request) -> Response:
        """Draw the form; with the certificate of a publication that the reader may see, if the address names one."""
        given, id = "", request.query_params.get("publication", "")[:100]
        if id:
            found = self.pages.stewardship.find_publication(self.web.signing.find_caller(request), id)
            given = b64decode(found.files.get(CERTIFICATE, "")).decode("utf-8", "replace")
        return self._draw_verify(request, given, None, None)

    def _verify(self, request: Request, given: str, key: str) -> Response:
        try:
            certificate = msgspec.json.decode(given)
            if not isinstance(certificate, dict):
                raise ValueError
            check_depth(certificate)
            with self.places.take(find_address(self.web, request)):
                verdict = check_certificate(certificate, key or None)
        except (msgspec.MsgspecError, ValueError, RecursionError, DiscreetError, Refusal) as error:
            known = isinstance(error, DiscreetError | Refusal)
            problem = str(error) if known else NO_CERTIFICATE
            if given.startswith("PK\x03\x04"):
                given, problem = (
                    "",
                    "This is a zip file. Unpack it, and choose release.json, which is the certificate of its folder.",
                )
            return self._draw_verify(request, given, None, problem)
        return self._draw_verify(request, given, verdict, None)

    def _draw_verify(self, request: Request, given: str, verdict: Any, problem: str | None) -> Response:
        key = self.web.control.find_setting("public_key")
        values = {"verdict": verdict, "problem": problem, "given": given[:200_000], "key": key}
        return self.pages.render(request, "verify", values, 422 if problem else 200)


def list_operations(description: dict[str, Any], table: str) -> list[dict[str, str]]:
    """Return the operations of the API, each with a line of curl, for a table of the reader's."""
    found = []
    for path, item in description.get("paths", {}).items():
        for method in METHODS:
            if method in item:
                sample = _write_body(item[method].get("requestBody"), description, table)
                body = f" -H 'Content-Type: application/json' -d '{sample}'" if sample else ""
                summary, example = item[method].get("summary", ""), path.replace("{table}", quote(table, safe=""))
                found.append({"method": method.upper(), "path": path, "summary": summary, "body": body, "example": example})
    return found


def _write_body(body: Any, description: dict[str, Any], table: str) -> str:
    """Return a body that an operation takes, as JSON with a sample for each field that is needed; empty if it takes none."""
    if body is None:
        return ""
    contents: list[dict[str, Any]] = [*body.get("content", {}).values(), {}]
    schema: dict[str, Any] = contents[0].get("schema", {})
    schema = description.get("components", {}).get("schemas", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
    samples: dict[str, Any] = {
        "table": table, "query": f"SELECT COUNT(*) AS n FROM {table}", "epsilon": "0.1", "person": "ada", "id": "ada",
        "name": "Ada", "role": "analyst", "title": "Heads", "reason": "on leave", "measurement": "0" * 64,
    }  # fmt: skip
    wanted = [*schema.get("required", ()), *(["epsilon"] if "query" in schema.get("properties", {}) else [])]
    blanks: dict[str, Any] = {"boolean": True, "integer": 1, "number": 1, "array": [], "object": {}}
    kinds = {name: schema.get("properties", {}).get(name, {}).get("type", "string") for name in wanted}
    found = {name: samples.get(name, blanks.get(kinds[name], "…")) for name in wanted}
    return msgspec.json.encode(found).decode().replace("'", "'\\''")


def list_errors() -> list[dict[str, str]]:
    """Return every problem that the service sends: its anchor, its status and what it means."""
    found = {}
    for kind, (status, _) in FIELDS.items():
        anchor = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
        described = (getdoc(kind) or "").split("\n\n")[0].replace("\n", " ").replace("`", "")
        text = MEANINGS.get(anchor, described)
        found[anchor] = {"anchor": anchor, "title": anchor.replace("-", " ").capitalize(), "status": str(status),
                         "text": text, "name": kind.__name__}  # fmt: skip
    for status, (anchor, title) in TITLES.items():
        if anchor not in found:
            text = MEANINGS[anchor]
            found[anchor] = {"anchor": anchor, "title": title, "status": str(status), "text": text, "name": ""}
    return sorted(found.values(), key=lambda each: each["anchor"])


def add_to(pages: Pages) -> None:
    """Add the pages."""
    Reading(pages).add()
