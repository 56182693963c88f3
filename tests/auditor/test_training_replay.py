"""Replay of fitted models and of `PrivateTrainer`, in whole numbers: the right ones pass, each mutant is caught."""

from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.auditor import audit_training
from discreet.auditor.training_replay import replay_estimator, trace_fit
from discreet.learn import (
    PCA,
    Additive,
    BinnedNB,
    GaussianNB,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Moments,
    Ridge,
    StandardScaler,
)
from discreet.learn import descent as descent_module
from discreet.learn.descent import Descent
from discreet.units import Neighbours

COUNT = 40
SOURCE = np.random.default_rng(4)
FEATURES = {
    "age": np.r_[SOURCE.normal(40, 60, COUNT - 4), np.nan, np.inf, -np.inf, 1e300],
    "sex": SOURCE.choice(["F", "M", "?"], COUNT),
}
DECLARED: dict[str, Any] = {
    "epsilon": 1, "delta": 1e-6, "bounds": {"age": (17, 90)}, "categories": {"sex": ("F", "M")}, "expected": 100, "steps": 4,
}  # fmt: skip
CLASSES = SOURCE.choice(["a", "b", "c", "undeclared"], COUNT)
NUMBERS = np.r_[SOURCE.normal(0, 3, COUNT - 2), np.nan, np.inf]
MODELS: dict[str, tuple[Any, Any]] = {
    "logistic": (LogisticRegression(classes=("a", "b"), **DECLARED), CLASSES),
    "softmax": (LogisticRegression(classes=("a", "b", "c"), **DECLARED), CLASSES),
    "linear": (LinearRegression(target_bounds=(-1, 1), **DECLARED), NUMBERS),
    "ridge": (Ridge(target_bounds=(-1, 1), **DECLARED), NUMBERS),
    "additive": (Additive(classes=("a", "b"), **DECLARED), CLASSES),
    "additive regression": (Additive(target_bounds=(-1, 1), **DECLARED), NUMBERS),
    "replace": (LogisticRegression(classes=("a", "b"), neighbours=Neighbours.REPLACE, **DECLARED), CLASSES),
}


OTHERS = [GaussianNB, BinnedNB, KMeans, PCA, StandardScaler, Moments]


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_other_models_pass(kind: type[Any]) -> None:
    given = {
        "epsilon": 1,
        "delta": 1e-6,
        "bounds": {"age": (17, 90), "pay": (-1, 1)},
        "expected": 100,
        "classes": ("a", "b"),
    }
    known = {name: value for name, value in given.items() if name in signature(kind).parameters}
    features = {"age": FEATURES["age"], "pay": SOURCE.normal(size=COUNT)}
    found = replay_estimator(kind(**known), features, CLASSES if "classes" in known else None)
    assert not any(each.violation for each in found.values()), found


def find_refuted(name: str) -> list[str]:
    model, target = MODELS[name]
    return [check for check, found in audit_training(model, rows=(FEATURES, target)).items() if found.violation]


@pytest.mark.parametrize("name", MODELS)
def test_models_pass(name: str) -> None:
    assert find_refuted(name) == []


def test_the_sums_are_the_same_for_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    model, target = MODELS["softmax"]
    whole = trace_fit(model, FEATURES, target)
    monkeypatch.setattr(descent_module, "CHUNK", 7)
    parts = trace_fit(model, FEATURES, target)
    for name, trace in whole.items():
        assert [each.tolist() for each in trace.given] == [each.tolist() for each in parts[name].given]


def test_a_replay_changes_and_charges_nothing() -> None:
    model, target = MODELS["logistic"]
    replay_estimator(model, FEATURES, target)
    assert not hasattr(model, "event_")


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.floats(width=32) | st.just(1e308), min_size=2, max_size=6),
    st.lists(st.sampled_from(["a", "b", None, "other"]), min_size=6, max_size=6),
)
def test_no_record_moves_a_model_further(values: list[float], classes: list[Any]) -> None:
    model = LogisticRegression(
        epsilon=1, delta=1e-6, bounds={"x": (-3, 5)}, classes=("a", "b"), expected=10, steps=2, clip=Fraction(1, 4)
    )
    target = np.array(classes[: len(values)], object)
    found = replay_estimator(model, {"x": np.array(values)}, target)
    assert not any(each.violation for each in found.values()), found


# Mutants of the models


def test_without_clipping_a_model_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent_module, "clip_residuals", lambda residuals, limits: residuals)
    assert find_refuted("linear") == ["sensitivity"]


def test_a_mean_over_the_true_records_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Descent.sum_gradients
    monkeypatch.setattr(
        Descent, "sum_gradients", lambda self, rows, weights: honest(self, rows, weights) * 1000 // len(rows.target)
    )
    assert "sensitivity" in find_refuted("logistic")


def test_one_more_gradient_than_is_paid_for_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Descent.release_gradients

    def look_again(self: Descent, prepared: Any, moments: Any, noise: Any, bits: Any) -> Any:
        noise.release(np.zeros(3, np.int64), bits)
        return honest(self, prepared, moments, noise, bits)

    monkeypatch.setattr(Descent, "release_gradients", look_again)
    assert find_refuted("logistic") == ["sensitivity"]


def test_records_without_a_target_that_count_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Descent.sum_columns

    def count_all(self: Descent, prepared: Any) -> Any:
        return honest(self, prepared) + np.int64(len(prepared.target))

    monkeypatch.setattr(Descent, "sum_columns", count_all)
    assert "no target" in find_refuted("logistic")


def test_sums_that_depend_on_the_order_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Descent.sum_columns
    monkeypatch.setattr(
        Descent, "sum_columns", lambda self, prepared: honest(self, prepared) + np.int64(prepared.numbers[0, 0] > 0)
    )
    assert find_refuted("logistic") == ["order"]
