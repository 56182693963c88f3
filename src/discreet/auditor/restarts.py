"""Every call in a process of its own: for noise that is seeded when a program starts, and boxes that nothing else stops."""

import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import Any

from discreet.auditor.answers import Outputs, from_objects
from discreet.auditor.game import MIN_OUTPUTS, Columns, RepeatsByDrawing
from discreet.auditor.reading import FailedCall, parse_output
from discreet.auditor.where import FunctionReference, get_import_path

CHILD_PROGRAM = """
import importlib, os, pickle, signal, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
sys.path[:], module, name, data, limit = pickle.load(sys.stdin.buffer)
function = getattr(importlib.import_module(module), name)
signal.setitimer(signal.ITIMER_REAL, limit)
try:
    answer = True, function(data)
except BaseException as raised:
    answer = False, type(raised).__name__
signal.setitimer(signal.ITIMER_REAL, 0)
try:
    sent = pickle.dumps(answer)
except BaseException as raised:
    sent = pickle.dumps((None, type(answer[1]).__name__))
out.write(sent)
out.flush()
os._exit(0)
"""
"""An alarm that nobody waits for ends the process, wherever it is."""
START_SECONDS = 60.0
"""Seconds for a program to start."""


class RestartSampler(RepeatsByDrawing):
    """Calls a function, known by its name, in a fresh process each time, several side by side."""

    is_fast = False

    def __init__(self, function: FunctionReference, workers: int = 1, limit: float = 1.0) -> None:
        self.where, self.workers, self.limit = get_import_path(function), workers, limit

    def draw(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Outputs:
        """See `Player`."""
        module, _, name = self.where.partition(":")
        sent = pickle.dumps((sys.path, module, name, data, self.limit))
        found: list[Any] = []
        with ThreadPoolExecutor(self.workers) as side_by_side:
            while len(found) < n and (len(found) < MIN_OUTPUTS or monotonic() <= until):
                fresh = side_by_side.map(self._call_in_process, [sent] * min(self.workers, n - len(found)))
                found += [each if type(each) in (int, float) else parse_output(each, columns) for each in fresh]
        return from_objects(found, columns)

    def _call_in_process(self, sent: bytes) -> Any:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", CHILD_PROGRAM],
                input=sent,
                capture_output=True,
                timeout=self.limit + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FailedCall(f"no answer within {self.limit:g} s")
        if ended.returncode:
            late = ended.returncode == -signal.SIGALRM
            return FailedCall(f"no answer within {self.limit:g} s" if late else "ends its process")
        try:
            came, answer = pickle.loads(ended.stdout)
        except Exception as raised:  # what a black box makes of itself on arrival is an answer too
            return FailedCall(f"an answer that raises {type(raised).__name__} when it is received")
        if came is None:
            return FailedCall(f"a {answer} that cannot be sent")
        return answer if came else FailedCall(f"raises {answer}")
