"""Apple's sketches [App17]: Count Mean Sketch, its Hadamard variant, and the Sequence Fragment Puzzle for new words.

**Count Mean Sketch** (`CountMeanSketch`). A device draws one of k public functions, j. Its text is in one of m buckets,
h_j(x); it sends m bits, of which only that of the bucket is set, each flipped with probability 1/(z + 1). Two texts differ
in two bits: ε = 2·ln z. A report names the texts whose bit is 1, so it is a set response (`oracles`) of odds z² and share
1/(z + 1); the functions are public, so two texts may never share a bucket, and t = s² is the worst pair.

With S_v the number of reports whose bit h_j(v) is 1, and c = (z + 1)/(z − 1),

    estimate(v) = m/(m − 1) · (c·S_v − n·(c − 1)/2 − n/m).

**Variance, with the floor of shared hashes.** Over the noise, the choice of functions *and the functions themselves*, which
have to be uniform and 3-wise independent (`hashing`),

    Var = (m/(m−1))² · { n·z/(z−1)² + (1/m)(1−1/m)·Σ_{u≠v} [n_u + n_u·(n_u − 1)/k] }.

**Proof.** Given functions, a report of u is on average [h_j(u) = h_j(v)], with the variance z/(z−1)² of one stretched bit.
For u ≠ v that indicator has mean 1/m. Indicators of two people are equal if they hold the same u and drew the same j
(probability 1/k), and uncorrelated otherwise: different functions are independent, and for u ≠ u' both collide with v with
probability 1/m² by 3-wise independence. The sum over n_u² does not shrink with n: more people do not average collisions
away. Given the *published* functions the estimate is biased by them; `solve_dictionary` removes that for a list of texts
that holds all that people have.

**Hadamard** (`HadamardCountMeanSketch`). The device sends one of the m coefficients of the Hadamard transform of its bucket
(m is a power of two): the sign of row l at h_j(x), kept with probability X/(X + 1). With c = (X + 1)/(X − 1),

    Var = (m/(m−1))² · { n·c² − n_v − Σ_{u≠v} n_u/m² + (1/m)(1−1/m)·Σ_{u≠v} n_u·(n_u − 1)/k }.

**No memoisation.** Each report costs ε again, for life: n reports cost n·ε, whatever a vendor's daily budget says.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, format_rational, read_decimal
from discreet.errors import BadParameter
from discreet.events import Composition, SetResponseEvent
from discreet.local.draws import MAX_MODULUS, Draws, draw_all
from discreet.local.hashing import hash_text, hash_texts
from discreet.local.longitudinal import count_ones, pack_bits, unpack_bits, word_fields
from discreet.local.odds import epsilon_of_odds, odds_for_epsilon, read_odds
from discreet.local.oracles import Field, Report
from discreet.noise.bits import Bits, Ints
from discreet.noise.uniform import uniform_below

MAX_WIDTH = 1 << 16


class Sketch(msgspec.Struct, frozen=True):
    """The sum of all reports: n, and one integer for each function and bucket. Sketches of days and shards add up.

    For `CountMeanSketch` a cell counts reports whose bit is 1; for `HadamardCountMeanSketch` it is the sum of their signs.
    """

    n: int
    cells: Ints

    def __add__(self, other: "Sketch") -> "Sketch":
        return Sketch(self.n + other.n, self.cells + other.cells)


class _AnySketch(msgspec.Struct, frozen=True):
    """What both sketches share: `functions` k public functions into `width` m buckets, by `salt`."""

    odds: Fraction
    functions: int
    width: int
    salt: str

    def __post_init__(self) -> None:
        read_odds(self.odds)
        check_int(self.functions, "functions", 1)
        if not 2 <= check_int(self.width, "width", 2) <= MAX_WIDTH:
            raise BadParameter("width", self.width, f"more than {MAX_WIDTH}", "lower it")
        self.check()
        if (largest := max(self.moduli)) > MAX_MODULUS:
            raise BadParameter("odds", self.odds, f"need a draw below {largest}", "take odds of smaller terms")

    def check(self) -> None:
        """Refuse parameters that this sketch cannot have."""

    @property
    @abstractmethod
    def moduli(self) -> tuple[int, ...]:
        """The numbers below which one report draws."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The integers of a report."""

    @abstractmethod
    def select(self, value: bytes, drawn: Sequence[int]) -> Report:
        """Make the report of a text."""

    @property
    @abstractmethod
    def spread(self) -> Fraction:
        """c: by how much a reported bit or sign is stretched."""

    @property
    @abstractmethod
    def term_variance(self) -> Fraction:
        """How large the variance of one report's term of an estimate can be, given the functions, whatever they are."""

    @property
    @abstractmethod
    def term_range(self) -> tuple[Fraction, Fraction]:
        """The least and the largest term that one report can add to an estimate."""

    @abstractmethod
    def _totals(self, sketch: Sketch, values: Sequence[Any]) -> list[Fraction]:
        """How many people share the bucket of each text in the function that they drew, estimated."""

    @abstractmethod
    def variance_of(self, n: int, holders: int, pairs: int) -> Fraction:
        """Return the variance of the estimate of a text that `holders` of n people have; `pairs` is Σ n_u·(n_u − 1) over the
        other texts u."""

    def estimate(self, sketch: Sketch, values: Sequence[Any]) -> list[Fraction]:
        """Return the estimated number of people who have each text."""
        return [self._scale * (total - Fraction(sketch.n, self.width)) for total in self._totals(sketch, values)]

    def variance(self, holders: int, others: Iterable[int]) -> Fraction:
        """Return the variance of the estimate of a text that `holders` people have; `others` have the other texts each."""
        others = list(others)
        return self.variance_of(holders + sum(others), holders, sum(count * (count - 1) for count in others))

    def draw(self, value: bytes, draws: Draws) -> Report:
        """Draw the report of one person."""
        return self.select(value, draw_all(draws, self.moduli))

    @property
    def values(self) -> int | None:
        """None: any text, as bytes."""
        return None

    def hash(self, function: int, value: Any) -> int:
        """Return the bucket of a text under one of the public functions."""
        return hash_text(value, self.salt, function, self.width)

    def hash_all(self, values: Sequence[Any]) -> Ints:
        """Return the buckets of texts under all functions: one row a function."""
        return hash_texts(values, self.salt, self.functions, self.width)

    @property
    def epsilon(self) -> float:
        """ε of each report, rounded up; reports add up."""
        return epsilon_of_odds(self.odds)

    @property
    def bits(self) -> int:
        """The bits of a report on the wire."""
        return sum(max(1, (field.below - 1).bit_length()) for field in self.fields)

    def is_valid(self, report: Report) -> bool:
        """Whether every integer of a report is in its range."""
        return len(report) == len(self.fields) and all(
            0 <= number < field.below for number, field in zip(report, self.fields, strict=True)
        )

    @property
    def _scale(self) -> Fraction:
        return Fraction(self.width, self.width - 1)

    def _floor(self, pairs: int) -> Fraction:
        """(1/m)(1 − 1/m)·Σ n_u(n_u − 1)/k."""
        return Fraction(self.width - 1, self.width**2) * Fraction(pairs, self.functions)


