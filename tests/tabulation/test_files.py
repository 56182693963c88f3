"""Published tabulations: the tables follow from the measurements, and whoever changes one of them is found out."""

import csv
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyarrow import parquet

from discreet.accounting.currencies import parse_currency
from discreet.errors import BadParameter, DiscreetError, PlanRefused, SourceRefused
from discreet.ledger import open_ledger
from discreet.tabulation.files import DESCRIPTION_FILE, MEASUREMENTS_FILE, Measurements, reproduce
from discreet.tabulation.measuring import pack, unpack
from discreet.workload.tables import verify_folder
from discreet.workload.tabulations import publish_tables, read_table_workload
from tests.tabulation.test_tabulation import write_people

PLAN = """
source = "people.csv"
unit = "id"
unique = true
[keys]
dept = ["a", "b", "c"]
city = ["x", "y"]
[bounds]
age = [18, 70]
[computed]
decade = "age // 10"
[budget]
epsilon = 2
delta = 1e-6
[tables.fine]
by = ["dept", "city", "decade"]
[tables.dept]
by = "dept"
weight = 3
"""


@pytest.fixture(scope="module")
def published_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    write_people(folder)
    (folder / "plan.toml").write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCREET_STATE", str(tmp_path_factory.mktemp("state")))
        publish_tables(folder / "plan.toml", folder / "out")
    return folder


@pytest.fixture
def published(published_once: Path, tmp_path: Path) -> Path:
    """A copy for each test, which may change it."""
    copytree(published_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


def test_a_folder_reproduces_from_its_measurements_alone(published: Path) -> None:
    assert (published / "guarantee.md").read_text().startswith("# A tabulation: privacy guarantee")
    found = reproduce(published)
    assert found.is_complete
    assert found.same == ("fine.csv", "fine.parquet", "dept.csv", "dept.parquet")
    with (published / "dept.csv").open() as file:
        shown = {row["dept"]: row for row in csv.DictReader(file)}
    assert float(shown["a"]["estimate"]) == found.tables["dept"].estimate[0]


@pytest.mark.parametrize(("column", "value"), [("estimate", "401.5"), ("display", "7"), ("upper", "999"), ("dept", "z")])
def test_a_table_that_was_changed_is_named(published: Path, column: str, value: str) -> None:
    place = published / "dept.csv"
    header, *rows = csv.reader(place.read_text().splitlines())
    rows[1][header.index(column)] = value
    place.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    found = reproduce(published)
    assert found.different == ("dept.csv",)
    assert not found.is_complete


def test_a_missing_table_is_named(published: Path) -> None:
    (published / "fine.csv").unlink()
    assert reproduce(published).missing == ("fine.csv",)


def test_a_parquet_file_that_was_changed_and_a_table_of_nobody_are_named(published: Path) -> None:
    (published / "dept.parquet").write_bytes((published / "fine.parquet").read_bytes())
    (published / "other.csv").write_text("dept,estimate\na,1\n")
    found = reproduce(published)
    assert (found.different, found.unknown) == (("dept.parquet",), ("other.csv",))
    assert not found.is_complete


@pytest.mark.parametrize("tables", [{}, {"../dept": ["dept"]}, {"a/b": ["dept"]}])
def test_names_of_tables_are_names_of_files(published: Path, tables: dict[str, list[str]]) -> None:
    described = json.loads((published / DESCRIPTION_FILE).read_text())
    described["tables"] = tables
    (published / DESCRIPTION_FILE).write_text(json.dumps(described))
    with pytest.raises(SourceRefused, match="names"):
        reproduce(published)


def test_measurements_that_were_changed_are_refused(published: Path) -> None:
    place = published / MEASUREMENTS_FILE
    place.write_bytes(place.read_bytes()[:-1] + b"!")
    with pytest.raises(SourceRefused, match="hash differs"):
        Measurements.read(published)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "discreet measurements 1"}'])
def test_what_is_no_description_is_refused(published: Path, text: str) -> None:
    (published / DESCRIPTION_FILE).write_text(text)
    with pytest.raises(SourceRefused, match="measurements"):
        reproduce(published)


def test_another_sigma_makes_other_tables(published: Path) -> None:
    """The estimation leans on the stated σ, so that a false one shows in every table that is compared."""
    described = json.loads((published / DESCRIPTION_FILE).read_text())
    described["measured"][0]["sigma"] = "1/2"
    (published / DESCRIPTION_FILE).write_text(json.dumps(described))
    assert not reproduce(published).is_complete


