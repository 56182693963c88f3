"""The adaptive model: its price on every path, how far one unit moves its scores, and what it learns."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.currencies import Receipt, zcdp_filter
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Composition
from discreet.ledger.memory import MemoryAccount
from discreet.mechanisms.gaussian import Gaussian
from discreet.synthesis.adaptive import AdaptiveMeasurements, AdaptiveSynthesis, Round, score_candidates
from discreet.synthesis.cells import Cells
from discreet.synthesis.measuring import NoisyTable, measure_tables
from discreet.synthesis.raking import FUSED_STEPS, RakedRows, fit_rows, fuse_tables
from discreet.synthesis.tree import SCORE_STEPS
from discreet.testing import seeded_bits
from discreet.units import Neighbours

SIZES = (2, 3, 2, 4)


def draw_rows(rows: int, seed: int = 1) -> Cells:
    """Three columns that decide the next, so that no tree has all of it."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, SIZES, (rows, 4))
    codes[:, 3] = (codes[:, 0] + codes[:, 1] + 2 * (generator.random(rows) < 0.2)) % 4
    codes[:, 2] = np.where(generator.random(rows) < 0.8, codes[:, 0], codes[:, 3] % 2)
    return Cells.read(SIZES, codes)


def receive(event: Composition) -> Receipt:
    return Receipt(0, event)


def run(
    plan: AdaptiveSynthesis, cells: Cells, seed: int, pay: Callable[[Composition], Receipt] = receive
) -> AdaptiveMeasurements:
    return plan.measure(cells, pay, seeded_bits(seed), np.random.default_rng(seed))


@settings(deadline=None, max_examples=12)
@given(
    rho=st.sampled_from([Fraction(1, 10**5), Fraction(1, 300), Fraction(7, 3)]), k=st.integers(1, 3),
    neighbours=st.sampled_from(list(Neighbours)), rounds=st.integers(1, 9), seed=st.integers(0, 99),
)  # fmt: skip
def test_on_every_path_the_whole_budget_is_spent_and_no_more(
    rho: Fraction, k: int, neighbours: Neighbours, rounds: int, seed: int
) -> None:
    plan = AdaptiveSynthesis(SIZES, rho, k, neighbours, rounds=rounds)
    account = MemoryAccount(zcdp_filter(rho))
    found = run(plan, draw_rows(200), seed, account.pay)
    cost = zcdp(found.event)
    assert isinstance(cost, Fraction)
    assert rho * (1 - Fraction(1, 10**9)) <= cost <= rho
    assert account.budget.remaining >= 0
    assert account.budget.spent == pytest.approx(cost)


def test_each_round_is_paid_for_before_it_is_drawn() -> None:
    """An account that refuses the third payment has paid for two, and nothing of the third is drawn."""
    paid: list[Composition] = []

    def pay(event: Composition) -> Receipt:
        if len(paid) == 2:
            raise BudgetExceeded("ρ", cost=Fraction(1), remaining=Fraction(0), limit=Fraction(1))
        paid.append(event)
        return Receipt(len(paid), event)

    with pytest.raises(BudgetExceeded):
        run(AdaptiveSynthesis(SIZES, 1, rounds=5), draw_rows(50), 1, pay)
    assert len(paid) == 2
    with pytest.raises(BadParameter, match="another measurement"):
        run(AdaptiveSynthesis(SIZES, 1), draw_rows(50), 1, lambda event: Receipt(0, event * 2))


# -- how far one unit moves a score ------------------------------------------------------------------------------------

TINY = (2, 2, 2)


def largest_move(plan: AdaptiveSynthesis, neighbours: Neighbours) -> int:
    model = RakedRows(
        TINY, tuple(np.array(column) for column in ([0, 1, 1], [1, 0, 1], [0, 0, 1])), np.array([2.5, 0.3, 1.2])
    )
    every = list(product(range(2), repeat=3))
    changed = (
        [([], [row]) for row in every] if neighbours is Neighbours.ADD_REMOVE else [([a], [b]) for a in every for b in every]
    )
    moved = 0
    for old, new in changed:
        before, after = (
            score_candidates(plan, Cells.read(TINY, np.array([(0, 1, 1), *rows])), model, Gaussian(3)) for rows in (old, new)
        )
        moved = max(moved, *(abs(a - b) for a, b in zip(before, after, strict=True)))
    return moved


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("weights", [{}, {(0, 1): 3, (0, 1, 2): 5}])
def test_one_unit_moves_a_score_by_at_most_the_largest_weight_twice_if_replaced(
    neighbours: Neighbours, weights: dict[tuple[int, ...], int]
) -> None:
    plan = AdaptiveSynthesis(TINY, 1, 1, neighbours, [(0, 1), (1, 2), (0, 1, 2)], weights)
    moved = largest_move(plan, neighbours)
    heaviest = max(weights.values(), default=1)
    assert moved == plan.score_sensitivity == heaviest * neighbours.differing_units * SCORE_STEPS
    mutants = {"1 instead of 2 under replace": heaviest, "weights left out": neighbours.differing_units}
    for name, mutant in mutants.items():
        wrong = mutant * SCORE_STEPS
        assert moved > wrong or wrong == plan.score_sensitivity, name


