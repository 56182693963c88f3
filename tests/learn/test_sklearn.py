"""scikit-learn's conventions: its own checks, with the list of those that a private model cannot pass and why."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from discreet.errors import BadParameter
from discreet.learn import Additive, CopiedFit, LinearRegression, LogisticRegression, RepeatedFit, Ridge
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.session.connect import connect

NOISE = "two fits draw different noise, and their predictions differ"
VALUES = "no value of a record may raise an error: it would tell that the record has it"
CLASSES = "classes are declared, never read off the data"
COPIED = "the check copies the model's account, which is never copied"
EVERY = {
    "check_estimators_empty_data_messages": "the number of rows is private: no rows are fitted like any others",
}
ACCOUNT = {
    "check_estimators_overwrite_params": COPIED,
    "check_set_params": COPIED,
}
SUPERVISED = {
    "check_supervised_y_no_nan": VALUES,
    "check_supervised_y_2d": "a column of targets is taken as it is: scikit-learn's warning is left out, and " + NOISE,
}
CLASSIFIER = SUPERVISED | {
    "check_classifiers_classes": CLASSES,
    "check_classifiers_train": CLASSES,
    "check_classifiers_regression_target": VALUES,
}
REGRESSOR = SUPERVISED | {
    "check_regressors_int": NOISE,
    "check_regressor_data_not_an_array": NOISE,
}
BY_CHANCE = {
    "check_fit_idempotent": NOISE,
    "check_classifier_data_not_an_array": NOISE,
    "check_classifiers_one_label": CLASSES + ": with noise, few records of one class may be predicted to be of the other",
}
"""Checks that fail or pass with the noise; all others fail always, and no other fails."""

SHARED: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "bounds": (-10, 10), "expected": 100}
MODELS: list[tuple[Any, dict[str, str]]] = [
    (LogisticRegression(**SHARED, classes=(0, 1)), CLASSIFIER),
    (Additive(**SHARED, classes=(0, 1)), CLASSIFIER),
    (Additive(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
    (LinearRegression(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
    (Ridge(**SHARED, target_bounds=(-100, 100)), REGRESSOR),
]


def open_budget() -> MemoryAccount:
    """Return an account that the fits of copies are charged to."""
    return MemoryAccount(create_budget(10**6, 1e-5))


def list_surprises(model: Any, expected: dict[str, str]) -> dict[str, str]:
    """Return checks that fail and are not expected to, and those that are expected to and do not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=expected | BY_CHANCE)
    assert sum(each["status"] == "passed" for each in found) >= 32
    wrong = {each["check_name"]: str(each["exception"]) for each in found if each["status"] == "failed"}
    failed = {each["check_name"] for each in found if each["status"] == "xfail"}
    return wrong | {name: "passes" for name in expected if name not in failed}


@pytest.mark.parametrize(("model", "own"), MODELS)
def test_scikit_learns_own_checks(model: Any, own: dict[str, str]) -> None:
    charged = clone(model).set_params(account=open_budget())
    assert not list_surprises(charged, EVERY | ACCOUNT | own)


def test_a_list_of_failures_that_is_too_short_or_too_long_is_noticed() -> None:
    model = LogisticRegression(**SHARED, classes=(0, 1), account=open_budget())
    wanted = EVERY | ACCOUNT | CLASSIFIER
    found = list_surprises(
        model, {name: why for name, why in wanted.items() if name != "check_set_params"} | {"check_fit1d": ""}
    )
    assert {*found} == {"check_set_params", "check_fit1d"}


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


SEARCHES: list[Any] = [
    lambda model: GridSearchCV(model, {"clip": [0.1, 1]}, scoring="accuracy"),
    lambda model: RandomizedSearchCV(model, {"clip": [0.1, 1]}, n_iter=2, scoring="accuracy"),
    lambda model: GridSearchCV(
        make_pipeline(FunctionTransformer(), model), {"logisticregression__clip": [0.1, 1]}, scoring="accuracy"
    ),
]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("account", [None, open_budget()])
def test_searches_are_refused_before_the_first_fit(search: Any, account: Any) -> None:
    X, y = make_data()
    model = LogisticRegression(**SHARED, classes=(0, 1), account=account)
    with pytest.raises(BadParameter, match=r"discreet\.learn\.select"):
        search(model).fit(X, y)
    assert account is None or account.budget.spent == 0


def test_what_needs_an_exact_score_finds_none() -> None:
    """Refused by scikit-learn itself, before a fit."""
    X, y = make_data()
    account = open_budget()
    model = LogisticRegression(**SHARED, classes=(0, 1), account=account)
    assert not hasattr(model, "score")
    with pytest.raises(TypeError, match="score"):
        GridSearchCV(model, {}).fit(X, y)
    with pytest.raises(TypeError, match="score"):
        cross_val_score(model, X, y)
    assert account.budget.spent == 0


def make_meta(model: Any) -> dict[str, Any]:
    """Return estimators of scikit-learn that fit copies of a model; how often is known."""
    return {
        "voting": (VotingClassifier([("one", model), ("two", model)]), 2),
        "bagging": (BaggingClassifier(model, 3), 3),
        "one against the rest": (OneVsRestClassifier(model), 1),
        "calibrated": (CalibratedClassifierCV(model, cv=3, ensemble=True), 3),
        "stacked": (StackingClassifier([("one", model)], cv=3), 4),
    }


@pytest.mark.parametrize("name", make_meta(None))
def test_copies_are_fitted_only_for_an_account_with_a_debit_and_a_warning_for_each(name: str) -> None:
    X, y = make_data()
    free = make_meta(LogisticRegression(**SHARED, classes=(0, 1)))[name][0]
    with pytest.raises(BadParameter, match="account is missing"):
        free.fit(X, y)
    account = open_budget()
    model = LogisticRegression(**SHARED, classes=(0, 1), account=account)
    one = LogisticRegression(**(SHARED | {"bounds": [(-10, 10)] * 3}), classes=(0, 1), account=account).plan.charge
    meta, fits = make_meta(model)[name]
    with pytest.warns(CopiedFit, match="not private") as caught:
        meta.fit(X, y)
    assert account.budget.spent == fits * one
    assert sum(each.category is CopiedFit for each in caught) == fits
    with pytest.warns(CopiedFit):
        cross_val_predict(model, X, y, cv=2)
    assert account.budget.spent == (fits + 2) * one


def test_a_stored_copy_is_not_fitted_in_another_process() -> None:
    """Workers get pickled copies: an account is not stored with one, so none is charged behind its back."""
    X, y = make_data()
    model = LogisticRegression(**SHARED, classes=(0, 1), account=open_budget())
    with pytest.raises(BadParameter, match="a stored model has no account"):
        pickle.loads(pickle.dumps(clone(model))).fit(X, y)


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