def test_a_ledger_publishes_the_same_again_for_nothing(tmp_path: Path) -> None:
    from discreet.accounting.currencies import Zcdp

    write_people(tmp_path)
    open_ledger(tmp_path / "hr.ledger", create=True).open_account("hr", 3, 1e-6, Zcdp())  # type: ignore[arg-type]
    budget = '[budget]\nepsilon = 2\nledger = "hr.ledger"\naccount = "hr"'
    (tmp_path / "plan.toml").write_text(PLAN.replace("[budget]\nepsilon = 2\ndelta = 1e-6", budget))
    first, again = (publish_tables(tmp_path / "plan.toml", tmp_path / name) for name in ("one", "two"))
    assert (first.free, again.free) == (False, True)
    assert (first.folder / "fine.csv").read_bytes() == (again.folder / "fine.csv").read_bytes()
    certificate = json.loads((first.folder / "release.json").read_text())
    verdict = verify_folder(first.folder, certificate)
    assert verdict.is_valid, verdict.claims
    measured = certificate["release"]["measured"][0]
    for changed in ({"sigma": "1"}, {"cells": pack(unpack(measured["cells"], (-1,)) + 1)}, {"cells": "?"}):
        before = dict(measured)
        measured.update(changed)
        assert not all(claim.is_valid for claim in verify_folder(first.folder, certificate).claims)
        measured.clear()
        measured.update(before)
    text = (again.folder / DESCRIPTION_FILE).read_text()
    for change in ("keys", "step"):
        described = json.loads(text)
        described["step"] = "1/2" if change == "step" else described["step"]
        described["columns"][0]["keys"].sort(reverse=change == "keys")
        (again.folder / DESCRIPTION_FILE).write_text(json.dumps(described))
        [claim] = [each for each in verify_folder(again.folder, certificate).claims if "what was signed" in each.claim]
        assert not claim.is_valid, change
    (first.folder / "dept.csv").write_text("dept\n")
    assert not verify_folder(first.folder, certificate).is_valid


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[tables.fine]", "[tables.fine]\nbie = 1"), "tables.fine.bie"),
        (('by = "dept"', "by = 3"), "tables.dept.by"),
        (("weight = 3", 'weight = "x"'), "weight"),
        (("[tables.dept]", "[tables.measurements]"), "tables.measurements"),
        (("[tables.dept]", '["tables"."a b"]'), "tables.a b"),
        (('decade = "age // 10"', "decade = 10"), "computed.decade"),
        (("epsilon = 2", "epsilon = -2"), "epsilon"),
        (("[budget]", '[questions.x]\nsql = "SELECT 1"\n[budget]'), "questions is given with tables"),
        (('city = ["x", "y"]\n', ""), "keys of `city` are not declared"),
    ],
)
def test_wrong_plans_are_refused_by_their_key(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    write_people(tmp_path)
    assert change[0] in PLAN
    (tmp_path / "plan.toml").write_text(PLAN.replace(*change))
    with pytest.raises(DiscreetError) as refused:
        read_table_workload(tmp_path / "plan.toml").plan()
    assert said in str(refused.value)


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    text = (
        PLAN.replace("weight = 3", "weight = -3")
        .replace('decade = "age // 10"', "decade = 10")
        .replace("[tables.fine]", "[tables.fine]\nx = 1")
    )
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(PlanRefused) as refused:
        read_table_workload(tmp_path / "plan.toml")
    assert all(word in str(refused.value) for word in ("tables.dept", "computed.decade", "tables.fine.x"))


def test_an_existing_folder_is_not_replaced(published: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="exists"):
        publish_tables(tmp_path / "plan.toml", published)
    assert publish_tables(tmp_path / "plan.toml", published, force=True).folder == published


PAGE_FORGERIES = [
    ("**ε = ", "**ε = 0.0"),
    ("δ = 1e-6", "δ = 1e-9"),
    ("times as likely", "times as  likely"),
    ("| `dept` | 3 |", "| `dept` | 4 |"),
    ("| rounded Gaussian | ", "| rounded Gaussian | 1"),
    ("## What is not protected", "In truth ε = 0.01.\n\n## What is not protected"),
    ("## What was measured", "| made up | 1 |\n\n## What was measured"),
    ("for each **id**", "for each **household**"),
    ("with probability ≥ 95%;", "with probability ≥ 99%;"),
    ("Together with all", "Alone, or together with all"),
]


@pytest.mark.parametrize("currency", ["zcdp", "pure", "gdp"])
def test_the_guarantee_page_states_what_follows_from_the_certificate(tmp_path: Path, currency: str) -> None:
    write_people(tmp_path)
    ledger = open_ledger(tmp_path / "hr.ledger", create=True)
    ledger.open_account("hr", 5, 1e-6, currency=parse_currency(currency))
    plan = PLAN.replace("[budget]", '[budget]\nledger = "hr.ledger"')
    (tmp_path / "plan.toml").write_text(plan if currency == "pure" else plan.replace("delta = 1e-6\n", ""))
    folder = publish_tables(tmp_path / "plan.toml", tmp_path / "out").folder
    certificate, page = json.loads((folder / "release.json").read_text()), folder / "guarantee.md"
    assert verify_folder(folder, certificate).is_valid
    text = page.read_text()
    for old, new in PAGE_FORGERIES:
        assert old in text
        page.write_text(text.replace(old, new))
        wrong = [each.claim for each in verify_folder(folder, certificate).claims if not each.is_valid]
        assert wrong, new
        assert all("guarantee.md" in claim for claim in wrong)
    page.unlink()
    assert not verify_folder(folder, certificate).is_valid


BAD_PLAN = """
title = 5
sourc = 3
source = "people.csv"
unit = "id"
confidence = 2
where = "agee > 3"
weight = "w +"
[keys]
dept = ["a", "b", "c"]
[computed]
decade = "age +"
[budget]
epsilon = -1
[tables.x]
by = ["dept", "zz"]
weight = -1
[tables."../evil"]
by = ["dept", "city"]
error = 3
[tables.measurements]
by = ["decade"]
[tables.a]
by = []
[tables.A]
by = ["estimate"]
[tables.b]
by = 5
error = -2
"""


def test_all_problems_of_a_plan_are_listed_at_once(tmp_path: Path) -> None:
    write_people(tmp_path)
    (tmp_path / "plan.toml").write_text(BAD_PLAN)
    with pytest.raises(PlanRefused) as refused:
        read_table_workload(tmp_path / "plan.toml")
    said = str(refused.value)
    for words in (
        "title is 5", "sourc is given", "confidence is 2", "`agee` is not declared", "weight is 'w +'",
        "'age +': not an expression", "budget.epsilon is -1", "no column `zz`", "tables.x.weight is -1", "tables.../evil",
        "tables.measurements", "tables is 'A': on some disks", "1 of 5 with an error",
        "by is 'estimate'", "tables.b.by is 5",
        "tables.b.error is -2", "The keys of `city` are not declared",
    ):  # fmt: skip
        assert words in said, words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"step": "0"}, "step of the grid"), ({"step": "1/0"}, "do not hold"), ({"confidence": None}, "do not hold"),
        ({"secret": 1}, "keys that no tabulation writes"), ({"measured": "twice"}, "twice"),
        ({"tables": None}, "lacks the key"),
    ],
)  # fmt: skip
def test_a_description_that_no_tabulation_writes_is_refused_in_words(published: Path, change: dict, said: str) -> None:  # type: ignore[type-arg]
    described = json.loads((published / DESCRIPTION_FILE).read_text())
    [(key, value)] = change.items()
    if key == "measured":
        described[key].append(described[key][0])
    elif key == "tables":
        del described[key]
    else:
        described[key] = value
    (published / DESCRIPTION_FILE).write_text(json.dumps(described))
    with pytest.raises(SourceRefused, match=said) as refused:
        reproduce(published)
    assert "Error" not in str(refused.value)


