"""Sensitivity: the inequalities between norms, the standard queries, the textbook's quiz, and contradictions."""

from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discreet import BadParameter, Neighbours, Sensitivity
from discreet.units import bounded_sum, count, counts, histogram, mean, proportion

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE

changes = st.lists(st.fractions(-50, 50, max_denominator=16), min_size=1, max_size=6).filter(any)


def norms(vector: list[Fraction]) -> dict[str, Fraction | int]:
    sizes = [abs(x) for x in vector if x]
    return {"l0": len(sizes), "l1": sum(sizes), "l2_squared": sum(x * x for x in sizes), "linf": max(sizes)}


@given(changes, st.sets(st.sampled_from(["l0", "l1", "l2_squared", "linf"]), min_size=1))
def test_what_is_filled_in_always_covers_the_true_change(vector: list[Fraction], given_norms: set[str]) -> None:
    true = norms(vector)
    assume(given_norms & {"l1", "l2_squared"} or given_norms >= {"l0", "linf"})
    filled = Sensitivity(**{name: true[name] for name in given_norms})  # type: ignore[arg-type]
    for name, value in true.items():
        bound = getattr(filled, name)
        assert bound is None or bound >= value


STATED_NORMS = [{"l0", "l1", "l2_squared", "linf"}, {"l0", "linf"}, {"l0", "l1"}, {"l0", "l2_squared"}, {"l0", "l1", "linf"}]


@given(changes, st.integers(-6, 4), st.sampled_from(STATED_NORMS))
def test_to_grid_covers_every_rounded_pair(vector: list[Fraction], exponent: int, stated: set[str]) -> None:
    """Start anywhere: round x and x + change to the grid; the change in steps stays within what `to_grid` says."""
    from math import floor

    grid = Fraction(2) ** exponent
    assume(grid != 1)
    true = norms(vector)
    on_grid = Sensitivity(**{name: true[name] for name in stated}).to_grid(grid)  # type: ignore[arg-type]
    for start in (Fraction(0), Fraction(1, 3), grid / 2, -grid / 2, Fraction(17, 32)):
        steps = [abs(floor((start + x) / grid + Fraction(1, 2)) - floor(start / grid + Fraction(1, 2))) for x in vector if x]
        rounded = norms([Fraction(s) for s in steps]) if any(steps) else None
        if rounded:
            assert all(getattr(on_grid, name) >= value for name, value in rounded.items())


def test_the_linf_of_half_to_even_would_break_to_grid() -> None:
    """The mutant of the rounding: 0.5 → 0 and 1.5 → 2 are one apart before and two after."""
    assert round(Fraction(3, 2)) - round(Fraction(1, 2)) == 2 > Sensitivity(l0=1, linf=1).linf


CONTRADICTIONS = [
    {"l1": 1, "linf": 2}, {"l2": 1, "linf": 2}, {"l1": 1, "l2": 2}, {"l0": 1, "l1": 2, "linf": 1},
    {"l0": 2, "l2": 3, "linf": 1}, {"l0": 4, "l1": 9, "l2": 4}, {"l1": 1, "l2": Fraction(9, 10), "linf": Fraction(1, 10)},
]  # fmt: skip


def test_a_root_rounded_by_hand_is_no_contradiction_and_one_norm_is_stated_once() -> None:
    assert Sensitivity(l0=2, linf=1, l2=sqrt(2)).l1 == 2
    with pytest.raises(BadParameter, match="one of the two"):
        Sensitivity(l2=1, l2_squared=100)


@pytest.mark.parametrize("norms", CONTRADICTIONS, ids=str)
def test_contradicting_norms_are_refused(norms: dict[str, int]) -> None:
    with pytest.raises(BadParameter, match="cannot exceed"):
        Sensitivity(**norms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "norms", [{}, {"l0": 3}, {"linf": 1}, {"l1": 0}, {"l0": 0, "linf": 1}, {"l1": float("inf")}, {"l0": 1.5}]
)
def test_impossible_or_useless_norms_are_refused(norms: dict[str, int]) -> None:
    with pytest.raises(BadParameter):
        Sensitivity(**norms)


def test_k_counts_have_l1_k_and_l2_root_k_not_the_other_way_round_erratum_5() -> None:
    for k in (1, 2, 9, 100):
        assert counts(k).l1 == k
        assert counts(k).l2_squared == k
    assert (counts(9).l1, counts(9).l2) == (9, 3)


@given(st.integers(1, 50), st.fractions(Fraction(1, 9), 9))
def test_l2_at_most_l1_at_most_root_k_l2(k: int, size: Fraction) -> None:
    s = Sensitivity(l0=k, linf=size)
    assert s.l1 is not None
    assert s.l2_squared <= s.l1**2 <= k * s.l2_squared


def test_proportion_histogram_and_mean() -> None:
    assert proportion(50).l1 == Fraction(1, 50)
    assert histogram(ADD).l1 == 1
    assert (histogram(REPLACE).l1, histogram(REPLACE).l2_squared) == (2, 2)
    assert float(histogram(REPLACE).l2) == pytest.approx(sqrt(2))
    assert mean(0, 100, 20).l1 == 5
    with pytest.raises(BadParameter, match="sum and a count"):
        mean(0, 1, 10, ADD)


def test_bounded_sums() -> None:
    assert bounded_sum(-5, 10, ADD).l1 == 10
    assert bounded_sum(-5, 10, REPLACE).l1 == 15
    for low, high in ((1, 1), (2, 1), (0, float("inf")), (float("nan"), 1)):
        with pytest.raises(BadParameter):
            bounded_sum(low, high)


def test_quiz_of_b2() -> None:
    """One predicate 1; two overlapping predicates 2; four disjoint hair colours 1; an average salary: unbounded."""
    assert count().l1 == 1
    assert count(REPLACE).l1 == 1
    assert counts(2).l1 == 2
    assert histogram().l1 == 1
    with pytest.raises(BadParameter):
        mean(0, float("inf"), 100)


def test_gender_by_hair_colour_costs_epsilon_not_eight() -> None:
    """Parallel composition as a histogram: 2 × 4 disjoint cells have l1 = 1."""
    from discreet import Laplace, pure

    assert pure(Laplace.for_epsilon(1, histogram()).event(histogram())) == 1
    assert pure(Laplace.for_epsilon(1, histogram()).event(counts(8))) == 8


def test_scale_by_scales_every_norm() -> None:
    doubled = Sensitivity(l0=3, linf=1).scale_by(2)
    assert (doubled.l0, doubled.l1, doubled.l2_squared, doubled.linf) == (3, 6, 12, 2)
