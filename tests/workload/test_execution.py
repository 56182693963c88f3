"""Executing a plan: one debit before any row is read, and the answers of `ask` with the same noise."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.events import compose
from discreet.query.receipt import Receipt
from discreet.testing import seeded_bits
from discreet.workload import WorkloadPlan, WorkloadQuery, plan_workload
from discreet.workload.execution import execute_plan
from tests.support.people import session
from tests.support.workloads import make_workload


def test_each_answer_is_that_of_ask_with_the_same_noise_and_bits() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM people WHERE age > {} GROUP BY dept"
    counts = [WorkloadQuery(name=f"q{i}", sql=sql.format(20 + i), weight=i + 1) for i in range(3)]
    plan = plan_workload(make_workload(*counts, epsilon=2))
    answers = execute_plan(plan, bits=seeded_bits(7)).answers
    bits, one_by_one = seeded_bits(7), session(epsilon=3)
    epsilons = [1 / each.noises[0][1].scale for each in plan.measurements]  # type: ignore[union-attr]
    expected = [one_by_one.ask(each.sql, epsilon=at, bits=bits) for each, at in zip(counts, epsilons, strict=True)]
    assert [a.rows for a in answers] == [a.rows for a in expected]
    assert [a.event for a in answers] == [a.event for a in expected]
    assert [a.pipeline for a in answers] == [a.pipeline for a in expected]
    assert [a.rows for a in execute_plan(plan_workload(make_workload(*counts, epsilon=2)), bits=seeded_bits(8)).answers] != [
        a.rows for a in expected
    ]


def is_charged_before_run(events: list[str]) -> bool:
    return events[0] == "reserve" and events.count("reserve") == 1 and events[-1] == "record"


class Spy:
    """Records the calls of some methods."""

    def __init__(self, inside: Any, names: tuple[str, ...], events: list[str]) -> None:
        self.inside, self.names, self.events = inside, names, events

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            self.events.append(name)
        return getattr(self.inside, name)


def test_nothing_is_read_before_it_is_charged() -> None:
    plan, events = plan_workload(make_workload(delta=Fraction(1, 10**6))), list[str]()
    spied = replace(
        plan.session,
        engine=Spy(plan.session.engine, ("run", "read_totals", "read_histogram", "compile_totals", "compile_all"), events),  # type: ignore[arg-type]
        account=Spy(plan.session.account, ("reserve", "record"), events),  # type: ignore[arg-type]
    )
    execute_plan(replace(plan, session=spied), bits=seeded_bits(1))
    assert is_charged_before_run(events)
    assert events.count("run") == len(plan.measurements)
    assert not is_charged_before_run(["run", "reserve", "record"])  # the mutants
    assert not is_charged_before_run(["reserve", "run", "reserve", "run", "record"])


def test_a_receipt_of_a_plan_covers_its_queries_only() -> None:
    plan: WorkloadPlan = plan_workload(make_workload(delta=Fraction(1, 10**6)))
    events = [each.event for each in plan.measurements]
    assert [part.event for part in Receipt(1, compose(*events)).split(events)] == events
    with pytest.raises(AssertionError, match="another workload"):
        Receipt(1, compose(*events)).split([*events, events[0]])


def test_a_progress_callback_that_raises_is_not_called_again_and_loses_nothing() -> None:
    shares = []

    def fail(share: float) -> None:
        shares.append(share)
        raise ValueError("a fault of the caller's")

    plan = plan_workload(make_workload(delta=Fraction(1, 10**6)))
    answers = execute_plan(plan, progress=fail).answers
    assert len(answers) == len(plan.measurements) > 1
    assert shares == [1 / len(answers)]
