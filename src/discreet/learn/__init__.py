"""Models that are fitted privately: one debit for each fit, integer sums, exact noise.

Models need NumPy alone; `PrivateTrainer` needs PyTorch.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.learn.additive import Additive, Curve
    from discreet.learn.charging import RepeatedFit
    from discreet.learn.estimator import PrivateEstimator
    from discreet.learn.features import Features
    from discreet.learn.linear import LinearRegression, LogisticRegression, Ridge
    from discreet.learn.records import Records
    from discreet.learn.training import PrivateTrainer

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.learn.additive": "Additive Curve",
        "discreet.learn.charging": "RepeatedFit",
        "discreet.learn.estimator": "PrivateEstimator",
        "discreet.learn.features": "Features",
        "discreet.learn.linear": "LinearRegression LogisticRegression Ridge",
        "discreet.learn.records": "Records",
        "discreet.learn.training": "PrivateTrainer",
    },
)

__all__ = [
    "Additive",
    "Curve",
    "Features",
    "LinearRegression",
    "LogisticRegression",
    "PrivateEstimator",
    "PrivateTrainer",
    "Records",
    "RepeatedFit",
    "Ridge",
]
