"""Uniform whole numbers and biased coins, exactly."""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.exact import Number, rational, shown, whole
from discreet.noise import fixed
from discreet.noise.bits import SYSTEM, Bits
from discreet.noise.lazy import Ints, Uniform, in_chunks

Coins: TypeAlias = NDArray[np.bool_]
Settle: TypeAlias = Callable[[Uniform], bool]


def below(bound: int, size: int, bits: Bits | None = None) -> Ints:
    """`size` whole numbers, each uniform on 0 … bound−1; bound at most 2⁶³.

    >>> below(1, 3).tolist()
    [0, 0, 0]
    """
    bound = whole(bound, "bound", 1)
    if bound > 1 << 63:
        raise BadParameter("bound", bound, "the results are int64", "take at most 2**63")
    source = bits or SYSTEM
    # Words at or above the largest multiple of `bound` are drawn again: what remains is uniform by symmetry.
    last = np.uint64((1 << 64) - (1 << 64) % bound - 1)

    def draw(count: int) -> Ints:
        words = source.words(count)
        while (again := np.flatnonzero(words > last)).size:
            words[again] = source.words(again.size)
        return (words % np.uint64(bound)).astype(np.int64)

    return in_chunks(size, draw, np.int64)


def bernoulli(p: Number, size: int, bits: Bits | None = None) -> Coins:
    """`size` coins, each True with probability exactly p.

    >>> bernoulli(1, 2).tolist(), bernoulli(0, 2).tolist()
    ([True, True], [False, False])
    """
    exact = rational(p, "p")
    if not 0 <= exact <= 1:
        raise BadParameter("p", shown(exact), "not a probability", "give one between 0 and 1")
    top, bottom = exact.numerator, exact.denominator
    return _coins((top << 64) // bottom, lambda u: u.below(top, bottom), size, bits or SYSTEM)


def bernoulli_exp(x: Number, size: int, bits: Bits | None = None) -> Coins:
    """`size` coins, each True with probability exactly e^{-x}, for x ≥ 0.

    >>> bernoulli_exp(0, 2).tolist()
    [True, True]
    """
    exact = rational(x, "x")
    if exact < 0:
        raise BadParameter("x", shown(exact), "e^-x is no probability then", "give x of at least 0")
    if exact == 0:
        return bernoulli(1, size, bits)
    near = fixed.exp_neg(exact, 96)  # 2⁹⁶·e^{-x} within 1, so ⌊2⁶⁴·e^{-x}⌋ is one of these one or two cells
    floor = max(0, near - 1) >> 32
    return _coins(floor, lambda u: below_exp(u, exact), size, bits or SYSTEM, ((near + 1) >> 32) - floor)


def below_exp(u: Uniform, x: Fraction) -> bool:
    """Whether U < e^{-x}, settled exactly (e^{-x} is irrational for rational x > 0, so it ends)."""
    while True:
        precision = u.known + 64
        value = fixed.exp_neg(x, precision)
        if (u.number + 1) << 64 <= value - 1:
            return True
        if u.number << 64 >= value + 1:
            return False
        u.refine()


def _coins(floor: int, settle: Settle, size: int, source: Bits, spread: int = 0) -> Coins:
    """Coins for U < p, where ⌊2⁶⁴p⌋ is one of floor … floor + spread.

    A first word below `floor` means U < p; one above `floor + spread` means U ≥ p; the few between are settled with
    more bits.
    """
    if floor >= 1 << 64:
        return np.ones(whole(size, "size"), np.bool_)
    first, last = np.uint64(floor), np.uint64(min(floor + spread, (1 << 64) - 1))

    def draw(count: int) -> Coins:
        words = source.words(count)
        heads = words < first
        for i in np.flatnonzero((words >= first) & (words <= last)):
            heads[i] = settle(Uniform(source, int(words[i]), 64))
        return heads

    return in_chunks(size, draw, np.bool_)
