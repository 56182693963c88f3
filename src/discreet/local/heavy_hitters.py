"""Heavy hitters: the most frequent of very many values, found bit by bit, by prefix extension (PEM) [WLJ17].

**Theory of operation.** A value is a number of `bits` bits. People are divided at random into rounds; those of round i
report the first ℓ_i bits of their value by `Projective`, with all of their ε: rounds divide the people, and not the budget.
The server counts the supports of the candidates of a round, keeps the `keep` largest, and extends each by all endings of
the next round. A value that many people have has frequent prefixes, so it survives; a prefix is lost where its estimate
falls among the noise of the others. The last round's candidates are whole values.

**Intervals.** The candidates of the last round were chosen by other people's reports, so their estimates are as of values
that were fixed before: intervals hold for all of them at once, by Bonferroni over the candidates. They are about the people
of that round, a random sample of all, and are shown as shares of them. A value that was not found has no interval: what can
be said is the *detection floor*, the share below which a prefix cannot be told from one that no person has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from discreet import formats
from discreet._numbers import Number, check_confidence, check_int, format_down, format_up, read_decimal
from discreet.errors import BadParameter
from discreet.local.bulk import Columns, encode_many
from discreet.local.counting import count_sparsely
from discreet.local.fields import Ints, count_points, multiply_packed, pack_digits, sum_over_hyperplanes
from discreet.local.intervals import describe_detection, invert_counts
from discreet.local.oracles import Projective
from discreet.noise import Bits, uniform_below

MAX_BITS = 40
MAX_POINTS = 1 << 20
"""Up to so many points, all supports are computed by one transform."""
PAIRS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class PrefixSearch:
    """How heavy hitters are searched for: values of `bits` bits, prefixes of `first` bits and then `step` more in each
    round, of which the `keep` largest are extended.

    >>> search = PrefixSearch(bits=16, odds=Fraction(3), first=8, step=4, keep=16)
    >>> search.lengths, [oracle.values for oracle in search.oracles]
    ((8, 12, 16), [256, 4096, 65536])
    """

    bits: int
    odds: Fraction
    first: int = 8
    step: int = 4
    keep: int = 64

    def __post_init__(self) -> None:
        if not 1 <= check_int(self.bits, "bits", 1) <= MAX_BITS:
            raise BadParameter("bits", self.bits, f"more than {MAX_BITS}", "hash longer values to so many bits")
        for name in ("first", "step", "keep"):
            check_int(getattr(self, name), name, 1)
        if self.first > self.bits:
            raise BadParameter(
                "first", self.first, f"longer than the value of {self.bits} bits", "take a shorter first prefix"
            )

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The length of the prefix in each round."""
        return (*range(self.first, self.bits, self.step), self.bits)

    @cached_property
    def oracles(self) -> tuple[Projective, ...]:
        """What the people of each round report with."""
        return tuple(Projective.optimised(1 << length, self.odds) for length in self.lengths)

    def detection_floor(self, people: Sequence[int], confidence: Number = 0.95) -> float:
        """Return the share of all people below which a value may be lost, from the number of people in each round.

        >>> search = PrefixSearch(bits=16, odds=Fraction(3), keep=16)
        >>> round(search.detection_floor([100_000] * 3), 4)
        0.0206
        """
        miss, floors, candidates = 1 - read_decimal(confidence, "confidence"), [0.0], 1 << self.first
        for oracle, n, length in zip(self.oracles, people, self.lengths, strict=True):
            floors.append(describe_detection(n, candidates, oracle.null_variance, miss))
            candidates = self.keep << min(self.step, self.bits - length)
        return max(floors)


