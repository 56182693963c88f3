"""Counting what was chosen, on answers that nobody has seen.

How many answers are counted is fixed before the first of them. If there is a deadline, α is halved between two counts, at
half of them and at the end: should the time run out in between, the first holds, whatever made the rest late.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from discreet.auditor.answers import Outputs
from discreet.auditor.claims import Point
from discreet.auditor.events import Candidate
from discreet.auditor.evidence import Evidence, clopper_pearson_upper
from discreet.auditor.game import Columns, Pair, shorten

REPETITION = "the same answer comes twice in a row"

DrawOutputs = Callable[[Any, int, float, Columns], Outputs]
"""So many answers to an input, until then, with their numbers under these columns."""


@dataclass(frozen=True)
class CertifiedEvent:
    """An event in words and what is certain about it."""

    pair: Pair
    event: str
    likelier: str
    evidence: Evidence


def certify_events(
    draw: DrawOutputs,
    pair: Pair,
    candidates: Sequence[Candidate],
    columns: Columns,
    n: int,
    chunk: int,
    alpha: float,
    deadline: float,
) -> list[CertifiedEvent]:
    """The chosen events on n fresh answers a side, or on half of them; nothing if not even those came in time.

    The sides take turns, so that a machine that slows down does so for both.
    """
    sides = (pair.left, pair.right)
    marks = (n,) if deadline == inf else tuple(dict.fromkeys((max(1, n // 2), n)))
    counts, done, held = [[0, 0] for _ in candidates], 0, list[CertifiedEvent]()
    for mark in marks:
        while done < mark:
            size = min(chunk, mark - done)
            for side, data in enumerate(sides):
                found = draw(data, size, deadline, columns)
                if len(found) < size or monotonic() > deadline:
                    return held
                for each, count in zip(candidates, counts, strict=True):
                    count[side] += each.event.count(found)
            done += size
        held = [
            _certify_event(pair, each, a, b, mark, alpha / len(marks))
            for each, (a, b) in zip(candidates, counts, strict=True)
        ]
    return held


def certify_repetition(
    count_repeats: Callable[[Any, Any, int, float], int | None],
    pair: Pair,
    points: Sequence[Point],
    n: int,
    alpha: float,
    until: float,
) -> list[CertifiedEvent]:
    """Asked once about the left input, which anybody may do, and then about left or right: with independent noise the first
    answer tells nothing about the second, so "the same again" must obey the claim like any other event. The point is the one
    that n answers could refute most easily, whatever they are."""
    same = count_repeats(pair.left, pair.left, n, until)
    other = None if same is None else count_repeats(pair.left, pair.right, n, until)
    if same is None or other is None:
        return []
    rare = clopper_pearson_upper(0, n, alpha / 2)
    point = min(points, key=lambda each: each.max_probability(rare))
    return [CertifiedEvent(pair, REPETITION, f"{shorten(pair.left)} and again", Evidence(same, n, other, n, point, alpha))]


def _certify_event(pair: Pair, each: Candidate, a: int, b: int, n: int, alpha: float) -> CertifiedEvent:
    hits, alarms = (a, b) if each.favours_left else (b, a)
    likelier = shorten(pair.left if each.favours_left else pair.right)
    return CertifiedEvent(pair, str(each.event), likelier, Evidence(hits, n, alarms, n, each.point, alpha))
