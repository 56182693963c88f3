"""The integer factorisations against dense matrices: products, norms over patterns, errors of continual counting."""

from fractions import Fraction
from itertools import combinations, pairwise
from math import sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.streams.factorisation import (
    FIXED_BITS,
    MAX_STEPS,
    SquareRoot,
    Tree,
    is_non_increasing,
    round_coefficients,
    square_root,
)

# RELEASED FIGURES: tree max and rms, square root max and rms, one event per unit, per unit of σ/Δ.
ERRORS = {
    2: (1.41421, 1.41421, 1.25000, 1.18585),
    4: (2.44949, 1.93649, 1.48828, 1.38142),
    8: (3.46410, 2.54951, 1.71838, 1.58586),
    16: (4.47214, 3.21131, 1.94388, 1.79681),
    32: (5.47723, 3.89711, 2.16698, 2.01198),
    64: (6.48074, 4.59449, 2.38885, 2.22968),
    128: (7.48332, 5.29741, 2.61010, 2.44883),
    256: (8.48528, 6.00293, 2.83105, 2.66878),
    512: (9.48683, 6.70966, 3.05184, 2.88917),
    1024: (10.48809, 7.41692, 3.27255, 3.10979),
}


def dense_root(n: int) -> np.ndarray:
    """C as a matrix of Python integers."""
    c = round_coefficients(n)
    return np.array([[c[t - s] if t >= s else 0 for s in range(n)] for t in range(n)], object)


def dense_tree(n: int) -> np.ndarray:
    """One row per node that ends within n steps."""
    rows = []
    for end in range(1, n + 1):
        for level in range(Tree(n).rows_at(end)):
            rows.append([1 if end - 2**level < s <= end else 0 for s in range(1, n + 1)])
    return np.array(rows, object)


def list_patterns(n: int, at_most: int, apart: int) -> list[tuple[int, ...]]:
    return [
        steps
        for size in range(1, at_most + 1)
        for steps in combinations(range(n), size)
        if all(b - a >= apart for a, b in pairwise(steps))
    ]


def squares(matrix: np.ndarray, pattern: tuple[int, ...]) -> int:
    return int((matrix[:, list(pattern)].sum(axis=1) ** 2).sum())


@pytest.mark.parametrize("n", ERRORS)
def test_errors_are_those_of_continual_counting(n: int) -> None:
    tree_max, tree_rms, root_max, root_rms = ERRORS[n]
    tree, root = Tree(n), square_root(n)
    nodes = [len(tree.nodes(step)) for step in range(1, n + 1)]
    assert sqrt(tree.levels * max(nodes)) == pytest.approx(tree_max, rel=1e-5)
    assert sqrt(tree.levels * sum(nodes) / n) == pytest.approx(tree_rms, rel=1e-5)
    column = root.max_squares(1, 1)
    assert sqrt(column * root.sum_squares(n)) == pytest.approx(root_max, rel=1e-4)
    rms = sqrt(column * sum(root.sum_squares(step) for step in range(1, n + 1)) / n)
    assert rms == pytest.approx(root_rms, rel=1e-4)


def test_ten_bits_cost_a_quarter_of_a_tenth_of_a_promille() -> None:
    root = square_root(1024)
    assert sqrt(root.max_squares(1, 1) * root.sum_squares(1024)) == pytest.approx(3.27263, abs=5e-6)


