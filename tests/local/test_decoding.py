"""Answers: estimates are unbiased with the exact variance, intervals cover, and bad cases get clear answers."""

import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet import BadParameter
from discreet.local import shared_hashes
from discreet.local.bulk import encode_many
from discreet.local.counting import Counts, count_reports
from discreet.local.decoding import decode, estimate_exactly, measure_influence, measure_total
from discreet.local.intervals import bernstein_width, invert_counts
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Direct, FixedHashed, Hadamard, SetOracle, Unary
from discreet.testing import seeded_bits
from tests.support.local_errors import (
    ROOTS,
    TILTS,
    Errors,
    count_collisions,
    draw_supports,
    list_holders,
    list_laws,
    list_oracles,
    measure_errors,
    tilt_squares,
)
from tests.support.local_reports import ODDS, ORACLES
from tests.support.rounds import pairs_by_day

CASES = [(epsilon, name, skew) for epsilon in ROOTS for name in list_oracles("1") for skew in ("flat", "skewed")]


@pytest.mark.parametrize(("epsilon", "name", "skew"), pairs_by_day(ROOTS, list_oracles("1"), ("flat", "skewed")))
def test_intervals_cover_and_errors_are_as_stated(epsilon: str, name: str, skew: str) -> None:
    oracle = list_oracles(epsilon)[name]
    holders = list_holders(oracle.values, 400)[skew]
    errors = measure_errors(oracle, holders, 20_000, CASES.index((epsilon, name, skew)), floor="floor" in name)
    assert errors.find_problems() == []


def test_the_table_notices_intervals_that_ignore_the_floor() -> None:
    oracle = list_oracles("3")["fixed hashed with floor"]
    holders = list_holders(oracle.values, 40_000)["skewed"]
    supports = draw_supports(oracle, holders, 500, 1)
    lower, upper = (
        end.reshape(supports.shape)
        for end in invert_counts(supports.reshape(-1), 40_000, oracle.truth_support, oracle.other_support, Fraction(1, 20))
    )
    covered = ((lower <= holders) & (holders <= upper)).mean(axis=1)
    none = np.zeros(len(TILTS))
    assert "covered" in str(Errors(covered, covered, covered, np.ones(500), none).find_problems())
    assert measure_errors(oracle, holders, 200, 1, floor=True).find_problems() == []


def test_the_table_notices_a_variance_that_is_a_twentieth_off() -> None:
    oracle = list_oracles("1")["hadamard"]
    errors = measure_errors(oracle, list_holders(oracle.values, 400)["skewed"], 80_000, 1)
    assert errors.find_problems() == []
    for wrong in (1.05, 1 / 1.05):
        assert "squared error" in str(replace(errors, ratios=errors.ratios * wrong).find_problems())
    assert "covered" in str(replace(errors, covered=errors.covered - 0.1).find_problems())


def test_tilted_squares_are_those_of_a_binomial_count() -> None:
    """The transform of the square of a direct count, summed over its exact distribution."""
    oracle, holders = Direct(3, Fraction(3)), np.array([20, 10, 0])
    p, q, n = float(oracle.truth_support), float(oracle.other_support), 30
    expected = [float(oracle.variance(n, int(held))) for held in holders]
    found = tilt_squares(*list_laws(oracle), holders, expected)
    for tilt, cgf in zip(TILTS, found, strict=True):
        each = []
        for held, size in zip(holders, expected, strict=True):
            law = np.convolve(binom.pmf(range(held + 1), held, p), binom.pmf(range(n - held + 1), n - held, q))
            squares = ((np.arange(n + 1) - n * q) / (p - q) - held) ** 2 / size
            each.append(law @ np.exp(tilt * squares))
        assert np.exp(cgf) == pytest.approx(np.mean(each), rel=1e-9)


@pytest.mark.parametrize("name", ORACLES)
def test_estimates_are_exact_until_they_are_divided(name: str) -> None:
    oracle = ORACLES[name]
    counts = count_reports(oracle, encode_many(oracle, np.arange(300) % oracle.values, seeded_bits(1)))
    p, q = oracle.truth_support, oracle.other_support
    exact = estimate_exactly(oracle, counts.supports, 300)
    assert exact == [(Fraction(int(count)) - 300 * q) / (p - q) for count in counts.supports]
    answer = decode(counts)
    if not isinstance(oracle, FixedHashed):
        assert [row.value for row in answer.rows] == [float(value) for value in exact]
        assert answer.total.value == pytest.approx(sum(row.value for row in answer.rows))
    assert len(answer) == oracle.values
    for row in answer.rows:
        assert 0 <= row.joint_lower <= row.lower <= row.upper <= row.joint_upper <= 300
    assert answer.total.lower <= 300 <= answer.total.upper


