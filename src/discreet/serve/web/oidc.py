"""Sign in with a provider of OpenID Connect: authorization code, PKCE, state and nonce; groups of the provider are roles.

Authlib builds the address and checks the claims of the ID token, joserfc its signature. What must come back from the
provider with the same browser (state, nonce, verifier, where to go) is kept in a cookie of that browser for ten minutes, so
any web process can take the answer. The provider's address comes from the settings alone, redirects are not followed, and no
text of the provider is shown.

**Threat.** A provider that does not answer must not stop the service. Anybody may begin to sign in, so sign-ins run in a few
threads of their own (`Web.sign_ins`), one description is fetched at a time, and for `DOWN_SECONDS` after a failure everybody
is refused at once.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from discreet.serve.control.model import Role
from discreet.serve.web.problems import Refusal, log
from discreet.serve.web.settings import OidcSettings

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""Signatures that are believed: of a public key, never a shared secret or none."""

TIMEOUT = 10.0
METADATA_SECONDS = 3600.0
DOWN_SECONDS = 10
"""How long a provider that could not be reached is not tried again."""
FETCH_WAIT_SECONDS = 1.0
"""How long a sign-in waits for what another one is fetching."""
FAILED = "The sign-in provider's answer could not be verified. Start again from the sign-in page."


class Pending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the browser keeps while the person is at the provider."""

    state: str
    nonce: str
    verifier: str
    next: str = "/"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the provider says that this is."""

    subject: str  # issuer and subject
    name: str
    email: str | None
    login: str  # a short name that the person goes by
    role: Role


