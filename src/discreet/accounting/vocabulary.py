"""The names that a ledger written as text may use, what each needs, and the fact that it stands for."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

from discreet.accounting.elementary import exp_bounds
from discreet.errors import BadParameter
from discreet.loss import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    group,
)
from discreet.units import Sensitivity, to_sensitivity

Numbers: TypeAlias = Mapping[str, Fraction]

NORMS = ("l0", "l1", "l2", "linf")
SENSITIVITY_ARGUMENTS = ("sensitivity", *NORMS)
INTEGER_ARGUMENTS = ("l0", "n", "size", "threshold", "groups")
"""Arguments that are whole numbers."""

POSITIVE_ARGUMENTS = ("scale", "sigma", *SENSITIVITY_ARGUMENTS, "n", "size", "threshold", "groups")
"""Arguments that are above 0."""


def _read_sensitivity(numbers: Numbers) -> Sensitivity:
    """Read `sensitivity=`, which shifts one coordinate, or the norms of a change of several."""
    given = {name: numbers[name] for name in NORMS if name in numbers}
    if not given:
        return to_sensitivity(numbers.get("sensitivity", Fraction(1)))
    if "sensitivity" in numbers:
        raise BadParameter("sensitivity", numbers["sensitivity"], "norms are given as well", "give sensitivity= or norms")
    l0 = given.get("l0")
    return Sensitivity(l0=None if l0 is None else int(l0), l1=given.get("l1"), l2=given.get("l2"), linf=given.get("linf"))


def make_response_event(epsilon: Fraction) -> Event:
    """Binary randomised response that costs ε or, by rounding, a hair more: it describes a release that was made.

    >>> from discreet.accounting.pure import pure
    >>> pure(make_response_event(Fraction(1))) >= 1
    True
    """
    if epsilon > 1000:  # an ε-private fact reads as randomised response of ε anyway
        return Claim(epsilon, Fraction(0))
    low, high = exp_bounds(-epsilon)
    bits = 128 + ceil(epsilon * 3 / 2)
    wrong = Fraction(int(low / (1 + high) * (1 << bits)), 1 << bits)
    return RandomizedResponseEvent(1 - wrong, 2)


class NoiseTerm(NamedTuple):
    """A name of the language: what it means, what it needs, and the fact that it makes."""

    meaning: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[Numbers], Event]


NOISE_TERMS: dict[str, NoiseTerm] = {
    "laplace": NoiseTerm(
        "continuous Laplace noise (discreet itself draws discrete_laplace)",
        ("scale",),
        SENSITIVITY_ARGUMENTS,
        lambda n: LaplaceEvent(n["scale"], _read_sensitivity(n)),
    ),
    "gaussian": NoiseTerm(
        "Gaussian noise, continuous or rounded afterwards",
        ("sigma",),
        SENSITIVITY_ARGUMENTS,
        lambda n: GaussianEvent(n["sigma"], _read_sensitivity(n)),
    ),
    "discrete_laplace": NoiseTerm(
        "P(k) ∝ e^{-|k|/scale} on whole numbers",
        ("scale",),
        SENSITIVITY_ARGUMENTS,
        lambda n: DiscreteLaplaceEvent(n["scale"], _read_sensitivity(n)),
    ),
    "discrete_gaussian": NoiseTerm(
        "P(k) ∝ e^{-k²/2σ²} on whole numbers",
        ("sigma",),
        SENSITIVITY_ARGUMENTS,
        lambda n: DiscreteGaussianEvent(n["sigma"], _read_sensitivity(n)),
    ),
    "binomial": NoiseTerm(
        "the number of heads in n fair coins, less n/2",
        ("n",),
        SENSITIVITY_ARGUMENTS,
        lambda n: BinomialEvent(int(n["n"]), _read_sensitivity(n)),
    ),
    "exponential": NoiseTerm(
        "the exponential mechanism, where one unit moves differences of rate·score by at most epsilon",
        ("epsilon",),
        (),
        lambda n: ExponentialEvent(n["epsilon"]),
    ),
    "threshold": NoiseTerm(
        "partition selection by a noisy count of units; one unit is counted in at most `groups` keys (1 unless given)",
        ("scale", "threshold"),
        ("groups",),
        lambda n: ThresholdEvent(n["scale"], int(n["threshold"]), int(n.get("groups", 1))),
    ),
    "response": NoiseTerm(
        "binary randomised response",
        ("epsilon",),
        (),
        lambda n: make_response_event(n["epsilon"]),
    ),
    "claim": NoiseTerm(
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
    required: tuple[str, ...]
    make: Callable[[tuple[Event, ...], Numbers], Event]


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
