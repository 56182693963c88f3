"""What every request passes before any other code sees it, and every response on its way out.

- **Host**: an allow-list, on loopback too. DNS rebinding makes a browser send a stranger's name to 127.0.0.1; that name is
  not on the list, and the request ends here.
- **Origin**: a request with an unsafe method that a browser sent from another site is refused, whatever cookie it has.
- **Size**: a body of more than 1 MB is refused, also one that does not announce its length. What is left of it is read and
  thrown away first, up to a limit: a client that still sends would see a broken connection, and not the reason.
- **Time**: a body that has not arrived after half a minute is refused; the head is watched by `connections`.
- **Headers**: no script, frame, style or picture from elsewhere; no sniffing, no framing, no referrer, no window shared with
  another site; and no answer in a cache that is not immutable.
- **Failures**: an unexpected exception becomes a constant text.
"""

import asyncio
import contextlib
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.serve.web.problems import Refusal, log, to_response
from discreet.serve.web.settings import WebSettings

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SAME_SITE = frozenset({"same-origin", "none"})


CLOSE = {"Connection": "close"}
DISCARDED_BYTES = 16_000_000
DISCARD_SECONDS = 5.0
"""How much of a body that is refused is read, and for how long, before the refusal is sent."""


class BodyRefused(HTTPException):
    """A body that is longer than the limit (413), or takes too long to arrive (408)."""

    def __init__(self, status: int) -> None:
        super().__init__(status, headers=CLOSE)


class Guard:
    """The middleware. Pure ASGI: it adds microseconds to a request."""

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self.app, self.settings = app, settings
        self.hosts = frozenset(host.lower().encode() for host in settings.hosts)
        self.origins = frozenset(self._list_origins())

    def _list_origins(self) -> list[bytes]:
        scheme = urlsplit(self.settings.address).scheme
        return [f"{scheme}://{host}".lower().encode() for host in self.settings.hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no websocket is served
        headers: dict[bytes, bytes] = {}
        hosts = 0
        for name, value in scope["headers"]:
            hosts += name == b"host"
            headers[name] = value
        refusal = self._check(scope, headers, hosts)
        if refusal is not None:
            if refusal.status == 413 and b"expect" not in headers:  # a client that expects 100 has not begun to send
                await self._discard(receive)
            await to_response(refusal)(scope, receive, self._make_send(send, scope)[0])
            return
        guarded, state = self._make_send(send, scope)
        try:
            await self.app(scope, self._limit(receive), guarded)
        except Exception as error:
            # neither its message nor its traceback is logged: they may quote a query or a token
            log.error("a request failed: %s", type(error).__name__)
            if not state:
                await to_response(error)(scope, receive, guarded)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is longer than {self.settings.max_body:,} bytes. Send less.", CLOSE)

    def _check(self, scope: Scope, headers: dict[bytes, bytes], hosts: int) -> Refusal | None:
        if hosts != 1 or headers[b"host"].lower() not in self.hosts:
            return Refusal(421, f"This service is reached at {self.settings.address}, and under no other name.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.settings.max_body:
            return self._too_large()
        if scope["query_string"] and scope["path"].startswith("/api/"):
            names = [name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)]
            if len(set(names)) != len(names):
                return Refusal(422, "A parameter of the address is given twice. Give it once.")
        if scope["method"] not in SAFE_METHODS:
            site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
            foreign = site is not None and site.decode("latin-1") not in SAME_SITE
            # `no-referrer` makes a browser say "null" of our own forms; then it must say that they are from here
            is_ours = origin is None or origin.lower() in self.origins or (origin == b"null" and site == b"same-origin")
            if foreign or not is_ours:
                return Refusal(403, "The request comes from another site. Use the pages of this service.")
        return None

    def _limit(self, receive: Receive) -> Receive:
        """Return a `receive` that counts the bytes of the body, because one that is sent in chunks announces no length, and
        the seconds until all of it is there."""
        left, is_complete = self.settings.max_body, False
        deadline = asyncio.get_running_loop().time() + self.settings.body_seconds

        async def limited() -> Message:
            nonlocal left, is_complete
            if is_complete:
                return await receive()  # it waits for the end of the connection, as long as the response takes
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise BodyRefused(408) from None
            if message["type"] == "http.request":
                left -= len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
                if left < 0:
                    if not is_complete:
                        await self._discard(receive)
                    raise BodyRefused(413)
            return message

        return limited

    @staticmethod
    async def _discard(receive: Receive) -> None:
        """Read what is left of a body, up to a number of bytes and seconds."""
        left = DISCARDED_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while left > 0:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))

    @staticmethod
    def _make_send(send: Send, scope: Scope) -> tuple[Send, list[bool]]:
        """Return a `send` that adds the headers, and a list that is filled once the response has begun."""
        started: list[bool] = []

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(True)
                present = {name for name, _ in message["headers"]}
                added = [header for header in _HEADERS if header[0] not in present]
                if b"cache-control" not in present:
                    added.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return guarded, started
