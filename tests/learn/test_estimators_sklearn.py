"""scikit-learn's own checks of naive Bayes, components, scalers and k-means, with those that no private model can pass."""

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

from discreet.learn import PCA, BinnedNB, GaussianNB, KMeans, StandardScaler
from tests.learn.test_sklearn import CLASSIFIER, EVERY

SHARED: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "bounds": (-10, 10)}
SPARSE = "scikit-learn sets with_mean=False by the name of the class; sparse rows are refused"
SCALER = {"check_estimator_sparse_array": SPARSE, "check_estimator_sparse_matrix": SPARSE}
MODELS: list[tuple[Any, dict[str, str]]] = [
    (BinnedNB(**SHARED, classes=(0, 1)), CLASSIFIER),
    (GaussianNB(**SHARED, classes=(0, 1)), CLASSIFIER),
    (PCA(1, **SHARED), {}),
    (StandardScaler(**SHARED), SCALER),
    (StandardScaler(bounds=(-10, 10)), SCALER),
    (KMeans(2, **SHARED, expected=100), {}),
]


@pytest.mark.parametrize(("model", "own"), MODELS)
def test_scikit_learns_own_checks(model: Any, own: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=EVERY | own)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
