"""Facts: which noise ran, at which scale, against which sensitivity. What they mean is read in `accounting`.

A fact holds the noise law and the shape of the sensitivity, both in grid steps, because the worst pair of
neighbours depends on both. The union `Loss` is closed: `match` on it and end with `assert_never`.
"""

from fractions import Fraction
from typing import TypeAlias, assert_never, cast

import msgspec

from discreet.errors import BadParameter
from discreet.exact import Number, rational, shown, whole
from discreet.units import Sensitivity


class Fact(msgspec.Struct, frozen=True, tag=True):
    """What all facts share: they are frozen and comparable, compose with + and *, and none can state the impossible.

    Ledgers hold facts by their `tag` and the names of their fields: neither changes, whatever the class is called.
    """

    def __post_init__(self) -> None:
        impossible = _impossible(cast("Loss", self))
        if impossible:
            raise BadParameter(type(self).__name__, impossible, "no release could have been like that", "state what ran")

    def __add__(self, other: "Loss") -> "Composition":
        return compose(cast("Loss", self), other) if isinstance(other, Fact) else NotImplemented

    def __mul__(self, times: int) -> "Composition":
        return repeat(cast("Loss", self), times)

    __rmul__ = __mul__


class LaplaceLoss(Fact, frozen=True, tag="LaplaceLoss"):
    """Continuous Laplace noise of this scale on every coordinate (on paper: discreet itself draws the discrete law)."""

    scale: Fraction
    sensitivity: Sensitivity


class DiscreteLaplaceLoss(Fact, frozen=True, tag="DiscreteLaplaceLoss"):
    """P(k) ∝ e^{-|k|/scale} on every coordinate of whole answers."""

    scale: Fraction
    sensitivity: Sensitivity


class TruncatedGeometricLoss(Fact, frozen=True, tag="TruncatedGeometricLoss"):
    """Discrete Laplace noise, then clamped to [lower, upper]."""

    scale: Fraction
    lower: int
    upper: int
    sensitivity: Sensitivity


class GaussianLoss(Fact, frozen=True, tag="GaussianLoss"):
    """N(0, σ²) on every coordinate, possibly rounded afterwards (which is post-processing)."""

    sigma: Fraction
    sensitivity: Sensitivity


class DiscreteGaussianLoss(Fact, frozen=True, tag="DiscreteGaussianLoss"):
    """P(k) ∝ e^{-k²/2σ²} on every coordinate of whole answers."""

    sigma: Fraction
    sensitivity: Sensitivity


class BinomialLoss(Fact, frozen=True, tag="BinomialLoss"):
    """The number of heads in n fair coins, less n/2, on every coordinate of whole answers."""

    n: int
    sensitivity: Sensitivity


class ResponseLoss(Fact, frozen=True, tag="ResponseLoss"):
    """The true one of `choices` answers with probability `truth`, each other one with equal probability."""

    truth: Fraction
    choices: int


class ExponentialLoss(Fact, frozen=True, tag="ExponentialLoss"):
    """Choice with P(i) ∝ e^{x_i}, where one unit moves the differences x_i − x_j by at most `epsilon`."""

    epsilon: Fraction


class PermuteAndFlipLoss(Fact, frozen=True, tag="PermuteAndFlipLoss"):
    """Permute-and-flip at the same x_i: ε-private too, but not of bounded range."""

    epsilon: Fraction


class ThresholdLoss(Fact, frozen=True, tag="ThresholdLoss"):
    """A key is shown if its number of distinct units plus discrete Laplace noise reaches `threshold`; one unit is
    counted in at most `groups` keys."""

    scale: Fraction
    threshold: int
    groups: int


class KeepLoss(Fact, frozen=True, tag="KeepLoss"):
    """A key is shown with the largest probability that (epsilon, delta) per key allows; one unit is counted in at most
    `groups` keys."""

    epsilon: Fraction
    delta: Fraction
    groups: int


class Claim(Fact, frozen=True, tag="Claim"):
    """Somebody's word that a release was (epsilon, delta)-private."""

    epsilon: Fraction
    delta: Fraction


class Composition(Fact, frozen=True, tag="Composition"):
    """Several releases about the same people. Each part ran as often as its number says; no part is a Composition."""

    parts: "tuple[tuple[Loss, int], ...]" = ()


class Parallel(Fact, frozen=True, tag="Parallel"):
    """Releases about disjoint parts of the *units*: add or remove one unit and only one branch changes. The partition may
    have been chosen after earlier answers."""

    branches: "tuple[Loss, ...]"


class Group(Fact, frozen=True, tag="Group"):
    """The same release seen by neighbours that differ in up to `size` units, each of which only one of them has."""

    loss: "Loss"
    size: int


class Subsampled(Fact, frozen=True, tag="Subsampled"):
    """The release ran on a sample that each unit joined independently with probability `rate` (Poisson), and who was
    sampled is secret. Neighbours add or remove one unit."""

    loss: "Loss"
    rate: Fraction


class SampledWithoutReplacement(Fact, frozen=True, tag="SampledWithoutReplacement"):
    """The release ran on m of the n units, every set of m equally likely, and who was sampled is secret; `rate` is m/n.
    Neighbours replace one unit, n is public, and the inner loss is stated for such neighbours too."""

    loss: "Loss"
    rate: Fraction


