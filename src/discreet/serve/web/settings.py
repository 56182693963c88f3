"""The settings of a web process. Nothing here is a secret but `OidcSettings.secret`, which no message shows."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from discreet.errors import BadParameter

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK_NAMES = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """A provider that signs people in, and which of its groups mean which role. Who is in no group gets `default_role`;
    None: only members of a group sign in."""

    issuer: str
    client: str
    secret: str = field(repr=False)
    name: str = "Sign in"
    groups_claim: str = "groups"
    stewards: tuple[str, ...] = ()
    analysts: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    default_role: str | None = None
    scope: str = "openid profile email"


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How a web process serves. `address` is what people type: links, cookies and the check of `Host` follow it.

    >>> WebSettings("http://127.0.0.1:8765").hosts
    ('127.0.0.1:8765', 'localhost:8765', '[::1]:8765')
    >>> WebSettings("https://dp.example.org").hosts, WebSettings("https://dp.example.org").is_secure
    (('dp.example.org',), True)
    """

    address: str = "http://127.0.0.1:8765"
    name: str = "discreet"
    extra_hosts: tuple[str, ...] = ()  # that a proxy or a health check uses
    quotes_per_second: float | None = 5.0  # of one person; None: no limit
    asks_per_hour: float | None = 60.0
    max_waiting: int | None = 10  # asks of one person that wait or run
    max_body: int = 1_000_000
    body_seconds: float = 30.0  # in which all of a body arrives
    max_wait: float = 30.0  # seconds that `Prefer: wait` may hold a request
    quote_threads: int = 2  # quotes that are computed at once
    login_hours: float = 8.0
    token_days: float = 90.0  # the longest life of a token
    oidc: OidcSettings | None = None
    trust_proxy: bool = False  # whether X-Forwarded-For is believed
    direct_links: bool = False  # whether opening a one-time link signs in without a button; for loopback alone
    pages: bool = True
    folder: str | None = None  # that one process serves, as its owner named it; None: a serve.toml

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise BadParameter(
                "address", repr(self.address), "not the address of a service", 'write it as "https://dp.example.org"'
            )
        if self.direct_links and parts.hostname not in _LOOPBACK_NAMES:
            raise BadParameter("direct_links", "True", "programs that preview links would use them up", "leave it out")
        object.__setattr__(self, "address", self.address.rstrip("/"))

    @property
    def is_secure(self) -> bool:
        """Whether people reach the service over TLS."""
        return self.address.startswith("https://")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of `Host` that are served. A name that an attacker points to this machine is none of them."""
        host = urlsplit(self.address).netloc.lower()
        name = (urlsplit(self.address).hostname or "").lower()
        if name not in _LOOPBACK_NAMES:
            return (host, *self.extra_hosts)
        port = urlsplit(self.address).port
        suffix = "" if port is None else f":{port}"
        return (*(f"{each}{suffix}" for each in LOOPBACK), *self.extra_hosts)
