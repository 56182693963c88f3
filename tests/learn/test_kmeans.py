"""k-means: what a record adds is bounded exactly and depends on itself alone; the clusters are found."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.learn import KMeans
from discreet.learn.features import HALF
from discreet.learn.kmeans import Lloyd, PublicGrid, find_nearest, find_start
from discreet.learn.records import to_records
from discreet.testing import seeded_bits
from discreet.units import Neighbours
from tests.learn.exact_sums import declare

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

steps = st.one_of(st.sampled_from([-HALF, 0, HALF]), st.integers(-HALF, HALF))


def list_lengths(columns: int, relation: Neighbours) -> dict[str, Any]:
    """How far a model says that one record moves its vectors."""
    model = KMeans(2, epsilon=1, delta=1e-6, bounds=(-1, 1), expected=1_000)
    vectors = declare(model, to_records(np.zeros((1, columns))), relation)[1]
    return {each.name: each.l2_squared for each in vectors}


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(steps, steps, steps), min_size=2, max_size=5),
    centres=st.lists(st.tuples(steps, steps, steps), min_size=2, max_size=2),
)
def test_one_record_moves_a_round_by_no_more_than_is_listed(rows: Any, centres: Any) -> None:
    lloyd, numbers, where = Lloyd(3, 2), np.array(rows, np.int32), np.array(centres, float)

    def sum_round(part: Any) -> Any:
        return lloyd.sum_clusters(part, find_nearest(part.astype(float), where))

    def square(one: Any, other: Any) -> int:
        return sum(int(each) ** 2 for each in (one - other).ravel())

    assert square(sum_round(numbers), sum_round(numbers[1:])) <= list_lengths(3, Neighbours.ADD_REMOVE)["rounds"]
    assert square(sum_round(numbers[1:]), sum_round(numbers[:-1])) <= list_lengths(3, Neighbours.REPLACE)["rounds"]


def test_the_bound_of_a_round_is_attained_and_cells_move_by_one() -> None:
    lloyd, corner = Lloyd(2, 1), np.full((1, 2), HALF, np.int32)
    sums = lloyd.sum_clusters(corner, np.array([0]))
    bound = int(list_lengths(2, Neighbours.ADD_REMOVE)["rounds"])
    assert bound - 4 * HALF < sum(int(each) ** 2 for each in sums.ravel()) <= bound  # κ is rounded down
    moved = (sums - lloyd.sum_clusters(-corner, np.array([0]))).ravel()
    assert sum(int(each) ** 2 for each in moved) == list_lengths(2, Neighbours.REPLACE)["rounds"]
    assert list_lengths(2, Neighbours.ADD_REMOVE)["cells"] == 1
    assert list_lengths(2, Neighbours.REPLACE)["cells"] == 2


@pytest.mark.parametrize("columns", [2, 5, 12])
def test_every_row_is_in_one_cell_wherever_it_stands(columns: int) -> None:
    grid = PublicGrid.choose(columns, 20_000, 10.0)
    numbers = np.random.default_rng(0).integers(-HALF, HALF + 1, (400, columns)).astype(np.int32)
    numbers[:2] = [[-HALF] * columns, [HALF] * columns]
    counts = grid.count_rows(grid.project(numbers))
    assert counts.sum() == 400
    assert counts.shape == (grid.cells,)
    parts = sum(grid.count_rows(grid.project(numbers[at : at + 1])) for at in range(400))
    assert (counts == parts).all(), "each row on its own"


@pytest.mark.parametrize(("columns", "least"), [(2, 1.05), (5, 1.1), (12, 1.2)])
def test_separated_clusters_are_found(columns: int, least: float) -> None:
    generator = np.random.default_rng(1)
    centres = generator.uniform(-3, 3, (4, columns))
    X = (centres[generator.integers(0, 4, 20_000)] + generator.normal(0, 0.4, (20_000, columns))).clip(-5, 5)
    from sklearn.cluster import KMeans as Exact

    best = Exact(4, n_init=5, random_state=0).fit(X).inertia_
    model = KMeans(4, epsilon=2, delta=1e-6, bounds=(-5, 5), expected=20_000).fit(X, bits=seeded_bits(1))
    inertia = ((X - model.cluster_centers_[model.predict(X)]) ** 2).sum()
    assert inertia / best < least


def test_centres_stay_where_they_were_if_noise_says_nothing() -> None:
    """A mutant that trusts every noisy mean would leave the start."""
    lloyd, before = Lloyd(2, 2), np.array([[100.0, 0.0], [-100.0, 0.0]])
    noisy = np.array([[5, HALF, HALF], [5, -HALF, HALF]], np.int64) * 40
    moved = lloyd.move_centres(noisy, before, 1e-3, sigma=1e6 * HALF)
    assert np.abs(moved - before).max() <= 1
    trusted = lloyd.move_centres(noisy * 1000, before, 1e-3, sigma=1.0)
    assert np.abs(trusted - before).max() > 1000


def test_a_start_exists_whatever_the_noise() -> None:
    grid = PublicGrid(2, 2, 4)
    start = find_start(grid, np.full(16, -50, np.int64), 10.0, 20)
    assert start.shape == (20, 2)


def test_more_clusters_than_can_be_found_are_refused() -> None:
    with pytest.raises(BadParameter, match="Take fewer"):
        KMeans(10**9, epsilon=1, delta=1e-6, bounds=[(0, 1)], expected=100).fit(np.zeros((5, 1)))


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(BadParameter, match="expected"):
        KMeans(2, epsilon=1, delta=1e-6, bounds=(0, 1)).fit([[0.5]])
    with pytest.raises(BadParameter, match="n_clusters"):
        KMeans(0, epsilon=1, delta=1e-6, bounds=(0, 1), expected=10).fit([[0.5]])
