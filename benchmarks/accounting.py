"""Accounting, beside its peers: `python benchmarks/accounting.py [name of a case …]` prints a table in markdown.

Every peer lives in its own environment under benchmarks/.peers, made on first use, and answers one case per process, so that
a crash or a hang of one is a cell in the table. Times are the best of five after import; ε is what the library would report
as its safe answer. ε below the truth is marked ↓: there the library promises more privacy than there is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cases import CASES, Case

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / ".peers"
PEERS = {
    "dp-accounting": ("run_dp_accounting.py", ["dp-accounting==0.6.0"]),
    "prv-accountant": ("run_prv_accountant.py", ["prv-accountant==0.2.0"]),
    "autodp": ("run_autodp.py", ["autodp==0.2.3.1", "numpy<2"]),
}
PATIENCE = 180  # seconds for one case of one library, all runs together


def interpreter(peer: str) -> Path:
    """The peer's own Python, made and filled on first use."""
    home = ENVIRONMENTS / peer
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        print(f"installing {peer} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS[peer][1]], check=True, stderr=subprocess.DEVNULL)
        (home / ".ready").touch()
    return python


def ask(python: str | Path, script: str, case: Case) -> dict[str, Any]:
    """One library's answer to one case, or the reason why there is none."""
    environment = os.environ | {
        "DISCREET_EXPRESSION": case.expression(),
        "PYTHONPATH": os.pathsep.join([str(HERE / "peers"), str(HERE.parent / "src")]),
        "OMP_NUM_THREADS": "1",
    }
    if script.startswith("run_"):
        environment["PYTHONPATH"] = str(HERE / "peers")
    question = json.dumps({"parts": [list(part) for part in case.parts], "delta": case.delta})
    try:
        done = subprocess.run(
            [python, str(HERE / "peers" / script)],
            input=question,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"over {PATIENCE} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["died"])[-1].split(":")[0][:40]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def cell(answer: dict[str, Any], truth: float | None) -> str:
    if "failure" in answer:
        return answer["failure"]
    epsilon, cost = answer["epsilon"], f"{answer['milliseconds']:.3g} ms"
    if truth is None:
        return f"{epsilon:.9g} · {cost}"
    error = epsilon / truth - 1
    below = " ↓" if error < -1e-9 else ""
    return f"{epsilon:.9g}{below} · {error:+.1e} · {cost}"


def main(wanted: list[str]) -> None:
    libraries = {"discreet": (sys.executable, "discreet_itself.py")}
    libraries |= {peer: (str(interpreter(peer)), PEERS[peer][0]) for peer in PEERS}
    print("| case | truth | " + " | ".join(libraries) + " |")
    print("|---|---|" + "---|" * len(libraries))
    for case in CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        answers = [ask(python, script, case) for python, script in libraries.values()]
        truth = "" if case.truth is None else f"{case.truth:.9g}"
        print(f"| {case.name} | {truth} | " + " | ".join(cell(answer, case.truth) for answer in answers) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
