"""All that a query needs and that is not declared is listed at once, as one command, without a value of the data."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from discreet import BadParameter, QueryRefused, connect
from discreet.errors import MissingDeclarations
from discreet.query.builder import col, count, select
from tests.support.console import run

QUERY = "SELECT dept, AVG(pay) AS m, SUM(age) AS s, COUNT(*) AS n FROM people WHERE age > 30 GROUP BY dept"
SECRETS = ("Fnord", "4711", "8822", "17")  # a key, values and an id that stand in the file


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("id,dept,pay,age\n17,Fnord,4711.5,8822\n18,Fnord,4711.5,8822\n")
    return tmp_path / "people.csv"


ALL = {"unit": "id", "bounds": ("pay=0:200", "age=0:100"), "keys": ("dept=a,b",), "epsilon": "1"}


HOLDERS = {"unit": "COLUMN", "bounds": ("pay=LOW:HIGH", "age=LOW:HIGH"), "keys": ("dept=A,B",), "epsilon": "EPSILON"}
GIVEN = [(), ("unit",), ("epsilon",), ("unit", "epsilon"), ("bounds", "unit"), ("keys", "epsilon")]


def flags(given: dict[str, Any]) -> list[str]:
    return [
        part for name, values in given.items() for value in ([values] if isinstance(values, str) else values)
        for part in (f"--{name}", value)
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["ask", "quote"])
@pytest.mark.parametrize(
    "given", [(), ("unit",), ("epsilon",), ("unit", "epsilon"), ("bounds", "unit"), ("keys", "epsilon")]
)
def test_the_command_that_is_shown_needs_only_its_words_in_capitals(
    command: str, given: tuple[str, ...], people: Path
) -> None:
    """Whatever is missing: fill in the words, paste it, and it is answered."""
    typed = [command, str(people), QUERY, *flags({name: ALL[name] for name in given})]
    refused = run(*typed)
    assert refused.returncode == 2
    [shown] = [line for line in refused.stderr.splitlines() if line.startswith("  discreet ")]
    words = shlex.split(shown)
    assert words[: len(typed) + 1] == ["discreet", *typed]
    lacking = words[len(typed) + 1 :]
    assert lacking == flags({name: holders for name, holders in HOLDERS.items() if name not in given})
    for secret in SECRETS:
        assert secret not in refused.stderr.replace(str(people), "")
    values = {"COLUMN": "id", "pay=LOW:HIGH": "pay=0:200", "age=LOW:HIGH": "age=0:100", "EPSILON": "1"}
    answered = run(*(values.get(word, word) for word in words[1:]))
    assert answered.returncode == 0, answered.stderr


def test_delta_stands_in_for_keys(people: Path) -> None:
    refused = run("ask", str(people), QUERY, "--delta", "1e-6")
    assert "--keys" not in refused.stderr
    assert "--bounds pay=LOW:HIGH" in refused.stderr


def test_an_address_is_not_repeated() -> None:
    for source in ("postgresql://u:hunter2@localhost:1/x", "host=nowhere.invalid password=hunter2"):
        refused = run("ask", source, QUERY)
        assert refused.returncode in (2, 4)
        assert "hunter2" not in refused.stderr


def test_python_shows_a_call_of_connect(people: Path) -> None:
    with pytest.raises(MissingDeclarations) as missing:
        connect(people)
    assert missing.value.command == f'connect({str(people)!r}, unit="COLUMN", epsilon=EPSILON)'
    session = connect(people, unit="id", bounds={"age": (0, 100)}, epsilon=1)
    lacking = "bounds={'age': (0, 100), 'pay': (LOW, HIGH)}, keys={'dept': [A, B]}"
    for query in (QUERY, select(m=col("pay").mean(), n=count()).group_by("dept")):
        for asked in (session.ask, session.quote):
            with pytest.raises(MissingDeclarations) as missing:
                asked(query=query, epsilon=0.5)  # type: ignore[arg-type]
            assert missing.value.command == f"connect({str(people)!r}, unit='id', {lacking}, epsilon=EPSILON)"
            assert missing.value.missing == ("bounds", "keys")
            assert isinstance(missing.value, QueryRefused)
            assert isinstance(missing.value, BadParameter)
            assert not any(secret in str(missing.value).replace(str(people), "") for secret in SECRETS)
    assert session.account.budget.spent == 0


def test_other_refusals_stay_as_they_are(people: Path) -> None:
    session = connect(people, unit="id", bounds={"age": (0, 100)}, epsilon=1)
    with pytest.raises(QueryRefused, match="agee") as refused:
        session.ask("SELECT dept, SUM(agee) AS s FROM people GROUP BY dept", epsilon=0.5)
    assert not isinstance(refused.value, MissingDeclarations)


def test_the_years_of_a_date_are_listed_from_its_bounds(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,day\n1,2024-02-29\n2,2023-01-01\n")
    session = connect(tmp_path / "people.csv", unit="id", epsilon=1)
    with pytest.raises(MissingDeclarations) as missing:
        session.ask("SELECT YEAR(day) AS y, COUNT(*) AS n FROM people GROUP BY YEAR(day)", epsilon=0.5)
    assert missing.value.missing == ("bounds",)
    assert "bounds={'day': (LOW, HIGH)}" in missing.value.command
