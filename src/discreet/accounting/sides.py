"""From a plain composition to its two directions, each with all its dominating pairs composed.

The removed direction compares the data with the unit (P) to the data without it (Q), the added direction the reverse. A fact
that treats both alike has one law for both; Poisson samples do not.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import fsum, inf, log1p

import numpy as np

from discreet.accounting.either import EitherLaw
from discreet.accounting.ladder import Ladder
from discreet.accounting.laws import EPS
from discreet.accounting.laws.bounded_range import BoundedRangeLaw
from discreet.accounting.laws.concentrated import Neighbour
from discreet.accounting.laws.gaussian import GaussianLaw
from discreet.accounting.pairs import NOBODY, in_range, piece, rounded
from discreet.accounting.pieces import Part, Piece, Side
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
        case ((ExponentialLoss(epsilon=epsilon), 1),):  # alone, the worst range is reached at every ε
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
    reached: list[Part] = []
    above: list[Part] = []
    over: list[Part] | None = []
    bounded, squares = False, Fraction(0)
    kept_low, kept_high = [0.0], [0.0]
    for part, times in choice.parts:
        if times > _MOST_TIMES or (isinstance(part, GaussianLoss) and not in_range(part)):
            kept_low.append(-inf)  # past what a double can count: nothing is known
            continue
        if isinstance(part, GaussianLoss):
            squares += times * rounded(part.sensitivity.l2_squared / part.sigma**2)
            continue
        for one in _pieces(part, removed):
            runs = times * one.times
            if runs > _MOST_TIMES:
                kept_low.append(-inf)
                continue
            exact: tuple[Part, ...] = ()
            if isinstance(one.law, Neighbour):
                reached.append((one.law.law, runs))
                bounded = True
            elif one.law is not None:
                reached.append((one.law, runs))
                exact = ((one.law, 1),)
            above.extend((law, runs * count) for law, count in (exact if one.above is None else one.above))
            dominating = exact if one.above is None else one.over
            over = None if over is None or dominating is None else [*over, *((law, runs * k) for law, k in dominating)]
            kept_low.append(runs * _log_kept(one.infinite[1]) * (1 + 4 * EPS))
            kept_high.append(runs * _log_kept(one.infinite[0]) * (1 - 4 * EPS))
    gaussian: tuple[Part, ...] = ((GaussianLaw(squares), 1),) if squares else ()
    kept = fsum(kept_low), fsum(kept_high)
    if not bounded:
        return Side((*reached, *gaussian), kept)
    return Side((*reached, *gaussian), kept, (*above, *gaussian), None if over is None else (*over, *gaussian))


def _log_kept(p: float) -> float:
    return log1p(-p) if p < 1 else -inf


def _pieces(loss: Loss, removed: bool) -> Iterator[Piece]:
    match loss:
        case Subsampled(loss=inner, rate=rate):
            everyone = side(_composed(inner), removed=removed)
            yield from poisson(inner, everyone, rate, removed, not directed(inner))
        case SampledWithoutReplacement(loss=inner, rate=rate):
            everyone = side(_composed(inner), removed=removed)
            yield from without_replacement(inner, everyone, rate, not directed(inner))
        case Parallel(branches=branches):
            yield from _any([side(_composed(branch), removed=removed) for branch in branches])
        case _:
            yield piece(loss)


def _composed(loss: Loss) -> Composition:
    return loss if isinstance(loss, Composition) else Composition(((loss, 1),))


def _any(options: list[Side]) -> Iterator[Piece]:
    """One of these ran, nobody knows which: the worst K of all is a bound, all of them together dominate."""
    chosen = max(options, key=_weight)
    if not chosen.parts:
        yield Piece(NOBODY)
    for law, times in chosen.parts:
        yield Piece(Neighbour(law), times, above=(), over=())
    every = [option.dominating for option in options]
    over = None if None in every else tuple(part for parts in every if parts is not None for part in parts)
    bound = EitherLaw(tuple(option.bounds for option in options), worst=True)
    low, high = chosen.infinite[0], fsum(option.infinite[1] for option in options)
    yield Piece(None, 1, (low, min(1.0, high * (1 + EPS))), ((bound, 1),), over)


def _weight(option: Side) -> tuple[float, float]:
    """Roughly how bad one of several is: any choice is sound."""
    return option.infinite[0], float(Ladder.of(option.parts, np.array([0.5])).k[0]) if option.parts else 0.0
