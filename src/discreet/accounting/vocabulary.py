"""The names that a ledger written as text may use, what each needs, and the fact that it stands for."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

from discreet.accounting.elementary import exp_bounds
from discreet.errors import BadParameter
from discreet.loss import (
    BinomialLoss,
    Claim,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    Parallel,
    ResponseLoss,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdLoss,
    group,
)
from discreet.units import Sensitivity, sensitivity

Numbers: TypeAlias = Mapping[str, Fraction]

NORMS = ("l0", "l1", "l2", "linf")
MOVED = ("sensitivity", *NORMS)
WHOLE = ("l0", "n", "size", "threshold", "groups")
"""Arguments that are whole numbers."""

POSITIVE = ("scale", "sigma", *MOVED, "n", "size", "threshold", "groups")
"""Arguments that are above 0."""


def _moved(numbers: Numbers) -> Sensitivity:
    """Read `sensitivity=`, which shifts one coordinate, or the norms of a change of several."""
    given = {name: numbers[name] for name in NORMS if name in numbers}
    if not given:
        return sensitivity(numbers.get("sensitivity", Fraction(1)))
    if "sensitivity" in numbers:
        raise BadParameter("sensitivity", numbers["sensitivity"], "norms are given as well", "give sensitivity= or norms")
    l0 = given.get("l0")
    return Sensitivity(l0=None if l0 is None else int(l0), l1=given.get("l1"), l2=given.get("l2"), linf=given.get("linf"))


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
        "continuous Laplace noise (discreet itself draws discrete_laplace)",
        ("scale",),
        MOVED,
        lambda n: LaplaceLoss(n["scale"], _moved(n)),
    ),
    "gaussian": Law(
        "Gaussian noise, continuous or rounded afterwards",
        ("sigma",),
        MOVED,
        lambda n: GaussianLoss(n["sigma"], _moved(n)),
    ),
    "discrete_laplace": Law(
        "P(k) ∝ e^{-|k|/scale} on whole numbers",
        ("scale",),
        MOVED,
        lambda n: DiscreteLaplaceLoss(n["scale"], _moved(n)),
    ),
    "discrete_gaussian": Law(
        "P(k) ∝ e^{-k²/2σ²} on whole numbers",
        ("sigma",),
        MOVED,
        lambda n: DiscreteGaussianLoss(n["sigma"], _moved(n)),
    ),
    "binomial": Law(
        "the number of heads in n fair coins, less n/2",
        ("n",),
        MOVED,
        lambda n: BinomialLoss(int(n["n"]), _moved(n)),
    ),
    "exponential": Law(
        "the exponential mechanism, where one unit moves differences of rate·score by at most epsilon",
        ("epsilon",),
        (),
        lambda n: ExponentialLoss(n["epsilon"]),
    ),
    "threshold": Law(
        "partition selection by a noisy count of units; one unit is counted in at most `groups` keys (1 unless given)",
        ("scale", "threshold"),
        ("groups",),
        lambda n: ThresholdLoss(n["scale"], int(n["threshold"]), int(n.get("groups", 1))),
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
"""Every name that takes numbers only."""


class Combinator(NamedTuple):
    """A name that takes releases: what it means, the number that it needs, and the event that it makes."""

    meaning: str
    needs: tuple[str, ...]
    make: Callable[[tuple[Loss, ...], Numbers], Loss]


COMBINATORS: dict[str, Combinator] = {
    "subsampled": Combinator(
        "a Poisson sample: each unit joins with probability rate; neighbours add or remove one unit",
        ("rate",),
        lambda releases, n: Subsampled(releases[0], n["rate"]),
    ),
    "sampled": Combinator(
        "a sample without replacement of this share of the units; neighbours replace one unit",
        ("rate",),
        lambda releases, n: SampledWithoutReplacement(releases[0], n["rate"]),
    ),
    "group": Combinator(
        "the same release for neighbours that differ in up to `size` units",
        ("size",),
        lambda releases, n: group(releases[0], int(n["size"])),
    ),
    "parallel": Combinator(
        "releases about disjoint parts of the units",
        (),
        lambda releases, n: Parallel(releases),
    ),
}
"""Every name that takes releases: `parallel` several, the others one."""
