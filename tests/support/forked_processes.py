"""Processes that a test can kill, forked from one that has loaded the code of a service: Python and its imports would take
each of them more than a second of processor time.

`python -m tests.support.forked_processes` is the process that they are forked from. It has one thread, opens nothing of a
service, and forks for every line that it reads; each child gets the environment and the log file that the line names, and
calls one function of a module of tests/support.

Every child ends with the test that started it, however that one ends: when the process that they are forked from reads the
end of its input it ends too, and the children read the end of a pipe that it alone holds open.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOADED = (
    "uvicorn", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto", "duckdb", "discreet.engines.duckdb.engine", "discreet.engines.duckdb.rows",
    "discreet.engines.duckdb.cells", "discreet.ledger.sqlite", "discreet.ledger.postgres", "discreet.query.calibrate",
    "discreet.serve.embedded", "discreet.serve.web.app", "discreet.serve.web.pages", "discreet.serve.worker.worker",
    "discreet.session.discovery", "discreet.session.executor", "discreet.sql.totals", "tests.support.killed_workers",
    "tests.support.service_processes",
)  # fmt: skip
"""What the processes of a service import at once or when they first need it."""


class Forked:
    """A process that was forked. It is signalled and waited for by a file descriptor of it, never by a number that another
    process might have by then."""

    def __init__(self, pid: int) -> None:
        self.pid, self._file = pid, os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return None while it runs, and 0 when it has ended."""
        return 0 if self._has_ended(0) else None

    def wait(self, seconds: float = 60) -> None:
        """Wait until it has ended."""
        assert self._has_ended(seconds), "the process goes on"

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if not self._has_ended(0):
            signal.pidfd_send_signal(self._file, number)

    def kill(self) -> None:
        """Kill it as a crash does."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def _has_ended(self, seconds: float) -> bool:
        return bool(select.select([self._file], [], [], seconds)[0])

    def __del__(self) -> None:
        os.close(self._file)


class _Origin:
    """The process that the others are forked from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        command = [sys.executable, "-m", "tests.support.forked_processes"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        atexit.register(self.close)

    def fork(self, function: str, arguments: tuple[str, ...], log: Path | None) -> Forked:
        """Fork a process that calls a function."""
        line = {"function": function, "arguments": arguments, "log": str(log or os.devnull), "environment": dict(os.environ)}
        with self._lock:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
            return Forked(int(self.process.stdout.readline()))

    def close(self) -> None:
        """End it, and all that were forked from it."""
        self.process.communicate()


@cache
def _origin() -> _Origin:
    return _Origin()


def fork(function: str, *arguments: str, log: Path | None = None) -> Forked:
    """Start a process that calls a function, such as "tests.support.killed_workers:main", with these texts, and writes what
    it prints into a file."""
    return _origin().fork(function, arguments, log)


def _run_child(line: dict[str, Any], lifeline: int) -> None:
    def end_with_parent() -> None:
        os.read(lifeline, 1)  # nothing is ever written
        os.kill(os.getpid(), signal.SIGKILL)

    for number, (path, mode) in enumerate([(os.devnull, os.O_RDONLY), *[(line["log"], os.O_WRONLY | os.O_APPEND)] * 2]):
        opened = os.open(path, mode | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(line["environment"])
    threading.Thread(target=end_with_parent, name="end with parent", daemon=True).start()
    module, _, name = line["function"].partition(":")
    getattr(import_module(module), name)(*line["arguments"])


def main() -> None:
    """Fork a process for every line of standard input, and print its number."""
    for module in LOADED:
        import_module(module)
    lifeline, held = os.pipe()
    for text in sys.stdin:
        while _reap(os.WNOHANG):
            pass
        child = os.fork()
        if child == 0:
            os.close(held)
            code = 1
            try:
                _run_child(json.loads(text), lifeline)
                code = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(code)
        print(child, flush=True)
    os.close(held)
    while _reap(0):
        pass


def _reap(options: int) -> bool:
    """Whether a child had ended, and is forgotten."""
    try:
        return os.waitpid(-1, options)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    main()
