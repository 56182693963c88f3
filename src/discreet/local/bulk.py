"""Reports of many people at once, exactly as clients draw them: for simulations, benchmarks and tests of a server.

**Theory of operation.** `select_many` is `select` of an oracle over arrays: the same draws give the same reports.
`encode_many` draws what `moduli` lists, from the keystream, and selects. Its reports are columns of integers, named as
`oracle.fields` are, so they go into a frame, a file or an engine as they are.

Inner products of digits take one multiplication of packed words (`fields.pack_digits`), and what depends on a value or on a
point alone is looked up in tables.

**Bits of unary encoding** are drawn otherwise than one integer below the modulus each, with the same distribution: 16 random
bits decide a coin of probability p = (k + f)/2^16, f < 1: heads if they are below k, tails if above, and a coin of
probability f decides where they equal k. So P(heads) = k/2^16 + 2^-16·f = p exactly.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.local.fields import (
    Ints,
    Words,
    count_points,
    multiply_packed,
    pack_digits,
)
from discreet.local.oracles import (
    WORD_BITS,
    Direct,
    FixedHashed,
    Hadamard,
    Hashed,
    Projective,
    SetOracle,
    Subset,
    Unary,
    list_public_functions,
)
from discreet.noise import SYSTEM, Bits, bernoulli, uniform_below
from discreet.noise.bits import check_bits

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Reports: one array for each of `oracle.fields`."""

CHUNK = 1 << 15
"""People at a time: the arrays in between stay in the processor's cache."""

MAX_TABLE = 1 << 22
"""Tables have at most this many entries; beyond, digits are computed for every report."""

COIN_BITS = 16


