"""Neighbouring inputs to try: lists with one record per person."""

from math import inf, nan
from typing import Any, Literal

from discreet.auditor.game import Pair
from discreet.errors import BadParameter
from discreet.units import Neighbours

Domain = tuple[float, float] | Literal["any"]


def generated(domain: Domain = (0, 1), relation: Neighbours = Neighbours.ADD_REMOVE) -> list[Pair]:
    """Pairs of lists of numbers in the domain. Under add/remove one record comes; with "any" it may be anything at all.

    >>> print(generated((0, 1))[0])
    [] and [1]
    """
    low, high = (0, 1) if domain == "any" else domain
    if not low < high:
        raise BadParameter("domain", f"{low}:{high}", "empty", "give lower:upper, for example 0:1")
    middle = (low + high) / 2
    bases: list[list[Any]] = [[], [low] * 3, [high] * 3, [low, middle, high, middle, low]]
    others = [high, low, middle] if domain != "any" else [high, low, *STRANGE]
    if relation is Neighbours.REPLACE:
        return [Pair([*base, first], [*base, then]) for base in bases for first, then in _swaps(low, high, others)]
    pairs = [Pair(base, [*base, other]) for base in bases for other in others]
    if domain == "any":  # the claim covers two steps of one unit each, at twice the price
        pairs += [Pair([*base, low], [*base, high], 2) for base in bases]
    return pairs


STRANGE: list[Any] = [nan, inf, -inf, 1e308, -1e308, 10**30, 5e-324, "x", None, True, [], {}]
"""What a record can turn out to be."""


def _swaps(low: float, high: float, others: list[Any]) -> list[tuple[Any, Any]]:
    return [(low, other) for other in others if other != low] + [(high, low)]
