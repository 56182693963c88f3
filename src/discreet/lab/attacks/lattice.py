"""What the noise of a count does, exactly: the law P(k) = (1−a)/(1+a)·a^|k| with a = e^{−1/scale}."""

from fractions import Fraction
from math import exp, sinh, sqrt, tanh


def noise_deviation(scale: Fraction) -> float:
    """The standard deviation, √(2a)/(1−a) = 1/(√2·sinh(1/(2·scale))).

    >>> round(noise_deviation(Fraction(1)), 4)
    1.357
    """
    return 1 / (sqrt(2) * sinh(1 / (2 * float(scale))))


def collision_probability(scale: Fraction) -> float:
    """The probability that two such noises are equal: Σ P(k)² = ((1−a)/(1+a))²·(1+a²)/(1−a²).

    >>> round(collision_probability(Fraction(2)), 4)
    0.1298
    """
    a = exp(-1 / float(scale))
    return tanh(1 / (2 * float(scale))) ** 2 * (1 + a * a) / (1 - a * a)
