"""Events of every kind, one of each by name, for properties that hold of all of them."""

from fractions import Fraction

from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SetResponseEvent,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    compose,
)
from discreet.units import Sensitivity, to_sensitivity

ONE, THREE = to_sensitivity(1), Sensitivity(l0=3, linf=2)
HALF = Fraction(1, 2)

PLAIN: dict[str, Event] = {
    "laplace": LaplaceEvent(Fraction(2), ONE),
    "laplace in l1": LaplaceEvent(Fraction(5), Sensitivity(l1=3)),
    "discrete laplace": DiscreteLaplaceEvent(Fraction(7), THREE),
    "truncated": TruncatedGeometricEvent(Fraction(3), 0, 10, ONE),
    "gaussian": GaussianEvent(Fraction(2), THREE),
    "discrete gaussian": DiscreteGaussianEvent(Fraction(4), ONE),
    "narrow discrete gaussian": DiscreteGaussianEvent(Fraction(2, 5), ONE),
    "discrete gaussian in l2": DiscreteGaussianEvent(Fraction(9), Sensitivity(l2=3)),
    "binomial": BinomialEvent(60, ONE),
    "response": RandomizedResponseEvent(Fraction(3, 4), 2),
    "choices": RandomizedResponseEvent(Fraction(2, 5), 7),
    "set response": SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)),
    "exponential": ExponentialEvent(HALF),
    "permute and flip": PermuteAndFlipEvent(HALF),
    "threshold": ThresholdEvent(Fraction(2), 40, 2),
    "keep": OptimalPartitionSelectionEvent(HALF, Fraction(1, 10**7), 2),
    "claim": Claim(Fraction(1), Fraction(1, 10**6)),
}

NESTED: dict[str, Event] = {
    "composition": compose(PLAIN["laplace"], PLAIN["choices"], PLAIN["gaussian"]),
    "parallel": Parallel((PLAIN["laplace"], PLAIN["gaussian"])),
    "group": Group(PLAIN["discrete laplace"], 2),
    "sampled gaussian": Subsampled(GaussianEvent(Fraction(1), ONE), Fraction(1, 10)) * 100,
    "sampled response": Subsampled(PLAIN["response"], Fraction(1, 5)),
    "sampled binomial": Subsampled(PLAIN["binomial"], Fraction(1, 5)),
    "sampled laplace": Subsampled(PLAIN["laplace"], Fraction(1, 5)),
    "sampled composition": Subsampled(compose(PLAIN["response"], PLAIN["claim"]), Fraction(1, 5)),
}

ZOO = {**PLAIN, **NESTED}
