"""Every mechanism and every aggregate of discreet, audited on its own claim with ten million outputs."""

import pytest

from tests.support.audits import AGGREGATES, LONG, MECHANISMS, assert_not_refuted, sample_query


@pytest.mark.nightly
@pytest.mark.parametrize("name", MECHANISMS)
def test_no_mechanism_is_refuted(name: str) -> None:
    assert_not_refuted(*MECHANISMS[name], LONG)


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "aggregate"), list(enumerate(AGGREGATES)))
def test_no_aggregate_is_refuted(place: int, aggregate: str) -> None:
    """Alternating between pure and approximate DP; the short test has all of them under pure DP."""
    mechanism, event = sample_query(aggregate, (0, 1e-6)[place % 2])
    assert_not_refuted(mechanism, event, [("", AGGREGATES[aggregate])], LONG)
