"""Random bits, and uniform numbers of which only some bits are drawn yet.

**The keystream** is AES-256 in counter mode, keyed by the operating system. The key is replaced in a forked child (by a
hook, and by the process id where hooks do not run), after `REKEY_BYTES` of output and after `REKEY_CALLS` requests. A
virtual machine that is cloned while running shares its key with the clone until the next of these; there is no portable
signal for a resume. The bits do not depend on the values that they protect, but samplers are not constant-time: how many
bits they ask for, and how long they take, depends on the noise that they draw.

**Long arrays** are drawn in spans of `SPAN_SIZE`, several at a time on as many threads as the process has processors. Every
span has a keystream of its own, split off before the threads start: no two threads share a key, and no word is used twice.
Where the spans begin and which stream each has depends on the size alone, so seeded bits give the same draws on any number
of processors. A shorter array is drawn by the calling thread, from the stream that it was given.

**A lazy uniform** U on [0, 1) is known to lie in [number, number + 1)/2^known. A decision that this interval does not settle
draws 64 more bits of U; it never draws a new U, because that would change the distribution exactly in the hard cases.
"""

import os
import reprlib
import threading
from collections.abc import Callable
from hashlib import sha512
from itertools import count
from typing import Any, Final, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.noise import fixed

Words: TypeAlias = NDArray[np.uint64]
Ints: TypeAlias = NDArray[np.int64]

REKEY_BYTES = 1 << 26
REKEY_CALLS = 1 << 12
SEED_BYTES = 48  # a 32-byte key and a 16-byte counter block
_ZEROS = memoryview(bytes(1 << 20))  # never written: the system keeps one page of zeros for all of it


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
        """Return `count` fresh words."""
        out = np.empty(count, np.uint64)
        self.fill(out)
        return out

    def fill(self, out: Words) -> None:
        """Fill an array with fresh words, of a new key where this one is used up or another process has it."""
        view = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(view), len(_ZEROS)):
                if self._owner != os.getpid() or self._bytes <= 0 or self._calls <= 0:
                    self._take_key()
                piece = view[start : start + len(_ZEROS)]
                self._bytes -= len(piece)
                self._calls -= 1
                self._cipher.update_into(_ZEROS[: len(piece)], piece)

    def split(self) -> "Keystream":
        """Return a new stream, independent of this one: keyed by the operating system, or by tainted words of this one."""
        seed = seeds_from(self.words(8).tobytes().hex()) if self.tainted else self._seed
        other = Keystream(seed, tainted=self.tainted)
        other._take_key()  # now, in the order of the calls, not when a thread comes to it
        return other

    def _take_key(self) -> None:
        material = self._seed()
        self._cipher = Cipher(AES(material[:32]), CTR(material[32:SEED_BYTES])).encryptor()
        self._owner, self._bytes, self._calls = os.getpid(), REKEY_BYTES, REKEY_CALLS

    def _reset(self) -> None:
        """Forget the key, at birth and in every forked child: a lock held by a thread that is not there never opens."""
        self._lock = threading.Lock()
        self._owner, self._bytes, self._calls = 0, 0, 0


def seeds_from(name: str) -> Callable[[], bytes]:
    """Return a function that gives one reproducible key after another: for tainted streams alone."""
    keys = count()
    return lambda: sha512(f"{name}/{next(keys)}".encode()).digest()[:SEED_BYTES]


def _reset_all() -> None:
    for stream in _STREAMS:
        stream._reset()


_STREAMS: "WeakSet[Keystream]" = WeakSet()
os.register_at_fork(after_in_child=_reset_all)

SYSTEM: Bits = Keystream(lambda: os.urandom(SEED_BYTES), tainted=False)
"""The stream that every mechanism uses unless a test gives another."""


def check_bits(bits: Bits, hint: str = "leave it out; to draw for many values, give an array") -> Bits:
    """Return bits that were given in the place of `SYSTEM`, if they are a source of bits.

    >>> check_bits(10)
    Traceback (most recent call last):
    discreet.errors.BadParameter: bits is 10: not a source of bits. Leave it out; to draw for many values, give an array.

    Raises:
        BadParameter: they are something else, such as a number of draws.
    """
    if callable(getattr(bits, "words", None)) and isinstance(getattr(bits, "tainted", None), bool):
        return bits
    raise BadParameter("bits", reprlib.repr(bits), "not a source of bits", hint)


