"""Signing in: links, cookies, forms, sign-out, and a provider of OpenID Connect."""

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from discreet.serve.control.model import Role
from discreet.serve.web.settings import OidcSettings, WebSettings
from discreet.serve.web.signing_in import check_next
from tests.support.web_service import ADDRESS, OPEN, Service, open_service


def test_a_link_shows_a_button_and_signs_in_once(service: Service) -> None:
    link = service.control.add_link("ada")
    client = service.client()
    shown = client.get(f"/in?once={link}")
    assert (shown.status_code, "set-cookie" in shown.headers) == (200, False)
    assert f'value="{link}"' in shown.text
    used = client.post("/in", data={"once": link, "next": "/t/people"})
    assert (used.status_code, used.headers["location"]) == (303, "/t/people")
    cookie = used.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/"))
    assert service.client().post("/in", data={"once": link}).status_code == 403


def test_a_link_of_the_terminal_signs_in_directly_but_not_for_a_preview(tmp_path: Path) -> None:
    with open_service(tmp_path, replace(OPEN, direct_links=True)) as service:
        link = service.control.add_link("ada")
        for headers in ({"Sec-Purpose": "prefetch"}, {"Sec-Fetch-Site": "cross-site"}):
            assert service.client().get(f"/in?once={link}", headers=headers).status_code == 200
        used = service.client().get(f"/in?once={link}", headers={"Sec-Fetch-Site": "none"})
        assert (used.status_code, used.headers["location"]) == (303, "/")


def test_direct_links_are_for_loopback_alone() -> None:
    with pytest.raises(ValueError, match="direct_links"):
        WebSettings("https://dp.example.org", direct_links=True)


def test_over_tls_the_cookie_belongs_to_this_host_alone(tmp_path: Path) -> None:
    with open_service(tmp_path, replace(OPEN, address="https://dp.example.org")) as service:
        client = service.client(address="https://dp.example.org")
        used = client.post("/in", data={"once": service.control.add_link("ada")})
        cookie = used.headers["set-cookie"]
        assert cookie.startswith("__Host-discreet=")
        assert "Secure" in cookie
        assert "Domain" not in cookie


def test_signing_in_again_makes_a_new_secret_and_ends_the_old_one(service: Service) -> None:
    client = service.client()
    client.post("/in", data={"once": service.control.add_link("ada")})
    first = client.http.cookies["discreet"]
    client.post("/in", data={"once": service.control.add_link("ada")})
    assert client.http.cookies["discreet"] != first
    assert service.control.find_login(first) is None


def test_signing_out_needs_the_form_token_and_empties_the_browser(service: Service) -> None:
    client = service.client()
    client.post("/in", data={"once": service.control.add_link("ada")})
    secret = client.http.cookies["discreet"]
    login = service.control.find_login(secret)
    assert login is not None
    assert client.post("/out", data={"form_token": "wrong"}).status_code == 403
    out = client.post("/out", data={"form_token": login.csrf})
    assert '"cookies"' in out.headers["clear-site-data"]
    assert service.control.find_login(secret) is None


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil", "javascript:x", "\r\nX: y", "/in?x"]
)
def test_after_signing_in_nobody_is_sent_elsewhere(service: Service, target: str) -> None:
    used = service.client().post("/in", data={"once": service.control.add_link("ada"), "next": target})
    assert used.headers["location"] == "/"
    assert check_next(target) == "/"


# -- a provider --------------------------------------------------------------------------------------------------------


class FakeProvider:
    """A provider in a thread: metadata, keys and the token endpoint. Tests change what it claims."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
        self.signing_key = self.key
        self.claims: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.codes: dict[str, str] = {}  # code → challenge
        self.nonce = ""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                pages = {
                    "/.well-known/openid-configuration": {
                        "issuer": provider.issuer,
                        "authorization_endpoint": f"{provider.issuer}/authorize",
                        "token_endpoint": f"{provider.issuer}/token",
                        "jwks_uri": f"{provider.issuer}/keys",
                    },
                    "/keys": {"keys": [provider.key.as_dict(private=False)]},
                }
                self.reply(pages.get(self.path))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                challenge = provider.codes.pop(form.get("code", [""])[0], None)
                verifier = form.get("code_verifier", [""])[0]
                digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
                basic = base64.b64encode(b"discreet:secret").decode()
                is_known = challenge == digest and self.headers["authorization"] == f"Basic {basic}"
                self.reply({"access_token": "x", "id_token": provider.sign()} if is_known else None)

            def reply(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200 if value is not None else 400)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def sign(self) -> str:
        now = int(time())
        claims = {
            "iss": self.issuer, "sub": "42", "aud": "discreet", "iat": now, "exp": now + 60, "nonce": self.nonce,
            "name": "Eva Example", "preferred_username": "Eva.E", "email": "eva@example.org", "groups": ["dp-stewards"],
        }  # fmt: skip
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        return jwt.encode({"alg": self.algorithm, "kid": "1"}, claims, self.signing_key, algorithms=[self.algorithm])

    def authorize(self, address: str) -> dict[str, str]:
        """Do what the provider's page does: remember the challenge and the nonce, and give a code."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert given["code_challenge_method"] == "S256"
        self.codes["code"], self.nonce = given["code_challenge"], given["nonce"]
        return {"code": "code", "state": given["state"]}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    made = FakeProvider()
    yield made
    made.close()


