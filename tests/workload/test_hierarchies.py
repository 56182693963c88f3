"""Publishing a hierarchy: plan.toml, folder, certificate, what is refused, and what is continued."""

import json
from pathlib import Path
from random import Random

import pandas
import pytest

from discreet.errors import BadParameter, PlanRefused
from discreet.ledger import open_ledger
from discreet.tabulation.hierarchy_files import reproduce_hierarchy
from discreet.workload.hierarchies import has_hierarchy, publish_hierarchy, read_hierarchy_workload
from discreet.workload.tables import verify_folder
from tests.support.console import run

PLAN = """
title = "People by region"
source = "people.parquet"
unit = "id"
unique = true
[keys]
sex = [0, 1]
[hierarchy]
geo = "nation > state > county"
nodes = "nodes.csv"
column = "code"
lengths = [0, 1, 2]
[tables.sex]
by = ["sex"]
[tables.total]
by = []
levels = ["nation", "state"]
[regions]
coast = ["11", "21"]
[budget]
epsilon = 1
"""
LEDGER = 'ledger = "people.ledger"\naccount = "census"\nid = "2026"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = Random(1)
    rows = [(i, rng.choice(["11", "12", "21", "99"]), rng.choice([0, 1])) for i in range(300)]
    pandas.DataFrame(rows, columns=["id", "code", "sex"]).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "nodes.csv").write_text("code\n11\n12\n21\n22\n")
    (tmp_path / "plan.toml").write_text(PLAN + "delta = 1e-6\n")
    (tmp_path / "charged.toml").write_text(PLAN + LEDGER)
    ledger = open_ledger(tmp_path / "people.ledger", create=True)
    ledger.open_account("census", 3, 1e-6)
    ledger.close()
    return tmp_path


def test_a_plan_is_published_and_reproduced(folder: Path) -> None:
    assert has_hierarchy(folder / "plan.toml")
    published = publish_hierarchy(folder / "plan.toml", folder / "out")
    names = {path.name for path in published.folder.iterdir()}
    assert {"guarantee.md", "plan.toml", "measurements", "sex.county.parquet", "sex.county.csv", "sex.regions.csv"} <= names
    assert "total.county.parquet" not in names
    text = (folder / "out" / "guarantee.md").read_text()
    assert published.tabulation.root in text
    assert "No ledger records the cost" in text
    assert reproduce_hierarchy(folder / "out").is_complete
    with pytest.raises(BadParameter, match="it exists"):
        publish_hierarchy(folder / "plan.toml", folder / "out")
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("mine")
    with pytest.raises(BadParameter, match="holds no measurements"):
        publish_hierarchy(folder / "plan.toml", folder / "other")


def test_a_certificate_signs_the_plan_and_the_merkle_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    first = publish_hierarchy(folder / "charged.toml", folder / "out")
    certificate = json.loads((folder / "out" / "release.json").read_text())
    assert certificate["release"]["root"] == first.tabulation.root
    assert verify_folder(folder / "out", certificate).is_valid
    again = publish_hierarchy(folder / "charged.toml", folder / "out", force=True)
    assert again.free
    assert again.tabulation.root == first.tabulation.root
    with pytest.raises(BadParameter, match="begun in another folder"):
        publish_hierarchy(folder / "charged.toml", folder / "second")
    description = folder / "out" / "measurements" / "measurements.json"
    text = description.read_text()
    sigma = json.loads(text)["measured"][0]["sigma"]
    description.write_text(text.replace(f'"{sigma}"', '"1/2"'))
    assert not verify_folder(folder / "out", certificate).is_valid


def test_all_problems_of_a_plan_are_listed_at_once(folder: Path) -> None:
    bad = (
        PLAN.replace('geo = "nation > state > county"', "goe = 1")
        .replace('by = ["sex"]', "by = 3")
        .replace("[regions]", "[places]")
    )
    (folder / "bad.toml").write_text(bad + "delta = 1e-6\n")
    with pytest.raises(PlanRefused) as refused:
        read_hierarchy_workload(folder / "bad.toml")
    for said in ("hierarchy.goe", "hierarchy.geo is missing", "tables.sex.by", "places"):
        assert said in str(refused.value), said


def test_the_command_publishes_and_reproduces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    dry = run("publish", "plan.toml", "--dry-run", "--json")
    assert json.loads(dry.stdout)["nodes"] == {"nation": 1, "state": 2, "county": 4}
    done = run("publish", "plan.toml", "--to", "out", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Merkle root" in done.stdout
    again = run("reproduce", "out")
    assert again.returncode == 0, again.stdout
    assert "sex.county.parquet is what the measurements say" in again.stdout
