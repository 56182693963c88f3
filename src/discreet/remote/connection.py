"""One service over HTTP: addresses, tokens, retries and limits. Nothing here knows queries.

**Threats.** A token that is sent elsewhere is stolen: it goes to the address that the user named and to no other, redirects
are not followed, and `http://` is refused but for the own machine. An answer that never ends, or that is small
until it is unpacked, fills the memory: what is read has limits. A lost connection must not charge twice: a request is
repeated only if it is harmless to repeat, because it reads, or because it carries an id that was made before it was first
sent.
"""

import ipaddress
import os
import random
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from discreet import __version__
from discreet.errors import BadParameter, DiscreetError, NotSignedIn, ServiceUnavailable
from discreet.remote import trust
from discreet.remote.plain import MAX_BYTES, malformed, parse_json
from discreet.remote.problems import from_problem
from discreet.text import to_printable

TRIES = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a request is repeated: twice as long each time, and up to half as much again at random."""
READ_SECONDS = 60.0
WAIT_SECONDS = 30
"""How long the service may hold a request for an answer (`Prefer: wait`)."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a table is served."""

    service: str  # scheme, host, port and prefix, without a slash at the end
    table: str
    is_loopback: bool

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse the address of a table.

        >>> Address.parse("https://data.example/people")
        Address(service='https://data.example', table='people', is_loopback=False)
        """
        service, is_loopback = parse_service(text)
        service, _, table = service.rpartition("/")
        if service.endswith("/") or "//" not in service:
            hint = "name the table too: https://data.example/people"
            raise BadParameter("source", repr(to_printable(text)), "no table is named", hint)
        return cls(service, unquote(table), is_loopback)


def parse_service(text: str) -> tuple[str, bool]:
    """Return the address of a service in one form, and whether it is on the own machine.

    >>> parse_service("HTTP://LocalHost:8000/"), parse_service("https://data.example:443/dp/")
    (('http://localhost:8000', True), ('https://data.example/dp', False))
    """
    shown = "this address" if "@" in text else repr(to_printable(text))  # it may hold a password
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadParameter("source", shown, "not an address", "write https://data.example/people") from None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query or parts.fragment:
        reason = "not the address of a service, which has a host and no password, ? or #"
        raise BadParameter("source", shown, reason, "write https://data.example/people")
    is_loopback = _is_loopback(host)
    if parts.scheme == "http" and not is_loopback:
        reason = "without TLS everybody on the way could read the token and the answers"
        raise BadParameter("source", shown, reason, f"write https://{host}{parts.path}")
    name = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    place = name if port is None or port == default else f"{name}:{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}", is_loopback


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def choose_token(service: str, given: str | None) -> str:
    """Return the token for a service: the one that was given, that of DISCREET_TOKEN, or the one that is stored."""
    token = given if given is not None else os.environ.get("DISCREET_TOKEN") or trust.find_token(service)
    if not token:
        hint = f"give token=, set DISCREET_TOKEN, or sign in once: discreet login {service}"
        raise NotSignedIn(f"{service}: no token", hint)
    return check_token(token)


def check_token(token: object) -> str:
    """Check that a token can be sent; the message does not repeat it."""
    if (
        not isinstance(token, str)
        or not 8 <= len(token) <= 500
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise BadParameter(
            "token", "not a token", "it is a text of 8 to 500 letters and signs", "copy it again, without spaces"
        )
    if "://" in token:
        hint = "open it in a browser, make a token on the page /me, and give that one"
        raise BadParameter("token", "an address", "a link that works once signs a browser in, and no program", hint)
    return token


@dataclass(frozen=True)
class Connection:
    """A service, spoken with as the owner of a token. Safe to share among threads."""

    service: str
    is_loopback: bool
    http: httpx.Client = field(repr=False)
    token: str = field(repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    @classmethod
    def open(cls, service: str, is_loopback: bool, token: str, http: httpx.Client | None = None) -> "Connection":
        """Return a connection; nothing is sent yet. `http` is for tests."""
        return cls(service, is_loopback, open_http(is_loopback) if http is None else http, token)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read something."""
        return self._repeat("GET", path, query=query)[1]

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Send a body that may be sent again: a quote, or an ask with its id. Return the status and what came back."""
        return self._repeat("POST", path, msgspec.json.encode(body), headers)

    def delete(self, path: str) -> Any:
        """Withdraw something; to do so twice is harmless."""
        return self._repeat("DELETE", path)[1]

    def _repeat(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:  # fmt: skip
        """Send a request, and again while the connection is lost or the service is full."""
        for i in range(TRIES):
            try:
                return self._send(method, path, body, headers, query)
            except ServiceUnavailable as refused:
                if refused.retry_after is None or i == TRIES - 1:
                    raise
                pause = max(min(refused.retry_after, LONGEST_PAUSE), min(FIRST_PAUSE * 2**i, LONGEST_PAUSE))
                self.sleep(pause * (1 + random.random() / 2))
        raise AssertionError("unreachable")

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, query: Mapping[str, Any] | None
    ) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Accept-Encoding": "gzip"}
        sent |= headers or {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        address = f"{self.service}/api/v1{path}"
        try:
            with self.http.stream(
                method, address, content=body, headers=sent, params=dict(query) if query else None, follow_redirects=False
            ) as response:
                status, received = response.status_code, self._read(response)
                wait = response.headers.get("Retry-After", "")
        except (httpx.InvalidURL, httpx.TooManyRedirects, httpx.UnsupportedProtocol, UnicodeError):
            raise ServiceUnavailable(f"{self.service}: not an address", "check it") from None
        except httpx.HTTPError as error:  # its message may repeat an address
            if (untrusted := _find_certificate_error(error)) is not None:
                raise _untrusted_error(self.service, untrusted) from None
            reason = f"{self.service}: the connection was lost ({type(error).__name__})"
            hint = "check the address and whether the service runs, and try again"
            raise ServiceUnavailable(reason, hint, retry_after=0) from None
        if 200 <= status < 300:
            return status, parse_json(received)
        raise self._refusal(status, received, wait)

    def _read(self, response: httpx.Response) -> bytes:
        """Read what a service sends, up to a limit, also of what is compressed: once, and unpacked no further than that."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise malformed("an encoding that was not asked for")
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
        parts, size = list[bytes](), 0
        assert isinstance(response.stream, httpx.SyncByteStream)
        for raw in response.stream:
            try:
                part = raw if unpack is None else unpack.decompress(raw, MAX_BYTES - size + 1)
            except zlib.error:
                raise malformed("what is not compressed as it says") from None
            size += len(part)
            if size > MAX_BYTES:
                raise malformed(f"more than {MAX_BYTES:,} bytes")
            parts.append(part)
        return b"".join(parts)

    def _refusal(self, status: int, received: bytes, wait: str) -> DiscreetError:
        if 300 <= status < 400:
            reason = f"{self.service}: it redirects elsewhere, where the token must not be sent"
            return ServiceUnavailable(reason, "name the address that it has now")
        try:
            problem = parse_json(received, 1 << 20)
        except ServiceUnavailable:
            problem = None
        error = from_problem(problem, status)
        if status == 401 and "Authorization:" in str(error):  # what a program must send that speaks HTTP itself
            reason = f"{self.service}: the token is not valid there: it has expired, was revoked, or is another service's"
            return NotSignedIn(reason, f"make a new one on the page /me, and store it: discreet login {self.service}")
        if status in (429, 502, 503, 504) and type(error) is ServiceUnavailable:
            seconds = float(wait) if wait.isdecimal() and len(wait) < 6 else 0.0
            error.retry_after = seconds if error.retry_after is None else error.retry_after
        return error


