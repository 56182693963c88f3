"""Randomised response, which is also the worst of all ε-private mechanisms."""

from fractions import Fraction

from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.laws import EPS
from discreet.accounting.laws.atoms import DiscretePld
from discreet.exact import nearest_float


def build_pure_pld(epsilon: Fraction) -> DiscretePld:
    """Randomised response of ε: the loss is ε with mass 1/(1 + e^{-ε}), else −ε."""
    eps = nearest_float(epsilon)
    low, high = exp_neg_bounds(epsilon)
    log_kept = nearest_float(-log_bounds(1 + (low + high) / 2)[0])
    return DiscretePld.of([eps, -eps], [log_kept, log_kept - eps], EPS * eps, EPS * (4 + eps))


def build_response_pld(truth: Fraction, choices: int) -> DiscretePld:
    """k answers, the true one with `truth`: loss ±ln(truth/other), and 0 on the answers that neither input favours."""
    other = (1 - truth) / (choices - 1)
    if truth == other:
        return DiscretePld.of([0.0], [0.0])
    odds = nearest_float(sum(log_bounds(truth / other), Fraction(0)) / 2)
    mass = [nearest_float(sum(log_bounds(p), Fraction(0)) / 2) for p in (truth, other)]
    loss = [odds, -odds]
    if choices > 2:
        loss.append(0.0)
        mass.append(nearest_float(sum(log_bounds((choices - 2) * other), Fraction(0)) / 2))
    return DiscretePld.of(loss, mass, 0.0, EPS)
