"""How much a question may ask for at once, so that reading and quoting any question that is accepted takes a moment.

A quote is free, so its work must be bounded: by the length of the text, the number of its words, the number of columns, and
the number of totals that get noise. A quantile's error is that of a weighted sum of noises, which takes as long as that of
six totals; and where an error is given instead of an ε, a search prices the question several times.
"""

from collections.abc import Iterable

from discreet.errors import QueryRefused
from discreet.query import plan

MAX_CHARACTERS = 20_000
MAX_TOKENS = 10_000
MAX_COLUMNS = 300
MAX_GROUPINGS = 20
MAX_STATISTICS = 300
MAX_SEARCHED_STATISTICS = 24
STATISTICS_PER_QUANTILE = 6


def check_text(text: str) -> None:
    """Refuse a text that is too long to be read."""
    if len(text) > MAX_CHARACTERS:
        raise QueryRefused(f"the question is longer than {MAX_CHARACTERS:,} characters", "ask several shorter ones")


def check_tokens(count: int) -> None:
    """Refuse a text of too many words, numbers and signs."""
    if count > MAX_TOKENS:
        raise QueryRefused(f"the question has more than {MAX_TOKENS:,} words and signs", "ask several shorter ones")


def check_columns(columns: int, groupings: int) -> None:
    """Refuse an answer with too many columns."""
    if columns > MAX_COLUMNS:
        raise QueryRefused(f"the answer has {columns:,} columns", f"ask for at most {MAX_COLUMNS} at once")
    if groupings > MAX_GROUPINGS:
        raise QueryRefused(f"the rows are grouped by {groupings:,} columns", f"group by at most {MAX_GROUPINGS}")


def check_statistics(aggregates: Iterable[plan.Aggregate], statistics: int, *, for_error: bool = False) -> None:
    """Refuse a question whose noise or, if `searched`, whose least ε would take long to find."""
    quantiles = sum(isinstance(aggregate, plan.Quantile) for aggregate in aggregates)
    work = statistics + STATISTICS_PER_QUANTILE * quantiles
    most = MAX_SEARCHED_STATISTICS if for_error else MAX_STATISTICS
    if work <= most:
        return
    beside = f" and {quantiles} quantiles, which count as {STATISTICS_PER_QUANTILE} each" if quantiles else ""
    counted = f"{statistics} total{'s' * (statistics > 1)}{beside}"
    hint = f"ask for fewer columns, so that it needs at most {most}"
    if for_error and work <= MAX_STATISTICS:
        raise QueryRefused(f"finding the price of an error for {counted} takes too long", f"{hint}, or give epsilon=")
    raise QueryRefused(f"this question needs {counted}", hint)
