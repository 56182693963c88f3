"""From outputs to certified bounds: candidate events, exact binomial bounds, and the ε that they prove.

Theory of operation
-------------------
An *event* here is a set of outputs: those whose score reaches a threshold, or stays below it. Scores are learned on one
part of the outputs (`scores`), thresholds and points of the claim are chosen on a second part (`find_candidates`,
`select_finalists`), and events are certified on a third part that is drawn after they were fixed (`certify_events`).

**Proof** that a certified ε is a lower bound. The pair, the direction, the event and the point of the curve were chosen
on other outputs than those that are counted, so given these choices the counts are binomial. Clopper and Pearson's bounds
[CP34] then hold: P(E) ≥ p_low and P'(E) ≤ q_high, each except with probability α/2. If p_low > e^ε·q_high + δ, the
inequality P(E) ≤ e^ε·P'(E) + δ is false, except with probability α. The number of outputs that are counted is fixed before
the first of them. With a deadline, α is divided between two counts, at half of the outputs and at the end: if the time runs
out in between, the first count holds, whatever delayed the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from time import monotonic
from typing import Any

import numpy as np

from discreet.auditor.claims import Pair, Point, shorten
from discreet.auditor.outputs import Floats, Outputs
from discreet.auditor.sampling import Columns
from discreet.auditor.scores import LOWEST_SCORE, Score

# -- candidate events -------------------------------------------------------------------------------------------------------


MIN_COUNT = 50
"""Standard errors are not reliable for an event seen less often than this."""


@dataclass(frozen=True)
class OutputEvent:
    """The outputs whose score reaches a threshold, or stays below it."""

    score: Score
    threshold: float
    above: bool

    def contains(self, outputs: Outputs) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return for each output whether it is in the event."""
        reached = self.score.compute(outputs) >= self.threshold
        return reached if self.above else ~reached

    def count(self, outputs: Outputs) -> int:
        """Count the outputs in the event."""
        return int(np.count_nonzero(self.contains(outputs)))

    def __str__(self) -> str:
        return self.score.describe(self.threshold, self.above)


@dataclass(frozen=True)
class Candidate:
    """An event, the input under which it is likelier, the point of the claim that it tests, and its predicted strength."""

    event: OutputEvent
    favours_left: bool
    point: Point
    margin: float  # by how much the certified ε would exceed the claimed one
    sigmas: float  # standard errors above the claim
    separation: float  # standard errors between the two inputs


def find_candidates(
    scores: Sequence[Score], left: Outputs, right: Outputs, points: tuple[Point, ...], certified_on: int, alpha: float
) -> Iterator[Candidate]:
    """Find the most promising events of every score, by margin and by standard errors."""
    for score in scores:
        a, b = np.sort(score.compute(left)), np.sort(score.compute(right))
        cuts = _choose_thresholds(np.concatenate([a, b]))
        p, q = (1 - np.searchsorted(side, cuts, "left") / max(1, len(side)) for side in (a, b))
        for above in (True, False):
            for favours_left in (True, False):
                likelier, other = (p, q) if favours_left else (q, p)
                likelier, other = (likelier, other) if above else (1 - likelier, 1 - other)
                sizes = (len(left), len(right)) if favours_left else (len(right), len(left))
                margin, sigmas = predict_margins(likelier, other, sizes, points, certified_on, alpha)
                variance = proportion_variance(likelier, sizes[0]) + proportion_variance(other, sizes[1])
                separation = float(((likelier - other) / np.sqrt(variance)).max())
                often = np.where(likelier[:, None] * sizes[0] >= min(MIN_COUNT, sizes[0] / 2), sigmas, LOWEST_SCORE)
                chosen = {_find_maximum(margin), _find_maximum(often)}
                if score.simple:
                    chosen |= {(int(i), j) for j, i in enumerate(often.argmax(axis=0))}
                for i, j in chosen:
                    event = OutputEvent(score, float(cuts[i]), above)
                    yield Candidate(event, favours_left, points[j], float(margin[i, j]), float(sigmas[i, j]), separation)