def _rewrite(folder: Path, change: Callable[[Any], Any]) -> None:
    """Write the noisy numbers otherwise, with a description that fits the new file."""
    place = folder / MEASUREMENTS_FILE
    parquet.write_table(change(parquet.read_table(place)), place)
    described = json.loads((folder / DESCRIPTION_FILE).read_text())
    described["sha256"] = sha256(place.read_bytes()).hexdigest()
    (folder / DESCRIPTION_FILE).write_text(json.dumps(described))


REWRITTEN: dict[str, Callable[[Any], Any]] = {
    "cells in another order": lambda rows: rows.set_column(1, "cell", [rows["cell"].to_pylist()[::-1]]),
    "a column more": lambda rows: rows.append_column("exact", [[1] * len(rows)]),
    "fractions": lambda rows: rows.set_column(
        2, "noisy", [[each + 0.5 * (each > 0) - 0.5 * (each < 0) for each in rows["noisy"].to_pylist()]]
    ),
    "texts": lambda rows: rows.set_column(2, "noisy", [[str(each) for each in rows["noisy"].to_pylist()]]),
    "a missing number": lambda rows: rows.set_column(2, "noisy", [[None, *rows["noisy"].to_pylist()[1:]]]),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_file_of_measurements_has_the_columns_and_cells_that_a_tabulation_writes(published: Path, name: str) -> None:
    _rewrite(published, lambda rows: rows)
    assert reproduce(published).is_complete
    _rewrite(published, REWRITTEN[name])
    with pytest.raises(SourceRefused, match="does not h"):
        reproduce(published)


def test_a_description_that_names_a_key_twice_or_says_more_of_a_table_is_refused(published: Path) -> None:
    place = published / DESCRIPTION_FILE
    text = place.read_text()
    place.write_text(text.replace("{", '{"confidence": 0.5, ', 1))
    with pytest.raises(SourceRefused, match="not JSON"):
        reproduce(published)
    described = json.loads(text)
    described["measured"][0]["epsilon"] = 0.01
    place.write_text(json.dumps(described))
    with pytest.raises(SourceRefused, match="keys that no tabulation writes"):
        reproduce(published)
