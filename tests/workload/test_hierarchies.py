"""Publishing a hierarchy: plan.toml, folder, certificate, what is refused, and what is continued."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest

from discreet.errors import BadParameter, DiscreetError, PlanRefused
from discreet.ledger import open_ledger
from discreet.tabulation.hierarchy_files import HierarchyMeasurements, reproduce_hierarchy, write_hierarchy_tables
from discreet.workload.hierarchies import publish_hierarchy, read_hierarchy_workload
from discreet.workload.spec import has_hierarchy
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


def forge(folder: Path, changes: dict[str, Any]) -> None:
    """Change the description of the measurements, and write tables that follow from it."""
    path = folder / "measurements" / "measurements.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    measurements = HierarchyMeasurements.read(folder)
    write_hierarchy_tables(folder, measurements.model, measurements.source)


def test_forged_descriptions_with_tables_to_match_are_not_what_was_signed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    publish_hierarchy(folder / "charged.toml", folder / "out")
    certificate = json.loads((folder / "out" / "release.json").read_text())
    described = json.loads((folder / "out" / "measurements" / "measurements.json").read_text())
    renamed = {
        "columns": [described["columns"][0] | {"name": "married"}],
        "tables": {"sex": {"by": ["married"], "levels": ["nation", "state", "county"]}},
        "measured": [each | {"by": ["married"] * len(each["by"])} for each in described["measured"]],
    }
    for number, changes in enumerate([{"step": "2"}, {"plan": "0" * 64}, renamed]):
        copied = folder / f"copy{number}"
        shutil.copytree(folder / "out", copied)
        forge(copied, changes)
        assert not verify_folder(copied, certificate).is_valid, changes
    forge(folder / "out", {"confidence": 0.5})  # what is published may be 50% intervals, and is then said to be
    found = verify_folder(folder / "out", certificate)
    assert "sex.county.csv follows from the measurements, with intervals of 50%" in [each.claim for each in found.claims]


HOSTILE = [
    None, 0, -1, 1e400, "x", "1/0", "nan", [], {}, [[]], {"x": {}}, {"../../x": {"by": [], "levels": ["nation"]}}, 10**30,
    [{}], [None], {"x": None}, {"x": {"by": "sex", "levels": []}}, {"x": {"county": [True, -1]}},
]  # fmt: skip


def test_hostile_descriptions_are_refused_and_never_raise_anything_else(folder: Path) -> None:
    publish_hierarchy(folder / "plan.toml", folder / "out")
    path = folder / "out" / "measurements" / "measurements.json"
    described = json.loads(path.read_text())
    names = set(described) - {"notes", "plan", "root"}
    for name in names:
        for value in HOSTILE:
            path.write_text(json.dumps(described | {name: value}))
            try:
                assert not reproduce_hierarchy(folder / "out").is_complete or described[name] == value, (name, value)
            except DiscreetError:
                continue
        path.write_text(json.dumps({other: each for other, each in described.items() if other != name}))
        with pytest.raises(DiscreetError):
            reproduce_hierarchy(folder / "out")


def test_what_is_private_or_unrecorded_beside_the_measurements_is_noticed(folder: Path) -> None:
    publish_hierarchy(folder / "plan.toml", folder / "out")
    (folder / "out" / "measurements" / "private").mkdir()
    (folder / "out" / "measurements" / "subtree-000007.npz").write_bytes(b"")
    found = reproduce_hierarchy(folder / "out")
    assert found.unknown == ("measurements/private", "measurements/subtree-000007.npz")


def test_a_plan_may_want_errors_by_level(folder: Path) -> None:
    text = PLAN.replace('by = ["sex"]', 'by = ["sex"]\nerror = 30').replace(
        "by = []", "by = []\nerror = {nation = 20, state = 25}"
    )
    (folder / "errors.toml").write_text(text.replace("epsilon = 1", "epsilon = 3") + "delta = 1e-6\n")
    published = publish_hierarchy(folder / "errors.toml", folder / "out")
    plan = published.tabulation.plan
    assert float(plan.half_widths("total", "nation").max()) <= 20
    assert float(plan.half_widths("sex", "county").max()) <= 30
    assert reproduce_hierarchy(folder / "out").is_complete


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


@pytest.mark.parametrize(
    ("written", "wrong", "said"),
    [
        ('geo = "nation > state > county"', "geo = 3", "hierarchy.geo is 3"),
        ("lengths = [0, 1, 2]", "lengths = 3", "hierarchy.lengths is 3"),
        ('nodes = "nodes.csv"', "nodes = 7", "hierarchy"),
        ('coast = ["11", "21"]', "coast = 3", "regions is 3"),
        ('coast = ["11", "21"]', 'coast = "11"', "regions is '11'"),
        ('coast = ["11", "21"]', "coast = {county = 3}", "regions is 3"),
        ('by = ["sex"]', 'by = ["sex"]\nweight = "x"', "weight is of type str"),
        ('by = ["sex"]', 'by = ["sex"]\nerror = [1]', "error is of type list"),
        ("[budget]", "[measure.county]\nsex = [1]\n[budget]", "measure is of type list"),
    ],
)
def test_what_has_the_wrong_type_is_refused(folder: Path, written: str, wrong: str, said: str) -> None:
    (folder / "bad.toml").write_text(PLAN.replace(written, wrong) + "delta = 1e-6\n")
    with pytest.raises((BadParameter, PlanRefused)) as refused:
        read_hierarchy_workload(folder / "bad.toml").plan()
    assert said in str(refused.value)


def test_problems_of_plan_budget_hierarchy_and_invariants_are_listed_at_once(folder: Path) -> None:
    bad = PLAN.replace("state > county", "state > state")
    (folder / "bad.toml").write_text(bad.replace("epsilon = 1", "epsilon = -1") + "delta = 1e-6\n")
    with pytest.raises(PlanRefused) as refused:
        read_hierarchy_workload(folder / "bad.toml")
    assert "budget.epsilon is -1" in str(refused.value)
    assert "`state` is named twice" in str(refused.value)
    (folder / "bad.toml").write_text(bad + 'delta = 1e-6\n[invariants]\nsex = ""\n')
    with pytest.raises(PlanRefused) as refused:
        read_hierarchy_workload(folder / "bad.toml").plan()
    for said in ("`state` is named twice", "no two data sets would be neighbours", "without a reason"):
        assert said in str(refused.value), said


def test_the_command_publishes_and_reproduces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    dry = run("publish", "plan.toml", "--dry-run", "--json")
    assert json.loads(dry.stdout)["nodes"] == {"nation": 1, "state": 2, "county": 4}
    refused = run("publish", "plan.toml", "--to", "out", "--yes", "--spreadsheet")
    assert refused.returncode == 2
    assert "--spreadsheet is given" in refused.stderr
    done = run("publish", "plan.toml", "--to", "out", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Merkle root" in done.stdout
    again = run("reproduce", "out")
    assert again.returncode == 0, again.stdout
    assert "sex.county.parquet is what the measurements say" in again.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('geo = "nation > state > county"', 'geo = "nation > regions > county"', "the files of regions have this name"),
        ('geo = "nation > state > county"', 'geo = "nation > State > state"', "on some disks it is the same as 'State'"),
        ('geo = "nation > state > county"', 'geo = "nation > sd > county"', "every table has a column of this name"),
        ("[tables.total]", "[tables.Sex]", "on some disks it is the same as 'sex'"),
        ('by = ["sex"]', 'by = ["State"]\n[computed]\nState = "sex"', "every table has a column of this name"),
        ('by = ["sex"]', 'by = ["region"]\n[computed]\nregion = "sex"', "the tables of regions have a column"),
    ],
)
def test_names_of_files_and_columns_that_collide_are_refused_before_the_charge(
    folder: Path, old: str, new: str, said: str
) -> None:
    text = (PLAN + LEDGER).replace('levels = ["nation", "state"]', "").replace(old, new)
    assert new in text
    (folder / "charged.toml").write_text(text)
    with pytest.raises(DiscreetError, match=said):
        publish_hierarchy(folder / "charged.toml", folder / "out")
    assert not (folder / "out").exists()
    ledger = open_ledger(folder / "people.ledger")
    assert ledger.get_account("census").budget.spent == 0
    ledger.close()


def test_a_level_called_region_and_regions_are_different_tables(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN.replace("state", "region") + "delta = 1e-6\n")
    published = publish_hierarchy(folder / "plan.toml", folder / "out")
    tables = published.tabulation.tables
    assert tables["sex", "region"].nodes == ("1", "2")
    assert tables["sex", "regions"].nodes == ("coast",)
    assert reproduce_hierarchy(folder / "out").is_complete


@pytest.mark.parametrize("plan", ["plan.toml", "charged.toml"])
@pytest.mark.parametrize("broken", ["write_hierarchy_tables", "write_papers"])
def test_a_write_that_failed_after_the_charge_is_finished_by_the_same_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, plan: str, broken: str
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    module = "discreet.tabulation.hierarchical" if broken == "write_hierarchy_tables" else "discreet.workload.hierarchies"

    def fail(*_: Any) -> None:
        raise BadParameter("folder", "out", "the disk is full", "make room")

    with monkeypatch.context() as patched:
        patched.setattr(f"{module}.{broken}", fail)
        with pytest.raises(BadParameter, match="the disk is full"):
            publish_hierarchy(folder / plan, folder / "out")
    assert not (folder / "out" / "guarantee.md").exists()
    parts = {path.name: path.read_bytes() for path in (folder / "out" / "measurements").glob("*.npz")}
    again = publish_hierarchy(folder / plan, folder / "out")
    assert again.free
    assert {path.name: path.read_bytes() for path in (folder / "out" / "measurements").glob("*.npz")} == parts
    assert reproduce_hierarchy(folder / "out").is_complete
    assert (folder / "out" / "guarantee.md").exists()


BAD = """
source = "people.parquet"
unit = "id"
unique = true
confidence = 2
[keys]
sex = [0, 1]
[hierarchy]
geo = "nation > region > distrikt > village"
nodes = "areas.csv"
weigh = "levels"
[tables.sex_age]
by = ["sex", "ageband"]
error = {nation = 30, region = 30, village = 40}
[tables.all]
by = []
levels = ["town"]
[regions]
coast = ["R1D1V1", "R9"]
[budget]
epsilon = 1
delta = 1e-6
"""


@pytest.mark.parametrize("file_problem", ["", "tilte = 1\n"])
def test_problems_of_the_hierarchy_its_tables_and_its_regions_are_listed_with_those_of_the_file(
    folder: Path, file_problem: str
) -> None:
    rows = [(1, "R1D1V1", 0), (2, "R2D1V1", 1)]
    pandas.DataFrame(rows, columns=["id", "village", "sex"]).to_parquet(folder / "people.parquet")
    (folder / "areas.csv").write_text("region,district,village\nR1,R1D1,R1D1V1\nR2,R2D1,R2D1V1\n")
    (folder / "bad.toml").write_text(file_problem + BAD)
    with pytest.raises(PlanRefused) as refused:
        read_hierarchy_workload(folder / "bad.toml").plan()
    listed = (
        "no level `distrikt`", "weigh is 'levels'", "1 of 2 with an error", "no column `ageband`",
        "table `all` is on no such level", "in region 'coast'", "confidence is 2", file_problem and "tilte",
    )  # fmt: skip
    for said in listed:
        assert said in str(refused.value), said
    assert "line 1" not in str(refused.value)


def test_a_region_of_nodes_of_several_levels_is_told_how_to_name_them(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('coast = ["11", "21"]', 'coast = ["1", "21"]') + "delta = 1e-6\n")
    with pytest.raises(BadParameter) as refused:
        read_hierarchy_workload(folder / "plan.toml").plan()
    assert "in region 'coast', of level 'state', and not of 'county'" in str(refused.value)
    assert '{county = ["21"], state = ["1"]}' in str(refused.value)


@pytest.mark.parametrize("flat", [False, True])
def test_a_dry_run_needs_no_ledger_and_names_the_account_to_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch, flat: bool
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    text = PLAN.replace("epsilon = 1", "epsilon = 1.5").replace("census", "folk")
    if flat:
        before, _, after = text.partition("[hierarchy]")
        tables, _, budget = after[after.index("[tables.sex]") :].partition("[regions]")
        text = before + tables.replace('levels = ["nation", "state"]\n', "") + budget[budget.index("[budget]") :]
    for delta in ("", "delta = 1e-6\n"):
        plan = text + delta + 'ledger = "new.ledger"\naccount = "folk"\n'
        Path("new.toml").write_text(plan)
        dry = run("publish", "new.toml", "--dry-run")
        command = "discreet ledger open new.ledger --account folk --epsilon 1.5 --delta 1e-6 --currency pure"
        assert dry.returncode == 0, dry.stderr
        assert command in " ".join(dry.stdout.split())
        refused = run("publish", "new.toml", "--yes", "--to", "out")
        assert command in " ".join(refused.stderr.split())
    assert run(*command.split()[1:]).returncode == 0
    done = run("publish", "new.toml", "--yes", "--to", "out")
    assert done.returncode == 0, done.stderr
    assert "of 1.5 remaining at δ = 1e-6, more than 99% spent" in " ".join(done.stdout.split("Published")[1].split())


def test_a_delta_that_is_that_of_the_account_is_accepted_and_another_is_refused(folder: Path) -> None:
    (folder / "charged.toml").write_text(PLAN + LEDGER + "delta = 1e-6\n")
    read_hierarchy_workload(folder / "charged.toml").plan()
    (folder / "charged.toml").write_text(PLAN + LEDGER + "delta = 1e-7\n")
    with pytest.raises(BadParameter, match=r"the account has its own, 1e-06"):
        read_hierarchy_workload(folder / "charged.toml").plan()


def test_synthesis_says_that_it_takes_no_publication_of_a_hierarchy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    publish_hierarchy("plan.toml", "out")
    refused = run("synthesize", "out", "--to", "rows.csv")
    assert refused.returncode == 2
    assert "out is the publication of a hierarchy" in " ".join(refused.stderr.split())


def test_measurements_that_are_published_are_readable_like_the_tables(folder: Path) -> None:
    publish_hierarchy(folder / "plan.toml", folder / "out")
    expected = (folder / "out" / "sex.county.csv").stat().st_mode
    assert {path.stat().st_mode for path in (folder / "out" / "measurements").iterdir()} == {expected}


def test_tables_of_weights_say_what_they_add_up_and_what_is_not_in_their_error(folder: Path) -> None:
    people = pandas.read_parquet(folder / "people.parquet")
    people.assign(w=people["id"] % 3).to_parquet(folder / "people.parquet")
    (folder / "plan.toml").write_text(
        'weight = "w"\n' + PLAN.replace("[keys]", "[bounds]\nw = [0, 400]\n[keys]") + "delta = 1e-6\n"
    )
    published = publish_hierarchy(folder / "plan.toml", folder / "out")
    page = " ".join((folder / "out" / "guarantee.md").read_text().split())
    for said in (page, " ".join(published.tabulation.list_notes())):
        assert "the sum of w over the rows that are kept" in said
        assert "the error of sampling is not in them" in said
        assert "the count of the rows" not in said
    assert "by at most 400 in w" in page
    assert "It is declared that each id has one row, and taken for granted" in page
    assert "`display` is post-processing" in page
    assert "`reliable` is true if" in page


def test_half_widths_of_regions_are_where_those_of_levels_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    summary = json.loads(run("publish", "plan.toml", "--dry-run", "--json").stdout)
    stated = {each["name"]: each["half_widths"] for each in summary["tables"] if each["level"] == "regions"}
    published = publish_hierarchy(folder / "plan.toml", folder / "out")
    page, found = (folder / "out" / "guarantee.md").read_text(), published.tabulation.tables
    assert stated.keys() == {name for name, level in found if level == "regions"} == {"sex", "total"}
    for name, (least, most) in stated.items():
        widths = found[name, "regions"].half_width
        assert (widths.min(), widths.max()) == pytest.approx((least, most))
        by = "`sex`" if name == "sex" else "everybody"
        assert f"[{name}]({name}.regions.csv) | `regions` | {by} | {least:.4g} |" in page