def select_finalists(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Select seven events to certify.

    They are the one with the largest margin, the one with the most standard errors above the claim, and for five points of
    the claim the plain inequality with the most standard errors (few of those are tried, so chance has less influence).
    """
    plain: dict[Point, Candidate] = {}
    for each in candidates:
        if each.event.score.simple and (each.point not in plain or each.sigmas > plain[each.point].sigmas):
            plain[each.point] = each
    best = sorted(plain.values(), key=lambda each: -each.sigmas)[:5]
    return [max(candidates, key=lambda each: each.margin), max(candidates, key=lambda each: each.sigmas), *best]


def predict_margins(
    p: Floats, q: Floats, sizes: tuple[int, int], points: tuple[Point, ...], certified_on: int, alpha: float
) -> tuple[Floats, Floats]:
    """Predict how strong events would be as evidence, from their shares p and q among so many outputs of each input.

    Returns two arrays with one row per event and one column per point: by how much the ε certified on `certified_on`
    outputs per input would exceed the point's ε, and by how many standard errors the event lies above the point now.
    """
    eps, delta = (np.array([getattr(point, name) for point in points]) for name in ("epsilon", "delta"))
    modest, generous = wilson_interval(p, sizes[0], 1.0)[0], wilson_interval(q, sizes[1], 1.0)[1]
    z = normal_quantile(alpha / 2)
    low, high = wilson_interval(modest, certified_on, z)[0][:, None], wilson_interval(generous, certified_on, z)[1][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -inf) - eps
    growth = np.exp(eps)
    variance = proportion_variance(p, sizes[0])[:, None] + growth**2 * proportion_variance(q, sizes[1])[:, None]
    return margin, (p[:, None] - growth * q[:, None] - delta) / np.sqrt(variance)


def normal_quantile(alpha: float) -> float:
    """Return the upper α-quantile of the standard normal distribution."""
    from scipy.special import ndtri

    return -float(ndtri(alpha))


def wilson_interval(p: Floats, n: float, z: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval: close enough to Clopper–Pearson for choosing, and fast on arrays."""
    centre, spread = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.maximum(0.0, (centre - spread) / (1 + z * z / n)), np.minimum(1.0, (centre + spread) / (1 + z * z / n))


def proportion_variance(p: Floats, n: int) -> Floats:
    """Return the variance of a share of n outputs, at least that of a share of one."""
    return np.asarray(np.maximum(p * (1 - p), 1 / n) / n, np.float64)


def _find_maximum(values: Floats) -> tuple[int, int]:
    i, j = np.unravel_index(int(np.argmax(values)), values.shape)
    return int(i), int(j)


def _choose_thresholds(pooled: Floats) -> Floats:
    """Return quantiles, denser towards the ends."""
    tails = np.geomspace(2e-5, 0.01, 12)
    shares = np.unique(np.concatenate([[0.0], tails, np.linspace(0.01, 0.99, 99), 1 - tails, [1.0]]))
    return np.unique(np.quantile(pooled, shares, method="higher"))


# -- exact bounds -----------------------------------------------------------------------------------------------------------


ROUNDING_MARGIN = 1e-9
"""Relative; larger than the error of the inverse of the incomplete beta function."""


def clopper_pearson_lower(k: int, n: int, alpha: float) -> float:
    """Return a lower bound on a probability of which k of n trials were successes, wrong with probability α [CP34].

    >>> clopper_pearson_lower(0, 100, 0.001), round(clopper_pearson_lower(100, 100, 0.001), 4)
    (0.0, 0.9333)
    """
    from scipy.special import betaincinv

    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, alpha)) * (1 - ROUNDING_MARGIN)


