"""Spark in processes of its own: a JVM that is killed, and the command line."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from discreet import EngineFailed
from tests.support.console import DISCREET
from tests.support.engine_sessions import COUNT_BY_DEPT
from tests.support.failed_queries import FileLedger

KILLED = """
import sys
from discreet import EngineFailed, SourceRefused, connect
from discreet.engines.spark import Spark
from discreet.engines.spark import start_session

Spark.probe = lambda *_: None  # the rows have no end
ledger, killed = sys.argv[1], sys.argv[2] == "killed"
session = start_session("local[2]")
rows = 1_000_000_000_000 if killed else 901
table = f"SELECT id, IF(id % 3 = 0, 'a', 'b') AS dept FROM range(1, {rows})"
session.sql(f"CREATE VIEW shift AS {table}")
shift = {"table": "shift", "unit": "id", "keys": {"dept": ("a", "b")}, "unique": True}
opened = connect("spark:local[2]", ledger=ledger, account="hr", **shift)
kill = (lambda _: session.sparkContext._gateway.proc.kill()) if killed else None
query = "SELECT dept, COUNT(*) AS n FROM shift GROUP BY dept"
try:
    answer = opened.ask(query, epsilon=1000, id="monday", progress=kill)
    print([int(row[0].value) for _, row in answer.rows])
except EngineFailed as failure:
    print(failure)
    try:
        connect("spark:local[2]", epsilon=1, **shift)
    except SourceRefused as refusal:
        print(refusal)
"""


@pytest.mark.nightly
def test_a_query_on_a_killed_jvm_is_retried_by_another_process(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)

    def run(how: str) -> list[str]:
        command = [sys.executable, "-W", "ignore", "-c", KILLED, str(ledger.path), how]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()

    assert run("killed") == [
        str(EngineFailed()), "Spark's Java process is gone. Start this program again, and retry."
    ]  # fmt: skip
    spent = ledger.spent
    assert ledger.kinds == ["AccountOpened", "Debit", "FailureRecorded"]  # a source may have three
    assert run("again") == ["[300, 600]"]
    assert ledger.kinds == ["AccountOpened", "Debit", "FailureRecorded", "AnswerRecorded"]
    assert ledger.spent == spent > 0


@pytest.mark.nightly
def test_the_command_line_queries_it_too(tmp_path: Path) -> None:
    duckdb.sql("SELECT i AS id, if(i % 3 = 0, 'a', 'b') AS dept FROM range(1, 901) t(i)").write_parquet(
        str(tmp_path / "people.parquet")
    )
    options = ("--path", str(tmp_path / "people.parquet"), "--unit", "id", "--keys", "dept=a,b", "--unique", "--json")
    command = [DISCREET, "ask", "spark:local[2]", COUNT_BY_DEPT.format("people"), "--epsilon", "1000", *options]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert [row["n"]["value"] for row in json.loads(out.stdout)["rows"]] == [300, 600]
