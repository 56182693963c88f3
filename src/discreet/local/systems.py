"""Counting and decoding collections of every kind: means, bucket histograms, RAPPOR, Apple's sketches, new words.

**Theory of operation.** `count_system` turns reports into `SystemCounts`: arrays of integers that are all its decoder needs,
so that those of days and shards add up. `decode_system` turns them into an answer with intervals, about the people who
reported, one report each:

- *one bit for a mean* (`OneBitMean`, `DuchiMean`, `RoundedBit`): the number of ones is a sum of unlike coins; the interval
  of their mean probability (`invert_rate`) is mapped to the mean. A memoised bit has the distribution of a fresh one while
  each device reports once.
- *bucket flip*: an estimate is a sum of independent terms, one a report, whose variance grows with the holders h: the
  interval holds all h that Bernstein's inequality leaves possible, |estimate − h| ≤ width(h).
- *basic RAPPOR*: a bit a value, so the certified intervals of the set oracles apply.
- *RAPPOR*: least squares on a list of candidates (`rappor_decoding`), by the normal approximation. With a LASSO, where there
  are too many candidates, its intervals do not count that it chose.
- *sketches*: the estimate of each candidate, with an interval that holds the floor of the public functions under the
  hypothesis of `intervals`. The list may lack texts, so the floor is that of one text which everyone else has.
- *unknown texts* (`SequenceFragmentPuzzle`, `UnknownRappor`): candidates are found first. The puzzle finds them in sketches
  of fragments, whose noise and functions are independent of the sketch of words: its intervals hold for what was found.

Means and sketches are counted in the engine that has the reports, as are RAPPOR's bits; the reports of the others, which no
single GROUP BY adds up, are read out of a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from discreet import formats
from discreet._numbers import Number, check_confidence, format_down, format_up, nearest_float, read_decimal
from discreet.errors import BadParameter
from discreet.local.apple import AnySketch, CountMeanSketch, HadamardCountMeanSketch, SequenceFragmentPuzzle, Sketch
from discreet.local.counting import MAX_CELLS, count_cohorts, count_sparsely, read_reports
from discreet.local.decoding import (
    NO_REPORT_NOTE,
    HostileInfluence,
    LocalAnswer,
    LocalEstimate,
    add_consistent,
    bound_total,
    describe_memo,
    describe_rejected,
    estimate_plain,
    estimate_total,
    measure_influence,
    state_influence,
)
from discreet.local.domains import MISSING_TEXT, Domain, Integers
from discreet.local.fields import Ints
from discreet.local.intervals import bernstein_width, floor_widths, invert_rate
from discreet.local.longitudinal import unpack_bits
from discreet.local.numeric import BucketFlip, DuchiMean, OneBitMean, RoundedBit
from discreet.local.rappor import BasicRappor, BitCounts, Rappor
from discreet.local.rappor_unknown import GramCounts, UnknownRappor
from discreet.sql.reports import REJECTIONS

System: TypeAlias = (
    OneBitMean
    | RoundedBit
    | BucketFlip
    | Rappor
    | CountMeanSketch
    | HadamardCountMeanSketch
    | SequenceFragmentPuzzle
    | UnknownRappor
)

FLOOR_NOTE = (
    "The public hash functions are shared, which adds an error that does not shrink with more reports; the intervals hold "
    "it if the functions were drawn at random, without looking at anyone's value or at the candidates."
)


UNLISTED_NOTE = (
    "The candidates do not explain these reports: people have texts that are not listed, and the intervals do not hold. Add "
    "candidates."
)


@dataclass(frozen=True, eq=False)
class SystemCounts:
    """The valid reports of a mechanism, as the integers that its decoder needs, and the rejected ones by kind.

    >>> one = count_system(OneBitMean(10, Fraction(3)), {"b": [1, 0, 1, 7]})
    >>> (one + one).n, (one + one).tallies[0].tolist(), one.rejected["range"]
    (6, [2, 4], 1)
    """

    mechanism: System
    n: int
    tallies: tuple[Ints, ...]
    rejected: Mapping[str, int]

    def __add__(self, other: "SystemCounts") -> "SystemCounts":
        if self.mechanism != other.mechanism:
            raise BadParameter("counts", "of two collections", "their reports have different noise", "add up one at a time")
        tallies = tuple(one + two for one, two in zip(self.tallies, other.tallies, strict=True))
        rejected = {kind: self.rejected.get(kind, 0) + other.rejected.get(kind, 0) for kind in REJECTIONS}
        return SystemCounts(self.mechanism, self.n + other.n, tallies, rejected)

    @property
    def received(self) -> int:
        """How many reports there were, with the rejected ones."""
        return self.n + sum(self.rejected.values())


# -- counting ------------------------------------------------------------------------------------------------------------


def count_system(mechanism: System, source: Any, **wanted: Any) -> SystemCounts:
    """Count the reports of a source, and those that are rejected. Sources and `wanted` are those of `count_reports`."""
    match mechanism:
        case OneBitMean() | RoundedBit():
            tallies, rejected = _count_cells(mechanism, source, wanted)
            n = int(tallies.sum())
            return SystemCounts(mechanism, n, (tallies,), rejected)
        case HadamardCountMeanSketch():
            return _count_signs(mechanism, source, wanted)
        case CountMeanSketch() | Rappor():
            counts = count_cohorts(mechanism, source, **wanted)
            return SystemCounts(mechanism, int(counts.sizes.sum()), (counts.sizes, counts.ones), counts.rejected)
        case BucketFlip() | SequenceFragmentPuzzle() | UnknownRappor():
            columns, rejected = read_reports(mechanism, source, **wanted)
            n = len(next(iter(columns.values())))
            return SystemCounts(mechanism, n, _count_columns(mechanism, columns), rejected)


def _count_cells(mechanism: Any, source: Any, wanted: Mapping[str, Any]) -> tuple[Ints, dict[str, int]]:
    """Count every report that a mechanism with few of them can make."""
    cells, times, rejected = count_sparsely(mechanism, source, **wanted)
    found = np.zeros(mechanism.fields[0].below, np.int64)
    found[cells] = times
    return found, rejected


def _count_signs(kind: HadamardCountMeanSketch, source: Any, wanted: Mapping[str, Any]) -> SystemCounts:
    _check_cells(kind)
    cells, times, rejected = count_sparsely(kind, source, **wanted)
    signs = np.zeros(kind.functions * kind.width, np.int64)
    np.add.at(signs, cells // 2, times * (1 - 2 * (cells % 2)))
    return SystemCounts(kind, int(times.sum()), (signs.reshape(kind.functions, kind.width),), rejected)


def _count_columns(
    mechanism: BucketFlip | SequenceFragmentPuzzle | UnknownRappor, columns: dict[str, Ints]
) -> tuple[Ints, ...]:
    rows = list(columns.values())
    if isinstance(mechanism, BucketFlip):
        asked, ones = np.zeros(mechanism.buckets, np.int64), np.zeros(mechanism.buckets, np.int64)
        bits = _list_bits(rows[mechanism.observed :], mechanism.observed)
        for observed, bit in zip(rows[: mechanism.observed], bits, strict=True):
            asked += np.bincount(observed, minlength=mechanism.buckets)
            ones += np.bincount(observed[bit == 1], minlength=mechanism.buckets)
        return asked, ones
    if isinstance(mechanism, SequenceFragmentPuzzle):
        split = 1 + len(mechanism.fragment.fields)
        place = rows[0]
        fragments = _count_bits(mechanism.fragment, rows[1:split], place, mechanism.places)
        (words,) = _count_bits(mechanism.word, rows[split:], np.zeros_like(place), 1)
        return np.bincount(place, minlength=mechanism.places), fragments, words
    reports = list(zip(*(column.tolist() for column in rows), strict=True))
    grams, words_of = mechanism.count_grams(reports), mechanism.word.count(mechanism.split(row)[2] for row in reports)
    return grams.sizes, grams.first, grams.second, grams.joint, words_of.sizes, words_of.ones


def _count_bits(kind: CountMeanSketch, columns: list[Ints], group: Ints, groups: int) -> Ints:
    """Sum the bits of reports of a sketch by group, function and bucket."""
    _check_cells(kind, groups)
    row, size = group * kind.functions + columns[0], groups * kind.functions
    bits = _list_bits(columns[1:], kind.width)
    sums = [np.bincount(row[bit == 1], minlength=size) for bit in bits]
    return np.stack(sums, axis=1).reshape(groups, kind.functions, kind.width)


def _list_bits(words: list[Ints], bits: int) -> list[Ints]:
    """Return each bit of packed words, as a column."""
    return list(unpack_bits(words, bits))  # type: ignore[arg-type]


def _check_cells(kind: AnySketch, groups: int = 1) -> None:
    if (cells := groups * kind.functions * kind.width) > MAX_CELLS:
        raise BadParameter(
            "functions", kind.functions, f"{cells:,} cells are more than can be counted at once", "take fewer"
        )


# -- means ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeanAnswer:
    """The mean of the people who reported, with its interval. `print`, a shell and a notebook show it.

    >>> counts = count_system(OneBitMean(10, Fraction(3)), {"b": [1] * 600 + [0] * 400})
    >>> answer = decode_system(counts)
    >>> answer.mean.value, round(answer.mean.lower, 2), round(answer.mean.upper, 2)
    (7.0, 6.38, 7.61)
    """

    mechanism: Any
    n: int
    mean: LocalEstimate
    rejected: Mapping[str, int]
    confidence: float
    hostile: HostileInfluence

    @property
    def rows(self) -> tuple[LocalEstimate, ...]:
        """The mean, as the one row of a table."""
        return (self.mean,)

    def to_dict(self) -> dict[str, Any]:
        """The mean, reports accepted and rejected, the influence of hostile ones, and notes."""
        shown = ("estimate", "deviation", "lower", "upper")
        return {
            "mean": {name: value for name, value in self.mean.to_dict().items() if name in shown},
            "reports": self.n,
            "rejected": dict(self.rejected),
            "confidence": self.confidence,
            "epsilon": self.mechanism.epsilon,
            "hostile": self.hostile.to_dict(),
            "notes": self.list_notes(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    def to_csv(self, path: Any = None, *, spreadsheet: bool = False) -> str:
        """The mean as CSV text, also written to `path` if one is given."""
        found = self.to_dict()["mean"]
        return formats.to_csv(tuple(found), [tuple(found.values())], path, spreadsheet=spreadsheet)

    def list_notes(self) -> list[str]:
        """What the interval promises, and how many reports were rejected and why."""
        share = format_down(100 * Fraction(repr(self.confidence)), 6)
        told = f"{formats.count_things(self.n, 'report')}, each ε = {format_up(self.mechanism.epsilon, 4)}."
        if not self.n:
            return [told, NO_REPORT_NOTE, *describe_rejected(self.rejected)]
        return [
            f"{told} The interval contains the mean of the people who reported with probability ≥ {share}%.",
            *describe_memo(self.mechanism),
            *describe_rejected(self.rejected),
            self.hostile.describe("moves the mean by", "up"),
        ]

    def __rich__(self) -> Any:
        row = self.mean
        shown = formats.format_value(row.value, row.lower, row.upper)
        ends = [formats.format_value(end, row.lower, row.upper) for end in (row.lower, row.upper)]
        table = formats.make_rich_table(None, ["mean", "interval"], [[shown, f"[{ends[0]}, {ends[1]}]"]])
        return formats.add_rich_notes(table, self.list_notes())

    def __repr__(self) -> str:
        return formats.render_text(self.__rich__())


def _decode_mean(counts: SystemCounts, domain: Domain | None, level: float, miss: Fraction, share: Number) -> MeanAnswer:
    mechanism, n = counts.mechanism, counts.n
    assert isinstance(mechanism, OneBitMean | RoundedBit)
    bit = mechanism.mean if isinstance(mechanism, RoundedBit) else mechanism
    shift, step = _read_units(domain, bit)
    low, high = (shift - 1, shift + 1) if isinstance(bit, DuchiMean) else (shift, shift + step * bit.top)
    up, down = (abs(step * bit.estimate(ones, 1)) / max(1, n) for ones in (1, 0))
    hostile = state_influence(n, share, up, down)
    if not n:
        nothing = LocalEstimate("mean", float(low), float(high - low), *map(float, (low, high, low, high)))
        return MeanAnswer(mechanism, 0, nothing, counts.rejected, level, hostile)
    ones = int(counts.tallies[0][1])

    def read(rate: Fraction) -> Fraction:
        """The mean at which so large a share of ones is expected."""
        return shift + step * bit.estimate(1, 1) * rate + step * bit.estimate(0, 1) * (1 - rate)

    ends = [min(max(nearest_float(read(Fraction(end))), float(low)), float(high)) for end in invert_rate(ones, n, miss)]
    rate = ones / n
    deviation = float(step * bit.span * bit.spread) * sqrt(rate * (1 - rate) / n)
    mean = LocalEstimate("mean", nearest_float(read(Fraction(ones, n))), deviation, ends[0], ends[1], ends[0], ends[1])
    return MeanAnswer(mechanism, n, mean, counts.rejected, level, hostile)


def _read_units(domain: Domain | None, bit: OneBitMean) -> tuple[Fraction, Fraction]:
    """Return what the mechanism's 0 stands for, and one step of it; Duchi's mean is read on [−1, 1]."""
    if domain is not None and (not isinstance(domain, Integers) or domain.missing is not None):
        raise BadParameter(
            "collection", "one of a mean", "its domain is not integers alone, and other values have no mean",
            "use Integers without `missing`",
        )  # fmt: skip
    if domain is None or isinstance(bit, DuchiMean):
        return Fraction(0), Fraction(1)
    return Fraction(domain.low), Fraction(domain.step)


# -- histograms and texts --------------------------------------------------------------------------------------------------


def decode_system(
    counts: SystemCounts,
    *,
    domain: Domain | None = None,
    candidates: Sequence[str | None] | None = None,
    confidence: Number = 0.95,
    hostile_share: Number = 0,
    consistent: bool = False,
) -> LocalAnswer | MeanAnswer:
    """Decode counted reports: a mean, a histogram, or texts.

    `candidates` are the texts to estimate, which RAPPOR and sketches need, and None is the missing value; without them, the
    mechanisms for unknown texts look for some. `domain` names values and gives means their units.

    >>> flip = BucketFlip(4, 4, Fraction(3))
    >>> reports = {"j0": [0] * 4, "j1": [1] * 4, "j2": [2] * 4, "j3": [3] * 4, "w0": [1, 1, 1, 9]}
    >>> [row.value for row in decode_system(count_system(flip, reports)).rows]
    [6.0, -2.0, -2.0, 0.0]

    Raises:
        BadParameter: candidates are missing, or given where the values are known; or what was asked for has no meaning here.
    """
    level = check_confidence(confidence)
    miss, mechanism = 1 - read_decimal(level, "confidence"), counts.mechanism
    _check_wishes(mechanism, candidates, hostile_share, consistent=consistent)
    labels = None if domain is None else domain.labels
    match mechanism:
        case OneBitMean() | RoundedBit():
            return _decode_mean(counts, domain, level, miss, hostile_share)
        case BucketFlip():
            answer = _decode_buckets(counts, mechanism, labels, level, miss, hostile_share)
        case BasicRappor():
            answer = _decode_basic(counts, mechanism, labels, level, miss, hostile_share)
        case Rappor():
            return _decode_rappor(counts, mechanism, BitCounts(*counts.tallies), _to_bytes(candidates), level, miss)
        case CountMeanSketch() | HadamardCountMeanSketch():
            sketch = Sketch(counts.n, counts.tallies[-1])
            return _decode_sketch(counts, mechanism, sketch, _to_bytes(candidates), level, miss, hostile_share)
        case SequenceFragmentPuzzle():
            return _decode_puzzle(counts, mechanism, candidates, level, miss, hostile_share)
        case UnknownRappor():
            texts = _to_bytes(candidates)
            if candidates is None:
                texts = mechanism.find_candidates(GramCounts(*counts.tallies[:4]), Fraction(level))
            return _decode_rappor(counts, mechanism.word, BitCounts(*counts.tallies[4:]), texts, level, miss)
    return replace(answer, rows=tuple(add_consistent(answer.rows, counts.n))) if consistent else answer


def _check_wishes(
    mechanism: System, candidates: Sequence[str | None] | None, hostile_share: Number, *, consistent: bool
) -> None:
    name = type(mechanism).__name__
    takes_texts = mechanism.values is None
    if takes_texts and candidates is None and not isinstance(mechanism, SequenceFragmentPuzzle | UnknownRappor):
        raise BadParameter(
            "candidates", "missing", f"{name} hashes texts, so it cannot list them", "list the texts to estimate"
        )
    if candidates is not None and not takes_texts:
        raise BadParameter(
            "candidates", f"{len(candidates)} texts", "the values of this collection are known", "leave it out"
        )
    if candidates is not None and (not candidates or len(set(candidates)) < len(candidates)):
        raise BadParameter("candidates", f"{len(candidates)} texts", "none, or one of them twice", "list each once")
    if consistent and (takes_texts or isinstance(mechanism, OneBitMean | RoundedBit)):
        reason = "the texts may not be all that people have" if takes_texts else "a mean is one number"
        raise BadParameter("consistent", consistent, reason, "leave it out")
    if hostile_share and takes_texts and isinstance(mechanism, Rappor | UnknownRappor):
        raise BadParameter("hostile_share", hostile_share, "not known for estimates by regression", "leave it out")


def _decode_basic(
    counts: SystemCounts, rappor: BasicRappor, labels: Sequence[str] | None, level: float, miss: Fraction, share: Number
) -> LocalAnswer:
    ones = counts.tallies[1][0]
    rows = estimate_plain(rappor, ones, counts.n, miss, range(rappor.size) if labels is None else labels)
    return LocalAnswer(
        rappor, counts.n, tuple(rows), estimate_total(rappor, ones, counts.n, miss), counts.rejected, level,
        measure_influence(rappor, counts.n, share), "",
    )  # fmt: skip


def _decode_buckets(
    counts: SystemCounts, flip: BucketFlip, labels: Sequence[str] | None, level: float, miss: Fraction, share: Number
) -> LocalAnswer:
    n, root, ratio = counts.n, flip.report_root, Fraction(flip.buckets, flip.observed)
    up, down = ratio * root / (root - 1), ratio / (root - 1)
    rows, total = [], Fraction(0)
    for name, asked, ones in zip(range(flip.buckets) if labels is None else labels, *counts.tallies, strict=True):
        exact = flip.estimate(int(asked), int(ones))
        total += exact
        value = nearest_float(exact)
        ends = [end for each in (miss, miss / flip.buckets) for end in _invert_bernstein(flip, value, n, up + 1, each)]
        deviation = sqrt(float(flip.variance(n)) + min(max(value, 0.0), n) * float(ratio - 1))
        rows.append(LocalEstimate(name, value, deviation, *ends))
    # A report adds up to (k/d)·Σ over d stretched bits, whose mean is 1.
    variance = ratio**2 * flip.observed * root / (root - 1) ** 2 + ratio - 1
    largest = max(flip.observed * up - 1, flip.observed * down + 1)
    sum_ = nearest_float(total)
    return LocalAnswer(
        flip, n, tuple(rows), bound_total(sum_, sum_, n, variance, largest, miss), counts.rejected, level,
        state_influence(n, share, up, down), "",
    )  # fmt: skip


def _invert_bernstein(flip: BucketFlip, value: float, n: int, largest: Fraction, miss: Fraction) -> tuple[float, float]:
    """Return the least and the largest number of holders h with |value − h| ≤ width(h), the variance being that of h."""
    null, slope = n * flip.null_variance, Fraction(flip.buckets, flip.observed) - 1

    def width(holders: int) -> float:
        return bernstein_width(null + holders * slope, largest, miss)

    # h + width(h) grows, and h − width(h) is convex: each end is where a search by halves finds it.
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle + width(middle) >= value else (middle, high)
    lower = high if n else 0
    inside, outside = min(max(int(value), 0), n), n + 1
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if middle - width(middle) <= value else (inside, middle)
    return float(lower), float(max(inside, lower))


def _decode_rappor(
    counts: SystemCounts, rappor: Rappor, bits: BitCounts, candidates: Sequence[bytes], level: float, miss: Fraction
) -> LocalAnswer:
    from discreet.local.rappor_decoding import Decoded, decode_and_check

    n, decoded = counts.n, Decoded((), is_explained=True)
    if n and candidates:
        decoded = decode_and_check(rappor, bits, candidates, Fraction(level))
    found = decoded.estimates
    one, joint = (-float(ndtri(float(each) / 2)) for each in (miss, miss / max(1, len(candidates))))

    def cut(end: float) -> float:
        return min(max(end, 0.0), float(n))

    rows = [
        LocalEstimate(
            _to_label(each.candidate), each.estimate, each.standard_error,
            *(cut(each.estimate + sign * z * each.standard_error) for z in (one, joint) for sign in (-1, 1)),
        )
        for each in found
    ]  # fmt: skip
    seen = sum(each.significant for each in found)
    told = (
        f"{seen:,} of {formats.count_things(len(candidates), 'candidate')} significant; least squares, normal approximation."
    )
    if len(found) < len(candidates):
        told += " A LASSO left the others out, and the intervals do not count that it chose."
    if not decoded.is_explained:
        told += f" {UNLISTED_NOTE}"
    return LocalAnswer(counts.mechanism, n, tuple(rows), None, counts.rejected, level, None, told, approximate=True)


def _decode_sketch(
    counts: SystemCounts,
    kind: AnySketch,
    sketch: Sketch,
    texts: Sequence[bytes],
    level: float,
    miss: Fraction,
    share: Number,
) -> LocalAnswer:
    n, (least, most) = sketch.n, kind.term_range
    values = [nearest_float(value) for value in kind.estimate(sketch, texts)] if n and texts else []
    rows = []
    if values:
        # A term lies between `least` and `most`, its mean between −1/(m − 1) and 1.
        largest = max(most + Fraction(1, kind.width - 1), 1 - least)
        one, joint = floor_widths(
            float(n), n, noise=n * kind.term_variance, largest_term=largest, functions=kind.functions,
            collision=Fraction(1, kind.width - 1), values=len(texts), miss=miss,
        )  # fmt: skip
        held = [min(max(round(value), 0), n) for value in values]
        pairs = sum(each * (each - 1) for each in held)
        for text, value, own in zip(texts, values, held, strict=True):
            deviation = sqrt(float(kind.variance_of(n, own, max(0, pairs - own * (own - 1)))))
            ends = (min(max(value + end, 0.0), float(n)) for end in (-one, one, -joint, joint))
            rows.append(LocalEstimate(_to_label(text), value, deviation, *ends))
    influence = state_influence(n, share, most, -least)
    return LocalAnswer(counts.mechanism, n, tuple(rows), None, counts.rejected, level, influence, FLOOR_NOTE)


def _decode_puzzle(
    counts: SystemCounts,
    puzzle: SequenceFragmentPuzzle,
    candidates: Sequence[str | None] | None,
    level: float,
    miss: Fraction,
    share: Number,
) -> LocalAnswer:
    places, fragments, words = counts.tallies
    sketch = Sketch(counts.n, words)
    if candidates is None:
        parts = [Sketch(int(n), cells) for n, cells in zip(places, fragments, strict=True)]
        texts = [word for word, _ in puzzle.find_words(parts, sketch)] if counts.n else []
    else:
        texts = list(dict.fromkeys(puzzle.normalise(text) for text in _to_bytes(candidates)))
    return _decode_sketch(counts, puzzle.word, sketch, texts, level, miss, share)


def _to_bytes(candidates: Sequence[str | None] | None) -> list[bytes]:
    return [MISSING_TEXT if text is None else text.encode() for text in candidates or ()]


def _to_label(text: Any) -> str:
    return "(missing)" if text == MISSING_TEXT else bytes(text).decode(errors="replace")
