"""Private metrics: the sensitivity holds, intervals cover, several metrics are one debit."""

import warnings
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter, BudgetExceeded
from discreet.learn import (
    Additive,
    BinnedNB,
    GaussianNB,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Moments,
    release_metrics,
    select,
)
from discreet.learn import metrics as metrics_module
from discreet.learn.features import HALF
from discreet.learn.metrics import (
    SCORE_BINS,
    SCORE_EDGES,
    UNIT,
    Evaluation,
    bound_auc,
    bound_r2,
    bound_share,
    count_right,
    count_scores,
    sum_distances,
    sum_errors,
    sum_losses,
)
from discreet.learn.records import to_records
from discreet.learn.scoring import look_up_losses, to_probabilities
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.testing import seeded_bits
from discreet.units import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")

score = st.one_of(st.sampled_from([0.0, -1e300, 1e300, 1e-300]), st.floats(-30, 30))
row = st.tuples(score, score, st.integers(0, 1))


def square(one: Any, other: Any) -> int:
    """The squared distance of two vectors of integers."""
    return sum(int(each) ** 2 for each in np.ravel(one - other))


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(row, min_size=2, max_size=5))
@pytest.mark.parametrize("count", [count_right, count_scores, sum_losses, sum_distances])
def test_one_record_moves_counts_and_parts_by_one(count: Any, rows: Any) -> None:
    scores, target = np.array([each[:2] for each in rows]), np.array([each[2] for each in rows])
    whole = count(scores, target)
    assert square(whole, count(scores[1:], target[1:])) <= UNIT**2
    assert square(count(scores[1:], target[1:]), count(scores[:-1], target[:-1])) <= 2 * UNIT**2
    assert int(whole.sum()) == len(rows) * UNIT, "every record counts as one"


def test_right_and_total_would_exceed_the_bound() -> None:
    """A mutant: (right, total) in place of (right, wrong)."""
    right = count_right(np.array([[0.0, 1.0]]), np.array([1]))
    mutant = np.array([right[0], right.sum()])
    assert square(right, 0 * right) == UNIT**2 < square(mutant, 0 * mutant)


steps = st.one_of(st.sampled_from([-HALF, 0, HALF]), st.integers(-HALF, HALF))


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(st.tuples(st.floats(-3, 3), steps), min_size=2, max_size=5))
def test_one_record_moves_the_sums_of_r2_by_the_root_of_3_or_5(rows: Any) -> None:
    scores, target = np.array([[each[0]] for each in rows]), np.array([each[1] for each in rows])
    assert square(sum_errors(scores, target), sum_errors(scores[1:], target[1:])) <= 3 * UNIT**2
    assert square(sum_errors(scores[1:], target[1:]), sum_errors(scores[:-1], target[:-1])) <= 5 * UNIT**2


def test_the_bounds_of_r2_are_attained() -> None:
    worst, right = sum_errors(np.array([[-1.0]]), np.array([HALF])), sum_errors(np.array([[-1.0]]), np.array([-HALF]))
    assert square(worst, 0 * worst) == 3 * UNIT**2
    assert square(worst, right) == 5 * UNIT**2


def test_models_list_those_bounds() -> None:
    X, y = np.zeros((4, 1)), np.zeros(4)
    numbers = LinearRegression(epsilon=1, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1), expected=4).fit(X, y)
    evaluation = Evaluation.of(numbers, to_records(X, y), None)
    moved = [evaluation.list_vectors(each)[0].l2_squared for each in (Neighbours.ADD_REMOVE, Neighbours.REPLACE)]
    assert moved == [3 * UNIT**2, 5 * UNIT**2]
    classes = BinnedNB(epsilon=1, delta=1e-6, bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    for name in ("accuracy", "confusion", "auc", "log_loss"):
        evaluation = Evaluation.of(classes, to_records(X, y), [name])
        assert evaluation.list_vectors(Neighbours.ADD_REMOVE)[0].l2_squared == UNIT**2
        assert evaluation.list_vectors(Neighbours.REPLACE)[0].l2_squared == 2 * UNIT**2


@settings(max_examples=50, deadline=None)
@given(scores=st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=5))
def test_losses_are_those_of_the_probabilities(scores: Any) -> None:
    table = np.array(scores)
    target = np.arange(len(table)) % 3
    expected = np.minimum(-np.log(to_probabilities(table)[np.arange(len(table)), target]), 4.0)
    found = look_up_losses(table, target, 4.0, UNIT) * (4.0 / UNIT)
    assert np.abs(found - expected).max() < 0.003