class Provider:
    """One provider. Its metadata and keys are fetched when they are first needed, and again after an hour."""

    def __init__(self, settings: OidcSettings, redirect: str, client: httpx.Client | None = None) -> None:
        self.settings, self.redirect = settings, redirect
        self._client = client or httpx.Client(timeout=TIMEOUT, follow_redirects=False)
        self._lock, self._metadata, self._read_at = threading.Lock(), dict[str, Any](), 0.0
        self._keys: dict[str, Any] | None = None
        self._down_until = 0.0

    def begin(self, next_page: str) -> tuple[str, Pending]:
        """Return where the browser is sent, and what it keeps."""
        pending = Pending(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), next_page)
        address = prepare_grant_uri(
            self._read_metadata()["authorization_endpoint"],
            client_id=self.settings.client,
            response_type="code",
            redirect_uri=self.redirect,
            scope=self.settings.scope,
            state=pending.state,
            nonce=pending.nonce,
            code_challenge=create_s256_code_challenge(pending.verifier),
            code_challenge_method="S256",
        )
        return str(address), pending

    def finish(self, pending: Pending, state: str, code: str, issuer: str | None = None) -> Identity:
        """Return who signed in. Refuse an answer that another browser, another sign-in or another provider caused."""
        if not hmac.compare_digest(pending.state.encode(), state.encode()):
            raise Refusal(403, FAILED)
        if issuer is not None and issuer != self.settings.issuer:
            raise Refusal(403, FAILED)  # RFC 9207: an answer that was mixed up between providers
        token = self._fetch_token(pending, code)
        return self._identify(self._check_token(str(token.get("id_token", "")), token.get("access_token"), pending.nonce))

    def _fetch_token(self, pending: Pending, code: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": pending.verifier,
        }
        auth, endpoint = httpx.BasicAuth(self.settings.client, self.settings.secret), self._read_metadata()["token_endpoint"]
        self._check_down()
        try:
            answer = self._client.post(endpoint, data=form, auth=auth)
            token = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the sign-in provider cannot be reached: %s", type(error).__name__)
            self._down_until = time.monotonic() + DOWN_SECONDS
            raise _unreachable() from None
        if not isinstance(token, dict):
            raise Refusal(403, FAILED)
        return token

    def _check_token(self, encoded: str, access: Any, nonce: str) -> Mapping[str, Any]:
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            try:
                token = jwt.decode(encoded, key=self._read_keys(), registry=registry)
            except InvalidKeyIdError:  # the provider changed its keys
                token = jwt.decode(encoded, key=self._read_keys(again=True), registry=registry)
            params = {"nonce": nonce, "client_id": self.settings.client, "access_token": access}
            options = {"iss": {"values": [self.settings.issuer]}, "aud": {"values": [self.settings.client]}}
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(leeway=60)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            log.warning("an ID token was refused: %s", type(error).__name__)
            raise Refusal(403, FAILED) from None
        return dict(token.claims)

    def _identify(self, claims: Mapping[str, Any]) -> Identity:
        role = self._choose_role(claims)
        if role is None:
            raise Refusal(403, "Your account at the provider is in no group that may use this service. Ask a steward.")
        verified = claims.get("email") if claims.get("email_verified", True) is True else None
        email = verified if isinstance(verified, str) else None
        login = claims.get("preferred_username") or (email or "").partition("@")[0] or "person"
        return Identity(
            subject=f"{self.settings.issuer}#{claims['sub']}",
            name=str(claims.get("name") or login)[:200],
            email=email,
            login=str(login),
            role=role,
        )

    def _choose_role(self, claims: Mapping[str, Any]) -> Role | None:
        found = claims.get(self.settings.groups_claim, [])
        groups = {str(each) for each in found} if isinstance(found, list) else {str(found)}
        for role, names in (
            (Role.STEWARD, self.settings.stewards),
            (Role.ANALYST, self.settings.analysts),
            (Role.READER, self.settings.readers),
        ):
            if groups & {name.removeprefix("group:") for name in names}:
                return role
        return None if self.settings.default_role is None else Role(self.settings.default_role)

    def _read_metadata(self) -> dict[str, Any]:
        if self._is_stale:
            with self._fetching():
                if self._is_stale:
                    self._metadata, self._keys, self._read_at = self._fetch_metadata(), None, time.monotonic()
        return self._metadata

    @property
    def _is_stale(self) -> bool:
        return not self._metadata or time.monotonic() - self._read_at > METADATA_SECONDS

    def _fetch_metadata(self) -> dict[str, Any]:
        found = self._get(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.settings.issuer:
            raise Refusal(503, "The sign-in provider calls itself by another name than the settings do.")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if urlsplit(str(found.get(name))).scheme not in self._schemes:
                raise Refusal(503, "The sign-in provider's description is incomplete, or not over TLS.")
        return found

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """Let one thread fetch at a time. A failure is remembered, and who would wait for long is refused."""
        self._check_down()
        if not self._lock.acquire(timeout=FETCH_WAIT_SECONDS):
            raise _unreachable()
        try:
            self._check_down()
            try:
                yield
            except Refusal:
                self._down_until = time.monotonic() + DOWN_SECONDS
                raise
        finally:
            self._lock.release()

    def _check_down(self) -> None:
        if time.monotonic() < self._down_until:
            raise _unreachable()

    @property
    def _schemes(self) -> tuple[str, ...]:
        return ("https",) if self.settings.issuer.startswith("https://") else ("http", "https")

    def _read_keys(self, again: bool = False) -> KeySet:
        address = self._read_metadata()["jwks_uri"]
        if self._keys is None or again:
            with self._fetching():
                self._keys = self._get(address)
        return KeySet.import_key_set(self._keys)  # type: ignore[arg-type]

    def _get(self, address: str) -> dict[str, Any]:
        try:
            answer = self._client.get(address)
            found = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the sign-in provider cannot be reached: %s", type(error).__name__)
            found = None
        if not isinstance(found, dict):
            raise _unreachable()
        return found


def _unreachable() -> Refusal:
    reason = "The sign-in provider cannot be reached. Try again in a minute."
    return Refusal(503, reason, {"Retry-After": str(DOWN_SECONDS)})
