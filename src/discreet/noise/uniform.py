"""Uniform integers and biased coins, drawn exactly."""

from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, format_rational, to_rational
from discreet.errors import BadParameter
from discreet.noise import fixed
from discreet.noise.bits import SYSTEM, Bits, Ints, LazyUniform, ProbabilityBounds, Workspace, check_bits, draw_array

Coins: TypeAlias = NDArray[np.bool_]


def uniform_below(bound: int, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers, each uniform on 0 … bound−1; bound at most 2⁶³.

    >>> uniform_below(1, 3).tolist()
    [0, 0, 0]
    """
    bound = check_int(bound, "bound", 1)
    if bound > 1 << 63:
        raise BadParameter("bound", bound, "the results are int64", "take at most 2**63")
    # Words at or above the largest multiple of `bound` are drawn again: what remains is uniform by symmetry.
    last = np.uint64((1 << 64) - (1 << 64) % bound - 1)

    def fill(out: Ints, source: Bits, workspace: Workspace) -> None:
        words = workspace.words(out.size, source)
        while (again := np.flatnonzero(words > last)).size:
            words[again] = source.words(again.size)
        np.remainder(words, np.uint64(bound), out=out.view(np.uint64))

    return draw_array(size, fill, np.int64, SYSTEM if bits is None else check_bits(bits))


def bernoulli(p: Number, size: int, bits: Bits | None = None) -> Coins:
    """Draw `size` coins, each True with probability exactly p.

    >>> bernoulli(1, 2).tolist(), bernoulli(0, 2).tolist()
    ([True, True], [False, False])
    """
    exact = to_rational(p, "p")
    if not 0 <= exact <= 1:
        raise BadParameter("p", format_rational(exact), "not a probability", "give one between 0 and 1")
    top, bottom = exact.numerator, exact.denominator
    return flip_coins(lambda precision: ((top << precision) // bottom, -(-(top << precision) // bottom)), size, bits)


def bernoulli_exp(x: Number, size: int, bits: Bits | None = None) -> Coins:
    """Draw `size` coins, each True with probability exactly e^{-x}, for x ≥ 0.

    >>> bernoulli_exp(0, 2).tolist()
    [True, True]
    """
    exact = to_rational(x, "x")
    if exact < 0:
        raise BadParameter("x", format_rational(exact), "e^-x is no probability", "give x of at least 0")
    return bernoulli(1, size, bits) if exact == 0 else flip_coins(partial(exp_bounds, exact), size, bits)


def exp_bounds(x: Fraction, precision: int) -> tuple[int, int]:
    """Bound 2^P·e^{-x}, for x ≥ 0."""
    near = fixed.exp_neg(x, precision)
    return max(0, near - 1), min(1 << precision, near + 1)


def flip_coins(p: ProbabilityBounds, size: int, bits: Bits | None = None) -> Coins:
    """Draw `size` coins, each True if U < p. A first word settles nearly all; the others get more bits."""
    low, high = p(64)
    if low >= 1 << 64:
        return np.ones(check_int(size, "size"), np.bool_)
    heads_below, tails_from = np.uint64(low), min(high, (1 << 64) - 1)

    def fill(heads: Coins, source: Bits, workspace: Workspace) -> None:
        words = workspace.words(heads.size, source)
        np.less(words, heads_below, out=heads)
        for i in ((words >= heads_below) & (words <= np.uint64(tails_from))).nonzero()[0]:
            heads[i] = LazyUniform(source, int(words[i]), 64).is_below(p)

    return draw_array(size, fill, np.bool_, SYSTEM if bits is None else check_bits(bits))
