"""One value of every public kind: mechanisms, events, budgets, policies, queries, plans, findings, errors."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet import (
    Binomial,
    Bounds,
    Count,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Histogram,
    Laplace,
    Mean,
    Neighbours,
    OptimalPartitionSelection,
    Proportion,
    RandomizedResponse,
    RunningTotal,
    SelectionRule,
    Sensitivity,
    SparseVector,
    Sum,
    SyntheticTable,
    Threshold,
    TruncatedGeometric,
    WantedTable,
    Workload,
    WorkloadQuery,
    audit,
    col,
    count,
    select,
    when,
)
from discreet.accounting import currencies
from discreet.accounting.textbook import Point
from discreet.auditor import Mu, Pair, RenyiPoint, Rho
from discreet.errors import BadEventEncoding, BudgetExceeded, QueryRefused
from discreet.planner import Training, plan
from discreet.query.parser import parse_sql
from discreet.query.policy import read_policy
from tests.support.example_events import ZOO
from tests.support.policies import make_policy

PEOPLE = Path(__file__).parents[2] / "examples" / "people.csv"
POLICY = make_policy(keys=("sales", "legal"), upper=200)
QUERY = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean FROM people WHERE pay > 10 GROUP BY dept"


def is_grown_up(age: int) -> int:
    """A predicate that can be pickled, which a lambda cannot."""
    return int(age >= 18)


def list_public_values() -> Iterator[tuple[str, Any]]:
    """Every value with a name."""
    mechanisms = (
        Laplace(2), Gaussian(2), DiscreteGaussian(2), TruncatedGeometric(2, 0, 9), Binomial(10), Exponential(2),
        RandomizedResponse(Fraction(3, 4)), RandomizedResponse(Fraction(3, 4), 2, is_grown_up), Threshold(2, 15),
        OptimalPartitionSelection(1, Fraction(1, 9)), SparseVector(7, 2, 4),
        Exponential(2, SelectionRule.PERMUTE_AND_FLIP),
    )  # fmt: skip
    for mechanism in mechanisms:
        yield repr(mechanism), mechanism
    for name, event in ZOO.items():
        yield f"event {name}", event
    table = read_policy(POLICY)
    people = discreet.connect(PEOPLE, policy=table, epsilon=4)
    quote, answer = people.quote(QUERY, epsilon=1, size=100), people.ask(QUERY, epsilon=1)
    study = plan(Mean(0, 100), error=2, n=1000)
    yield from {
        "sensitivity": Sensitivity(l0=4, linf=1),
        "relation": Neighbours.REPLACE,
        "bounds": Bounds(0.25, 0.5),
        "point": Point(Fraction(1), Fraction(1, 9)),
        "running total": RunningTotal.for_delta(Fraction(1, 9)).append(Laplace(2).event(1)),
        "filter": currencies.zcdp_filter(1, Fraction(1, 9)).charge(Gaussian(9).event(1)),
        "currency": currencies.parse_currency("rdp(32)"),
        "policy": table,
        "column": table.columns["pay"],
        "query from SQL": parse_sql(QUERY, table),
        "query": select(n=count(), mean=col("pay").mean()).where(col("pay") > 10).group_by("dept"),
        "value": when(col("pay") > 10).then(1).otherwise(0),
        "bounded query": people.outline(QUERY),
        "measurement": people.calibrate(QUERY, epsilon=1),
        "quote": quote,
        "answer": answer,
        "post-processed answer": answer.consistent(),
        "cost": answer.cost,
        "budget": people.budget,
        "plan": study,
        "row of a plan": study.winner,
        "training": (Training(sigma=2, rate="1/10", epochs=3), Training(batch=3, n=10)),
        "plan of training": plan(Training(sigma=2, rate="1/10", steps=3), delta=1e-5),
        "tasks": (Count(), Histogram(4), Mean(0, 1), Proportion(), Sum(0, 1)),
        "claims": (Pair([1], [1, 2]), Mu(1), Rho(1), RenyiPoint(2, 1)),
        "synthetic table": SyntheticTable(np.array([[0, 1], [1, 0]]), ("a", "b"), (("x", "y"), (1, 2))),
        "workload": Workload(source=PEOPLE, policy=table, questions=(WorkloadQuery(name="a", sql=QUERY),), epsilon=1),
        "wanted table": WantedTable(("dept",), weight=2),
        "finding": audit(lambda xs: Laplace(1).release(len(xs)), 1, samples=2000),
        "error with fields": QueryRefused("no", "do this", 1, 2),
        "budget exceeded": BudgetExceeded("ε", cost=Fraction(2), remaining=Fraction(1)),
        "plain error": BadEventEncoding("no", "do this"),
    }.items()
