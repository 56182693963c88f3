"""The names that a ledger written as text may use, what each needs, and the fact that it stands for."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

from discreet.accounting.elementary import exp_bounds
from discreet.loss import (
    Claim,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    ResponseLoss,
)
from discreet.units import Sensitivity, sensitivity

Numbers: TypeAlias = Mapping[str, Fraction]


def _moved(numbers: Numbers) -> Sensitivity:
    """`sensitivity=` shifts one coordinate."""
    return sensitivity(numbers.get("sensitivity", Fraction(1)))


def response(epsilon: Fraction) -> Loss:
    """Binary randomised response that costs ε or, by rounding, a hair more: it describes a release that was made.

    >>> from discreet.accounting.pure import pure
    >>> pure(response(Fraction(1))) >= 1
    True
    """
    if epsilon > 1000:  # an ε-private fact reads as randomised response of ε anyway
        return Claim(epsilon, Fraction(0))
    low, high = exp_bounds(-epsilon)
    bits = 128 + ceil(epsilon * 3 / 2)
    wrong = Fraction(int(low / (1 + high) * (1 << bits)), 1 << bits)
    return ResponseLoss(1 - wrong, 2)


class Law(NamedTuple):
    """A name of the language: what it means, what it needs, and the fact that it makes."""

    meaning: str
    needs: tuple[str, ...]
    may: tuple[str, ...]
    make: Callable[[Numbers], Loss]


LAWS: dict[str, Law] = {
    "laplace": Law(
        "continuous Laplace noise on one coordinate (discreet itself draws discrete_laplace)",
        ("scale",),
        ("sensitivity",),
        lambda n: LaplaceLoss(n["scale"], _moved(n)),
    ),
    "gaussian": Law(
        "Gaussian noise, continuous or rounded afterwards",
        ("sigma",),
        ("sensitivity",),
        lambda n: GaussianLoss(n["sigma"], _moved(n)),
    ),
    "discrete_laplace": Law(
        "P(k) ∝ e^{-|k|/scale} on whole numbers",
        ("scale",),
        ("sensitivity",),
        lambda n: DiscreteLaplaceLoss(n["scale"], _moved(n)),
    ),
    "discrete_gaussian": Law(
        "P(k) ∝ e^{-k²/2σ²} on whole numbers",
        ("sigma",),
        ("sensitivity",),
        lambda n: DiscreteGaussianLoss(n["sigma"], _moved(n)),
    ),
    "response": Law(
        "binary randomised response",
        ("epsilon",),
        (),
        lambda n: response(n["epsilon"]),
    ),
    "claim": Law(
        "somebody's word that a release was (ε, δ)-private",
        ("epsilon",),
        ("delta",),
        lambda n: Claim(n["epsilon"], n.get("delta", Fraction(0))),
    ),
}
"""Every name but `subsampled(release, rate=)`, which takes a release."""
