"""The tree's measurements: what they cost, how far one unit moves them, and how the tree is chosen."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import exp, prod, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.currencies import Receipt, zcdp_filter
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import compose
from discreet.ledger.memory import MemoryAccount
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.gaussian import Gaussian
from discreet.synthesis.adaptive import AdaptiveSynthesis
from discreet.synthesis.cells import Cells, group_pairs
from discreet.synthesis.files import SyntheticTable
from discreet.synthesis.measuring import NoisyTable, choose_epsilon, score_sensitivity, table_sensitivity
from discreet.synthesis.metrics import bound_distances
from discreet.synthesis.tree import SCORE_STEPS, TreeSynthesis, choose_tree, project_to_simplex, score_pairs
from discreet.testing import seeded_bits
from discreet.units import Neighbours

relations = st.sampled_from(list(Neighbours))


# -- what it costs -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    rho=st.fractions(Fraction(1, 10**8), 20, max_denominator=10**8),
    k=st.integers(1, 9),
    neighbours=relations,
    cap=st.sampled_from([1, 60, 1 << 20]),
)
def test_the_event_costs_at_most_the_budget_and_nearly_all_of_it(
    sizes: list[int], rho: Fraction, k: int, neighbours: Neighbours, cap: int
) -> None:
    plan = TreeSynthesis(tuple(sizes), rho, k, neighbours, max_pair_cells=cap)
    cost = zcdp(plan.event)
    assert isinstance(cost, Fraction)
    assert rho * (1 - Fraction(1, 10**9)) <= cost <= rho


def test_a_replaced_unit_costs_twice_as_much_for_tables_and_four_times_for_selections() -> None:
    """At equal noise: l2² doubles, and a score moves twice as far, whose square is charged."""
    add, replace = (TreeSynthesis((3, 4, 5), 1, 2, relation) for relation in Neighbours)
    assert add.sensitivity.l2_squared == 4
    assert replace.sensitivity.l2_squared == 8
    assert add.selection.rate == 2 * replace.selection.rate


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"sizes": ()}, "sizes"), ({"sizes": (2, 0)}, "sizes"), ({"rho": 0}, "rho"), ({"rows_per_unit": 0}, "rows_per_unit"),
     ({"shares": (1, 1, 1)}, "shares"), ({"shares": (0, Fraction(1, 2), Fraction(1, 2))}, "shares")],
)  # fmt: skip
def test_impossible_plans_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(BadParameter) as caught:
        TreeSynthesis(**({"sizes": (2, 3), "rho": 1} | changes))
    assert caught.value.name == name


def test_nothing_is_measured_without_its_receipt() -> None:
    plan, other = TreeSynthesis((2, 3), 1), TreeSynthesis((2, 3), 2)
    cells = Cells.read((2, 3), np.array([[0, 1]]))
    with pytest.raises(BadParameter, match="another measurement"):
        plan.measure(cells, Receipt(0, other.event))
    found = plan.measure(cells, Receipt(0, plan.event))
    assert (len(found.tables), found.tainted) == (3, False)
    assert plan.measure(cells, Receipt(0, plan.event), seeded_bits(1)).tainted


def test_pairs_that_are_too_large_are_no_edges() -> None:
    plan = TreeSynthesis((2, 3, 50, 60), 1, max_pair_cells=200)
    assert plan.pairs == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3))
    assert TreeSynthesis((50, 60), 1, max_pair_cells=200).edges == 0


# -- how far one unit moves it -----------------------------------------------------------------------------------------

SIZES = (2, 2, 2)
EVERY_CELL = list(product(*(range(size) for size in SIZES)))


def every_unit(k: int) -> list[tuple[tuple[int, ...], ...]]:
    """All units with at most k rows."""
    return [rows for count in range(k + 1) for rows in combinations_with_replacement(EVERY_CELL, count)]


def neighbouring_pairs(k: int, neighbours: Neighbours) -> list[tuple[Cells, Cells]]:
    """All changes of one unit, beside one fixed unit; an absent unit is one without rows only under add/remove."""
    fixed = ((0, 0, 1),) * k
    changed = [((), unit) for unit in every_unit(k)]
    if neighbours is Neighbours.REPLACE:
        changed = list(product(every_unit(k), repeat=2))
    return [(count(fixed + old), count(fixed + new)) for old, new in changed]


def count(rows: tuple[tuple[int, ...], ...]) -> Cells:
    return Cells.read(SIZES, np.array(rows, np.int64).reshape(-1, len(SIZES)))


def noisy_columns(seed: int) -> tuple[NoisyTable, ...]:
    generator = np.random.default_rng(seed)
    return tuple(NoisyTable((column,), generator.integers(-1, 4, size), Gaussian(3)) for column, size in enumerate(SIZES))


def largest_move(k: int, neighbours: Neighbours) -> int:
    pairs = tuple(combinations(range(3), 2))
    found = 0
    for seed in range(2):
        columns = noisy_columns(seed)
        for one, other in neighbouring_pairs(k, neighbours):
            before, after = (score_pairs(cells, pairs, columns, Gaussian(3)) for cells in (one, other))
            found = max(found, *(abs(a - b) for a, b in zip(before, after, strict=True)))
    return found


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("k", [1, 2])
def test_one_unit_moves_a_score_by_at_most_its_sensitivity_which_is_reached(k: int, neighbours: Neighbours) -> None:
    moved = largest_move(k, neighbours)
    bound = score_sensitivity(k, neighbours) * SCORE_STEPS
    assert moved == bound if k == 1 else bound / 2 < moved <= bound
    if neighbours is Neighbours.REPLACE:  # the mutant: the sensitivity of add/remove
        assert moved > score_sensitivity(k, Neighbours.ADD_REMOVE) * SCORE_STEPS


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("k", [1, 2])
def test_one_unit_moves_a_table_by_at_most_its_sensitivity_which_is_reached(k: int, neighbours: Neighbours) -> None:
    bound, squares, sums, most = table_sensitivity(k, neighbours), 0, 0, 0
    for one, other in neighbouring_pairs(k, neighbours):
        for margin in ((), (0,), (0, 1), (0, 1, 2)):
            change = np.abs(one.table(margin) - other.table(margin))
            squares, sums, most = (
                max(squares, int((change**2).sum())),
                max(sums, int(change.sum())),
                max(most, int(change.max())),
            )
    assert (squares, sums, most) == (bound.l2_squared, bound.l1, bound.linf)
    if neighbours is Neighbours.REPLACE:
        assert squares > table_sensitivity(k, Neighbours.ADD_REMOVE).l2_squared


def test_scores_scaled_to_the_exact_total_would_move_farther() -> None:
    """The mutant: a product of tables that add up to the exact number of rows is itself moved by one unit."""
    one, other = count(((0, 0, 0), (0, 0, 0))), count(((0, 0, 0),))

    def score(cells: Cells) -> float:
        shares = np.outer([0.5, 0.5], [0.5, 0.5])
        return float(np.abs(cells.table((0, 1)) - shares * cells.counts.sum()).sum())

    assert abs(score(one) - score(other)) > score_sensitivity(1, Neighbours.ADD_REMOVE)


# -- how the tree is chosen --------------------------------------------------------------------------------------------


def tree_law(
    columns: int, pairs: tuple[tuple[int, int], ...], scores: list[int], rate: float
) -> dict[frozenset[Any], float]:
    """The probability of each tree, by enumerating all sequences of choices."""
    law: Counter[frozenset[Any]] = Counter()

    def grow(part: list[int], chosen: tuple[tuple[int, int], ...], probability: float) -> None:
        joining = [place for place, (left, right) in enumerate(pairs) if part[left] != part[right]]
        if not joining:
            law[frozenset(chosen)] += probability  # type: ignore[assignment]
            return
        odds = [exp(rate * (scores[place] - max(scores))) for place in joining]
        for place, weight in zip(joining, odds, strict=True):
            left, right = pairs[place]
            merged = [part[right] if where == part[left] else where for where in part]
            grow(merged, (*chosen, pairs[place]), probability * weight / sum(odds))

    grow(list(range(columns)), (), 1.0)
    return dict(law)


@pytest.mark.parametrize("scores", [[0, 3, 1, 2, 2, 5], [7, 7, 0, 1, 3, 3]])
def test_the_tree_is_drawn_from_the_law_of_successive_exponential_mechanisms(scores: list[int]) -> None:
    pairs, draws, bits = tuple(combinations(range(4), 2)), 4000, seeded_bits(3)
    law = tree_law(4, pairs, scores, 0.5)
    selection = Exponential(Fraction(1, 2))
    seen = Counter(frozenset(choose_tree(selection, 4, pairs, scores, bits)) for _ in range(draws))
    assert sum(law.values()) == pytest.approx(1)
    assert len(law) == 16  # Cayley: 4² trees of four columns
    assert set(seen) <= set(law)

    def far(claimed: dict[frozenset[Any], float]) -> bool:
        return any(abs(seen[tree] - draws * p) > 6 * sqrt(draws * p * (1 - p)) + 6 for tree, p in claimed.items())

    assert not far(law)
    assert far(tree_law(4, pairs, scores, 1.0)), "the mutant: twice the rate"


@pytest.mark.parametrize("neighbours", Neighbours)
def test_two_neighbours_choose_every_tree_with_nearly_the_same_probability(neighbours: Neighbours) -> None:
    """Each selection is ε-private, so ln of the ratio is at most edges·ε, with the right rate."""
    columns, pairs = noisy_columns(1), tuple(combinations(range(3), 2))
    epsilon = choose_epsilon(Fraction(1, 8))

    def worst(assumed: Neighbours) -> float:
        rate = epsilon / (2 * score_sensitivity(1, assumed) * SCORE_STEPS)
        found = 0.0
        for one, other in neighbouring_pairs(1, neighbours):
            before, after = (
                tree_law(3, pairs, score_pairs(cells, pairs, columns, Gaussian(3)), float(rate)) for cells in (one, other)
            )
            found = max(found, *(abs(np.log(before[tree] / after[tree])) for tree in before))
        return found

    assert worst(neighbours) <= 2 * epsilon
    if neighbours is Neighbours.REPLACE:
        assert worst(Neighbours.ADD_REMOVE) > worst(neighbours) * 1.5


def test_with_much_budget_the_tree_is_the_one_of_the_largest_gaps() -> None:
    generator = np.random.default_rng(1)
    first = generator.integers(0, 2, 5000)
    flip = generator.random((5000, 3)) < [0.05, 0.1, 0.15]
    chain = [first]
    for place in range(3):
        chain.append(np.where(flip[:, place], 1 - chain[-1], chain[-1]))
    plan = TreeSynthesis((2, 2, 2, 2), 50)
    cells = Cells.read(plan.sizes, np.stack(chain, axis=1))
    found = plan.measure(cells, Receipt(0, compose(plan.event)), seeded_bits(1))
    assert {table.margin for table in found.edges} == {(0, 1), (1, 2), (2, 3)}


# -- parts -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12), st.floats(0.1, 100))
def test_the_projection_is_nonnegative_adds_up_and_shifts_all_that_it_keeps(values: list[float], total: float) -> None:
    array = np.array(values)
    out = project_to_simplex(array, total)
    assert out.min() >= 0
    assert out.sum() == pytest.approx(total)
    shift = (array - out)[out > 0]
    assert np.ptp(shift) < 1e-9
    assert (array[out == 0] <= shift.max() + 1e-9).all()


def test_tables_of_cells_are_those_of_their_rows() -> None:
    generator = np.random.default_rng(2)
    codes, counts = generator.integers(0, [3, 300, 2], (50, 3)), generator.integers(0, 9, 50)
    blocks = [SimpleNamespace(codes=codes[part], counts=counts[part]) for part in (slice(0, 20), slice(20, 50))]
    cells = Cells.join((3, 300, 2), blocks)
    for margin in ((), (1,), (0, 2), (0, 1, 2)):
        expected = np.zeros([cells.sizes[column] for column in margin], np.int64)
        np.add.at(expected, tuple(codes[:, column] for column in margin), counts if margin else counts.sum())
        if margin:
            assert (cells.table(margin) == expected).all()
        else:
            assert cells.table(()) == counts.sum()


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=7), st.integers(0, 2**32), st.sampled_from([1, 10, 100, 10**6]),
    st.integers(0, 60), st.booleans(),
)  # fmt: skip
def test_tables_summed_up_from_joint_ones_are_those_of_the_cells(
    sizes: list[int], seed: int, max_cells: int, rows: int, has_counts: bool
) -> None:
    generator = np.random.default_rng(seed)
    known = tuple(sizes)
    cells = Cells.read(
        known, generator.integers(0, known, (rows, len(known))), generator.integers(0, 9, rows) if has_counts else None
    )
    every = list(combinations(range(len(known)), 2))
    pairs = [pair for pair in every if generator.random() < 0.7]
    groups = group_pairs(known, pairs, max_cells)
    assert set(pairs) <= {pair for group in groups for pair in combinations(group, 2)}
    assert len(groups) <= len(pairs)
    assert all(len(group) == 2 or prod(known[column] for column in group) <= max_cells for group in groups)
    margins = [*pairs, *((column,) for column in range(len(known)))]
    counted = [cells.table(margin) for margin in margins]
    cells.prepare_pairs(pairs)
    for margin, table in zip(margins, counted, strict=True):
        assert (cells.table(margin) == table).all()


def test_wide_tables_are_counted_without_overflow() -> None:
    sizes = (2, 300, 218, 5)  # 300 · 218 cells are just below 2¹⁶, all the others above or far below
    codes = np.array([[1, 299, 217, 4], [1, 0, 0, 0], [0, 299, 217, 0]])
    cells = Cells.read(sizes, codes)
    for margin in ((1, 2), (0, 1, 2), (0, 1, 2, 3), (1, 3)):
        expected = np.zeros([sizes[column] for column in margin], np.int64)
        np.add.at(expected, tuple(codes[:, column] for column in margin), 1)
        assert (cells.table(margin) == expected).all()


@pytest.mark.parametrize(
    ("codes", "reason"),
    [([[0, 77]], "`column 1` are outside of 0 to 2"), ([[-77, 0]], "`column 0` are outside of 0 to 1"),
     ([[0]], r"of shape \(1, 1\)"), ([[0.0, 1.0]], "float64"), ([["a", "b"]], "not integers"),
     ([[0, np.nan]], "not integers")],
)  # fmt: skip
def test_cells_outside_of_the_domain_are_refused_without_showing_them(codes: Any, reason: str) -> None:
    with pytest.raises(BadParameter, match=reason) as caught:
        Cells.read((2, 3), np.array(codes))
    assert "77" not in str(caught.value)


def test_bad_input_is_refused_by_its_name() -> None:
    """Everything that a program can hand over in the wrong form is a refusal that names its parameter."""
    plan, cells = TreeSynthesis((2, 3), 1), Cells.read((2, 3), np.array([[0, 1], [1, 2]]))
    found = plan.measure(cells, Receipt(0, plan.event), seeded_bits(1))
    rounds = AdaptiveSynthesis((2, 3), 1)
    calls: dict[str, list[Callable[[], Any]]] = {
        "receipt": [lambda: plan.measure(cells, None)],  # type: ignore[arg-type]
        "cells": [
            lambda: plan.measure(np.array([[0, 1]]), Receipt(0, plan.event)),  # type: ignore[arg-type]
            lambda: plan.measure(Cells.read((2, 2), np.array([[0, 1]])), Receipt(0, plan.event)),
            lambda: rounds.measure(Cells.read((2, 2), np.array([[0, 1]])), lambda event: Receipt(0, event)),
        ],
        "pay": [lambda: rounds.measure(cells, MemoryAccount(zcdp_filter(Fraction(1))))],  # type: ignore[arg-type]
        "neighbours": [
            lambda: TreeSynthesis((2, 3), 1, neighbours="other"), lambda: AdaptiveSynthesis((2, 3), 1, neighbours="other")
        ],
        "counts": [
            lambda: Cells(cells.sizes, cells.columns, -cells.counts),
            lambda: Cells.read((2, 3), np.array([[0, 1]]), np.array([1, 2])),
            lambda: Cells.read((2, 3), np.array([[0, 1]]), np.array([0.5])),
        ],
        "columns": [lambda: Cells(cells.sizes, cells.columns[:1], cells.counts)],
        "codes": [
            lambda: bound_distances(np.array([[0, 5]]), (2, 3), found.tables),
            lambda: bound_distances(np.zeros((0, 2), np.int64), (2, 3), found.tables),
            lambda: SyntheticTable(np.array([[0, 1]]), ("a", "b"), (("x", "y"), ("z",))),
        ],
        "tables": [lambda: bound_distances(np.array([[0, 1]]), (2, 3), ())],
        "names": [lambda: SyntheticTable(np.array([[0, 0]]), ("a", "a"), (("x", "y"), ("z",)))],
    }  # fmt: skip
    for name, listed in calls.items():
        for call in listed:
            with pytest.raises(BadParameter) as caught:
                call()
            assert caught.value.name == name
    assert TreeSynthesis((2, 3), 1, neighbours="replace") == TreeSynthesis((2, 3), 1, neighbours=Neighbours.REPLACE)
