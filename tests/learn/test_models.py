"""Models: what they cost, what their error bars mean, and that they learn."""

import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.gdp import mu_squared
from discreet.errors import BadParameter
from discreet.events import GaussianEvent
from discreet.learn import Additive, LinearRegression, LogisticRegression, RepeatedFit, Ridge, descent
from discreet.learn.charging import make_terms, plan_fit
from discreet.learn.estimator import NotFitted
from discreet.learn.records import to_records
from discreet.mechanisms.gaussian import exact_mu
from discreet.noise import SYSTEM
from discreet.testing import seeded_bits

DECLARED: dict[str, Any] = {"bounds": {"age": (0, 100)}, "categories": {"dept": ("a", "b", "c")}, "expected": 4000}


def make_people(n: int = 4000, seed: int = 1) -> tuple[dict[str, Any], Any, Any]:
    """Return features, a class and a number that depend on them."""
    rng = np.random.default_rng(seed)
    X = {"age": rng.uniform(0, 100, n), "dept": rng.choice(["a", "b", "c"], n)}
    score = (X["age"] - 50) / 10 + 2 * (X["dept"] == "a")
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return X, y, X["age"] / 2 + 10 * (X["dept"] == "b") + rng.normal(size=n) * 3


def make_model(kind: type, **more: Any) -> Any:
    target: dict[str, Any] = (
        {"classes": ("no", "yes")} if kind in (LogisticRegression, Additive) else {"target_bounds": (0, 70)}
    )
    return kind(**({"epsilon": 1, "delta": 1e-6} | DECLARED | target | more))


ALL = [LogisticRegression, LinearRegression, Ridge, Additive]


# The cost


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_a_fit_costs_what_is_asked_for_and_hardly_less(kind: type, neighbours: str, epsilon: float) -> None:
    plan = make_model(kind, epsilon=epsilon, neighbours=neighbours).plan
    exact = Fraction(str(epsilon))
    found = certified(plan.event, Fraction(1, 10**6))
    assert found.upper <= exact
    assert found.lower >= exact * Fraction(9999, 10000)
    assert float(mu_squared(plan.event)) == pytest.approx(float(exact_mu(exact, Fraction(1, 10**6))) ** 2, rel=1e-4)


