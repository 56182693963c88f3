"""The costs of a plan: within the budget, every error target met, and no cheaper plan among those that are tried."""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.accounting.currencies import Pure, parse_currency
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.pure import pure
from discreet.errors import BadParameter, LedgerUnavailable, QueryRefused
from discreet.ledger import open_ledger
from discreet.mechanisms import Gaussian, Laplace
from discreet.query.schema import Column, Kind, Table
from discreet.testing import seeded_bits
from discreet.workload import WorkloadPlan, WorkloadQuery, plan_workload, publish
from discreet.workload.planning import describe_shortfall, find_noise, open_plan, price_targets, read_plan
from tests.support.workloads import AGES, HEADS, PAY, QUERIES, make_workload, write_plan

ACCOUNTS: list[dict[str, Any]] = [
    {}, {"delta": Fraction(1, 10**6)}, *({"delta": Fraction(1, 10**6), "currency": c} for c in ("zcdp", "gdp", "rdp(16)")),
]  # fmt: skip


def is_within_budget(plan: WorkloadPlan) -> bool:
    """Whether the certified ε of the whole plan, computed again, is at most the budget."""
    delta = Fraction(plan.workload.delta)
    total = certified(plan.event, delta).upper if delta else pure(plan.event)
    return total <= Fraction(plan.workload.epsilon)


def meets_errors(plan: WorkloadPlan) -> bool:
    """Whether the predicted error of every column with an error target is within it."""
    for column in plan.columns:
        if column.target is not None and not column.target.make_accuracy_check(column.bounded)(
            plan.measurements[column.query_index]
        ):
            return False
    return True


def with_more_noise(plan: WorkloadPlan, factor: float) -> WorkloadPlan:
    return replace(plan, noises=tuple(part.divide_noise(1 / factor) for part in plan.noises))


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_a_plan_is_within_its_budget_and_meets_its_errors(account: dict[str, Any]) -> None:
    plan = plan_workload(make_workload(**account))
    assert plan.fits
    assert is_within_budget(plan)
    assert meets_errors(plan)
    assert not is_within_budget(plan.scale_to_budget(plan.charge * 3))  # the mutants
    assert not meets_errors(with_more_noise(plan, 1.2))
    assert plan.charge >= plan.terms.limit * Fraction(999, 1000)  # columns without an error target get all that remains


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_error_targets_alone_cost_as_little_as_they_can(account: dict[str, Any]) -> None:
    plan = plan_workload(make_workload(HEADS, PAY, epsilon=50, **account))
    assert meets_errors(plan)
    assert not any(
        meets_errors(with_more_noise(replace(plan, noises=_with_more_noise_in(plan, i)), 1)) for i in range(len(plan.noises))
    )
    assert plan.charge < plan.terms.limit / 5


def _with_more_noise_in(plan: WorkloadPlan, i: int) -> tuple[Any, ...]:
    return tuple(part.divide_noise(1 / 1.1) if i == j else part for j, part in enumerate(plan.noises))


def test_the_error_target_is_met_with_its_confidence() -> None:
    """6 standard errors of a binomial: a false positive has probability below 1e-8, and the bits are fixed."""
    plan, trials = plan_workload(make_workload(HEADS, delta=Fraction(1, 10**6))), 20_000
    [(_, noise)] = plan.measurements[0].noises

    def is_met(noise_drawn: Any) -> bool:
        return float((np.abs(noise_drawn) <= 20).mean()) >= 0.95 - 6 * (0.95 * 0.05 / trials) ** 0.5

    assert is_met(noise.release(np.zeros(trials, np.int64), seeded_bits(1)))
    assert not is_met(2 * noise.release(np.zeros(trials, np.int64), seeded_bits(1)))


def test_the_remaining_budget_is_divided_by_weight() -> None:
    one = WorkloadQuery(name="one", sql="SELECT COUNT(*) AS n FROM people", weight=3)
    two = WorkloadQuery(name="two", sql="SELECT COUNT(*) AS n FROM people WHERE age > 30")
    first, second = (each.noises[0][1] for each in plan_workload(make_workload(one, two, epsilon=2)).measurements)
    assert isinstance(first, Laplace)
    assert isinstance(second, Laplace)
    assert second.scale / first.scale == pytest.approx(3)
    assert 1 / first.scale == pytest.approx(Fraction(3, 2), rel=1e-3)


