"""One event of every kind, and their combinations, for properties that must hold for all of them."""

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
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    compose,
)
from discreet.units import Sensitivity, to_sensitivity

SINGLE: dict[str, Event] = {
    "laplace": LaplaceEvent(Fraction(3), to_sensitivity(1)),
    "laplace, many coordinates": LaplaceEvent(Fraction(5), Sensitivity(l0=4, linf=1)),
    "discrete laplace": DiscreteLaplaceEvent(Fraction(3, 2), to_sensitivity(2)),
    "truncated geometric": TruncatedGeometricEvent(Fraction(2), 0, 10, to_sensitivity(1)),
    "gaussian": GaussianEvent(Fraction(2), to_sensitivity(1)),
    "gaussian, irrational l2": GaussianEvent(Fraction(4), Sensitivity(l2_squared=2)),
    "discrete gaussian": DiscreteGaussianEvent(Fraction(3), to_sensitivity(1)),
    "binomial": BinomialEvent(100, to_sensitivity(1)),
    "response": RandomizedResponseEvent(Fraction(3, 4), 2),
    "response of four": RandomizedResponseEvent(Fraction(1, 2), 4),
    "response that mostly lies": RandomizedResponseEvent(Fraction(1, 5), 2),
    "exponential": ExponentialEvent(Fraction(1)),
    "permute and flip": PermuteAndFlipEvent(Fraction(1)),
    "threshold": ThresholdEvent(Fraction(1), 20, 3),
    "keep": OptimalPartitionSelectionEvent(Fraction(1, 2), Fraction(1, 10**6), 2),
    "claim": Claim(Fraction(1, 2), Fraction(1, 10**6)),
    "pure claim": Claim(Fraction(1, 2), Fraction(0)),
}

NESTED: dict[str, Event] = {
    "nothing": compose(),
    "composition": compose(*SINGLE.values()),
    "pure composition": compose(SINGLE["laplace"], SINGLE["response"]) * 5,
    "parallel": Parallel((SINGLE["laplace"], SINGLE["gaussian"], SINGLE["claim"])),
    "group": Group(SINGLE["laplace"], 3),
    "group of a claim": Group(SINGLE["claim"], 3),
    "group of a response": Group(SINGLE["response"], 2),
    "group of a threshold": Group(SINGLE["threshold"], 2),
    "sample of a gaussian": Subsampled(SINGLE["gaussian"], Fraction(1, 100)),
    "sample of a laplace": Subsampled(SINGLE["laplace"], Fraction(1, 10)),
    "sample of an exponential": Subsampled(SINGLE["exponential"], Fraction(1, 10)),
    "sample of a claim": Subsampled(SINGLE["claim"], Fraction(1, 10)),
    "sample of a threshold": Subsampled(SINGLE["threshold"], Fraction(1, 10)),
    "sample of a sample": Subsampled(Subsampled(SINGLE["gaussian"], Fraction(1, 10)), Fraction(1, 10)),
    "share of a laplace": SampledWithoutReplacement(SINGLE["laplace"], Fraction(1, 10)),
    "share of a gaussian": SampledWithoutReplacement(SINGLE["gaussian"], Fraction(1, 100)),
    "share of an exponential": SampledWithoutReplacement(SINGLE["exponential"], Fraction(1, 10)),
    "share of a claim": SampledWithoutReplacement(SINGLE["claim"], Fraction(1, 10)),
    "share of a share": SampledWithoutReplacement(
        SampledWithoutReplacement(SINGLE["response"], Fraction(1, 2)), Fraction(1, 3)
    ),
    "set response": SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)),
    "set response of subsets": SetResponseEvent(Fraction(5, 2), Fraction(2, 5), Fraction(1, 10)),
    "memoised response": Memoised(SINGLE["response"], SINGLE["response"], None, 30, 2),
    "memoised set": Memoised(
        SINGLE["response"], SetResponseEvent(Fraction(9), Fraction(1, 3), Fraction(0)), SINGLE["response of four"], 12, 3
    ),
    "shuffled response": Shuffled(SINGLE["response"], 100),
    "shuffled laplace": Shuffled(SINGLE["laplace"], 10**6),
    "shuffled set": Shuffled(SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)), 20) * 3,
    "sample of everything": Subsampled(compose(*SINGLE.values()), Fraction(1, 2)),
}

EVERY = {**SINGLE, **NESTED}
