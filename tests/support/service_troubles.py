"""What happens to the machines under a service: disks that are full for a while, databases that are restarted."""

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from tests.support.postgres_server import start_server, stop_server
from tests.support.service_processes import Processes

Trouble = Callable[[Processes], AbstractContextManager[None]]


@contextmanager
def _repeat(
    begin: Callable[[], None], end: Callable[[], None], seconds: float, pause: float, times: int | None = None
) -> Iterator[None]:
    """Begin and end something again and again, in a thread; so many times if that is given, else until the
    block ends."""
    stopped = threading.Event()
    rounds = 0

    def run() -> None:
        nonlocal rounds
        while rounds != times and not stopped.wait(pause):
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
    assert rounds > 0, "the trouble came too late to matter"
    assert times in (None, rounds), "the trouble came too late to matter"


def fill_disks(processes: Processes) -> AbstractContextManager[None]:
    """Let no process of the service make a file longer, for a second at a time."""

    def limit(size: int) -> None:
        for process in list(processes.running.values()):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return _repeat(lambda: limit(1024), lambda: limit(resource.RLIM_INFINITY), 1.0, 1.0)


def restart_server(cluster: str) -> Trouble:
    """Return a trouble: the server of a cluster is stopped for a moment and started again on the same folder, once by a
    crash and once in order."""
    modes = iter(("immediate", "fast"))

    def stop() -> None:
        stop_server(cluster, next(modes))

    return lambda _: _repeat(stop, lambda: start_server(cluster), 0.5, 1.5, times=2)


def watch_log(folder: Path) -> str:
    """Return what the processes wrote."""
    return "".join(each.read_text(errors="replace") for each in sorted(folder.glob("*.log")))
