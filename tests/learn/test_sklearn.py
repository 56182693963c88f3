"""scikit-learn's conventions: its own checks, with the list of those that a private model cannot pass and why."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from discreet.errors import BadParameter
from discreet.learn import Additive, LinearRegression, LogisticRegression, RepeatedFit, Ridge
from discreet.session.connect import connect

NOISE = "two fits draw different noise, and their predictions differ"
VALUES = "no value of a record may raise an error: it would tell that the record has it"
CLASSES = "classes are declared, never read off the data"
SCORE = "an exact score is not private, and is refused"
EVERY = {
    "check_fit_score_takes_y": SCORE,
    "check_n_features_in_after_fitting": SCORE,
    "check_estimators_empty_data_messages": "the number of rows is private: no rows are fitted like any others",
    "check_supervised_y_no_nan": VALUES,
    "check_fit_idempotent": NOISE,
    "check_supervised_y_2d": "a column of targets is taken as it is: scikit-learn's warning is left out, and " + NOISE,
}
CLASSIFIER = {
    "check_classifiers_classes": CLASSES,
    "check_classifiers_train": CLASSES,
    "check_classifiers_regression_target": VALUES,
    "check_classifiers_one_label": CLASSES,
    "check_classifier_data_not_an_array": NOISE,
    "check_classifiers_one_label_sample_weights": "weights are refused",
}
REGRESSOR = {
    "check_regressors_train": NOISE,
    "check_regressors_int": NOISE,
    "check_regressor_data_not_an_array": NOISE,
}
SHARED: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "bounds": (-10, 10), "expected": 100}
MODELS: list[tuple[Any, dict[str, str]]] = [
    (LogisticRegression(**SHARED, classes=(0, 1)), CLASSIFIER),
    (Additive(**SHARED, classes=(0, 1)), CLASSIFIER),
    (Additive(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
    (LinearRegression(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
    (Ridge(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
]


@pytest.mark.parametrize(("model", "own"), MODELS)
def test_scikit_learns_own_checks(model: Any, own: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=EVERY | own)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
    assert sum(each["status"] == "passed" for each in found) >= 34


def make_data(n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-10, 10, (n, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_kinds_and_clones() -> None:
    for model, own in MODELS:
        assert is_classifier(model) == (own is CLASSIFIER)
        assert is_regressor(model) == (own is REGRESSOR)
        copied = clone(model)
        assert copied is not model
        assert copied.get_params() == model.get_params()
        with pytest.raises(BadParameter, match="not a parameter"):
            model.set_params(speed=1)


def test_a_clone_keeps_the_account_and_never_copies_it(tmp_path: Any) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,age\n1,2\n")
    session = connect(path, unit="id", epsilon=1, delta=1e-6)
    assert clone(LogisticRegression(account=session)).account is session


def test_a_pipeline_fits_and_predicts() -> None:
    X, y = make_data()
    scale = FunctionTransformer(lambda values: values / 10)
    model = make_pipeline(scale, LogisticRegression(**(SHARED | {"bounds": (-1, 1)}), classes=(0, 1))).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.8
    chosen = ColumnTransformer([("first", "passthrough", [0])])
    with pytest.warns(RepeatedFit):
        model = make_pipeline(chosen, Additive(**SHARED, classes=(0, 1))).fit(X, y)
    assert model.predict_proba(X).shape == (200, 2)


def test_searches_are_refused_before_the_first_fit() -> None:
    X, y = make_data()
    model = LogisticRegression(**SHARED, classes=(0, 1))
    pipeline = make_pipeline(FunctionTransformer(), model)
    searches = [
        GridSearchCV(model, {"clip": [0.1, 1]}, scoring="accuracy"),
        GridSearchCV(model, {"clip": [0.1, 1]}),
        GridSearchCV(pipeline, {"logisticregression__clip": [0.1, 1]}, scoring="accuracy", n_jobs=1),
    ]
    for search in searches:
        with pytest.raises(BadParameter, match=r"discreet\.learn\.select"):
            search.fit(X, y)
    with pytest.raises(BadParameter, match=r"discreet\.learn\.select"):
        cross_val_score(model, X, y, scoring="accuracy")
    model.fit(X, y)  # the first fit of this process: no search charged one


def test_frames_of_every_library_give_the_same_integers() -> None:
    import pandas
    import polars
    import pyarrow

    from discreet.learn import Features

    columns = {"age": [1, 50, None, 99], "dept": ["a", "b", None, "z"]}
    features = Features.of({"age": (0, 100)}, {"dept": ("a", "b")})
    wanted = features.encode(columns)
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
        found = features.encode(frame)
        assert found.numbers.tolist() == wanted.numbers.tolist()
        assert found.codes.tolist() == wanted.codes.tolist()
    by_place = Features.of([(0, 100)], {1: ("a", "b")}, (0, 1))
    assert by_place.encode(np.array([[1, "a"], [50, "b"], [None, None], [99, "z"]], object)).codes.tolist() == [
        [0],
        [1],
        [2],
        [2],
    ]
