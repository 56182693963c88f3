"""The service beside the local session: `python benchmarks/serve.py` prints the tables, each goal beside its figure.

    python benchmarks/serve.py --requests 100000     the memory over 10⁵ requests instead of 10⁴, alone: about eight minutes

The service is one process (web and worker threads, SQLite) with the release schedule and the limits per token off, on a copy
of examples/people.csv; clients are other processes' threads on the same machine. New answers are to queries that nobody
asked before: each is parsed, quoted, debited, run, recorded and mirrored. The local session has a ledger of its own and is
measured in turns with the service, since only differences and ratios of one run mean something.

Lomas 0.4.1 is installed into an environment of its own if pip resolves it within a minute. Where it does not, its row states
the times that were taken by hand on a busy machine with two cores, and says so.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.served import EPSILON, Client, Running, copy_example, start_service, start_team  # noqa: E402
from benchmarks.table import Section  # noqa: E402

TURNS, CLIENTS, SECONDS, REQUESTS = 300, 8, 8.0, 10_000
WARM_REQUESTS = 10_000
"""Requests that fill the caches, whose sizes are bounded, before memory is measured."""
QUERY = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean_pay FROM people WHERE pay > {} GROUP BY dept"
PAGES = (
    "/", "/t/people", "/t/people/ask", "/t/people/policy", "/asks", "/b", "/r", "/p", "/people", "/me", "/trail",
    "/state", "/lab", "/api", "/errors",
)  # fmt: skip
LOMAS_SECONDS = 60
LOMAS_BY_HAND = {"answer": 1.9, "estimate": 1.2}
"""Seconds, medians, timing defence set to 0, the same table and query; taken once, on a busy machine with two cores."""


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
    section.add("Lomas 0.4.1", "it installs here; it was not compared", "", "")


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
        new, recorded = count_answers(service)
        section.add("new answers per second", f"{new:.0f}", "≥ 25")
        section.add("recorded answers per second", f"{recorded:.0f}", "≥ 300")
        rate = count_per_second([service], lambda client, i: client.quote(QUERY.format(f"{3 + i / 100_000:.5f}")))
        section.add("quotes per second", f"{rate:.0f}", "")
        first = Client(service)  # the service closes connections that are idle
        pages = {path: [timed(lambda path=path: first.load(path)) for _ in range(60)] for path in PAGES}
        slowest = max(pages, key=lambda path: median(pages[path]))
        shown = f"{slowest}: {median(pages[slowest]):.1f}, p99 {quantile(pages[slowest], 0.99):.1f}"
        section.add(f"{len(PAGES)} pages, the slowest", shown, "≤ 50")
    with tempfile.TemporaryDirectory(dir=HERE) as name, start_team(Path(name) / "served") as team:
        Client(team[0]).ask(QUERY.format(1), "warm")
        new, recorded = count_answers(*team)
        where = "PostgreSQL ledger and control database, 2 web processes, 2 workers"
        section.add(f"{where}: new answers per second", f"{new:.0f}", "")
        section.add(f"{where}: recorded answers per second", f"{recorded:.0f}", "")
    return section


def count_answers(*services: Running) -> tuple[float, float]:
    """Return how many new and how many recorded answers come in a second, from web processes that share a queue."""
    new = count_per_second(services, lambda client, i: client.ask(QUERY.format(f"{2 + i / 100_000:.5f}"), f"new-{i}"))
    return new, count_per_second(services, lambda client, i: client.ask(QUERY.format(1), f"again-{i}"))


def count_per_second(services: Sequence[Running], run: Callable[[Client, int], None]) -> float:
    """Return how often all clients together do something in a second."""
    numbers, lock, done, problems = iter(range(1 << 30)), threading.Lock(), [0] * CLIENTS, list[Exception]()
    start = time.perf_counter()

    def work(which: int) -> None:
        client = Client(services[which % len(services)])
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
        f"Resident memory of the process after tenths of {REQUESTS:,} requests of {CLIENTS} clients, and {WARM_REQUESTS:,} "
        "others before them: quotes of queries that all differ, recorded answers, tables, pages. Goal: at most 5% more in "
        "the second half.",
        ["requests", "megabytes"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name, start_service(Path(name) / "served") as service:
        Client(service).ask(QUERY.format(1), "first")
        sizes, start = list[float](), time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            for first, end in [(-WARM_REQUESTS, 0), *((i * REQUESTS // 10, (i + 1) * REQUESTS // 10) for i in range(10))]:
                list(pool.map(partial(send_mixed, service), [range(first + i, end, CLIENTS) for i in range(CLIENTS)]))
                if first >= 0:
                    sizes.append(resident_megabytes(service.process))
                    section.add(f"{end:,}", f"{sizes[-1]:.0f}")
        section.add("growth in the second half", f"{sizes[-1] / sizes[4] - 1:+.1%}")
        section.add("minutes for all", f"{(time.perf_counter() - start) / 60:.1f}")
    return section


def send_mixed(service: Running, numbers: Iterable[int]) -> None:
    """Send one request of some kind for each number, over one connection."""
    client = Client(service)
    for i in numbers:
        match i % 4:
            case 0:
                client.quote(QUERY.format(f"{20 + i / 100_000:.5f}"))
            case 1:
                client.ask(QUERY.format(1), f"again-{i}")
            case 2:
                client.send("GET", "/api/v1/tables/people")
            case _:
                client.load(PAGES[i // 4 % len(PAGES)])


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
    if "--requests" in sys.argv:
        REQUESTS, SECTIONS = int(sys.argv[sys.argv.index("--requests") + 1]), [memory]
    for make in SECTIONS:
        print(make().markdown(), flush=True)
