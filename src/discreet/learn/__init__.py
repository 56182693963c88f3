"""Models that are fitted privately: one debit for each fit, integer sums, exact noise. Needs NumPy alone."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.learn.charging import RepeatedFit
    from discreet.learn.estimator import PrivateEstimator
    from discreet.learn.features import Features
    from discreet.learn.records import Records

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.learn.charging": "RepeatedFit",
        "discreet.learn.estimator": "PrivateEstimator",
        "discreet.learn.features": "Features",
        "discreet.learn.records": "Records",
    },
)

__all__ = ["Features", "PrivateEstimator", "Records", "RepeatedFit"]
