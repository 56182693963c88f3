"""From a plain composition to its two directions, each with all its dominating pairs composed.

The removed direction compares the data with the unit (P) to the data without it (Q), the added direction the reverse. A fact
that treats both alike has one law for both; Poisson samples do not.
"""

from fractions import Fraction
from functools import reduce
from math import fsum

import numpy as np

from discreet.accounting.changes import longest
from discreet.accounting.either import EitherLaw
from discreet.accounting.ladder import Ladder
from discreet.accounting.laws import EPS
from discreet.accounting.laws.bounded_range import BoundedRangeLaw
from discreet.accounting.pairs import NOBODY, gaussian_piece, in_range, piece, rounded
from discreet.accounting.pieces import UNKNOWN, Ceiling, Part, Piece, Side, combine, log_kept
from discreet.accounting.samples import poisson, without_replacement
from discreet.loss import (
    Composition,
    ExponentialLoss,
    GaussianLoss,
    Loss,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
)

_MOST_TIMES = 10**18


def sides(choice: Composition) -> tuple[Side, ...]:
    """The removed and the added direction of a plain composition; only one where they are the same.

    >>> from discreet.loss import Claim, compose
    >>> len(sides(compose(Claim(Fraction(1), Fraction(0)))))
    1
    """
    match choice.parts:
        case ((ExponentialLoss(epsilon=epsilon) as only, 1),) if in_range(only):  # the worst range is reached at every ε
            return (Side(((BoundedRangeLaw(epsilon), 1),), (0.0, 0.0)),)
    removed = side(choice, removed=True)
    return (removed, side(choice, removed=False)) if directed(choice) else (removed,)


def directed(loss: Loss) -> bool:
    """Whether the two directions may differ."""
    match loss:
        case Subsampled():
            return True
        case Composition(parts=parts):
            return any(directed(part) for part, _ in parts)
        case Parallel(branches=branches):
            return any(directed(branch) for branch in branches)
        case SampledWithoutReplacement(loss=inner):
            return directed(inner)
        case _:
            return False


def side(choice: Composition, *, removed: bool) -> Side:
    """One direction, with all Gaussians as one."""
    parts: list[Part] = []
    ceilings, exact = [Ceiling(())], True
    dominating, reached = Fraction(0), Fraction(0)  # Σ(l2/σ)² of all Gaussians
    kept_low, kept_high = [0.0], [0.0]
    for part, times in choice.parts:
        known = times <= _MOST_TIMES and (in_range(part) or not isinstance(part, GaussianLoss))
        if isinstance(part, GaussianLoss) and known:
            dominating += times * rounded(part.sensitivity.l2_squared / part.sigma**2)
            reached += times * rounded(longest(part.sensitivity) / part.sigma**2)
            continue
        one = _piece_of(part, removed) if known else UNKNOWN
        runs = times * one.times
        if runs > _MOST_TIMES:  # past what a double can count
            one, runs = UNKNOWN, 1
        parts.extend((law, runs * count) for law, count in one.parts)
        kept_low.append(runs * log_kept(one.infinite[1]) * (1 + 4 * EPS))
        kept_high.append(runs * log_kept(one.infinite[0]) * (1 - 4 * EPS))
        ceilings = combine(ceilings, [ceiling.repeat(runs) for ceiling in one.above])
        exact = exact and one.ceilings is None
    gaussian = gaussian_piece(dominating, reached)
    ceilings = combine(ceilings, gaussian.above)
    kept = fsum(kept_low), fsum(kept_high)
    if exact and gaussian.ceilings is None:
        return Side((*parts, *gaussian.parts), kept)
    return Side((*parts, *gaussian.parts), kept, tuple(ceilings))


def _piece_of(loss: Loss, removed: bool) -> Piece:
    match loss:
        case Subsampled(loss=inner, rate=rate):
            everyone = side(_composed(inner), removed=removed)
            return poisson(inner, everyone, rate, removed, not directed(inner))
        case SampledWithoutReplacement(loss=inner, rate=rate):
            everyone = side(_composed(inner), removed=removed)
            return without_replacement(inner, everyone, rate, not directed(inner))
        case Parallel(branches=branches):
            return _any([side(_composed(branch), removed=removed) for branch in branches])
        case _:
            return piece(loss)


def _composed(loss: Loss) -> Composition:
    return loss if isinstance(loss, Composition) else Composition(((loss, 1),))


def _any(options: list[Side]) -> Piece:
    """One of these ran, nobody knows which: the worst K of all is a bound, all of them together dominate."""
    chosen = max(options, key=_weight)
    bounds = [option.bound for option in options]
    worst = EitherLaw(tuple(bound.parts for bound in bounds), worst=True)
    ceilings = [Ceiling(((worst, 1),), min(bound.kept for bound in bounds), moments=True)]
    every = [option.dominating for option in options]
    if None not in every:
        ceilings.append(reduce(Ceiling.plus, [one for one in every if one is not None]))
    return Piece(chosen.parts or ((NOBODY, 1),), 1, (chosen.infinite[0], 1.0), tuple(ceilings))


def _weight(option: Side) -> tuple[float, float]:
    """Roughly how bad one of several is: any choice is sound."""
    return option.infinite[0], float(Ladder.of(option.parts, np.array([0.5])).k[0]) if option.parts else 0.0
