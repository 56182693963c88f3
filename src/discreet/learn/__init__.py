"""Models that are fitted privately: one debit for each fit, integer sums, exact noise.

Models need NumPy alone; `PrivateTrainer` needs PyTorch.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.learn.additive import Additive, Curve
    from discreet.learn.charging import RepeatedFit
    from discreet.learn.estimator import CopiedFit, PrivateEstimator
    from discreet.learn.features import Features
    from discreet.learn.kmeans import KMeans
    from discreet.learn.linear import LinearRegression, LogisticRegression, Ridge
    from discreet.learn.metrics import Metric, Metrics, release_metrics
    from discreet.learn.moments import PCA, Moments, StandardScaler
    from discreet.learn.naive_bayes import BinnedNB, GaussianNB
    from discreet.learn.records import Records
    from discreet.learn.selection import Selected, select
    from discreet.learn.stump import Stump
    from discreet.learn.training import PrivateTrainer

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.learn.additive": "Additive Curve",
        "discreet.learn.charging": "RepeatedFit",
        "discreet.learn.estimator": "CopiedFit PrivateEstimator",
        "discreet.learn.features": "Features",
        "discreet.learn.kmeans": "KMeans",
        "discreet.learn.linear": "LinearRegression LogisticRegression Ridge",
        "discreet.learn.metrics": "Metric Metrics release_metrics",
        "discreet.learn.moments": "PCA Moments StandardScaler",
        "discreet.learn.naive_bayes": "BinnedNB GaussianNB",
        "discreet.learn.records": "Records",
        "discreet.learn.selection": "Selected select",
        "discreet.learn.stump": "Stump",
        "discreet.learn.training": "PrivateTrainer",
    },
)

__all__ = [
    "PCA",
    "Additive",
    "BinnedNB",
    "CopiedFit",
    "Curve",
    "Features",
    "GaussianNB",
    "KMeans",
    "LinearRegression",
    "LogisticRegression",
    "Metric",
    "Metrics",
    "Moments",
    "PrivateEstimator",
    "PrivateTrainer",
    "Records",
    "RepeatedFit",
    "Ridge",
    "Selected",
    "StandardScaler",
    "Stump",
    "release_metrics",
    "select",
]