def encode_many(oracle: SetOracle, values: Any, bits: Bits | None = None) -> Columns:
    """Draw the report of each of many people, who have these values.

    >>> from discreet.testing import seeded_bits
    >>> reports = encode_many(Direct(4, Fraction(3)), [0, 1, 2, 3], seeded_bits(1))
    >>> {name: column.tolist() for name, column in reports.items()}
    {'y': [0, 1, 2, 3]}

    Raises:
        BadParameter: a value is not an integer of the oracle's.
    """
    held, source = check_values(oracle, values), SYSTEM if bits is None else check_bits(bits)
    names = [field.name for field in oracle.fields]
    if isinstance(oracle, Unary):
        matrix = _encode_unary(oracle, held, source)
        return {name: matrix[:, place] for place, name in enumerate(names)}
    select = _selector(oracle)
    columns = [np.empty(len(held), np.int64) for _ in names]
    size = max(1, min(CHUNK, (CHUNK << 5) // len(oracle.moduli)))
    for start in range(0, len(held), size):
        part = held[start : start + size]
        drawn = [uniform_below(modulus, len(part), source) for modulus in oracle.moduli]
        for column, chosen in zip(columns, select(part, drawn), strict=True):
            column[start : start + size] = chosen
    return dict(zip(names, columns, strict=True))


def select_many(oracle: SetOracle, values: Any, drawn: Sequence[Any]) -> Columns:
    """Make the reports of many people from what was drawn below each of `oracle.moduli`, one array per modulus.

    >>> select_many(Direct(4, Fraction(3)), [2, 2], [[0, 5]])["y"].tolist()
    [2, 3]
    """
    held, arrays = check_values(oracle, values), [np.asarray(each, np.int64) for each in drawn]
    chosen = _selector(oracle)(held, arrays)
    return {field.name: column for field, column in zip(oracle.fields, chosen, strict=True)}


def check_values(oracle: SetOracle, values: Any) -> Ints:
    """Return values as an array of integers; refuse what is none of the oracle's, and missing ones."""
    held = np.asarray(values)
    if held.ndim != 1 or (held.size and held.dtype.kind not in "iu"):
        reason = "not a list of integers without gaps"
        hint = "give the number of each person's value; leave out people without one, or give them a value of their own"
        raise BadParameter("values", f"of type {held.dtype}" if held.ndim == 1 else f"of shape {held.shape}", reason, hint)
    if held.size and not (int(held.min()) >= 0 and int(held.max()) < oracle.values):
        found = int(held.min()) if int(held.min()) < 0 else int(held.max())
        raise BadParameter("values", found, f"not among the {oracle.values} values", f"give 0 to {oracle.values - 1}")
    return held.astype(np.int64, copy=False)


# -- one selector per oracle ------------------------------------------------------------------------------------------------

Selector: TypeAlias = Callable[[Ints, Sequence[Ints]], Sequence[NDArray[Any]]]


def _selector(oracle: SetOracle) -> Selector:
    match oracle:
        case Direct():
            return lambda values, drawn: (_keep_or_take_other(values, drawn[0], oracle.odds),)
        case Unary():
            return lambda values, drawn: _select_unary(oracle, values, drawn)
        case Subset():
            return lambda values, drawn: _select_subset(oracle, values, drawn)
        case Hashed():
            return _HashTables.of(oracle).select
        case Hadamard():
            return lambda values, drawn: _select_hadamard(oracle, values, drawn)
        case Projective():
            return _PointTables.of(oracle).select
        case _:
            raise BadParameter("oracle", type(oracle).__name__, "not a set oracle", "use one of discreet.local.oracles")


def _keep_or_take_other(true: Ints, numbers: Ints, odds: Fraction) -> Ints:
    """One draw of `Direct`: a numbers keep the truth, then b stand for each other value."""
    other = (numbers - odds.numerator) // odds.denominator
    return np.where(other < 0, true, other + (other >= true))


def _select_hadamard(oracle: Hadamard, values: Ints, drawn: Sequence[Ints]) -> tuple[Ints, Ints]:
    rows, coins = drawn
    signs = np.bitwise_count(rows & (values + 1)) & 1
    return rows, (signs ^ (coins >= oracle.odds.numerator)).astype(np.int64)


def _select_subset(oracle: Subset, values: Ints, drawn: Sequence[Ints]) -> list[Ints]:
    """Floyd's algorithm: a table says which of the other values are taken."""
    people, size = np.arange(len(values)), oracle.size
    taken = np.zeros((len(values), oracle.values), np.bool_)
    chosen = np.empty((len(values), size), np.int64)
    for step, numbers in enumerate(drawn[1:-1]):
        picked = np.where(taken[people, numbers], oracle.values - 1 - size + step, numbers)
        taken[people, picked] = True
        chosen[:, step] = picked
    chosen += chosen >= values[:, None]
    truth = np.flatnonzero(drawn[0] < size * oracle.odds.numerator)
    chosen[truth, drawn[-1][truth]] = values[truth]
    chosen.sort(axis=1)
    return list(chosen.T)


def _select_unary(oracle: Unary, values: Ints, drawn: Sequence[Ints]) -> list[NDArray[np.uint32]]:
    modulus = oracle.moduli[0]
    coins = np.stack(drawn, axis=1)
    bits = coins < int(oracle.bit_share * modulus)
    people = np.arange(len(values))
    bits[people, values] = coins[people, values] < int(oracle.truth_support * modulus)
    words = _pack_bits(bits)
    return [words[:, place] for place in range(words.shape[1])]


def _encode_unary(oracle: Unary, values: Ints, source: Bits) -> NDArray[np.uint32]:
    words = np.empty((len(values), len(oracle.fields)), np.uint32)
    size = max(1, (1 << 19) // oracle.values)
    for start in range(0, len(values), size):
        part = values[start : start + size]
        coins = _flip_many(oracle.bit_share, len(part) * oracle.values, source).reshape(len(part), oracle.values)
        coins[np.arange(len(part)), part] = bernoulli(oracle.truth_support, len(part), source)
        words[start : start + size] = _pack_bits(coins)
    return words


def _flip_many(p: Fraction, count: int, source: Bits) -> NDArray[np.bool_]:
    """Coins of probability exactly p, two random bytes each."""
    whole, rest = divmod(p * (1 << COIN_BITS), 1)
    numbers = source.words(-(-count // 4)).view(np.uint16)[:count]
    coins = numbers < whole
    if rest and (open_ones := np.flatnonzero(numbers == whole)).size:
        coins[open_ones] = bernoulli(rest, open_ones.size, source)
    return coins


def _pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint32]:
    people, values = bits.shape
    words = -(-values // WORD_BITS)
    packed = np.packbits(bits, axis=1, bitorder="little")
    whole = np.zeros((people, words * WORD_BITS // 8), np.uint8)
    whole[:, : packed.shape[1]] = packed
    return whole.view("<u4").astype(np.uint32, copy=False)


class _HashTables:
    """Hashes of values: digits of values and of functions, packed."""

    def __init__(self, oracle: Hashed) -> None:
        self.oracle = oracle
        g, digits = oracle.buckets, oracle.digits
        self.values = _pack_table(oracle.values, g, digits, ascending=True)
        if isinstance(oracle, FixedHashed):
            public = np.array(list_public_functions(g**digits, oracle.functions, oracle.salt), np.int64)
            packed = pack_digits(public, g, digits, ascending=False)
            self.functions: Callable[[Ints], list[Words]] = lambda numbers: [part[numbers] for part in packed]
        else:
            self.functions = _pack_table(g**digits, g, digits, ascending=False)

    @staticmethod
    @lru_cache(maxsize=8)
    def of(oracle: Hashed) -> "_HashTables":
        return _HashTables(oracle)

    def hash(self, functions: Ints, values: Ints) -> Ints:
        """Return ⟨a, v⟩ mod g, of each pair."""
        return multiply_packed(self.values(values), self.functions(functions), self.oracle.buckets, self.oracle.digits)

    def select(self, values: Ints, drawn: Sequence[Ints]) -> tuple[Ints, Ints]:
        functions, numbers = drawn
        return functions, _keep_or_take_other(self.hash(functions, values), numbers, self.oracle.odds)


def hash_many(oracle: Hashed, functions: Ints, values: Ints) -> Ints:
    """Return the hash of each value by the function beside it."""
    return _HashTables.of(oracle).hash(functions, values)


def _pack_table(size: int, base: int, digits: int, *, ascending: bool) -> Callable[[Ints], list[Words]]:
    """The packed digits of numbers below `size`: from a table if it is small."""
    if size > MAX_TABLE:
        return lambda numbers: pack_digits(numbers, base, digits, ascending=ascending)
    table = pack_digits(np.arange(size, dtype=np.int64), base, digits, ascending=ascending)
    return lambda numbers: [part[numbers] for part in table]


class _PointTables:
    """What `Projective.select` computes, in arrays. A vector is the number that its coordinates are the digits of.

    `rest` is the vector without the coordinate m, where the value's vector has its leading 1. That coordinate is computed
    and put between the others, and the vector is divided by its first coordinate that is not 0.
    """

    def __init__(self, oracle: Projective) -> None:
        self.oracle = oracle
        q, t = oracle.order, oracle.dimensions
        points = np.arange(min(oracle.values, MAX_TABLE + 1), dtype=np.int64)
        self.value_table = self._read_values(points) if len(points) <= MAX_TABLE else None
        self.rest_table = self._read_rests(np.arange(oracle.points)) if oracle.points <= MAX_TABLE else None
        self.inverses = np.array([0, *(pow(digit, -1, q) for digit in range(1, q))])
        self.powers = np.array([q**length for length in range(t + 1)])
        self.counts = np.array([count_points(q, length) for length in range(t + 1)])
        # The vector is scaled in two halves by tables: (scale, half) → scaled half.
        self.low = t // 2
        half = np.arange(q ** (t - self.low), dtype=np.int64)
        self.halves = (
            np.stack([_scale_digits(half, scale, q, t - self.low) for scale in range(q)]).reshape(-1)
            if q * len(half) <= MAX_TABLE
            else None
        )
        self.leads = _lead_digits(half, q, t - self.low)  # (first digit that is not 0, how many follow it)

    @staticmethod
    @lru_cache(maxsize=8)
    def of(oracle: Projective) -> "_PointTables":
        return _PointTables(oracle)

    def _read_values(self, values: Ints) -> tuple[list[Words], Ints]:
        """The packed vector of each value without its leading 1, and q^k where k coordinates follow that 1."""
        q, t = self.oracle.order, self.oracle.dimensions
        lengths = np.searchsorted(np.array([count_points(q, k) for k in range(1, t)]), values, side="right")
        powers = np.array([q**k for k in range(t)])[lengths]
        others = values - np.array([count_points(q, k) for k in range(t)])[lengths]
        return pack_digits(others, q, t - 1, ascending=True), powers

    def _read_rests(self, numbers: Ints) -> tuple[list[Words], Ints]:
        """The vectors that `select` chooses by a number: points of one dimension less, then all vectors, digits reversed."""
        q, t, line = self.oracle.order, self.oracle.dimensions, self.oracle.line
        points = np.minimum(numbers, line - 1)
        lengths = np.searchsorted(np.array([count_points(q, k) for k in range(1, t - 1)]), points, side="right")
        orthogonal = points + np.array([q**k - count_points(q, k) for k in range(t - 1)])[lengths]
        reversed_digits, rest = np.zeros_like(numbers), np.maximum(numbers - line, 0)
        for _ in range(t - 1):
            rest, digit = np.divmod(rest, q)
            reversed_digits = reversed_digits * q + digit
        vectors = np.where(numbers < line, orthogonal, reversed_digits)
        return pack_digits(vectors, q, t - 1, ascending=False), vectors

    def select(self, values: Ints, drawn: Sequence[Ints]) -> tuple[Ints]:
        oracle = self.oracle
        a, b, q, t, line = oracle.odds.numerator, oracle.odds.denominator, oracle.order, oracle.dimensions, oracle.line
        near = drawn[0] < a * line
        numbers = np.where(near, drawn[0] // a, line + (drawn[0] - a * line) // b)
        vectors, powers = self._look_up(values, self.value_table, self._read_values)
        packed, rests = self._look_up(numbers, self.rest_table, self._read_rests)
        missing: Ints = (q + (~near).astype(np.int64) - multiply_packed(vectors, packed, q, t - 1)) % q
        whole: Ints = rests + (rests // powers * (q - 1) + missing) * powers
        return (self.number(whole),)

    @staticmethod
    def _look_up(numbers: Ints, table: tuple[list[Words], Ints] | None, read: Any) -> tuple[list[Words], Ints]:
        if table is None:
            found: tuple[list[Words], Ints] = read(numbers)
            return found
        return [part[numbers] for part in table[0]], table[1][numbers]

    def number(self, vectors: Ints) -> Ints:
        """Return the points that non-zero vectors lie on."""
        power = self.powers[self.low]
        high = vectors // power
        low = vectors - high * power
        leads, lengths = self.leads
        # Where the upper half is 0, the lower one leads, and it scales alone.
        is_low = high == 0
        leading = np.where(is_low, low, high)
        length = lengths[leading] + np.where(is_low, 0, self.low)
        scale = self.inverses[leads[leading]]
        scaled = self._scale(scale, high) * power + self._scale(scale, low)
        return np.asarray(scaled - self.powers[length] + self.counts[length], np.int64)

    def _scale(self, scale: Ints, half: Ints) -> Ints:
        q, t = self.oracle.order, self.oracle.dimensions
        if self.halves is not None:
            return np.asarray(self.halves[scale * self.powers[t - self.low] + half], np.int64)
        return _scale_digits(half, scale, q, t - self.low)


def _scale_digits(numbers: Ints, scale: Any, base: int, digits: int) -> Ints:
    """Multiply every digit by a scale, modulo the base."""
    out, rest, weight = np.zeros_like(numbers), numbers, 1
    for _ in range(digits):
        rest, digit = np.divmod(rest, base)
        out += digit * scale % base * weight
        weight *= base
    return out


def _lead_digits(numbers: Ints, base: int, digits: int) -> tuple[Ints, Ints]:
    """The highest digit that is not 0, and how many follow it."""
    lead, length, rest = np.zeros_like(numbers), np.zeros_like(numbers), numbers
    for place in range(digits):
        rest, digit = np.divmod(rest, base)
        lead, length = np.where(digit, digit, lead), np.where(digit, place, length)
    return lead, length