@pytest.mark.parametrize("name", list_oracles("1"))
def test_the_variance_of_the_total_is_that_of_enumeration(name: str) -> None:
    oracle = list_oracles("1")[name]
    p, q = oracle.truth_support, oracle.other_support
    reports = [
        (report, base, sum(oracle.supports(report, v) for v in range(oracle.values)))
        for report, base in oracle.base_reports()
    ]
    moments = []
    for value in range(oracle.values):
        chances = [(oracle.probability(report, base, value), size) for report, base, size in reports]
        mean = sum(chance * size for chance, size in chances)
        moments.append((mean, sum(chance * size * size for chance, size in chances) - mean**2))
    variance, largest, bias = measure_total(oracle)
    sizes = [size for _, _, size in reports]
    shared = isinstance(oracle, FixedHashed)
    worst = max(square for _, square in moments) / (p - q) ** 2
    assert variance >= worst if shared else variance == worst
    assert bias == max(abs(mean - p - (oracle.values - 1) * q) for mean, _ in moments) / (p - q)
    assert largest >= max(abs(size - mean) for size in sizes for mean, _ in moments) / (p - q) or variance == 0


@pytest.mark.parametrize("salt", ["a", "b", "c"])
def test_least_squares_is_unbiased_given_the_functions(salt: str) -> None:
    oracle = FixedHashed(9, ODDS, 3, 32, salt)
    design = shared_hashes.Design.of(oracle)
    assert design is not None
    assert np.allclose(design.collisions, count_collisions(oracle))
    p, q = oracle.truth_support, oracle.other_support
    for value in range(9):  # everyone has this value: exact means of the supports
        chances = [(report, oracle.probability(report, base, value)) for report, base in oracle.base_reports()]
        means = [float(sum((c for report, c in chances if oracle.supports(report, v)), Fraction(0))) for v in range(9)]
        estimates = design.inverse @ ((np.array(means) - float(q)) / float(p - q))
        assert np.allclose(estimates, np.eye(9)[value])


def test_many_values_or_few_functions_are_not_solved() -> None:
    assert shared_hashes.Design.of(FixedHashed(9, ODDS, 3, 4, "salt")) is None
    assert shared_hashes.Design.of(FixedHashed(2000, ODDS, 3, 4096, "salt")) is None
    answer = decode(
        count_reports(oracle := FixedHashed(2000, ODDS, 3, 64, "salt"), encode_many(oracle, np.zeros(2000, int)))
    )
    assert "drawn at random" in str(answer.list_notes())


def test_the_floor_of_values_on_one_line_is_within_the_widths() -> None:
    """Two values that collide with a third only together: their floor is twice that of values apart from each other."""
    oracle, n = FixedHashed(9, Fraction(3), 3, 400, "salt"), 10**7
    p, q = oracle.truth_support, oracle.other_support
    supports = np.full(9, int(n * q))
    supports[[1, 2]] = int(n * (p + q) / 2)  # half of the people have 1, half have 2, and 0 is on their line
    found = shared_hashes.estimate_with_floor(oracle, supports, n, Fraction(1, 20))
    floor = Fraction(n * n, 2 * 400)
    assert found.widths[0] >= bernstein_width(Fraction(n, 4) / (p - q) ** 2 + floor, n / 400, Fraction(9, 200))
    assert found.joint_widths[0] >= bernstein_width(Fraction(n, 4) / (p - q) ** 2 + floor, n / 400, Fraction(1, 180))


def test_no_reports_get_an_answer_that_says_so() -> None:
    for oracle in ORACLES.values():
        answer = decode(Counts.nothing(oracle))
        assert {row.value for row in answer.rows} == {0}
        assert "No report was accepted" in str(answer.list_notes())
        assert answer.to_dict()["reports"] == 0


def test_reports_that_say_nothing_get_an_answer_that_says_so() -> None:
    weak = Direct(1000, odds_for_epsilon(0.01))
    answer = decode(count_reports(weak, {"y": np.arange(1000)}))
    assert "These reports say nothing" in str(answer.list_notes())
    many = Hadamard(10_000, ODDS)
    notes = str(decode(count_reports(many, encode_many(many, np.arange(10_000), seeded_bits(1)))).list_notes())
    assert "most of 10,000 values are rarer" in notes


