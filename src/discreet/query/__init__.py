"""Queries: from a text or an expression to a measurement, and from exact statistics to an answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.query.answer import Answer, IntervalOptions
    from discreet.query.calibrate import AccuracyTarget, Calibrator, Measurement
    from discreet.query.contribution import BoundedQuery
    from discreet.query.parser import QueryLike
    from discreet.query.quote import Quote

_HOMES = {
    "discreet.query.answer": "Answer IntervalOptions",
    "discreet.query.calibrate": "AccuracyTarget Calibrator Measurement",
    "discreet.query.contribution": "BoundedQuery",
    "discreet.query.parser": "QueryLike",
    "discreet.query.quote": "Quote",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """What a session names in its signatures is fetched when it is first used: a source is opened without it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOME[name]), name)
    return globals()[name]


__all__ = ["AccuracyTarget", "Answer", "BoundedQuery", "Calibrator", "IntervalOptions", "Measurement", "QueryLike", "Quote"]
