"""scikit-learn's own checks of naive Bayes, components, scalers and k-means, with those that no private model can pass."""

from typing import Any

import pytest
from sklearn.base import clone

from discreet.learn import PCA, BinnedNB, GaussianNB, KMeans, Moments, StandardScaler, Stump
from tests.learn.test_sklearn import ACCOUNT, CLASSIFIER, EVERY, list_surprises, open_budget

SHARED: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "bounds": (-10, 10)}
SPARSE = "scikit-learn sets with_mean=False by the name of the class; sparse rows are refused"
SCALER = {"check_estimator_sparse_array": SPARSE, "check_estimator_sparse_matrix": SPARSE}
MODELS: list[tuple[Any, dict[str, str]]] = [
    (BinnedNB(**SHARED, classes=(0, 1)), CLASSIFIER),
    (GaussianNB(**SHARED, classes=(0, 1)), CLASSIFIER),
    (Stump(**SHARED, classes=(0, 1)), CLASSIFIER),
    (PCA(1, **SHARED), {}),
    (StandardScaler(**SHARED), SCALER),
    (StandardScaler(bounds=(-10, 10)), SCALER),
    (KMeans(2, **SHARED, expected=100), {}),
    (Moments(**SHARED), {}),
]


@pytest.mark.parametrize(("model", "own"), MODELS)
def test_scikit_learns_own_checks(model: Any, own: dict[str, str]) -> None:
    free = model.epsilon is None
    charged = model if free else clone(model).set_params(account=open_budget())
    assert not list_surprises(charged, EVERY | ({} if free else ACCOUNT) | own)
