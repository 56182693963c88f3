"""What a form makes and a page shows once: a join code, the secret of a token, a link that signs in.

A form is always answered by a redirect, so that loading the page again makes nothing twice. What is to be shown goes with
the redirect as a cookie for a minute: it lives in the one browser that made it, in no table and in no memory of a process,
and the page that shows it takes it away. No script can read it. It is signed with the token of the login, so a cookie that
another site has put into the browser is not shown.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import msgspec
from fastapi import Response

from discreet.serve.web.pages.drawing import Pages, Visit, redirect

SECONDS = 60
MAX_COOKIE = 4_000
Values = dict[str, str]


def redirect_with(pages: Pages, visit: Visit, path: str, values: Values) -> Response:
    """Return the redirect to a page that shows values once."""
    response = redirect(path)
    body = urlsafe_b64encode(msgspec.json.encode([path, values])).decode()
    _set(pages, response, f"{body}.{_sign(visit, body)}", SECONDS)
    return response


def show_once(pages: Pages, visit: Visit, draw: Callable[[Values | None], Response]) -> Response:
    """Draw a page with the values that were meant for it, and take them away."""
    values = _read(pages, visit)
    response = draw(values)
    if values is not None:
        _set(pages, response, "", 0)
    return response


def _read(pages: Pages, visit: Visit) -> Values | None:
    body, _, mark = visit.request.cookies.get(_name(pages), "")[:MAX_COOKIE].partition(".")
    if not body or not hmac.compare_digest(_sign(visit, body).encode(), mark.encode()):
        return None
    path, values = msgspec.json.decode(urlsafe_b64decode(body), type=tuple[str, Values])
    return values if path == visit.request.url.path else None


def _sign(visit: Visit, body: str) -> str:
    login = visit.caller.login
    assert login is not None  # pages are for logins
    return hmac.new(login.csrf.encode(), f"once {body}".encode(), "sha256").hexdigest()


def _name(pages: Pages) -> str:
    return f"{pages.web.signing.cookie}-once"


def _set(pages: Pages, response: Response, value: str, seconds: int) -> None:
    response.set_cookie(
        _name(pages), value, max_age=seconds, path="/", secure=pages.web.settings.is_secure, httponly=True, samesite="strict"
    )
