"""The notebook says what the course says, its links lead somewhere, and it runs from top to bottom in a real kernel, with
and without ipywidgets; so does everything that opens a source."""

import json
import re
from pathlib import Path

import pytest
from examples.notebook import NOTEBOOK, cells, notebook
from nbformat import reads, v4

from tests.kernel import notebook_of, run_in_kernel

SETUPS = {
    "without_ipywidgets": """
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "ipywidgets":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden)
try:
    import ipywidgets
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("ipywidgets was to be hidden")
""",
    "with_ipywidgets": "import ipywidgets",
}
OPENING = """
from pathlib import Path
import duckdb, pandas, polars
from discreet import connect

rows = duckdb.sql("SELECT range AS id, range % 7 AS v FROM range(1000)")
rows.write_csv("people.csv")
rows.write_parquet("people.parquet")
with duckdb.connect("people.duckdb") as database:
    database.execute("CREATE TABLE people AS FROM 'people.parquet'")
frame = pandas.read_csv("people.csv")
policy = 'table = "people"\\nunit = "id"\\n[columns.id]\\nkind = "integer"\\n'
sources = {
    "csv": ("people.csv", {}), "csv with a policy": ("people.csv", {"policy": policy}), "parquet": ("people.parquet", {}),
    "database": ("people.duckdb", {"table": "people"}), "pandas": (frame, {"table": "people"}),
    "polars": (polars.from_pandas(frame), {"table": "people"}),
    "connection": (duckdb.connect(), {"table": "people"}),
}
sources["connection"][0].execute("CREATE TABLE people AS FROM 'people.parquet'")
Path("people.toml").write_text(policy)
for name, (source, more) in sources.items():
    more = more | ({"policy": "people.toml"} if "policy" in more else {"unit": "id"})
    session = connect(source, epsilon=1, **more)
    assert abs(session.ask("SELECT COUNT(*) AS n FROM people", epsilon=1).to_dicts()[0]["n"]["value"] - 1000) < 100, name
"""
PROGRESS = """
from threading import Event
from discreet.session.executor import report_progress

session = connect(frame, table="people", unit="id", epsilon=1)
heard = Event()
for _ in range(100):
    with report_progress(session.engine, lambda share: heard.set(), every=0.001):
        session.engine.connection.execute("SELECT SUM(a.v * b.v) FROM people a, people b, range(100)").fetchall()
    if heard.is_set():
        break
assert heard.is_set(), "a long statement reports its progress"
"""


def test_it_is_the_course() -> None:
    assert json.loads(NOTEBOOK.read_text(encoding="utf-8")) == notebook(), "run python examples/notebook.py"


def test_links_lead_somewhere() -> None:
    links = [link for kind, text in cells() if kind == "markdown" for link in re.findall(r"\]\(([^)#]+)", text)]
    assert len(links) > 20
    assert [link for link in links if not link.startswith("http") and not (NOTEBOOK.parent / link).exists()] == []


@pytest.mark.parametrize("setup", SETUPS)
def test_it_runs(setup: str) -> None:
    node = reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)
    node.cells.insert(0, v4.new_code_cell(SETUPS[setup]))
    assert not run_in_kernel(node, NOTEBOOK.parent)


@pytest.mark.parametrize("setup", SETUPS)
def test_every_source_opens_in_a_notebook(setup: str, tmp_path: Path) -> None:
    assert not run_in_kernel(notebook_of((SETUPS[setup], OPENING, PROGRESS)), tmp_path)


def test_a_failing_cell_fails_the_test(tmp_path: Path) -> None:
    """DuckDB's own connection, which counts no progress without ipywidgets, is what these tests would catch."""
    mutant = 'import duckdb\nduckdb.connect().execute("SET enable_progress_bar = true")'
    assert "ipywidgets" in run_in_kernel(notebook_of((SETUPS["without_ipywidgets"], mutant)), tmp_path)
