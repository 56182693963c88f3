"""A service whose web and worker processes are real ones, so that a test can kill them: `main("web", FOLDER, PORT)` and
`main("worker", FOLDER)` serve, each in a process of `forked_processes`, what `Processes` wrote into the folder."""

import itertools
import os
import pickle
import pwd
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from discreet.errors import ServiceUnavailable
from discreet.query.answer import Answer
from discreet.remote.client import RemoteSession, open_remote
from discreet.remote.connection import open_http
from discreet.serve.config import ServiceConfig
from discreet.serve.control.model import Scope
from discreet.serve.control.store import open_control
from discreet.serve.schedule import MAX_OVERRUNS
from discreet.serve.worker.worker import WorkerSettings
from tests.support.forked_processes import Forked, fork
from tests.support.served_tables import SETTINGS, start_service

WORKER = WorkerSettings(slots=2, lease_seconds=1.0, idle_seconds=0.1)
START_SECONDS = 90


def find_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Processes:
    """The processes of one service. Web processes have ports of their own, which they keep when they are started again."""

    def __init__(self, config: ServiceConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.tokens: dict[str, str] = {}
        self.ports: list[int] = []
        self.running: dict[str, Forked] = {}
        self.kills = {"web": 0, "worker": 0}
        self.user: str | None = None  # as whom web processes run
        self.max_overruns = MAX_OVERRUNS  # after which a worker pauses an account
        self.lease_seconds = WORKER.lease_seconds  # short, so that the jobs of a worker that is killed are taken soon
        self.http = open_http(is_loopback=True)

    def prepare(self, *people: str) -> None:
        """Make the databases, and a grant and a token for each person."""
        with start_service(self.config, *people, settings=SETTINGS) as service:
            for person in people:
                scopes = (Scope.ASK, Scope.READ)
                self.tokens[person] = service.control.add_token(person, "test", scopes=scopes)[1]
        settings = replace(WORKER, slots=self.config.slots, lease_seconds=self.lease_seconds)
        (self.folder / "config.pickle").write_bytes(pickle.dumps((self.config, settings, self.max_overruns)))

    def start(self, webs: int = 1, workers: int = 1) -> None:
        """Start processes, and wait until the web processes answer and the workers have registered."""
        self.ports = [find_port() for _ in range(webs)]
        for number in range(webs):
            self.spawn(f"web {number}")
        for number in range(workers):
            self.spawn(f"worker {number}")
        for number in range(webs):
            self.wait_for_web(number)

    def spawn(self, name: str) -> None:
        """Start a process in place of the one of that name, which is ended if it runs."""
        if name in self.running:
            _end(self.running[name])
        kind, number = name.split()
        arguments = [kind, str(self.folder)]
        if kind == "web":
            arguments.append(str(self.ports[int(number)]))
            arguments += [] if self.user is None else [self.user]
        self.running[name] = fork("tests.support.service_processes:main", *arguments, log=self.folder / f"{kind}.log")

    def wait_for_web(self, number: int) -> None:
        """Wait until a web process answers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.running[f"web {number}"].poll() is None, (self.folder / "web.log").read_text()
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.address(number)}/api/v1/live", verify=False, trust_env=False).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("the web process does not answer")

    def wait_for_worker(self) -> None:
        """Wait until a worker says that it runs: until then asks are refused, and a worker takes longer to start."""
        deadline = time.monotonic() + START_SECONDS
        with open_control(self.config.control, create=False) as control:
            while not control.count_slots():
                assert time.monotonic() < deadline, (self.folder / "worker.log").read_text()
                time.sleep(0.05)

    def address(self, number: int = 0) -> str:
        """Return the address of a web process."""
        return f"http://127.0.0.1:{self.ports[number]}"

    def kill(self, name: str) -> None:
        """Kill a process as a crash does, and start it again."""
        _end(self.running[name])
        self.kills[name.split()[0]] += 1
        self.spawn(name)

    @contextmanager
    def killing(self, seed: int, count_answers: Callable[[], int], every: int) -> Iterator[None]:
        """Kill one process after the other, each after about `every` more answers and a random pause: as often on a slow
        machine as on a quick one."""
        stopped, times = threading.Event(), random.Random(seed)

        def run() -> None:
            due = times.randint(1, every)
            kinds = itertools.cycle(("worker", "web"))
            while not stopped.wait(0.02):
                if count_answers() >= due:
                    stopped.wait(times.uniform(0.0, 0.5))
                    kind = next(kinds)
                    self.kill(times.choice(sorted(name for name in self.running if name.startswith(kind))))
                    due = count_answers() + times.randint(every // 2, every)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def stop(self) -> None:
        """Kill everything."""
        for process in self.running.values():
            _end(process)
        self.http.close()

    def open(self, person: str, number: int = 0, table: str = "people") -> RemoteSession:
        """Open a table as a person, however long the service is away."""
        return _patiently(lambda: open_remote(f"{self.address(number)}/{table}", self.tokens[person], self.http))

    def ask(self, person: str, query: str, number: int = 0, **given: Any) -> Answer:
        """Ask as a person, and again with the same id until the answer is there."""
        session = self.open(person, number)
        return _patiently(lambda: session.ask(query, **given))


def _end(process: Forked) -> None:
    process.kill()
    process.wait()


def _patiently(run: Any, seconds: float = 180.0) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return run()
        except ServiceUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def serve_web(config: ServiceConfig, port: int, user: str | None) -> None:
    """Serve the web application until a signal ends it; as another user once the code is loaded, which that user may not be
    able to read in the home folder of this one."""
    import uvicorn

    from discreet.serve.embedded import make_web_settings
    from discreet.serve.schedule import JumpFreeClock
    from discreet.serve.web.app import create_app

    settings = make_web_settings(replace(config, address=f"http://127.0.0.1:{port}"))
    settings = replace(settings, quotes_per_second=None, asks_per_hour=None, max_waiting=None)
    if user is not None:
        load_all()
        become(user)
    with open_control(config.control, create=False, clock=JumpFreeClock().now) as control:
        app = create_app(control, settings)
        uvicorn.run(app, host="127.0.0.1", port=port, log_config=None, access_log=False, server_header=False)


def load_all() -> None:
    """Import what requests import when they first need it, by running a service for a moment."""
    from tempfile import TemporaryDirectory

    from tests.support.web_service import OPEN, open_service

    with TemporaryDirectory() as folder, open_service(Path(folder), replace(OPEN, pages=True)) as service:
        service.ask()
        for path in ("/api/v1", "/api/v1/tables", "/api/v1/accounts", "/in", "/nothing"):
            service.client("ada").get(path)
        from discreet.serve.web.metrics import Metrics

        assert Metrics


def become(user: str) -> None:
    """Give up every right of the user who started this process."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)


def serve_worker(config: ServiceConfig, settings: WorkerSettings, max_overruns: int) -> None:
    """Take jobs until a signal ends it."""
    from discreet.serve.schedule import JumpFreeClock
    from discreet.serve.worker import delivery
    from discreet.serve.worker.worker import Worker

    clock, delivery.MAX_OVERRUNS = JumpFreeClock(), max_overruns
    with open_control(config.control, create=False, clock=clock.now) as control:
        worker = Worker(config, control, clock, settings)
        worker.start()
        signal.sigwait({signal.SIGTERM})
        worker.stop()


def main(kind: str, folder: str, port: str = "0", user: str | None = None) -> None:
    """Serve."""
    config, settings, max_overruns = pickle.loads((Path(folder) / "config.pickle").read_bytes())
    if kind == "web":
        serve_web(config, int(port), user)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        serve_worker(config, settings, max_overruns)
