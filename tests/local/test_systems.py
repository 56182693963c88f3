"""Collections that are no set oracle: counted alike from every source, and decoded with intervals that hold."""

from fractions import Fraction
from itertools import combinations_with_replacement
from math import sqrt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
import pytest
from scipy.stats import binom

from discreet import BadParameter
from discreet.local import (
    BasicRappor,
    BucketFlip,
    CountMeanSketch,
    DuchiMean,
    HadamardCountMeanSketch,
    Integers,
    Listed,
    LocalAnswer,
    MeanAnswer,
    OneBitMean,
    Rappor,
    RoundedBit,
    SequenceFragmentPuzzle,
    SystemCounts,
    count_system,
    decode_system,
)
from discreet.local.apple import Sketch
from discreet.local.intervals import invert_rate
from discreet.testing import seeded_bits
from tests.support.local_systems import NOISE, SYSTEMS, assert_counted_alike, draw_reports, same

HALF = Fraction(1, 2)


@pytest.mark.parametrize("name", SYSTEMS)
def test_arrays_tables_and_parts_give_the_same_integers(name: str, tmp_path: Path) -> None:
    mechanism = SYSTEMS[name]
    reports = draw_reports(mechanism, 60)
    # A report out of range, and one that lacks a part.
    bad = {field: [*column, 2**40, None] for field, column in reports.items()}
    counts = count_system(mechanism, {field: np.array(column, object) for field, column in bad.items()})
    assert (counts.n, counts.received, counts.rejected["range"], counts.rejected["length"]) == (60, 62, 1, 1)
    parts = [count_system(mechanism, {field: column[part] for field, column in reports.items()})
             for part in (slice(0, 25), slice(25, None))]  # fmt: skip
    assert same(parts[0] + parts[1], count_system(mechanism, reports))
    names = ", ".join(f'"{field}"' for field in bad)
    rows = ", ".join(
        f"({', '.join('NULL' if cell is None else str(cell) for cell in row)})" for row in zip(*bad.values(), strict=True)
    )
    path = tmp_path / "reports.parquet"
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t({names})").write_parquet(str(path))
    assert same(count_system(mechanism, path), counts)


@pytest.mark.parametrize("name", SYSTEMS)
def test_duckdb_counts_as_arrays_are_counted(name: str) -> None:
    """PostgreSQL and Spark: in `tests/engines`."""
    texts = ("collection", "nonce")

    def load(columns: Any) -> dict[str, Any]:
        kinds = {each: pyarrow.string() if each in texts else pyarrow.int64() for each in columns}
        return {"source": pyarrow.table({each: pyarrow.array(cells, kinds[each]) for each, cells in columns.items()})}

    assert_counted_alike(name, load)


@pytest.mark.parametrize("name", ["bucket flip", "basic rappor", "rappor", "count mean sketch", "hadamard", "puzzle"])
def test_tallies_are_those_of_reports_counted_one_by_one(name: str) -> None:
    mechanism = SYSTEMS[name]
    reports = draw_reports(mechanism, 50)
    counted = mechanism.count(list(zip(*reports.values(), strict=True)))
    match mechanism:
        case BucketFlip():
            expected = list(counted)
        case Rappor():
            expected = [counted.sizes, counted.ones]
        case SequenceFragmentPuzzle():
            parts, words = counted
            expected = [[part.n for part in parts], [part.cells for part in parts], words.cells]
        case _:
            expected = [counted.cells]
    tallies = count_system(mechanism, reports).tallies
    assert all(map(np.array_equal, tallies[-len(expected) :], expected))


def test_buckets_that_do_not_ascend_are_rejected() -> None:
    flip = SYSTEMS["bucket flip"]
    counts = count_system(flip, {"j0": [0, 2, 1], "j1": [1, 1, 1], "j2": [2, 3, 2], "w0": [0, 0, 0]})
    assert (counts.n, counts.rejected["range"]) == (1, 2)


def test_counts_of_two_mechanisms_do_not_add_up() -> None:
    one = count_system(OneBitMean(10, Fraction(3)), {"b": [1]})
    with pytest.raises(BadParameter, match="different noise"):
        one + count_system(OneBitMean(10, Fraction(2)), {"b": [1]})


@pytest.mark.parametrize("miss", [0.4, 0.2, 0.05])
def test_the_interval_of_a_mean_probability_holds_for_unlike_coins(miss: float) -> None:
    """By the exact distribution of the number of ones, for every multiset of up to 7 of these coins."""
    for n in (1, 2, 4, 7):
        ends = [invert_rate(count, n, miss) for count in range(n + 1)]
        for chances in combinations_with_replacement((0.02, 0.25, 0.5, 0.75, 0.9), n):
            law = np.array([1.0])
            for chance in chances:
                law = np.convolve(law, [1 - chance, chance])
            mean = sum(chances) / n
            missed = sum(mass for mass, (low, high) in zip(law, ends, strict=True) if not low <= mean <= high)
            assert missed <= miss + 1e-12, (n, chances)


