"""How pages are drawn: templates with every text escaped, static files under names that hold their hash, forms, problems.

**Threat.** Keys, column names, aliases, titles and comments come from strangers, and one may be `<script>`. Templates escape
everything (a test forbids the `safe` filter and values in scripts); texts of others stand in `<bdi>`, without control
characters, so that none turns the direction of what follows it. No page has an inline script, style or handler, so the
policy of the guard (`script-src 'self'; style-src 'self'`) holds for all of them. htmx attributes would be live in text that
is not escaped; nothing is inserted that the templates did not write.

Every form that changes something holds the token of the login, which is compared before the handler runs.
"""

import gzip
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote as quote_url

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from discreet import __version__
from discreet.errors import DiscreetError
from discreet.serve.control.model import RequestState, Role
from discreet.serve.rounding import round_snapshot
from discreet.serve.web.pages import words
from discreet.serve.web.problems import Refusal, to_response
from discreet.serve.web.service import Web
from discreet.serve.web.signing_in import FORM_TOKEN, Caller
from discreet.serve.web.stewardship import Stewardship
from discreet.text import to_printable

STATIC = {
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "vendor/htmx-2.0.11.min.js": "text/javascript; charset=utf-8",
}
PARTS = {"app.js": ("app.js", "editor.js")}
"""Files that are sent as one: a page shall need few requests."""
FOREVER = "public, immutable, max-age=31536000"
Form = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page, by a person who is signed in, with the fields of its form."""

    request: Request
    caller: Caller
    form: Form

    def field(self, name: str, default: str = "") -> str:
        """Return a field of the form, or of the address where there is no form."""
        if self.request.method == "GET":
            return self.request.query_params.get(name, default)
        return (self.form.get(name) or (default,))[0]

    def fields(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        if self.request.method == "GET":
            return tuple(self.request.query_params.getlist(name))
        return self.form.get(name, ())

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])


Later = Callable[[], Awaitable[Response]]
"""The rest of a handler that waits or draws: it runs in the event loop, so waiting holds no thread."""
Handler = Callable[[Visit], Response | Later]


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file that pages load, as it is sent."""

    address: str
    media: str
    plain: bytes
    packed: bytes


@cache
def load_static() -> dict[str, StaticFile]:
    """Return the static files by name. Their address holds their hash, so browsers may keep them for ever."""
    folder, found = files("discreet.serve.web") / "static", dict[str, StaticFile]()
    for name, media in STATIC.items():
        content = b"".join(folder.joinpath(part).read_bytes() for part in PARTS.get(name, (name,)))
        mark = sha256(content).hexdigest()[:12]
        stem, _, suffix = name.rpartition("/")[2].rpartition(".")
        address = f"/static/{stem}-{mark}.{suffix}"
        found[name] = StaticFile(address, media, content, gzip.compress(content, 9, mtime=0))
    return found


def find_static(name: str) -> str:
    """Return the address of a static file."""
    return load_static()[name].address


