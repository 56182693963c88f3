"""The prices of a plan: within the budget, every wanted error met, and no cheaper way among the plans that are tried."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.pure import pure
from discreet.errors import BadParameter, QuestionRefused
from discreet.mechanisms import Gaussian, Laplace
from discreet.publisher import Asked, Solved, solve
from discreet.publisher.outlook import outlooks
from discreet.query.quote import promised
from discreet.testing import seeded
from tests.publisher.plans import AGES, HEADS, PAY, QUESTIONS, workload
from tests.query.people import COUNTS

ACCOUNTS: list[dict[str, Any]] = [
    {}, {"delta": Fraction(1, 10**6)}, *({"delta": Fraction(1, 10**6), "currency": c} for c in ("zcdp", "gdp", "rdp(16)")),
]  # fmt: skip


def within_budget(plan: Solved) -> bool:
    """The whole plan's certified ε, read anew, is at most the budget's."""
    delta = Fraction(plan.workload.delta)
    total = certified(plan.loss, delta).upper if delta else pure(plan.loss)
    return total <= Fraction(plan.workload.epsilon)


def errors_met(plan: Solved) -> bool:
    """Every column with a wanted error is promised at most that."""
    for piece in plan.pieces:
        if piece.wanted is not None and not piece.wanted.met(piece.alone)(plan.measurements[piece.question]):
            return False
    return True


def louder(plan: Solved, factor: float) -> Solved:
    return replace(plan, parts=tuple(part.times(1 / factor) for part in plan.parts))


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_a_plan_is_within_its_budget_and_meets_its_errors(account: dict[str, Any]) -> None:
    plan = solve(workload(**account))
    assert plan.fits
    assert within_budget(plan)
    assert errors_met(plan)
    assert not within_budget(plan.at_budget(plan.charge * 3))  # the wrong twins
    assert not errors_met(louder(plan, 1.2))
    assert plan.charge >= plan.terms.most * Fraction(999, 1000)  # what has no wanted error gets all that is left


@pytest.mark.parametrize("account", ACCOUNTS, ids=str)
def test_wanted_errors_alone_cost_as_little_as_they_can(account: dict[str, Any]) -> None:
    plan = solve(workload(HEADS, PAY, epsilon=50, **account))
    assert errors_met(plan)
    assert not any(errors_met(louder(replace(plan, parts=_one_louder(plan, i)), 1)) for i in range(len(plan.parts)))
    assert plan.charge < plan.terms.most / 5


def _one_louder(plan: Solved, i: int) -> tuple[Any, ...]:
    return tuple(part.times(1 / 1.1) if i == j else part for j, part in enumerate(plan.parts))


def test_the_wanted_error_is_kept_as_often_as_it_says() -> None:
    """6 standard errors of a binomial: a false alarm has probability below 1e-8, and the bits are fixed."""
    plan, trials = solve(workload(HEADS, delta=Fraction(1, 10**6))), 20_000
    [(_, noise)] = plan.measurements[0].noises

    def kept(released: Any) -> bool:
        return float((np.abs(released) <= 20).mean()) >= 0.95 - 6 * (0.95 * 0.05 / trials) ** 0.5

    assert kept(noise.release(np.zeros(trials, np.int64), seeded(1)))
    assert not kept(2 * noise.release(np.zeros(trials, np.int64), seeded(1)))


def test_the_rest_is_shared_by_weight() -> None:
    one = Asked(name="one", sql="SELECT COUNT(*) AS n FROM people", weight=3)
    two = Asked(name="two", sql="SELECT COUNT(*) AS n FROM people WHERE age > 30")
    first, second = (each.noises[0][1] for each in solve(workload(one, two, epsilon=2)).measurements)
    assert isinstance(first, Laplace)
    assert isinstance(second, Laplace)
    assert second.scale / first.scale == pytest.approx(3)
    assert 1 / first.scale == pytest.approx(Fraction(3, 2), rel=1e-3)


def test_few_counts_are_laplace_and_many_gaussian() -> None:
    def noises(number: int) -> set[type]:
        asked = (
            Asked(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", error=60) for i in range(number)
        )
        plan = solve(workload(*asked, delta=Fraction(1, 10**6), epsilon=20))
        assert plan.charge <= min(certified(louder(plan, 1).loss, Fraction(1, 10**6)).upper, 20)
        return {type(noise) for each in plan.measurements for _, noise in each.noises}

    assert noises(1) == {Laplace}
    assert noises(60) == {Gaussian}


def test_a_total_that_two_columns_need_is_paid_for_once() -> None:
    both = Asked(name="both", sql="SELECT AVG(pay) AS m, VARIANCE(pay) AS v FROM people")
    plan = solve(workload(both, epsilon=1))
    assert len(plan.measurements[0].noises) == 3
    assert within_budget(plan)


def test_unknown_keys_are_selected_within_the_budget() -> None:
    for account in ACCOUNTS[1:4]:
        plan = solve(workload(replace(HEADS, size=100), AGES, keys=None, **account))
        assert plan.measurements[0].selection is not None
        assert within_budget(plan)
        assert errors_met(plan)


def test_three_budgets_say_what_each_buys() -> None:
    plan = solve(workload(delta=Fraction(1, 10**6)))
    half, same, double = outlooks(plan)
    assert [float(each.share) for each in (half, same, double)] == [0.5, 1, 2]
    assert half.epsilon == pytest.approx(same.epsilon / 2, rel=1e-3)
    for low, middle, high in zip(half.lines, same.lines, double.lines, strict=True):
        assert low.half_width >= middle.half_width >= high.half_width
        assert (low.reliable or 0) <= (middle.reliable or 0) <= (high.reliable or 0) <= (high.cells or 0)
    heads = same.lines[0]
    measured = promised(plan.measurements[0], "n", 0.95, (1,)).half_widths[0][1]
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
def test_what_is_wrong_is_told_by_its_key(change: Callable[[Asked], Asked], said: str) -> None:
    with pytest.raises((BadParameter, QuestionRefused), match=said):
        solve(workload(change(HEADS)))


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
    with pytest.raises((BadParameter, QuestionRefused), match=said):
        solve(workload(*QUESTIONS, **more))
    with pytest.raises(BadParameter, match="questions"):
        workload(HEADS, HEADS)
