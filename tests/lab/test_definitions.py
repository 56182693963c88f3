"""The definitions, by trying all events, all neighbours and all functions of small domains; each with a mutant."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.divergences import hockey_stick, max_divergence, renyi_divergence
from discreet.accounting.textbook import bad_set_mass
from discreet.lab.exercises.accuracy import brute_force_sensitivity
from discreet.units import Neighbours, bounded_sum, count, counts, histogram, mean

Pair = tuple[list[Fraction], list[Fraction]]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    size = draw(st.integers(2, 5))
    rows = [draw(st.lists(st.integers(1, 20), min_size=size, max_size=size)) for _ in range(2)]
    p, q = ([Fraction(weight, sum(row)) for weight in row] for row in rows)
    return p, q


def masses(p: list[Fraction], q: list[Fraction]) -> Iterator[tuple[Fraction, Fraction]]:
    """P(E) and Q(E) for every event E that is not empty."""
    for chosen in range(1, len(p) + 1):
        for event in combinations(range(len(p)), chosen):
            yield sum((p[i] for i in event), Fraction(0)), sum((q[i] for i in event), Fraction(0))


@given(pairs(), st.floats(0, 3))
@settings(max_examples=80, deadline=None)
def test_epsilon_delta_over_all_events_is_the_hockey_stick(pair: Pair, epsilon: float) -> None:
    for p, q in (pair, pair[::-1]):
        worst = max(0.0, *(float(a) - exp(epsilon) * float(b) for a, b in masses(p, q)))
        assert hockey_stick(p, q, epsilon).upper == pytest.approx(worst, abs=1e-12)


@given(pairs())
@settings(max_examples=80, deadline=None)
def test_pure_privacy_is_checked_output_by_output(pair: Pair) -> None:
    p, q = pair
    each = max(max(a / b, b / a) for a, b in zip(p, q, strict=True))
    assert each == max(max(a / b, b / a) for a, b in masses(p, q))
    assert max(max_divergence(p, q).upper, max_divergence(q, p).upper) == pytest.approx(log(each), abs=1e-12)


def test_the_largest_single_output_is_not_enough_for_delta() -> None:
    """The mutant: δ as the worst single output instead of their sum."""
    p, q = [Fraction(1, 4)] * 4 + [Fraction(0)] * 4, [Fraction(0)] * 4 + [Fraction(1, 4)] * 4
    assert hockey_stick(p, q, 1).lower == 1 > max(p)


@given(pairs(), st.floats(0, 3))
@settings(max_examples=80, deadline=None)
def test_the_good_and_bad_set_lemma(pair: Pair, epsilon: float) -> None:
    p, q = pair
    bad = sum((a for a, b in zip(p, q, strict=True) if a > Fraction(exp(epsilon)) * b), Fraction(0))
    assert bad_set_mass(p, q, epsilon) >= bad
    assert hockey_stick(p, q, epsilon).lower <= float(bad_set_mass(p, q, epsilon))


@given(pairs(), st.floats(0, 2), st.data())
@settings(max_examples=80, deadline=None)
def test_post_processing_keeps_the_guarantee(pair: Pair, epsilon: float, data: st.DataObject) -> None:
    """Any function of the output; rounding and clipping are two of them."""
    p, q = pair
    onto = data.draw(st.lists(st.integers(0, 2), min_size=len(p), max_size=len(p)))
    after = [[sum((row[i] for i in range(len(row)) if onto[i] == v), Fraction(0)) for v in range(3)] for row in (p, q)]
    assert hockey_stick(after[0], after[1], epsilon).lower <= hockey_stick(p, q, epsilon).upper
    assert max_divergence(after[0], after[1]).lower <= max_divergence(p, q).upper


def test_a_function_that_looks_at_the_data_again_breaks_it() -> None:
    """The mutant: the output is kept for one data set and replaced for the other."""
    p = q = [Fraction(1, 2), Fraction(1, 2)]
    assert max_divergence(p, q).upper < 1e-30
    assert max_divergence([*p, Fraction(0)], [Fraction(0), Fraction(0), Fraction(1)]).lower == inf


def test_sequential_composition_also_when_the_second_release_follows_the_first() -> None:
    """Randomised response at ln 3; then at ln 2 if it said 1, at ln 4 if it said 0. The worst path costs its sum."""
    first, second = Fraction(3, 4), {1: Fraction(2, 3), 0: Fraction(4, 5)}

    def distribution(bit: int) -> dict[tuple[int, int], Fraction]:
        def report(answer: int, truth: Fraction) -> Fraction:
            return truth if answer == bit else 1 - truth

        return {(a, b): report(a, first) * report(b, second[a]) for a, b in product((0, 1), repeat=2)}

    there, back = (
        max_divergence(distribution(1), distribution(0)).upper,
        max_divergence(distribution(0), distribution(1)).upper,
    )
    assert there == pytest.approx(log(3) + log(2), rel=1e-12)
    assert back == pytest.approx(log(3) + log(4), rel=1e-12)
    assert max(there, back) > log(3) + log(2) + 0.1, "the mutant: the cheaper of the two second releases"


@pytest.mark.parametrize("relation", Neighbours)
def test_both_relations_by_trying_all(relation: Neighbours) -> None:
    cells = ("a", "b", "c")
    tried = {
        "count": brute_force_sensitivity([0, 1], lambda d: [sum(d)], relation, size=3),
        "histogram": brute_force_sensitivity(cells, lambda d: [d.count(cell) for cell in cells], relation, size=3),
        "overlapping": brute_force_sensitivity(
            [0, 1, 2, 3], lambda d: [sum(x & 1 for x in d), sum(x >> 1 for x in d)], relation, size=3
        ),
        "sum": brute_force_sensitivity([-2, 0, 5], lambda d: [sum(d)], relation, size=3),
    }
    rules = {
        "count": count(relation).l1,
        "histogram": histogram(relation).l1,
        "overlapping": counts(2, relation).l1,
        "sum": bounded_sum(-2, 5, relation).l1,
    }
    assert tried == {name: float(rule or 0) for name, rule in rules.items()}
    assert tried["histogram"] == relation.differing_units


def test_a_mean_at_fixed_size_moves_by_its_width_over_n() -> None:
    assert (
        brute_force_sensitivity([0, 10], lambda d: [sum(d) / 4], Neighbours.REPLACE, size=4)
        == float(mean(0, 10, 4).l1 or 0)
        == 2.5
    )


@given(pairs())
@settings(max_examples=40, deadline=None)
def test_order_infinity_is_the_max_divergence_and_large_orders_approach_it(pair: Pair) -> None:
    p, q = pair
    most, near = max_divergence(p, q), renyi_divergence(p, q, 2000)
    assert renyi_divergence(p, q, inf) == most
    weight = max(zip(p, q, strict=True), key=lambda ab: ab[0] / ab[1])[0]
    assert most.lower + log(weight) / 1999 - 1e-9 <= near.upper <= most.upper + 1e-9
