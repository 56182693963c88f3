"""Naive Bayes: a record moves the sums by no more than is charged, exactly that in the worst case, and the fit is right."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.learn import BinnedNB, GaussianNB
from discreet.learn.charging import bound_unit
from discreet.learn.naive_bayes import bound_sums, list_sums
from discreet.learn.records import to_records
from discreet.testing import seeded_bits
from discreet.units import Neighbours
from tests.learn.exact_sums import EXTREME, declare, measure_distance, sum_exactly

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

BOUNDS = {"a": (-1, 1), "b": (-1, 1)}
KEYS = {"c": ("x", "y")}
values = st.sampled_from(EXTREME)
records = st.tuples(values, values, st.sampled_from(["x", "y", "z", None]), st.sampled_from([0, 1, 2, None]))


def to_columns(rows: list[Any]) -> tuple[dict[str, list[Any]], list[Any]]:
    """Rows as columns and targets."""
    columns = {name: [row[place] for row in rows] for place, name in enumerate("abc")}
    return columns, [row[3] for row in rows]


def binned() -> BinnedNB:
    """A model of all columns."""
    return BinnedNB(epsilon=1, delta=1e-6, bounds=BOUNDS, categories=KEYS, classes=(0, 1), bins=4)


def gaussian() -> GaussianNB:
    """A model of the numbers."""
    return GaussianNB(epsilon=1, delta=1e-6, bounds=BOUNDS, classes=(0, 1))


def exact(make: Any, rows: list[Any]) -> Any:
    """The sums of rows without noise."""
    X, y = to_columns(rows)
    if make is gaussian:
        del X["c"]
    return sum_exactly(make(), X, y)


def listed(make: Any, relation: Neighbours) -> Any:
    """The vector that a model lists between such neighbours."""
    X, y = to_columns([(0, 0, "x", 0)])
    if make is gaussian:
        del X["c"]
    return declare(make(), to_records(X, y), relation)[1][0]


@pytest.mark.parametrize("make", [binned, gaussian])
@settings(max_examples=60, deadline=None)
@given(others=st.lists(records, max_size=3), one=records, other=records)
def test_one_record_moves_the_sums_by_no_more_than_is_listed(make: Any, others: list[Any], one: Any, other: Any) -> None:
    added, replaced = listed(make, Neighbours.ADD_REMOVE), listed(make, Neighbours.REPLACE)
    without, first, second = exact(make, others), exact(make, [*others, one]), exact(make, [*others, other])
    assert measure_distance(first, without, added.name) <= added.l2_squared
    assert measure_distance(first, second, added.name) <= replaced.l2_squared


def test_the_listed_sensitivity_is_attained_so_nothing_smaller_would_do() -> None:
    corner, opposite = (1.0, 1.0, "x", 0), (-1.0, -1.0, "y", 0)
    for make, relation, pair in [
        (binned, Neighbours.ADD_REMOVE, ([corner], [])),
        (binned, Neighbours.REPLACE, ([corner], [opposite])),
        (gaussian, Neighbours.ADD_REMOVE, ([corner], [])),
        (gaussian, Neighbours.REPLACE, ([corner], [opposite])),
    ]:
        moved = measure_distance(exact(make, pair[0]), exact(make, pair[1]), listed(make, relation).name)
        assert moved == listed(make, relation).l2_squared, (make, relation)


def test_a_unit_with_several_records_moves_the_sums_so_many_times_as_far() -> None:
    for relation in Neighbours:
        assert bound_sums(3, relation, 4) == 16 * bound_sums(3, relation, 1)
        assert bound_unit(3, relation, 4, nonnegative=True) == 16 * bound_unit(3, relation, 1, nonnegative=True)


def test_squares_in_place_of_their_complement_would_exceed_the_bound() -> None:
    """A mutant: n, Σu and Σu², at the sensitivity that holds for Σ(1 − u²)."""
    row = list_sums(np.array([[1 << 15, 1 << 15]], np.int32))[0]
    mutant = row.copy()
    mutant[3:] = (1 << 15) - row[3:]
    bound = bound_sums(2, Neighbours.ADD_REMOVE, 1)
    assert sum(int(each) ** 2 for each in row) <= bound < sum(int(each) ** 2 for each in mutant)


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(records, min_size=2, max_size=8), data=st.data())
def test_the_order_of_records_does_not_matter(rows: list[Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    for make in (binned, gaussian):
        one, other = exact(make, rows), exact(make, shuffled)
        assert all(measure_distance(one, other, name) == 0 for name in one)


def test_a_record_without_a_declared_class_adds_nothing() -> None:
    for make in (binned, gaussian):
        name = listed(make, Neighbours.ADD_REMOVE).name
        assert measure_distance(exact(make, [(1.0, 1.0, "x", 7)]), exact(make, []), name) == 0


@pytest.mark.parametrize("epsilon", [0.5, 3])
def test_both_find_what_scikit_learn_finds(epsilon: float) -> None:
    from sklearn.naive_bayes import GaussianNB as Exact

    generator = np.random.default_rng(1)
    y = generator.integers(0, 3, 20_000)
    X = np.column_stack([y + generator.normal(0, 0.7, 20_000), generator.normal(0, 1, 20_000)]).clip(-4, 5)
    reference = Exact().fit(X, y)
    right = (reference.predict(X) == y).mean()
    for model in (
        GaussianNB(epsilon=epsilon, delta=1e-6, bounds=(-4, 5), classes=(0, 1, 2)),
        BinnedNB(epsilon=epsilon, delta=1e-6, bounds=(-4, 5), classes=(0, 1, 2), bins=24),
    ):
        model.fit(X, y, bits=seeded_bits(3))
        assert (model.predict(X) == y).mean() > right - 0.02
        assert np.allclose(model.predict_proba(X[:10]).sum(axis=1), 1)
        if isinstance(model, GaussianNB):
            assert np.abs(model.theta_ - reference.theta_).max() < 0.3
            assert np.abs(model.var_ - reference.var_).max() < 0.5


def test_gaussian_naive_bayes_refuses_categories_and_classes_must_be_declared() -> None:
    model = GaussianNB(epsilon=1, delta=1e-6, bounds=(0, 1))
    with pytest.raises(BadParameter, match="classes"):
        model.fit([[0.5]], [0])
    with pytest.raises(BadParameter, match="bins"):
        BinnedNB(epsilon=1, delta=1e-6, bounds=(0, 1), classes=(0, 1), bins=0).fit([[0.5]], [0])


def test_replacing_costs_more_noise_than_adding() -> None:
    added, replaced = (
        BinnedNB(epsilon=1, delta=1e-6, bounds={"a": (0, 1)}, classes=(0, 1), neighbours=relation)
        .plan.noises["counts"]
        .sigma
        for relation in ("add-remove", "replace")
    )
    assert abs(float(replaced / added) - 2**0.5) < 1e-4


def test_scores_of_a_row_do_not_depend_on_the_rows_beside_it() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-1, 1, (501, 2)), generator.integers(0, 2, 501)
    model = GaussianNB(epsilon=1, delta=1e-6, bounds=(-1, 1), classes=(0, 1)).fit(X, y, bits=seeded_bits(1))
    whole = model.score_rows(model._declared_features.encode(X))
    for start, stop in [(0, 1), (3, 10), (17, 400)]:
        assert (model.score_rows(model._declared_features.encode(X[start:stop])) == whole[start:stop]).all()