Loss: TypeAlias = (
    LaplaceLoss
    | DiscreteLaplaceLoss
    | TruncatedGeometricLoss
    | GaussianLoss
    | DiscreteGaussianLoss
    | BinomialLoss
    | ResponseLoss
    | ExponentialLoss
    | PermuteAndFlipLoss
    | ThresholdLoss
    | KeepLoss
    | Claim
    | Composition
    | Parallel
    | Group
    | Subsampled
    | SampledWithoutReplacement
)
"""Every kind of fact there is."""


def check_event(value: object, name: str = "loss") -> None:
    """Refuse what is no event: a mechanism alone does not say how far one unit moves what it released.

    >>> from discreet import Gaussian
    >>> check_event(Gaussian(2))
    Traceback (most recent call last):
    discreet.errors.BadParameter: loss is Gaussian(sigma=2): not an event; pass Gaussian(sigma=2).loss(sensitivity=1), with \
the sensitivity of what it released
    """
    if isinstance(value, Fact):
        return
    text = repr(value)
    short = text if len(text) <= 60 else type(value).__name__
    if callable(getattr(value, "loss", None)) and not isinstance(value, type):
        hint = f"pass {short if text == short else 'it'}.loss(sensitivity=1), with the sensitivity of what it released"
    else:
        hint = "pass what a mechanism's loss() returns, for example Gaussian(1.1).loss(sensitivity=1)"
    raise BadParameter(name, short, "not an event", hint)


def compose(*losses: Loss) -> Composition:
    """All of these happened. Equal facts are counted, not listed twice; the order of first appearance is kept."""
    counts: dict[Loss, int] = {}
    for loss in losses:
        check_event(loss)
        for part, times in loss.parts if isinstance(loss, Composition) else ((loss, 1),):
            counts[part] = counts.get(part, 0) + times
    return Composition(tuple(counts.items()))


def repeat(loss: Loss, times: int) -> Composition:
    """The same release, `times` times with fresh noise."""
    check_event(loss)
    whole(times, "times")
    parts = loss.parts if isinstance(loss, Composition) else ((loss, 1),)
    return Composition(tuple((part, count * times) for part, count in parts if times))


def parallel(*branches: Loss) -> Parallel:
    """Releases about disjoint parts of the units."""
    return Parallel(branches)


def group(loss: Loss, size: int) -> Loss:
    """The same release, for neighbours that differ in up to `size` units; a group of one is the release itself.

    The units are any that one of the two data sets has and the other has not: a group of two is also a replaced pair.
    """
    check_event(loss)
    return loss if whole(size, "size", 1) == 1 else Group(loss, size)


def subsample(loss: Loss, rate: Number) -> Loss:
    """The same release on a Poisson sample; at rate 1 it is the release itself, at rate 0 nothing happened."""
    check_event(loss)
    share = rational(rate, "rate")
    if share in (0, 1):
        return loss if share else NOTHING
    return Subsampled(loss, share)


def subsample_without_replacement(loss: Loss, rate: Number) -> Loss:
    """The same release on a fixed share of the units, all sets of that size being equally likely, for neighbours that
    replace one unit; at rate 1 it is the release itself, at rate 0 nothing happened.

    >>> subsample_without_replacement(Claim(Fraction(1), Fraction(0)), 1)
    Claim(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    """
    check_event(loss)
    share = rational(rate, "rate")
    if share in (0, 1):
        return loss if share else NOTHING
    return SampledWithoutReplacement(loss, share)


def _impossible(fact: Loss) -> str | None:
    """What is wrong with the numbers of this fact alone; the facts inside it were checked when they were made."""
    match fact:
        case Composition(parts=parts):
            for part, _ in parts:
                check_event(part)
            wrong = any(times < 1 or isinstance(part, Composition) for part, times in parts)
            return "a part that ran less than once, or is itself a composition" if wrong else None
        case Parallel(branches=branches):
            for branch in branches:
                check_event(branch)
            return None
        case Group(loss=inner, size=size):
            check_event(inner)
            return None if size >= 1 else f"a group of {size}"
        case Subsampled(loss=inner, rate=rate) | SampledWithoutReplacement(loss=inner, rate=rate):
            check_event(inner)
            return None if 0 <= rate <= 1 else f"a rate of {shown(rate)}"
        case ResponseLoss(truth=truth, choices=choices):
            return None if 0 <= truth <= 1 and choices >= 2 else f"truth {shown(truth)} among {choices} choices"
        case ExponentialLoss(epsilon=epsilon) | PermuteAndFlipLoss(epsilon=epsilon):
            return None if epsilon >= 0 else f"ε = {shown(epsilon)}"
        case Claim(epsilon=epsilon, delta=delta):
            return None if epsilon >= 0 and 0 <= delta <= 1 else f"ε = {shown(epsilon)}, δ = {shown(delta)}"
        case KeepLoss(epsilon=epsilon, delta=delta, groups=groups):
            fine = epsilon >= 0 and 0 <= delta <= 1 and groups >= 1
            return None if fine else f"ε = {shown(epsilon)}, δ = {shown(delta)} for {groups} groups"
        case ThresholdLoss(scale=scale, groups=groups):
            return None if scale > 0 and groups >= 1 else f"scale {shown(scale)} for {groups} groups"
        case BinomialLoss(n=n):
            return None if n >= 1 else f"n = {n}"
        case GaussianLoss(sigma=width) | DiscreteGaussianLoss(sigma=width):
            return None if width > 0 else f"σ = {shown(width)}"
        case LaplaceLoss(scale=width) | DiscreteLaplaceLoss(scale=width) | TruncatedGeometricLoss(scale=width):
            return None if width > 0 else f"scale {shown(width)}"
        case _:
            assert_never(fact)


NOTHING = Composition()
"""The loss of a release that looked at nobody."""