# Uniform numbers

T = TypeVar("T", bound=np.generic)
ProbabilityBounds: TypeAlias = Callable[[int], tuple[int, int]]
"""Integer bounds low ≤ 2^P·p ≤ high for any precision P, at most a few units apart: a real p, as exactly as needed."""

CHUNK_SIZE = 1 << 13
"""Draws settled at once: a few arrays of this length stay in the processor's cache, and bound the memory."""

BLOCK_SIZE = 1 << 17
"""The same for samplers that work in a `Workspace`. Threads may wait for each other at the end of every array operation, so
each takes some 50 µs."""

SPAN_SIZE = 1 << 19
"""The most draws of a long array that share a keystream: some milliseconds of work, for which a thread is worthwhile."""

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


def draw_signs(words: Words) -> Ints:
    """Return 1 or −1 by the lowest bit of each word, in the place of the words."""
    words &= np.uint64(1)
    signs = words.view(np.int64)
    signs *= -2
    signs += 1
    return signs


class Workspace:
    """Arrays that one thread uses for block after block, one of each name.

    New arrays for every block would cost a page fault for every 4 KiB, and the threads of a process wait for each other's.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, dtype: type[T], size: int) -> NDArray[T]:
        """Return the array of a name, with the values that were left in it."""
        found = self._arrays.get(name)
        if found is None or found.size < size:
            found = self._arrays[name] = np.empty(size, dtype)
        return found[:size]

    def words(self, size: int, source: Bits, name: str = "words") -> Words:
        """Return fresh words, in the array of a name, which the next call fills again."""
        if not isinstance(source, Keystream):
            return source.words(size)
        out = self.array(name, np.uint64, size)
        source.fill(out)
        return out


Fill: TypeAlias = Callable[[NDArray[T], Bits, Workspace], None]
"""Fills an array with draws, from the bits of a source, with the arrays of the thread that calls it."""


def draw_array(size: int, fill: Fill[T], dtype: type[T], source: Bits, chunk: int = CHUNK_SIZE) -> NDArray[T]:
    """Return `size` draws, made at most `chunk` at a time: memory beyond the result stays small."""
    out = np.empty(check_int(size, "size"), dtype)
    if out.size <= SPAN_SIZE or not isinstance(source, Keystream):
        _fill_chunks(out, fill, source, Workspace(), chunk)
        return out
    _fill_spans([(out[span], source.split()) for span in cut_spans(out.size)], fill, chunk)
    return out


def cut_spans(size: int) -> list[slice]:
    """Return the spans of a long array: of equal length and even in number, so that two threads end together.

    >>> [span.start for span in cut_spans(3 * SPAN_SIZE)] == [0, *(SPAN_SIZE * i // 4 for i in (3, 6, 9))]
    True
    """
    number = 2 * -(-size // (2 * SPAN_SIZE))
    return [slice(size * i // number, size * (i + 1) // number) for i in range(number)]


def _fill_spans(spans: list[tuple[NDArray[T], Keystream]], fill: Fill[T], chunk: int) -> None:
    """Fill all spans, on this thread and on as many others as there are processors, or as the system allows."""
    waiting, failures = iter(spans), list[BaseException]()
    turn = threading.Lock()

    def work() -> None:
        workspace = Workspace()
        while not failures:
            with turn:
                span = next(waiting, None)
            if span is None:
                return
            try:
                _fill_chunks(span[0], fill, span[1], workspace, chunk)
            except BaseException as failure:
                failures.append(failure)

    threads = []
    for _ in range(min(len(spans), count_processors()) - 1):
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is about to end
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _fill_chunks(out: NDArray[T], fill: Fill[T], source: Bits, workspace: Workspace, chunk: int) -> None:
    for start in range(0, out.size, chunk):
        fill(out[start : start + chunk], source, workspace)


def count_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
