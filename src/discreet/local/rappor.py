"""RAPPOR [EPK14]: texts as Bloom filters, with permanent and instantaneous noise; decoding over candidates.

**Client.** A device draws a cohort once. A text sets `hashes` h of `size` k bits (fewer where they collide), by public
functions of its cohort. Permanent noise: each bit becomes 1 with probability f/2, 0 with probability f/2, and stays
otherwise; it is repeated for the same Bloom filter. Instantaneous noise: a 1 is sent as 1 with probability q, a 0 with
probability p. A bit that is set is thus sent as 1 with probability q* = f(p + q)/2 + (1 − f)·q, any other with
p* = f(p + q)/2 + (1 − f)·p.

**ε of one report, and ε_∞, and why only one has the factor 2.** Two texts differ in at most h bits that only the first sets,
and h that only the second sets. In one report a bit of the first kind counts q*/p* at most, one of the second
(1 − p*)/(1 − q*): ε_1 = h·ln(q*(1 − p*)/(p*(1 − q*))) has both in its fraction. The permanent noise treats 0 and 1 alike, so
every bit that differs counts (1 − f/2)/(f/2), and there are 2h of them: ε_∞ = 2h·ln((1 − f/2)/(f/2)). Both are for disjoint
filters, which is the worst case; with fewer than 2h bits in all, no more than all of them differ.

ε_∞ is for one Bloom filter, between histories with the same pattern of changes (`longitudinal`).

**Decoding.** Per cohort j and bit i, t = (ones − p*·n_j)/(q* − p*) is an unbiased count of the people whose filter sets it.
A text that n_v of n people have adds n_v·n_j/n to its bits in cohort j, on average over cohorts: `decode` regresses t,
whitened, on the candidates' bits. If the candidates' columns are independent, least squares with fixed weights is unbiased
when every text that people have is among them. With more candidates a LASSO selects some first; tests after it have seen the
same reports twice, and are approximate. Errors are for the number of people *who reported* and include how they fall into
cohorts; a candidate is significant at α over the number of candidates (Bonferroni), one-sided, by the normal approximation.
Sizes that are not negative (NNLS) are shown beside as post-processing.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import lcm, log, sqrt
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import ndtr, ndtri

from discreet._numbers import Number, check_int, check_probability, format_rational
from discreet.errors import BadParameter
from discreet.events import Event, SetResponseEvent
from discreet.local.hashing import fingerprint, hash_point, hash_texts
from discreet.local.longitudinal import (
    LongitudinalOracle,
    State,
    bound_event,
    count_ones,
    pack_bits,
    respond_event,
    unpack_bits,
    word_fields,
)
from discreet.local.oracles import Field, Report
from discreet.noise.bits import Bits, Ints
from discreet.noise.uniform import uniform_below

Floats = NDArray[np.float64]
MAX_BITS = 1 << 12


class Rappor(LongitudinalOracle, frozen=True, tag="rappor"):
    """RAPPOR with `size` k bits, `hashes` h, `cohorts` m, and the noise f, p, q as exact fractions.

    >>> rappor = Rappor(128, 2, 64, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), "2026-11")
    >>> rappor.truth_support, rappor.other_support
    (Fraction(11, 16), Fraction(9, 16))
    >>> round(rappor.epsilon, 6), round(rappor.lifetime().epsilon, 6)
    (1.074286, 4.394449)
    """

    size: int
    hashes: int
    cohorts: int
    f: Fraction
    p: Fraction
    q: Fraction
    salt: str = ""

    def check(self) -> None:
        """Refuse noise that is no probability, or that hides nothing."""
        if not 2 <= check_int(self.size, "size", 2) <= MAX_BITS:
            raise BadParameter("size", self.size, f"more than {MAX_BITS}", "lower it")
        check_int(self.hashes, "hashes", 1)
        check_int(self.cohorts, "cohorts", 1)
        if not 0 <= self.f < 1:
            raise BadParameter(
                "f", format_rational(self.f), "not from 0 to below 1", "give the probability of permanent noise"
            )
        if not 0 <= self.p < self.q <= 1:
            raise BadParameter(
                "p", format_rational(self.p), f"not from 0 to below q = {format_rational(self.q)}, which is at most 1",
                "send 1 more often for a 1",
            )  # fmt: skip
        if not (self.other_support > 0 and self.truth_support < 1):
            raise BadParameter("f", 0, "reports would have no ε", "raise f, or take 0 < p and q < 1")

    @property
    def values(self) -> int | None:
        """None: any text, as bytes."""
        return None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The cohort, and the bits in words of 32."""
        return (Field("c", self.cohorts), *word_fields(self.size))

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """The cohort."""
        return (self.cohorts,)

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """One coin a bit."""
        return ((self.f / 2).denominator,) * self.size

    @property
    def moduli(self) -> tuple[int, ...]:
        """One coin a bit."""
        return (lcm(self.p.denominator, self.q.denominator),) * self.size

    def filter(self, text: Any, cohort: int) -> tuple[int, ...]:
        """Return the bits that a text sets in a cohort, ascending."""
        point = fingerprint(text, self.salt)
        first = cohort * self.hashes
        return tuple(sorted({hash_point(point, self.salt, first + i, self.size) for i in range(self.hashes)}))

    def filter_all(self, texts: Sequence[Any]) -> Ints:
        """Return the bits that texts set: one row for each cohort and hash, one column a text."""
        return hash_texts(texts, self.salt, self.cohorts * self.hashes, self.size)

    def encode(self, value: Any, device: Sequence[int]) -> State:
        """The state is the cohort and the Bloom filter."""
        chosen = self.filter(value, device[0])
        return (device[0], *pack_bits([place in chosen for place in range(self.size)]))

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Draw each bit: 1 with probability 1 − f/2 if it is set, f/2 if not."""
        return (state[0], *_redraw(state[1:], drawn, self.permanent_moduli[0], 1 - self.f / 2, self.f / 2))

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Draw each bit: 1 with probability q if it is set, p if not."""
        return (state[0], *_redraw(state[1:], drawn, self.moduli[0], self.q, self.p))

    # Privacy

    @property
    def truth_support(self) -> Fraction:
        """q*: the probability that a set bit is sent as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.q

    @property
    def other_support(self) -> Fraction:
        """p*: the probability that another bit is sent as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.p

    @property
    def _only_one(self) -> int:
        """How many bits at most one filter sets and another does not: every filter has a bit."""
        return min(self.hashes, self.size - 1)

    def _filter_odds(self, set_odds: Fraction, clear_odds: Fraction) -> Fraction:
        """Odds of all bits of two filters: so much for a bit that only the first sets, so much for one of the second."""
        each = self._only_one
        both = min(2 * each, self.size)
        more, less = max(set_odds, clear_odds), min(set_odds, clear_odds)
        return more**each * less ** (both - each)

    @property
    def report_odds(self) -> Fraction:
        """e^{ε_1}."""
        p, q = self.other_support, self.truth_support
        return self._filter_odds(q / p, (1 - p) / (1 - q))

    @property
    def permanent_odds(self) -> Fraction | None:
        """e^{ε_∞}."""
        return self._filter_odds((2 - self.f) / self.f, (2 - self.f) / self.f) if self.f else None

    @property
    def instantaneous_odds(self) -> Fraction | None:
        """Odds of the fresh noise between any two memoised states, which can differ in all bits.

        Without permanent noise the states are filters, and a report is the fresh noise.
        """
        if not self.f:
            return self.report_odds
        return None if self._fresh_bit_odds is None else self._fresh_bit_odds**self.size

    @property
    def _fresh_bit_odds(self) -> Fraction | None:
        """Odds of the fresh noise of one bit."""
        if not self.p or self.q == 1:
            return None
        return max(self.q / self.p, (1 - self.p) / (1 - self.q))

    def event(self) -> Event:
        """Return the event of one report on its own.

        With room for disjoint filters, it is that of `hashes` reports of one bit each [basic RAPPOR]: every pair of filters
        is a part of such a pair. Else only ε is stated.
        """
        return self._filters_event(self.truth_support, self.other_support, self.report_odds)

    def permanent_event(self) -> Event:
        """Return the event of the permanent noise for one Bloom filter."""
        if self.permanent_odds is None:
            return super().permanent_event()
        return self._filters_event(1 - self.f / 2, self.f / 2, self.permanent_odds)

    def instantaneous_event(self) -> Event | None:
        """Return the event of the fresh noise on any memoised state: an answer yes or no for each bit."""
        if not self.f:
            return self.event()
        return None if self._fresh_bit_odds is None else respond_event(self._fresh_bit_odds) * self.size

    def _filters_event(self, truth: Fraction, other: Fraction, odds: Fraction) -> Event:
        if self.size < 2 * self.hashes:
            return bound_event(odds)
        one = SetResponseEvent(truth * (1 - other) / (other * (1 - truth)), other, other**2)
        return one if self.hashes == 1 else one * self.hashes

    # Estimates

    @property
    def null_variance(self) -> Fraction:
        """The variance, per report of a cohort, of the count of people who set a bit that none of them sets."""
        p, q = self.other_support, self.truth_support
        return p * (1 - p) / (q - p) ** 2

    def bit_variance(self, n: int, holders: int) -> Fraction:
        """Return the variance of the count of people who set a bit that so many of n in a cohort set."""
        p, q = self.other_support, self.truth_support
        return (holders * q * (1 - q) + (n - holders) * p * (1 - p)) / (q - p) ** 2

    def count(self, reports: Iterable[Report]) -> "BitCounts":
        """Count reports by cohort, and ones by cohort and bit."""
        sizes, ones = np.zeros(self.cohorts, np.int64), np.zeros((self.cohorts, self.size), np.int64)
        for cohort, *words in reports:
            sizes[cohort] += 1
            ones[cohort] += np.array(unpack_bits(words, self.size))
        return BitCounts(sizes, ones)

    def draw_counts(self, texts: Sequence[Any], holders: Sequence[int], bits: Bits | None = None) -> "BitCounts":
        """Draw one report for each of `holders` many people of each text; return their counts."""
        sizes, held = np.zeros(self.cohorts, np.int64), np.zeros((self.cohorts, self.size), np.int64)
        table = self.filter_all(texts).reshape(self.cohorts, -1, len(texts))
        for column, people in enumerate(holders):
            spread = np.bincount(uniform_below(self.cohorts, int(people), bits), minlength=self.cohorts)
            sizes += spread
            sets = np.zeros_like(held, np.bool_)
            sets[np.arange(self.cohorts)[:, None], table[:, :, column]] = True
            held += sets * spread[:, None]
        rates = self.truth_support, self.other_support
        ones = [count_ones(int(n), row, *rates, bits) for n, row in zip(sizes, held, strict=True)]
        return BitCounts(sizes, np.array(ones))

    def estimate_bits(self, counts: "BitCounts") -> list[list[Fraction]]:
        """Return the unbiased counts of people who set each bit, by cohort."""
        p, q = self.other_support, self.truth_support
        return [
            [(int(ones) - p * int(n)) / (q - p) for ones in row]
            for n, row in zip(counts.sizes, counts.ones, strict=True)
        ]  # fmt: skip


