"""Asking questions of a table: beside the bare engine, beside the peers, and what it costs in memory and at the start.

Each comparison is a process of its own, its competitors take turns of two calls, and the best call counts. All use as many
threads as they find.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.asking_data import first, many_keys, purchases
from benchmarks.peers import interpreter
from benchmarks.table import Section

HERE = Path(__file__).parent
PATIENCE = 300  # seconds for one question of one peer
QUESTIONS = {
    "count": "count by 50 departments",
    "sums": "sum and mean by 50 departments",
    "city": "count by unknown city",
    "unique": "count by department, unit unique per row",
}
PEERS = {
    "OpenDP": ("opendp-polars", ["opendp[polars]==0.16.0"], "peer_opendp.py"),
    "PipelineDP": ("pipeline-dp", ["pipeline-dp==0.3.1", "pyarrow"], "peer_pipelinedp.py"),
    "qrlew": ("qrlew", ["pyqrlew==0.9.27", "duckdb"], "peer_qrlew.py"),
}
TURNS = {10**6: 10, 10**7: 5}
ABOUT = (
    "Parquet; at most 3 groups of 10 rows per person; ε = 1, δ = 10⁻⁶ for unknown keys. Plain is DuckDB's GROUP BY, bounded "
    "the two-level query of benchmarks/asking_sql.py without noise."
)


def once(command: list[str], patience: int = PATIENCE, folder: str | None = None) -> dict[str, Any]:
    """What a process says about itself, or why it says nothing. It runs in `folder`, or here."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return {"failure": f"over {patience} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["died"])[-1]
        return {"failure": f"cannot: {' '.join(last.split())[:90].replace('|', '/')}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def ours(question: str, rows: Path, turns: int, *competitors: str) -> dict[str, Any]:
    """Seconds of each, and the peak memory of the process."""
    answer = once([sys.executable, str(HERE / "asking_once.py"), question, str(rows), str(turns), *competitors])
    if "failure" in answer:
        raise RuntimeError(answer["failure"])
    return answer


def table(question: str, size: int) -> Path:
    """The file that a question is asked of."""
    return purchases(size, unique=question == "unique")


def engine() -> Section:
    """Beside the bare engine."""
    columns = ["question", "rows", "plain s", "bounded s", "ours s", "to bounded", "to plain", "goal"]
    section = Section("Asking: beside the bare engine", ABOUT, columns)
    for question, words in QUESTIONS.items():
        for size, turns in TURNS.items():
            took = ours(question, table(question, size), turns, "plain", "bounded", "ours")
            bounded = took.get("bounded")
            section.add(
                words, f"{size:,}", f"{took['plain']:.3f}", f"{bounded:.3f}" if bounded else "", f"{took['ours']:.3f}",
                f"{took['ours'] / bounded:.2f}" if bounded else "", f"{took['ours'] / took['plain']:.1f}",
                "≤ 1.15 × bounded" if bounded else "≤ 2 × plain",
            )  # fmt: skip
    return section


def peers() -> Section:
    """Beside other libraries; at 10⁷ rows only OpenDP and only the first question, since the others take minutes."""
    about = (
        "Seconds, best of three calls (ours of four). PipelineDP's reading of the file is not timed. qrlew clips norms "
        "where the others cap rows. OpenDP keeps a person's first rows and groups: its quickest way, and a sample of groups "
        "fails in this version. At 10⁷ rows only OpenDP's count is run, as the others take minutes."
    )
    section = Section("Asking: beside the peers", about, ["question", "rows", "ours s", *PEERS, "goal"])
    cases = [(question, 10**6) for question in QUESTIONS] + [("count", 10**7)]
    for question, size in cases:
        mine = ours(question, table(question, size), 2, "ours")["ours"]
        asked = [name for name in PEERS if size == 10**6 or name == "OpenDP"]
        cells = [told(peer(name, question, table(question, size)), mine) if name in asked else "" for name in PEERS]
        goal = "≥ 4 times faster than OpenDP" if size == 10**7 else ""
        section.add(QUESTIONS[question], f"{size:,}", f"{mine:.3f}", *cells, goal)
    return section


def peer(name: str, question: str, rows: Path) -> dict[str, Any]:
    """One peer's answer to one question."""
    place, packages, script = PEERS[name]
    try:
        python = interpreter(place, packages)
    except subprocess.CalledProcessError:
        return {"failure": "cannot be installed here"}
    return once([str(python), "-W", "ignore", str(HERE / script), question, str(rows), "3"])


def told(answer: dict[str, Any], mine: float) -> str:
    """A peer's cell."""
    return answer.get("failure") or f"{answer['seconds']:.2f}, {answer['seconds'] / mine:.1f} times ours"


def own_work() -> Section:
    """Memory, the warm call and the cold start."""
    section = Section("Asking: own work", "Each in a process of its own.", ["task", "value", "goal"])
    for question in ("count", "sums"):
        took = ours(question, purchases(10**7), 1, "ours")
        section.add(f"peak memory, {QUESTIONS[question]}, 10⁷ rows", f"{took['megabytes']:.0f} MB", "≤ 1,000 MB")
    took = ours("keys", many_keys(10**6), 1, "ours")
    section.add("peak memory, selection among 10⁶ unknown keys", f"{took['megabytes']:.0f} MB", "≤ 500 MB")
    section.add("the same, time", f"{took['ours']:.1f} s", "")
    for question, most in (("count", "≤ 5 ms"), ("sums", "≤ 30 ms")):
        took = ours(question, first(10**5, "parquet"), 20, "engine", "ours")
        over = took["ours"] - took["engine"]
        section.add(f"warm, {QUESTIONS[question]}, 10⁵ rows", f"{took['ours'] * 1e3:.0f} ms", "≤ 100 ms")
        section.add("of that, over the engine's own time", f"{over * 1e3:.1f} ms", most)
    for question in ("count", "sums", "unique"):
        took = ours(question, table(question, 10**6), 10, "memory", "engine", "ours")
        over = took["ours"] - took["engine"]
        whole = "≤ 10 ms" if question == "unique" else ""
        section.add(f"warm, {QUESTIONS[question]}, 10⁶ rows in memory", f"{took['ours'] * 1e3:.1f} ms", whole)
        section.add("of that, over the engine's own time", f"{over * 1e3:.1f} ms", "≤ 10 ms")
    section.add("`discreet ask` of a CSV of 20,000 rows, from a cold start", f"{cold_start():.2f} s", "< 1.5 s")
    return section


def cold_start() -> float:
    """Seconds from the shell to the answer, best of five."""
    program = [sys.executable, "-c", "from discreet.cli import main; main()"]
    question = "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"
    options = ["--unit", "user", "--epsilon", "1", "--table", "t", "--keys", "dept=d00,d01,d02", "--max-groups", "3"]
    command = [*program, "ask", str(first(20_000, "csv")), question, *options, "--json"]
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best


SECTIONS = [engine, peers, own_work]
