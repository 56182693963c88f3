"""Every call in a process of its own: for noise that is seeded when a program starts, and boxes that nothing else stops."""

import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import Any

from discreet.auditor.answers import Answers, of_objects
from discreet.auditor.game import LEAST, Columns, OneByOne
from discreet.auditor.reading import Raised, read
from discreet.auditor.where import Where, named

CALL = """
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
PATIENCE = 60.0
"""Seconds for a program to start."""


class Restarts(OneByOne):
    """Calls a function, known by its name, in a fresh process each time, several side by side."""

    quick = False

    def __init__(self, function: Where, workers: int = 1, limit: float = 1.0) -> None:
        self.where, self.workers, self.limit = named(function), workers, limit

    def answers(self, data: Any, n: int, until: float = inf, columns: Columns = None) -> Answers:
        """See `Player`."""
        module, _, name = self.where.partition(":")
        sent = pickle.dumps((sys.path, module, name, data, self.limit))
        found: list[Any] = []
        with ThreadPoolExecutor(self.workers) as side_by_side:
            while len(found) < n and (len(found) < LEAST or monotonic() <= until):
                fresh = side_by_side.map(self._one, [sent] * min(self.workers, n - len(found)))
                found += [each if type(each) in (int, float) else read(each, columns) for each in fresh]
        return of_objects(found, columns)

    def _one(self, sent: bytes) -> Any:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", CALL], input=sent, capture_output=True, timeout=self.limit + PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return Raised(f"no answer within {self.limit:g} s")
        if ended.returncode:
            late = ended.returncode == -signal.SIGALRM
            return Raised(f"no answer within {self.limit:g} s" if late else "ends its process")
        try:
            came, answer = pickle.loads(ended.stdout)
        except Exception as raised:  # what a black box makes of itself on arrival is an answer too
            return Raised(f"an answer that raises {type(raised).__name__} when it is received")
        if came is None:
            return Raised(f"a {answer} that cannot be sent")
        return answer if came else Raised(f"raises {answer}")