@dataclass(frozen=True, slots=True)
class HeavyHitter:
    """A value that was found, with its estimated share of the people and an interval of that share."""

    value: int
    share: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class HeavyHitters:
    """The values that were found, the most frequent first. All intervals hold together."""

    search: PrefixSearch
    found: tuple[HeavyHitter, ...]
    people: tuple[int, ...]
    rejected: tuple[dict[str, int], ...]
    confidence: float

    @property
    def detection_floor(self) -> float:
        """The share of all people below which a value may have been lost."""
        return self.search.detection_floor(self.people, self.confidence)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per value."""
        return [{"value": each.value, "share": each.share, "lower": each.lower, "upper": each.upper} for each in self.found]

    def list_notes(self) -> list[str]:
        """What the intervals promise, and what may have been lost."""
        percent = format_down(100 * Fraction(repr(self.confidence)), 6)
        return [
            f"{sum(self.people):,} reports in {len(self.people)} rounds. All intervals together contain the shares among "
            f"the people of the last round with probability ≥ {percent}%.",
            f"A value that less than about {format_up(100 * self.detection_floor, 2)}% of the people have may be lost.",
        ]

    def __repr__(self) -> str:
        lines = [
            [str(each.value), f"{100 * each.share:.2f}%", f"[{100 * each.lower:.2f}%, {100 * each.upper:.2f}%]"]
            for each in self.found
        ]
        table = formats.make_rich_table(None, ["value", "share", "interval"], lines)
        return formats.render_text(formats.add_rich_notes(table, self.list_notes()))


def encode_prefixes(search: PrefixSearch, values: Any, bits: Bits | None = None) -> list[Columns]:
    """Draw the reports of many people, each in a round drawn at random: one table of reports per round. For simulations."""
    held = np.asarray(values, np.int64)
    rounds = uniform_below(len(search.lengths), len(held), bits)
    return [
        encode_many(oracle, held[rounds == place] >> (search.bits - length), bits)
        for place, (oracle, length) in enumerate(zip(search.oracles, search.lengths, strict=True))
    ]


def find_heavy_hitters(
    search: PrefixSearch, reports: Sequence[Any], *, confidence: Number = 0.95, **options: Any
) -> HeavyHitters:
    """Find the most frequent values from the reports of each round: arrays, frames, files or tables, as in `count_reports`.

    Values whose interval reaches 0 are left out: they cannot be told from values that no person has.
    """
    if len(reports) != len(search.lengths):
        raise BadParameter(
            "reports", f"of {len(reports)} rounds", f"the search has {len(search.lengths)}", "give one table each"
        )
    level = check_confidence(confidence)
    candidates = np.arange(1 << search.first, dtype=np.int64)
    people, rejected = [], []
    supports, before = np.zeros(0, np.int64), search.first
    for oracle, length, source in zip(search.oracles, search.lengths, reports, strict=True):
        if length > before:
            best = np.sort(candidates[np.argsort(-supports, kind="stable")[: search.keep]])
            candidates = (best[:, None] << (length - before) | np.arange(1 << (length - before))).reshape(-1)
        points, times, bad = count_sparsely(oracle, source, **options)
        supports, before = count_candidates(oracle, points, times, candidates), length
        people.append(int(times.sum()))
        rejected.append(bad)
    found = _estimate_shares(search, supports, candidates, people[-1], level)
    return HeavyHitters(search, found, tuple(people), tuple(rejected), level)


def _estimate_shares(
    search: PrefixSearch, supports: Ints, candidates: Ints, n: int, confidence: float
) -> tuple[HeavyHitter, ...]:
    if n == 0:
        return ()
    oracle = search.oracles[-1]
    p, q = oracle.truth_support, oracle.other_support
    miss = (1 - read_decimal(confidence, "confidence")) / len(candidates)
    lower, upper = invert_counts(supports, n, p, q, miss)
    shares = (supports / n - float(q)) / float(p - q)
    order = [place for place in np.argsort(-supports, kind="stable").tolist() if lower[place] > 0][: search.keep]
    return tuple(
        HeavyHitter(int(candidates[place]), float(shares[place]), float(lower[place]) / n, float(upper[place]) / n)
        for place in order
    )


def count_candidates(oracle: Projective, points: Ints, times: Ints, candidates: Ints) -> Ints:
    """Return the supports of some values, from the points that were reported and how often each was.

    >>> count_candidates(Projective(3, Fraction(3), 2, 2), np.array([0, 2]), np.array([5, 7]), np.array([1, 2])).tolist()
    [5, 7]
    """
    q, t = oracle.order, oracle.dimensions
    if oracle.points <= MAX_POINTS:
        cells = np.zeros(oracle.points, np.int64)
        np.add.at(cells, points, times)
        return sum_over_hyperplanes(cells, q, t)[candidates]
    reported = pack_digits(_to_vectors(points, q, t), q, t, ascending=True)
    wanted = pack_digits(_to_vectors(candidates, q, t), q, t, ascending=False)
    out = np.zeros(len(candidates), np.int64)
    size = max(1, PAIRS_AT_ONCE // max(1, len(points)))
    for start in range(0, len(candidates), size):
        part = [word[start : start + size, None] for word in wanted]
        products = multiply_packed(part, [word[None, :] for word in reported], q, t)
        out[start : start + size] = (products == 0) @ times
    return out


def _to_vectors(points: Ints, q: int, dimensions: int) -> Ints:
    """The number whose digits are the coordinates of a point."""
    lengths = np.searchsorted(np.array([count_points(q, k) for k in range(1, dimensions)]), points, side="right")
    return np.asarray(points + np.array([q**k - count_points(q, k) for k in range(dimensions)])[lengths], np.int64)