def test_the_selection_of_a_round_is_as_private_as_its_event_says() -> None:
    plan = AdaptiveSynthesis(TINY, 1, 2, Neighbours.REPLACE, weights={(0, 1): 3})
    step = Round.plan(plan, Fraction(1, 10))
    assert zcdp(step.event) <= Fraction(1, 10)
    # rate·2Δ = ε, and Δ = 3 (weight)·2 (rows)·2 (replace)
    assert step.selection.rate * 2 * 12 * SCORE_STEPS == plan_epsilon(step)


def plan_epsilon(step: Round) -> Fraction:
    from discreet.events import ExponentialEvent

    return next(part.epsilon for part, _ in step.event.parts if isinstance(part, ExponentialEvent))


# -- what it learns ----------------------------------------------------------------------------------------------------


def test_with_much_budget_it_learns_what_no_tree_has() -> None:
    cells = draw_rows(4000)
    plan = AdaptiveSynthesis(SIZES, 20, candidates=[*combinations(range(4), 2), (0, 1, 3)], rounds=8)
    found = run(plan, cells, 2)
    assert (0, 1, 3) in [table.margin for table in found.tables]
    for margin in (*combinations(range(4), 2), (0, 1, 3)):
        gap = np.abs(found.model.table(margin) - cells.table(margin)).sum() / 2 / 4000
        assert gap < 0.03
    rows = Cells.read(SIZES, found.model.sample(4000, np.random.default_rng(1)))
    assert np.abs(rows.table((0, 1, 3)) - cells.table((0, 1, 3))).sum() / 2 / 4000 < 0.05
    independent = fit_rows(SIZES, found.tables[:4], np.random.default_rng(1))
    assert np.abs(independent.table((0, 1, 3)) - cells.table((0, 1, 3))).sum() / 2 / 4000 > 0.3, "the mutant: no round"


def test_a_margin_that_is_measured_twice_has_the_weighted_mean() -> None:
    one, other = NoisyTable((0,), np.array([10, 20]), Gaussian(3)), NoisyTable((0,), np.array([13, 11]), Gaussian(6))
    fused, variances = fuse_tables([one, other])
    precisions = np.array([1 / one.variance, 1 / other.variance])
    expected = (precisions @ np.array([one.values, other.values])) / precisions.sum()
    assert fused[0,] / FUSED_STEPS == pytest.approx(expected, abs=1e-3)
    assert variances[0,] == pytest.approx(FUSED_STEPS**2 / precisions.sum())


def test_rows_are_fitted_to_the_tables_of_any_tabulation() -> None:
    """Pairs and one triple, no one-way table, a column in none of them, and a column of one value."""
    sizes, generator = (2, 3, 1, 4, 5), np.random.default_rng(8)
    codes = generator.integers(0, sizes, (5000, 5))
    codes[:, 3] = (codes[:, 0] + codes[:, 1]) % 4
    cells = Cells.read(sizes, codes)
    tables = measure_tables(cells, [(0, 1, 3), (1, 2)], Gaussian(5), seeded_bits(1))
    model = fit_rows(sizes, tables, generator)
    assert np.abs(model.table((0, 1, 3)) - cells.table((0, 1, 3))).sum() / 2 / 5000 < 0.02
    assert model.table((4,)) / model.total == pytest.approx(np.full(5, 0.2), abs=0.03)
    assert model.sample(generator=generator).shape == (round(model.total), 5)
    with pytest.raises(BadParameter, match="rows"):
        model.sample(0)


def test_a_table_with_too_many_cells_is_no_candidate() -> None:
    assert AdaptiveSynthesis((100, 100, 2), 1, max_table_cells=500).candidates == ((0, 2), (1, 2))
    only = AdaptiveSynthesis((100, 100), 1, max_table_cells=500)
    found = only.measure(Cells.read((100, 100), np.zeros((9, 2), np.int64)), receive)
    assert (len(found.tables), only.candidates) == (2, ())
    assert zcdp(found.event) <= 1


@pytest.mark.parametrize("candidate", [(0,), (1, 0), (0, 0), (0, 9)])
def test_impossible_candidates_are_refused(candidate: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter, match="candidates"):
        AdaptiveSynthesis(SIZES, 1, candidates=[candidate])