class BasicRappor(Rappor, frozen=True, tag="basic rappor"):
    """Basic RAPPOR: value v sets bit v. No hashing: `hashes` and `cohorts` are 1.

    >>> rappor = BasicRappor.of(3, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
    >>> rappor.encode(2, (0,)), round(rappor.epsilon, 6), round(rappor.lifetime().epsilon, 6)
    ((0, 4), 0.537143, 2.197225)
    """

    @classmethod
    def of(cls, values: int, f: Fraction, p: Fraction, q: Fraction) -> "BasicRappor":
        """Take one bit for each value."""
        return cls(values, 1, 1, f, p, q)

    def check(self) -> None:
        """Refuse hashes and cohorts."""
        super().check()
        if self.hashes != 1 or self.cohorts != 1:
            raise BadParameter("hashes", self.hashes, "basic RAPPOR has one bit a value", "use BasicRappor.of, or Rappor")

    @property
    def values(self) -> int | None:
        """k."""
        return self.size

    def filter(self, text: Any, cohort: int) -> tuple[int, ...]:
        """Return the bit of a value."""
        return (int(text),)

    def filter_all(self, texts: Sequence[Any]) -> Ints:
        """Return the bits of values."""
        return np.array([texts], np.int64)


class BitCounts(msgspec.Struct, frozen=True):
    """What decoding needs of all reports: how many each cohort sent, and the ones of each cohort and bit."""

    sizes: Ints
    ones: Ints

    def __add__(self, other: "BitCounts") -> "BitCounts":
        return BitCounts(self.sizes + other.sizes, self.ones + other.ones)

    @property
    def n(self) -> int:
        """The number of reports."""
        return int(self.sizes.sum())


