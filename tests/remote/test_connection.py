"""Which certificates the client trusts, and what it says of one that it does not, over real TLS on the own machine."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter, ServiceUnavailable
from discreet.remote.connection import Connection, open_http


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that is its own authority, for a name."""
    key, certificate = folder / "key.pem", folder / "ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return key, certificate


@contextmanager
def listen(folder: Path, name: str = "IP:127.0.0.1") -> Iterator[tuple[str, Path]]:
    key, certificate = make_certificate(folder, name)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}", certificate
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def proxies_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def test_an_unknown_certificate_is_named_as_the_cause_and_can_be_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant ignores SSL_CERT_FILE on the own machine: the second request is refused as the first one is. Another one
    honours proxies, too: it connects to none."""
    with listen(tmp_path) as (service, certificate):
        pauses: list[float] = []
        with pytest.raises(ServiceUnavailable, match=r"its certificate is not trusted \(self.signed certificate") as refused:
            Connection(service, True, open_http(True), "dsc_0123456789", pauses.append).get("")
        assert "SSL_CERT_FILE=ca.pem" in str(refused.value)
        assert pauses == []  # trying again does not help
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert Connection.open(service, True, "dsc_0123456789").get("") == {}


def test_a_certificate_for_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(tmp_path, "DNS:data.example") as (service, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(ServiceUnavailable, match=r"not trusted .*Use the address that the certificate is for"):
            Connection.open(service, True, "dsc_0123456789").get("")


def test_a_file_without_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(place))
        with pytest.raises(BadParameter, match=r"SSL_CERT_FILE is .*: no certificates can be read from it"):
            open_http(False)
        (tmp_path / "empty.pem").touch()
