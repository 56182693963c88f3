"""From counts to certainty: exact binomial bounds, and the ε that they prove.

Whatever was chosen (the pair, the direction, the event, the point of the curve) was chosen on other answers than those that
are counted here. Then k of n independent answers in E bound P(E) by Clopper and Pearson, each side with its own share of α,
and P(E) − δ > e^ε·P'(E) proves that ε is not kept.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from time import monotonic
from typing import Any

import numpy as np

from discreet.auditor.claims import Point
from discreet.auditor.outputs import Floats, Outputs
from discreet.auditor.sampling import Columns, Pair, shorten
from discreet.auditor.scores import LOWEST_SCORE, Score

# Events: a score reaches a threshold. Scores are learned on one part of the answers, thresholds chosen on another.
#
# Nothing here ever sees the part on which an event is certified.


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


ROUNDING_MARGIN = 1e-9
"""Relative; more than the inverse of the incomplete beta function is off."""


def clopper_pearson_lower(k: int, n: int, alpha: float) -> float:
    """P(success) is at least this, except with probability α [CP34].

    >>> clopper_pearson_lower(0, 100, 0.001), round(clopper_pearson_lower(100, 100, 0.001), 4)
    (0.0, 0.9333)
    """
    from scipy.special import betaincinv

    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, alpha)) * (1 - ROUNDING_MARGIN)


def clopper_pearson_upper(k: int, n: int, alpha: float) -> float:
    """P(success) is at most this, except with probability α [CP34]."""
    from scipy.special import betainccinv

    return 1.0 if k >= n else min(1.0, float(betainccinv(k + 1, n - k, alpha)) * (1 + ROUNDING_MARGIN))


@dataclass(frozen=True, slots=True)
class Evidence:
    """An event counted on both sides, and the point of the claim that it was fixed to test."""

    true_positives: int
    trials: int
    false_positives: int
    other_trials: int
    point: Point
    alpha: float  # for both bounds together

    @property
    def p_low(self) -> float:
        """The event has at least this probability where it is likelier."""
        return clopper_pearson_lower(self.true_positives, self.trials, self.alpha / 2)

    @property
    def q_high(self) -> float:
        """And at most this on the other side."""
        return clopper_pearson_upper(self.false_positives, self.other_trials, self.alpha / 2)

    @property
    def epsilon(self) -> float:
        """A certified lower bound on ε, of one unit, at the claim's δ."""
        return self.point.refuted_epsilon(self.p_low, self.q_high) * (1 - ROUNDING_MARGIN)

    @property
    def is_violation(self) -> bool:
        """Whether the point is refuted."""
        return self.p_low > self.point.max_probability(self.q_high) * (1 + ROUNDING_MARGIN)

    @property
    def margin(self) -> float:
        """By how much the certified ε exceeds the claimed one; negative if it does not."""
        return self.epsilon - self.point.claimed_point.epsilon

    @property
    def min_detectable_probability(self) -> float:
        """An event that is rarer than this where it is likelier cannot refute the point with so many answers, even if it
        never happens on the other side: the least k/n whose lower bound exceeds what the point allows beside 0 of n."""
        most = self.point.max_probability(clopper_pearson_upper(0, self.other_trials, self.alpha / 2)) * (
            1 + ROUNDING_MARGIN
        )
        low, high = 0, self.trials + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if clopper_pearson_lower(middle, self.trials, self.alpha / 2) > most else (middle, high)
            )
        return min(1.0, high / self.trials)

    def compute_resolution(self, power_z: float = 1.2816) -> float:
        """The smallest share of the leak at this event that could have been missing from the claim and still be seen in
        nine runs of ten: 0.05 says that noise a twentieth short, at this event, would have been found. 1 is blindness."""
        q = max(self.false_positives, 1) / self.other_trials
        wanted = self.point.max_probability(self.q_high)
        low, high = wanted, 1.0
        if wanted >= 1:
            return 1.0
        z = normal_quantile(self.alpha / 2) + power_z
        for _ in range(60):
            middle = (low + high) / 2
            enough = middle - z * sqrt(middle * (1 - middle) / self.trials) > wanted
            low, high = (low, middle) if enough else (middle, high)
        if self.point.epsilon == 0:
            return 1 - self.point.delta / max(high - q, self.point.delta)
        seen = log(max(high - self.point.delta, q) / q)
        return 1 - self.point.epsilon / max(seen, self.point.epsilon)


def normal_quantile(alpha: float) -> float:
    """The upper α-quantile of the standard normal."""
    from scipy.special import ndtri

    return -float(ndtri(alpha))


def wilson_interval(p: Floats, n: float, z: float) -> tuple[Floats, Floats]:
    """Wilson's interval: near enough to Clopper–Pearson to choose by, and quick on arrays."""
    centre, spread = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.maximum(0.0, (centre - spread) / (1 + z * z / n)), np.minimum(1.0, (centre + spread) / (1 + z * z / n))


def predict_margins(
    p: Floats, q: Floats, sizes: tuple[int, int], points: tuple[Point, ...], certified_on: int, alpha: float
) -> tuple[Floats, Floats]:
    """For events with these shares among so many answers on each side: by how much each would exceed each point's ε,
    certified on `later` answers a side, and how many standard errors above the point they lie now. One row per event."""
    eps, delta = (np.array([getattr(point, name) for point in points]) for name in ("epsilon", "delta"))
    modest, generous = wilson_interval(p, sizes[0], 1.0)[0], wilson_interval(q, sizes[1], 1.0)[1]
    z = normal_quantile(alpha / 2)
    low, high = wilson_interval(modest, certified_on, z)[0][:, None], wilson_interval(generous, certified_on, z)[1][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -inf) - eps
    growth = np.exp(eps)
    variance = proportion_variance(p, sizes[0])[:, None] + growth**2 * proportion_variance(q, sizes[1])[:, None]
    return margin, (p[:, None] - growth * q[:, None] - delta) / np.sqrt(variance)


def proportion_variance(p: Floats, n: int) -> Floats:
    """The variance of a share; never less than if one answer had fallen on the other side."""
    return np.asarray(np.maximum(p * (1 - p), 1 / n) / n, np.float64)


# Counting what was chosen, on answers that nobody has seen.
#
# How many answers are counted is fixed before the first of them. If there is a deadline, α is halved between two counts, at
# half of them and at the end: should the time run out in between, the first holds, whatever made the rest late.


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