def test_coefficients_are_the_rounded_ones_and_never_increase() -> None:
    for n in (1, 2, 3, 17, 1000, 1024, 1025, MAX_STEPS):
        c = round_coefficients(n)
        bits = c[0].bit_length() - 1
        for j in {0, n // 3, n // 2, n - 1}:
            exact = mpmath.mpf(2) ** bits * mpmath.binomial(2 * j, j) / mpmath.mpf(4) ** j
            assert abs(exact - c[j]) <= 0.5
        assert is_non_increasing(c)
        assert c[-1] > 0


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 40])
def test_the_inverse_gives_prefix_sums(n: int) -> None:
    root = square_root(n)
    b = [Fraction(each, 1 << FIXED_BITS) for each in root.inverse]
    product = [sum(b[i] * root.coefficients[j - i] for i in range(j + 1)) for j in range(n)]
    assert max(abs(each - 1) for each in product) == root.residual < Fraction(1, 1 << 80)
    dense = np.linalg.solve(dense_root(n).astype(float).T, np.tril(np.ones((n, n))).T).T  # A·C⁻¹
    assert np.allclose(root.weights, dense[-1][::-1], rtol=1e-11, atol=0)
    for step in (1, n):
        assert float(root.sum_squares(step)) == pytest.approx((dense[step - 1] ** 2).sum(), rel=1e-10)
        for window in {1, max(1, n // 2)}:
            before = dense[step - 1 - window] if step > window else 0
            assert float(root.sum_squares(step, window)) == pytest.approx(((dense[step - 1] - before) ** 2).sum(), rel=1e-9)


def test_the_residual_is_tiny_for_the_longest_horizon() -> None:
    assert square_root(MAX_STEPS).residual < Fraction(1, 1 << 80)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.data())
def test_what_is_measured_is_c_times_x(n: int, data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.lists(st.integers(0, 2**40), min_size=2, max_size=2), min_size=n, max_size=n)))
    for matrix, dense in ((SquareRoot(n), dense_root(n)), (Tree(n), dense_tree(n))):
        measured = np.concatenate([matrix.measure(counts, step) for step in range(1, n + 1)])
        assert (measured == dense @ counts.astype(object)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
@pytest.mark.parametrize("at_most", [1, 2, 3, 20])
@pytest.mark.parametrize("apart", [1, 2, 4])
def test_the_worst_pattern_is_the_earliest_one(n: int, at_most: int, apart: int) -> None:
    root, tree = square_root(n), Tree(n)
    worst = max(squares(dense_root(n), each) for each in list_patterns(n, min(at_most, n), apart))
    assert root.max_squares(at_most, apart) == worst
    patterns = list_patterns(n, min(at_most, n), apart)
    assert tree.max_squares(at_most, apart) >= max(squares(dense_tree(n), each) for each in patterns)
    sums = [dense_tree(n)[:, list(each)].sum() for each in patterns]
    assert tree.max_sum(min(at_most, -(-n // apart))) >= max(sums)
    if n & (n - 1) == 0 and at_most == 1:
        assert tree.max_sum(1) == max(sums)


def test_norms_without_cross_terms_would_be_too_small() -> None:
    """The mutant: the squares of the columns of a pattern, added up."""
    root = square_root(8)
    without = sum(squares(dense_root(8), (step,)) for step in (0, 2, 4))
    assert without < 0.6 * root.max_squares(3, 2)


@pytest.mark.parametrize("n", range(1, 20))
def test_a_moved_event_costs_what_two_columns_differ_by(n: int) -> None:
    for matrix, dense in ((square_root(n), dense_root(n)), (Tree(n), dense_tree(n))):
        single = [dense[:, s] for s in range(n)]
        moved = [dense[:, s] - dense[:, t] for s, t in combinations(range(n), 2)]
        assert matrix.replaced_squares() == max(int((each**2).sum()) for each in single + moved)
        exact = max(int(np.abs(each).sum()) for each in single + moved)
        assert matrix.replaced_sum() >= exact
        assert isinstance(matrix, SquareRoot) or matrix.replaced_sum() == exact


def test_replacing_costs_more_than_removing() -> None:
    root = square_root(1024)
    assert root.replaced_squares() / 2**20 == pytest.approx(5.42, abs=5e-3)
    assert root.max_squares(1, 1) / 2**20 == pytest.approx(3.2726, abs=1e-3)
    assert Tree(1024).replaced_sum() == 2 * Tree(1024).levels - 2


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.data())
def test_signed_nodes_add_up_to_windows(n: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, n))
    window = data.draw(st.integers(1, n) | st.none())
    covered = np.zeros(n + 1, int)
    for (end, level), sign in Tree(n).signed_nodes(step, window).items():
        covered[end - 2**level + 1 : end + 1] += sign
    first = 1 if window is None else max(1, step - window + 1)
    assert (covered[first : step + 1] == 1).all()
    assert covered.sum() == step - first + 1


@pytest.mark.parametrize("steps", [0, MAX_STEPS + 1, 2.5])
def test_impossible_horizons_are_refused(steps: float) -> None:
    with pytest.raises(BadParameter, match="steps"):
        square_root(steps)  # type: ignore[arg-type]