def test_every_number_of_the_poisoning_table_is_reproduced() -> None:
    for epsilon, expected in ((1, (74.9, 3.16, 2.54, 2.16)), (4, (3.4, 2.04, 1.16, 1.04))):
        odds = odds_for_epsilon(epsilon)
        root = odds_for_epsilon(Fraction(epsilon, 2))
        oracles: list[SetOracle] = [
            Direct(128, odds),
            Unary.optimised(128, odds),
            Unary.symmetric(128, root),
            Hadamard(128, odds),
        ]
        up = [measure_influence(oracle, 100, 0).up_per_report for oracle in oracles]
        assert [
            f"{number:.{len(str(printed).partition('.')[2])}f}" for number, printed in zip(up, expected, strict=True)
        ] == [str(printed) for printed in expected]


def test_hostile_reports_move_an_estimate_by_no_more_than_stated() -> None:
    oracle = Direct(4, ODDS)
    honest = encode_many(oracle, np.arange(1000) % 4, seeded_bits(1))["y"]
    before = decode(count_reports(oracle, {"y": honest}))
    attacked = honest.copy()
    attacked[:50] = 2
    after = decode(count_reports(oracle, {"y": attacked}), hostile_share=0.05)
    assert after.hostile.reports == 50
    moved = [b.value - a.value for a, b in zip(before.rows, after.rows, strict=True)]
    assert max(moved) <= after.hostile.up + after.hostile.down
    assert "at most" in str(after.list_notes())


def test_reports_of_no_honest_client_are_noticed() -> None:
    oracle = Unary.optimised(37, ODDS)
    answer = decode(count_reports(oracle, {"w0": np.full(1000, (1 << 32) - 1), "w1": np.full(1000, 31)}))
    assert "honest clients" in str(answer.list_notes())


def test_an_answer_is_shown_written_and_drawn(tmp_path: Path) -> None:
    oracle = Direct(4, ODDS)
    counts = count_reports(oracle, {"y": np.array([0] * 500 + [1] * 300 + [2] * 100 + [9] * 7)})
    answer = decode(counts, labels=["a", "b", "<c>", "d"], hostile_share=0.01, consistent=True)
    text, page = repr(answer), answer._repr_html_()
    assert "Norm-Sub" in text
    assert "post-processing" in text
    assert "Rejected: 7 reports (range 7)" in text
    assert "&lt;c&gt;" in page
    found = json.loads(answer.to_json())
    assert [row["value"] for row in found["rows"]] == ["a", "b", "<c>", "d"]
    assert found["rejected"]["range"] == 7
    assert sum(row["consistent"] for row in found["rows"]) == pytest.approx(900)
    assert min(row["consistent"] for row in found["rows"]) >= 0 > min(row["estimate"] for row in found["rows"])
    chart = answer.plot(tmp_path / "answer.json", joint=True)
    assert "people who reported" in chart.spec["title"]["subtitle"][0]
    assert "contribution" not in (tmp_path / "answer.json").read_text()
    assert answer.to_csv().splitlines()[0].startswith("value,estimate,deviation,lower,upper")
    assert list(answer.to_pandas().columns) == list(answer.header)
    top = answer.top(2)
    assert [row.label for row in top.rows] == ["a", "b"]
    assert top.rows[0].lower == answer.rows[0].joint_lower
    assert top.rows[0].joint_lower == answer.rows[0].joint_lower


@pytest.mark.parametrize("chosen", [lambda answer: answer.top(2), lambda answer: answer.simultaneous()])
def test_joint_intervals_stand_in_a_table_once(chosen: Any) -> None:
    answer = decode(count_reports(Direct(4, Fraction(3)), {"y": [0] * 500 + [1] * 300 + [2] * 200}))
    shown = chosen(answer)
    first = shown.rows[0]
    interval = f"[{first.joint_lower:,.0f}, {first.joint_upper:,.0f}]"
    assert repr(shown).count(interval) == shown._repr_html_().count(interval) == 1
    assert repr(answer).count("[") == 2 * len(answer.rows) + 2
    assert "all of them together" in shown.plot().spec["title"]["subtitle"][0]
    assert all(note == note.strip() for note in shown.list_notes())


def test_deviations_are_those_of_the_formula() -> None:
    oracle = Direct(4, Fraction(3))
    answer = decode(count_reports(oracle, {"y": [0] * 500 + [1] * 300 + [2] * 200}))
    for row in answer.rows:
        holders = round(min(max(row.value, 0), 1000))
        assert row.deviation == pytest.approx(sqrt(oracle.variance(1000, holders)), rel=1e-3)


def test_wrong_options_are_refused() -> None:
    counts = Counts.nothing(Direct(4, ODDS))
    with pytest.raises(BadParameter, match="labels"):
        decode(counts, labels=["a"])
    with pytest.raises(BadParameter, match="hostile_share"):
        decode(counts, hostile_share=1.5)
    with pytest.raises(BadParameter, match="confidence"):
        decode(counts, confidence=1)
