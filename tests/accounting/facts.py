"""One fact of every kind, and their combinations, for laws that must hold over all of them."""

from fractions import Fraction

from discreet.loss import (
    BinomialLoss,
    Claim,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    ExponentialLoss,
    GaussianLoss,
    Group,
    KeepLoss,
    LaplaceLoss,
    Loss,
    Parallel,
    PermuteAndFlipLoss,
    ResponseLoss,
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
    compose,
)
from discreet.units import Sensitivity, sensitivity

SINGLE: dict[str, Loss] = {
    "laplace": LaplaceLoss(Fraction(3), sensitivity(1)),
    "laplace, many coordinates": LaplaceLoss(Fraction(5), Sensitivity(l0=4, linf=1)),
    "discrete laplace": DiscreteLaplaceLoss(Fraction(3, 2), sensitivity(2)),
    "truncated geometric": TruncatedGeometricLoss(Fraction(2), 0, 10, sensitivity(1)),
    "gaussian": GaussianLoss(Fraction(2), sensitivity(1)),
    "gaussian, irrational l2": GaussianLoss(Fraction(4), Sensitivity(l2_squared=2)),
    "discrete gaussian": DiscreteGaussianLoss(Fraction(3), sensitivity(1)),
    "binomial": BinomialLoss(100, sensitivity(1)),
    "response": ResponseLoss(Fraction(3, 4), 2),
    "response of four": ResponseLoss(Fraction(1, 2), 4),
    "response that mostly lies": ResponseLoss(Fraction(1, 5), 2),
    "exponential": ExponentialLoss(Fraction(1)),
    "permute and flip": PermuteAndFlipLoss(Fraction(1)),
    "threshold": ThresholdLoss(Fraction(1), 20, 3),
    "keep": KeepLoss(Fraction(1, 2), Fraction(1, 10**6), 2),
    "claim": Claim(Fraction(1, 2), Fraction(1, 10**6)),
    "pure claim": Claim(Fraction(1, 2), Fraction(0)),
}

NESTED: dict[str, Loss] = {
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
    "sample of everything": Subsampled(compose(*SINGLE.values()), Fraction(1, 2)),
}

EVERY = {**SINGLE, **NESTED}
