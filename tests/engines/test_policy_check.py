"""What `discreet policy check` reports to the data owner, on every engine, and to no one else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import BadParameter, SourceRefused
from discreet.query.contribution import ADJUSTED_POLICY_NOTE
from discreet.query.policy import read_policy, write_policy
from discreet.query.schema import Column, Kind, Table
from discreet.session.connect import connect
from discreet.session.policy_check import Check, Verdict, check_policy, summarise_checks
from tests.support.console import run
from tests.support.postgres_server import Server, create_table

ROWS: list[tuple[Any, ...]] = [
    (1, "a", 5), (1, "b", 500), (1, "b", 5), (2, "c", -5), (3, "a", None), (None, "a", 5), (4, "A", 7), (4, None, 7),
]  # fmt: skip
COLUMNS = {
    "id": Column(Kind.INTEGER),
    "dept": Column(Kind.TEXT).with_keys(("a", "b", "z")),
    "pay": Column(Kind.INTEGER).with_bounds(0, 100),
}
POLICY = Table("people", "id", COLUMNS)


def csv_file(folder: Path) -> Any:
    lines = (",".join("" if cell is None else str(cell) for cell in row) for row in ROWS)
    (folder / "people.csv").write_text("id,dept,pay\n" + "\n".join(lines) + "\n")
    return folder / "people.csv"


def frame(folder: Path) -> Any:
    return pd.DataFrame(ROWS, columns=["id", "dept", "pay"])


def database(folder: Path) -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (id BIGINT, dept VARCHAR, pay INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
    return connection


EXPECTED = {
    ("rows", "1 rows (12.5%) have no unit and are dropped"),
    ("dept", "3 rows (37.5%) have another key and are dropped; no row has 'z'"),
    ("pay", "1 rows (12.5%) are below and 1 rows (12.5%) above; they are clipped, and histograms may leave them out"),
    ("max_rows", "2 of 4 units have more than 1 row (at most 3); further rows in one group are dropped"),
    ("max_groups", "1 of 4 units are in more than 1 group of dept (at most 2); further groups are dropped"),
}


EXPECTED |= {("dept", "'A' (1 rows) looks like 'a'")}


def found(checks: list[Check]) -> set[tuple[str, str]]:
    return {(check.subject, check.found) for check in checks if check.verdict is Verdict.ACCURACY}


@pytest.mark.parametrize("made", [csv_file, frame, database])
def test_the_findings(made: Any, tmp_path: Path) -> None:
    assert found(check_policy(made(tmp_path), POLICY, table="people")) == EXPECTED


def test_the_findings_in_postgresql(postgres: Server) -> None:
    create_table(postgres.owner, "checked", "id bigint, dept text, pay integer", ROWS)
    checked = Table("checked", "id", COLUMNS)
    assert found(check_policy(postgres.reader, checked, table="checked")) == EXPECTED


@pytest.mark.parametrize("made", [csv_file, frame, database])
def test_a_false_unique_breaks_the_guarantee(made: Any, tmp_path: Path) -> None:
    claimed = Table("people", "id", COLUMNS, unique=True)
    [unique] = [check for check in check_policy(made(tmp_path), claimed, table="people") if check.subject == "unique"]
    assert unique.verdict is Verdict.BROKEN
    assert unique.found == "2 of 4 units have more than 1 row (at most 3)"


def test_cells_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,dept,pay\n1,a,5\n2,a,old\n3,a,1.5\n4,a,\n")
    found_of_pay = [check.found for check in check_policy(tmp_path / "people.csv", POLICY) if check.subject == "pay"]
    assert found_of_pay[0] == "2 rows (50%) have a cell of another type, which is read as missing"


def test_a_source_that_does_not_pass_validation_is_refused_here_too(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused):
        check_policy(tmp_path / "nowhere.csv", POLICY)


def test_the_command(tmp_path: Path) -> None:
    source, policy = csv_file(tmp_path), tmp_path / "policy.toml"
    policy.write_text(write_policy(POLICY))
    done = run("policy", "check", str(source), str(policy))
    assert done.returncode == 0, done.stderr
    assert "OWNER ONLY" in done.stdout
    assert "adjusted_after_looking" in done.stdout
    report = json.loads(run("policy", "check", str(source), str(policy), "--json").stdout)
    assert report["owner_only"] is True
    assert {(each["subject"], each["found"]) for each in report["checks"]} >= EXPECTED
    policy.write_text(write_policy(Table("people", "id", COLUMNS, unique=True)))
    broken = run("policy", "check", str(source), str(policy))
    assert broken.returncode == 1
    assert "breaks the guarantee" in " ".join(broken.stdout.split())


@pytest.mark.parametrize("made", [csv_file, frame, database])
def test_problems_come_first_and_a_verdict_last(made: Any, tmp_path: Path) -> None:
    wrong = COLUMNS | {"dept": Column(Kind.TEXT).with_keys(("b", "z"))}  # drops 6 of 8 rows
    checks = check_policy(made(tmp_path), Table("people", "id", wrong, unique=True), table="people")
    assert [check.verdict for check in checks[:2]] == [Verdict.BROKEN, Verdict.SEVERE]
    assert (checks[1].subject, checks[1].declared) == ("dept", "2 keys")
    order = [list(Verdict).index(check.verdict) for check in checks]
    assert order == sorted(order)
    assert summarise_checks(checks).startswith("The data breaks the guarantee: unique.")
    held = check_policy(made(tmp_path), Table("people", "id", wrong), table="people")
    assert "Most of the data does not count as declared: dept (2 keys)." in summarise_checks(held)


def test_the_command_shows_findings_and_ends_with_the_verdict(tmp_path: Path) -> None:
    source, policy = csv_file(tmp_path), tmp_path / "policy.toml"
    policy.write_text(write_policy(Table("people", "id", COLUMNS, unique=True)))
    shown = " ".join(run("policy", "check", str(source), str(policy)).stdout.split())
    table, _, rest = shown.partition("true of every row:")
    assert "0 rows (0%)" not in table
    assert "dept (kind = text)" in rest
    verdict = json.loads(run("policy", "check", str(source), str(policy), "--json").stdout)["verdict"]
    assert verdict.startswith("The data breaks the guarantee: unique.")
    assert rest.endswith(f"Verdict: {verdict}")
    (tmp_path / "fine.csv").write_text("id,dept\n1,a\n2,b\n")
    policy.write_text(write_policy(Table("fine", "id", {"id": Column(Kind.INTEGER)}, unique=True)))
    fine = " ".join(run("policy", "check", str(tmp_path / "fine.csv"), str(policy)).stdout.split())
    assert fine.endswith("Verdict: The guarantee holds, and every declaration is true of the data.")
    assert "OWNER ONLY" in fine


def test_an_adjusted_policy_is_named_in_every_answer(tmp_path: Path) -> None:
    adjusted = Table("people", "id", COLUMNS, adjusted_after_looking=True)
    assert read_policy(write_policy(adjusted)) == adjusted
    assert read_policy(write_policy(POLICY)) == POLICY
    with pytest.raises(BadParameter, match="adjusted_after_looking"):
        Table("people", "id", COLUMNS, adjusted_after_looking="no")  # type: ignore[arg-type]
    query = "SELECT COUNT(*) AS n FROM people"
    sessions = [connect(csv_file(tmp_path), policy=policy, epsilon=1) for policy in (POLICY, adjusted)]
    plain, noted = [session.ask(query, epsilon=0.5) for session in sessions]
    assert ADJUSTED_POLICY_NOTE in noted.explanation
    assert ADJUSTED_POLICY_NOTE in sessions[1].quote(query, epsilon=0.1).explanation
    assert ADJUSTED_POLICY_NOTE not in plain.explanation
    assert noted.reference is not None
    assert noted.reference.measurement["adjusted_after_looking"] is True
    assert plain.reference is not None
    assert "adjusted_after_looking" not in plain.reference.measurement


BAD_POLICY = Table("people", "id", {"id": Column(Kind.INTEGER), "v": Column(Kind.INTEGER)})


def refused_source(folder: Path) -> tuple[str, str]:
    """Write files of different types and a policy for them; the reason names the second file."""
    for i, v in enumerate(([1], ["Mr Smith"])):
        pq.write_table(pa.table({"id": [i], "v": v}), folder / f"people-{i}.parquet")
    (folder / "policy.toml").write_text(write_policy(BAD_POLICY))
    return str(folder / "people-*.parquet"), str(folder / "policy.toml")


def view_that_fails(folder: Path) -> tuple[str, str]:
    """Create a view that cannot be read, and a policy for it; the reason quotes a value."""
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'Mr\x1b Smith' AS v")
        connection.execute("CREATE VIEW people AS SELECT id, CAST(v AS INTEGER) AS v FROM t")
    (folder / "policy.toml").write_text(write_policy(BAD_POLICY))
    return str(folder / "people.duckdb"), str(folder / "policy.toml")


@pytest.mark.parametrize(("make", "reason"), [(refused_source, "people-1.parquet are not of"), (view_that_fails, "Smith")])
def test_the_owners_commands_say_why_a_source_is_refused_and_the_analysts_do_not(
    make: Any, reason: str, tmp_path: Path
) -> None:
    source, policy = make(tmp_path)
    named = ("--table", "people")
    for command in (("check", source, policy), ("init", source, "--unit", "id", "--out", "-")):
        output = run("policy", *command, *named)
        assert output.returncode == 4
        assert reason in output.stderr
        assert "For the data owner only" in output.stderr
        assert "policy check" not in output.stderr
        assert "\x1b" not in output.stderr
    analyst = run("ask", source, "SELECT COUNT(*) AS n FROM people", "--policy", policy, "--epsilon", "1", *named)
    assert analyst.returncode == 4
    assert reason not in analyst.stderr
    assert "`discreet policy check`, or in the file that DISCREET_OWNER_LOG names" in analyst.stderr
    with pytest.raises(SourceRefused, match="For the data owner only") as refused:
        check_policy(source, policy, table="people")
    assert any(reason in line for line in refused.value.for_owner)


def test_dates_outside_of_their_bounds_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "visits.csv"
    source.write_text("id,day\n1,2023-12-31\n2,2024-01-01\n3,2024-12-31\n4,2025-01-01\n5,2026-01-01\n6,\n")
    days = Column(Kind.DATE).with_bounds("2024-01-01", "2024-12-31")
    [check] = [
        each
        for each in check_policy(source, Table("visits", "id", {"id": Column(Kind.INTEGER), "day": days}, unique=True))
        if each.declared.startswith("bounds")
    ]
    assert check.declared == "bounds = 2024-01-01 to 2024-12-31"
    assert check.found == "1 rows (16.7%) are below and 2 rows (33.3%) above; they are clipped"


@pytest.mark.parametrize(("lower", "upper", "below", "above"), [(0.5, 2.5, 3, 1), (-0.5, 2, 2, 1), (-1.5, -0.5, 1, 4)])
def test_fractional_bounds_of_integers_are_counted_as_they_clip(lower: float, upper: float, below: int, above: int) -> None:
    pay = Column(Kind.INTEGER).with_bounds(lower, upper)
    people = pd.DataFrame({"id": range(6), "pay": [-2, -1, 0, 1, 2, 3]})
    declared = Table("people", "id", {"id": Column(Kind.INTEGER), "pay": pay}, unique=True)
    [check] = [each for each in check_policy(people, declared) if each.declared.startswith("bounds")]
    assert [part.split()[0] for part in check.found.split(";")[0].split(" and ")] == [str(below), str(above)]


# -- what else the owner may want to know ----------------------------------------------------------------------------------


def visits(counts: dict[str, int]) -> pd.DataFrame:
    """Rows of units with so many visits, each of them to another place."""
    rows = [(unit, f"place{i}") for unit, n in counts.items() for i in range(n)]
    return pd.DataFrame(rows, columns=["id", "place"])


def test_other_limits_are_compared_by_the_rows_that_they_drop() -> None:
    """Against a count in plain Python: a unit with n rows loses n − m of them, or as large a share of its groups."""
    counts = {"a": 1, "b": 1, "c": 3, "d": 7, "e": 12}
    columns = {"id": Column(Kind.TEXT), "place": Column(Kind.TEXT).with_keys(tuple(f"place{i}" for i in range(12)))}
    checks = check_policy(visits(counts), Table("visits", "id", columns))
    compared = {each.subject: each for each in checks if each.verdict is Verdict.COMPARISON}
    total = sum(counts.values())
    shares = {m: sum(max(0, n - m) for n in counts.values()) / total for m in (1, 2, 5, 10, 20)}
    expected = ", ".join(f"{m} drops {100 * share:.3g}%" for m, share in shares.items()) + " of the rows"
    assert {each.found for each in compared.values()} == {expected}
    assert set(compared) == {"max_rows", "max_groups"}


def test_no_limits_are_compared_where_none_drops_a_row() -> None:
    checks = check_policy(visits({"a": 1, "b": 1}), Table("visits", "id", {"id": Column(Kind.TEXT)}))
    assert not [each for each in checks if each.verdict is Verdict.COMPARISON]


def test_misspelt_keys_are_found() -> None:
    held = ["Male", "male", " MALE", "Femle", "female", "unknown", "x", None, "Male"]
    frame = pd.DataFrame({"id": range(len(held)), "sex": held})
    columns = {"id": Column(Kind.INTEGER), "sex": Column(Kind.TEXT).with_keys(("Male", "Female", "Other"))}
    checks = check_policy(frame, Table("people", "id", columns, unique=True))
    [spelling] = [each.found for each in checks if each.declared == "spelling of keys"]
    looks = {"male": "Male", " MALE": "Male", "Femle": "Female", "female": "Female"}
    assert set(spelling.split("; ")) == {f"{other!r} (1 rows) looks like {meant!r}" for other, meant in looks.items()}


@pytest.mark.parametrize("unit", ["row", "(id, dept)"])
def test_units_that_are_rows_or_several_columns_are_checked(unit: str, tmp_path: Path) -> None:
    declared = Table("people", unit, {("nid" if unit == "row" and name == "id" else name): c for name, c in COLUMNS.items()})
    frame = pd.DataFrame(ROWS, columns=list(declared.columns))
    checks = {each.subject: each for each in check_policy(frame, declared, table="people")}
    if unit == "row":
        assert checks["unit"].verdict is Verdict.ASSUMED
        assert checks["rows"].found == "0 rows (0%) have no unit and are dropped"
        assert not {"unique", "max_rows", "max_groups"} & checks.keys()
    else:
        assert checks["rows"].found == "2 rows (25%) have no unit and are dropped"
        claimed = check_policy(frame, Table("people", unit, COLUMNS, unique=True), table="people")
        assert [each.found for each in claimed if each.verdict is Verdict.BROKEN] == [
            "1 of 5 units have more than 1 row (at most 2)"
        ]


def test_the_report_warns_at_its_top_and_no_session_leads_to_it(tmp_path: Path) -> None:
    source, policy = csv_file(tmp_path), tmp_path / "policy.toml"
    policy.write_text(write_policy(POLICY))
    done = run("policy", "check", str(source), str(policy))
    assert done.stdout.startswith("For the data owner only: these are exact numbers about the data.")
    report = json.loads(run("policy", "check", str(source), str(policy), "--json").stdout)
    assert list(report)[:2] == ["owner_only", "warning"]
    script = "import sys, discreet; discreet.connect; assert 'discreet.session.policy_check' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    import discreet

    assert not [name for name in dir(discreet) if "check_policy" in name or "policy_check" in name]
