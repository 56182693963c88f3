"""The service beside the local session: `python benchmarks/serve.py` prints the tables, each goal beside its figure.

    python benchmarks/serve.py --requests 100000     the memory of a web process over 10⁵ requests instead of 10⁴

The service is one process (web and worker threads, SQLite) with the release schedule and the limits per token off, on a copy
of examples/people.csv; clients are other processes' threads on the same machine. New answers are to queries that nobody
asked before: each is parsed, quoted, debited, run, recorded and mirrored. The local session has a ledger of its own and is
measured in turns with the service, since only differences and ratios of one run mean something.

Lomas 0.4.1 is installed into an environment of its own if pip resolves it within a minute. Where it does not, its row states
the times that were taken by hand on a busy machine with two cores, and says so.
"""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.table import Section  # noqa: E402

EXAMPLES = HERE.parent / "examples"
TURNS, CLIENTS, SECONDS, REQUESTS = 300, 8, 8.0, 10_000
WARM_REQUESTS = 10_000
"""Requests that fill the caches, whose sizes are bounded, before memory is measured."""
QUERY = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean_pay FROM people WHERE pay > {} GROUP BY dept"
EPSILON = "0.0001"
PAGES = ("/", "/t/people", "/t/people/ask", "/asks", "/b", "/r", "/people", "/me", "/trail", "/state", "/lab")
LOMAS_SECONDS = 60
LOMAS_BY_HAND = {"answer": 1.9, "estimate": 1.2}
"""Seconds, medians, timing defence set to 0, the same table and query; taken once, on a busy machine with two cores."""


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
    """Serve a copy of the example with the schedule and the limits off."""
    copy_example(folder)
    environment = os.environ | {"DISCREET_STATE": str(folder / "state"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(HERE / "serve.py"), "--service", str(folder / "data")]
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


def run_service(folder: Path) -> None:
    """Be the service: what `discreet serve FOLDER` starts, without schedule and limits."""
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
    make_folder(config.state)
    settings = WebSettings(config.address, quotes_per_second=None, asks_per_hour=None, max_waiting=None)
    with open_control(config.control, clock=clock.now) as control:
        worker = Worker(config, control, clock)
        worker.start()
        invitation = invite(control, config, "owner", Role.STEWARD, scopes=(Scope.ASK, Scope.READ, Scope.STEWARD))
        grant_all(control, worker, "owner")
        _, cookie = control.add_login("owner")
        print(json.dumps({"port": port, "token": invitation.token, "cookie": cookie}), flush=True)
        server = uvicorn.Server(uvicorn.Config(create_app(control, settings), log_config=None, access_log=False))
        server.run([bound])
        worker.stop()


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


def overhead() -> Section:
    """What HTTP, the queue and the control database add to an ask."""
    section = Section(
        "Serving: one ask, over HTTP and in process",
        f"Milliseconds; {TURNS} new answers each, in turns, one client; release schedule off. Added: at the same quantile. "
        + describe_load(),
        ["what", "median", "p99", "goal"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name, start_service(Path(name) / "served") as service:
        remote, local = open_both(Path(name), service)
        times: dict[str, list[float]] = {"local": [], "remote": [], "quote": [], "local quote": []}
        for turn in range(-20, TURNS):
            query = QUERY.format(f"{50 + (turn + 20) / 1000:.3f}")
            taken = {
                "local": timed(lambda query=query: local.ask(query, epsilon=float(EPSILON))),
                "remote": timed(lambda query=query: remote.ask(query, epsilon=float(EPSILON))),
                "local quote": timed(lambda query=query: local.quote(query, epsilon=float(EPSILON))),
                "quote": timed(lambda query=query: remote.quote(query, epsilon=float(EPSILON))),
            }
            for what, milliseconds in taken.items():
                if turn >= 0:  # the first ones warm caches
                    times[what].append(milliseconds)
        local.account.store.close()
    middle = {what: median(values) for what, values in times.items()}
    last = {what: quantile(values, 0.99) for what, values in times.items()}
    section.add("local session, new answer", f"{middle['local']:.1f}", f"{last['local']:.1f}", "")
    section.add("remote session, new answer", f"{middle['remote']:.1f}", f"{last['remote']:.1f}", "")
    added = middle["remote"] - middle["local"], last["remote"] - last["local"]
    section.add("added by the service", f"{added[0]:.1f}", f"{added[1]:.1f}", "median ≤ 5, p99 ≤ 20")
    section.add("local session, quote", f"{middle['local quote']:.1f}", f"{last['local quote']:.1f}", "")
    section.add("remote session, quote", f"{middle['quote']:.1f}", f"{last['quote']:.1f}", "≤ 30")
    add_lomas(section, middle)
    return section


def open_both(folder: Path, service: Running) -> tuple[Any, Any]:
    """Return a session on the service and one in process, each with a ledger of its own."""
    from discreet import connect
    from discreet.ledger import open_ledger

    os.environ["DISCREET_CONFIG"] = str(folder / "client")  # what the client remembers
    copy_example(folder / "local")
    data, place = folder / "local" / "data", folder / "local.ledger"
    with open_ledger(place, create=True) as ledger:
        ledger.open_account("people", 20, 1e-9)
        ledger.open_account("people/owner", 20, 1e-9, parent="people")
    policy = data / "people.policy.toml"
    policy.write_text('salt = "0123456789abcdef"\n' + policy.read_text(encoding="utf-8"), encoding="utf-8")
    local = connect(data / "people.csv", policy=policy, ledger=place, account="people/owner")
    return connect(f"{service.address}/people", token=service.token), local


def add_lomas(section: Section, ours: dict[str, float]) -> None:
    """Add what Lomas takes for the same."""
    if not can_install_lomas():
        note = f"not installable here: pip did not resolve it within {LOMAS_SECONDS} s; by hand, on a busy machine"
        for what, ask in (("answer", "remote"), ("estimate", "quote")):
            times = 1000 * LOMAS_BY_HAND[what] / ours[ask]
            section.add(
                f"Lomas 0.4.1, {what} ({note})", f"{1000 * LOMAS_BY_HAND[what]:,.0f}", "", f"ours {times:.0f} × faster"
            )
        return
    section.add("Lomas 0.4.1", "it installs now: measure it, and replace this row", "", "")


def can_install_lomas() -> bool:
    """Whether pip resolves Lomas in a minute."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--dry-run", "lomas-server==0.4.1"]
        try:
            return subprocess.run(pip, timeout=LOMAS_SECONDS, capture_output=True, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def throughput() -> Section:
    """How much one process answers."""
    section = Section(
        "Serving: one process under load",
        f"{CLIENTS} clients for {SECONDS:g} s each on the machine of the service; release schedule off. Pages: one client, "
        "milliseconds, median and p99 of 60 loads each, the slowest page. " + describe_load(),
        ["what", "figure", "goal"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name, start_service(Path(name) / "served") as service:
        first = Client(service)
        first.ask(QUERY.format(1), "warm")
        rate = count_per_second(service, lambda client, i: client.ask(QUERY.format(f"{2 + i / 100_000:.5f}"), f"new-{i}"))
        section.add("new answers per second", f"{rate:.0f}", "≥ 25")
        rate = count_per_second(service, lambda client, i: client.ask(QUERY.format(1), f"again-{i}"))
        section.add("recorded answers per second", f"{rate:.0f}", "≥ 300")
        rate = count_per_second(service, lambda client, i: client.quote(QUERY.format(f"{3 + i / 100_000:.5f}")))
        section.add("quotes per second", f"{rate:.0f}", "")
        first = Client(service)  # the service closes connections that are idle
        pages = {path: [timed(lambda path=path: first.load(path)) for _ in range(60)] for path in PAGES}
        slowest = max(pages, key=lambda path: median(pages[path]))
        shown = f"{slowest}: {median(pages[slowest]):.1f}, p99 {quantile(pages[slowest], 0.99):.1f}"
        section.add(f"{len(PAGES)} pages, the slowest", shown, "≤ 50")
    return section


def count_per_second(service: Running, run: Callable[[Client, int], None]) -> float:
    """Return how often all clients together do something in a second."""
    numbers, lock, done, problems = iter(range(1 << 30)), threading.Lock(), [0] * CLIENTS, list[Exception]()
    start = time.perf_counter()

    def work(which: int) -> None:
        client = Client(service)
        while time.perf_counter() - start < SECONDS:
            with lock:
                number = next(numbers)
            try:
                run(client, number)
            except Exception as problem:
                problems.append(problem)
                return
            done[which] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return sum(done) / (time.perf_counter() - start)


def memory() -> Section:
    """Whether a service that is asked much grows."""
    section = Section(
        "Serving: memory",
        f"Resident memory of the process after tenths of {REQUESTS:,} requests, {WARM_REQUESTS:,} others before them: "
        "quotes of queries that all differ, recorded answers, tables, pages. Goal: at most 5% more in the second half.",
        ["requests", "megabytes"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name, start_service(Path(name) / "served") as service:
        client, sizes = Client(service), []
        client.ask(QUERY.format(1), "first")
        for i in range(-WARM_REQUESTS, REQUESTS):
            match i % 4:
                case 0:
                    client.quote(QUERY.format(f"{20 + i / 10_000:.4f}"))
                case 1:
                    client.ask(QUERY.format(1), f"again-{i}")
                case 2:
                    client.send("GET", "/api/v1/tables/people")
                case _:
                    client.load(PAGES[i // 4 % len(PAGES)])
            if i >= 0 and (i + 1) % (REQUESTS // 10) == 0:
                sizes.append(resident_megabytes(service.process))
                section.add(f"{i + 1:,}", f"{sizes[-1]:.0f}")
    section.add("growth in the second half", f"{sizes[-1] / sizes[4] - 1:+.1%}")
    return section


def resident_megabytes(process: int) -> float:
    """Return the memory of a process on Linux."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1024


def describe_load() -> str:
    """Say how busy the machine is with other things: goals are those of a quiet one."""
    return f"Load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."


def timed(run: Callable[[], object]) -> float:
    """Return the milliseconds of one run."""
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


def quantile(values: list[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


SECTIONS = [overhead, throughput, memory]

if __name__ == "__main__":
    if "--service" in sys.argv:
        run_service(Path(sys.argv[sys.argv.index("--service") + 1]))
        sys.exit()
    if "--requests" in sys.argv:
        REQUESTS = int(sys.argv[sys.argv.index("--requests") + 1])
    for make in SECTIONS:
        print(make().markdown(), flush=True)
