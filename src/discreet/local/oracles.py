"""Frequency oracles: each person reports a random set of values that is likelier to contain their own.

**Theory of operation.** All oracles of this module are one mechanism. A base distribution draws a *set* y of values;
the report of a person with value x is y with probability

    R(x)(y) = γ · base(y) · X^[x ∈ y],    γ = 1/(1 + (X − 1)·s),    s = base[x ∈ y].

The oracles differ in the base, that is, in how a set is named in few bits: a single value (`Direct`), a list of bits
(`Unary`), a list of w values (`Subset`), a hash function and its image (`Hashed`), a row of a Hadamard matrix and a sign
(`Hadamard`), a point of a projective space (`Projective`).

**Privacy.** R(x)(y)/R(x')(y) is X, 1 or 1/X. s is the same for every value, so γ is, and the reports are ε-private with
ε = ln X under replacing one person's value; both extremes are attained. The loss takes three values, which
`SetResponseEvent` states by s and t = base[x, x' ∈ y].

**Decoding.** A report supports the values in its set. It supports the true one with probability p* = X·s·γ and any other
with q* = γ·(X·t + s − t). With C_v supports of v among n reports, (C_v − n·q*)/(p* − q*) is an unbiased estimate of the
number of people who have v, and its variance is [n_v·p*(1 − p*) + (n − n_v)·q*(1 − q*)]/(p* − q*)².

**Drawing.** `moduli` lists the integers that one report needs, `select` makes the report of them: everything is drawn before
the value is looked at, so how much a client draws says nothing about its value.

A report is a tuple of integers, one for each of `fields`, so that reports are rows of integer columns in every engine.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import combinations, pairwise, product
from math import comb, lcm
from typing import TypeAlias

import msgspec

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.events import SetResponseEvent
from discreet.local.draws import MAX_MODULUS, Draws, KeyedDraws, draw_all
from discreet.local.fields import count_points, is_prime, next_prime, point_vector, vector_point, write_digits
from discreet.local.odds import epsilon_of_odds, make_fields_exact, read_odds

Report: TypeAlias = tuple[int, ...]

WORD_BITS = 32
"""Bits of a report are kept in words of this many: every engine and JavaScript shifts these alike."""


MAX_REPORT_BITS = 1 << 20
"""Bits, or listed values, of a report: a message of a megabyte is more than clients send."""
MAX_FUNCTIONS = 1 << 20
"""Public hash functions: every client holds all of them."""


class Field(msgspec.Struct, frozen=True):
    """One integer of a report: its column, and the number that it stays below."""

    name: str
    below: int


class SetOracle(msgspec.Struct, frozen=True):
    """The base of all oracles: `values` many values 0, 1, …, reported with the odds X = e^ε.

    >>> oracle = Direct(4, Fraction(3))
    >>> oracle.truth_support, oracle.other_support, round(oracle.epsilon, 6)
    (Fraction(1, 2), Fraction(1, 6), 1.098612)
    """

    values: int
    odds: Fraction

    def __post_init__(self) -> None:
        make_fields_exact(self)
        check_int(self.values, "values", 2)
        read_odds(self.odds)
        self.check()
        if (largest := max(self.moduli)) > MAX_MODULUS:
            raise BadParameter(
                "odds", self.odds, f"need a draw below {largest}, and clients draw below 2**53", "take odds of smaller terms"
            )

    def check(self) -> None:
        """Refuse parameters that this oracle cannot have."""

    # Privacy and accuracy

    @property
    @abstractmethod
    def share(self) -> Fraction:
        """s: the probability that a set of the base contains a given value."""

    @property
    @abstractmethod
    def pair(self) -> Fraction:
        """t: the probability that a set of the base contains two given values."""

    @property
    def epsilon(self) -> float:
        """ε of one report, rounded up."""
        return epsilon_of_odds(self.odds)

    @property
    def blanket(self) -> Fraction:
        """γ: the weight of the base, which no value changes, in every report."""
        return 1 / (1 + (self.odds - 1) * self.share)

    @property
    def truth_support(self) -> Fraction:
        """p*: the probability that a report supports the true value."""
        return self.odds * self.share * self.blanket

    @property
    def other_support(self) -> Fraction:
        """q*: the probability that a report supports a given other value."""
        return self.blanket * (self.odds * self.pair + self.share - self.pair)

    @property
    def null_variance(self) -> Fraction:
        """V: the variance, per report, of the estimated number of people with a value that is not held at all."""
        p, q = self.truth_support, self.other_support
        return q * (1 - q) / (p - q) ** 2

    def variance(self, n: int, holders: int = 0) -> Fraction:
        """Return the variance of the estimated number of people with a value that `holders` of n people have.

        >>> Direct(4, Fraction(3)).variance(100, 10)
        Fraction(135, 1)
        """
        p, q = self.truth_support, self.other_support
        return (holders * p * (1 - p) + (n - holders) * q * (1 - q)) / (p - q) ** 2

    def event(self) -> SetResponseEvent:
        """Return the event of one person's report."""
        return SetResponseEvent(self.odds, self.share, self.pair)

    # Reports

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The integers of a report."""

    @property
    @abstractmethod
    def moduli(self) -> tuple[int, ...]:
        """The numbers below which one report draws, whatever the value."""

    @abstractmethod
    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Make the report of a value from what was drawn below each of `moduli`."""

    @abstractmethod
    def supports(self, report: Report, value: int) -> bool:
        """Whether the set that a report names contains a value."""

    @abstractmethod
    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """List every report with its probability under the base: for small domains."""

    def draw(self, value: int, draws: Draws) -> Report:
        """Draw the report of one person."""
        if check_int(value, "value") >= self.values:
            raise BadParameter("value", value, f"not among the {self.values} values", f"give 0 to {self.values - 1}")
        return self.select(value, draw_all(draws, self.moduli))

    def is_valid(self, report: Report) -> bool:
        """Whether a report is one that some value could have sent."""
        return len(report) == len(self.fields) and all(
            0 <= number < field.below for number, field in zip(report, self.fields, strict=True)
        )

    def probability(self, report: Report, base: Fraction, value: int) -> Fraction:
        """Return R(value)(report), where `base` is the report's probability under the base."""
        return self.blanket * base * (self.odds if self.supports(report, value) else 1)

    @property
    def bits(self) -> int:
        """The bits of a report on the wire."""
        return sum(max(1, (field.below - 1).bit_length()) for field in self.fields)


