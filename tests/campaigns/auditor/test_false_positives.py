"""Correct designs are refuted as rarely as the confidence says."""

import pytest
from scipy.stats import binom

from discreet.auditor.targets import CORRECT
from tests.support.audits import audit_target


def max_refuted(audits: int, probability: float) -> int:
    """A number that is exceeded with probability at most 1e-10, if each audit refutes with this probability."""
    return next(k for k in range(audits + 1) if binom.sf(k, audits, probability) <= 1e-10)


def count_refuted(audits: int, confidence: float) -> int:
    return sum(audit_target(CORRECT[i % len(CORRECT)], confidence, 150_000, 5_000).violation for i in range(audits))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(2))
def test_false_positives_are_as_rare_as_stated(part: int) -> None:
    """1,000 audits of correct designs at 99.9%, in two halves, each judged by a binomial test."""
    assert count_refuted(500, 0.999) <= max_refuted(500, 0.001)


@pytest.mark.nightly
def test_false_positives_are_as_rare_as_stated_at_low_confidence() -> None:
    """At 90% an error in the statistics would show in a few hundred audits."""
    assert count_refuted(300, 0.9) <= max_refuted(300, 0.1)