class CandidateEstimate(msgspec.Struct, frozen=True):
    """How many people have a candidate: unbiased, with its standard error; not negative, as post-processing."""

    candidate: Any
    estimate: float
    standard_error: float
    p_value: float
    significant: bool
    nonnegative: float


def decode(
    rappor: Rappor, counts: BitCounts, candidates: Sequence[Any], confidence: Number = Fraction(19, 20)
) -> tuple[CandidateEstimate, ...]:
    """Estimate how many people have each candidate; the ones that a LASSO leaves out are not returned. Largest first.

    >>> rappor = BasicRappor.of(2, Fraction(0), Fraction(1, 4), Fraction(3, 4))
    >>> found = decode(rappor, BitCounts(np.array([1000]), np.array([[700, 300]])), [0, 1])
    >>> [(c.candidate, round(c.estimate), round(c.standard_error), c.significant) for c in found]
    [(0, 900, 27, True), (1, 100, 27, True)]
    """
    miss = 1 - check_probability(confidence, "confidence")
    if len(set(candidates)) < len(candidates) or not candidates:
        raise BadParameter("candidates", f"{len(candidates)} texts", "none, or one of them twice", "list each once")
    if not counts.n:
        raise BadParameter("counts", "of no report", "nothing can be decoded", "collect reports first")
    design, target, deviation = _build_regression(rappor, counts, candidates)
    scale = sparse.diags_array(1 / deviation)
    whitened, response = sparse.csc_array(scale @ design), target / deviation
    chosen = _select_columns(whitened, response)
    if not chosen.size:
        return ()
    part = whitened[:, chosen].toarray()
    inverse = np.linalg.pinv(part)
    estimates, sizes = inverse @ response, nnls(part, response)[0]
    covariance = _estimate_covariance(rappor, counts, design[:, chosen], sizes, inverse / deviation)
    errors = np.sqrt(np.diag(covariance))
    p_values = ndtr(-estimates / errors)
    level = float(miss) / len(candidates)
    order = np.argsort(-estimates, kind="stable")
    return tuple(
        CandidateEstimate(
            candidates[chosen[i]], float(estimates[i]), float(errors[i]), float(p_values[i]), bool(p_values[i] < level),
            float(sizes[i]),
        )
        for i in order
    )  # fmt: skip


