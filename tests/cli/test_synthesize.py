"""`discreet synthesize`: rows of a source for ε, rows of a publication for nothing, and what is refused before a charge."""

import json
import shutil
from pathlib import Path

import pytest

from discreet.synthesis.files import WARNING
from tests.support.console import run

EXAMPLES = Path(__file__).parents[2] / "examples"
DECLARED = ("--unit", "id", "--unique", "--keys", "dept=sales,research,legal", "--columns", "dept")
PAID = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("people.csv", "tables.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path / "state"))


def test_rows_of_a_source_have_their_cost_bounds_and_warning() -> None:
    done = run("synthesize", "people.csv", *DECLARED, *PAID, "--to", "rows.csv", "--rows", "50")
    assert done.returncode == 0
    assert "Wrote 50 rows to rows.csv." in done.stdout
    assert WARNING[:40] in done.stdout.replace("\n", " ")
    assert "total variation at most" in done.stdout
    assert "Cost: ε = " in done.stdout
    assert len(Path("rows.csv").read_text("utf-8").splitlines()) == 51
    assert json.loads(Path("rows.csv.json").read_text("utf-8"))["warning"] == WARNING


def test_a_ledger_gives_the_same_rows_again_and_other_ones_for_another_seed() -> None:
    run("ledger", "open", "hr.ledger", "--account", "hr", "--epsilon", "1", "--delta", "1e-6")
    given = ("synthesize", "people.csv", *DECLARED, "--epsilon", "1", "--ledger", "hr.ledger", "--account", "hr", "--json")
    found = [json.loads(run(*given, "--to", f"{i}.csv", "--seed", seed).stdout) for i, seed in enumerate("001")]
    assert [each["charged"] for each in found] == [True, False, False]
    first, again, other = (Path(f"{i}.csv").read_text("utf-8") for i in range(3))
    assert first == again
    assert first != other


def test_a_publication_needs_no_data() -> None:
    assert run("publish", "tables.toml", "--to", "published", "--yes").returncode == 0
    Path("people.csv").unlink()
    done = run("synthesize", "published", "--to", "rows.parquet", "--rows", "20", "--json")
    found = json.loads(done.stdout)
    assert (found["rows"], found["cost"], found["charged"]) == (20, None, False)
    refused = run("synthesize", "published", "--to", "rows.csv", "--epsilon", "1")
    assert refused.returncode == 2
    assert "--epsilon is given" in refused.stderr
    refused = run("synthesize", "published", "--to", "rows.csv", "--unit", "id")
    assert "--unit is given" in refused.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((*DECLARED, *PAID), "--to is missing"),
        ((*DECLARED, *PAID, "--to", "rows.txt"), "--to is 'rows.txt'"),
        ((*DECLARED, *PAID, "--to", "people.csv"), "it is the source itself"),
        ((*DECLARED, *PAID, "--to", "none/rows.csv"), "cannot be written"),
        ((*DECLARED, *PAID, "--to", "rows.csv", "--rows", "few"), "--rows is 'few'"),
        ((*DECLARED, *PAID, "--to", "rows.csv", "--model", "forest"), "Give --model"),
        ((*DECLARED, *PAID, "--to", "rows.csv", "--model", "adaptive", "--currency", "pure"), "--currency zcdp"),
        ((*DECLARED, "--to", "rows.csv"), "--epsilon is missing"),
        (("--unit", "id", *PAID, "--to", "rows.csv"), "--columns is missing"),
        (("--unit", "id", "--columns", "dept", *PAID, "--to", "rows.csv"), "--keys dept="),
    ],
)
def test_what_is_refused_leaves_no_file(given: tuple[str, ...], said: str) -> None:
    before = Path("people.csv").read_bytes()
    done = run("synthesize", "people.csv", *given)
    assert done.returncode == 2
    assert said in done.stderr
    assert not Path("rows.csv").exists()
    assert Path("people.csv").read_bytes() == before
