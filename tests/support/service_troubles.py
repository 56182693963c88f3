"""What happens to the machines under a service: disks that are full for a while, databases that end every connection."""

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.service_processes import Processes

Trouble = Callable[[Processes], AbstractContextManager[None]]


@contextmanager
def _repeat(begin: Callable[[], None], end: Callable[[], None], seconds: float, pause: float) -> Iterator[None]:
    """Begin and end something again and again, in a thread."""
    stopped = threading.Event()
    rounds = 0

    def run() -> None:
        nonlocal rounds
        while not stopped.wait(pause):
            begin()
            stopped.wait(seconds)
            end()
            rounds += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert rounds, "the trouble came too late to matter"


def fill_disks(processes: Processes) -> AbstractContextManager[None]:
    """Let no process of the service make a file longer, for a second at a time."""

    def limit(size: int) -> None:
        for process in list(processes.running.values()):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return _repeat(lambda: limit(1024), lambda: limit(resource.RLIM_INFINITY), 1.0, 1.0)


def end_connections(cluster: str, *addresses: str) -> Trouble:
    """Return a trouble: databases that end every connection and take none for a second, as when a server restarts."""
    names = [psycopg.conninfo.conninfo_to_dict(address)["dbname"] for address in addresses]

    def change(allowed: bool) -> None:
        with psycopg.connect(cluster, autocommit=True) as owner:
            for name in names:
                owner.execute(
                    sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(
                        sql.Identifier(str(name)), sql.SQL("true" if allowed else "false")
                    )
                )
                if not allowed:
                    owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    return lambda _: _repeat(lambda: change(False), lambda: change(True), 1.0, 1.5)


def watch_log(folder: Path) -> str:
    """Return what the processes wrote."""
    return "".join(each.read_text(errors="replace") for each in sorted(folder.glob("*.log")))
