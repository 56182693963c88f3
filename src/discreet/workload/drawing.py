"""Drawing many charts: in processes of their own, which load the converter while the engine runs.

The converter keeps Python's lock while it draws, so threads do not help. A chart that a process does not return, whatever
the reason, is drawn in this one, which raises what is wrong with it.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import TypeAlias

from discreet.noise.bits import count_processors
from discreet.vega import Chart

Draw: TypeAlias = Callable[[Chart], "Future[str]"]

CHARTS_PER_PROCESS, MAX_PROCESSES = 8, 4
"""To start a process and to load the converter takes as long as a few charts, and a hundred megabytes."""

PROGRAM = "import sys; sys.path[:] = {path!r}; from discreet.vega import draw_lines; draw_lines()"


@contextmanager
def start_drawing(charts: int) -> Iterator[Draw]:
    """Yield what draws a chart as SVG, soon. The processes, as many as pay for so many charts, end with the context."""
    idle = SimpleQueue["subprocess.Popen[bytes] | None"]()

    def draw(chart: Chart) -> str:
        process = idle.get()
        drawn = None if process is None else _draw_in(process, chart)
        idle.put(process)
        return chart.to_svg() if drawn is None else drawn

    processors = count_processors()
    count = min(processors, charts // CHARTS_PER_PROCESS, MAX_PROCESSES) if processors > 1 else 0
    with ExitStack() as started:
        for _ in range(count):
            idle.put(_start_process(started))
        if not count:
            idle.put(None)
        threads = ThreadPoolExecutor(max(1, count))
        started.callback(threads.shutdown, cancel_futures=True)
        yield lambda chart: threads.submit(draw, chart)


def _start_process(started: ExitStack) -> "subprocess.Popen[bytes] | None":
    """Start a process that ends with the context; None where that is not possible. It finds modules where this one does."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    try:
        command = [sys.executable, "-P", "-c", PROGRAM.format(path=sys.path)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
    except OSError:
        return None
    started.callback(_end_process, process)
    return process


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    with suppress(OSError):  # what is left in the pipe of a process that ended
        process.communicate()


def _draw_in(process: "subprocess.Popen[bytes]", chart: Chart) -> str | None:
    """Return what a process draws; None if it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(chart.spec, allow_nan=False).encode() + b"\n")
        process.stdin.flush()
        drawn = json.loads(process.stdout.readline())
    except (OSError, ValueError, TypeError):
        return None
    return drawn if isinstance(drawn, str) else None
