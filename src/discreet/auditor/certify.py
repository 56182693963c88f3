"""Counting what was chosen, on answers that nobody has seen.

How many answers are counted is fixed before the first of them. If there is a deadline, α is halved between two counts, at
half of them and at the end: should the time run out in between, the first holds, whatever made the rest late.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from discreet.auditor.answers import Answers
from discreet.auditor.claims import Point
from discreet.auditor.events import Candidate
from discreet.auditor.evidence import Evidence, upper
from discreet.auditor.game import Columns, Pair, short

TWICE = "the same answer comes twice in a row"

Ask = Callable[[Any, int, float, Columns], Answers]
"""So many answers to an input, until then, with their numbers under these columns."""


@dataclass(frozen=True)
class Certified:
    """An event in words and what is certain about it."""

    pair: Pair
    event: str
    likelier: str
    evidence: Evidence


def counted(
    ask: Ask, pair: Pair, chosen: Sequence[Candidate], columns: Columns, n: int, chunk: int, alpha: float, deadline: float
) -> list[Certified]:
    """The chosen events on n fresh answers a side, or on half of them; nothing if not even those came in time.

    The sides take turns, so that a machine that slows down does so for both.
    """
    sides = (pair.left, pair.right)
    marks = (n,) if deadline == inf else tuple(dict.fromkeys((max(1, n // 2), n)))
    counts, done, held = [[0, 0] for _ in chosen], 0, list[Certified]()
    for mark in marks:
        while done < mark:
            size = min(chunk, mark - done)
            for side, data in enumerate(sides):
                found = ask(data, size, deadline, columns)
                if len(found) < size or monotonic() > deadline:
                    return held
                for each, count in zip(chosen, counts, strict=True):
                    count[side] += each.event.count(found)
            done += size
        held = [_certified(pair, each, a, b, mark, alpha / len(marks)) for each, (a, b) in zip(chosen, counts, strict=True)]
    return held


def repeats(
    again: Callable[[Any, Any, int, float], int | None],
    pair: Pair,
    points: Sequence[Point],
    n: int,
    alpha: float,
    until: float,
) -> list[Certified]:
    """Asked once about the left input, which anybody may do, and then about left or right: with independent noise the first
    answer tells nothing about the second, so "the same again" must obey the claim like any other event. The point is the one
    that n answers could refute most easily, whatever they are."""
    same = again(pair.left, pair.left, n, until)
    other = None if same is None else again(pair.left, pair.right, n, until)
    if same is None or other is None:
        return []
    rare = upper(0, n, alpha / 2)
    point = min(points, key=lambda each: each.most(rare))
    return [Certified(pair, TWICE, f"{short(pair.left)} and again", Evidence(same, n, other, n, point, alpha))]


def _certified(pair: Pair, each: Candidate, a: int, b: int, n: int, alpha: float) -> Certified:
    hits, alarms = (a, b) if each.left else (b, a)
    likelier = short(pair.left if each.left else pair.right)
    return Certified(pair, str(each.event), likelier, Evidence(hits, n, alarms, n, each.point, alpha))
