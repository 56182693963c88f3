"""Pictures: keys are drawn as they are, doubtful values are pale, and no picture keeps a table from being written."""

import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest
from matplotlib.colors import to_hex

from discreet.ledger import ledger_at
from discreet.loss import compose
from discreet.publisher import Asked, Published, Workload, pictures, publish
from discreet.publisher.pictures import BLUE, PALE, drawn
from discreet.query.cells import Cell
from discreet.query.release import Release
from discreet.testing import seeded
from tests.publisher.plans import written

KEYS = (r"$\x$", "$a_b$", "中", "🎉", "two\nlines", "half $", r"\frac", "tab\there")
DOLLARS = Asked(name="dollars", sql='SELECT dept, COUNT(*) AS "$n_$" FROM people GROUP BY dept')


def odd(path: Path) -> Published:
    """A publication whose keys are no kind of formula."""
    source = duckdb.connect()
    source.execute("CREATE TABLE people (id INTEGER, dept VARCHAR)")
    source.executemany("INSERT INTO people VALUES (?, ?)", [(i, KEYS[i % len(KEYS)]) for i in range(80)])
    asked = Workload(
        source=source, table="people", unit="id", unique=True, epsilon=1, keys={"dept": KEYS}, questions=(DOLLARS,)
    )
    return publish(asked, path, bits=seeded(1))


def test_keys_are_drawn_as_they_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = odd(tmp_path / "out")
        [axes] = drawn(made.answers["dollars"], "$name$").axes
    assert made.undrawn == ()
    assert (made.folder / "dollars.png").read_bytes().startswith(b"\x89PNG")
    labels = axes.get_xticklabels()
    assert [label.get_text() for label in labels] == [key.replace("\n", "□").replace("\t", "□") for key in KEYS]
    texts = [*labels, axes.xaxis.label, axes.yaxis.label, axes.figure._suptitle]
    assert not any(text.get_parse_math() for text in texts)
    assert axes.get_ylabel() == "$n_$"
    assert capfd.readouterr().err == ""


def test_a_picture_that_fails_keeps_nothing_else_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ledger_at(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open("hr", 2, 1e-6)
    plan = written(tmp_path, budget='ledger = "hr.ledger"\naccount = "hr"')
    plan.write_text(plan.read_text(encoding="utf-8").replace("delta = 1e-6\n", ""), encoding="utf-8")
    whole = pictures.drawn

    def fails(answer: Release, name: str) -> Any:
        if name == "pay":
            raise ValueError("no such letter")
        return whole(answer, name)

    monkeypatch.setattr(pictures, "drawn", fails)
    made = publish(plan, tmp_path / "out")
    assert made.undrawn == ("pay",)
    assert {path.name for path in made.folder.iterdir()} == {
        *(f"{name}.{kind}" for name in made.answers for kind in ("csv", "parquet")), "heads.png", "ages.png",
        "guarantee.md", "plan.toml", "again.py", "release.json",
    }  # fmt: skip
    said = (made.folder / "guarantee.md").read_text(encoding="utf-8")
    assert "[pay](pay.csv) (its picture could not be drawn)" in said
    assert "pay.png" not in said
    assert "[heads](heads.csv) ([picture](heads.png))" in said


@pytest.mark.parametrize("groups", [3, 80])
def test_what_is_not_reliable_is_pale(groups: int) -> None:
    """Bars where there is room, points where there is none."""
    rows = tuple(((f"k{i}",), (Cell(100, 90, 110, i % 3 != 0),)) for i in range(groups))
    answer = Release(("k",), ("n",), rows, 0.95, compose(), "", False)
    [axes] = drawn(answer, "q").axes
    if groups <= pictures.MOST_BARS:
        seen = {round(bar.get_center()[0]): (to_hex(bar.get_facecolor()), bar.get_hatch()) for bar in axes.patches}
        assert seen == {i: (BLUE.lower(), "") if i % 3 else (PALE.lower(), "///") for i in range(groups)}
    else:
        points = {line.get_color(): {int(x) for x in line.get_xdata()} for line in axes.lines if line.get_marker() == "o"}
        assert points == {BLUE: {i for i in range(groups) if i % 3}, PALE: {i for i in range(groups) if not i % 3}}
    assert "pale: not reliable" in axes.figure._suptitle.get_text()