@pytest.mark.parametrize("kind", ALL)
def test_replacing_needs_twice_the_noise_of_adding(kind: type) -> None:
    one, two = make_model(kind).plan, make_model(kind, neighbours="replace").plan
    assert two.noises["gradients"].sigma == pytest.approx(2 * one.noises["gradients"].sigma, rel=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_the_event_is_known_before_any_row_is_read(kind: type) -> None:
    X, y, number = make_people(200)
    model = make_model(kind)
    before = model.plan.event
    model.fit(X, y if kind in (LogisticRegression, Additive) else number)
    assert model.event_ == before
    assert all(isinstance(part, GaussianEvent) for part, _ in before.parts)
    assert model.cost_.to_dict()["epsilon"]["upper"] <= 1


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("kind", ALL)
def test_empty_and_tiny_data_are_fitted_like_any_other(kind: type, rows: int) -> None:
    X, y, number = make_people(rows)
    model = make_model(kind).fit(X, y if kind in (LogisticRegression, Additive) else number)
    assert len(model.predict(make_people(3)[0])) == 3
    assert model.event_ == make_model(kind).plan.event


def test_shares_of_a_budget_are_never_more_than_it() -> None:
    model = make_model(LogisticRegression)
    vectors = model._list_vectors(model._declare(None))
    with pytest.raises(AssertionError, match="exceed"):
        plan_fit([*vectors, *vectors], make_terms(1, 1e-6, None), None)


# Fits without an account


def test_a_second_fit_warns_with_the_sum() -> None:
    X, y, _ = make_people(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(LogisticRegression).fit(X, y)
    with pytest.warns(RepeatedFit, match=r"release 2 .* without an account .* ε = 1\.4\d* at δ = 2e-6") as caught:
        make_model(LogisticRegression).fit(X, y)
    assert "test_models" in caught[0].filename
    with pytest.warns(RepeatedFit, match="release 3"):
        make_model(LogisticRegression).fit(X, y)


def test_two_fits_on_the_same_rows_draw_other_noise() -> None:
    X, y, _ = make_people(100)
    one = make_model(LogisticRegression).fit(X, y).coef_
    with pytest.warns(RepeatedFit):
        assert not np.array_equal(one, make_model(LogisticRegression).fit(X, y).coef_)


def test_seeded_bits_can_be_repeated_and_say_so() -> None:
    X, y, _ = make_people(100)
    one = make_model(LogisticRegression).fit(X, y, bits=seeded_bits(3))
    with pytest.warns(RepeatedFit):
        two = make_model(LogisticRegression).fit(X, y, bits=seeded_bits(3))
    assert np.array_equal(one.coef_, two.coef_)
    assert one._fitted.tainted


# What is learnt


def test_models_learn() -> None:
    X, y, number = make_people(6000)
    test, labels, numbers = make_people(2000, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFit)
        for kind in (LogisticRegression, Additive):
            assert (
                make_model(kind).fit(X, y).predict(test) == labels
            ).mean() > 0.83  # no rule is right more often than 0.856
        for kind in (LinearRegression, Ridge):
            off = make_model(kind).fit(X, number).predict(test) - numbers
            assert 1 - (off**2).mean() / numbers.var() > 0.9
        additive = Additive(epsilon=1, delta=1e-6, **DECLARED, target_bounds=(0, 70)).fit(X, number)
        assert 1 - ((additive.predict(test) - numbers) ** 2).mean() / numbers.var() > 0.9


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    X, _, number = make_people(6000)
    model = make_model(LinearRegression, epsilon=5).fit(X, number)
    assert model.coef_names_ == ("age", "dept=a", "dept=b", "dept=c", "dept=other")
    assert model.coef_[0] == pytest.approx(0.5, abs=0.03)
    assert model.coef_[2] - model.coef_[1] == pytest.approx(10, abs=1.5)
    row = {"age": [30.0], "dept": ["b"]}
    assert model.predict(row)[0] == pytest.approx(model.intercept_ + 30 * model.coef_[0] + model.coef_[2], rel=1e-4)


def test_probabilities_add_up_over_declared_classes() -> None:
    X, y, _ = make_people(500)
    classes = ("yes", "no", "never")
    model = make_model(LogisticRegression, classes=classes).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (500, 3)
    assert np.allclose(found.sum(axis=1), 1)
    assert [*model.classes_] == [*classes]
    assert {*model.predict(X)} <= {*classes}


def test_curves_have_a_value_and_an_error_for_each_bin() -> None:
    X, y, _ = make_people()
    model = make_model(Additive).fit(X, y)
    age, dept = model.curves_["age"], model.curves_["dept"]
    assert age.lower[0] == 0
    assert age.upper[-1] == 100
    assert age.lower[1:] == age.upper[:-1]
    assert age.values[-1, 0] - age.values[0, 0] > 3
    assert dept.keys == ("a", "b", "c", "other")
    assert (age.errors > 0).all()
    assert model.chart("age").to_json()
    assert "key" in model.chart("dept").to_json()
    row = {"age": [0.0], "dept": ["a"]}
    parts = model.intercept_ + age.values[0, 0] + dept.values[0, 0]
    assert model.decision_function(row)[0] == pytest.approx(parts)
    with pytest.raises(BadParameter, match="not a column of the model"):
        model.chart("pay")


def test_error_bars_are_those_of_the_noise_given_the_path() -> None:
    """Against the exact sums at the same released weights: the distances, over their errors, have variance 1."""
    X, _, number = make_people(300)
    model = make_model(LinearRegression, steps=12, epsilon=2)
    records = to_records(X, number)
    declared = model._declare(records)
    plan = model._plan(declared, model._list_vectors(declared))
    rows = records.read(declared.features, declared.target)
    run, sigma = model._make_descent(declared), float(plan.noises["gradients"].sigma)
    prepared, squares = descent.IntegerRows.of(rows), []
    for _ in range(150):
        released = run.release(rows, plan.noises, SYSTEM)
        sums = run.read_sums(released, plan.noises)
        noisy, exact = (descent.Path(run, sums, sigma) for _ in range(2))
        standard = prepared.standardise(noisy.outline.middles, noisy.outline.widths)
        for gradient in released["gradients"]:
            exact.advance(noisy.sum_gradients(standard))
            noisy.advance(gradient)
        squares.append(((noisy.average[0] - exact.average[0]) / noisy.errors) ** 2)
    means = np.mean(squares, axis=0)
    assert means.shape == (6,)
    assert ((means > 0.55) & (means < 1.6)).all()  # 150 draws: 5 standard deviations of a χ² mean
    assert 0.8 < means.mean() < 1.2


# What is refused, before any charge


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": None}, "delta is missing"),
        ({"delta": 0}, "no pure ε"),
        ({"bounds": None, "categories": None}, "never read off the data"),
        ({"classes": None}, "classes is missing"),
        ({"classes": ("one",)}, "needs two"),
        ({"expected": None}, "expected is missing"),
        ({"expected": 0}, "expected"),
        ({"bounds": {"age": (3, 1)}}, "lower bound must lie below"),
        ({"bounds": {"age": (0, 1), "dept": (0, 1)}}, "Declare it once"),
        ({"bounds": {"years": (0, 1)}}, "no such column"),
        ({"categories": {}}, "not declared"),
        ({"categories": {"dept": "abc"}}, "not a list of keys"),
        ({"categories": {"dept": ("a", "a")}}, "listed twice"),
        ({"steps": 0}, "steps"),
        ({"steps": 10**6}, "at most"),
        ({"clip": -1}, "clip"),
        ({"clip": 1000}, "grid"),
        ({"neighbours": "nobody"}, "no such relation"),
        ({"account": "hr"}, "neither a session nor an account"),
    ],
)
def test_wrong_declarations_are_refused_before_a_charge(more: dict[str, Any], words: str) -> None:
    X, y, _ = make_people(10)
    model = make_model(LogisticRegression, **more)
    with pytest.raises(BadParameter, match=words):
        model.fit(X, y)
    make_model(LogisticRegression).fit(X, y)  # the first of this process: nothing was charged before


