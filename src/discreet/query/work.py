"""How much a question may ask for at once, so that reading and quoting any question that is accepted takes a moment.

A quote is free, so its work must be bounded: by the length of the text, the number of its words, the number of columns, and
the number of totals that get noise. A quantile's error is that of a weighted sum of noises, which takes as long as that of
six totals; and where an error is given instead of an ε, a search prices the question several times.
"""

from collections.abc import Iterable

from discreet.errors import QuestionRefused
from discreet.query import plan

MOST_CHARACTERS = 20_000
MOST_TOKENS = 10_000
MOST_COLUMNS = 300
MOST_GROUPINGS = 20
MOST_TOTALS = 300
MOST_SEARCHED = 24
TOTALS_OF_A_QUANTILE = 6


def check_text(text: str) -> None:
    """Refuse a text that is too long to be read."""
    if len(text) > MOST_CHARACTERS:
        raise QuestionRefused(f"the question is longer than {MOST_CHARACTERS:,} characters", "ask several shorter ones")


def check_tokens(count: int) -> None:
    """Refuse a text of too many words, numbers and signs."""
    if count > MOST_TOKENS:
        raise QuestionRefused(f"the question has more than {MOST_TOKENS:,} words and signs", "ask several shorter ones")


def check_columns(columns: int, groupings: int) -> None:
    """Refuse an answer with too many columns."""
    if columns > MOST_COLUMNS:
        raise QuestionRefused(f"the answer has {columns:,} columns", f"ask for at most {MOST_COLUMNS} at once")
    if groupings > MOST_GROUPINGS:
        raise QuestionRefused(f"the rows are grouped by {groupings:,} columns", f"group by at most {MOST_GROUPINGS}")


def check_totals(aggregates: Iterable[plan.Aggregate], totals: int, *, searched: bool = False) -> None:
    """Refuse a question whose noise or, if `searched`, whose least ε would take long to find."""
    quantiles = sum(isinstance(aggregate, plan.Quantile) for aggregate in aggregates)
    work = totals + TOTALS_OF_A_QUANTILE * quantiles
    most = MOST_SEARCHED if searched else MOST_TOTALS
    if work <= most:
        return
    beside = f" and {quantiles} quantiles, which count as {TOTALS_OF_A_QUANTILE} each" if quantiles else ""
    counted = f"{totals} total{'s' * (totals > 1)}{beside}"
    way_out = f"ask for fewer columns, so that it needs at most {most}"
    if searched and work <= MOST_TOTALS:
        raise QuestionRefused(f"finding the price of an error for {counted} takes too long", f"{way_out}, or give epsilon=")
    raise QuestionRefused(f"this question needs {counted}", way_out)
