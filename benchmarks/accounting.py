"""Accounting, beside its peers: `python benchmarks/accounting.py [words of a case's name …]` prints a table.

Every library answers one case per process, so that a crash or a hang of one is a cell in the table. Times are the best of
five after import; ε is what the library would report as its safe answer. ε below the truth is marked ↓: there the library
promises more privacy than there is.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.accountants.cases import CASES, Case  # noqa: E402
from benchmarks.peers import interpreter  # noqa: E402
from benchmarks.table import Section  # noqa: E402
from discreet import Gaussian, Laplace, calibrate, epsilon  # noqa: E402
from discreet.accounting.running import RunningTotal  # noqa: E402
from discreet.events import DiscreteGaussianEvent, GaussianEvent, LaplaceEvent, compose  # noqa: E402
from discreet.units import count  # noqa: E402

PEERS = {
    "dp-accounting": ("run_dp_accounting.py", ["dp-accounting==0.6.0"]),
    "prv-accountant": ("run_prv_accountant.py", ["prv-accountant==0.2.0"]),
    "autodp": ("run_autodp.py", ["autodp==0.2.3.1", "numpy<2"]),
}
PATIENCE = 180  # seconds for one case of one library, all runs together
ABOUT = (
    "ε at δ, add/remove, sensitivity 1: the answer, its relative error, milliseconds (best of five after import). "
    "↓ marks an answer below the truth."
)


def ask(python: str | Path, script: str, case: Case) -> dict[str, Any]:
    """One library's answer to one case, or the reason why there is none."""
    question = json.dumps({"parts": [list(part) for part in case.parts], "delta": case.delta})
    environment = os.environ | {"DISCREET_EXPRESSION": case.expression(), "OMP_NUM_THREADS": "1"}
    if script.startswith("run_"):
        environment.pop("PYTHONPATH", None)
    command = [str(python), str(HERE / "accountants" / script)]
    try:
        done = subprocess.run(
            command, input=question, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"over {PATIENCE} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["died"])[-1].split(":")[0][:40]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def cell(answer: dict[str, Any], truth: float | None) -> str:
    """ε, how far off, how long; or what went wrong."""
    if "failure" in answer:
        return str(answer["failure"])
    epsilon, cost = answer["epsilon"], f"{answer['milliseconds']:.3g} ms"
    if truth is None:
        return f"{epsilon:.9g} · {cost}"
    error = epsilon / truth - 1
    return f"{epsilon:.9g}{' ↓' if error < -1e-9 else ''} · {error:+.1e} · {cost}"


def accounting(wanted: tuple[str, ...] = ()) -> Section:
    """Every case, or those whose name holds one of the words."""
    libraries: dict[str, tuple[str | Path, str]] = {"discreet": (sys.executable, "discreet_itself.py")}
    libraries |= {peer: (interpreter(peer, packages), script) for peer, (script, packages) in PEERS.items()}
    section = Section("Accounting", ABOUT, ["case", "truth", *libraries])
    ours = theirs = 0.0
    for case in CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        answers = [ask(python, script, case) for python, script in libraries.values()]
        truth = "" if case.truth is None else f"{case.truth:.9g}"
        section.add(case.name, truth, *(cell(answer, case.truth) for answer in answers))
        near = [answer["milliseconds"] for answer in answers[1:] if accurate(answer, case.truth)]
        if near:
            ours, theirs = ours + answers[0]["milliseconds"], theirs + min(near)
        print(case.name, "done", file=sys.stderr, flush=True)
    summed = "summed over the cases where a peer is within 0.1%, the fastest such peer: goal ≥ 10 times"
    section.add(summed, "", f"{ours:.3g} ms", f"{theirs:.3g} ms", f"{theirs / ours:.1f} times" if ours else "", "")
    return section


def accurate(answer: dict[str, Any], truth: float | None) -> bool:
    """Within 0.1% of the truth, on either side."""
    return truth is not None and "epsilon" in answer and abs(answer["epsilon"] / truth - 1) <= 1e-3


def own_work() -> Section:
    """What has no peer: long ledgers, running totals, calibration, memory."""
    section = Section("Accounting: own work", "Milliseconds, best of five after import.", ["task", "ms", "goal"])
    for name, work, goal in _tasks():
        section.add(name, f"{best_of(work):.1f}", goal)
    once, often = (
        best_of(lambda k=k: epsilon(GaussianEvent(Fraction(k) ** 2, count()) * 1 + LAPLACE * k, 1e-6)) for k in (1, 10**6)
    )
    section.add("1-fold and 10⁶-fold Laplace beside a Gaussian", f"{once:.1f} and {often:.1f}", "alike")
    alone = subprocess.run([sys.executable, __file__, "memory"], check=True, capture_output=True, text=True)
    section.add("peak memory of a process that does all of this, MB", alone.stdout.strip(), "≤ 150")
    return section


def measure_memory() -> float:
    """Do all tasks once, and return the peak memory of this process in megabytes."""
    for _, work, _ in _tasks():
        work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def best_of(work: Callable[[], object]) -> float:
    """Milliseconds."""
    best = inf
    for _ in range(5):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


LAPLACE = LaplaceEvent(Fraction(1000), count())


def _tasks() -> Iterator[tuple[str, Callable[[], object], str]]:
    different = [DiscreteGaussianEvent(Fraction(50 + i), count()) for i in range(100)]
    different += [LaplaceEvent(Fraction(200 + i), count()) for i in range(100)]
    different += [GaussianEvent(Fraction(100 + i), count()) for i in range(50)]
    mixed = compose(*different)
    yield "250 different mechanisms, 100 of them discrete Gaussians", lambda: epsilon(mixed, 1e-6), "≤ 50"
    total = RunningTotal.for_delta(1e-6)
    for i in range(10_000):
        total = total.append(LaplaceEvent(Fraction(1000 + i % 97), count()))
    yield "append one to a running total of 10,000 and read ε", lambda: total.append(LAPLACE).epsilon(), "≤ 5"
    for kind, times, rate in ((Gaussian, 1000, None), (Laplace, 1000, None), (Gaussian, 10_000, Fraction(1, 100))):
        name = f"calibrate {kind.__name__}, {times:,} times" + (f", rate {float(rate)}" if rate else "")
        yield name, partial(calibrate, kind, sensitivity=1, epsilon=1, delta=1e-6, times=times, rate=rate), "≤ 200"


SECTIONS = [accounting, own_work]

if __name__ == "__main__":
    print(f"{measure_memory():.0f}" if sys.argv[1:] == ["memory"] else accounting(tuple(sys.argv[1:])).markdown())
