"""What a loss lets an attacker do, in plain words: the trade-off curve, the advantage, the hits at a rate of false alarms.

An attacker who must tell "with this person" from "without" and accuses the innocent with probability α misses the
guilty with probability at least f(α). The curve f is the convex dual of δ(ε) [DRS22, Prop. 2.12]:

    f(α) = max over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε·α, e^{-ε}·(1 − δ(ε) − α)).

Any ε gives a valid lower bound on f with δ's upper end, so f's *lower* end (the guarantee) holds for whichever ε's are tried.
For the upper end what happens between the ε's that were tried matters too; there δ is bounded by its fall (`_above`).
"""

from dataclasses import dataclass
from math import exp, inf

from discreet.accounting.curve import delta, epsilon
from discreet.errors import BadParameter
from discreet.exact import Bounds, Number, nearest_float, rational, shown
from discreet.loss import Loss

_POINTS = 24


def advantage(loss: Loss, rtol: float = 1e-6) -> Bounds:
    """The largest (hits − false alarms) of any attacker: δ(0), the total variation distance.

    >>> from fractions import Fraction
    >>> from discreet.loss import Claim
    >>> round(advantage(Claim(Fraction(1), Fraction(0))).upper, 6)
    0.462117
    """
    return delta(loss, 0, rtol)


def trade_off(loss: Loss, alpha: Number, rtol: float = 1e-6) -> Bounds:
    """f(α): the least probability of a miss for an attacker with false alarms at rate α.

    >>> from fractions import Fraction
    >>> from discreet.loss import Claim
    >>> bounds = trade_off(Claim(Fraction(1), Fraction(0)), Fraction(1, 10))
    >>> bounds.lower <= 1 - 0.1 * 2.718281828459045 <= bounds.upper
    True
    """
    rate = _probability(alpha)
    grid = [_Point.of(loss, eps, rtol) for eps in _epsilons(loss)]
    low = max(0.0, *(point.guarantee(rate) for point in grid))
    best = max(range(len(grid)), key=lambda i: grid[i].guarantee(rate))
    for _ in range(3):  # look closer around the best ε
        ends = [grid[i].epsilon for i in (max(0, best - 1), best, min(len(grid) - 1, best + 1))]
        inner = {eps + (after - eps) * k / 8 for eps, after in zip(ends, ends[1:], strict=False) for k in range(9)}
        grid = sorted({*grid, *(_Point.of(loss, eps, rtol) for eps in inner - {p.epsilon for p in grid})}, key=_place)
        best = max(range(len(grid)), key=lambda i: grid[i].guarantee(rate))
        low = max(low, grid[best].guarantee(rate))
    return Bounds(low * (1 - 2**-50), min(1.0 - rate, max(low, _above(grid, rate))))


def hits(loss: Loss, alpha: Number, rtol: float = 1e-6) -> Bounds:
    """The largest rate of true positives at a rate α of false positives: 1 − f(α)."""
    missed = trade_off(loss, alpha, rtol)
    return Bounds(1 - missed.upper, min(1.0, (1 - missed.lower) * (1 + 2**-52)))


@dataclass(frozen=True, slots=True)
class _Point:
    """δ's interval at one ε."""

    epsilon: float
    low: float
    high: float

    @classmethod
    def of(cls, loss: Loss, eps: float, rtol: float) -> "_Point":
        found = delta(loss, eps, rtol)
        return cls(eps, found.lower, found.upper)

    def guarantee(self, rate: float) -> float:
        """f(α) is at least this."""
        slip = 8 * 2**-52
        steep = 1 - self.high - exp(min(700.0, self.epsilon)) * rate * (1 + slip)
        flat = exp(-self.epsilon) * (1 - self.high - rate)
        return max(steep, flat) - slip


def _place(point: _Point) -> float:
    return point.epsilon


def _epsilons(loss: Loss) -> list[float]:
    """Evenly from 0 to where δ is next to nothing."""
    top = epsilon(loss, 1e-9, 1e-3).upper
    top = top if top < inf else min(epsilon(loss, 0.5, 1e-3).upper, 100.0)
    return [top * k / _POINTS for k in range(_POINTS + 1)]


def _above(grid: list[_Point], rate: float) -> float:
    """An upper bound on f(α): between neighbours x₁ < x₂ of x = e^ε, δ ≥ δ(x₂) because it falls, so the two terms are at most
    1 − δ(x₂) − x₁·α and (1 − δ(x₂) − α)/x₁ there; past the last x, δ ≥ 0.
    """
    best = 0.0
    for here, after in zip(grid, [*grid[1:], _Point(inf, 0.0, 0.0)], strict=True):
        x = exp(min(700.0, here.epsilon)) * (1 - 2**-50)
        best = max(best, 1 - after.low - x * rate, (1 - after.low - rate) / x)
    return best + 2**-50


def _probability(alpha: Number) -> float:
    exact = rational(alpha, "alpha")
    if not 0 <= exact <= 1:
        raise BadParameter("alpha", shown(exact), "must lie between 0 and 1", "give a rate of false alarms")
    return nearest_float(exact)


def words(loss: Loss, alpha: Number = 0.05) -> str:
    """The risk in one sentence, with the guarantee's end of each interval.

    >>> from fractions import Fraction
    >>> from discreet.loss import Claim
    >>> words(Claim(Fraction(1), Fraction(0)))
    'an attacker with 5% false alarms is right about at most 13.6% of those present (advantage at most 46.2%)'
    """
    rate = _probability(alpha)
    return (
        f"an attacker with {100 * rate:.3g}% false alarms is right about at most {100 * hits(loss, alpha).upper:.3g}% of "
        f"those present (advantage at most {100 * advantage(loss).upper:.3g}%)"
    )