def test_the_interval_of_a_mean_probability_is_hardly_wider_than_the_normal_one() -> None:
    low, high = invert_rate(400_000, 10**6, 0.05)
    assert 1 < (high - low) / (2 * 1.96 * sqrt(0.24 / 1e6)) < 1.01


@pytest.mark.parametrize("mechanism", [OneBitMean(10, Fraction(3)), RoundedBit(10, 5, Fraction(3), Fraction(1, 10))])
def test_a_mean_is_in_the_units_of_its_domain(mechanism: Any) -> None:
    ones, n = 62, 100
    answer = decode_system(count_system(mechanism, {"b": [1] * ones + [0] * (n - ones)}), domain=Integers(100, 120, 2))
    assert isinstance(answer, MeanAnswer)
    bit = mechanism if isinstance(mechanism, OneBitMean) else mechanism.mean
    assert answer.mean.value == pytest.approx(float(100 + 2 * bit.estimate(ones, n)))
    low, high = invert_rate(ones, n, 0.05)
    span = [100 + 2 * float(bit.top * (Fraction(end) * (bit.odds + 1) - 1) / (bit.odds - 1)) for end in (low, high)]
    assert (answer.mean.lower, answer.mean.upper) == pytest.approx((max(100, span[0]), min(120, span[1])))


def test_duchis_mean_is_read_between_minus_one_and_one() -> None:
    answer = decode_system(count_system(DuchiMean(10, Fraction(3)), {"b": [1] * 600 + [0] * 400}), domain=Integers(0, 10))
    assert isinstance(answer, MeanAnswer)
    assert answer.mean.value == pytest.approx(0.4)
    assert -1 <= answer.mean.lower < 0.4 < answer.mean.upper <= 1


@pytest.mark.parametrize("domain", [Listed(tuple("abcdefghij")), Integers(0, 9, missing="none")])
def test_values_that_are_no_numbers_have_no_mean(domain: Any) -> None:
    with pytest.raises(BadParameter, match="no mean"):
        decode_system(count_system(OneBitMean(10, Fraction(3)), {"b": [1]}), domain=domain)


def test_no_report_gives_every_kind_an_answer() -> None:
    for name, mechanism in SYSTEMS.items():
        nothing = count_system(mechanism, {each.name: np.zeros(0, np.int64) for each in mechanism.fields})
        texts = ["abca"] if mechanism.values is None else None
        answer = decode_system(nothing, candidates=texts)
        assert any("nothing is known" in note for note in answer.list_notes()), name
        assert answer.to_dict()["reports"] == 0


@pytest.mark.parametrize("observed", [1, 4, 16])
def test_bucket_intervals_hold_and_are_not_much_wider_than_the_deviation(observed: int) -> None:
    flip, runs, n = BucketFlip(16, observed, Fraction(2)), 40, 4000
    people = np.repeat(np.arange(16), np.array([1900, 1000, 500, 300, *[25] * 12]))
    missed, joint = 0, 0
    for _ in range(runs):
        answer = decode_system(SystemCounts(flip, n, flip.draw_counts(people), {}), confidence=0.9)
        assert isinstance(answer, LocalAnswer)
        assert answer.total is not None
        held = np.bincount(people)
        missed += sum(not row.lower <= true <= row.upper for row, true in zip(answer.rows, held, strict=True))
        joint += any(not row.joint_lower <= true <= row.joint_upper for row, true in zip(answer.rows, held, strict=True))
        row = answer.rows[0]
        assert row.deviation == pytest.approx(sqrt(flip.variance(n, round(min(max(row.value, 0), n)))), rel=0.01)
        assert row.upper - row.lower <= 6 * sqrt(flip.variance(n, n)) + 100
    assert missed <= binom.isf(1e-9, runs * 16, 0.1)
    assert joint <= binom.isf(1e-9, runs, 0.1)


