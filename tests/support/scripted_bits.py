"""Bits that a test chooses: none, forbidden ones, one word for ever, or a script."""

import numpy as np
from numpy.typing import NDArray


class Exhausted(Exception):
    """The leaf of the tree is reached: more bits would be needed."""


class NoBits:
    """Raises where more bits would be needed."""

    tainted = True

    def words(self, count: int) -> NDArray[np.uint64]:
        raise Exhausted


class ForbiddenBits:
    """Fails a test in which noise is drawn."""

    tainted = True

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("noise was drawn for values that had to be refused")


class ConstantBits:
    """The same word for ever: two draws that need more bits then get the same ones."""

    tainted = True

    def __init__(self, word: int = 0x9E3779B97F4A7C15) -> None:
        self.word = word

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self.word, np.uint64)


class ScriptedBits:
    """The given words first; after that, one word for ever."""

    tainted = True

    def __init__(self, words: list[int], later: int = 0x9E3779B97F4A7C15) -> None:
        self.given, self.later = np.array(words, np.uint64), later

    def words(self, count: int) -> NDArray[np.uint64]:
        given, self.given = self.given[:count], self.given[count:]
        return np.append(given, ConstantBits(self.later).words(count - given.size))