def clopper_pearson_upper(k: int, n: int, alpha: float) -> float:
    """Return an upper bound on a probability of which k of n trials were successes, wrong with probability α [CP34]."""
    from scipy.special import betainccinv

    return 1.0 if k >= n else min(1.0, float(betainccinv(k + 1, n - k, alpha)) * (1 + ROUNDING_MARGIN))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts of an event under both inputs, and the point of the claim that it was chosen to test."""

    true_positives: int
    trials: int
    false_positives: int
    other_trials: int
    point: Point
    alpha: float  # for both bounds together

    @property
    def p_low(self) -> float:
        """A lower bound on the probability of the event under the input where it is likelier."""
        return clopper_pearson_lower(self.true_positives, self.trials, self.alpha / 2)

    @property
    def q_high(self) -> float:
        """An upper bound on its probability under the other input."""
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
        """The least probability of an event that can refute the point with so many outputs.

        A rarer event cannot, even if it never happens under the other input: this is the least k/n whose lower bound
        exceeds what the point allows beside 0 of n.
        """
        limit = self.point.max_probability(clopper_pearson_upper(0, self.other_trials, self.alpha / 2))
        limit *= 1 + ROUNDING_MARGIN
        low, high = 0, self.trials + 1
        while high - low > 1:
            middle = (low + high) // 2
            refutes = clopper_pearson_lower(middle, self.trials, self.alpha / 2) > limit
            low, high = (low, middle) if refutes else (middle, high)
        return min(1.0, high / self.trials)

    def compute_resolution(self, power_z: float = 1.2816) -> float:
        """Return the smallest relative shortfall of the claim that this event would show in nine audits of ten.

        0.05 means that a claimed ε that is 5% too small, at this event, would have been found; 1 means that nothing would.
        """
        q = max(self.false_positives, 1) / self.other_trials
        limit = self.point.max_probability(self.q_high)
        low, high = limit, 1.0
        if limit >= 1:
            return 1.0
        z = normal_quantile(self.alpha / 2) + power_z
        for _ in range(60):
            middle = (low + high) / 2
            enough = middle - z * sqrt(middle * (1 - middle) / self.trials) > limit
            low, high = (low, middle) if enough else (middle, high)
        if self.point.epsilon == 0:
            return 1 - self.point.delta / max(high - q, self.point.delta)
        visible = log(max(high - self.point.delta, q) / q)
        return 1 - self.point.epsilon / max(visible, self.point.epsilon)


# -- certification on fresh outputs -----------------------------------------------------------------------------------------


REPETITION = "two consecutive outputs are equal"

DrawOutputs = Callable[[Any, int, float, Columns], Outputs]
"""Draws n outputs for an input until a time, with the numbers of these columns."""


@dataclass(frozen=True)
class CertifiedEvent:
    """An event in words, and the evidence."""

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
    """Count the chosen events on n fresh outputs per input, or on half of them; return nothing if those are late too.

    The inputs alternate, so that a machine that slows down affects both.
    """
    inputs = (pair.left, pair.right)
    marks = (n,) if deadline == inf else tuple(dict.fromkeys((max(1, n // 2), n)))
    counts, done, certified = [[0, 0] for _ in candidates], 0, list[CertifiedEvent]()
    for mark in marks:
        while done < mark:
            size = min(chunk, mark - done)
            for side, data in enumerate(inputs):
                outputs = draw(data, size, deadline, columns)
                if len(outputs) < size or monotonic() > deadline:
                    return certified
                for each, count in zip(candidates, counts, strict=True):
                    count[side] += each.event.count(outputs)
            done += size
        certified = [
            _certify_event(pair, each, a, b, mark, alpha / len(marks))
            for each, (a, b) in zip(candidates, counts, strict=True)
        ]
    return certified


def certify_repetition(
    count_repeats: Callable[[Any, Any, int, float], int | None],
    pair: Pair,
    points: Sequence[Point],
    n: int,
    alpha: float,
    until: float,
) -> list[CertifiedEvent]:
    """Test whether noise is reused: run on the left input, then on left or right, and compare the two outputs.

    With independent noise the first output says nothing about the second, so "the second equals the first" must satisfy the
    claim like any other event. The point is the one that n outputs could refute most easily, chosen before they are drawn.
    """
    same = count_repeats(pair.left, pair.left, n, until)
    other = None if same is None else count_repeats(pair.left, pair.right, n, until)
    if same is None or other is None:
        return []
    rare = clopper_pearson_upper(0, n, alpha / 2)
    point = min(points, key=lambda each: each.max_probability(rare))
    likelier = f"{shorten(pair.left)} and again"
    return [CertifiedEvent(pair, REPETITION, likelier, Evidence(same, n, other, n, point, alpha))]


def _certify_event(pair: Pair, each: Candidate, a: int, b: int, n: int, alpha: float) -> CertifiedEvent:
    true_positives, false_positives = (a, b) if each.favours_left else (b, a)
    likelier = shorten(pair.left if each.favours_left else pair.right)
    evidence = Evidence(true_positives, n, false_positives, n, each.point, alpha)
    return CertifiedEvent(pair, str(each.event), likelier, evidence)
