"""Random bits, and uniform numbers of which only some bits are drawn yet.

**The keystream** is AES-256 in counter mode, keyed by the operating system. The key is replaced in a forked child (by a
hook, and by the process id where hooks do not run), after `REKEY_BYTES` of output and after `REKEY_CALLS` requests. A
virtual machine that is cloned while running shares its key with the clone until the next of these; there is no portable
signal for a resume. The bits do not depend on the values that they protect, but samplers are not constant-time: how many
bits they ask for, and how long they take, depends on the noise that they draw.

**A lazy uniform** U on [0, 1) is known to lie in [number, number + 1)/2^known. A decision that this interval does not settle
draws 64 more bits of U; it never draws a new U, because that would change the distribution exactly in the hard cases.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.noise import fixed

Words: TypeAlias = NDArray[np.uint64]
Ints: TypeAlias = NDArray[np.int64]

REKEY_BYTES = 1 << 26
REKEY_CALLS = 1 << 12
SEED_BYTES = 48  # a 32-byte key and a 16-byte counter block
_ZEROS = memoryview(bytes(1 << 16))


class Bits(Protocol):
    """A source of independent, uniform 64-bit words."""

    @property
    def tainted(self) -> bool:
        """Whether others can reproduce these bits."""
        ...

    def words(self, count: int) -> Words:
        """Return `count` fresh words."""
        ...


class Keystream:
    """AES-256 in counter mode. One lock serialises the threads, so no two of them see the same words."""

    _cipher: CipherContext
    _owner: int  # the process that has the key
    _bytes: int  # how many bytes, and how many requests, the key is still good for
    _calls: int

    def __init__(self, seed: Callable[[], bytes], *, tainted: bool) -> None:
        self.tainted: Final = tainted
        self._seed = seed
        self._reset()
        _STREAMS.add(self)

    def words(self, count: int) -> Words:
        """Return `count` fresh words, of a new key where this one is used up or another process has it."""
        out = np.empty(count, np.uint64)
        view = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(view), len(_ZEROS)):
                if self._owner != os.getpid() or self._bytes <= 0 or self._calls <= 0:
                    material = self._seed()
                    self._cipher = Cipher(AES(material[:32]), CTR(material[32:SEED_BYTES])).encryptor()
                    self._owner, self._bytes, self._calls = os.getpid(), REKEY_BYTES, REKEY_CALLS
                piece = view[start : start + len(_ZEROS)]
                self._bytes -= len(piece)
                self._calls -= 1
                self._cipher.update_into(_ZEROS[: len(piece)], piece)
        return out

    def _reset(self) -> None:
        """Forget the key, at birth and in every forked child: a lock held by a thread that is not there never opens."""
        self._lock = threading.Lock()
        self._owner, self._bytes, self._calls = 0, 0, 0


def _reset_all() -> None:
    for stream in _STREAMS:
        stream._reset()


_STREAMS: "WeakSet[Keystream]" = WeakSet()
os.register_at_fork(after_in_child=_reset_all)

SYSTEM: Bits = Keystream(lambda: os.urandom(SEED_BYTES), tainted=False)
"""The stream that every mechanism uses unless a test gives another."""


# Uniform numbers

T = TypeVar("T", bound=np.generic)
ProbabilityBounds: TypeAlias = Callable[[int], tuple[int, int]]
"""Integer bounds low ≤ 2^P·p ≤ high for any precision P, at most a few units apart: a real p, as exactly as needed."""

CHUNK_SIZE = 1 << 13
"""Draws settled at once: a few arrays of this length stay in the processor's cache, and bound the memory."""

MAX_SCALAR_DRAWS = 2
"""Up to this many draws are settled in fixed point at once: it takes less time than a dozen array operations."""

SPARE_BITS = 16
"""Fixed-point bits beyond those drawn, so that what is open is open for want of bits and not of precision."""

INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)


class LazyUniform:
    """One lazily refined uniform."""

    __slots__ = ("bits", "known", "number")

    def __init__(self, bits: Bits, number: int = 0, known: int = 0) -> None:
        self.bits, self.number, self.known = bits, number, known

    def refine(self) -> None:
        """Draw 64 more bits."""
        self.number = self.number << 64 | int(self.bits.words(1)[0])
        self.known += 64

    def is_below(self, p: ProbabilityBounds) -> bool:
        """Decide exactly whether U < p."""
        while True:
            low, high = p(self.known)
            if self.number < low:
                return True
            if self.number >= high:
                return False
            self.refine()

    def neg_log(self, precision: int) -> tuple[int, int]:
        """Bound 2^P·(−ln U), for a number above 0: U < (number + 1)/2^known and ln(1 + 1/n) ≤ 1/n."""
        high = self.known * (fixed.ln2(precision) + 1) - fixed.log_int(self.number, precision) + 1
        return max(0, high - (1 << precision) // self.number - 2 * self.known - 3), high


def saturate(value: int) -> int:
    """Return the nearest int64. Clamping is post-processing, so every guarantee stays."""
    return min(max(value, INT64_MIN), INT64_MAX)


def apply_signs(magnitudes: Ints, words: Words) -> Ints:
    """Give each magnitude the sign that the lowest bit of its word says."""
    return magnitudes * (1 - 2 * (words & np.uint64(1)).view(np.int64))


def draw_in_chunks(size: int, draw: Callable[[int], NDArray[T]], dtype: type[T]) -> NDArray[T]:
    """Make `size` draws, at most `CHUNK_SIZE` at a time: memory beyond the result stays small."""
    size = check_int(size, "size")
    if size <= CHUNK_SIZE:
        return draw(size)
    out = np.empty(size, dtype)
    for start in range(0, size, CHUNK_SIZE):
        out[start : start + CHUNK_SIZE] = draw(min(CHUNK_SIZE, size - start))
    return out
