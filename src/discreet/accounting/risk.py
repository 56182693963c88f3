"""What an attacker can achieve against an event: beliefs, the trade-off curve, the advantage, the true-positive rate.

An attacker who tests whether one person is in the data, with a false-positive rate of α, has a false-negative rate of at
least f(α). The curve f is the convex dual of δ(ε) [DRS22, Prop. 2.12]:

    f(α) = max over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε·α, e^{-ε}·(1 − δ(ε) − α)).

Any ε gives a valid lower bound on f with δ's upper end, so f's *lower* end (the guarantee) holds for whichever ε are tried.
For the upper end the ε between those that were tried matter too: there δ's convexity bounds it (`_bound_cells`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, inf

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    floor_float,
    format_rational,
    format_up,
    nearest_float,
    read_decimal,
    to_rational,
)
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.elementary import exp_neg_bounds
from discreet.errors import BadParameter
from discreet.events import Event

_POINTS = 40


def posterior_range(epsilon: Number, prior: Number) -> Bounds:
    """What a reader may believe of one person after outputs that cost a pure ε, who believed it with `prior` before.

    The two hypotheses must be neighbours. If neighbours differ by one person added or removed, that is a person's presence;
    an attribute of someone who is there is one removal and one addition, so give 2ε for it.

    **Proof.** The two hypotheses are neighbouring data sets, so the likelihoods of the outputs differ by at most a factor
    e^ε, and by Bayes' rule so do the odds: p·e^{-ε}/(p·e^{-ε} + 1 − p) ≤ posterior ≤ p/(p + (1 − p)·e^{-ε}).

    >>> found = posterior_range(1, 0.5)
    >>> round(found.lower, 3), round(found.upper, 3)
    (0.269, 0.731)
    """
    eps, before = read_decimal(epsilon, "epsilon"), read_decimal(prior, "prior")
    if eps < 0:
        raise BadParameter("epsilon", format_rational(eps), "must not be negative", "give 0 or more")
    if not 0 <= before <= 1:
        raise BadParameter("prior", format_rational(before), "must lie between 0 and 1", "give a probability")
    decay = exp_neg_bounds(eps)[0] if eps else Fraction(1)  # rounded down: both ends move outwards
    low = before * decay / (before * decay + 1 - before) if before < 1 else Fraction(1)
    high = before / (before + (1 - before) * decay) if before > 0 else Fraction(0)
    return Bounds(floor_float(low), ceil_float(high))


def advantage(event: Event, rtol: float = 1e-6) -> Bounds:
    """The largest true-positive rate less false-positive rate of any attacker: δ(0), the total variation distance.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim
    >>> round(advantage(Claim(Fraction(1), Fraction(0))).upper, 6)
    0.462117
    """
    return delta(event, 0, rtol)


def trade_off(event: Event, alpha: Number, rtol: float = 1e-4) -> Bounds:
    """f(α): the least false-negative rate of an attacker whose false-positive rate is α.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim
    >>> bounds = trade_off(Claim(Fraction(1), Fraction(0)), Fraction(1, 10))
    >>> bounds.lower <= 1 - 0.1 * 2.718281828459045 <= bounds.upper
    True
    """
    rate = _check_probability(alpha)
    grid = [_Point.of(event, eps, rtol) for eps in _choose_epsilons(event)]
    for _ in range(_POINTS):  # halve the cell that could hold the largest value, until the gap is closed
        low, above = max(0.0, *(point.guarantee(rate) for point in grid)), _bound_cells(grid, rate)
        worst = max(range(len(above)), key=above.__getitem__)
        if above[worst] <= low + rtol or worst + 2 >= len(grid):
            break
        middle = (grid[worst].epsilon + grid[worst + 1].epsilon) / 2
        grid.insert(worst + 1, _Point.of(event, middle, rtol))
    low = max(0.0, *(point.guarantee(rate) for point in grid))
    return Bounds(low * (1 - 2**-50), min(1.0 - rate, max(low, *_bound_cells(grid, rate))))


def true_positive_rate(event: Event, alpha: Number, rtol: float = 1e-4) -> Bounds:
    """The largest rate of true positives at a rate α of false positives: 1 − f(α)."""
    missed = trade_off(event, alpha, rtol)
    return Bounds(1 - missed.upper, min(1.0, (1 - missed.lower) * (1 + 2**-52)))


@dataclass(frozen=True, slots=True)
class _Point:
    """δ's interval at one ε."""

    epsilon: float
    low: float
    high: float

    @classmethod
    def of(cls, event: Event, eps: float, rtol: float) -> _Point:
        found = delta(event, eps, rtol)
        return cls(eps, found.lower, found.upper)

    def guarantee(self, rate: float) -> float:
        """f(α) is at least this."""
        slip = 8 * 2**-52
        steep = 1 - self.high - exp(min(700.0, self.epsilon)) * rate * (1 + slip)
        flat = exp(-self.epsilon) * (1 - self.high - rate)
        return max(steep, flat) - slip


def _choose_epsilons(event: Event) -> list[float]:
    """Evenly from 0 to where δ is close to the mass at infinity, and ∞."""
    at_infinity = delta(event, inf).upper
    top = epsilon(event, min(1.0, at_infinity * 1.001 + 1e-9), 1e-3).upper
    top = min(700.0, top if top > 0 else 1.0)
    return [*(top * k / 8 for k in range(9)), inf]


def _bound_cells(grid: list[_Point], rate: float) -> list[float]:
    """Upper bounds on both terms of f(α) between neighbouring ε's.

    δ is convex and falls in x = e^ε, so on [x₁, x₂] it is at least the line through its values at x₂ and x₃, taken as
    flat as their intervals allow. On a line both terms are largest at an end. Past the last finite x, δ is at least
    its limit.
    """
    found = []
    for i, (here, after) in enumerate(pairwise(grid)):
        if after.epsilon == inf:
            x = exp(here.epsilon) * (1 - 2**-50)
            found.append(max(1 - after.low - x * rate, (1 - after.low - rate) / x))
            continue
        x, y, then = exp(here.epsilon), exp(after.epsilon), grid[i + 2]
        slope = 0.0 if then.epsilon == inf else max(0.0, (after.low - then.high) / (exp(then.epsilon) - y))
        ends = ((x, after.low + slope * (y - x) * (1 - 2**-40)), (y, after.low))
        found.append(max(max(1 - d - at * rate, (1 - d - rate) / at) for at, d in ends) * (1 + 2**-48) + 2**-48)
    return found


def _check_probability(alpha: Number) -> float:
    exact = to_rational(alpha, "alpha")
    if not 0 <= exact <= 1:
        raise BadParameter("alpha", format_rational(exact), "must lie between 0 and 1", "give a false-positive rate")
    return nearest_float(exact)


def describe_risk(event: Event, alpha: Number = 0.05) -> str:
    """The risk in one sentence, with the guarantee's end of each interval.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim
    >>> describe_risk(Claim(Fraction(1), Fraction(0)))
    'an attacker with 5% false alarms is right about at most 13.6% of those present (advantage at most 46.3%)'
    """
    rate, right = _check_probability(alpha), format_up(100 * true_positive_rate(event, alpha).upper, 3)
    return (
        f"an attacker with {100 * rate:.3g}% false alarms is right about at most {right}% of "
        f"those present (advantage at most {format_up(100 * advantage(event).upper, 3)}%)"
    )