def test_a_loss_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    generator = np.random.default_rng(0)
    scores, target = generator.normal(0, 3, (333, 4)), generator.integers(0, 4, 333)
    whole = look_up_losses(scores, target, 4.0, UNIT)
    for start, stop in [(0, 1), (2, 9), (20, 300)]:
        assert (look_up_losses(scores[start:stop], target[start:stop], 4.0, UNIT) == whole[start:stop]).all()


# Intervals

DRAWS = 400


def count_misses(make: Any, truth: float) -> int:
    """How often an interval misses the truth, over draws of noise."""
    generator = np.random.default_rng(7)
    missed = 0
    for _ in range(DRAWS):
        found = make(generator)
        missed += not found.lower <= truth <= found.upper
    return missed


ALLOWED = 36
"""Of 400 intervals of 95%: more than 36 misses have a probability below 1 in 1,000."""


@pytest.mark.parametrize(("right", "wrong"), [(900, 100), (50, 3), (0, 40), (1, 1)])
def test_intervals_of_shares_cover(right: int, wrong: int) -> None:
    def make(generator: Any, factor: float = 1.0) -> Any:
        noisy = np.rint((np.array([right, wrong]) + generator.normal(0, 5, 2)) * UNIT) / UNIT
        return bound_share(float(noisy[0]), float(noisy[1]), 5.0 * factor, 0.95, (1, 1))

    truth = right / (right + wrong)
    assert count_misses(make, truth) <= ALLOWED
    if right + wrong > 100:
        assert count_misses(lambda generator: make(generator, 0.7), truth) > ALLOWED, "too small a noise is noticed"


def rank_auc(scores: Any, target: Any) -> float:
    """The area under the ROC curve of scores, by all pairs."""
    gap = scores[target == 1][:, None] - scores[target == 0][None]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


@pytest.mark.parametrize("shift", [0.0, 1.0, 4.0])
def test_intervals_of_auc_cover_the_area_of_the_scores_themselves(shift: float) -> None:
    generator = np.random.default_rng(3)
    target = (generator.random(1500) < 0.3).astype(np.int64)
    logits = generator.normal(0, 1.3, 1500) + shift * target
    counts = count_scores(np.column_stack([np.zeros(1500), logits]), target) / UNIT
    truth = rank_auc(logits, target)

    def make(noise: Any) -> Any:
        noisy = np.rint((counts + noise.normal(0, 4, counts.shape)) * UNIT) / UNIT
        return bound_auc(noisy[1], noisy[0], 4.0, 0.95)

    assert count_misses(make, truth) <= ALLOWED
    assert make(np.random.default_rng(0)).upper - make(np.random.default_rng(0)).lower < 0.4


def test_without_noise_the_interval_of_auc_is_what_the_bins_hide() -> None:
    """A mutant that counts pairs of one bin as half would miss scores that all fall into one bin."""
    target = np.array([0, 0, 1, 1])
    for logits in (np.array([0.001, 0.002, 0.003, 0.004]), np.array([0.004, 0.003, 0.002, 0.001])):
        counts = count_scores(np.column_stack([np.zeros(4), logits]), target) / UNIT
        found = bound_auc(counts[1], counts[0], 1e-9, 0.95)
        assert found.lower <= rank_auc(logits, target) <= found.upper
        assert found.value == 0.5


