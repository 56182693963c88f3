"""Rewriting a fact into alternatives, each a plain composition: `Group` and nested samples disappear, `Parallel` too where
its branches are few.

The worst neighbours are those of the worst alternative, so δ(ε) is the largest over the alternatives. Every rewriting
is either an identity or replaces a fact by one that dominates it; each says why.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import assert_never

import msgspec

from discreet.accounting.elementary import log_bounds
from discreet.accounting.group import pushed
from discreet.accounting.leak import any_of, singleton_shown
from discreet.loss import (
    NOTHING,
    BinomialLoss,
    Claim,
    Composition,
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
    SampledWithoutReplacement,
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
    compose,
    repeat,
    subsample_without_replacement,
)

_NESTED = (Composition, Parallel, Group, Subsampled, SampledWithoutReplacement)
_MOST = 64
"""Alternatives that are followed one by one; past that, a `Parallel` of them stays in the composition."""


def alternatives(loss: Loss) -> tuple[Composition, ...]:
    """Compositions of plain facts (and samples of them) whose curves' maximum bounds this loss's curve.

    >>> from discreet.loss import Claim, Parallel
    >>> one, two = Claim(Fraction(1), Fraction(0)), Claim(Fraction(2), Fraction(0))
    >>> [part for choice in alternatives(Parallel((one, two))) for part, _ in choice.parts] == [one, two]
    True
    """
    match loss:
        case Composition(parts=parts) if not any(isinstance(part, _NESTED) for part, _ in parts):
            return (loss,)
        case Composition(parts=parts):
            return _all_of([_repeated(alternatives(part), times) for part, times in parts if times])
        case Parallel(branches=branches):
            # One unit is in one branch only, so one branch changes.
            choices = _distinct(choice for branch in branches for choice in alternatives(branch))
            return choices if len(choices) <= _MOST else (_any(choices),)
        case Group(loss=inner, size=size):
            return alternatives(grouped(inner, size)) if size > 1 else alternatives(inner) if size else (NOTHING,)
        case Subsampled(loss=inner, rate=rate):
            return _distinct(_sampled(choice, rate) for choice in alternatives(inner))
        case SampledWithoutReplacement(loss=inner, rate=rate):
            return alternatives(inner) if rate == 1 else (_share(alternatives(inner), rate),)
        case _:
            return (compose(loss),)


def _all_of(choices: list[tuple[Composition, ...]]) -> tuple[Composition, ...]:
    """One alternative of each. Where they are too many, the choice is left to each part."""
    count = 1
    for options in choices:
        count *= len(options)
    if count > _MOST:
        return (compose(*(_any(options) for options in choices)),)
    return _distinct(compose(*combination) for combination in product(*choices))


def _repeated(options: tuple[Composition, ...], times: int) -> tuple[Composition, ...]:
    """Every run may meet another branch: all multisets of `times` alternatives."""
    if len(options) == 1:
        return (repeat(options[0], times),)
    if times > _MOST or comb(len(options) + times - 1, times) > _MOST:
        return (repeat(_any(options), times),)
    return tuple(compose(*runs) for runs in combinations_with_replacement(options, times))


def _any(options: tuple[Composition, ...]) -> Composition:
    """Some one of these, as a single part."""
    return options[0] if len(options) == 1 else Composition(((Parallel(options), 1),))


def _share(options: tuple[Composition, ...], rate: Fraction) -> Composition:
    """A share of a share is a share. The three laws that [BBG18, Thm 9] compares may meet different alternatives."""
    inner = _any(options)
    if rate == 0 or not inner.parts:
        return NOTHING
    if len(inner.parts) == 1 and inner.parts[0][1] == 1:
        part = inner.parts[0][0]
        if isinstance(part, SampledWithoutReplacement):
            return compose(SampledWithoutReplacement(part.loss, part.rate * rate))
        return compose(SampledWithoutReplacement(part, rate))
    return compose(SampledWithoutReplacement(inner, rate))


def _distinct(choices: Iterable[Composition]) -> tuple[Composition, ...]:
    return tuple(dict.fromkeys(choices)) or (NOTHING,)


def _sampled(choice: Composition, rate: Fraction) -> Composition:
    """Poisson sampling twice is sampling once at the product of the rates; at 1 it is nothing, at 0 nobody is seen."""
    if rate == 1 or not choice.parts:
        return choice
    if rate == 0:
        return NOTHING
    if len(choice.parts) == 1 and choice.parts[0][1] == 1:
        part = choice.parts[0][0]
        return compose(Subsampled(part.loss, part.rate * rate) if isinstance(part, Subsampled) else Subsampled(part, rate))
    return compose(Subsampled(choice, rate))


def grouped(loss: Loss, size: int) -> Loss:
    """A fact for neighbours one unit apart that dominates `loss` for neighbours `size` > 1 units apart."""
    match loss:
        case (
            LaplaceLoss()
            | DiscreteLaplaceLoss()
            | TruncatedGeometricLoss()
            | GaussianLoss()
            | DiscreteGaussianLoss()
            | BinomialLoss()
            | ExponentialLoss()
            | PermuteAndFlipLoss()
            | Claim()
        ):
            return pushed(Group(loss, size))
        case ResponseLoss():
            return repeat(loss, size)  # `size` people may each have answered; one answer of theirs is part of that
        case KeepLoss(epsilon=epsilon, delta=delta, groups=groups):
            return pushed(Group(Claim(groups * epsilon, any_of(delta, groups)), size))
        case ThresholdLoss(groups=groups):
            claim = threshold_claim(loss)
            return pushed(Group(Claim(groups * claim.epsilon, any_of(claim.delta, groups)), size))
        case Composition(parts=parts):
            return Composition(tuple((Group(part, size), times) for part, times in parts))
        case Parallel(branches=branches):
            return compose(*(Group(branch, size) for branch in branches))  # they may sit in different branches
        case Group(loss=inner, size=more):
            return Group(inner, size * more)
        case Subsampled(loss=inner, rate=rate):
            # With J ~ Bin(size, rate) of them sampled the output is a mixture of the neighbours 0 … size apart. Given J ≥ 1,
            # hockey-stick divergences are jointly convex, so the mixture is dominated by the worst, `size` apart; and
            # [BBG18, Thm 8]'s bound for a sample at rate P(J ≥ 1) rises with the divergence of that part.
            return Subsampled(Group(inner, size), 1 - (1 - rate) ** size)
        case SampledWithoutReplacement(loss=inner, rate=rate):
            # At least one of `size` units is sampled with probability at most size·rate. Putting other units in the places
            # of those that are gives a sample without any of them, `size` replacements away: [BBG18, Thm 9] holds as it
            # stands, and its bound rises with the rate.
            return subsample_without_replacement(Group(inner, size), min(Fraction(1), size * rate))
        case _:
            assert_never(loss)


def threshold_claim(loss: ThresholdLoss) -> Claim:
    """What one key can tell. With a = e^{-1/scale}, a key with one unit is shown with p = a^{τ−1}/(1 + a), and never
    without it.

    If the unit is not alone, its coming or going moves the noisy count by one: (1/scale, 0). If it is alone, showing
    the key is an event of probability p that the other world lacks, and not showing it has ratio 1 − p: (−ln(1 − p),
    p). Both are (max(1/scale, −ln(1 − p)), p), and the pair of `Claim` dominates everything that is [KOV15, Thm 3.3
    and its proof].
    """
    rate, p = 1 / loss.scale, singleton_shown(loss.scale, loss.threshold)
    return Claim(rate, p) if p == 1 else Claim(max(rate, -log_bounds(1 - p)[0]), p)


def reached(loss: Loss) -> Loss:
    """A fact whose worst neighbours are among those of `loss`; `loss` itself unless a `Group` in it is only dominated.

    A group that sits on one coordinate, or under Gaussian noise, or under a claim is exactly as bad as `grouped` says.
    Otherwise its members may all move the same coordinates, or sit in one branch, or there may be just one of them: these
    are neighbours too, and bound the curve from below.
    """
    match loss:
        case Group(loss=inner, size=size):
            return _reached_by_all(inner, size) if size > 1 else reached(inner)
        case Composition(parts=parts) if any(isinstance(part, _NESTED) for part, _ in parts):
            lower = compose(*(repeat(reached(part), times) for part, times in parts))
            return loss if lower == loss else lower
        case Parallel(branches=branches):
            return Parallel(tuple(reached(branch) for branch in branches))
        case Subsampled(loss=inner, rate=rate):
            return Subsampled(reached(inner), rate)
        case SampledWithoutReplacement(loss=inner, rate=rate):
            return SampledWithoutReplacement(reached(inner), rate)
        case _:
            return loss


def _reached_by_all(loss: Loss, size: int) -> Loss:
    match loss:
        case Composition(parts=parts):
            return compose(*(repeat(_reached_by_all(part, size), times) for part, times in parts))
        case Parallel(branches=branches):
            return Parallel(tuple(_reached_by_all(branch, size) for branch in branches))
        case Group(loss=inner, size=more):
            return _reached_by_all(inner, size * more)
        case Subsampled() | SampledWithoutReplacement() | ThresholdLoss() | KeepLoss():
            return reached(loss)
        case (
            LaplaceLoss(sensitivity=moved)
            | DiscreteLaplaceLoss(sensitivity=moved)
            | TruncatedGeometricLoss(sensitivity=moved)
            | DiscreteGaussianLoss(sensitivity=moved)
            | BinomialLoss(sensitivity=moved)
        ) if moved.l0 != 1:
            return msgspec.structs.replace(loss, sensitivity=moved.times(size))
        case _:
            return Group(loss, size)
