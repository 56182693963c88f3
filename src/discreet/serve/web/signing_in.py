"""Who is asking: bearer tokens for the API, a cookie for pages, links that sign in once, and a provider of OpenID Connect.

- The **API** takes bearer tokens and ignores cookies, so a page of another site that makes a browser send its cookies
  reaches nothing there. A token that is revoked is refused at the next request: nothing is remembered here.
- **Pages** take a cookie that no script can read (`HttpOnly`), that is sent to no other site (`SameSite=Lax`) and, over TLS,
  has the prefix `__Host-`. Signing in always makes a new one. Every form holds a token of the login; the guard has already
  refused what another origin sent.
- A **link** signs in once, within ten minutes. `GET /in?once=…` shows a button and `POST /in` uses the link: programs that
  preview links in mail and chat only ever GET. With `direct_links`, which the embedded service sets on loopback, where no
  such program sees what the terminal prints, the GET itself signs in; then the address with the secret leaves the history by
  a redirect. A prefetching browser is never signed in.
- Where to go next is a path of this service, never an address.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote as quote_url

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse

from discreet.serve.control.errors import PersonExists
from discreet.serve.control.model import Login, Person, Role, Scope, Token
from discreet.serve.control.store import Control
from discreet.serve.web.oidc import Identity, Pending, Provider
from discreet.serve.web.problems import Refusal
from discreet.serve.web.settings import WebSettings

NOT_SIGNED_IN = "No valid token. Send `Authorization: Bearer dsc_…`; the page /me makes one, and `discreet login` stores it."
LINK_FAILED = "This link was used already, or is older than ten minutes. Ask for a new one."
FORM_TOKEN = "form_token"
PENDING_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Caller:
    """A person who is signed in, by a token or by a cookie."""

    person: Person
    token: Token | None = None
    login: Login | None = None

    @property
    def is_steward(self) -> bool:
        """Whether a steward acts: by a cookie, or by a token that may."""
        return self.person.role is Role.STEWARD and (self.token is None or Scope.STEWARD in self.token.scopes)

    @property
    def limit_key(self) -> str:
        """What limits are counted by: the person, who may have many tokens."""
        return self.person.id

    def require(self, scope: Scope) -> None:
        """Refuse what the token may not be used for, or what the role does not include."""
        if scope is Scope.STEWARD and not self.is_steward:
            raise Refusal(403, "Only a steward may do this, with a token that has the scope `steward`.")
        if self.token is not None and scope not in self.token.scopes and Scope.STEWARD not in self.token.scopes:
            raise Refusal(403, f"The token lacks the scope `{scope}`. Make one that has it.")
        if scope is Scope.ASK and self.person.role is Role.READER:
            raise Refusal(403, "A reader sees released answers and cannot ask. Ask a steward for the role of an analyst.")

    def require_browser(self) -> None:
        """Refuse a token what would outlive it: a thief's access ends when the token that was stolen is revoked."""
        if self.token is not None:
            raise Refusal(403, "A token makes no tokens or links, and ends no token but itself. Sign in and use the pages.")

    @property
    def is_limited(self) -> bool:
        """Whether a token is used that reaches some tables alone."""
        return self.token is not None and self.token.tables is not None

    def require_all_tables(self) -> None:
        """Refuse a token that reaches some tables alone what is about all of them."""
        if self.is_limited:
            raise Refusal(403, "The token is limited to some tables, and this is about all. Use one without that limit.")

    def may_use(self, table: str) -> bool:
        """Whether the token reaches a table."""
        return self.token is None or self.token.tables is None or table in self.token.tables


def check_next(target: str | None) -> str:
    """Return a path of this service; "/" in place of anything else, so that no link leads elsewhere after signing in.

    >>> check_next("/t/people?a=1"), check_next("//evil.example"), check_next("https://evil.example"), check_next(None)
    ('/t/people?a=1', '/', '/', '/')
    >>> check_next("/\\\\evil.example"), check_next("/\\t/evil.example"), check_next("/in")
    ('/', '/', '/')
    """
    if not target or not _PATH.fullmatch(target) or target.startswith("/in"):
        return "/"
    return target


