"""Combining residual by residual is generalised least squares: estimates, variances and weights are those of a dense one."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from discreet.errors import BadParameter
from discreet.tabulation import residuals as module
from discreet.tabulation.margins import Lattice, Margin, count_cells, drop_single_columns, list_subsets
from discreet.tabulation.residuals import (
    cell_covariance,
    cell_variance,
    combine,
    residual_precisions,
    squared_weights,
)
from tests.support.dense_tables import Case, Dense, draw_case, summing_matrix
from tests.support.rounds import every_nth_by_day

SEEDS = range(40)


def check_estimates(case: Case) -> None:
    dense, found = Dense(case.sizes, case.variances), combine(case.sizes, case.measured, case.variances)
    for margin in case.wanted:
        expected = dense.estimate(margin, case.measured)
        assert found.rebuild(margin).shape == expected.shape
        np.testing.assert_allclose(found.rebuild(margin), expected, rtol=1e-9, atol=1e-9 * abs(expected).max())


def check_covariances(case: Case) -> None:
    dense, tau = Dense(case.sizes, case.variances), residual_precisions(case.sizes, invert(case.variances))
    for margin in case.wanted:
        expected = dense.covariance(margin)
        cells = list(product(*(range(case.sizes[i]) for i in margin)))
        found = [[cell_covariance(case.sizes, tau, margin, one, other) for other in cells] for one in cells]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * expected.max())
        np.testing.assert_allclose(cell_variance(case.sizes, tau, margin), np.diag(expected), rtol=1e-9)


def check_squared_weights(case: Case) -> None:
    dense = Dense(case.sizes, case.variances)
    for margin in case.wanted:
        expected, found = dense.squared_weights(margin), squared_weights(case.sizes, case.variances, margin)
        assert found.keys() == expected.keys()
        largest = max(expected.values())
        np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-9, atol=1e-9 * largest)


def check_all(check: Callable[[Case], None]) -> None:
    for seed in SEEDS:
        check(draw_case(seed))


def invert(values: dict[Margin, float]) -> dict[Margin, float]:
    return {margin: 1 / value for margin, value in values.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_estimates_are_those_of_dense_least_squares(seed: int) -> None:
    check_estimates(draw_case(seed))


@pytest.mark.parametrize("seed", every_nth_by_day(SEEDS, 3))
def test_covariances_are_those_of_dense_least_squares(seed: int) -> None:
    check_covariances(draw_case(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_squared_weights_are_those_of_dense_least_squares(seed: int) -> None:
    check_squared_weights(draw_case(seed))


@pytest.mark.parametrize("seed", range(10))
def test_variances_follow_from_squared_weights(seed: int) -> None:
    case = draw_case(seed)
    tau = residual_precisions(case.sizes, invert(case.variances))
    for margin in case.wanted:
        weights = squared_weights(case.sizes, case.variances, margin)
        total = sum(weights[each] * case.variances[each] for each in weights)
        assert total == pytest.approx(cell_variance(case.sizes, tau, margin), rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_tables_add_up(seed: int) -> None:
    case = draw_case(seed)
    found = combine(case.sizes, case.measured, case.variances)
    for whole in case.wanted:
        table = found.rebuild(whole)
        for part in list_subsets(whole):
            sums = table.sum(axis=tuple(axis for axis, i in enumerate(whole) if i not in part))
            np.testing.assert_allclose(sums, found.rebuild(part), rtol=1e-9, atol=1e-9 * abs(table).sum())


def test_exact_tables_are_returned_as_they_are() -> None:
    rng, sizes = np.random.default_rng(5), (3, 4, 2, 5)
    truth = rng.integers(0, 10**9, size=sizes)
    margins = [(0, 1), (1, 2, 3), (3,), ()]
    exact = {m: truth.sum(axis=tuple(i for i in range(4) if i not in m)) for m in margins}
    found = combine(sizes, exact, {m: 1.0 + i for i, m in enumerate(margins)})
    for margin in [*margins, (1, 3), (2,)]:
        expected = truth.sum(axis=tuple(i for i in range(4) if i not in margin))
        assert abs(found.rebuild(margin) - expected).max() <= found.rounding_error(margin) < 1e-2
        np.testing.assert_allclose(found.rebuild(margin), expected, rtol=1e-12)


def estimate_exactly(case: Case, margin: Margin) -> np.ndarray[Any, Any]:
    """The estimate in rationals, with the variances taken as the doubles that they are."""
    sizes, kept = case.sizes, drop_single_columns(case.sizes, margin)
    out = np.full([sizes[i] for i in kept], Fraction(0), dtype=object)
    for b in list_subsets(kept):
        total, tau = np.full([sizes[i] for i in b], Fraction(0), dtype=object), Fraction(0)
        for a, table in case.measured.items():
            if set(b) <= set(a):
                share = Fraction(count_cells(sizes, b), count_cells(sizes, a)) / Fraction(case.variances[a])
                exact = np.array([Fraction(int(x)) for x in table.reshape(-1)], dtype=object).reshape(table.shape)
                total = total + share * np.asarray(exact.sum(axis=tuple(k for k, i in enumerate(a) if i not in b)))
                tau += share
        for axis in range(len(b)):
            total = total - np.asarray(total.sum(axis=axis, keepdims=True)) / total.shape[axis]
        part = np.asarray(total / tau * Fraction(count_cells(sizes, b), count_cells(sizes, kept)))
        out = out + part.reshape([sizes[i] if i in b else 1 for i in kept])
    return np.asarray(out).reshape([sizes[i] for i in margin])


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("magnitude", [1, 10**12])
def test_the_rounding_error_is_bounded(seed: int, magnitude: int) -> None:
    drawn = draw_case(seed)
    case = Case(drawn.sizes, {m: table * magnitude + 7 for m, table in drawn.measured.items()}, drawn.variances)
    found = combine(case.sizes, case.measured, case.variances)
    for margin in case.wanted:
        exact, rebuilt = estimate_exactly(case, margin).reshape(-1), found.rebuild(margin).reshape(-1)
        bound = found.rounding_error(margin)
        assert all(abs(Fraction(float(x)) - y) <= Fraction(bound) for x, y in zip(rebuilt, exact, strict=True))
        assert bound <= 1e-9 * max(1.0, max(float(abs(table).sum()) for table in case.measured.values()))


def test_sums_beyond_64_bits_do_not_wrap_around() -> None:
    table = np.full((4, 4), 2**62)
    found = combine((4, 4), {(0, 1): table, (): np.array(2**62)}, {(0, 1): 1.0, (): 1e30})
    assert found.rebuild(()) == pytest.approx(2.0**66, rel=1e-12)


def test_a_table_that_lies_in_no_measured_one_is_refused() -> None:
    found = combine((2, 3), {(0,): np.array([1, 2]), (1,): np.array([1, 1, 1])}, {(0,): 1.0, (1,): 1.0})
    for refused in (
        lambda: found.rebuild((0, 1)),
        lambda: found.rounding_error((0, 1)),
        lambda: cell_variance((2, 3), found.precisions, (0, 1)),
        lambda: squared_weights((2, 3), {(0,): 1.0, (1,): 1.0}, (0, 1)),
    ):
        with pytest.raises(BadParameter, match=r"margin is \(0, 1\): no measured table contains these columns"):
            refused()


def test_a_table_of_precision_zero_measures_nothing() -> None:
    tau = residual_precisions((2, 3), {(0, 1): 0.0, (0,): 2.0})
    assert tau == {(): 1.0, (0,): 2.0, (1,): 0.0, (0, 1): 0.0}
    with pytest.raises(BadParameter, match="no measured table"):
        cell_variance((2, 3), tau, (1,))


@pytest.mark.parametrize(
    ("measured", "variances"),
    [
        ({(0,): np.array([1.5, 2.0])}, {(0,): 1.0}),
        ({(0,): np.array([1, 2, 3])}, {(0,): 1.0}),
        ({(0,): np.array([1, 2])}, {}),
        ({(0,): np.array([1, 2])}, {(0,): 0.0}),
        ({(0,): np.array([1, 2])}, {(0,): float("nan")}),
        ({(0,): np.array([1, 2])}, {(0,): float("inf")}),
        ({(2,): np.array([1, 2])}, {(2,): 1.0}),
    ],
)
def test_wrong_tables_and_variances_are_refused(measured: Any, variances: Any) -> None:
    with pytest.raises(BadParameter):
        combine((2, 3), measured, variances)


# -- mutants ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _wrong_tau(monkeypatch: pytest.MonkeyPatch) -> None:
    """τ that forgets that sums add their noise: every table counts with its whole precision."""
    right = Lattice.averaging.func  # type: ignore[attr-defined]

    def wrong(lattice: Lattice) -> csr_array:
        matrix = right(lattice)
        matrix.data[:] = 1.0
        return matrix

    monkeypatch.setattr(Lattice, "averaging", property(wrong))


@pytest.mark.parametrize("check", [check_estimates, check_covariances, check_squared_weights])
@pytest.mark.usefixtures("_wrong_tau")
def test_a_wrong_weight_of_tau_is_noticed(check: Callable[[Case], None]) -> None:
    with pytest.raises(AssertionError):
        check_all(check)


def test_squared_weights_by_the_recursion_of_variances_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variances of 1 in place of the true ones: these are the weights of another estimate."""
    right = module.squared_weights

    def wrong(sizes: Any, variances: Any, margin: Margin) -> dict[Margin, float]:
        return right(sizes, dict.fromkeys(variances, 1.0), margin)

    monkeypatch.setitem(globals(), "squared_weights", wrong)
    with pytest.raises(AssertionError):
        check_all(check_squared_weights)


def test_the_oracle_sums_cells() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(summing_matrix((2, 3, 4), (0, 2)) @ table.reshape(-1), table.sum(axis=1).reshape(-1))
