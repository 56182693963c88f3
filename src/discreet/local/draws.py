"""Uniform integers from bytes: the only randomness of a client that adds noise to its own value.

**Theory of operation.** `below(N)` takes ⌈bits(N−1)/8⌉ bytes, most significant first, clears the bits of the first byte that
N−1 does not need, and starts again with new bytes while the number is N or more. What remains is uniform on 0 … N−1 by
symmetry. The bytes that it takes depend on N and on the bytes, never on the value that is hidden: an oracle lists the Ns of
a report before it looks at the value (`SetOracle.moduli`), so neither the number of calls nor the bytes taken say anything.
Every client in every language draws like this, which lets one tape of bytes test them all.
"""

import hmac
import os
from collections.abc import Sequence
from typing import Protocol

from discreet._numbers import check_int
from discreet.errors import BadParameter

MAX_MODULUS = 1 << 53
"""Draws stay below this: JavaScript's numbers hold every integer up to it."""


class Draws(Protocol):
    """A source of bytes for `below`."""

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        ...


class SystemDraws:
    """The operating system's random bytes, for reports that leave the device."""

    def take(self, count: int) -> bytes:
        """Return `count` fresh bytes."""
        return os.urandom(count)


class TapeDraws:
    """Bytes from a given tape: for conformance tests, never for reports.

    >>> tape = TapeDraws(bytes([255, 7, 1]))
    >>> below(tape, 10), below(tape, 3), tape.consumed
    (7, 1, 3)
    """

    def __init__(self, tape: bytes) -> None:
        self.tape, self.consumed = tape, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes of the tape.

        Raises:
            BadParameter: the tape has ended.
        """
        end = self.consumed + count
        if end > len(self.tape):
            raise BadParameter("tape", f"{len(self.tape)} bytes", "too short for the report", "give a longer tape")
        taken, self.consumed = self.tape[self.consumed : end], end
        return taken


class KeyedDraws:
    """Bytes that a secret and a label determine: HMAC-SHA256 of the label and a counter.

    A client memoises by them: the same secret and label give the same noise, and without the secret they cannot be told from
    random bytes. Two labels share no block, because the label is hashed with its length.

    >>> one, two = KeyedDraws(b"s" * 32, b"a"), KeyedDraws(b"s" * 32, b"a")
    >>> one.take(40) == two.take(40) != KeyedDraws(b"s" * 32, b"b").take(40)
    True
    """

    def __init__(self, secret: bytes, label: bytes) -> None:
        if len(secret) < 32:
            raise BadParameter("secret", f"{len(secret)} bytes", "too short to be secret", "draw 32 bytes, for life")
        self._secret, self._prefix = secret, len(label).to_bytes(4, "big") + label
        self._counter, self._rest = 0, b""

    def take(self, count: int) -> bytes:
        """Return the next bytes of the stream."""
        while len(self._rest) < count:
            block = self._prefix + self._counter.to_bytes(4, "big")
            self._rest += hmac.digest(self._secret, block, "sha256")
            self._counter += 1
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken


def below(draws: Draws, bound: int) -> int:
    """Draw an integer that is uniform on 0 … bound−1.

    >>> below(TapeDraws(b"\\x03"), 2)
    1
    >>> below(TapeDraws(b""), 1)
    0
    """
    check_int(bound, "bound", 1)
    if bound > MAX_MODULUS:
        raise BadParameter("bound", bound, "more than 2**53, which not every client can count to", "take smaller odds")
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        number = int.from_bytes(draws.take(size), "big") & ((1 << bits) - 1)
        if number < bound:
            return number


def draw_all(draws: Draws, moduli: Sequence[int]) -> tuple[int, ...]:
    """Draw one integer below each modulus, in order."""
    return tuple(below(draws, modulus) for modulus in moduli)
