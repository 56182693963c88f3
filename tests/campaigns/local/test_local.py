"""Local collections at length: a million draws against the exact distribution, and many more runs of every case."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from discreet.local.bulk import encode_many
from discreet.local.counting import count_reports
from discreet.local.decoding import decode
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Projective
from discreet.local.simulating import simulate_population
from tests.local.test_bulk import TINY, find_wrong_chances
from tests.local.test_decoding import CASES
from tests.support.local_errors import list_holders, list_oracles, measure_errors

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", TINY)
def test_a_million_reports_have_the_exact_distribution(name: str) -> None:
    for value in range(TINY[name].values):
        assert find_wrong_chances(TINY[name], value, 1_000_000, value) == []


@pytest.mark.parametrize(("epsilon", "name", "skew"), CASES)
@pytest.mark.parametrize("n", [50, 5000])
def test_intervals_cover_and_errors_are_as_stated_over_many_runs(epsilon: str, name: str, skew: str, n: int) -> None:
    oracle = list_oracles(epsilon)[name]
    holders = list_holders(oracle.values, n)[skew]
    assert measure_errors(oracle, holders, 80_000, 1, floor="floor" in name).find_problems() == []


@pytest.mark.parametrize("epsilon", [1, 3])
def test_large_oracles_cover_in_simulations(epsilon: int) -> None:
    oracle = Projective.optimised(1000, odds_for_epsilon(epsilon))
    weights = (10**6 * 0.99 ** np.arange(1000)).astype(np.int64)
    misses = 0
    for seed in range(50):
        counts = simulate_population(oracle, 10**6, weights, seed)
        truth = 10**6 * weights / weights.sum()
        answer = decode(counts, confidence=1 - 1e-6)
        # People are drawn from the population, so the truth varies by one deviation of a count.
        slack = 8 * np.sqrt(truth)
        misses += sum(
            not row.joint_lower - s <= t <= row.joint_upper + s for row, t, s in zip(answer.rows, truth, slack, strict=True)
        )
    assert misses == 0


def test_a_hundred_million_reports_are_counted_in_little_memory(tmp_path: Path) -> None:
    oracle = Projective.optimised(16384, odds_for_epsilon(1))
    reports = encode_many(oracle, np.arange(10**6) % 16384)
    connection = duckdb.connect()
    connection.register("given", {"u": reports["u"]})
    connection.execute(f"COPY (SELECT u FROM given, range(100)) TO '{tmp_path / 'reports.parquet'}'")
    counts = count_reports(oracle, tmp_path / "reports.parquet")
    assert (counts.cells == 100 * np.bincount(reports["u"], minlength=oracle.points)).all()
