"""A worker process that is killed at random: `main(FOLDER)` serves until it is."""

import random
import signal
import time
from pathlib import Path

from discreet.serve.control.model import Ask
from tests.support.forked_processes import Forked, fork
from tests.support.served_tables import Service, configure

CLASSES = (0.1, 2.0, 10.0, 60.0)


def spawn(folder: Path) -> Forked:
    """Start a worker process on a folder."""
    return fork("tests.support.killed_workers:main", str(folder))


def kill_at_random(folder: Path, service: Service, asks: list[Ask], kills: int, seed: int) -> int:
    """Run workers one after the other and kill each after a random time, then run one until all asks have ended. Returns
    how many were killed while asks were open."""
    times, killed = random.Random(seed), 0
    for _ in range(kills):
        process = spawn(folder)
        _wait_until_serving(service, process)
        time.sleep(times.uniform(0.0, 0.4))
        killed += any(not service.find(ask).state.is_final for ask in asks)
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = spawn(folder)
    try:
        deadline = time.monotonic() + 90
        while any(not service.find(ask).state.is_final for ask in asks):
            assert time.monotonic() < deadline, "asks are left"
            assert process.poll() is None, "the worker ended"
            time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()
    return killed


def _wait_until_serving(service: Service, process: Forked) -> None:
    """Wait until a worker has claimed something, or has nothing left to claim."""
    deadline = time.monotonic() + 60
    before = service.control.find_setting("serving")
    while service.control.find_setting("serving") == before:
        assert time.monotonic() < deadline
        assert process.poll() is None, "the worker ended"
        time.sleep(0.01)


def main(folder: str) -> None:
    """Serve until a signal ends it."""
    from discreet.serve.worker.worker import Worker, WorkerSettings

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    config = configure(Path(folder), classes=CLASSES)
    service = Service(config)
    service.worker = Worker(
        config, service.control, service.clock, WorkerSettings(slots=2, lease_seconds=0.5, idle_seconds=0.05)
    )
    service.worker.start()
    signal.sigwait({signal.SIGTERM})
    service.worker.stop()