def _build_regression(rappor: Rappor, counts: BitCounts, candidates: Sequence[Any]) -> tuple[Any, Floats, Floats]:
    """Return the design (cohorts·bits × candidates), the debiased counts, and their standard deviations."""
    p, q, n = float(rappor.other_support), float(rappor.truth_support), counts.n
    table = rappor.filter_all(candidates)
    hashes = len(table) // rappor.cohorts
    rows = table + np.repeat(np.arange(rappor.cohorts), hashes)[:, None] * rappor.size
    columns = np.broadcast_to(np.arange(len(candidates)), rows.shape)
    shape = (rappor.cohorts * rappor.size, len(candidates))
    sets = sparse.csc_array((np.ones(rows.size), (rows.ravel(), columns.ravel())), shape=shape)
    sets.data[:] = 1  # two hashes may set the same bit
    weights = sparse.diags_array(np.repeat(counts.sizes / n, rappor.size))
    design = sparse.csc_array(weights @ sets)
    design.eliminate_zeros()
    sizes = np.repeat(counts.sizes, rappor.size)
    ones = counts.ones.ravel()
    # A rate outside [p*, q*] is chance. An empty cohort has a row of zeros, whose weight does not matter.
    rate = np.clip(ones / np.maximum(sizes, 1), p, q)
    deviation = np.sqrt(np.maximum(sizes, 1) * rate * (1 - rate)) / (q - p)
    return design, (ones - p * sizes) / (q - p), deviation


