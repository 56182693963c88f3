"""The invented census table is the file in examples/, has plausible columns, and the relative error is a percentage."""

from pathlib import Path

import pytest

from discreet import connect
from discreet.errors import BadParameter
from discreet.lab import make_census, pct_error, write_census
from discreet.lab.census import COLUMNS

CENSUS = Path(__file__).parents[2] / "examples" / "census.csv"


def test_the_file_is_the_table(tmp_path: Path) -> None:
    """`python examples/census.py` writes it anew."""
    write_census(tmp_path / "census.csv")
    assert (tmp_path / "census.csv").read_bytes() == CENSUS.read_bytes()
    assert CENSUS.stat().st_size < 200_000


def test_the_table_is_plausible() -> None:
    people = make_census()
    assert all(tuple(person) == COLUMNS for person in people)
    assert [person["id"] for person in people] == list(range(2000))
    assert all(17 <= person["age"] <= 75 and 20 <= person["hours_per_week"] < 60 for person in people)
    assert {person["income"] for person in people} == {"<=50K", ">50K"}
    richer = {years: [p["income"] == ">50K" for p in people if p["education_num"] == years] for years in (9, 13)}
    assert sum(richer[13]) / len(richer[13]) > sum(richer[9]) / len(richer[9]), "education pays"
    assert make_census(3) == people[:3]


def test_questions_about_it_are_answered() -> None:
    session = connect(CENSUS, unit="id", unique=True, epsilon=10**6)
    asked = session.ask("SELECT COUNT(*) AS n FROM census WHERE age > 40", epsilon=10**6).to_dicts()[0]["n"]["value"]
    assert asked == sum(person["age"] > 40 for person in make_census())


def test_pct_error() -> None:
    assert pct_error(200, 190) == pct_error(200, 210) == 5
    assert pct_error(-200, -190) == 5
    with pytest.raises(BadParameter, match="exact"):
        pct_error(0, 1)
