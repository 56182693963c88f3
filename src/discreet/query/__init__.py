"""Queries: from a text or an expression to a measurement, and from exact statistics to an answer."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.query.answer import Answer, IntervalOptions
    from discreet.query.calibrate import AccuracyTarget, Calibrator, Measurement
    from discreet.query.contribution import BoundedQuery
    from discreet.query.parser import QueryLike
    from discreet.query.quote import Quote

# What a session names in its signatures is fetched when it is first used: a source is opened without it.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.query.answer": "Answer IntervalOptions",
        "discreet.query.calibrate": "AccuracyTarget Calibrator Measurement",
        "discreet.query.contribution": "BoundedQuery",
        "discreet.query.parser": "QueryLike",
        "discreet.query.quote": "Quote",
    },
)

__all__ = ["AccuracyTarget", "Answer", "BoundedQuery", "Calibrator", "IntervalOptions", "Measurement", "QueryLike", "Quote"]