_PATH = re.compile(r"/(?:[\w.~!$&'()*+,;=:@%-][\w.~!$&'()*+,;=:@%/?-]*)?", re.ASCII)


class SigningIn:
    """Recognises who asks, and signs browsers in and out."""

    def __init__(self, control: Control, settings: WebSettings, provider: Provider | None = None) -> None:
        self.control, self.settings = control, settings
        if provider is None and settings.oidc is not None:
            provider = Provider(settings.oidc, f"{settings.address}/in/callback")
        self.provider = provider
        self.cookie = "__Host-discreet" if settings.is_secure else "discreet"
        self.pending_cookie = "__Host-discreet-oidc" if settings.is_secure else "discreet-oidc"

    # Tokens

    def authenticate(self, authorization: str | None) -> Caller:
        """Return whose token this is."""
        scheme, _, secret = (authorization or "").partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not 8 <= len(secret) <= 200 or not secret.isascii():
            raise Refusal(401, NOT_SIGNED_IN)
        with self.control.reading():
            token = self.control.find_token(secret)
            person = None if token is None else self.control.find_person(token.person)
        if token is None or person is None or person.disabled:
            raise Refusal(401, NOT_SIGNED_IN)
        return Caller(person, token)

    # Cookies

    def find_caller(self, request: Request) -> Caller | None:
        """Return who is signed in by the cookie of a page's request."""
        secret = request.cookies.get(self.cookie)
        if not secret or len(secret) > 200:
            return None
        login = self.control.find_login(secret, seconds=self.settings.login_hours * 3600)
        person = None if login is None else self.control.find_person(login.person)
        return None if person is None or person.disabled else Caller(person, login=login)

    def check_form(self, caller: Caller, given: str | None) -> None:
        """Refuse a form that this service did not make for this login."""
        if caller.login is None or not hmac.compare_digest(caller.login.csrf.encode(), (given or "").encode()):
            raise Refusal(403, "The form is out of date. Load the page again and repeat what you did.")

    def sign_in(self, request: Request, person: Person, target: str) -> Response:
        """Return the redirect that signs a browser in, under a new secret. An earlier login of the browser ends."""
        if earlier := request.cookies.get(self.cookie):
            self.control.end_login(earlier)
        _, secret = self.control.add_login(person.id, seconds=self.settings.login_hours * 3600)
        response = RedirectResponse(check_next(target), 303)
        self._set_cookie(response, self.cookie, secret, None)
        return response

    def sign_out(self, request: Request) -> Response:
        """Return the redirect that signs a browser out and empties what it keeps of this service."""
        if secret := request.cookies.get(self.cookie):
            self.control.end_login(secret)
        response = RedirectResponse("/in", 303)
        response.headers["Clear-Site-Data"] = '"cache", "cookies", "storage"'
        self._set_cookie(response, self.cookie, "", 0)
        return response

    def _set_cookie(self, response: Response, name: str, value: str, seconds: int | None) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path="/", secure=self.settings.is_secure, httponly=True, samesite="lax"
        )

    # Provider

    def begin_oidc(self, target: str) -> Response:
        """Return the redirect to the provider."""
        if self.provider is None:
            raise Refusal(404, "No provider is set up.")
        address, pending = self.provider.begin(check_next(target))
        response = RedirectResponse(address, 303)
        kept = quote_url(msgspec.json.encode(pending).decode())
        self._set_cookie(response, self.pending_cookie, kept, PENDING_SECONDS)
        return response

    def finish_oidc(self, request: Request) -> Response:
        """Take the provider's answer and sign the person in."""
        from urllib.parse import unquote

        if self.provider is None:
            raise Refusal(404, "No provider is set up.")
        given = request.query_params
        try:
            pending = msgspec.json.decode(unquote(request.cookies.get(self.pending_cookie, "")), type=Pending)
        except msgspec.MsgspecError:
            raise Refusal(403, "The sign-in was begun in another browser, or too long ago. Start again.") from None
        identity = self.provider.finish(pending, given.get("state", ""), given.get("code", ""), given.get("iss"))
        person = self._find_or_add(identity)
        response = self.sign_in(request, person, pending.next)
        self._set_cookie(response, self.pending_cookie, "", 0)
        return response

    def _find_or_add(self, identity: Identity) -> Person:
        """Return the person of an identity. The provider decides the role, each time: who left a group loses it."""
        person = self.control.find_person_by_subject(identity.subject)
        if person is None:
            return self._add(identity)
        if person.disabled:
            raise Refusal(403, "This person is blocked. Ask a steward.")
        if person.role is not identity.role:
            return self.control.change_person(person.id, role=identity.role, by="oidc")
        return person

    def _add(self, identity: Identity) -> Person:
        base = re.sub(r"[^a-z0-9-]+", "-", identity.login.lower())[:35].strip("-") or "person"
        for number in range(1, 1000):
            name = base if number == 1 else f"{base}-{number}"
            person = Person(id=name, name=identity.name, email=identity.email, subject=identity.subject, role=identity.role)
            if self.control.find_person(name) is None:
                try:
                    return self.control.add_person(person, by="oidc")
                except PersonExists:  # another process was first
                    continue
        raise Refusal(503, "No free name was found for this person. Ask a steward.")