class CountMeanSketch(_AnySketch, frozen=True, tag="count mean sketch"):
    """Count Mean Sketch of odds z² = `odds`, whose root has to be rational.

    >>> sketch = CountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    >>> sketch.epsilon <= 4, round(float(sketch.spread), 6), round(float(sketch.noise_variance), 6)
    (True, 1.313035, 0.181015)
    """

    @classmethod
    def for_epsilon(cls, epsilon: Number, width: int, functions: int, salt: str) -> "CountMeanSketch":
        """Take the largest odds whose ε is at most this."""
        return cls(odds_for_epsilon(read_decimal(epsilon, "epsilon") / 2) ** 2, functions, width, salt)

    def check(self) -> None:
        """Refuse odds without a rational root."""
        if self.root**2 != self.odds:
            raise BadParameter(
                "odds", format_rational(self.odds), "the square of no fraction, so a flip has no exact coin",
                "use CountMeanSketch.for_epsilon",
            )  # fmt: skip

    @property
    def root(self) -> Fraction:
        """z."""
        from math import isqrt

        return Fraction(isqrt(self.odds.numerator), isqrt(self.odds.denominator))

    @property
    def flip(self) -> Fraction:
        """The probability that a bit is flipped: 1/(z + 1)."""
        return 1 / (self.root + 1)

    @property
    def spread(self) -> Fraction:
        """c = (z + 1)/(z − 1)."""
        return (self.root + 1) / (self.root - 1)

    @property
    def noise_variance(self) -> Fraction:
        """z/(z − 1)² = (c² − 1)/4: the variance that a report adds by its noise alone."""
        return self.root / (self.root - 1) ** 2

    def event(self) -> SetResponseEvent:
        """Return the event of one report."""
        return SetResponseEvent(self.odds, self.flip, self.flip**2)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The function, and the bits in words of 32."""
        return (Field("j", self.functions), *word_fields(self.width))

    @property
    def moduli(self) -> tuple[int, ...]:
        """The function, and one coin a bit."""
        return (self.functions, *(self.root.numerator + self.root.denominator,) * self.width)

    def select(self, value: bytes, drawn: Sequence[int]) -> Report:
        """Flip each bit of the one-hot bucket or not."""
        function, *coins = drawn
        own, kept = self.hash(function, value), self.root.numerator
        return (function, *pack_bits([(place == own) ^ (coin >= kept) for place, coin in enumerate(coins)]))

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the bit of a text is 1."""
        return bool(unpack_bits(report[1:], self.width)[self.hash(report[0], value)])

    def count(self, reports: Iterable[Report]) -> Sketch:
        """Add up reports."""
        cells, n = np.zeros((self.functions, self.width), np.int64), 0
        for function, *words in reports:
            cells[function] += np.array(unpack_bits(words, self.width))
            n += 1
        return Sketch(n, cells)

    def draw_sketch(self, values: Sequence[Any], holders: Sequence[int], bits: Bits | None = None) -> Sketch:
        """Draw one report for each of `holders` many people of each text; return their sum."""
        rows, held = np.zeros(self.functions, np.int64), np.zeros((self.functions, self.width), np.int64)
        table = self.hash_all(values)
        for column, people in enumerate(holders):
            spread = np.bincount(uniform_below(self.functions, int(people), bits), minlength=self.functions)
            rows += spread
            held[np.arange(self.functions), table[:, column]] += spread
        cells = np.zeros_like(held)
        for function in np.flatnonzero(rows):
            cells[function] = count_ones(int(rows[function]), held[function], 1 - self.flip, self.flip, bits)
        return Sketch(int(rows.sum()), cells)

    def support(self, sketch: Sketch, values: Sequence[Any]) -> list[int]:
        """Return S_v of each text: how many reports support it."""
        table = self.hash_all(values)
        return [int(sketch.cells[np.arange(self.functions), column].sum()) for column in table.T]

    def _totals(self, sketch: Sketch, values: Sequence[Any]) -> list[Fraction]:
        offset = sketch.n * (self.spread - 1) / 2
        return [self.spread * support - offset for support in self.support(sketch, values)]

    def variance_of(self, n: int, holders: int, pairs: int) -> Fraction:
        """Return the noise, and the collisions."""
        collisions = Fraction(self.width - 1, self.width**2) * (n - holders) + self._floor(pairs)
        return self._scale**2 * (n * self.noise_variance + collisions)

    @property
    def term_variance(self) -> Fraction:
        """That of the stretched bit, and of whether the function of another text collides: at most 1/4."""
        return self._scale**2 * (self.noise_variance + Fraction(1, 4))

    @property
    def term_range(self) -> tuple[Fraction, Fraction]:
        """From a bit 0 to a bit 1."""
        low = (1 - self.spread) / 2 - Fraction(1, self.width)
        return self._scale * low, self._scale * (low + self.spread)


