"""Events: a score reaches a threshold. Scores are learned on one part of the answers, thresholds chosen on another.

Nothing here ever sees the part on which an event is certified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.auditor.answers import Floats, Outputs
from discreet.auditor.claims import Point
from discreet.auditor.evidence import predict_margins, proportion_variance
from discreet.auditor.scores import LOWEST_SCORE, Score

MIN_COUNT = 50
"""Standard errors mean little for an event seen less often than this."""


@dataclass(frozen=True)
class OutputEvent:
    """A score reaches a threshold (or stays below it)."""

    score: Score
    threshold: float
    above: bool

    def contains(self, answers: Outputs) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """For each answer, whether it is in the event."""
        found = self.score.compute(answers) >= self.threshold
        return found if self.above else ~found

    def count(self, answers: Outputs) -> int:
        """How many answers are."""
        return int(np.count_nonzero(self.contains(answers)))

    def __str__(self) -> str:
        return self.score.describe(self.threshold, self.above)


@dataclass(frozen=True)
class Candidate:
    """An event, the side on which it is likelier, the point of the claim it tests, and how it looked while selecting."""

    event: OutputEvent
    favours_left: bool
    point: Point
    margin: float
    sigmas: float
    separation: float  # standard errors between the two sides


def find_candidates(
    scores: Sequence[Score], left: Outputs, right: Outputs, points: tuple[Point, ...], certified_on: int, alpha: float
) -> Iterator[Candidate]:
    """The most promising event of every score, by margin and by standard errors."""
    for score in scores:
        a, b = np.sort(score.compute(left)), np.sort(score.compute(right))
        cuts = _choose_thresholds(np.concatenate([a, b]))
        p, q = (1 - np.searchsorted(side, cuts, "left") / max(1, len(side)) for side in (a, b))
        for above in (True, False):
            for of_left in (True, False):
                hit, alarm = (p, q) if of_left else (q, p)
                hit, alarm = (hit, alarm) if above else (1 - hit, 1 - alarm)
                sizes = (len(left), len(right)) if of_left else (len(right), len(left))
                margin, sigmas = predict_margins(hit, alarm, sizes, points, certified_on, alpha)
                apart = (hit - alarm) / np.sqrt(proportion_variance(hit, sizes[0]) + proportion_variance(alarm, sizes[1]))
                often = np.where(hit[:, None] * sizes[0] >= min(MIN_COUNT, sizes[0] / 2), sigmas, LOWEST_SCORE)
                chosen = {_find_maximum(margin), _find_maximum(often)}
                if score.simple:
                    chosen |= {(int(i), j) for j, i in enumerate(often.argmax(axis=0))}
                for i, j in chosen:
                    event = OutputEvent(score, float(cuts[i]), above)
                    yield Candidate(event, of_left, points[j], float(margin[i, j]), float(sigmas[i, j]), float(apart.max()))


def select_finalists(found: Sequence[Candidate]) -> list[Candidate]:
    """Seven to certify: the largest margin, the most standard errors above the claim, and for five points of the claim the
    plain statement about a size with the most of them (few of those are tried, so luck has less say)."""
    plain: dict[Point, Candidate] = {}
    for each in found:
        if each.event.score.simple and (each.point not in plain or each.sigmas > plain[each.point].sigmas):
            plain[each.point] = each
    best = sorted(plain.values(), key=lambda each: -each.sigmas)[:5]
    return [max(found, key=lambda each: each.margin), max(found, key=lambda each: each.sigmas), *best]


def _find_maximum(values: Floats) -> tuple[int, int]:
    i, j = np.unravel_index(int(np.argmax(values)), values.shape)
    return int(i), int(j)


def _choose_thresholds(pooled: Floats) -> Floats:
    """Quantiles, more of them towards the ends."""
    tails = np.geomspace(2e-5, 0.01, 12)
    shares = np.unique(np.concatenate([[0.0], tails, np.linspace(0.01, 0.99, 99), 1 - tails, [1.0]]))
    return np.unique(np.quantile(pooled, shares, method="higher"))
