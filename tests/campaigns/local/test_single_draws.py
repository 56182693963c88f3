"""Many single draws of both clients, with the system's randomness, against the stated probabilities.

Each comparison rejects a right client with probability at most 1e-9 (Chernoff), and a probability that is 5% off with near
certainty: the mutant below shows it.
"""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.local.draws import SystemDraws
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, Report, SetOracle, Subset, Unary
from discreet.local.vectors import choose_collection
from tests.support.chance import is_plausible
from tests.support.node import CLIENT, run_node

pytestmark = pytest.mark.nightly

SAMPLES = 100_000
ODDS = Fraction(2718, 1000)
ORACLES: list[SetOracle] = [
    Direct(4, ODDS), Unary.optimised(40, ODDS), Unary.symmetric(33, Fraction(5, 3)), Subset.optimised(30, ODDS),
    Hashed.optimised(1000, ODDS), FixedHashed(1000, ODDS, 3, 64, "salt"), Hadamard(100, ODDS),
    Projective.optimised(1000, ODDS),
]  # fmt: skip
VALUE, OTHER = 1, 2


def follows(oracle: SetOracle, reports: list[Report]) -> bool:
    """Whether reports of `VALUE` support it, and `OTHER`, as often as stated. Of public functions the share is counted."""
    other = oracle.other_support
    if isinstance(oracle, FixedHashed):
        collisions = sum(oracle.hash(each, VALUE) == oracle.hash(each, OTHER) for each in range(oracle.functions))
        together, apart = oracle.truth_support, (1 - oracle.truth_support) / (oracle.buckets - 1)
        other = (collisions * together + (oracle.functions - collisions) * apart) / oracle.functions
    counts = [sum(oracle.supports(report, value) for report in reports) for value in (VALUE, OTHER)]
    chances = (oracle.truth_support, other)
    return all(is_plausible(count, len(reports), chance) for count, chance in zip(counts, chances, strict=True))


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda each: type(each).__name__)
def test_the_python_client_follows_the_stated_probabilities(oracle: SetOracle) -> None:
    draws = SystemDraws()
    assert follows(oracle, [oracle.draw(VALUE, draws) for _ in range(SAMPLES)])


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda each: type(each).__name__)
def test_the_javascript_client_follows_the_stated_probabilities(oracle: SetOracle, tmp_path: Path) -> None:
    collection = choose_collection(oracle)
    (tmp_path / "collection.json").write_bytes(collection.to_json())
    labels = collection.domain.labels
    assert labels is not None
    value = labels[VALUE] if len(labels) <= 64 else int(labels[VALUE])
    printed = run_node(CLIENT, tmp_path / "collection.json", lines=(json.dumps({"value": value}) + "\n") * SAMPLES)
    reports = [tuple(json.loads(line)["report"]) for line in printed.splitlines()]
    assert len(reports) == SAMPLES
    assert follows(oracle, reports)


def test_odds_that_are_a_tenth_off_are_noticed() -> None:
    """The truth is then supported 5% more often."""
    wrong, draws = Direct(4, ODDS * Fraction(11, 10)), SystemDraws()
    assert wrong.truth_support < ORACLES[0].truth_support * Fraction(106, 100)
    assert not follows(ORACLES[0], [wrong.draw(VALUE, draws) for _ in range(SAMPLES)])
