"""Moments: the sensitivity holds and is attained, sums are exact, and what follows from them is what exact moments give."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.events import NO_EVENT
from discreet.learn import PCA, Moments, StandardScaler
from discreet.learn.features import HALF
from discreet.learn.moments import UNIT, MomentLayout, bound_products, choose_penalty
from discreet.learn.records import to_records
from discreet.testing import seeded_bits
from discreet.units import Neighbours
from tests.learn.exact_sums import EXTREME, declare, measure_distance, sum_exactly

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

BOUNDS = {"a": (-1, 1), "b": (-1, 1), "e": (-1, 1)}
KEYS = {"c": ("x", "y"), "d": ("u", "v", "w")}
values = st.one_of(st.sampled_from(EXTREME), st.floats(-1, 1))
records = st.tuples(values, values, values, st.sampled_from(["x", "y", "z", None]), st.sampled_from(["u", "v", "w", 1]))


def make() -> Moments:
    """Moments of numbers and categories."""
    return Moments(epsilon=1, delta=1e-6, bounds=BOUNDS, categories=KEYS)


def exact(rows: list[Any]) -> Any:
    """The moments of rows without noise."""
    return sum_exactly(make(), {name: [row[place] for row in rows] for place, name in enumerate("abecd")})


@settings(max_examples=80, deadline=None)
@given(others=st.lists(records, max_size=3), one=records, other=records)
def test_one_record_moves_the_moments_by_no_more_than_is_listed(others: list[Any], one: Any, other: Any) -> None:
    without, first, second = exact(others), exact([*others, one]), exact([*others, other])
    assert measure_distance(first, without, "products") <= bound_products(5, Neighbours.ADD_REMOVE)
    assert measure_distance(first, second, "products") <= bound_products(5, Neighbours.REPLACE)


def test_the_model_lists_the_bound_and_it_is_attained() -> None:
    columns = {key: [0] for key in "abecd"}
    for relation in Neighbours:
        listed = declare(make(), to_records(columns), relation)[1][0]
        assert listed.l2_squared == bound_products(5, relation)
    assert measure_distance(exact([(1, 1, 1, "x", "u")]), exact([]), "products") == bound_products(5, Neighbours.ADD_REMOVE)


def test_replacing_comes_near_its_bound_for_numbers() -> None:
    """Three numbers, z = (1, −1, −1): 2N + F − 1 = 16 is attained, so the √2 of non-negative sums would be a mutant."""
    bounds = {"a": (-1, 1), "b": (-1, 1), "e": (-1, 1)}
    model = Moments(epsilon=1, delta=1e-6, bounds=bounds)
    one, other = ({"a": [1], "b": [1], "e": [1]}, {"a": [1], "b": [-1], "e": [-1]})
    moved = measure_distance(sum_exactly(model, one), sum_exactly(model, other), "products")
    assert moved == bound_products(3, Neighbours.REPLACE) == 16 * UNIT**2
    assert moved > 2 * bound_products(3, Neighbours.ADD_REMOVE)


def test_the_plain_upper_triangle_would_exceed_the_bound() -> None:
    """A mutant: u² in place of 1 − u² on the diagonal."""
    layout = MomentLayout(make()._declare(to_records({key: [1] for key in "abecd"})).features)
    row = exact([(1, 1, 1, "x", "u")])["products"]
    mutant = row.copy()
    lines, columns = layout.entries
    numbers = (lines == columns) & (lines >= 1) & (lines <= 3)
    mutant[numbers] = UNIT - row[numbers]
    square = sum(int(each) ** 2 for each in mutant)
    assert square == bound_products(5, Neighbours.ADD_REMOVE) + 3 * UNIT**2


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(records, min_size=1, max_size=6), data=st.data())
def test_moments_are_those_of_python_integers_in_any_order(rows: list[Any], data: st.DataObject) -> None:
    features = make()._declare(to_records({key: [0] for key in "abecd"})).features
    design = features.encode({name: [row[place] for row in rows] for place, name in enumerate("abecd")})
    matrix = [[int(each) for each in line] for line in design.to_matrix(np.int64)]
    for line in matrix:
        line[0] = HALF
        line[4:] = [each // 2 for each in line[4:]]
    lines, columns = MomentLayout(features).entries
    expected = []
    for i, k in zip(lines, columns, strict=True):
        square = sum(line[i] * line[k] for line in matrix)
        expected.append(len(matrix) * UNIT - square if i == k and 1 <= i <= 3 else square)
    assert exact(rows)["products"].tolist() == expected
    assert exact(data.draw(st.permutations(rows)))["products"].tolist() == expected


def make_rows(n: int = 30_000) -> dict[str, Any]:
    """Rows with a known regression."""
    generator = np.random.default_rng(0)
    age, key = generator.uniform(20, 60, n), generator.integers(0, 2, n)
    pay = 1000 + 50 * age + 400 * key + generator.normal(0, 200, n)
    return {"age": age, "pay": pay, "sex": np.where(key, "F", "M")}


def fit_moments(epsilon: float = 3) -> Moments:
    """Noisy moments of these rows."""
    bounds, keys = {"age": (20, 60), "pay": (0, 6000)}, {"sex": ("F", "M")}
    return Moments(epsilon=epsilon, delta=1e-6, bounds=bounds, categories=keys).fit(make_rows(), bits=seeded_bits(1))


def test_regressions_of_any_target_follow_from_one_release() -> None:
    moments, rows = fit_moments(), make_rows()
    pay = moments.fit_ridge("pay")
    assert abs(pay.coef_[0] - 50) < 1.5
    assert abs((pay.coef_[1] - pay.coef_[2]) - 400) < 40
    predicted = pay.predict({"age": rows["age"], "sex": rows["sex"]})
    assert 1 - ((rows["pay"] - predicted) ** 2).mean() / rows["pay"].var() > 0.85
    alone = moments.fit_ridge("age", ["pay"])
    exact_slope = np.cov(rows["age"], rows["pay"])[0, 1] / rows["pay"].var()
    assert abs(alone.coef_[0] / exact_slope - 1) < 0.05
    assert alone.coef_.shape == (1,)
    assert np.isclose(alone.predict({"pay": [2500.0]})[0], alone.intercept_ + alone.coef_[0] * 2500, atol=0.1)


def test_a_penalty_is_the_least_that_lifts_the_matrix_above_the_noise() -> None:
    assert choose_penalty(np.eye(3), 1e-9) == 0
    lifted = np.diag([1.0, -0.2]) + choose_penalty(np.diag([1.0, -0.2]), 0.1) * np.eye(2)
    assert np.linalg.eigvalsh(lifted)[0] > 0.1
    assert fit_moments(0.05).fit_ridge("pay").penalty >= 0


def test_covariance_means_and_size_are_near_and_positive() -> None:
    moments, rows = fit_moments(), make_rows()
    assert abs(moments.size_ - 30_000) < 200
    assert np.abs(moments.means_ / [rows["age"].mean(), rows["pay"].mean()] - 1).max() < 0.01
    expected = np.cov(rows["age"], rows["pay"])
    assert np.abs(moments.covariance() / expected - 1).max() < 0.05
    assert np.linalg.eigvalsh(fit_moments(0.01).covariance())[0] >= -1e-6


def test_components_are_those_of_the_exact_covariance_and_free_from_moments() -> None:
    from sklearn.decomposition import PCA as Exact  # noqa: N811

    generator = np.random.default_rng(0)
    X = (generator.normal(0, 1, (20_000, 4)) @ generator.normal(0, 1, (4, 4))).clip(-6, 6)
    reference = Exact(2).fit(X)
    model = PCA(2, epsilon=1, delta=1e-6, bounds=(-6, 6)).fit(X, bits=seeded_bits(2))
    overlap = np.linalg.svd(model.components_ @ reference.components_.T)[1]
    assert overlap.min() > 0.99
    assert np.abs(model.explained_variance_ / reference.explained_variance_ - 1).max() < 0.05
    assert model.transform(X).shape == (20_000, 2)
    back = model.inverse_transform(model.transform(X))
    assert ((X - back) ** 2).sum() / ((X - X.mean(0)) ** 2).sum() < 1.02 * (
        1 - reference.explained_variance_ratio_.sum()
    ) + 0.01
    moments = Moments(epsilon=1, delta=1e-6, bounds=(-6, 6)).fit(X, bits=seeded_bits(2))
    free = PCA.from_moments(moments, 2)
    assert np.allclose(free.components_, model.components_), "the same noise and the same release"
    assert free.event_ == moments.event_
    with pytest.raises(BadParameter, match="n_components"):
        PCA(5, epsilon=1, delta=1e-6, bounds=(-6, 6)).fit(X)


def test_scaling_by_bounds_is_free_and_by_sums_is_charged() -> None:
    X = np.random.default_rng(0).normal(40, 5, (20_000, 1)).clip(0, 100)
    free = StandardScaler(bounds=[(0, 100)]).fit(X)
    assert free.event_ == NO_EVENT
    assert free.cost is None
    assert not hasattr(free, "cost_")
    assert free.transform([[0], [50], [100], [1e9]]).ravel().tolist() == [-1, 0, 1, 1]
    priced = StandardScaler(epsilon=1, delta=1e-6, bounds=[(0, 100)]).fit(X, bits=seeded_bits(1))
    assert abs(priced.mean_[0] - 40) < 0.2
    assert abs(priced.scale_[0] - 5) < 0.5
    assert priced.event_ != NO_EVENT
    low, high = priced.bounds_[0]
    assert np.isclose(priced.transform([[0]])[0, 0], low)
    assert np.isclose(priced.transform([[100]])[0, 0], high)
    assert np.allclose(priced.inverse_transform(priced.transform([[33.0]])), 33, atol=0.01)


def test_a_scaler_and_components_work_in_a_pipeline() -> None:
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    X = np.random.default_rng(0).normal(0, 1, (500, 3)).clip(-4, 4)
    line = make_pipeline(StandardScaler(bounds=(-4, 4)), PCA(2, epsilon=1, delta=1e-6, bounds=(-1, 1)))
    assert line.fit(X).transform(X).shape == (500, 2)
    with pytest.raises(BadParameter, match="account is missing"):
        clone(line).fit(X)


def test_unknown_targets_and_too_many_columns_are_refused() -> None:
    moments = fit_moments()
    with pytest.raises(BadParameter, match="target"):
        moments.fit_ridge("pey")
    with pytest.raises(BadParameter, match="features"):
        moments.fit_ridge("pay", ["pay"])
    keys = {"c": tuple(range(2_500))}
    with pytest.raises(BadParameter, match="categories"):
        Moments(epsilon=1, delta=1e-6, categories=keys).fit({"c": [1]})
