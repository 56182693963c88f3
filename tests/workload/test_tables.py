"""A reader with a published folder and a key can check the tables: whichever number is changed, the verdict is INVALID."""

import csv
import json
from pathlib import Path

import pytest

from discreet.ledger import open_ledger
from discreet.ledger.keys import default_key_path, load_key
from discreet.workload import publish
from discreet.workload.tables import verify_folder
from tests.support.console import run
from tests.support.workloads import TOML, write_plan

SQL = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept ORDER BY n DESC LIMIT 2"
VIEW = f'\n[questions.top]\nsql = "{SQL}"\nweight = 1\n'


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "for spreadsheets"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("tables")
    text = TOML.replace("delta = 1e-6\n", "") + VIEW
    plan = write_plan(folder, text, 'ledger = "hr.ledger"\naccount = "hr"')
    with open_ledger(folder / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
    publish(plan, folder / "out", spreadsheet=request.param)
    return folder / "out", load_key(default_key_path(folder / "hr.ledger")).public


def conclude(folder: Path, key: str) -> tuple[bool, str]:
    certificate = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    verdict = verify_folder(folder, certificate, public=key)
    return verdict.is_valid, verdict.conclusion


def test_a_folder_as_it_was_published_is_valid(published: tuple[Path, str]) -> None:
    folder, key = published
    found = run("verify", folder, "--key", key)
    assert found.returncode == 0, found.stdout
    tables = sorted(path.name for path in folder.iterdir() if path.suffix in (".csv", ".parquet"))
    assert all(f"✓ {name} holds what was signed" in found.stdout for name in tables)
    assert "the query of top.csv" in " ".join(found.stdout.split())
    conclusion = found.stdout.splitlines()[-1]
    assert conclusion.startswith("VALID SO FAR")
    for name in ("top.csv", "top.parquet"):
        assert f"whether the query of {name} left out the 1 of 3 rows that it lacks" in conclusion
    assert "tables beside it" not in found.stdout


def test_a_lone_certificate_says_that_tables_were_not_compared(published: tuple[Path, str]) -> None:
    folder, key = published
    found = run("verify", folder / "release.json", "--key", key)
    assert found.returncode == 0
    assert "the tables beside it (give their folder)" in " ".join(found.stdout.splitlines()[-1].split())


def test_every_changed_field_is_found(published: tuple[Path, str]) -> None:
    folder, key = published
    for path in sorted(folder.glob("*.csv")):
        before = path.read_text(encoding="utf-8")
        rows = list(csv.reader(before.splitlines()))
        for i, j in ((i, j) for i in range(min(3, len(rows))) for j in range(len(rows[0]))):
            is_widened = path.stem == "top" and rows[0][j].endswith(("lower", "upper"))  # and named as such
            if not rows[i][j] or (i > 0 and is_widened):
                continue
            changed = [list(row) for row in rows]
            # inwards: intervals that are wider than the signed ones may belong to a view, and are named as such
            step = 1 if rows[0][j].endswith("lower") else -1
            is_number = rows[i][j].replace(".", "").replace("-", "").isdigit()
            changed[i][j] = str(float(rows[i][j]) + step) if is_number else f"{rows[i][j]}x"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(changed)
            valid, conclusion = conclude(folder, key)
            assert not valid, (path.name, i, j)
            assert conclusion.startswith("INVALID")
        path.write_text(before, encoding="utf-8")
    assert conclude(folder, key)[0]


def test_missing_added_and_exchanged_tables_are_found(published: tuple[Path, str]) -> None:
    folder, key = published
    first, second, *_ = sorted(folder.glob("*.csv"))
    kept = first.read_bytes()
    for content in (None, b"", b"\xff\xfe", second.read_bytes(), kept.partition(b"\n")[0]):
        first.unlink() if content is None else first.write_bytes(content)
        valid, _ = conclude(folder, key)
        assert not valid
        first.write_bytes(kept)
    (folder / "more.csv").write_bytes(kept)
    assert not conclude(folder, key)[0]
    (folder / "more.csv").unlink()
    parquet = next(iter(sorted(folder.glob("*.parquet"))))
    kept = parquet.read_bytes()
    parquet.write_bytes(kept[:-9])
    assert not conclude(folder, key)[0]
    parquet.write_bytes(kept)
    assert conclude(folder, key)[0]


@pytest.mark.parametrize(
    ("name", "kept_rows"), [("heads", 2), ("heads", 0), ("pay", 1), ("ages", 3), ("top", 1), ("top", 0)]
)
def test_a_table_with_rows_left_out_is_not_the_answer(published: tuple[Path, str], name: str, kept_rows: int) -> None:
    """No query but `top` selects rows, and that one selects two."""
    folder, key = published
    path = folder / f"{name}.csv"
    before = path.read_text(encoding="utf-8")
    path.write_text("".join(before.splitlines(keepends=True)[: kept_rows + 1]), encoding="utf-8")
    try:
        valid, conclusion = conclude(folder, key)
    finally:
        path.write_text(before, encoding="utf-8")
    assert not valid
    assert conclusion.startswith("INVALID")
    assert f"{name}.csv holds every row that was signed (it lacks " in conclusion


@pytest.mark.parametrize("page", [None, "", "| [top](top.csv) ([chart](top.svg)) | `SELECT (` | "])
def test_without_a_query_that_says_so_no_row_may_be_missing(published: tuple[Path, str], page: str | None) -> None:
    folder, key = published
    path = folder / "guarantee.md"
    before = path.read_text(encoding="utf-8")
    path.unlink() if page is None else path.write_text(page, encoding="utf-8")
    try:
        valid, conclusion = conclude(folder, key)
    finally:
        path.write_text(before, encoding="utf-8")
    assert not valid
    assert "top.csv holds every row that was signed (it lacks 1 of 3 rows)" in conclusion


def test_rows_that_a_changed_page_excuses_are_still_named(published: tuple[Path, str]) -> None:
    """The guarantee page is not signed. Who changes it and a table gets no VALID, and the missing rows are named."""
    folder, key = published
    page, table = folder / "guarantee.md", folder / "heads.csv"
    texts = {path: path.read_text(encoding="utf-8") for path in (page, table)}
    page.write_text(texts[page].replace("FROM people GROUP BY dept`", "FROM people GROUP BY dept HAVING n > 9`", 1), "utf-8")
    table.write_text("".join(texts[table].splitlines(keepends=True)[:2]), encoding="utf-8")
    try:
        valid, conclusion = conclude(folder, key)
    finally:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    assert valid
    assert conclusion.startswith("VALID SO FAR")
    assert "whether the query of heads.csv left out the 2 of 3 rows that it lacks" in conclusion


def test_a_folder_without_a_certificate_is_refused(tmp_path: Path) -> None:
    found = run("verify", tmp_path)
    assert found.returncode == 2
    assert "release.json" in found.stderr