class HadamardCountMeanSketch(_AnySketch, frozen=True, tag="hadamard count mean sketch"):
    """Hadamard Count Mean Sketch: one sign a report. `width` is a power of two.

    >>> sketch = HadamardCountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    >>> sketch.bits, round(float(sketch.spread**2), 6)
    (27, 1.076022)
    """

    @classmethod
    def for_epsilon(cls, epsilon: Number, width: int, functions: int, salt: str) -> "HadamardCountMeanSketch":
        """Take the largest odds whose ε is at most this."""
        return cls(odds_for_epsilon(epsilon), functions, width, salt)

    def check(self) -> None:
        """Refuse a width that has no Hadamard matrix here."""
        if self.width.bit_count() != 1:
            raise BadParameter("width", self.width, "not a power of two", "take one")

    @property
    def spread(self) -> Fraction:
        """c = (X + 1)/(X − 1)."""
        return (self.odds + 1) / (self.odds - 1)

    def event(self) -> SetResponseEvent:
        """Return the event of one report: texts in different buckets are both supported by a quarter of the base."""
        return SetResponseEvent(self.odds, Fraction(1, 2), Fraction(1, 4))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The function, the row, and the sign: 0 for +, 1 for −."""
        return (Field("j", self.functions), Field("l", self.width), Field("b", 2))

    @property
    def moduli(self) -> tuple[int, ...]:
        """The function, the row, and a coin."""
        return (self.functions, self.width, self.odds.numerator + self.odds.denominator)

    def select(self, value: bytes, drawn: Sequence[int]) -> Report:
        """Keep the sign of the row at the text's bucket, or turn it."""
        function, row, coin = drawn
        return (function, row, (row & self.hash(function, value)).bit_count() % 2 ^ (coin >= self.odds.numerator))

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the row has the reported sign at the text's bucket."""
        return (report[1] & self.hash(report[0], value)).bit_count() % 2 == report[2]

    def count(self, reports: Iterable[Report]) -> Sketch:
        """Add up reports."""
        cells, n = np.zeros((self.functions, self.width), np.int64), 0
        for function, row, sign in reports:
            cells[function, row] += 1 - 2 * sign
            n += 1
        return Sketch(n, cells)

    def draw_sketch(self, values: Sequence[Any], holders: Sequence[int], bits: Bits | None = None) -> Sketch:
        """Draw one report for each of `holders` many people of each text; return their sum."""
        cells, table = np.zeros((self.functions, self.width), np.int64), self.hash_all(values)
        for column, people in enumerate(holders):
            function = uniform_below(self.functions, int(people), bits)
            row = uniform_below(self.width, int(people), bits)
            turned = uniform_below(self.moduli[2], int(people), bits) >= self.odds.numerator
            sign = np.bitwise_count(row & table[function, column]) % 2 ^ turned
            np.add.at(cells, (function, row), 1 - 2 * sign.astype(np.int64))
        return Sketch(sum(map(int, holders)), cells)

    def support(self, sketch: Sketch, values: Sequence[Any]) -> list[int]:
        """Return, for each text, how many more reports support it than not."""
        cells, half = sketch.cells, 1
        while half < self.width:
            pairs = cells.reshape(self.functions, -1, 2, half)
            cells = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
            half *= 2
        cells = cells.reshape(self.functions, self.width)
        table = self.hash_all(values)
        return [int(cells[np.arange(self.functions), column].sum()) for column in table.T]

    def _totals(self, sketch: Sketch, values: Sequence[Any]) -> list[Fraction]:
        return [self.spread * support for support in self.support(sketch, values)]

    def variance_of(self, n: int, holders: int, pairs: int) -> Fraction:
        """Return the noise, and the collisions that do not average out."""
        noise = n * self.spread**2 - holders - Fraction(n - holders, self.width**2)
        return self._scale**2 * (noise + self._floor(pairs))

    @property
    def term_variance(self) -> Fraction:
        """The second moment of the stretched sign."""
        return self._scale**2 * self.spread**2

    @property
    def term_range(self) -> tuple[Fraction, Fraction]:
        """From the wrong sign to the right one."""
        return self._scale * (-self.spread - Fraction(1, self.width)), self._scale * (self.spread - Fraction(1, self.width))