def test_few_counts_are_laplace_and_many_gaussian() -> None:
    def noises(number: int) -> set[type]:
        queries = (
            WorkloadQuery(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", error=60)
            for i in range(number)
        )
        plan = plan_workload(make_workload(*queries, delta=Fraction(1, 10**6), epsilon=20))
        assert plan.charge <= min(certified(with_more_noise(plan, 1).event, Fraction(1, 10**6)).upper, 20)
        return {type(noise) for each in plan.measurements for _, noise in each.noises}

    assert noises(1) == {Laplace}
    assert noises(60) == {Gaussian}


def test_a_statistic_that_two_columns_need_is_charged_once() -> None:
    both = WorkloadQuery(name="both", sql="SELECT AVG(pay) AS m, VARIANCE(pay) AS v FROM people")
    plan = plan_workload(make_workload(both, epsilon=1))
    assert len(plan.measurements[0].noises) == 3
    assert is_within_budget(plan)


def test_undeclared_keys_are_selected_within_the_budget() -> None:
    for account in ACCOUNTS[1:4]:
        plan = plan_workload(make_workload(replace(HEADS, size=100), AGES, keys=None, **account))
        assert plan.measurements[0].selection is not None
        assert is_within_budget(plan)
        assert meets_errors(plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q: replace(q, sql="SELECT nothing FROM people"), r"questions\.heads\.sql"),
        (lambda q: replace(q, error="5%", size=None), r"questions\.heads\.error.*size"),
        (lambda q: replace(q, error="much"), r"questions\.heads\.error"),
        (lambda q: replace(q, error={"x": 5}), r"questions\.heads\.error\.x"),
        (lambda q: replace(q, error=-1), r"questions\.heads\.error"),
        (lambda q: replace(q, size=(1, 2)), r"questions\.heads\.size.*3 groups"),
        (lambda q: replace(q, size=0), r"questions\.heads\.size"),
        (lambda q: replace(q, weight=0), r"questions\.heads\.weight"),
        (lambda q: replace(q, name="../heads"), "name"),
        (lambda q: replace(q, error=Fraction(1, 10**9), sql="SELECT SUM(pay) AS s FROM people", size=None), "this small"),
    ],
)
def test_an_error_names_its_key(change: Callable[[WorkloadQuery], WorkloadQuery], message: str) -> None:
    with pytest.raises((BadParameter, QueryRefused), match=message):
        plan_workload(make_workload(change(HEADS)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bounds": {"pay": "auto"}}, "bounds"),
        ({"epsilon": 0}, r"budget\.epsilon"),
        ({"delta": 2}, r"budget\.delta"),
        ({"currency": "gold"}, r"budget\.currency"),
        ({"currency": "zcdp"}, r"budget\.delta"),
        ({"account": "hr"}, r"budget\.ledger"),
        ({"source": "postgresql://me:secret@host/db"}, "PGPASSWORD"),
        ({"confidence": 2}, "confidence"),
        ({"epsilon": Fraction(1, 100)}, r"nothing remains for questions\.ages, questions\.middle"),
    ],
)
def test_an_impossible_plan_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises((BadParameter, QueryRefused), match=message):
        plan_workload(make_workload(*QUERIES, **more))
    with pytest.raises(BadParameter, match="questions"):
        make_workload(HEADS, HEADS)


GENEROUS = Table("people", "id", {"id": Column(Kind.INTEGER)}, unique=True, least_epsilon=Fraction(1, 10**301))
TINY: dict[str, Any] = {"epsilon": Fraction(1, 10**300), "policy": GENEROUS, "bounds": {}, "keys": {}}


