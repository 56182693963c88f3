"""Accounting, beside its peers: `python benchmarks/accounting.py [words of a case's name …]` prints a table.

Every library answers one case per process, so that a crash or a hang of one is a cell in the table. Times are the best of
five after import; ε is what the library would report as its safe answer. ε below the truth is marked ↓: there the library
promises more privacy than there is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.accountants.cases import CASES, Case  # noqa: E402
from benchmarks.peers import interpreter  # noqa: E402
from benchmarks.table import Section  # noqa: E402

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
    for case in CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        answers = [ask(python, script, case) for python, script in libraries.values()]
        truth = "" if case.truth is None else f"{case.truth:.9g}"
        section.add(case.name, truth, *(cell(answer, case.truth) for answer in answers))
        print(case.name, "done", file=sys.stderr, flush=True)
    return section


SECTIONS = [accounting]

if __name__ == "__main__":
    print(accounting(tuple(sys.argv[1:])).markdown())