AnySketch: TypeAlias = CountMeanSketch | HadamardCountMeanSketch


def solve_dictionary(kind: AnySketch, sketch: Sketch, values: Sequence[Any]) -> NDArray[np.float64]:
    """Return the numbers of people who have each of a list of texts, unbiased for the published functions.

    The share of functions under which two texts collide is known: G. The totals of the sketch are on average G·counts, if
    the list holds every text that people have; this solves for the counts.

    Raises:
        BadParameter: two texts collide under every function.
    """
    table = kind.hash_all(values)
    collisions = np.array([(table == column[:, None]).mean(axis=0) for column in table.T])
    if np.linalg.matrix_rank(collisions) < len(values):
        raise BadParameter("values", f"{len(values)} texts", "too many for so few buckets", "take fewer, or a wider sketch")
    totals = np.array([float(total) for total in kind._totals(sketch, values)])
    return np.asarray(np.linalg.solve(collisions, totals), np.float64)


class SequenceFragmentPuzzle(msgspec.Struct, frozen=True, tag="sequence fragment puzzle"):
    """Sequence Fragment Puzzle: words outside any list, from fragments of two letters that carry a hash of the word.

    Sketch sizes, ε and how many fragments are kept are the caller's; those of Apple's deployment were not checked.

    A device draws a place, and sends a sketch report of the fragment there together with an 8-bit hash of the word (the
    puzzle piece), and one of the word. The server takes the heaviest fragments of each place, joins those of equal piece,
    and looks the joined words up in the sketch of words. A report costs the ε of both sketches.

    Words are cut or padded to `length` letters of `alphabet`; its first letter pads, and stands for letters that it lacks.

    >>> small = CountMeanSketch(Fraction(9), 4, 64, "f"), CountMeanSketch(Fraction(9), 4, 64, "w")
    >>> puzzle = SequenceFragmentPuzzle(4, "_abc", *small)
    >>> puzzle.normalise(b"cab!?"), puzzle.places, round(puzzle.epsilon, 4)
    (b'cab_', 2, 4.3944)
    """

    length: int
    alphabet: str
    fragment: CountMeanSketch
    word: CountMeanSketch
    letters: int = 2
    pieces: int = 256

    def __post_init__(self) -> None:
        if check_int(self.length, "length", 2) % check_int(self.letters, "letters", 1):
            raise BadParameter("letters", self.letters, f"does not cut {self.length} letters into parts", "take a divisor")
        if len(set(self.alphabet)) != len(self.alphabet) or len(self.alphabet) < 2:
            raise BadParameter("alphabet", repr(self.alphabet), "a letter twice, or too few", "list each letter once")
        check_int(self.pieces, "pieces", 1)
        if self.fragment.salt == self.word.salt:
            raise BadParameter("fragment", "of the salt of `word`", "both would share their functions", "take another salt")

    @property
    def values(self) -> int | None:
        """None: any text, as bytes."""
        return None

    @property
    def places(self) -> int:
        """How many fragments a word has."""
        return self.length // self.letters

    def normalise(self, word: bytes) -> bytes:
        """Cut or pad a word, and put the pad for letters that the alphabet lacks."""
        letters = word.decode(errors="replace")[: self.length].ljust(self.length, self.alphabet[0])
        return "".join(letter if letter in self.alphabet else self.alphabet[0] for letter in letters).encode()

    def piece(self, word: bytes) -> int:
        """Return the puzzle piece of a normalised word: a public hash, uniform."""
        return hash_text(word, f"{self.word.salt} puzzle", 0, self.pieces)

    def name_fragment(self, place: int, piece: int, letters: str) -> bytes:
        """Name a fragment with its place and piece, as the sketch of fragments knows it."""
        return f"{place} {piece} {letters}".encode()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The place, and the reports of both sketches, with f and w before the names of their columns."""
        named = [
            Field(prefix + field.name, field.below)
            for prefix, sketch in (("f", self.fragment), ("w", self.word))
            for field in sketch.fields
        ]
        return (Field("place", self.places), *named)

    @property
    def moduli(self) -> tuple[int, ...]:
        """The place, and the draws of both sketches."""
        return (self.places, *self.fragment.moduli, *self.word.moduli)

    def select(self, value: bytes, drawn: Sequence[int]) -> Report:
        """Make both reports of a word."""
        word, place, split = self.normalise(value), drawn[0], 1 + len(self.fragment.moduli)
        letters = word.decode()[place * self.letters : (place + 1) * self.letters]
        name = self.name_fragment(place, self.piece(word), letters)
        return (place, *self.fragment.select(name, drawn[1:split]), *self.word.select(word, drawn[split:]))

    def draw(self, value: bytes, draws: Draws) -> Report:
        """Draw the report of one person."""
        return self.select(value, draw_all(draws, self.moduli))

    @property
    def epsilon(self) -> float:
        """ε of each report: of both sketches together."""
        return epsilon_of_odds(self.fragment.odds * self.word.odds)

    def event(self) -> Composition:
        """Return the event of one report: both sketches, composed. The place is drawn whatever the word."""
        return self.fragment.event() + self.word.event()

    def count(self, reports: Iterable[Report]) -> "tuple[list[Sketch], Sketch]":
        """Add up reports: a sketch of fragments for each place, and one of words."""
        split = 1 + len(self.fragment.fields)
        by_place: list[list[Report]] = [[] for _ in range(self.places)]
        words = []
        for report in reports:
            by_place[report[0]].append(report[1:split])
            words.append(report[split:])
        return [self.fragment.count(rows) for rows in by_place], self.word.count(words)

    def draw_sketches(self, holders: Mapping[bytes, int], bits: Bits | None = None) -> "tuple[list[Sketch], Sketch]":
        """Draw one report for each of so many people of each word; return their sums."""
        words: dict[bytes, int] = {}
        at_place: list[dict[bytes, int]] = [{} for _ in range(self.places)]
        for value, people in holders.items():
            word = self.normalise(value)
            words[word] = words.get(word, 0) + people
            spread = np.bincount(uniform_below(self.places, people, bits), minlength=self.places)
            for place, many in enumerate(spread):
                letters = word.decode()[place * self.letters : (place + 1) * self.letters]
                name = self.name_fragment(place, self.piece(word), letters)
                at_place[place][name] = at_place[place].get(name, 0) + int(many)
        fragments = [self.fragment.draw_sketch(list(held), list(held.values()), bits) for held in at_place]
        return fragments, self.word.draw_sketch(list(words), list(words.values()), bits)

    def find_words(
        self, fragments: Sequence[Sketch], words: Sketch, top: int = 50, limit: int = 100_000
    ) -> list[tuple[bytes, Fraction]]:
        """Return the words that the `top` fragments of each place spell, with their estimates, largest first.

        Raises:
            BadParameter: more than `limit` words are spelled; lists of T fragments spell about 256·(T/256)^places by chance.
        """
        pieces: list[dict[int, list[str]]] = []
        for place, sketch in enumerate(fragments):
            found: dict[int, list[str]] = {}
            for piece, letters in self.heaviest_fragments(place, sketch, top):
                found.setdefault(piece, []).append(letters)
            pieces.append(found)
        spelled, likely = 0, []
        for piece in range(self.pieces):
            for parts in product(*(found.get(piece, []) for found in pieces)):
                spelled += 1
                if spelled > limit:
                    raise BadParameter("limit", limit, "fewer than the words spelled", "raise it, or lower top")
                # A joined word whose own hash is another piece cannot have been sent.
                if self.piece(word := "".join(parts).encode()) == piece:
                    likely.append(word)
        estimates = self.word.estimate(words, likely) if likely else []
        return sorted(zip(likely, estimates, strict=True), key=lambda pair: -pair[1])

    def heaviest_fragments(self, place: int, sketch: Sketch, top: int) -> list[tuple[int, str]]:
        """Return the (piece, letters) of the largest estimates at a place."""
        every = ["".join(letters) for letters in product(self.alphabet, repeat=self.letters)]
        names = [(piece, letters) for piece in range(self.pieces) for letters in every]
        support = np.array(self.fragment.support(sketch, [self.name_fragment(place, *name) for name in names]))
        order = np.argsort(-support, kind="stable")[:top]
        return [names[place_of] for place_of in order]