@pytest.mark.parametrize(
    ("more", "message", "absent"),
    [
        ({"epsilon": Fraction(10) ** 300}, "narrower than 2\\^-60 grid steps.*Lower budget", "target errors"),
        (TINY, "too small for any answer to questions.all", "target errors"),
        ({"epsilon": Fraction(10) ** 300, "delta": Fraction(1, 10**6)}, "narrower", "target errors"),
    ],
)
def test_a_budget_that_buys_nothing_is_refused_for_the_true_reason(more: dict[str, Any], message: str, absent: str) -> None:
    with pytest.raises(QueryRefused, match=message) as refused:
        plan_workload(make_workload(WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people"), **more))
    assert absent not in str(refused.value)


def test_a_large_and_a_small_weight_are_planned_or_refused_by_name() -> None:
    def plan(power: int) -> WorkloadPlan:
        heavy, light = (
            WorkloadQuery(name=name, sql="SELECT COUNT(*) AS n FROM people", weight=Fraction(10) ** weight)
            for name, weight in (("heavy", power), ("light", -power))
        )
        return plan_workload(make_workload(heavy, light, epsilon=1))

    assert is_within_budget(plan(4))
    with pytest.raises(QueryRefused, match=r"wider than .*\(questions\.light\)\. Raise its weight"):
        plan(9)


@pytest.mark.parametrize("currency", ["zcdp", "gdp", "rdp(16)"])
def test_a_delta_is_refused_where_the_account_has_its_own(tmp_path: Path, currency: str) -> None:
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6, parse_currency(currency))
    given = {"ledger": tmp_path / "hr.ledger", "account": "hr", "epsilon": 1}
    with pytest.raises(BadParameter, match=r"budget\.delta .* has its own"):
        plan_workload(make_workload(HEADS, delta=Fraction(1, 10**7), **given))
    assert plan_workload(make_workload(HEADS, **given)).terms.delta == Fraction(1, 10**6)


@pytest.mark.parametrize("account", [{"delta": Fraction(1, 10**6)}, {}, {"delta": Fraction(1, 10**6), "currency": "zcdp"}])
def test_the_cost_of_each_target_is_that_of_a_plan_with_nothing_else(account: dict[str, Any]) -> None:
    wanted = [HEADS, replace(HEADS, name="few", error=40)]
    prices = price_targets(open_plan(make_workload(*wanted, AGES, epsilon=9, **account)))
    assert [None if each.column is None else each.column.query.name for each in prices] == ["heads", "few", None]
    for query, price in zip(wanted, prices, strict=False):
        alone = plan_workload(make_workload(query, epsilon=9, **account))
        assert abs(float(price.charge / alone.charge) - 1) < 1e-3
    together = plan_workload(make_workload(*wanted, epsilon=9, **account))
    assert abs(float(prices[-1].charge / together.charge) - 1) < 1e-3
    assert prices[0].charge > prices[1].charge
    assert price_targets(open_plan(make_workload(AGES, **account))) == ()


def test_what_is_missing_is_said_and_is_enough() -> None:
    """With the ε that is missing added to the budget the plan fits; with a little less it does not."""
    accounts: list[dict[str, Any]] = ACCOUNTS[:3]
    for account in accounts:
        opened = open_plan(make_workload(HEADS, epsilon=Fraction(1, 20), **account))
        words = describe_shortfall(opened)
        missing = Fraction(re.findall(r"ε = ([\d.]+)(?: \(ρ = [\d.]+\))? is missing", words)[0])
        assert plan_workload(make_workload(HEADS, epsilon=Fraction(1, 20) + missing, **account)).fits
        assert not plan_workload(make_workload(HEADS, epsilon=Fraction(1, 20) + missing * Fraction(98, 100), **account)).fits


def test_a_ledger_that_does_not_exist_yet_is_assumed_and_never_charged(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, budget='ledger = "hr.ledger"\naccount = "hr"')
    assumed = find_noise(read_plan(plan, assume_account=True))
    assert assumed.fits
    flags = "--account hr --epsilon 1.5 --delta 1e-6 --currency pure"
    assert f"discreet ledger open {tmp_path}/hr.ledger {flags}" in assumed.notes[-1]
    with pytest.raises(BadParameter, match="its account is not open yet"):
        publish(assumed, tmp_path / "out")
    assert not (tmp_path / "hr.ledger").exists()
    with pytest.raises(LedgerUnavailable):
        read_plan(plan)
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("other", 1, Fraction(1, 10**6))
        assert read_plan(plan, assume_account=True).assumed  # the ledger does not have this account yet
        ledger.open_account("hr", Fraction(3, 2), Fraction(1, 10**6), Pure())
    real = find_noise(read_plan(plan, assume_account=True))
    assert not real.assumed
    assert real.measurements == assumed.measurements  # what was assumed is what is charged
    assert real.charge == assumed.charge


def test_a_plan_says_which_queries_measure_the_same() -> None:
    whole = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    same = [WorkloadQuery(name="all", sql=whole), WorkloadQuery(name="top", sql=f"{whole} ORDER BY n DESC LIMIT 1")]
    other = WorkloadQuery(name="young", sql=whole.replace("GROUP", "WHERE age < 30 GROUP"))
    [said] = plan_workload(make_workload(*same, other)).notes
    assert "The queries all, top measure the same, and each is charged" in said
    assert plan_workload(make_workload(same[1], other)).notes == ()