@pytest.mark.parametrize("middle", [0.0, 0.5])
@pytest.mark.parametrize(("slope", "sigma"), [(0.0, 6.0), (0.4, 6.0), (0.4, 30.0), (0.4, 120.0)])
def test_intervals_of_r2_cover(slope: float, sigma: float, middle: float) -> None:
    generator = np.random.default_rng(3)
    x = generator.uniform(-0.9, 0.9, 2000)
    target = np.rint(np.clip(middle + slope * x + generator.normal(0, 0.1, 2000), -1, 1) * HALF).astype(np.int64)
    sums = sum_errors((middle + slope * x)[:, None], target) / UNIT
    y = target / HALF
    truth = 1 - ((y - middle - slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum()

    def make(noise: Any, factor: float = 1.0) -> Any:
        return bound_r2(sums + noise.normal(0, sigma, 4), factor * sigma, 0.95)

    assert count_misses(make, truth) <= ALLOWED
    if slope and sigma < 100:
        assert count_misses(lambda noise: make(noise, 0.6), truth) > ALLOWED, "too small a noise is noticed"


# The whole call


def make_data(n: int = 8000) -> tuple[Any, Any]:
    """Two classes that overlap."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, n)
    return (y + generator.normal(0, 0.6, n))[:, None].clip(-2, 3), y


def test_several_metrics_are_one_debit_and_cover() -> None:
    X, y = make_data()
    model = LogisticRegression(epsilon=2, delta=1e-6, bounds=(-2, 3), classes=(0, 1), expected=4000)
    model.fit(X[:4000], y[:4000], bits=seeded_bits(1))
    account = MemoryAccount(create_budget(1, 1e-6))
    names = ("accuracy", "confusion", "auc", "calibration", "log_loss")
    options: Any = {"metrics": names, "epsilon": 1, "delta": 1e-6, "account": account, "bits": seeded_bits(2)}
    found = release_metrics(model, X[4000:], y[4000:], **options)
    assert account.budget.remaining < 0.001
    assert len(found) == 5
    assert found["accuracy"].lower <= (model.predict(X[4000:]) == y[4000:]).mean() <= found["accuracy"].upper
    logits = model.decision_function(X[4000:])
    assert found["auc"].lower <= rank_auc(logits, y[4000:]) <= found["auc"].upper
    losses = np.minimum(-np.log(model.predict_proba(X[4000:])[np.arange(4000), y[4000:]]), 4)
    assert found["log_loss"].lower - 0.001 <= losses.mean() <= found["log_loss"].upper + 0.001
    cells = np.zeros((2, 2))
    np.add.at(cells, (y[4000:], model.predict(X[4000:])), 1)
    assert (np.abs(found["confusion"].counts - cells) <= 2 * found["confusion"].half_width).all()
    shares = [each.share.value for each in found["calibration"] if each.share.upper - each.share.lower < 0.3]
    assert shares == sorted(shares)
    with pytest.raises(BudgetExceeded):
        release_metrics(model, X, y, **options)


def test_regressions_and_clusters_have_their_metrics() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 10, 6000)
    rows = {"x": x, "y": 2 * x + generator.normal(0, 1, 6000)}
    ridge = Moments(epsilon=2, delta=1e-6, bounds={"x": (0, 10), "y": (-5, 25)}).fit(rows).fit_ridge("y")
    found = release_metrics(ridge, {"x": x}, rows["y"], epsilon=2, delta=1e-6, bits=seeded_bits(1))
    truth = 1 - ((rows["y"] - ridge.predict({"x": x})) ** 2).sum() / ((rows["y"] - rows["y"].mean()) ** 2).sum()
    assert found["r2"].lower <= truth <= found["r2"].upper
    X = np.concatenate([generator.normal(place, 0.2, (3000, 2)) for place in (-1, 1)]).clip(-2, 2)
    clusters = KMeans(2, epsilon=2, delta=1e-6, bounds=(-2, 2), expected=6000).fit(X)
    inertia = release_metrics(clusters, X, epsilon=2, delta=1e-6, bits=seeded_bits(1))["inertia"]
    exact = (((X - clusters.cluster_centers_[clusters.predict(X)]) / 2) ** 2).sum(axis=1).mean()
    assert inertia.lower - 1e-4 <= exact <= inertia.upper + 1e-4


def test_what_a_model_has_not_is_refused_before_any_debit() -> None:
    X, y = make_data(100)
    model = BinnedNB(epsilon=1, delta=1e-6, bounds=(-2, 3), classes=(0, 1, 2)).fit(X, y)
    account = MemoryAccount(create_budget(1, 1e-6))
    for name in ("auc", "r2", "f1"):
        with pytest.raises(BadParameter, match="metrics"):
            release_metrics(model, X, y, metrics=[name], epsilon=1, delta=1e-6, account=account)
    with pytest.raises(BadParameter, match="model"):
        release_metrics(object(), X, y, epsilon=1, delta=1e-6, account=account)
    changed = [name for name, value in vars(model).items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    for name in changed:
        broken = deepcopy(model)
        getattr(broken, name)[...] = np.nan
        with pytest.raises(BadParameter, match=f"model is changed: {name} holds NaN"):
            release_metrics(broken, X, y, epsilon=1, delta=1e-6, account=account)
    assert changed
    assert account.budget.remaining == account.budget.limit


def test_the_bins_of_scores_are_public_and_symmetric() -> None:
    assert len(SCORE_EDGES) == SCORE_BINS - 1
    assert np.allclose(SCORE_EDGES, -SCORE_EDGES[::-1])
    assert (np.diff(SCORE_EDGES) > 0).all()
    assert metrics_module.MAX_LOSS == 4.0


def test_all_that_was_paid_for_is_printed() -> None:
    X, y = make_data(3000)
    model = BinnedNB(epsilon=1, delta=1e-6, bounds=(-2, 3), classes=(0, 1)).fit(X, np.minimum(y, 1))
    names = ("accuracy", "confusion", "calibration")
    found = release_metrics(model, X, np.minimum(y, 1), metrics=names, epsilon=1, delta=1e-6, bits=seeded_bits(1))
    assert all(f"{name}=" in repr(found) for name in names)
    assert "±" in repr(found)


# Which models are handed private rows


class Peeking:
    """A foreign predictor: keeps the rows, or raises an error for one of them."""

    features = target = None

    def score_rows(self, design: Any) -> Any:
        raise AssertionError("private rows were handed to another's code")


def test_no_other_code_is_handed_private_rows() -> None:
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    model = BinnedNB(epsilon=1, delta=1e-6, bounds=[(-1, 1)], classes=(0, 1)).fit(X, y, bits=seeded_bits(1))

    class Heir(BinnedNB):
        score_rows = Peeking.score_rows

    heir = Heir(epsilon=1, delta=1e-6, bounds=[(-1, 1)], classes=(0, 1))
    heir.__dict__.update(vars(model))
    replaced = BinnedNB(epsilon=1, delta=1e-6, bounds=[(-1, 1)], classes=(0, 1))
    replaced.__dict__.update(vars(model), score_rows=Peeking().score_rows)
    disguised = type("BinnedNB", (Peeking,), {"__module__": "discreet.learn.naive_bayes"})()
    account = MemoryAccount(create_budget(10, 1e-6))
    foreign: Any
    for foreign in (Peeking(), heir, replaced, disguised):
        with pytest.raises(BadParameter, match="not a model of discreet"):
            release_metrics(foreign, X, y, epsilon=1, delta=1e-6, account=account)
        with pytest.raises(BadParameter, match="not a model of discreet"):
            select([foreign], X, y, epsilon=3, delta=1e-6)
    assert account.budget.spent == 0
    assert "accuracy" in release_metrics(model, X, y, epsilon=1, delta=1e-6, account=account)


# Models that were changed after their fit


class Spying:
    """Hands on what it is asked for, and keeps what it is given."""

    def __init__(self, honest: Any) -> None:
        self.honest = honest

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("private rows were handed to another's code")


class SpyingArray(np.ndarray):  # type: ignore[type-arg]
    """An array that sees what it is added to."""


def fit_for_metrics() -> list[Any]:
    """One fitted model of each kind that has metrics, on one number from −1 to 1 and one category."""
    generator = np.random.default_rng(3)
    X = {"x": generator.uniform(-1, 1, 80), "k": generator.choice(["a", "b"], 80)}
    y, both = (X["x"] > 0).astype(int), {"bounds": {"x": (-1, 1)}, "categories": {"k": ("a", "b")}}
    paid: Any = {"epsilon": 5, "delta": 1e-6}
    return [
        LogisticRegression(**paid, **both, classes=(0, 1), expected=80).fit(X, y),
        Additive(**paid, **both, classes=(0, 1), expected=80).fit(X, y),
        LinearRegression(**paid, **both, target_bounds=(-1, 1), expected=80).fit(X, X["x"]),
        BinnedNB(**paid, **both, classes=(0, 1)).fit(X, y),
        GaussianNB(**paid, bounds={"x": (-1, 1)}, classes=(0, 1)).fit({"x": X["x"]}, y),
        KMeans(2, **paid, bounds={"x": (-1, 1)}, expected=80).fit({"x": X["x"]}),
    ]


KEPT = ["_weights", "_merged", "_layout", "_tables", "_means", "_variances", "_centres", "class_log_prior_", "class_prior_"]


def list_parts(model: Any) -> list[str]:
    return [name for name in KEPT if name in vars(model)]


def score_rows_of(model: Any, account: Any, **columns: Any) -> Any:
    """Release the metrics of a model on two records, or on those that are given."""
    columns = columns or {"x": [0.5, -0.5], "k": ["a", "other"]}
    names = [str(name) for name in model._declared_features.names]
    y = None if isinstance(model, KMeans) else [0] * len(columns["x"])
    return release_metrics(model, {name: columns[name] for name in names}, y, epsilon=1, delta=1e-6, account=account)


def test_nothing_of_another_class_sees_rows() -> None:
    account = MemoryAccount(create_budget(100, 1e-3))
    for model in fit_for_metrics():
        assert score_rows_of(model, account)
        spent = account.budget.spent
        assert list_parts(model)
        for name in list_parts(model):
            honest = getattr(model, name)
            arrays = [honest] if isinstance(honest, np.ndarray) else honest if isinstance(honest, list) else []
            for foreign in (Spying(honest), [each.view(SpyingArray) for each in arrays] or Spying(honest)):
                changed = copy(model)
                vars(changed)[name] = foreign
                with pytest.raises(BadParameter, match="not a model of discreet"):
                    score_rows_of(changed, account)
        for method in ("score_rows", "_require_fitted", "_release"):
            changed = copy(model)
            vars(changed)[method] = Spying(None)
            with pytest.raises(BadParameter, match="not a model of discreet"):
                score_rows_of(changed, account)
        assert account.budget.spent == spent


def test_candidates_with_a_method_of_their_own_see_no_rows() -> None:
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    model = BinnedNB(epsilon=1, delta=1e-6, bounds=[(-1, 1)], classes=(0, 1))
    vars(model)["_release"] = Spying(None)
    with pytest.raises(BadParameter, match="not a model of discreet"):
        select([model], X, y, epsilon=3, delta=1e-6)


def cut(value: Any) -> Any:
    """Leave out the last of each table: rows that fall there have no score."""
    return [each[:-1] for each in value] if isinstance(value, list) else value[..., :-1]


def test_tables_that_were_cut_off_are_refused_whatever_the_rows() -> None:
    """An error after the debit would tell whether some record falls into what is missing."""
    account = MemoryAccount(create_budget(100, 1e-3))
    for model in fit_for_metrics():
        for name in list_parts(model):
            if name in ("_merged", "_layout"):
                continue
            changed = copy(model)
            vars(changed)[name] = cut(getattr(model, name))
            for keys in (["a", "a"], ["a", "other"]):
                with pytest.raises(BadParameter, match="changed"):
                    score_rows_of(changed, account, x=[0.1, 0.2], k=keys)
    assert account.budget.spent == 0


@pytest.mark.parametrize("size", [1e160, 1e308, np.inf])
def test_no_weights_move_a_metric_further_or_raise(size: float) -> None:
    """Weights may be so large that the score of one row is no number: of those that have the value 0, or another."""
    for model in fit_for_metrics():
        changed = copy(model)
        for name in list_parts(model):
            value = getattr(model, name)
            if isinstance(value, np.ndarray):
                vars(changed)[name] = np.resize([size, -size, size], value.shape)
            elif isinstance(value, list):
                vars(changed)[name] = [np.resize([size, -size], each.shape) for each in value]
        names = [str(each) for each in model._declared_features.names]
        for odd in (0.0, 1.0, -1.0, 0.5):
            seen = []
            for extra in ([], [odd]):
                columns = {"x": [0.25, -0.75, *extra], "k": ["a", "b", *["other" for _ in extra]]}
                y = None if isinstance(model, KMeans) else [0] * len(columns["x"])
                evaluation = Evaluation.of(changed, to_records({name: columns[name] for name in names}, y), None)
                noises: Any = {name: Recording() for name in evaluation.vectors}
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    evaluation.release(evaluation.records.read(evaluation.features, evaluation.target), noises, None)  # type: ignore[arg-type]
                seen.append({name: each.given for name, each in noises.items()})
            for vector in evaluation.list_vectors(Neighbours.ADD_REMOVE):
                assert square(seen[0][vector.name], seen[1][vector.name]) <= vector.l2_squared


class Recording:
    """In the place of noise: keeps the exact sums."""

    def release(self, sums: Any, bits: Any) -> Any:
        self.given = sums.astype(object)
        return sums
