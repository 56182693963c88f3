"""The order in which a unit's contributions are kept: integers of the salt, the unit and the contribution, the same in every
engine.

A unit keeps the first of its groups, cells or values in this order. The order decides nothing else: units and groups are
told apart by themselves (PARTITION BY, GROUP BY), and equal hashes are ordered by the key. Whatever a hash is, one unit's
contributions depend on that unit alone, which is all that the proof of sensitivity needs (`query/contribution.py`).

**Definition** (bounding version 2). P = 2³¹ − 69 and Q = 2³¹ − 1 are primes; `rem` is the remainder of a division that
truncates, whose sign is that of the dividend; every constant in Greek comes from the salt (`_draw`).

    unit u    A = α·(u rem P) + β·(u rem Q) of an integer; md5 of salt and text of any other
    key k     c = (γ·(k rem P) + δ·(k rem Q) + τ)³ mod P of an integer; md5 of salt and text of any other; ν of NULL
    keys      H = c₁, then H ← (μ·H + c)³ mod P for each further key, and for a cell or value
    order     (A + H)³ mod P, then the keys themselves, NULL last

An md5 is taken as its first 60 bits, mod P. So md5 runs once for each listed key, and not at all where units and keys are
integers; it takes the larger part of the time where it runs for each unit and group.

**No overflow.** α < 2³⁰ and β < 2²⁹ multiply remainders below 2³¹, so |A| < 2⁶¹ + 2⁶⁰ = 3·2⁶⁰. A multiple of P just above
3·2⁶⁰ makes the sum positive, and below 6·2⁶⁰ + 2³³ < 2⁶³. Squares and products of residues are below 2⁶². All of it fits
BIGINT, in each partial sum, for integers of any size: a remainder is taken in the integer's own type, and is small.

**Why a cube.** Over all residues A, the orders of keys h₁, h₂, … are as if drawn at random, up to O(√P) of P cases, unless
small integers n have Σn = Σn·h = Σn·h² = 0: only then is Σn·(A + h)³ constant in A, and by Weil's bound every other
exponential sum of it is at most 2·√P [Wei48]. For hashes of keys such n have a chance of about 2⁻⁶². A product A·h would
need only Σn·h = 0, which h = 1, 2, 3 have: there the three keys come first in 1/3, 1/6 and 1/2 of all cases. A cube is a
bijection of the residues, since 3 does not divide P − 1, so keys with different H never tie. Consecutive integers as keys
are cubed before, for the same reason. `tests/sql/test_order.py` counts.

Some integers have the same hash whatever the salt is: those that leave the same remainders, which are 2⁶² apart, and k and
k + P where both lie between −P and Q, as −1 and P − 1 do: there both remainders move by P. Units lose nothing by it: each
has its own groups. Of two such keys the smaller comes first in every unit that has both, which costs accuracy, not privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from hashlib import md5, sha256

from sqlglot import exp

from discreet.query.schema import Key
from discreet.sql.dialects import SQL, Dialect, cast, column, int_literal

P = (1 << 31) - 69
Q = (1 << 31) - 1
POSITIVE = ((3 << 60) // P + 1) * P
"""A multiple of P that makes the hash of a unit positive."""
CUBE_ROOT = pow(3, -1, P - 1)
"""The power that undoes a cube."""
MD5_DIGITS = 15
"""The hexadecimal digits of an md5 that are taken: 60 bits."""


class Part(Enum):
    """How a column is hashed."""

    INTEGER = auto()  # by arithmetic
    INTEGER_TEXT = auto()  # by arithmetic where it is the text of an integer of 64 bits, else by md5
    TEXT = auto()  # by md5 of its text
    CODE = auto()  # it holds its hash: `pack_code`
    LISTED = auto()  # it is looked up among the hashes of the listed keys


PLACE_BITS = 20


def pack_code(hashed: int, place: int) -> int:
    """Return the code of a listed key: its hash, and its place among the listed keys, which identifies it. Keys with the
    same hash are in the order of their places."""
    return (hashed << PLACE_BITS) + place


def place_of(code: int) -> int:
    """Return the place of the key that has this code.

    >>> place_of(pack_code(7, 3))
    3
    """
    return code & ((1 << PLACE_BITS) - 1)


@lru_cache(maxsize=1024)
def _draw(salt: str, name: str, lower: int, upper: int) -> int:
    """A constant of the salt, lower ≤ constant < upper."""
    return lower + int.from_bytes(sha256(f"{name} {salt}".encode()).digest()) % (upper - lower)


@dataclass(frozen=True, slots=True)
class OrderHash:
    """The hashes of one salt, in the SQL of one engine."""

    salt: str
    dialect: Dialect

    def hash_unit(self, unit: SQL, part: Part) -> SQL:
        """A: a number between −3·2⁶⁰ and 3·2⁶⁰."""
        if part is Part.TEXT:
            return self.hash_text(unit, "unit")
        if part is Part.INTEGER_TEXT:
            whole = exp.TryCast(this=unit.copy(), to=exp.DataType(this=exp.DType.BIGINT))
            is_integer = exp.EQ(this=cast(whole, exp.DType.VARCHAR), expression=unit.copy())
            mixed = exp.If(this=is_integer, true=self._combine(whole.copy(), "unit"))
            return exp.Case(ifs=[mixed], default=self.hash_text(unit, "unit"))
        return self._combine(unit, "unit")

    def hash_key(self, name: str, part: Part, listed: Sequence[Key] | None = None) -> SQL:
        """The hash of a key: c, or for an integer what `cube` makes c of."""
        if part is Part.CODE:
            return exp.Paren(this=exp.BitwiseRightShift(this=column(name), expression=int_literal(PLACE_BITS)))
        absent = pow(self.null_hash, CUBE_ROOT, P) if part is Part.INTEGER else self.null_hash
        missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=int_literal(absent))
        if part is Part.TEXT:
            return exp.Case(ifs=[missing], default=self.hash_text(column(name), "key"))
        if part is Part.LISTED:
            assert listed is not None
            assert self.dialect.look_up is not None
            hashes = {to_text(key): self.hash_constant(key) for key in listed if key is not None}
            return exp.Case(ifs=[missing], default=self.dialect.look_up(column(name), hashes))
        shift = POSITIVE + _draw(self.salt, "key offset", 0, P)
        return exp.Case(ifs=[missing], default=_mod(_add(self._combine(column(name), "key"), int_literal(shift))))

    def fold(self, before: SQL, key: SQL) -> SQL:
        """What `cube` makes the hash of several keys of, from that of all but the last."""
        return _mod(_add(_multiply(int_literal(_draw(self.salt, "fold", 1, P)), before), key))

    def mix(self, unit: SQL, keys: SQL) -> SQL:
        """What `cube` makes the order of."""
        return _mod(_add(_add(unit, keys), int_literal(POSITIVE)))

    @property
    def null_hash(self) -> int:
        """ν: the hash of a missing key."""
        return _draw(self.salt, "missing", 0, P)

    def hash_text(self, value: SQL, purpose: str) -> SQL:
        """The md5 of a value's text, as a residue. The salt's length precedes it and the text is last, so two inputs never
        run together."""
        text = self.dialect.concat([exp.Literal.string(self._prefix(purpose)), cast(value, exp.DType.VARCHAR)])
        digits = exp.Anonymous(this="SUBSTR", expressions=[exp.MD5(this=text), int_literal(1), int_literal(MD5_DIGITS)])
        return _mod(self.dialect.parse_hex(digits, MD5_DIGITS))

    def hash_constant(self, key: Key) -> int:
        """What `hash_text` makes of a key that is known, and no time: the text of a time is the engine's."""
        return int(md5(f"{self._prefix('key')}{to_text(key)}".encode()).hexdigest()[:MD5_DIGITS], 16) % P

    def _prefix(self, purpose: str) -> str:
        return f"{len(self.salt)}:{self.salt} {purpose} "

    def _combine(self, value: SQL, purpose: str) -> SQL:
        """α·(value rem P) + β·(value rem Q)."""
        alpha = _draw(self.salt, f"{purpose} first", 1 << 29, 1 << 30)
        beta = _draw(self.salt, f"{purpose} second", 1 << 28, 1 << 29)
        first, second = (cast(exp.Mod(this=value.copy(), expression=int_literal(n)), exp.DType.BIGINT) for n in (P, Q))
        return _add(_multiply(int_literal(alpha), first), _multiply(int_literal(beta), second))


def to_text(key: Key) -> str:
    """The text of a text, a date or a truth value in every engine.

    >>> to_text(True), to_text("a")
    ('true', 'a')
    """
    return str(key).lower() if isinstance(key, bool) else str(key)


def cube(name: str) -> SQL:
    """The cube of a column of residues, mod P."""
    square = exp.Paren(this=_mod(_multiply(column(name), column(name))))
    return _mod(_multiply(square, column(name)))


def _add(a: SQL, b: SQL) -> SQL:
    return exp.Add(this=a, expression=b)


def _multiply(a: SQL, b: SQL) -> SQL:
    return exp.Mul(this=_wrap(a), expression=_wrap(b))


def _mod(a: SQL) -> SQL:
    return exp.Mod(this=_wrap(a), expression=int_literal(P))


def _wrap(a: SQL) -> SQL:
    return exp.Paren(this=a) if isinstance(a, exp.Binary) and not isinstance(a, exp.Dot) else a
