"""`discreet quote`, run as a user runs it."""

import json

import pytest

from tests.support.console import run
from tests.support.people_csv import OPTIONS, SQL


def test_it_shows_the_cost_and_the_error(source: str) -> None:
    quoted = json.loads(run("quote", source, SQL, *OPTIONS, "--error", "5%", "--size", "100", "--json").stdout)
    assert {column["column"] for column in quoted["columns"]} == {"n", "mean"}
    assert quoted["columns"][0]["half_width"][0]["value"] <= 5
    shown = run("quote", source, SQL, "--unit", "id", "--bounds", "pay=0:200", "--epsilon", "1", "--delta", "1e-6").stdout
    assert quoted["costs"]["pure"]["epsilon"] == pytest.approx(quoted["cost"]["amount"])
    note = "max_groups and max_rows are not declared: each id counts in one group, with one row per group"
    for word in ("Gaussian(sigma=", "zCDP ρ = ", "10,000 rows", note, "Keys are not declared"):
        assert word in " ".join(shown.split())