def _select_columns(whitened: Any, response: Floats) -> NDArray[np.intp]:
    """Return all columns if they are independent, else those that a LASSO keeps.

    Rows have unit variance. The penalty of a column is √(2·ln M) times its norm: what the largest of M columns of pure noise
    correlates with.
    """
    rows, columns = whitened.shape
    if columns <= min(rows, 2000) and np.linalg.matrix_rank(whitened.toarray()) == columns:
        return np.arange(columns)
    norms = np.sqrt(np.asarray(whitened.multiply(whitened).sum(axis=0)).ravel())
    return np.flatnonzero(fit_lasso(whitened, response, sqrt(2 * log(columns)) * norms) > 0)


def fit_lasso(design: Any, response: Floats, penalties: Floats, sweeps: int = 1000) -> Floats:
    """Minimise ½‖y − A·x‖² + Σ penalties·x over x ≥ 0, by coordinate descent on the columns that can be positive.

    >>> fit_lasso(sparse.csc_array(np.eye(2)), np.array([3.0, 0.5]), np.ones(2)).tolist()
    [2.0, 0.0]
    """
    columns = design.shape[1]
    found, residual = np.zeros(columns), response.astype(np.float64)
    squares = np.asarray(design.multiply(design).sum(axis=0)).ravel()
    active: set[int] = set()
    while True:
        wanted = np.flatnonzero(design.T @ residual > penalties * (1 + 1e-9) + 1e-12)
        if not (new := set(wanted.tolist()) - active):
            return found
        active |= new
        for _ in range(sweeps):
            moved = 0.0
            for column in sorted(active):
                start, end = design.indptr[column : column + 2]
                places, weights = design.indices[start:end], design.data[start:end]
                slope = weights @ residual[places] + squares[column] * found[column] - penalties[column]
                step = max(0.0, slope / squares[column]) - found[column]
                if step:
                    residual[places] -= step * weights
                    found[column] += step
                    moved = max(moved, abs(step) * sqrt(squares[column]))
            if moved < 1e-9:
                break


