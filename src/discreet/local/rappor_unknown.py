"""RAPPOR for texts outside any list [FPE16]: n-grams are reported beside the text, and spell the candidates.

**Theory of operation.** A report holds the RAPPOR of a text and the basic RAPPORs of two of its n-grams. For each pair of
places, the product of two debiased bits is an unbiased count of the people who have both n-grams, because their noise is
independent ([FPE16] finds it by expectation maximisation instead). An edge joins two n-grams whose count is significant;
candidates are the cliques with one n-gram at each place. `rappor_decoding.decode` then estimates them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_probability
from discreet.errors import BadParameter
from discreet.events import Event
from discreet.local.longitudinal import LongitudinalOracle, State, unpack_bits, word_fields
from discreet.local.oracles import Field, Report
from discreet.local.rappor import BasicRappor, Rappor, to_bytes
from discreet.noise.bits import Ints

Floats: TypeAlias = NDArray[np.float64]


class UnknownRappor(LongitudinalOracle, frozen=True, tag="unknown rappor"):
    """RAPPOR for texts outside any list [FPE16]: a report on the text, and on two of its n-grams.

    Texts are cut or padded to `length` letters of `alphabet`; its first letter pads, and stands for letters that it lacks. A
    device draws once which two of the n-grams it reports. `word` is the RAPPOR of the text, `part` the basic RAPPOR of an
    n-gram, which has one value for each of the possible ones. A report costs the ε of all three.

    >>> noise = Fraction(0), Fraction(1, 4), Fraction(3, 4)
    >>> unknown = UnknownRappor(4, "_abc", 2, Rappor(32, 2, 8, *noise, "x"), BasicRappor.of(16, *noise))
    >>> unknown.pairs, unknown.grams(b"abz"), unknown.spell((6, 0))
    (((0, 1),), (6, 0), b'ab__')
    """

    length: int
    alphabet: str
    gram: int
    word: Rappor
    part: BasicRappor

    def check(self) -> None:
        """Refuse n-grams that do not fill the length, or that the RAPPOR of n-grams has no room for."""
        if check_int(self.length, "length", 2) % check_int(self.gram, "gram", 1) or self.length == self.gram:
            raise BadParameter("gram", self.gram, f"does not cut {self.length} letters into parts", "take a proper divisor")
        if len(set(self.alphabet)) != len(self.alphabet) or len(self.alphabet) < 2:
            raise BadParameter("alphabet", repr(self.alphabet), "a letter twice, or too few", "list each letter once")
        if self.part.size != len(self.alphabet) ** self.gram:
            raise BadParameter("part", self.part.size, f"there are {len(self.alphabet) ** self.gram} n-grams", "match it")

    @property
    def values(self) -> int | None:
        """None: any text, as bytes."""
        return None

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of n-grams, of which a device reports one."""
        return tuple(combinations(range(self.length // self.gram), 2))

    def grams(self, text: bytes | str) -> tuple[int, ...]:
        """Return the numbers of a text's n-grams."""
        letters = to_bytes(text).decode(errors="replace")[: self.length].ljust(self.length, self.alphabet[0])
        places = [max(0, self.alphabet.find(letter)) for letter in letters]
        base = len(self.alphabet)
        numbers = []
        for start in range(0, self.length, self.gram):
            number = 0
            for place in places[start : start + self.gram]:
                number = number * base + place
            numbers.append(number)
        return tuple(numbers)

    def spell(self, grams: Sequence[int]) -> bytes:
        """Return the text of n-grams, padded."""
        base, text = len(self.alphabet), ""
        for number in grams:
            text += "".join(self.alphabet[number // base**place % base] for place in reversed(range(self.gram)))
        return text.encode()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The pair, the bits of its two n-grams, and the report of the text."""
        parts = (*word_fields(self.part.size, "u"), *word_fields(self.part.size, "v"))
        return (Field("pair", len(self.pairs)), *parts, *self.word.fields)

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """The pair and the cohort."""
        return (len(self.pairs), self.word.cohorts)

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """The coins of all three reports."""
        return (*self.part.permanent_moduli * 2, *self.word.permanent_moduli)

    @property
    def moduli(self) -> tuple[int, ...]:
        """The coins of all three reports."""
        return (*self.part.moduli * 2, *self.word.moduli)

    def encode(self, value: bytes, device: Sequence[int]) -> State:
        """The state is the pair, the bits of its n-grams, and the Bloom filter of the padded text."""
        grams = self.grams(value)
        parts = [self.part.encode(grams[place], (0,))[1:] for place in self.pairs[device[0]]]
        return (device[0], *parts[0], *parts[1], *self.word.encode(self.spell(grams), device[1:]))

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Draw the permanent noise of all three."""
        return self._select(state, drawn, "select_permanent")

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Draw the instantaneous noise of all three."""
        return self._select(state, drawn, "select")

    def _select(self, state: State, drawn: Sequence[int], step: str) -> State:
        one, two, word = self.split(state)
        size = self.part.size
        first = getattr(self.part, step)((0, *one), drawn[:size])[1:]
        second = getattr(self.part, step)((0, *two), drawn[size : 2 * size])[1:]
        return (state[0], *first, *second, *getattr(self.word, step)(word, drawn[2 * size :]))

    def split(self, report: Sequence[int]) -> tuple[Sequence[int], Sequence[int], State]:
        """Return the words of both n-grams, and the report of the text."""
        words = len(word_fields(self.part.size))
        return report[1 : 1 + words], report[1 + words : 1 + 2 * words], tuple(report[1 + 2 * words :])

    @property
    def report_odds(self) -> Fraction:
        """The product of all three."""
        return self.part.report_odds**2 * self.word.report_odds

    @property
    def permanent_odds(self) -> Fraction | None:
        """The product of all three."""
        part, word = self.part.permanent_odds, self.word.permanent_odds
        return None if part is None or word is None else part**2 * word

    @property
    def instantaneous_odds(self) -> Fraction | None:
        """The product of all three."""
        part, word = self.part.instantaneous_odds, self.word.instantaneous_odds
        return None if part is None or word is None else part**2 * word

    def report_event(self) -> Event:
        """Return the composition of all three, whose noise is independent."""
        return self.part.report_event() * 2 + self.word.report_event()

    def permanent_event(self) -> Event:
        """Return the composition of all three."""
        return self.part.permanent_event() * 2 + self.word.permanent_event()

    def instantaneous_event(self) -> Event | None:
        """Return the composition of all three."""
        part, word = self.part.instantaneous_event(), self.word.instantaneous_event()
        return None if part is None or word is None else part * 2 + word

    def count_grams(self, reports: Iterable[Report]) -> "GramCounts":
        """Count the n-grams of reports: alone, and together with the other n-gram of the same report."""
        size, shape = self.part.size, (len(self.pairs), self.part.size)
        found = GramCounts(
            np.zeros(len(self.pairs), np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64),
            np.zeros((*shape, size), np.int64),
        )  # fmt: skip
        by_pair: dict[int, list[tuple[Sequence[int], Sequence[int]]]] = {}
        for report in reports:
            by_pair.setdefault(report[0], []).append(self.split(report)[:2])
        for pair, rows in by_pair.items():
            one = np.array([unpack_bits(first, size) for first, _ in rows], np.int64)
            two = np.array([unpack_bits(second, size) for _, second in rows], np.int64)
            found.sizes[pair] = len(rows)
            found.first[pair], found.second[pair], found.joint[pair] = one.sum(axis=0), two.sum(axis=0), one.T @ two
        return found

    def find_candidates(
        self, grams: "GramCounts", confidence: Number = Fraction(19, 20), limit: int = 10_000
    ) -> list[bytes]:
        """Return the texts that the reported n-grams spell: those of which every pair of n-grams occurs together.

        Pairs are judged at α over their number (Bonferroni). The reports of texts are the same people's, so a list that is
        chosen by their n-grams is not independent of them.

        Raises:
            BadParameter: there are more candidates than `limit`.
        """
        edges = self._find_edges(grams, float(1 - check_probability(confidence, "confidence")))
        places, found = self.length // self.gram, [()] if edges else []
        known: list[tuple[int, ...]] = list(found)
        for place in range(places):
            known = [
                (*start, gram)
                for start in known
                for gram in range(self.part.size)
                if all((earlier, place, start[earlier], gram) in edges for earlier in range(place))
                and (place or any(edge[:1] == (0,) and edge[2] == gram for edge in edges))
            ]
            if len(known) > limit:
                raise BadParameter("limit", limit, "fewer than the candidates found", "raise it, or the confidence")
        return [self.spell(grams) for grams in known]

    def _find_edges(self, grams: "GramCounts", miss: float) -> set[tuple[int, int, int, int]]:
        """Return (place, place, n-gram, n-gram) of all significant pairs."""
        from scipy.special import ndtri

        level = -float(ndtri(miss / (len(self.pairs) * self.part.size**2)))
        edges = set()
        for pair in np.flatnonzero(grams.sizes):
            joint, variance = self.join_grams(
                int(grams.sizes[pair]), grams.first[pair], grams.second[pair], grams.joint[pair]
            )
            for left, right in np.argwhere(joint > level * np.sqrt(variance)):
                edges.add((*self.pairs[pair], int(left), int(right)))
        return edges

    def join_grams(self, n: int, first: Ints, second: Ints, joint: Ints) -> tuple[Floats, Floats]:
        """Return unbiased joint counts of n-grams, and bounds on their variance where no one person has both."""
        p, q = float(self.part.other_support), float(self.part.truth_support)
        together = (joint - p * (first[:, None] + second[None, :]) + n * p * p) / (q - p) ** 2
        null, own = p * (1 - p) / (q - p) ** 2, q * (1 - q) / (q - p) ** 2 + 1
        # The second moment of a debiased bit is `null`, or `own` if the person has the n-gram.
        moments = [
            null + np.clip((ones / n - p) / (q - p), 0, 1) * max(0.0, own - null) for ones in (first, second)
        ]  # fmt: skip
        return together, n * np.outer(*moments)


@dataclass(frozen=True, eq=False)
class GramCounts:
    """What finding texts needs of all reports: by pair of places, how many there are, the ones of each n-gram, and how many
    have ones for two n-grams together. Integers, so that those of days and shards add up."""

    sizes: Ints
    first: Ints
    second: Ints
    joint: Ints