def test_basic_rappor_has_the_certified_intervals_of_a_bit_per_value() -> None:
    from discreet.local.intervals import invert_counts

    rappor, ones = BasicRappor.of(3, *NOISE), np.array([[500, 400, 380]])
    answer = decode_system(SystemCounts(rappor, 1000, (np.array([1000]), ones), {}), domain=Listed(("red", "blue")))
    assert isinstance(answer, LocalAnswer)
    lower, upper = invert_counts(ones[0], 1000, rappor.truth_support, rappor.other_support, Fraction(1, 20))
    assert [(row.label, row.lower, row.upper) for row in answer.rows] == list(
        zip(("red", "blue", "other"), lower.tolist(), upper.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    "kind", [CountMeanSketch(Fraction(9), 64, 32, "s"), HadamardCountMeanSketch(Fraction(9), 64, 32, "s")]
)
def test_sketch_intervals_hold_for_texts_in_the_list_and_out_of_it(kind: Any) -> None:
    texts, held = [b"red", b"blue", b"green"], [3000, 1000, 0]
    sketch = kind.draw_sketch([*texts[:2], b"unlisted"], [*held[:2], 2000])
    tallies = (sketch.cells,) if isinstance(kind, HadamardCountMeanSketch) else (np.zeros(64, np.int64), sketch.cells)
    answer = decode_system(
        SystemCounts(kind, sketch.n, tallies, {}), candidates=["red", "blue", "green"], confidence=1 - 1e-9
    )
    assert isinstance(answer, LocalAnswer)
    assert [row.value for row in answer.rows] == pytest.approx([float(each) for each in kind.estimate(sketch, texts)])
    assert all(row.lower <= true <= row.upper for row, true in zip(answer.rows, held, strict=True))
    # One report moves an estimate by no more than is stated, from what it is without it.
    more = Sketch(sketch.n + 1, sketch.cells + _one_report(kind))
    steps = [two - one for one, two in zip(kind.estimate(sketch, texts), kind.estimate(more, texts), strict=True)]
    assert answer.hostile is not None
    assert max(map(float, steps)) == pytest.approx(answer.hostile.up_per_report)


def _one_report(kind: Any) -> Any:
    """The report that adds most to “red”."""
    cells = np.zeros((kind.functions, kind.width), np.int64)
    if isinstance(kind, HadamardCountMeanSketch):
        cells[0, 5] = 1 - 2 * ((5 & kind.hash(0, b"red")).bit_count() % 2)
    else:
        cells[0, kind.hash(0, b"red")] = 1
    return cells


def test_rappor_rows_are_those_of_its_decoder() -> None:
    from discreet.local.rappor_decoding import decode

    rappor = Rappor(64, 2, 4, Fraction(0), Fraction(1, 4), Fraction(3, 4), "x")
    bits = rappor.draw_counts([b"red", b"blue"], [3000, 1000])
    answer = decode_system(SystemCounts(rappor, bits.n, (bits.sizes, bits.ones), {}), candidates=["red", "blue", None])
    expected = decode(rappor, bits, [b"red", b"blue", b"\xff"])
    assert isinstance(answer, LocalAnswer)
    assert [row.value for row in answer.rows] == pytest.approx([each.estimate for each in expected])
    assert {row.label for row in answer.rows} == {"red", "blue", "(missing)"}
    assert answer.approximate
    row = answer.rows[0]
    assert row.upper - row.lower == pytest.approx(2 * 1.959964 * row.deviation, rel=1e-6)


def test_an_answer_says_that_people_have_texts_that_are_not_listed() -> None:
    rappor = Rappor(16, 2, 4, *NOISE, "x")
    for hidden, is_told in ((b"b", False), (b"hidden", True)):
        bits = rappor.draw_counts([b"a", hidden], [30_000, 70_000], seeded_bits(1))
        counts = SystemCounts(rappor, bits.n, (bits.sizes, bits.ones), {})
        assert any("not listed" in note for note in decode_system(counts, candidates=["a", "b"]).list_notes()) == is_told


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_answer_from_memoised_noise_says_that_a_device_reports_once_in_it(name: str) -> None:
    mechanism = SYSTEMS[name]
    counts = count_system(mechanism, draw_reports(mechanism, 30))
    shown = decode_system(counts, candidates=["abca", "cc"] if mechanism.values is None else None)
    is_memoised = name in ("rounded bit", "bucket flip", "basic rappor", "rappor", "unknown rappor")
    assert any("count each day by itself" in note for note in shown.list_notes()) == is_memoised


def test_a_puzzle_finds_its_words_with_intervals() -> None:
    sketches = CountMeanSketch(Fraction(400), 16, 256, "f"), CountMeanSketch(Fraction(400), 16, 256, "w")
    puzzle = SequenceFragmentPuzzle(4, "_abc", *sketches, pieces=8)
    parts, words = puzzle.draw_sketches({b"abca": 3000, b"ccbb": 2000})
    tallies = (np.array([part.n for part in parts]), np.stack([part.cells for part in parts]), words.cells)
    answer = decode_system(SystemCounts(puzzle, words.n, tallies, {}), confidence=1 - 1e-9)
    assert isinstance(answer, LocalAnswer)
    found = {row.label: row for row in answer.rows}
    for word, true in (("abca", 3000), ("ccbb", 2000)):
        assert found[word].lower <= true <= found[word].upper
