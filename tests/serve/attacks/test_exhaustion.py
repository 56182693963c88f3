"""Who opens many pages, asks for many drawings, or sends requests that never end keeps nobody else from being answered."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from discreet.query.answer import Answer
from discreet.serve import classroom
from discreet.serve.web import api_outcomes, connections, guard
from discreet.serve.web.metrics import Metrics
from discreet.serve.web.pages import lab
from discreet.serve.web.problems import Refusal
from discreet.serve.web.service import DRAWINGS_AT_ONCE, MAX_SIGN_INS, QUOTE_THREADS, SIGN_IN_THREADS
from discreet.serve.web.settings import OidcSettings
from tests.support.hand_clock import PATIENCE, wait_until
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, QUERY, Service, open_service

SHARED_THREADS = 40
"""The threads that all requests of a process share, if nothing else is set."""
SOON = 60.0
"""Seconds after which a request counts as stopped. What could stop it is held for longer."""


@contextmanager
def listen(folder: Path, **changes: Any) -> Iterator[Service]:
    """Serve a service at a real socket."""
    bound, port = find_socket()
    settings = replace(OPEN, address=f"http://127.0.0.1:{port}", **changes)
    with open_service(folder, settings) as service, serve(service.app, bound):
        yield service


@contextmanager
def connect(service: Service) -> Iterator[socket.socket]:
    host, _, port = service.settings.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=SOON) as opened:
        yield opened


def read_all(opened: socket.socket) -> bytes:
    """Return what arrives until the connection is closed."""
    received = b""
    while more := opened.recv(65536):
        received += more
    return received


def check_answers_at_once(service: Service) -> None:
    """Health and pages are answered while whatever the test does goes on."""
    with httpx.Client(verify=False, base_url=service.settings.address, timeout=SOON) as client:
        assert client.get("/api/v1/live").status_code == 200
        assert client.get("/api/v1/ready").status_code == 200
        assert client.get("/api/v1").status_code == 200


def load_many(service: Service, number: int, path: str, headers: dict[str, str]) -> list[threading.Thread]:
    """Begin to load an address in many connections at once. Each thread has `status` and `pause` when it has ended."""

    def load() -> None:
        connection = HTTPConnection(service.settings.address.removeprefix("http://"), timeout=2 * PATIENCE)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        connection.close()
        thread: Any = threading.current_thread()
        thread.status, thread.pause = response.status, response.headers.get("Retry-After")

    threads = [threading.Thread(target=load) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> list[int]:
    for thread in threads:
        thread.join(PATIENCE)
    return [thread.status for thread in threads]  # type: ignore[attr-defined]


def test_pages_that_wait_for_an_attack_hold_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wake when the job ends, and not after the seconds for which they wait at most."""
    monkeypatch.setattr(lab, "ATTACK_SECONDS", 4 * PATIENCE)
    with listen(tmp_path, pages=True) as service:
        job = classroom.enqueue_attack(service.control, "differencing", {}, "ada")
        _, secret = service.control.add_login("ada")
        address = f"/lab/attack/differencing?job={job.id}"
        threads = load_many(service, 2 * SHARED_THREADS, address, {"Cookie": f"discreet={secret}"})
        wait_until(lambda: len(service.web.bell._waiters) == len(threads))
        check_answers_at_once(service)
        taken = service.control.claim("worker", kinds=("lab_attack",))
        assert taken is not None
        service.control.fail(taken, {"type": "/errors", "title": "", "status": 500, "detail": "It failed."})
        assert set(join(threads)) == {200}


