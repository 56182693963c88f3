"""Every mechanism and every aggregate of discreet, audited on its own claim: none is refuted, and the resolution is printed.

Short here; with ten million outputs in tests/campaigns/auditor.
"""

from fractions import Fraction

import pytest

from discreet import Exponential, SelectionRule, audit, pure
from discreet.testing import seeded_bits
from tests.support.audits import (
    AGGREGATES,
    CONFIDENCE,
    MECHANISMS,
    SHORT,
    assert_not_refuted,
    sample_query,
    select_in_bulk,
)
from tests.support.rounds import at_night


@pytest.mark.parametrize("rule", SelectionRule)
def test_selections_in_bulk_are_the_selections_one_by_one(rule: SelectionRule) -> None:
    chooser, one, many = Exponential.for_epsilon(1, 1, rule), seeded_bits(5), seeded_bits(5)
    bulk = select_in_bulk(chooser, [0, 1, 3], 2_000, many)
    assert bulk.tolist() == [chooser.release([0, 1, 3], one) for _ in range(2_000)]


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_mechanism_is_refuted(name: str) -> None:
    assert_not_refuted(*MECHANISMS[name], SHORT)


@pytest.mark.parametrize("samples", [12_000, at_night(24_000)])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_no_aggregate_is_refuted(aggregate: str, samples: int) -> None:
    mechanism, event = sample_query(aggregate, 0)
    assert pure(event) <= 1  # type: ignore[arg-type]
    assert_not_refuted(mechanism, 1, [("", AGGREGATES[aggregate])], samples)


@pytest.mark.parametrize("samples", [12_000, at_night(24_000)])
def test_an_aggregate_with_too_little_noise_is_refuted(samples: int) -> None:
    """The same audit of the same answers refutes a claim of a third of the ε."""
    mechanism, _ = sample_query("SUM(pay)", 0)
    assert audit(mechanism, Fraction(1, 3), [("", "high")], confidence=CONFIDENCE, samples=samples).violation