_UNKNOWN_SIGNERS = {18, 19, 20, 21}  # X509_V_ERR: self-signed, or signed by who is not known
_OTHER_NAMES = {62, 64}  # X509_V_ERR: of another host, or of another IP address


def _find_certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return the refusal of a certificate that a lost connection is due to."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _untrusted_error(service: str, error: ssl.SSLCertVerificationError) -> ServiceUnavailable:
    """Say why the certificate of a service is not trusted, and how to trust it. Trying again does not help."""
    why = to_printable(error.verify_message or "it cannot be verified").rstrip(".")
    if error.verify_code in _UNKNOWN_SIGNERS:
        hint = (
            "if it is your organisation's own, get the file of its certificate authority from a steward and set "
            "SSL_CERT_FILE=ca.pem, or install it in this system"
        )
    elif error.verify_code in _OTHER_NAMES:
        hint = "use the address that the certificate is for, or ask a steward for a certificate with this name"
    else:
        hint = "tell a steward; if only the clock of this machine is wrong, set it"
    return ServiceUnavailable(f"{service}: its certificate is not trusted ({why}), so nothing was sent", hint)


def make_tls_context() -> ssl.SSLContext:
    """Return whom to trust: the certificates of SSL_CERT_FILE or SSL_CERT_DIR alone if one is set, else those of the system
    and those of certifi, because some systems have none that Python can read."""
    file, folder = (os.environ.get(name) or None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    if file is None and folder is None:
        import certifi

        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
        return context
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        name, place = ("SSL_CERT_DIR", folder) if file is None else ("SSL_CERT_FILE", file)
        reason = f"no certificates can be read from it ({error.strerror or 'not PEM'})"
        raise BadParameter(name, repr(to_printable(str(place))), reason, "name a PEM file, or unset it") from None


def open_http(is_loopback: bool) -> httpx.Client:
    """Open what sends requests. Proxies of the environment are not used for the own machine."""
    limits = httpx.Limits(max_connections=16, max_keepalive_connections=8, keepalive_expiry=60)
    timeout = httpx.Timeout(READ_SECONDS, connect=10)
    agent = {"User-Agent": f"discreet/{__version__}"}
    return httpx.Client(
        timeout=timeout, limits=limits, headers=agent, verify=make_tls_context(), trust_env=not is_loopback,
        follow_redirects=False,
    )  # fmt: skip