@pytest.fixture
def with_provider(tmp_path: Path, provider: FakeProvider) -> Iterator[Service]:
    oidc = OidcSettings(
        provider.issuer, "discreet", "secret", stewards=("group:dp-stewards",), analysts=("dp-analysts",), name="Example"
    )
    with open_service(tmp_path, replace(OPEN, oidc=oidc)) as opened:
        yield opened
        assert opened.web.signing.provider is not None
        opened.web.signing.provider._client.close()


def test_a_person_signs_in_with_the_provider(with_provider: Service, provider: FakeProvider) -> None:
    client = with_provider.client()
    assert "Example" in client.get("/in").text
    begun = client.get("/in/oidc?next=/t/people")
    address = begun.headers["location"]
    assert address.startswith(f"{provider.issuer}/authorize?")
    assert "secret" not in address
    done = client.get("/in/callback", params=provider.authorize(address))
    assert (done.status_code, done.headers["location"]) == (303, "/t/people")
    person = with_provider.control.find_person_by_subject(f"{provider.issuer}#42")
    assert person is not None
    assert (person.id, person.name, person.role) == ("eva-e", "Eva Example", Role.STEWARD)


def test_the_provider_decides_the_role_each_time(with_provider: Service, provider: FakeProvider) -> None:
    for groups, role in ((["dp-stewards"], Role.STEWARD), (["dp-analysts"], Role.ANALYST)):
        provider.claims = {"groups": groups}
        client = with_provider.client()
        client.get("/in/callback", params=provider.authorize(client.get("/in/oidc").headers["location"]))
        person = with_provider.control.find_person("eva-e")
        assert person is not None
        assert person.role is role


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"}, {"nonce": None}, {"aud": "another"}, {"iss": "http://127.0.0.1:1"}, {"exp": 1}, {"sub": None},
        {"groups": ["nobody"]}, {"groups": None}, {"aud": ["discreet", "another"], "azp": "another"},
    ],
)  # fmt: skip
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    with_provider: Service, provider: FakeProvider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    client = with_provider.client()
    sent = provider.authorize(client.get("/in/oidc").headers["location"])
    refused = client.get("/in/callback", params=sent)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


def test_a_token_signed_with_another_key_is_refused(with_provider: Service, provider: FakeProvider) -> None:
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
    client = with_provider.client()
    sent = provider.authorize(client.get("/in/oidc").headers["location"])
    assert client.get("/in/callback", params=sent).status_code == 403


def test_an_answer_with_another_state_verifier_or_browser_is_refused(with_provider: Service, provider: FakeProvider) -> None:
    client = with_provider.client()
    sent = provider.authorize(client.get("/in/oidc").headers["location"])
    assert client.get("/in/callback", params=sent | {"state": "other"}).status_code == 403
    assert with_provider.client().get("/in/callback", params=sent).status_code == 403, "another browser"
    provider.codes["code"] = "another challenge"
    assert client.get("/in/callback", params=sent).status_code == 403
    assert client.get("/in/callback", params=sent | {"iss": "https://other.example"}).status_code == 403


def test_a_provider_that_cannot_be_reached_is_said_so(tmp_path: Path) -> None:
    oidc = OidcSettings("http://127.0.0.1:9", "discreet", "secret", stewards=("x",))
    with open_service(tmp_path, replace(OPEN, oidc=oidc)) as service:
        refused = service.client().get("/in/oidc")
        assert refused.status_code == 503
        assert "secret" not in repr(oidc)
        assert service.web.signing.provider is not None
        service.web.signing.provider._client.close()


def test_nobody_signs_in_where_no_provider_is_set_up(service: Service) -> None:
    assert service.client().get("/in/oidc").status_code == 404
    assert service.client(address=ADDRESS).get("/in/callback?code=1&state=2").status_code == 404


@pytest.mark.parametrize(("default", "status"), [("analyst", 303), (None, 403)])
def test_who_is_in_no_group_has_the_default_role_or_is_refused(
    tmp_path: Path, provider: FakeProvider, default: str | None, status: int
) -> None:
    provider.claims = {"groups": ["staff"]}
    oidc = OidcSettings(provider.issuer, "discreet", "secret", stewards=("dp-stewards",), default_role=default)
    with open_service(tmp_path, replace(OPEN, oidc=oidc)) as opened:
        client = opened.client()
        done = client.get("/in/callback", params=provider.authorize(client.get("/in/oidc").headers["location"]))
        assert done.status_code == status
        person = opened.control.find_person("eva-e")
        assert (person is None) is (status == 403)
        assert person is None or person.role is Role.ANALYST
        assert opened.web.signing.provider is not None
        opened.web.signing.provider._client.close()
