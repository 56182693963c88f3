"""Neighbouring inputs to try: lists with one record per person.

Under add/remove one record comes: at an end of the domain, to nobody, to people who are all alike (so that its value is a
group of its own), to people of all kinds. With "any" it may also be an extreme, NaN or infinite, of another type, empty, or
a key that nobody else has; and one record may turn into another, which is two steps.
"""

from collections.abc import Iterator
from math import inf, nan
from typing import Any, Literal

from discreet.auditor.sampling import Pair
from discreet.errors import BadParameter
from discreet.units import Neighbours

Domain = tuple[float, float] | Literal["any"]

NOT_FINITE: list[Any] = [nan, inf, -inf]
EXTREME: list[Any] = [1e308, -1e308, 10**30, 5e-324]
OTHER_TYPES: list[Any] = ["x", None, True]
EMPTY: list[Any] = ["", [], {}]
UNUSUAL: list[Any] = [*NOT_FINITE, *EXTREME, *OTHER_TYPES, *EMPTY]
"""What a record can turn out to be."""

BASE_KEYS: list[Any] = ["a", "a", "b"]
NEW_GROUP = "c"
"""A key that nobody has in `BASE_KEYS`."""


def generate_pairs(domain: Domain = (0, 1), relation: Neighbours = Neighbours.ADD_REMOVE) -> list[Pair]:
    """Pairs of lists of records in the domain, the likeliest to tell first: not all may get their turn.

    >>> print(generate_pairs((0, 1))[0])
    [] and [1]
    """
    low, high = (0, 1) if domain == "any" else domain
    if not low < high:
        raise BadParameter("domain", f"{low}:{high}", "empty", "give lower:upper, for example 0:1")
    middle = (low + high) / 2
    bases: list[list[Any]] = [[], [low] * 3, [high] * 3, [low, middle, high, middle, low]]
    if relation is Neighbours.REPLACE:
        return [
            Pair([*base, first], [*base, then])
            for base in bases
            for first, then in _list_replacements(low, high, middle, domain)
        ]
    pairs = [Pair(base, [*base, other]) for base in bases for other in (high, low, middle)]
    return pairs if domain != "any" else [*pairs, *_generate_unusual(bases, low, high)]


def _generate_unusual(bases: list[list[Any]], low: float, high: float) -> Iterator[Pair]:
    """One record more, of any kind; and one that turns into another, which the claim covers at twice the price."""
    for key in (NEW_GROUP, BASE_KEYS[0]):
        yield Pair(BASE_KEYS, [*BASE_KEYS, key])
    for base in (bases[-1], bases[0]):
        for other in UNUSUAL:
            yield Pair(base, [*base, other])
    for base in bases:
        for other in (high, *OTHER_TYPES[:1]):
            yield Pair([*base, low], [*base, other], 2)


def _list_replacements(low: float, high: float, middle: float, domain: Domain) -> list[tuple[Any, Any]]:
    others = [high, middle, *(UNUSUAL if domain == "any" else [])]
    return [(low, other) for other in others] + [(high, low)]
