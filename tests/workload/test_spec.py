"""A workload and its plan.toml: errors name their key, and no password is published."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter, PlanRefused, SourceRefused
from discreet.workload import WorkloadQuery, plan_workload, read_workload
from discreet.workload.planning import read_plan
from discreet.workload.spec import parse_workload
from tests.support.workloads import HEADS, TOML, make_workload, write_plan


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("error = 20", "eror = 20", r"questions\.heads\.eror"),
        ("error = 20", 'error = "twenty"', r"questions\.heads\.error"),
        ("epsilon = 1.5", "", r"budget\.epsilon is missing"),
        ("epsilon = 1.5", 'epsilon = "much"', r"budget\.epsilon"),
        ('source = "people.parquet"', "", "source is missing"),
        ('source = "people.parquet"', "source = 3", "source is 3"),
        ('source = "people.parquet"', 'source = "nobody.parquet"', "source"),
        ("[bounds]", "[bonds]", "bonds"),
        ("[questions.pay]\nsql", "[questions.pay]\nsquel", r"questions\.pay\.squel"),
        ('unit = "id"', 'unit = "ego"', "ego"),
        ("unique = true", "unique = 1", "unique"),
        ("weight = 0.5", "weight = -1", r"questions\.ages\.weight"),
        ("[keys]", "keys = 3\n[nokeys]", "keys"),
        ("[bounds]", "[bounds", "TOML"),
    ],
)
def test_an_error_in_the_file_names_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises((BadParameter, SourceRefused), match=message):
        plan_workload(read_workload(write_plan(tmp_path, TOML.replace(old, new))))


MANY = """
sorce = "people.parquet"
unit = 3
confidence = 2
[budget]
epsilon = -1
curency = "zcdp"
[questions.heads]
sql = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
error = "much"
weight = 0
[questions.pay]
sqll = "SELECT 1"
[questions."a/b"]
sql = "SELECT COUNT(*) AS n FROM people"
"""
KEYS = ("sorce", "unit", "confidence", "budget.epsilon", "budget.curency", "questions.heads.error", "questions.heads.weight",
        "questions.pay.sqll", "name is 'a/b'")  # fmt: skip


def test_all_problems_of_a_file_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(PlanRefused) as refused:
        read_workload(write_plan(tmp_path, MANY))
    lines = str(refused.value).split("\n")
    assert lines[0] == f"The plan has {len(KEYS)} problems:"
    assert all(sum(line.startswith(f"  {key}") for line in lines) == 1 for key in KEYS), lines
    assert len(refused.value.problems) == len(KEYS)


def test_problems_of_the_account_the_source_and_the_queries_are_listed_together(tmp_path: Path) -> None:
    text = (
        TOML.replace("error = 20", "error = 20\nsise = 5")
        .replace("AVG(pay)", "AVG(pays)")
        .replace("STDDEV(age) AS d", "FROB(age) AS d")
    )
    plan = write_plan(tmp_path, text, 'ledger = "hr.ledger"\naccount = "hr"')
    with pytest.raises(PlanRefused) as refused:
        read_plan(plan)
    problems = [str(problem) for problem in refused.value.problems]
    words = ("questions.heads.sise", "hr.ledger", "questions.pay.sql", "questions.ages.sql")
    assert [word in problem for problem, word in zip(problems, words, strict=True)] == [True] * 4
    with pytest.raises(PlanRefused) as later:  # a ledger that does not exist yet is no problem of a dry run
        read_plan(plan, assume_account=True)
    assert [str(problem) for problem in later.value.problems] == [problems[0], *problems[2:]]
    nowhere = write_plan(tmp_path, text.replace("people.parquet", "nobody.parquet"), 'ledger = "hr.ledger"')
    with pytest.raises(PlanRefused, match=r"(?s)sise.*hr\.ledger.*source: "):
        read_plan(nowhere)


def test_one_problem_is_raised_as_itself(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"^questions\.heads\.eror is given"):
        read_plan(write_plan(tmp_path, TOML.replace("error = 20", "eror = 20")))


def test_a_missing_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match="cannot be read"):
        read_workload(tmp_path / "plan.toml")


@pytest.mark.parametrize("weight", [1e300, 1e-300, Fraction(10) ** 340, 10**9 + 1])
def test_extreme_weights_are_refused(weight: Any) -> None:
    with pytest.raises(BadParameter, match=r"questions\.q\.weight is"):
        WorkloadQuery(name="q", sql="SELECT COUNT(*) AS n FROM people", weight=weight)


SECRETS = (
    "postgresql://me:secret@host/db", "postgresql://host/db?user=me&password=secret", "postgresql://host/db?PassWord=secret",
    "postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslkey=a&sslpassword=secret", "host=h password=secret",
)  # fmt: skip


@pytest.mark.parametrize("address", SECRETS)
@pytest.mark.parametrize("where", ["source", "budget.ledger", "public.cities"])
def test_an_address_with_a_password_is_refused(where: str, address: str) -> None:
    given = {"public": {"cities": address}} if where.startswith("public") else {where.removeprefix("budget."): address}
    with pytest.raises(BadParameter, match=rf"^{where} is an address with a password") as refused:
        make_workload(HEADS, **given)
    assert "secret" not in str(refused.value)


def test_a_public_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,land\na,x\n", encoding="utf-8")
    public = {"cities": str(tmp_path / "cities.csv"), "rivers": str(tmp_path / "rivers.csv")}
    with pytest.raises(SourceRefused, match=r"^public\.rivers: "):
        make_workload(HEADS, public=public).open_session()
    with pytest.raises(SourceRefused, match=r"^source: "):
        make_workload(HEADS, source=str(tmp_path / "nobody.csv"), public={"cities": public["cities"]}).open_session()


@pytest.mark.parametrize(("written", "unit"), [('"row"', "row"), ('["id", "dept"]', ["id", "dept"]), ('"id"', "id")])
def test_a_unit_is_a_column_several_or_a_row(written: str, unit: object) -> None:
    text = f'source = "people.csv"\nunit = {written}\n[budget]\nepsilon = 1\n[questions.n]\nsql = "SELECT 1"\nerror = 5'
    assert parse_workload(text, Path()).unit == unit


@pytest.mark.parametrize("written", ["5", "[]", '""', "true"])
def test_another_unit_is_refused(written: str) -> None:
    text = f'source = "people.csv"\nunit = {written}\n[budget]\nepsilon = 1\n[questions.n]\nsql = "SELECT 1"\nerror = 5'
    with pytest.raises(BadParameter, match="neither a text nor a list of texts"):
        parse_workload(text, Path())