def add_routes(app: APIRouter, web: Any) -> None:
    """Add the addresses that sign browsers in and out. `web.render` draws the pages."""
    signing: SigningIn = web.signing

    @app.get("/in", include_in_schema=False)
    async def show(request: Request, once: str = "", next: str = "") -> Response:
        purpose = request.headers.get("sec-purpose", "") + request.headers.get("purpose", "")
        site = request.headers.get("sec-fetch-site", "none")
        if once and web.settings.direct_links and "prefetch" not in purpose and site in ("none", "same-origin"):
            return await run_in_threadpool(use, request, once, next)
        provider = None if signing.provider is None else signing.provider.settings.name
        values = {"once": once[:200], "next": check_next(next), "provider": provider}
        return await run_in_threadpool(web.render, request, "sign_in", values)

    def use(request: Request, once: str, target: str) -> Response:
        person = signing.control.use_link(once) if 8 <= len(once) <= 200 else None
        if person is None:
            raise Refusal(403, LINK_FAILED)
        return signing.sign_in(request, person, target)

    @app.post("/in", include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        form = await request.form()
        return await run_in_threadpool(use, request, str(form.get("once", "")), str(form.get("next", "")))

    @app.post("/out", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        form = await request.form()

        def run() -> Response:
            caller = signing.find_caller(request)
            if caller is not None:
                signing.check_form(caller, str(form.get(FORM_TOKEN, "")))
            return signing.sign_out(request)

        return await run_in_threadpool(run)

    @app.get("/in/oidc", include_in_schema=False)
    async def begin(next: str = "") -> Response:
        return await run_apart(lambda: signing.begin_oidc(next))

    @app.get("/in/callback", include_in_schema=False)
    async def finish(request: Request) -> Response:
        return await run_apart(lambda: signing.finish_oidc(request))

    async def run_apart(work: Callable[[], Response]) -> Response:
        """Run what waits for the provider in threads of its own; where no provider is set up, nothing waits."""
        response: Response = await web.sign_ins.run("", work)
        return response


def render_plain(request: Request, name: str, values: dict[str, Any]) -> Response:
    """Draw the sign-in page without templates: what is shown where no pages are installed."""
    once, target = escape(values.get("once", "")), escape(values.get("next", "/"))
    button = (
        f'<form method="post" action="/in"><input type="hidden" name="once" value="{once}">'
        f'<input type="hidden" name="next" value="{target}"><button>Sign in</button></form>'
        if once
        else "<p>Open the link that the service printed, or that a steward sent you.</p>"
    )
    if values.get("provider"):
        button += f'<p><a href="/in/oidc?next={quote_url(target)}">{escape(values["provider"])}</a></p>'
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in</title>'
        f"<main><h1>Sign in</h1>{button}</main></html>"
    )
