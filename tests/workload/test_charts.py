"""Charts: keys are drawn as text, unreliable values are pale, and a failing chart does not prevent the tables."""

import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest
from matplotlib.colors import to_hex

from discreet.events import compose
from discreet.ledger import open_ledger
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.estimates import Estimate
from discreet.query.postprocess import AnswerColumn
from discreet.testing import seeded_bits
from discreet.workload import Publication, Workload, WorkloadQuery, charts, publish
from discreet.workload.charts import BLUE, PALE, draw_chart
from tests.support.workloads import write_plan

KEYS = (r"$\x$", "$a_b$", "中", "🎉", "two\nlines", "half $", r"\frac", "tab\there")
DOLLARS = WorkloadQuery(name="dollars", sql='SELECT dept, COUNT(*) AS "$n_$" FROM people GROUP BY dept')


def publish_special_keys(path: Path) -> Publication:
    """Publish a table whose keys look like formulas, or have no glyphs."""
    source = duckdb.connect()
    source.execute("CREATE TABLE people (id INTEGER, dept VARCHAR)")
    source.executemany("INSERT INTO people VALUES (?, ?)", [(i, KEYS[i % len(KEYS)]) for i in range(80)])
    workload = Workload(
        source=source, table="people", unit="id", unique=True, epsilon=1, keys={"dept": KEYS}, questions=(DOLLARS,)
    )
    return publish(workload, path, bits=seeded_bits(1))


def test_keys_are_drawn_as_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = publish_special_keys(tmp_path / "out")
        [axes] = draw_chart(made.answers["dollars"], "$name$").axes
    assert made.missing_charts == ()
    assert (made.folder / "dollars.png").read_bytes().startswith(b"\x89PNG")
    labels = axes.get_xticklabels()
    assert [label.get_text() for label in labels] == [key.replace("\n", "□").replace("\t", "□") for key in KEYS]
    texts = [*labels, axes.xaxis.label, axes.yaxis.label, axes.figure._suptitle]
    assert not any(text.get_parse_math() for text in texts)
    assert axes.get_ylabel() == "$n_$"
    assert capfd.readouterr().err == ""


def test_a_chart_that_fails_prevents_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
    plan = write_plan(tmp_path, budget='ledger = "hr.ledger"\naccount = "hr"')
    plan.write_text(plan.read_text(encoding="utf-8").replace("delta = 1e-6\n", ""), encoding="utf-8")
    original = charts.draw_chart

    def fails(answer: Answer, name: str) -> Any:
        if name == "pay":
            raise ValueError("no such glyph")
        return original(answer, name)

    monkeypatch.setattr(charts, "draw_chart", fails)
    made = publish(plan, tmp_path / "out")
    assert made.missing_charts == ("pay",)
    assert {path.name for path in made.folder.iterdir()} == {
        *(f"{name}.{kind}" for name in made.answers for kind in ("csv", "parquet")), "heads.png", "ages.png",
        "guarantee.md", "plan.toml", "again.py", "release.json",
    }  # fmt: skip
    page = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert "[pay](pay.csv) (its chart could not be drawn)" in page
    assert "pay.png" not in page
    assert "[heads](heads.csv) ([chart](heads.png))" in page


@pytest.mark.parametrize("groups", [3, 80])
def test_unreliable_values_are_pale(groups: int) -> None:
    """Bars where there is room, else points."""
    rows = tuple(((f"k{i}",), (Estimate(100, 90, 110, i % 3 != 0),)) for i in range(groups))
    answer = Answer(("k",), (AnswerColumn("n"),), rows, IntervalOptions(), compose(), "", False)
    [axes] = draw_chart(answer, "q").axes
    if groups <= charts.MAX_BARS:
        seen = {round(bar.get_center()[0]): (to_hex(bar.get_facecolor()), bar.get_hatch()) for bar in axes.patches}
        assert seen == {i: (BLUE.lower(), "") if i % 3 else (PALE.lower(), "///") for i in range(groups)}
    else:
        points = {line.get_color(): {int(x) for x in line.get_xdata()} for line in axes.lines if line.get_marker() == "o"}
        assert points == {BLUE: {i for i in range(groups) if i % 3}, PALE: {i for i in range(groups) if not i % 3}}
    assert "pale: not reliable" in axes.figure._suptitle.get_text()
