"""An oracle of curves: the two output distributions of a small mechanism, outcome by outcome, in Arb's ball arithmetic.

Nothing here knows of privacy losses: a mechanism is a list of (P, Q) masses, composition multiplies them, sampling mixes
them, and δ(ε) = Σ max(0, p − e^ε·q).
"""

from collections.abc import Sequence
from fractions import Fraction
from math import comb, exp

from flint import arb, arb_poly, fmpq

Outcomes = list[tuple[arb, arb]]


def ball(x: Fraction | int) -> arb:
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def response(truth: Fraction, choices: int) -> Outcomes:
    other = ball((1 - truth) / (choices - 1))
    return [(ball(truth), other), (other, ball(truth)), *([(other, other)] * (choices - 2))]


def claim(epsilon: Fraction, delta: Fraction) -> Outcomes:
    up = (1 - ball(delta)) / (1 + (-ball(epsilon)).exp())
    down = (1 - ball(delta)) / (1 + ball(epsilon).exp())
    return [(ball(delta), arb(0)), (up, down), (down, up), (arb(0), ball(delta))]


def on_integers(weights: dict[int, arb], shift: int) -> Outcomes:
    total = sum(weights.values(), arb(0))
    keys = range(min(weights), max(weights) + shift + 1)
    none = arb(0)
    return [(weights.get(k, none) / total, weights.get(k - shift, none) / total) for k in keys]


def binomial(n: int, shift: int) -> Outcomes:
    return on_integers({k: arb(comb(n, k)) for k in range(n + 1)}, shift)


def discrete_laplace(scale: Fraction, shift: int) -> Outcomes:
    """Exactly: everything at or below 0 has one ratio, everything at or above the shift another."""
    a = (-1 / ball(scale)).exp()
    ends = [(1 / (1 + a), a**shift / (1 + a)), (a**shift / (1 + a), 1 / (1 + a))]
    middle = [((1 - a) / (1 + a) * a**k, (1 - a) / (1 + a) * a ** (shift - k)) for k in range(1, shift)]
    return ends + middle


def discrete_gaussian(sigma: Fraction, shift: int, reach: int) -> Outcomes:
    """Cut at `reach` from the middle of both, where the masses are below the precision that is compared."""

    def weight(k: int) -> arb:
        return (-ball(Fraction(k * k) / (2 * sigma**2))).exp()

    total = sum((weight(k) for k in range(-reach - shift, reach + shift + 1)), arb(0))
    return [(weight(k) / total, weight(k - shift) / total) for k in range(-reach, reach + shift + 1)]


def sampled(outcomes: Outcomes, rate: Fraction) -> Outcomes:
    q = ball(rate)
    return [((1 - q) * b + q * a, b) for a, b in outcomes]


def composed(parts: Sequence[Outcomes]) -> Outcomes:
    total: Outcomes = [(arb(1), arb(1))]
    for part in parts:
        total = [(p * a, q * b) for p, q in total for a, b in part]
    return total


def hockey_stick(outcomes: Outcomes, epsilon: Fraction, swapped: bool = False) -> arb:
    """Σ max(0, p − e^ε·q), or with p and q exchanged."""
    scale = ball(epsilon).exp()
    gaps = ((b - scale * a) if swapped else (a - scale * b) for a, b in outcomes)
    return sum((gap.max(arb(0)) for gap in gaps), arb(0))


def lattice_power(masses: dict[int, arb], times: int) -> arb_poly:
    """The masses of a `times`-fold sum on a lattice; index 0 is times·(least key)."""
    least = min(masses)
    poly = arb_poly([masses.get(least + i, arb(0)) for i in range(max(masses) - least + 1)])
    return poly**times


def misses(lower: float, upper: float, truth: arb, slack: float = 0.0) -> bool:
    """Whether [lower, upper] certainly does not hold the truth, up to what the truth itself left out."""
    return bool(truth + slack < arb(lower)) or bool(truth - slack > arb(upper))


def adaptive_delta(pairs: list[Outcomes], times: int, epsilon: float) -> float:
    """δ(ε) of `times` events, each of which meets any one of the pairs, chosen after seeing the answers so far."""

    def most(remaining: int, p: float, q: float) -> float:
        if remaining == 0:
            return max(0.0, p - exp(epsilon) * q)
        return max(sum(most(remaining - 1, p * float(a), q * float(b)) for a, b in pair) for pair in pairs)

    return most(times, 1.0, 1.0)
