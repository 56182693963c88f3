"""The prices of a plan: within the budget, every wanted error met, and no cheaper way among the plans that are tried."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.accounting.currencies import parse_currency
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.pure import pure
from discreet.errors import BadParameter, QueryRefused, SourceRefused
from discreet.ledger import open_ledger
from discreet.mechanisms import Gaussian, Laplace
from discreet.query.schema import Column, Kind, Table
from discreet.testing import seeded_bits
from discreet.workload import WorkloadPlan, WorkloadQuery, plan_workload
from discreet.workload.forecast import forecast_budgets
from tests.publisher.plans import AGES, HEADS, PAY, QUESTIONS, workload
from tests.support.people import COUNTS

ACCOUNTS: list[dict[str, Any]] = [
    {}, {"delta": Fraction(1, 10**6)}, *({"delta": Fraction(1, 10**6), "currency": c} for c in ("zcdp", "gdp", "rdp(16)")),
]  # fmt: skip


def within_budget(plan: WorkloadPlan) -> bool:
    """The whole plan's certified ε, read anew, is at most the budget's."""
    delta = Fraction(plan.workload.delta)
    total = certified(plan.event, delta).upper if delta else pure(plan.event)
    return total <= Fraction(plan.workload.epsilon)


def errors_met(plan: WorkloadPlan) -> bool:
    """Every column with a wanted error is promised at most that."""
    for piece in plan.columns:
        if piece.target is not None and not piece.target.make_accuracy_check(piece.bounded)(
            plan.measurements[piece.query_index]
        ):
            return False
    return True


def louder(plan: WorkloadPlan, factor: float) -> WorkloadPlan:
    return replace(plan, noises=tuple(part.divide_noise(1 / factor) for part in plan.noises))


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_a_plan_is_within_its_budget_and_meets_its_errors(account: dict[str, Any]) -> None:
    plan = plan_workload(workload(**account))
    assert plan.fits
    assert within_budget(plan)
    assert errors_met(plan)
    assert not within_budget(plan.scale_to_budget(plan.charge * 3))  # the wrong twins
    assert not errors_met(louder(plan, 1.2))
    assert plan.charge >= plan.terms.limit * Fraction(999, 1000)  # what has no wanted error gets all that is left


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_wanted_errors_alone_cost_as_little_as_they_can(account: dict[str, Any]) -> None:
    plan = plan_workload(workload(HEADS, PAY, epsilon=50, **account))
    assert errors_met(plan)
    assert not any(errors_met(louder(replace(plan, noises=_one_louder(plan, i)), 1)) for i in range(len(plan.noises)))
    assert plan.charge < plan.terms.limit / 5


def _one_louder(plan: WorkloadPlan, i: int) -> tuple[Any, ...]:
    return tuple(part.divide_noise(1 / 1.1) if i == j else part for j, part in enumerate(plan.noises))


def test_the_wanted_error_is_kept_as_often_as_it_says() -> None:
    """6 standard errors of a binomial: a false alarm has probability below 1e-8, and the bits are fixed."""
    plan, trials = plan_workload(workload(HEADS, delta=Fraction(1, 10**6))), 20_000
    [(_, noise)] = plan.measurements[0].noises

    def kept(released: Any) -> bool:
        return float((np.abs(released) <= 20).mean()) >= 0.95 - 6 * (0.95 * 0.05 / trials) ** 0.5

    assert kept(noise.release(np.zeros(trials, np.int64), seeded_bits(1)))
    assert not kept(2 * noise.release(np.zeros(trials, np.int64), seeded_bits(1)))


def test_the_rest_is_shared_by_weight() -> None:
    one = WorkloadQuery(name="one", sql="SELECT COUNT(*) AS n FROM people", weight=3)
    two = WorkloadQuery(name="two", sql="SELECT COUNT(*) AS n FROM people WHERE age > 30")
    first, second = (each.noises[0][1] for each in plan_workload(workload(one, two, epsilon=2)).measurements)
    assert isinstance(first, Laplace)
    assert isinstance(second, Laplace)
    assert second.scale / first.scale == pytest.approx(3)
    assert 1 / first.scale == pytest.approx(Fraction(3, 2), rel=1e-3)


def test_few_counts_are_laplace_and_many_gaussian() -> None:
    def noises(number: int) -> set[type]:
        asked = (
            WorkloadQuery(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", error=60)
            for i in range(number)
        )
        plan = plan_workload(workload(*asked, delta=Fraction(1, 10**6), epsilon=20))
        assert plan.charge <= min(certified(louder(plan, 1).event, Fraction(1, 10**6)).upper, 20)
        return {type(noise) for each in plan.measurements for _, noise in each.noises}

    assert noises(1) == {Laplace}
    assert noises(60) == {Gaussian}


def test_a_total_that_two_columns_need_is_paid_for_once() -> None:
    both = WorkloadQuery(name="both", sql="SELECT AVG(pay) AS m, VARIANCE(pay) AS v FROM people")
    plan = plan_workload(workload(both, epsilon=1))
    assert len(plan.measurements[0].noises) == 3
    assert within_budget(plan)


def test_unknown_keys_are_selected_within_the_budget() -> None:
    for account in ACCOUNTS[1:4]:
        plan = plan_workload(workload(replace(HEADS, size=100), AGES, keys=None, **account))
        assert plan.measurements[0].selection is not None
        assert within_budget(plan)
        assert errors_met(plan)


def test_three_budgets_say_what_each_buys() -> None:
    plan = plan_workload(workload(delta=Fraction(1, 10**6)))
    half, same, double = forecast_budgets(plan)
    assert [float(each.share) for each in (half, same, double)] == [0.5, 1, 2]
    assert half.epsilon == pytest.approx(same.epsilon / 2, rel=1e-3)
    for low, middle, high in zip(half.columns, same.columns, double.columns, strict=True):
        assert low.half_width >= middle.half_width >= high.half_width
        assert (low.reliable or 0) <= (middle.reliable or 0) <= (high.reliable or 0) <= (high.cells or 0)
    heads = same.columns[0]
    measured = plan.measurements[0].predict("n", 0.95, (1,)).half_widths[0][1]
    assert heads.half_width == measured == 20
    assert heads.reliable == sum(measured <= size / 10 for size in COUNTS.values()) == 2


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_what_is_wrong_is_told_by_its_key(change: Callable[[WorkloadQuery], WorkloadQuery], said: str) -> None:
    with pytest.raises((BadParameter, QueryRefused), match=said):
        plan_workload(workload(change(HEADS)))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bounds": {"pay": "auto"}}, "bounds"),
        ({"epsilon": 0}, r"budget\.epsilon"),
        ({"delta": 2}, r"budget\.delta"),
        ({"currency": "gold"}, r"budget\.currency"),
        ({"currency": "zcdp"}, r"budget\.delta"),
        ({"account": "hr"}, r"budget\.ledger"),
        ({"source": "postgresql://me:secret@host/db"}, "PGPASSWORD"),
        ({"confidence": 2}, "confidence"),
        ({"epsilon": Fraction(1, 100)}, r"nothing is left for questions\.ages, questions\.middle"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises((BadParameter, QueryRefused), match=said):
        plan_workload(workload(*QUESTIONS, **more))
    with pytest.raises(BadParameter, match="questions"):
        workload(HEADS, HEADS)


@pytest.mark.parametrize(
    ("sql", "tenth"),
    [
        ("SUM(pay)", lambda n: n * 100 / 10),
        ("AVG(pay)", lambda n: 100 / 10),
        ("VARIANCE(pay)", lambda n: 200**2 / 12 / 10),
        ("STDDEV(pay)", lambda n: (200**2 / 12) ** 0.5 / 10),
        ("COUNT(*)", lambda n: n / 10),
    ],
)
def test_a_cell_is_reliable_up_to_a_tenth_of_what_it_would_be(sql: str, tenth: Callable[[int], float]) -> None:
    """Values spread evenly over 0 to 200: a mean of 100, a variance of 200²/12; one size is enough, another is not."""
    sizes = [2, 3, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 10**6]
    asked = [
        WorkloadQuery(name=f"q{i}", sql=f"SELECT dept, {sql} AS x FROM people GROUP BY dept", size=tuple(sizes[i : i + 3]))
        for i in range(0, len(sizes) - 2, 3)
    ]
    found = 0
    for each in asked:
        plan = plan_workload(workload(each, epsilon=2))
        [line] = forecast_budgets(plan)[1].columns
        halves = {n: plan.measurements[0].predict("x", 0.95, (n,)).half_widths[0][1] for n in each.sizes}
        assert line.reliable == sum(half <= tenth(n) for n, half in halves.items())
        found += line.reliable or 0
    assert 0 < found < len(sizes)


def test_an_average_is_not_reliable_over_a_count_that_is_not() -> None:
    """Between 190 and 200 every average is within a tenth of every other; so the count of rows decides."""
    sizes = (5, 20, 10**6)
    for sql in ("AVG(pay)", "MEDIAN(pay)"):
        asked = WorkloadQuery(name="q", sql=f"SELECT dept, {sql} AS x FROM people GROUP BY dept", size=sizes)
        plan = plan_workload(workload(asked, epsilon=2, bounds={"pay": (190, 200)}))
        off = plan.bounded_queries[0].query.aggregates[0][1].row_count_error(plan.measurements[0].statistic_noise(0.95))
        assert off is not None
        [line] = forecast_budgets(plan)[1].columns
        assert line.reliable == sum(n >= 10 * off for n in sizes) < len(sizes)


GENEROUS = Table("people", "id", {"id": Column(Kind.INTEGER)}, unique=True, least_epsilon=Fraction(1, 10**301))
TINY: dict[str, Any] = {"epsilon": Fraction(1, 10**300), "policy": GENEROUS, "bounds": {}, "keys": {}}


@pytest.mark.parametrize(
    ("more", "said", "not_said"),
    [
        ({"epsilon": Fraction(10) ** 300}, "narrower than 2\\^-60 grid steps.*Lower budget", "wanted errors"),
        (TINY, "too small for any answer to questions.all", "wanted errors"),
        ({"epsilon": Fraction(10) ** 300, "delta": Fraction(1, 10**6)}, "narrower", "wanted errors"),
    ],
)
def test_a_budget_that_buys_nothing_is_refused_for_the_true_reason(more: dict[str, Any], said: str, not_said: str) -> None:
    with pytest.raises(QueryRefused, match=said) as refused:
        plan_workload(workload(WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people"), **more))
    assert not_said not in str(refused.value)


@pytest.mark.parametrize("weight", [1e300, 1e-300, Fraction(10) ** 340, 10**9 + 1])
def test_weights_beyond_all_measure_are_refused(weight: Any) -> None:
    with pytest.raises(BadParameter, match=r"questions\.q\.weight is"):
        WorkloadQuery(name="q", sql="SELECT COUNT(*) AS n FROM people", weight=weight)


def test_a_large_weight_beside_a_small_one_is_a_plan_or_refused_by_name() -> None:
    def plan(power: int) -> WorkloadPlan:
        heavy, light = (
            WorkloadQuery(name=name, sql="SELECT COUNT(*) AS n FROM people", weight=Fraction(10) ** weight)
            for name, weight in (("heavy", power), ("light", -power))
        )
        return plan_workload(workload(heavy, light, epsilon=1))

    assert within_budget(plan(4))
    with pytest.raises(QueryRefused, match=r"wider than .*\(questions\.light\)\. Raise its weight"):
        plan(9)


SECRETS = (
    "postgresql://me:secret@host/db", "postgresql://host/db?user=me&password=secret", "postgresql://host/db?PassWord=secret",
    "postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslkey=a&sslpassword=secret", "host=h password=secret",
)  # fmt: skip


@pytest.mark.parametrize("place", SECRETS)
@pytest.mark.parametrize("where", ["source", "budget.ledger", "public.cities"])
def test_a_password_is_published_nowhere(where: str, place: str) -> None:
    given = {"public": {"cities": place}} if where.startswith("public") else {where.removeprefix("budget."): place}
    with pytest.raises(BadParameter, match=rf"^{where} is an address with a password") as refused:
        workload(HEADS, **given)
    assert "secret" not in str(refused.value)


def test_a_public_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,land\na,x\n", encoding="utf-8")
    public = {"cities": str(tmp_path / "cities.csv"), "rivers": str(tmp_path / "rivers.csv")}
    with pytest.raises(SourceRefused, match=r"^public\.rivers: "):
        workload(HEADS, public=public).open_session()
    with pytest.raises(SourceRefused, match=r"^source: "):
        workload(HEADS, source=str(tmp_path / "nobody.csv"), public={"cities": public["cities"]}).open_session()


@pytest.mark.parametrize("currency", ["zcdp", "gdp", "rdp(16)"])
def test_a_delta_beside_an_account_that_has_its_own_is_refused(tmp_path: Path, currency: str) -> None:
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6, parse_currency(currency))
    given = {"ledger": tmp_path / "hr.ledger", "account": "hr", "epsilon": 1}
    with pytest.raises(BadParameter, match=r"budget\.delta .* has its own"):
        plan_workload(workload(HEADS, delta=Fraction(1, 10**7), **given))
    assert plan_workload(workload(HEADS, **given)).terms.delta == Fraction(1, 10**6)
