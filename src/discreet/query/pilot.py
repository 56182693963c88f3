"""A size that nobody gave, found by a small private count.

A relative error needs to know relative to what. The count is an ordinary question with an ordinary price, asked first. The
price of the question proper then depends on its answer: it is chosen adaptively. Sums of prices chosen in advance say
nothing about that; filters do, and every account here is one [RRUV16; WRRW23, Thm 1; FZ21; ST22; KTH23], see
accounting/filters.py. What is promised is the budget, which was fixed before the first answer.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

from discreet.errors import QueryRefused
from discreet.loss import Composition
from discreet.query import plan
from discreet.query.bound import BoundedQuery
from discreet.query.record import LedgerReference
from discreet.query.release import Answer
from discreet.query.table import Key

PILOT_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a pilot found and what was paid for it."""

    size: int
    group: tuple[Key, ...]  # the group that has it; empty where there are no groups
    epsilon: Fraction
    event: Composition
    amount: Fraction  # in the account's currency
    reference: LedgerReference

    def __str__(self) -> str:
        where = f" in the smallest group that could be told, {' · '.join(map(str, self.group))}" if self.group else ""
        return (
            f"The size was found privately: a pilot count at ε = {float(self.epsilon):.6g}, part of the price, "
            f"gave at least {self.size:,} rows{where}."
        )


def build_pilot_query(bounded: BoundedQuery) -> plan.Query:
    """COUNT(*) over the same rows and groups. Unknown keys would cost a δ of their own, so they must be known."""
    if bounded.keys is None:
        raise QueryRefused(
            "a pilot counts groups whose keys are known", "list the keys, for example --keys dept=a,b,c, or give a size"
        )
    return replace(bounded.query, aggregates=(("n", plan.CountRows()),))


def find_smallest_group(answer: Answer) -> tuple[int, tuple[Key, ...]]:
    """The lower end of the total, at least 1, or that of the smallest group that is reliable and not empty; and which
    group that is."""
    if not answer.groups:
        [(_, (cell,))] = answer.rows
        return max(1, floor(cell.lower)), ()
    sure = [(row[0].lower, keys) for keys, row in answer.rows if row[0].reliable and row[0].lower >= 1]
    if not sure:
        raise QueryRefused("no group is large enough for the pilot to tell its size", "take a larger pilot, or give a size")
    lower, keys = min(sure, key=lambda found: found[0])
    return floor(lower), keys
