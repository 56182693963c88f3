"""Random bits: an AES-256-CTR keystream, keyed by the operating system.

The key is replaced in a forked child (by a hook, and by the process id where hooks do not run), after
`REKEY_BYTES` of output and after `REKEY_CALLS` requests. A virtual machine that is cloned while running shares its
key with the clone until the next of these; there is no portable signal for a resume. Output does not depend on
the values that the bits will protect, but samplers are not constant-time: how many bits they ask for, and how long
they take, depends on the noise that they draw.
"""

import os
import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias
from weakref import WeakSet

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]

REKEY_BYTES = 1 << 26
REKEY_CALLS = 1 << 12
SEED_BYTES = 48  # a 32-byte key and a 16-byte counter block
_ZEROS = memoryview(bytes(1 << 16))


class Bits(Protocol):
    """A source of independent, uniform 64-bit words."""

    @property
    def tainted(self) -> bool:
        """Whether somebody else could reproduce these bits."""
        ...

    def words(self, count: int) -> Words:
        """`count` fresh words."""
        ...


class Keystream:
    """AES-256 in counter mode. One lock serialises the threads, so no two of them see the same words."""

    def __init__(self, seed: Callable[[], bytes], *, tainted: bool) -> None:
        self._seed, self._tainted = seed, tainted
        self._stream: CipherContext
        self._reset()
        _STREAMS.add(self)

    @property
    def tainted(self) -> bool:
        return self._tainted

    def words(self, count: int) -> Words:
        out = np.empty(count, np.uint64)
        view = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(view), len(_ZEROS)):
                piece = view[start : start + len(_ZEROS)]
                self._current_cipher(len(piece)).update_into(_ZEROS[: len(piece)], piece)
        return out

    def _reset(self) -> None:
        """Runs at birth and in every forked child: a lock held by a thread that is not there would never open."""
        self._lock = threading.Lock()
        self._owner, self._bytes, self._calls = 0, 0, 0

    def _current_cipher(self, size: int) -> CipherContext:
        if self._owner != os.getpid() or self._bytes <= 0 or self._calls <= 0:
            material = self._seed()
            self._stream = Cipher(AES(material[:32]), CTR(material[32:SEED_BYTES])).encryptor()
            self._owner, self._bytes, self._calls = os.getpid(), REKEY_BYTES, REKEY_CALLS
        self._bytes -= size
        self._calls -= 1
        return self._stream


def _reset_all() -> None:
    for stream in _STREAMS:
        stream._reset()


_STREAMS: "WeakSet[Keystream]" = WeakSet()
os.register_at_fork(after_in_child=_reset_all)

SYSTEM: Bits = Keystream(lambda: os.urandom(SEED_BYTES), tainted=False)
"""The stream that every mechanism uses unless a test says otherwise."""
