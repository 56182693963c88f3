"""The guarantee page of tables that add up is written again from the certificate and the measurements, and compared."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest

from discreet.accounting.currencies import parse_currency
from discreet.ledger import open_ledger
from discreet.workload import table_pages, tables
from discreet.workload.hierarchies import publish_hierarchy
from discreet.workload.tables import verify_folder
from discreet.workload.tabulations import publish_tables

SOURCE = """
title = "People, and | where they *live*"
source = "people.parquet"
unit = "id"
[keys]
sex = [0, 1]
"district | name" = ["11", "12", "21", "22"]
[bounds]
age = [18, 70]
w = [0, 4]
[computed]
decade = "age // 10"
[budget]
epsilon = 2
ledger = "people.ledger"
account = "census"
"""
FLAT = """
[tables.sex]
by = ["sex", "decade"]
[tables.total]
by = []
[tables.place]
by = ["district | name"]
"""
LEVELS = """
[hierarchy]
geo = "nation > state > county"
nodes = "nodes.csv"
column = "code"
lengths = [0, 1, 2]
[tables.sex]
by = ["sex", "decade"]
levels = ["nation", "state"]
[tables.total]
by = []
[regions]
coast = ["11", "21"]
inland = {state = ["2"], county = ["12"]}
"""
OPTIONS = {
    "unique": "unique = true\n",
    "limits": "max_groups = 3\nmax_rows = 2\n",
    "rows": "",
    "weight": 'max_groups = 2\nmax_rows = 1\nweight = "w"\nwhere = "age >= 20 AND sex = 1"\nlabel = "spring | 2026"\n',
    "invariants": 'unique = true\nneighbours = "replace"\n[invariants]\nsex = "Seats follow from the *counts*."\n',
}

CASES = [(kind, option) for kind in ("flat", "levels") for option in OPTIONS]


def publish_case(folder: Path, kind: str, option: str, currency: str = "zcdp") -> Path:
    """Publish tables of invented people with a ledger, and return their folder."""
    rng = Random(1)
    places = ["11", "12", "21", "99"]
    rows = [
        (i, place, place, rng.choice([0, 1]), rng.randrange(18, 71), rng.randrange(5))
        for i in range(60)
        for place in [rng.choice(places)]
    ]
    names = ["id", "code", "district | name", "sex", "age", "w"]
    pandas.DataFrame(rows, columns=names).to_parquet(folder / "people.parquet")
    (folder / "nodes.csv").write_text("code\n11\n12\n21\n22\n")
    ledger = open_ledger(folder / "people.ledger", create=True)
    ledger.open_account("census", 3, 1e-6, currency=parse_currency(currency))
    ledger.close()
    source = SOURCE.replace('unit = "id"\n', 'unit = "row"\n' if option == "rows" else 'unit = "id"\n')
    declared, _, invariants = OPTIONS[option].partition("[invariants]")
    head, keys, rest = source.partition("[keys]")
    text = f"{head}{declared}{keys}{rest}" + (f"[invariants]{invariants}" if invariants else "")
    if currency == "pure":
        text = text.replace("epsilon = 2", "epsilon = 2\ndelta = 1e-6")
    (folder / "plan.toml").write_text(text + (FLAT if kind == "flat" else LEVELS))
    publish: Any = publish_tables if kind == "flat" else publish_hierarchy
    return Path(publish(folder / "plan.toml", folder / "out").folder)


def list_wrong(folder: Path) -> list[str]:
    """List the claims of a folder that do not hold."""
    certificate = json.loads((folder / "release.json").read_text())
    return [each.claim for each in verify_folder(folder, certificate).claims if not each.is_valid]


def list_forgeries(text: str) -> dict[str, str]:
    """List pages that say something else: every line left out, written twice, with its first word or a digit changed, or
    with a line more. The title and the notes on the source are not signed, and are left as they are."""
    lines = text.split("\n")[:-1]
    notes = range(0)
    if table_pages.BOUNDING in lines:
        start = lines.index(table_pages.BOUNDING) + 4
        notes = range(start, next(i for i in range(start, len(lines)) if not lines[i]))
    found = {}
    for i, line in enumerate(lines):
        if i == 0 or i in notes:
            continue

        def put(*new: str, i: int = i) -> str:
            return "\n".join([*lines[:i], *new, *lines[i + 1 :]]) + "\n"

        found[f"{i} without {line[:50]}"] = put()
        if line:
            found[f"{i} twice {line[:50]}"] = put(line, line)
            found[f"{i} other {line[:50]}"] = put(re.sub(r"\w+", "thing", line, count=1) if re.search(r"\w", line) else "-")
            found[f"{i} more {line[:50]}"] = put(f"{line} In truth nothing is protected.")
        if re.search(r"\d", line):
            found[f"{i} digit {line[:50]}"] = put(re.sub(r"\d", lambda digit: str(9 - int(digit[0])), line, count=1))
    return found


def find_unnoticed(folder: Path) -> list[str]:
    """List the forgeries of a page that are not noticed, as far as `is_same_page` compares; the first and the last of them
    are also looked for by `verify_folder`."""
    certificate, page = json.loads((folder / "release.json").read_text()), folder / "guarantee.md"
    text = page.read_text()
    compared: list[tuple[str, Any]] = []
    real = tables.is_same_page

    def remember(found: str, expected: str, stated: table_pages.Statement) -> bool:
        compared.append((expected, stated))
        return real(found, expected, stated)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "is_same_page", remember)
        assert verify_folder(folder, certificate).is_valid, list_wrong(folder)
    [(expected, stated)] = compared
    forgeries = list_forgeries(text)
    unnoticed = [name for name, forged in forgeries.items() if real(forged, expected, stated)]
    for name in (next(iter(forgeries)), [*forgeries][-1]):
        page.write_text(forgeries[name])
        wrong = list_wrong(folder)
        unnoticed += [] if wrong and all("guarantee.md" in claim for claim in wrong) else [name]
    page.write_text(text)
    return unnoticed


@pytest.mark.parametrize(("kind", "option"), CASES)
def test_every_line_of_a_page_is_compared(tmp_path: Path, kind: str, option: str) -> None:
    folder = publish_case(tmp_path, kind, option)
    assert not find_unnoticed(folder)
    text = (folder / "guarantee.md").read_text()
    assert len(list_forgeries(text)) > 100
    assert ("Conditional" in text) == (option == "invariants")
    assert ("the sum of" in text) == (option == "weight")


@pytest.mark.parametrize("currency", ["pure", "gdp"])
def test_pages_of_other_currencies_are_compared_too(tmp_path: Path, currency: str) -> None:
    assert not find_unnoticed(publish_case(tmp_path, "levels", "unique", currency))


def _look_at_tables_alone(found: str, expected: str, stated: table_pages.Statement) -> bool:
    rows = [[line for line in each.split("\n") if line.startswith("|")] for each in (found, expected)]
    return rows[0] == rows[1]


def _look_at_numbers_alone(found: str, expected: str, stated: table_pages.Statement) -> bool:
    one, other = (
        [line for line in each.split("\n")[1:] if table_pages.states_guarantee(line) or line.startswith("|")]
        for each in (found, expected)
    )
    return one == other


def _look_for_lines(found: str, expected: str, stated: table_pages.Statement) -> bool:
    lines = found.split("\n")
    return all(line in lines or line.startswith(("# ", "- ")) for line in expected.split("\n"))


@pytest.mark.parametrize("mutant", [_look_at_tables_alone, _look_at_numbers_alone, _look_for_lines])
def test_the_property_notices_pages_that_are_compared_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Any
) -> None:
    folder = publish_case(tmp_path, "levels", "invariants")
    monkeypatch.setattr(tables, "is_same_page", mutant)
    assert find_unnoticed(folder)


BOUNDING_FORGERIES = [
    ("at most 6 rows", "at most 1 row"), ("3 cells per id", "1 cell per id"), ("2 rows in each", "1 row in each"),
    ("Limits, applied once for all tables: 3 cells per id, 2 rows in each.", "It is declared that each id has one row."),
    ("in each.", "in each. So ε = 0.01 holds."),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["flat", "levels"])
def test_what_one_unit_can_change_is_compared_and_notes_on_the_source_are_named(tmp_path: Path, kind: str) -> None:
    folder = publish_case(tmp_path, kind, "limits")
    page = folder / "guarantee.md"
    text = page.read_text()
    for old, new in BOUNDING_FORGERIES:
        assert old in text, old
        page.write_text(text.replace(old, new))
        assert list_wrong(folder), new
    for old, new in (("in each.", "in each. Rows were counted by hand."), ("# People", "# Animals")):
        assert old in text, old
        page.write_text(text.replace(old, new, 1))
        found = verify_folder(folder, json.loads((folder / "release.json").read_text()))
        assert found.is_valid, new
        assert tables.NOT_SIGNED_WORDS in found.assumptions


FORGED_NOTES = [
    "In truth epsilon is 0.01.", "ϵ = 0.01", "Epsilon=0.01", "&epsilon; = 0.01", "<!--", "[more](http://example.org)",
    "Conditional: this holds for all data sets.", "hidden\u200b", "one\u2028## two",
]  # fmt: skip


@pytest.mark.parametrize(("kind", "option"), [("flat", "unique"), ("levels", "invariants")])
def test_notes_on_the_source_state_no_guarantee_and_no_condition_and_hide_nothing(
    tmp_path: Path, kind: str, option: str
) -> None:
    folder = publish_case(tmp_path, kind, option)
    page = folder / "guarantee.md"
    text = page.read_text()
    for note in FORGED_NOTES:
        page.write_text(text.replace("\n\n## What is not", f"\n- {note}\n\n## What is not"))
        assert list_wrong(folder), note
    page.write_text(text.replace("\n\n## What is not", "\n- Rows were counted by hand, \\*twice\\*.\n\n## What is not"))
    assert not list_wrong(folder)
    page.write_text(text.replace(": privacy guarantee", "<!--: privacy guarantee", 1))
    assert list_wrong(folder)


def test_a_chart_beside_tables_that_add_up_is_named(tmp_path: Path) -> None:
    folder = publish_case(tmp_path, "flat", "unique")
    (folder / "sex.svg").write_text("<svg/>")
    found = verify_folder(folder, json.loads((folder / "release.json").read_text()))
    assert any("sex.svg" in each for each in found.assumptions)


def test_a_page_in_the_words_of_another_version_is_named_as_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_case(tmp_path, "levels", "unique")
    page = folder / "guarantee.md"
    page.write_text(page.read_text().replace("Their list is public", "The list of them is public"))
    assert list_wrong(folder)
    monkeypatch.setattr(tables, "version", lambda name: "99")
    found = verify_folder(folder, json.loads((folder / "release.json").read_text()))
    assert found.is_valid
    assert "the other words of guarantee.md" in found.conclusion
    page.write_text(page.read_text().replace("**ε = ", "**ε = 0.0"))
    assert list_wrong(folder)


@pytest.mark.parametrize("kind", ["flat", "levels"])
def test_other_files_are_named_and_other_columns_are_noticed(tmp_path: Path, kind: str) -> None:
    folder = publish_case(tmp_path, kind, "unique")
    (folder / "summary.html").write_text("<p>All is well.</p>")
    (folder / "extra.svg").write_text("<svg/>")
    certificate = json.loads((folder / "release.json").read_text())
    named = [each for each in verify_folder(folder, certificate).assumptions if "no publication writes it" in each]
    assert named == [tables.OTHER_FILES.format(names="extra.svg, summary.html")]
    described = folder / ("measurements.json" if kind == "flat" else "measurements/measurements.json")
    described.write_text(described.read_text().replace('"decade"', '"married"'))
    assert any("what was signed" in claim for claim in list_wrong(folder))
