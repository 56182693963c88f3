"""`calibrate`: the mechanism with the least noise for a price that covers all of its rounds."""

from fractions import Fraction
from typing import TypeVar

from discreet.accounting.calibration import find_smallest_scale, guess_scale
from discreet.exact import Number, check_int, read_positive, to_rational
from discreet.loss import Event, Subsampled, repeat
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound

Scaled = TypeVar("Scaled", Laplace, Gaussian, DiscreteGaussian)


def calibrate(
    kind: type[Scaled],
    *,
    sensitivity: Sensitivity | Number,
    epsilon: Number,
    delta: Number = 0,
    times: int = 1,
    rate: Number | None = None,
) -> Scaled:
    """The least noise with which `times` releases (each on a Poisson sample, if `rate` is given) cost at most (ε, δ).

    Its certified upper bound meets the target, by the mechanism's own fact: for `Laplace` the discrete law's.

    >>> from discreet import Gaussian, Laplace
    >>> calibrate(Gaussian, sensitivity=1, epsilon=1, delta=1e-6, times=1000)
    Gaussian(sigma=133.59...)
    >>> calibrate(Laplace, sensitivity=1, epsilon=1, times=10)
    Laplace(scale=10)
    """
    moved, rounds = bound(sensitivity), check_int(times, "times", 1)
    if delta == 0 and kind is Laplace and rate is None:
        return kind(Laplace.for_epsilon(read_positive(epsilon, "epsilon") / rounds, moved).scale)

    def fact(scale: Fraction) -> Event:
        once = kind(scale).event(moved)
        return repeat(once if rate is None else Subsampled(once, to_rational(rate, "rate")), rounds)

    return kind(find_smallest_scale(fact, epsilon, delta, guess_scale(float(moved.l2), epsilon, delta, rounds, rate)))
