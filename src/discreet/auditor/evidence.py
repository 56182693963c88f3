"""From counts to certainty: exact binomial bounds, and the ε that they prove.

Whatever was chosen (the pair, the direction, the event, the point of the curve) was chosen on other answers than those that
are counted here. Then k of n independent answers in E bound P(E) by Clopper and Pearson, each side with its own share of α,
and P(E) − δ > e^ε·P'(E) proves that ε is not kept.
"""

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.claims import Point

Floats = NDArray[np.float64]
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
