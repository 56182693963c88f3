"""Synthetic rows from paid measurements: a tree model, priced before a row is read, and one that chooses tables in rounds.

    plan = TreeSynthesis(sizes, rho)                             what is measured with which noise; `plan.event` is charged
    found = plan.measure(cells, receipt)                         all noise that was paid for
    codes = fit(found).sample()                                  post-processing, free
    bound_distances(codes, sizes, found.tables)                  how far the rows are from the data, at most

`cells` are the exact data, `measuring` what a noisy table costs, `model` and `raking` the two models, `files` the rows with
the warning that they carry. `raking.fit_rows` also takes the noisy tables of a tabulation: then nothing more is charged.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.synthesis.adaptive import AdaptiveMeasurements, AdaptiveSynthesis
    from discreet.synthesis.cells import Cells
    from discreet.synthesis.files import SyntheticTable
    from discreet.synthesis.measuring import NoisyTable
    from discreet.synthesis.metrics import DistanceBounds, bound_distances
    from discreet.synthesis.model import TreeModel, fit
    from discreet.synthesis.raking import RakedRows
    from discreet.synthesis.tree import TreeMeasurements, TreeSynthesis

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.synthesis.adaptive": "AdaptiveMeasurements AdaptiveSynthesis",
        "discreet.synthesis.cells": "Cells",
        "discreet.synthesis.files": "SyntheticTable",
        "discreet.synthesis.measuring": "NoisyTable",
        "discreet.synthesis.metrics": "DistanceBounds bound_distances",
        "discreet.synthesis.model": "TreeModel fit",
        "discreet.synthesis.raking": "RakedRows",
        "discreet.synthesis.tree": "TreeMeasurements TreeSynthesis",
    },
)

__all__ = [
    "AdaptiveMeasurements",
    "AdaptiveSynthesis",
    "Cells",
    "DistanceBounds",
    "NoisyTable",
    "RakedRows",
    "SyntheticTable",
    "TreeMeasurements",
    "TreeModel",
    "TreeSynthesis",
    "bound_distances",
    "fit",
]