@pytest.mark.parametrize(
    "path", ["/api/v1/asks/{ask}/answer?format=png", "/a/{ask}/chart.svg", "/a/{ask}/download?format=svg"]
)
def test_drawings_take_few_threads_and_the_rest_is_refused(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, running, most = threading.Event(), list[int](), 0
    plot = Answer.plot

    def slow(self: Answer, **given: Any) -> Any:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        go.wait(2 * PATIENCE)
        running.pop()
        return plot(self, **given)

    monkeypatch.setattr(Answer, "plot", slow)
    with listen(tmp_path, pages=True) as service:
        ask = service.ask()["id"]
        _, secret = service.control.add_login("ada")
        signed = {"Cookie": f"discreet={secret}", "Authorization": f"Bearer {service.tokens['ada']}"}
        threads = load_many(service, 2 * SHARED_THREADS, path.format(ask=ask), signed)
        wait_until(lambda: sum(not thread.is_alive() for thread in threads) == len(threads) - 8)
        check_answers_at_once(service)
        go.set()
        statuses = join(threads)
        assert (statuses.count(200), statuses.count(503)) == (8, len(threads) - 8), "half of the places are for others"
        assert most == 2
        refused: Any = next(thread for thread in threads if thread.status == 503)  # type: ignore[attr-defined]
        assert int(refused.pause) >= 1


def test_one_person_draws_at_a_limited_rate(tmp_path: Path) -> None:
    """The mutant limits what waits alone, and one person keeps a core busy, whose quotes and answers others wait for."""
    with open_service(tmp_path, replace(OPEN, quotes_per_second=5.0)) as service:

        async def draw(person: str, number: int) -> list[int]:
            statuses = []
            for _ in range(number):
                try:
                    statuses.append(await service.web.drawings.run(person, lambda: 200))
                except Refusal as refused:
                    statuses.append(refused.status)
            return statuses

        assert set(asyncio.run(draw("ada", int(DRAWINGS_AT_ONCE)))) == {200}
        assert 429 in asyncio.run(draw("ada", 5))
        assert asyncio.run(draw("bob", 1)) == [200]


def test_quotes_that_wait_for_a_place_hold_no_thread_that_others_share(tmp_path: Path) -> None:
    """One person quotes more queries at once than there are threads. The mutant that computes quotes in the threads of all
    requests answers nobody until the quotes have waited."""
    go, waiting = threading.Event(), list[int]()

    def wait(*_: Any) -> Any:
        waiting.append(1)
        go.wait(2 * PATIENCE)
        raise Refusal(503, "Too many quotes.")

    with listen(tmp_path) as service:
        service.web.quote = wait
        headers, body = (
            {"Authorization": f"Bearer {service.tokens['ada']}"},
            {"table": "people", "query": QUERY, "epsilon": "1"},
        )
        statuses = list[int]()

        def send(path: str) -> None:
            with httpx.Client(
                verify=False, base_url=service.settings.address, headers=headers, timeout=2 * PATIENCE
            ) as client:
                statuses.append(client.post(path, json=body).status_code)

        threads = [
            threading.Thread(target=send, args=(f"/api/v1/{path}",))
            for _ in range(SHARED_THREADS)
            for path in ("quotes", "asks")
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(waiting) >= QUOTE_THREADS)
        check_answers_at_once(service)
        go.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert set(statuses) == {503}


def test_ready_needs_no_thread_that_others_share(tmp_path: Path) -> None:
    go, running = threading.Event(), list[int]()
    with listen(tmp_path) as service:

        def list_tables(caller: Any) -> list[Any]:
            running.append(1)
            go.wait(2 * PATIENCE)
            return []

        service.web.list_tables = list_tables
        headers = {"Authorization": f"Bearer {service.tokens['ada']}"}
        threads = load_many(service, 2 * SHARED_THREADS, "/api/v1/tables", headers)
        wait_until(lambda: len(running) == SHARED_THREADS)
        with httpx.Client(verify=False, base_url=service.settings.address, timeout=SOON) as client:
            assert client.get("/api/v1/ready").status_code == 200
        go.set()
        assert set(join(threads)) == {200}


@contextmanager
def listen_without_answering() -> Iterator[tuple[str, list[socket.socket]]]:
    """Take connections and send nothing. Yields the address, and the connections."""
    taken = list[socket.socket]()
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", taken
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("step", ["begin", "finish"])
def test_a_provider_that_hangs_stops_nobody(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant waits for the provider in the threads that all requests share, one stranger after another. A failure is
    remembered: the mutant asks the provider again, which does not answer."""
    monkeypatch.setattr("discreet.serve.web.oidc.DOWN_SECONDS", 3600)
    with listen_without_answering() as (issuer, taken):
        oidc = OidcSettings(issuer, "discreet", "secret", stewards=("x",))
        with listen(tmp_path, oidc=oidc, pages=True) as service:
            provider = service.web.signing.provider
            provider._client.timeout = httpx.Timeout(2 * PATIENCE)
            headers, path = dict[str, str](), "/in/oidc"
            if step == "finish":  # a stranger makes up what a browser keeps, and both agree
                ends = {"token_endpoint": f"{issuer}/token", "authorization_endpoint": f"{issuer}/a"}
                provider._metadata, provider._read_at = ends, time.monotonic()
                pending = quote('{"state":"s","nonce":"n","verifier":"v"}')
                headers, path = {"Cookie": f"discreet-oidc={pending}"}, "/in/callback?state=s&code=c"
            threads = load_many(service, 2 * SHARED_THREADS, path, headers)
            wait_until(lambda: sum(each.is_alive() for each in threads) <= SIGN_IN_THREADS + MAX_SIGN_INS and len(taken) > 0)
            check_answers_at_once(service)
            assert httpx.get(f"{service.settings.address}/in", verify=False, timeout=SOON).status_code == 200
            assert any(each.is_alive() for each in threads), "while the provider hangs"
            asked = len(taken)
            assert asked <= SIGN_IN_THREADS
            for each in taken:
                each.close()
            assert set(join(threads)) == {503}
            assert len(taken) == asked
            refused = httpx.get(f"{service.settings.address}{path}", verify=False, headers=headers, timeout=SOON)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert len(taken) == asked, "the failure is remembered"
            provider._client.close()


HALF_HEAD = b"GET /api/v1/live HTTP/1.1\r\nHost: 127."


def test_a_head_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with listen(tmp_path) as service:
        for begun in (b"", HALF_HEAD):
            with connect(service) as opened:
                opened.sendall(begun)
                assert opened.recv(1) == b"", "closed"
        with connect(service) as opened:  # also the second head of a connection
            host = service.settings.address.removeprefix("http://").encode()
            opened.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
            assert b"200 OK" in opened.recv(65536)
            opened.sendall(HALF_HEAD)
            while opened.recv(65536):
                pass


def test_unfinished_requests_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_UNFINISHED", 30)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 300.0)
    with listen(tmp_path) as service, ExitStack() as stack:
        opened = [stack.enter_context(connect(service)) for _ in range(100)]
        for each in opened:
            with suppress(ConnectionError):  # it was closed meanwhile
                each.sendall(HALF_HEAD)
        assert is_closed(opened[0], SOON), "the oldest"
        check_answers_at_once(service)
        wait_until(lambda: sum(is_closed(each, 0.01) for each in opened) >= 100 - 31)
        assert not is_closed(opened[-1], 0.01), "the newest"


def is_closed(opened: socket.socket, seconds: float) -> bool:
    """Whether the service closes a connection within so many seconds."""
    opened.settimeout(seconds)
    try:
        return opened.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_body_that_does_not_end_is_refused(tmp_path: Path) -> None:
    with listen(tmp_path, body_seconds=0.5) as service, connect(service) as opened:
        host = service.settings.address.removeprefix("http://").encode()
        head = b"POST /api/v1/verify HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
        opened.sendall(head % host + b'{"certificate":')
        received = read_all(opened)
        assert received.startswith(b"HTTP/1.1 408")
        assert b"application/problem+json" in received


def test_a_body_that_no_route_reads_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    with listen(tmp_path) as service, connect(service) as opened:
        host = service.settings.address.removeprefix("http://").encode()
        opened.sendall(b"POST /nowhere HTTP/1.1\r\nHost: %s\r\nContent-Length: 500\r\n\r\nx" % host)
        received = read_all(opened)
        assert received.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("announced", [True, False])
def test_a_client_that_sends_too_much_reads_why(tmp_path: Path, announced: bool) -> None:
    """The guard reads what is left before it closes the connection. The mutants close at once: a client that sends first and
    reads then, as most do, sees a broken connection."""
    part = b"x" * 80_000
    size, chunk = b"Content-Length: 8000000", b"%x\r\n%s\r\n" % (len(part), part)
    with listen(tmp_path) as service:
        host, token = service.settings.address.removeprefix("http://").encode(), service.tokens["ada"].encode()
        for path in (b"/api/v1/verify", b"/api/v1/quotes"):
            head = (
                b"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n\r\n"
            )
            with connect(service) as opened:
                opened.sendall(head % (path, host, token, size if announced else b"Transfer-Encoding: chunked"))
                for _ in range(100):
                    opened.sendall(part if announced else chunk)
                opened.sendall(b"" if announced else b"0\r\n\r\n")
                received = read_all(opened)
            assert received.startswith(b"HTTP/1.1 413")
            assert b"/errors#too-large" in received


def test_a_client_that_goes_on_sending_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "DISCARD_SECONDS", 0.5)
    with listen(tmp_path) as service, connect(service) as opened:
        host = service.settings.address.removeprefix("http://").encode()
        opened.sendall(b"POST /api/v1/verify HTTP/1.1\r\nHost: %s\r\nContent-Length: 2000000\r\n\r\nx" % host)
        received = read_all(opened)
        assert received.startswith(b"HTTP/1.1 413")


def test_no_more_streams_of_one_person_run_than_are_allowed(service: Service) -> None:
    """The mutant lets all in before the first begins to be read, as requests that come at once are, and shows those beyond
    the limit an empty stream."""
    ask = service.control.find_ask(service.ask()["id"])
    assert ask is not None

    async def read_all() -> tuple[int, int]:
        streams = [api_outcomes.stream_events(service.web, ask, "ada") for _ in range(api_outcomes.MAX_STREAMS)]
        for _ in range(3):
            with pytest.raises(Refusal, match="streams open") as refused:
                api_outcomes.stream_events(service.web, ask, "ada")
            assert refused.value.status == 429
        bodies: list[Any] = [each.body_iterator for each in streams]  # type: ignore[attr-defined]
        first = [await anext(body, b"") for body in bodies]
        with pytest.raises(Refusal, match="streams open"):
            api_outcomes.stream_events(service.web, ask, "ada")
        api_outcomes.stream_events(service.web, ask, "bob")
        for body in bodies:
            await body.aclose()
        return sum(map(bool, first)), service.web.streams.get("ada", 0)

    assert asyncio.run(read_all()) == (api_outcomes.MAX_STREAMS, 0)


def test_a_stream_whose_reader_leaves_before_it_begins_is_not_counted(service: Service) -> None:
    ask = service.control.find_ask(service.ask()["id"])
    assert ask is not None

    async def leave() -> None:
        async def send(message: Any) -> None:
            raise OSError

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        stream = api_outcomes.stream_events(service.web, ask, "ada")
        assert service.web.streams == {"ada": 1}
        with suppress(Exception):
            await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    asyncio.run(leave())
    assert service.web.streams == {}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_metrics_are_refused_under_a_foreign_name(service: Service, host: str) -> None:
    server, thread = Metrics(service.control).serve("127.0.0.1", 0)
    try:
        port = server.server_port
        foreign = httpx.get(f"http://127.0.0.1:{port}/metrics", verify=False, headers={"Host": host.format(port=port)})
        assert foreign.status_code == 421
        assert "discreet" not in foreign.text
        for name in ("127.0.0.1", "localhost"):
            shown = httpx.get(f"http://127.0.0.1:{port}/metrics", verify=False, headers={"Host": f"{name}:{port}"})
            assert (shown.status_code, "discreet_http_running" in shown.text) == (200, True)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
