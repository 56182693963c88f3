"""Rewriting a fact into alternatives, each a plain composition: `Parallel`, `Group` and nested samples disappear.

The worst neighbours are those of the worst alternative, so δ(ε) is the largest over the alternatives. Every rewriting
is either an identity or replaces a fact by one that dominates it; each says why.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import assert_never

import msgspec

from discreet.accounting.elementary import exp_neg_bounds
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
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
    compose,
    repeat,
)
from discreet.units import Sensitivity

_NESTED = (Composition, Parallel, Group, Subsampled)
_MOST = 64
"""Alternatives that are followed one by one; past that, parallel branches are charged as if all of them ran."""


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
            choices = [choice for branch in branches for choice in alternatives(branch)]
            return _distinct(choices) if len(choices) <= _MOST else (compose(*choices),)
        case Group(loss=inner, size=size):
            return alternatives(grouped(inner, size)) if size > 1 else alternatives(inner) if size else (NOTHING,)
        case Subsampled(loss=inner, rate=rate):
            return _distinct(_sampled(choice, rate) for choice in alternatives(inner))
        case _:
            return (compose(loss),)


def _all_of(choices: list[tuple[Composition, ...]]) -> tuple[Composition, ...]:
    """One alternative of each. Where they are too many, a part that has several runs all of them: composition only adds."""
    count = 1
    for options in choices:
        count *= len(options)
    if count > _MOST:
        return (compose(*(choice for options in choices for choice in options)),)
    return _distinct(compose(*combination) for combination in product(*choices))


def _repeated(options: tuple[Composition, ...], times: int) -> tuple[Composition, ...]:
    """Every run may meet another branch: all multisets of `times` alternatives."""
    if len(options) == 1:
        return (repeat(options[0], times),)
    if times > _MOST or comb(len(options) + times - 1, times) > _MOST:
        return (repeat(compose(*options), times),)
    return tuple(compose(*runs) for runs in combinations_with_replacement(options, times))


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
            LaplaceLoss(sensitivity=moved)
            | DiscreteLaplaceLoss(sensitivity=moved)
            | TruncatedGeometricLoss(sensitivity=moved)
            | GaussianLoss(sensitivity=moved)
            | DiscreteGaussianLoss(sensitivity=moved)
            | BinomialLoss(sensitivity=moved)
        ):
            return msgspec.structs.replace(loss, sensitivity=_moved_by(moved, size))
        case ExponentialLoss(epsilon=epsilon) | PermuteAndFlipLoss(epsilon=epsilon):
            return msgspec.structs.replace(loss, epsilon=size * epsilon)  # the scores move `size` times as far
        case ResponseLoss():
            return repeat(loss, size)  # `size` people may each have answered; one answer of theirs is part of that
        case Claim(epsilon=epsilon, delta=delta):
            return _group_claim(epsilon, delta, size)
        case KeepLoss(epsilon=epsilon, delta=delta, groups=groups):
            return _group_claim(groups * epsilon, 1 - (1 - delta) ** groups, size)
        case ThresholdLoss(groups=groups):
            claim = threshold_claim(loss)
            return _group_claim(groups * claim.epsilon, 1 - (1 - claim.delta) ** groups, size)
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
        case _:
            assert_never(loss)


def _moved_by(moved: Sensitivity, size: int) -> Sensitivity:
    """Norms of a sum of `size` changes. Which coordinates they hit may differ, so l0 survives only where there is one."""
    return Sensitivity(
        l0=1 if moved.l0 == 1 else None,
        l1=None if moved.l1 is None else size * moved.l1,
        l2_squared=size**2 * moved.l2_squared,
        linf=size * moved.linf,
    )


def _group_claim(epsilon: Fraction, delta: Fraction, size: int) -> Claim:
    """(Kε, δ·(1 + e^ε + … + e^{(K−1)ε})) [DR14, Lemma 2.2 iterated], δ rounded up and at most 1."""
    low = exp_neg_bounds(epsilon)[0]  # e^ε ≤ 1/low
    if delta == 0:
        return Claim(size * epsilon, delta)
    if low == 0 or size * epsilon > 1000:
        return Claim(size * epsilon, Fraction(1))
    total = delta * sum((1 / low) ** i for i in range(size))
    return Claim(
        size * epsilon,
        min(Fraction(1), Fraction(-((-total.numerator << 200) // total.denominator), 1 << 200)),
    )


def threshold_claim(loss: ThresholdLoss) -> Claim:
    """What one key can tell. With a = e^{-1/scale}, a key with one unit is shown with p = a^{τ−1}/(1 + a), and never
    without it.

    If the unit is not alone, its coming or going moves the noisy count by one: (1/scale, 0). If it is alone, showing
    the key is an event of probability p that the other world lacks, and not showing it has ratio 1 − p: (−ln(1 − p),
    p). Both are (max(1/scale, −ln(1 − p)), p), and the pair of `Claim` dominates everything that is [KOV15, Thm 3.3
    and its proof].
    """
    rate = 1 / loss.scale
    tail, a_low = exp_neg_bounds(rate * max(0, loss.threshold - 1))[1], exp_neg_bounds(rate)[0]
    # P(1 + noise ≥ τ) = P(noise ≥ τ − 1), τ ≥ 1
    p = min(Fraction(1), tail / (1 + a_low)) if loss.threshold >= 1 else Fraction(1)
    if p == 1:
        return Claim(rate, p)
    return Claim(max(rate, _minus_log(1 - p)), p)


def _minus_log(x: Fraction) -> Fraction:
    from discreet.accounting.elementary import log_bounds

    return -log_bounds(x)[0]