def test_tables_of_a_wrong_form_are_refused() -> None:
    X, y, _ = make_people(10)
    model = make_model(LogisticRegression)
    with pytest.raises(BadParameter, match="y is None"):
        model.fit(X)
    with pytest.raises(BadParameter, match="each row has one target"):
        model.fit(X, y[:5])
    with pytest.raises(BadParameter, match="different lengths"):
        model.fit({**X, "age": X["age"][:3]}, y)
    with pytest.raises(BadParameter, match="a single value"):
        model.fit({"age": 5, "dept": "a"}, y)
    with pytest.raises(BadParameter, match="grid"):
        make_model(LogisticRegression, bounds={"age": (0, 5e-324)}).fit(X, y)
    with pytest.raises(BadParameter, match="an array has no column names"):
        model.fit(np.zeros((10, 2)), y)
    with pytest.raises(BadParameter, match="1D array"):
        make_model(LogisticRegression, bounds=(0, 1), categories=None).fit(np.zeros(10), y)
    for name in ("sample_weight", "random_state", "warm_start"):
        with pytest.raises(BadParameter, match=name):
            model.fit(X, y, **{name: 1})
    with pytest.raises(TypeError, match="unexpected"):
        model.fit(X, y, speed=1)


def test_no_value_raises_once_it_is_paid() -> None:
    wild = [float("nan"), None, "text", 2**70, object(), [], {}, b"x", 1e400, complex(1, 1)]
    X = {"age": wild, "dept": wild}
    for kind in ALL:
        model = make_model(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepeatedFit)
            model.fit(X, wild)
        assert (
            np.isfinite(model.predict({"age": [1], "dept": ["a"]}).astype(float)).all() if kind is LinearRegression else True
        )


def test_scores_and_predictions_before_a_fit_are_refused() -> None:
    X, y, _ = make_people(10)
    model = make_model(LogisticRegression)
    with pytest.raises((NotFitted, ValueError), match="not fitted"):
        model.predict(X)
    with pytest.raises(BadParameter, match=r"discreet\.learn\.release_metrics"):
        model.score(X, y)


def test_a_stored_model_predicts_and_has_no_account() -> None:
    X, y, _ = make_people(100)
    model = make_model(LogisticRegression).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert "epsilon=1" in repr(again)


def test_mistakes_in_names_get_a_hint_that_can_be_followed() -> None:
    rows = {"age": [20, 30, 40], "sex": ["F", "M", "F"]}
    declared: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "classes": (0, 1), "expected": 3}
    wrong = LogisticRegression(bounds={"agee": (0, 100)}, categories={"sex": ("F", "M")}, **declared)
    with pytest.raises(BadParameter, match=r"the data has no such column\. Did you mean `age`\?$"):
        wrong.fit(rows, [0, 1, 0])
    fitted = LogisticRegression(bounds={"age": (0, 100)}, categories={"sex": ("F", "M")}, **declared).fit(rows, [0, 1, 0])
    with pytest.raises(BadParameter, match="fitted on: `age`, `sex`"):
        fitted.predict({"age": [20]})
    with pytest.raises(BadParameter, match="release_metrics"):
        fitted.score(rows, [0, 1, 0])