def _estimate_covariance(rappor: Rappor, counts: BitCounts, design: Any, people: Floats, weights: Floats) -> Floats:
    """Return the covariance of weights·t, with the fitted numbers of people for the truth.

    Given the sizes n_j, cohorts are a random partition of the people: the numbers N_j of people by text in cohort j have
    Cov(N_j, N_k) = n_j·([j = k] − n_k/n)·S, S = (diag(π) − π·πᵀ)·n/(n − 1). That correlates the bits of one cohort, because
    the same people set them. The noise of each bit comes on top.
    """
    p, q, n = float(rappor.other_support), float(rappor.truth_support), counts.n
    shares = people / max(n, float(people.sum()))
    spread = (np.diag(shares) - np.outer(shares, shares)) * n / max(1, n - 1)
    total, average = np.zeros_like(spread), np.zeros_like(spread)
    for cohort in np.flatnonzero(counts.sizes):
        size = int(counts.sizes[cohort])
        rows = slice(int(cohort) * rappor.size, (int(cohort) + 1) * rappor.size)
        filters = (design[rows, :].toarray() > 0).astype(np.float64)
        held = np.minimum(1, filters @ shares)
        noise = (held * q * (1 - q) + (1 - held) * p * (1 - p)) / (q - p) ** 2
        part = weights[:, rows]
        through = part @ filters
        total += size * ((part * noise) @ part.T + through @ spread @ through.T)
        average += size * through / n
    return total - n * average @ spread @ average.T


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

    def grams(self, text: bytes) -> tuple[int, ...]:
        """Return the numbers of a text's n-grams."""
        letters = text.decode(errors="replace")[: self.length].ljust(self.length, self.alphabet[0])
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

    def event(self) -> Event:
        """Return the composition of all three."""
        return self.part.event() * 2 + self.word.event()

    def permanent_event(self) -> Event:
        """Return the composition of all three."""
        return self.part.permanent_event() * 2 + self.word.permanent_event()

    def instantaneous_event(self) -> Event | None:
        """Return the composition of all three."""
        part, word = self.part.instantaneous_event(), self.word.instantaneous_event()
        return None if part is None or word is None else part * 2 + word

    def find_candidates(
        self, reports: Iterable[Report], confidence: Number = Fraction(19, 20), limit: int = 10_000
    ) -> list[bytes]:
        """Return the texts that the reported n-grams spell: those of which every pair of n-grams occurs together.

        For each pair of places, the product of two debiased bits is an unbiased count of the people who have both n-grams,
        because their noise is independent ([FPE16] finds it by expectation maximisation instead). An edge joins two n-grams
        whose count is significant (Bonferroni over all pairs); candidates are the cliques with one n-gram at each place.
        Estimate them with `decode` on reports of the texts, which are the same people's: the list is chosen from them.

        Raises:
            BadParameter: there are more candidates than `limit`.
        """
        edges = self._find_edges(reports, float(1 - check_probability(confidence, "confidence")))
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

    def _find_edges(self, reports: Iterable[Report], miss: float) -> set[tuple[int, int, int, int]]:
        """Return (place, place, n-gram, n-gram) of all significant pairs."""
        by_pair: dict[int, list[tuple[Sequence[int], Sequence[int]]]] = {}
        for report in reports:
            by_pair.setdefault(report[0], []).append(self.split(report)[:2])
        level = -float(ndtri(miss / (len(self.pairs) * self.part.size**2)))
        edges = set()
        for pair, rows in by_pair.items():
            one = np.array([unpack_bits(first, self.part.size) for first, _ in rows], np.float64)
            two = np.array([unpack_bits(second, self.part.size) for _, second in rows], np.float64)
            joint, variance = self._join(one, two)
            for left, right in np.argwhere(joint > level * np.sqrt(variance)):
                edges.add((*self.pairs[pair], int(left), int(right)))
        return edges

    def _join(self, one: Floats, two: Floats) -> tuple[Floats, Floats]:
        """Return unbiased joint counts of n-grams, and bounds on their variance where no one person has both."""
        p, q, n = float(self.part.other_support), float(self.part.truth_support), len(one)
        one, two = (one - p) / (q - p), (two - p) / (q - p)
        null, own = p * (1 - p) / (q - p) ** 2, q * (1 - q) / (q - p) ** 2 + 1
        # The second moment of a debiased bit is `null`, or `own` if the person has the n-gram.
        first = null + np.clip(one.mean(axis=0), 0, 1) * max(0.0, own - null)
        second = null + np.clip(two.mean(axis=0), 0, 1) * max(0.0, own - null)
        return one.T @ two, n * np.outer(first, second)


def _redraw(words: Sequence[int], drawn: Sequence[int], modulus: int, truth: Fraction, other: Fraction) -> tuple[int, ...]:
    """Draw each bit anew: 1 with probability `truth` if it is set, `other` if not."""
    high, low = int(truth * modulus), int(other * modulus)
    bits = unpack_bits(words, len(drawn))
    return pack_bits([number < (high if bit else low) for bit, number in zip(bits, drawn, strict=True)])
