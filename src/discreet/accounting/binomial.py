"""δ(ε) of one binomial noise shifted by a whole number, by summing the probabilities themselves."""

from fractions import Fraction
from math import ceil

from discreet.accounting.elementary import exp_neg_bounds
from discreet.exact import ceil_float
from discreet.noise.fair_coins import weights

BITS = 96


def binomial_delta(n: int, shift: int, epsilon: Fraction) -> float:
    """Σ_k max(0, p(k) − e^ε·p(k + shift)) for Binomial(n, ½), n even, rounded up.

    The law is symmetric, so both directions cost the same; it is log-concave, so a larger shift costs more.
    """
    table = weights(n, BITS)
    last = len(table.values) - 1
    side = [table.values[0], *(value // 2 for value in table.values[1:])]  # both signs share a doubled weight
    discount = ceil(exp_neg_bounds(epsilon)[1] * (1 << BITS))  # e^-ε, rounded up
    # Terms are multiplied by e^-ε: e^-ε·(w_i + what the table lost) − w_{i+shift}, the latter at least its table value.
    excess = 0
    for i in range(-last, last + 1):
        shifted = side[abs(i + shift)] if abs(i + shift) <= last else 0
        excess += max(0, discount * (side[abs(i)] + table.error) - (shifted << BITS))
    beyond = table.error  # all that the table leaves out may count in full
    return min(1.0, ceil_float((Fraction(excess, discount) + beyond) / sum(table.values)))