def make_environment() -> Environment:
    """Return the templates. Every value is escaped, and a name that was not given is an error."""
    environment = Environment(
        loader=PackageLoader("discreet.serve.web", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "printable": to_printable,
        "one_line": lambda text: " ".join(str(text).split()),
        "epsilon": words.format_epsilon,
        "figures": words.split_figures,
        "moment": words.format_moment,
        "seconds": words.format_seconds,
        "bytes": words.format_bytes,
        "path": words.quote_path,
        "in_words": words.drop_parameters,
        "share": words.format_share,
    }
    environment.globals |= {"static": find_static, "version": __version__, "states": words.STATES}
    return environment


class Pages:
    """What all pages share."""

    def __init__(self, app: FastAPI, web: Web) -> None:
        self.app, self.web, self.control = app, web, web.control
        self.stewardship, self.environment = Stewardship(web), make_environment()

    # Drawing

    def render(self, request: Request, name: str, values: Mapping[str, Any], status: int = 200) -> Response:
        """Draw a page for a person who is signed in, or for a stranger."""
        return self._draw(request, self.web.signing.find_caller(request), name, values, status)

    def show(self, visit: Visit, name: str, status: int = 200, **values: Any) -> Response:
        """Draw a page for a person who is signed in."""
        return self._draw(visit.request, visit.caller, name, values, status)

    def _draw(self, request: Request, caller: Caller | None, name: str, values: Mapping[str, Any], status: int) -> Response:
        login = None if caller is None else caller.login
        shared = {
            "service": self.web.settings.name,
            "address": self.web.settings.address,
            "me": None if caller is None else caller.person,
            "is_steward": caller is not None and caller.is_steward,
            "may_ask": caller is not None and caller.person.role is not Role.READER,
            "form_token": "" if login is None else login.csrf,
            "here": request.url.path,
            "has_lab": self.has_lab,
            "folder": self.web.settings.folder,
            "refused": None,
        }
        body = self.environment.get_template(f"{name}.html").render(shared | dict(values))
        return HTMLResponse(body, status)

    @property
    def has_lab(self) -> bool:
        """Whether the lab is served here."""
        return any(getattr(route, "path", "") == "/lab" for route in self.app.routes)

    def count_waiting(self, caller: Caller) -> int:
        """Return how many requests wait for the caller: open ones for a steward, returned ones for an analyst."""
        state = RequestState.OPEN if caller.is_steward else RequestState.RETURNED
        person = None if caller.is_steward else caller.person.id
        return len(self.control.list_requests(person=person, state=state, limit=100).items)

    def find_budgets(self, caller: Caller, account: str) -> tuple[words.BudgetWords, words.BudgetWords] | None:
        """Return an account and its root in words; what others spend from, too, is rounded. None: not open yet."""
        lineage = self.web.find_lineage(account)
        if not lineage:
            return None
        root = lineage[-1] if caller.is_steward or len(lineage) == 1 else round_snapshot(lineage[-1])
        return words.describe_snapshot(lineage[0]), words.describe_snapshot(root)

    # Routes

    def add(self, path: str, get: Handler | None = None, post: Handler | None = None) -> None:
        """Add a page for people who are signed in. Every form is checked against the login before `post` sees it."""
        for method, handler in (("GET", get), ("POST", post)):
            if handler is not None:
                self._add_route(path, method, handler)

    def _add_route(self, path: str, method: str, handler: Handler) -> None:
        async def answer(request: Request) -> Response:
            form = await read_form(request) if method == "POST" else {}
            found = await run_in_threadpool(self._handle, request, form, handler)
            return found if isinstance(found, Response) else await found()

        self.app.add_api_route(path, answer, methods=[method], include_in_schema=False, response_model=None)

    def _handle(self, request: Request, form: Form, handler: Handler) -> Response | Later:
        caller = self.web.signing.find_caller(request)
        if caller is None:
            return self._send_to_sign_in(request)
        if request.method == "POST":
            self.web.signing.check_form(caller, (form.get(FORM_TOKEN) or ("",))[0])
        return handler(Visit(request, caller, form))

    def draw_later(self, visit: Visit, work: Callable[[], Response]) -> Later:
        """Return the rest of a handler that computes for a while: it waits for its turn without holding a thread."""
        return lambda: self.web.drawings.run(visit.caller.person.id, work)

    @staticmethod
    def _send_to_sign_in(request: Request) -> Response:
        """Lead to the page that signs in, and back afterwards. What was posted is lost, and a fragment is not replaced by a
        whole page."""
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        address = "/in" if request.method == "POST" else f"/in?next={quote_url(target, safe='')}"
        if request.headers.get("hx-request"):
            return Response(status_code=204, headers={"HX-Redirect": "/in"})
        return RedirectResponse(address, 303)

    # Problems

    def add_handlers(self) -> None:
        """Draw errors of pages as pages; those of the API stay problems."""

        async def handle(request: Request, error: Exception) -> Response:
            response = to_response(error)
            if request.url.path.startswith("/api/"):
                return response
            return await run_in_threadpool(self._draw_problem, request, response)

        for kind in (Refusal, DiscreetError, RequestValidationError, HTTPException):
            self.app.add_exception_handler(kind, handle)

    def _draw_problem(self, request: Request, response: Response) -> Response:
        problem = msgspec.json.decode(bytes(response.body))
        drawn = self.render(request, "problem", {"problem": problem}, response.status_code)
        if "retry-after" in response.headers:
            drawn.headers["Retry-After"] = response.headers["retry-after"]
        return drawn

    def add_static(self) -> None:
        """Serve the static files, packed for browsers that take it."""
        by_address = {each.address.removeprefix("/static/"): each for each in load_static().values()}

        async def send(request: Request) -> Response:
            found = by_address.get(request.path_params["name"])
            if found is None:
                raise HTTPException(404)
            headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
            if "gzip" in request.headers.get("accept-encoding", ""):
                return Response(found.packed, 200, headers | {"Content-Encoding": "gzip"}, found.media)
            return Response(found.plain, 200, headers, found.media)

        self.app.add_api_route("/static/{name}", send, methods=["GET"], include_in_schema=False, response_model=None)


async def read_form(request: Request) -> dict[str, tuple[str, ...]]:
    """Return the fields of a form. A file is read as the text that it holds."""
    found: dict[str, list[str]] = {}
    async with request.form(max_files=1, max_fields=300) as form:
        for name, value in form.multi_items():
            text = (await value.read()).decode("utf-8", "replace") if isinstance(value, UploadFile) else value
            found.setdefault(name, []).append(text)
    return {name: tuple(values) for name, values in found.items()}


def redirect(path: str) -> Response:
    """Return the redirect that follows a form, so that loading the page again repeats nothing."""
    return RedirectResponse(path, 303)
