"""Workloads over the invented people that the tests share."""

from pathlib import Path
from typing import Any

from discreet.workload import Workload, WorkloadQuery
from tests.support.people import DEPARTMENTS, people

HEADS = WorkloadQuery(
    name="heads", sql="SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", error=20, size=(600, 300, 100)
)
PAY = WorkloadQuery(
    name="pay", sql="SELECT dept, AVG(pay) AS mean, SUM(pay) AS cost FROM people GROUP BY dept",
    error={"mean": "5%", "cost": 2000}, size=100,
)  # fmt: skip
AGES = WorkloadQuery(name="ages", sql="SELECT HISTOGRAM(age, 20, 40, 60, 80) AS h FROM people", size=1000, weight=2)
MIDDLE = WorkloadQuery(name="middle", sql="SELECT MEDIAN(pay) AS m, COUNT(*) AS n FROM people", error={"m": "5%"}, size=1000)
QUERIES = (HEADS, PAY, AGES, MIDDLE)
DECLARED: dict[str, Any] = {
    "unit": "id", "unique": True, "bounds": {"pay": (0, 200), "age": (0, 100)}, "keys": {"dept": DEPARTMENTS},
}  # fmt: skip

TOML = """
title = "People"
source = "people.parquet"
unit = "id"
unique = true
[bounds]
pay = [0, 200]
age = [0, 100]
[keys]
dept = ["a", "b", "c"]
[budget]
epsilon = 1.5
delta = 1e-6
{budget}
[questions.heads]
sql = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
error = 20
size = [600, 300, 100]
[questions.pay]
sql = "SELECT dept, AVG(pay) AS mean FROM people GROUP BY dept"
[questions.ages]
sql = "SELECT HISTOGRAM(age, 20, 40, 60, 80) AS h, STDDEV(age) AS d FROM people"
weight = 0.5
"""


def make_workload(*queries: WorkloadQuery, epsilon: Any = 4, **more: Any) -> Workload:
    """Make a workload of these queries about the people, in memory."""
    options = {"source": people(), "table": "people", **DECLARED, **more}
    return Workload(questions=queries or QUERIES, epsilon=epsilon, **options)


def write_plan(folder: Path, text: str = TOML, budget: str = "") -> Path:
    """Write a plan beside its data."""
    people().execute(f"COPY people TO '{folder}/people.parquet'")
    path = folder / "plan.toml"
    path.write_text(text.format(budget=budget), encoding="utf-8")
    return path