def _check_length(name: str, length: int, reason: str) -> None:
    if length > MAX_REPORT_BITS:
        reason = f"{reason}, and at most {MAX_REPORT_BITS:,} are sent"
        raise BadParameter(name, length, reason, "use Projective, Hadamard or Hashed, whose reports are a few numbers")


class Direct(SetOracle, frozen=True, tag="direct"):
    """k-ary randomized response [KBR16]: the report is one value. Best while there are fewer than about 3·X + 2 of them.

    >>> Direct(4, Fraction(3)).select(2, (5,))
    (3,)
    """

    @property
    def share(self) -> Fraction:
        """1/d."""
        return Fraction(1, self.values)

    @property
    def pair(self) -> Fraction:
        """0: a report names one value."""
        return Fraction(0)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The reported value."""
        return (Field("y", self.values),)

    @property
    def moduli(self) -> tuple[int, ...]:
        """One draw: a of a + b·(d − 1) are the truth, b each other value."""
        return (self.odds.numerator + self.odds.denominator * (self.values - 1),)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Keep the value, or take another."""
        other = (drawn[0] - self.odds.numerator) // self.odds.denominator
        if other < 0:
            return (value,)
        return (other + (other >= value),)

    def supports(self, report: Report, value: int) -> bool:
        """Whether the value is the reported one."""
        return report[0] == value

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All values alike."""
        return (((value,), self.share) for value in range(self.values))


class Unary(SetOracle, frozen=True, tag="unary"):
    """Unary encoding: one bit for each value, all of them random [EPK14, WBLJ17].

    `Unary.optimised` has the least variance (OUE); `Unary.symmetric` flips every bit alike (SUE, one-time RAPPOR).

    >>> oracle = Unary.optimised(3, Fraction(3))
    >>> oracle.truth_support, oracle.other_support
    (Fraction(1, 2), Fraction(1, 4))
    >>> oracle = Unary.symmetric(3, Fraction(2))
    >>> oracle.odds, oracle.truth_support, oracle.other_support
    (Fraction(4, 1), Fraction(2, 3), Fraction(1, 3))
    """

    bit_share: Fraction

    @classmethod
    def optimised(cls, values: int, odds: Fraction) -> "Unary":
        """Optimised unary encoding: the true bit is 1 with probability 1/2, any other with 1/(X + 1)."""
        return cls(values, odds, 1 / (1 + odds))

    @classmethod
    def symmetric(cls, values: int, root: Fraction) -> "Unary":
        """Symmetric unary encoding: every bit is kept with probability z/(z + 1), z = √X = `root`."""
        return cls(values, root * root, 1 / (1 + root))

    def check(self) -> None:
        """Refuse a share that is no probability."""
        _check_length("values", self.values, "a report has a bit for each value")
        if not 0 < self.bit_share < 1:
            raise BadParameter("bit_share", self.bit_share, "not between 0 and 1", "use Unary.optimised or Unary.symmetric")

    @property
    def share(self) -> Fraction:
        """The probability of a 1 under the base."""
        return self.bit_share

    @property
    def pair(self) -> Fraction:
        """s²: bits are independent."""
        return self.bit_share**2

    @property
    def fields(self) -> tuple[Field, ...]:
        """The bits, in words of 32; bit i of word k is value 32·k + i."""
        full, rest = divmod(self.values, WORD_BITS)
        widths = [WORD_BITS] * full + [rest] * (rest > 0)
        return tuple(Field(f"w{place}", 1 << width) for place, width in enumerate(widths))

    @property
    def moduli(self) -> tuple[int, ...]:
        """One draw a bit."""
        return (lcm(self.truth_support.denominator, self.bit_share.denominator),) * self.values

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """A bit is 1 if its draw is below the modulus times its probability."""
        modulus = self.moduli[0]
        truth, other = int(self.truth_support * modulus), int(self.bit_share * modulus)
        words = [0] * len(self.fields)
        for place, number in enumerate(drawn):
            words[place // WORD_BITS] |= (number < (truth if place == value else other)) << place % WORD_BITS
        return tuple(words)

    def supports(self, report: Report, value: int) -> bool:
        """Whether the value's bit is 1."""
        return bool(report[value // WORD_BITS] >> value % WORD_BITS & 1)

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All vectors of bits."""
        for bits in product((0, 1), repeat=self.values):
            words = [0] * len(self.fields)
            for place, bit in enumerate(bits):
                words[place // WORD_BITS] |= bit << place % WORD_BITS
            yield tuple(words), self.bit_share ** sum(bits) * (1 - self.bit_share) ** (self.values - sum(bits))


class Subset(SetOracle, frozen=True, tag="subset"):
    """Subset selection [YB18]: the report is a set of `size` values. The least variance of all, and long reports.

    >>> oracle = Subset.optimised(128, Fraction(2718, 1000))
    >>> oracle.size, round(float(oracle.null_variance), 4)
    (34, 3.6106)
    """

    size: int

    @classmethod
    def optimised(cls, values: int, odds: Fraction) -> "Subset":
        """Take the size of the least variance, which is next to d/(X + 1)."""
        near = int(values / (1 + odds))
        sizes = [size for size in (near, near + 1) if 1 <= size < values]
        return min((cls(values, odds, size) for size in sizes), key=lambda oracle: oracle.null_variance)

    def check(self) -> None:
        """Refuse a size that leaves nothing to choose."""
        if not 1 <= check_int(self.size, "size", 1) < self.values:
            raise BadParameter("size", self.size, f"a subset of {self.values} values has fewer", "use Subset.optimised")
        _check_length("size", self.size, "a report lists so many values")

    @property
    def share(self) -> Fraction:
        """w/d."""
        return Fraction(self.size, self.values)

    @property
    def pair(self) -> Fraction:
        """w(w − 1)/(d(d − 1))."""
        return Fraction(self.size * (self.size - 1), self.values * (self.values - 1))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The values of the set, in ascending order: the order of drawing would tell which of them is special."""
        return tuple(Field(f"y{place}", self.values) for place in range(self.size))

    @property
    def moduli(self) -> tuple[int, ...]:
        """A coin for the truth, a set of w others by Floyd's algorithm, and which of them the truth replaces."""
        a, b = self.odds.numerator, self.odds.denominator
        others = range(self.values - self.size, self.values)
        return (self.size * a + (self.values - self.size) * b, *others, self.size)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Take the w others, and put the value in place of one of them if the coin says so."""
        coin, replaced = drawn[0], drawn[-1]
        chosen: list[int] = []
        for last, number in zip(range(self.values - 1 - self.size, self.values - 1), drawn[1:-1], strict=True):
            chosen.append(last if number in chosen else number)
        report = [other + (other >= value) for other in chosen]
        if coin < self.size * self.odds.numerator:
            report[replaced] = value
        return tuple(sorted(report))

    def supports(self, report: Report, value: int) -> bool:
        """Whether the value is in the set."""
        return value in report

    def is_valid(self, report: Report) -> bool:
        """Whether the values ascend."""
        return super().is_valid(report) and all(one < two for one, two in pairwise(report))

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All sets of this size alike."""
        chance = Fraction(1, comb(self.values, self.size))
        return ((subset, chance) for subset in combinations(range(self.values), self.size))


class Hashed(SetOracle, frozen=True, tag="hashed"):
    """Optimal local hashing [WBLJ17]: the report is a hash function a and a hash y; it names the values that a maps to y.

    The functions are linear over a prime field: v in base g, a uniform, h_a(v) = ⟨a, v⟩ mod g. **Proof** that t = 1/g²: with
    (a, y) uniform, u and v are both in the set iff ⟨a, u − v⟩ = 0 and y = ⟨a, u⟩; as u − v ≠ 0, these have probability 1/g
    each and are independent.

    >>> oracle = Hashed.optimised(16384, Fraction(2718, 1000))
    >>> oracle.buckets, oracle.digits, round(float(oracle.null_variance), 3)
    (3, 9, 3.771)
    """

    buckets: int

    @classmethod
    def optimised(cls, values: int, odds: Fraction) -> "Hashed":
        """Take the prime number of buckets of the least variance."""
        near = int(odds) + 1
        below = next((prime for prime in range(near, 1, -1) if is_prime(prime)), 2)
        return min((cls(values, odds, g) for g in (below, next_prime(near + 1))), key=lambda oracle: oracle.null_variance)

    def check(self) -> None:
        """Refuse a number of buckets that is not prime."""
        if not is_prime(self.buckets):
            raise BadParameter("buckets", self.buckets, "not prime, so hashes would not be uniform", "use Hashed.optimised")

    @property
    def digits(self) -> int:
        """How many digits a value has in base g, which is how many coefficients a function has."""
        digits = 1
        while self.buckets**digits < self.values:
            digits += 1
        return digits

    @property
    def share(self) -> Fraction:
        """1/g."""
        return Fraction(1, self.buckets)

    @property
    def pair(self) -> Fraction:
        """1/g²."""
        return Fraction(1, self.buckets**2)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The function, as a number whose digits are its coefficients, and the hash."""
        return (Field("h", self.buckets**self.digits), Field("y", self.buckets))

    @property
    def moduli(self) -> tuple[int, ...]:
        """The function, and one draw as in `Direct` over the hashes."""
        return (self.buckets**self.digits, self.odds.numerator + self.odds.denominator * (self.buckets - 1))

    def hash(self, function: int, value: int) -> int:
        """Return h_a(v) = ⟨a, v⟩ mod g, over the digits of both."""
        total, g = 0, self.buckets
        while function:  # as many steps as the function has digits, whatever the value
            function, one = divmod(function, g)
            value, two = divmod(value, g)
            total += one * two
        return total % g

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Keep the hash of the value, or take another."""
        function, number = drawn
        true = self.hash(function, value)
        other = (number - self.odds.numerator) // self.odds.denominator
        return (function, true if other < 0 else other + (other >= true))

    def supports(self, report: Report, value: int) -> bool:
        """Whether the reported function maps the value to the reported hash."""
        return self.hash(report[0], value) == report[1]

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All functions and hashes alike."""
        functions = self.buckets**self.digits
        chance = Fraction(1, functions * self.buckets)
        return ((report, chance) for report in product(range(functions), range(self.buckets)))


class FixedHashed(Hashed, frozen=True, tag="fixed hashed"):
    """Fast local hashing [CMM21]: as `Hashed`, with `functions` many public functions that a `salt` determines.

    Decoding takes functions × values steps, whatever the number of reports. Because the functions are shared, collisions do
    not average out: estimates carry a floor that does not shrink with n (`decoding` adds it to the intervals).

    >>> oracle = FixedHashed(100, Fraction(3), 5, 64, "2026-11")
    >>> oracle.fields[0].below, oracle.select(7, (3, 0)) == (3, oracle.hash(3, 7))
    (64, True)
    """

    functions: int
    salt: str

    def check(self) -> None:
        """Refuse what `Hashed` refuses, and no function at all."""
        super().check()
        if check_int(self.functions, "functions", 1) > MAX_FUNCTIONS:
            reason = f"clients hold all functions, and at most {MAX_FUNCTIONS:,}"
            raise BadParameter("functions", self.functions, reason, "take fewer, or use Hashed, which needs no list of them")

    @property
    def fields(self) -> tuple[Field, ...]:
        """The number of the function, and the hash."""
        return (Field("h", self.functions), Field("y", self.buckets))

    @property
    def moduli(self) -> tuple[int, ...]:
        """The function, and one draw as in `Direct` over the hashes."""
        return (self.functions, super().moduli[1])

    def hash(self, function: int, value: int) -> int:
        """Return the hash of a value by one of the public functions."""
        return super().hash(list_public_functions(self.buckets**self.digits, self.functions, self.salt)[function], value)

    def event(self) -> SetResponseEvent:
        """Return the event of one report. The functions are public, so two values may never collide: t = 0 is the worst."""
        return SetResponseEvent(self.odds, self.share, Fraction(0))

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All functions and hashes alike."""
        chance = Fraction(1, self.functions * self.buckets)
        return ((report, chance) for report in product(range(self.functions), range(self.buckets)))


@lru_cache(maxsize=64)
def list_public_functions(bound: int, count: int, salt: str) -> tuple[int, ...]:
    """Draw `count` functions below `bound` from a public salt, the same on every client."""
    stream = KeyedDraws(sha256(f"discreet.local functions {salt}".encode()).digest(), b"functions")
    return draw_all(stream, (bound,) * count)


class Hadamard(SetOracle, frozen=True, tag="hadamard"):
    """One bit of a Hadamard matrix [ASZ19]: the report is a row j and a sign. Few bits; good for ε up to about 1.5.

    Value v has column v + 1: column 0 is constant, and would make the sets of value 0 all or nothing.

    >>> oracle = Hadamard(128, Fraction(2718, 1000))
    >>> oracle.rows, round(float(oracle.null_variance), 3)
    (256, 4.684)
    """

    @property
    def rows(self) -> int:
        """D: the least power of two above the number of values."""
        return 1 << self.values.bit_length()

    @property
    def share(self) -> Fraction:
        """1/2: rows are drawn uniformly, and half of them have either sign in a column."""
        return Fraction(1, 2)

    @property
    def pair(self) -> Fraction:
        """1/4: columns are orthogonal."""
        return Fraction(1, 4)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The row, and the sign: 0 for +, 1 for −."""
        return (Field("j", self.rows), Field("b", 2))

    @property
    def moduli(self) -> tuple[int, ...]:
        """The row, and a coin."""
        return (self.rows, self.odds.numerator + self.odds.denominator)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Keep the sign of the row in the value's column, or turn it."""
        row, coin = drawn
        return (row, (row & (value + 1)).bit_count() % 2 ^ (coin >= self.odds.numerator))

    def supports(self, report: Report, value: int) -> bool:
        """Whether the row has the reported sign in the value's column."""
        return (report[0] & (value + 1)).bit_count() % 2 == report[1]

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All rows and signs alike."""
        chance = Fraction(1, 2 * self.rows)
        return ((report, chance) for report in product(range(self.rows), range(2)))


class Projective(SetOracle, frozen=True, tag="projective"):
    """Projective geometry response [FNNT22]: values and reports are points; a report names the points orthogonal to it.

    Nearly the least variance, one integer per report, and decoding that does not depend on the number of reports: the
    default for large domains. `order` is the prime q of the field, `dimensions` the t of F_q^t.

    >>> oracle = Projective.optimised(16384, Fraction(2718, 1000))
    >>> oracle.order, oracle.dimensions, oracle.points, round(float(oracle.null_variance), 3)
    (3, 10, 29524, 3.771)
    """

    order: int
    dimensions: int

    @classmethod
    def optimised(cls, values: int, odds: Fraction) -> "Projective":
        """Take the prime of the least variance among those next to X + 1, and as few dimensions as hold the values."""
        near = int(odds) + 1
        below = next((prime for prime in range(near, 1, -1) if is_prime(prime)), 2)
        found = []
        for q in (below, next_prime(near + 1)):
            dimensions = 2
            while count_points(q, dimensions) < values:
                dimensions += 1
            found.append(cls(values, odds, q, dimensions))
        return min(found, key=lambda oracle: oracle.null_variance)

    def check(self) -> None:
        """Refuse a space with too few points, or over no field."""
        if not is_prime(self.order):
            raise BadParameter("order", self.order, "not prime", "use Projective.optimised")
        if check_int(self.dimensions, "dimensions", 2) and self.points < self.values:
            raise BadParameter(
                "dimensions", self.dimensions, f"a space of {self.points} points has no room for {self.values} values",
                "use Projective.optimised",
            )  # fmt: skip

    @property
    def points(self) -> int:
        """K: the number of points."""
        return count_points(self.order, self.dimensions)

    @property
    def line(self) -> int:
        """c: how many points are orthogonal to a point."""
        return count_points(self.order, self.dimensions - 1)

    @property
    def share(self) -> Fraction:
        """c/K."""
        return Fraction(self.line, self.points)

    @property
    def pair(self) -> Fraction:
        """How many points are orthogonal to two points, over K."""
        return Fraction(count_points(self.order, self.dimensions - 2), self.points)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The reported point."""
        return (Field("u", self.points),)

    @property
    def moduli(self) -> tuple[int, ...]:
        """One draw: a for each orthogonal point, b for each other."""
        a, b = self.odds.numerator, self.odds.denominator
        return (a * self.line + b * (self.points - self.line),)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Take one of the points that are orthogonal to the value's, or one of the others.

        Let m be the first coordinate in which the value's vector v is not 0; it is 1 there. A vector with ⟨u, v⟩ = r is
        determined by its other coordinates. Orthogonal points (r = 0) are the points of the space without m; the others are
        scaled to r = 1, and their other coordinates are any vector.
        """
        (number,) = drawn
        a, b, q = self.odds.numerator, self.odds.denominator, self.order
        vector = point_vector(value, q, self.dimensions)
        place = vector.index(1)
        if number < a * self.line:
            rest, wanted = point_vector(number // a, q, self.dimensions - 1), 0
        else:
            rest, wanted = write_digits((number - a * self.line) // b, q, self.dimensions - 1), 1
        others = vector[:place] + vector[place + 1 :]
        missing = (wanted - sum(one * two for one, two in zip(rest, others, strict=True))) % q
        return (vector_point((*rest[:place], missing, *rest[place:]), q),)

    def supports(self, report: Report, value: int) -> bool:
        """Whether the value's point is orthogonal to the reported one."""
        one = point_vector(report[0], self.order, self.dimensions)
        two = point_vector(value, self.order, self.dimensions)
        return sum(a * b for a, b in zip(one, two, strict=True)) % self.order == 0

    def base_reports(self) -> Iterator[tuple[Report, Fraction]]:
        """All points alike."""
        return (((point,), Fraction(1, self.points)) for point in range(self.points))


Oracle: TypeAlias = Direct | Unary | Subset | Hashed | FixedHashed | Hadamard | Projective
"""Every set oracle."""
