"""The events of the named systems in a shuffled crowd: never below exact enumeration of every report of everyone."""

from fractions import Fraction
from itertools import combinations
from math import log

import pytest

from discreet.accounting.shuffling import pair_delta
from discreet.events import SetResponseEvent, Shuffled
from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch
from discreet.local.numeric import BucketFlip, OneBitMean, RoundedBit
from discreet.local.rappor import BasicRappor, Rappor
from tests.support.local_distributions import distribute_reports
from tests.support.shuffled_reports import list_worst_deltas

NOISE = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)
POWERS = Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3)


class GivenFilters(Rappor, frozen=True, tag="given filters"):
    """RAPPOR with one cohort, whose value is its Bloom filter."""

    def filter(self, text, cohort):
        return text


FILTERS = [bits for many in (1, 2) for bits in combinations(range(3), many)]
CASES = [
    (OneBitMean(3, Fraction(3)), range(4), 4),
    (RoundedBit(4, 2, Fraction(3), Fraction(1, 10)), range(5), 4),
    (BucketFlip(3, 1, Fraction(4)), range(3), 3),
    (BucketFlip(3, 2, Fraction(2)), range(3), 3),
    (BasicRappor.of(3, *NOISE), range(3), 3),
    (GivenFilters(3, 2, 1, *NOISE), FILTERS, 2),
    (CountMeanSketch(Fraction(4), 2, 2, "crowd"), [b"a", b"b", b"c"], 3),
    (HadamardCountMeanSketch(Fraction(3), 2, 2, "crowd"), [b"a", b"b", b"c"], 3),
]


def tabulate(system, values):
    found = [distribute_reports(system, value) for value in values]
    reports = sorted({report for distribution in found for report in distribution})
    return [[distribution.get(report, Fraction(0)) for report in reports] for distribution in found]


@pytest.mark.parametrize(("system", "values", "users"), CASES, ids=lambda case: type(case).__name__)
def test_events_bound_every_shuffled_crowd(system, values, users):
    worst = list_worst_deltas(tabulate(system, values), users, POWERS)
    for power, delta in zip(POWERS, worst, strict=True):
        assert delta <= pair_delta(Shuffled(system.event(), users), Fraction(log(power))).upper + 1e-12


def test_a_smaller_event_does_not():
    """The mutant: a report of 1BitMean, stated with three quarters of its odds."""
    system = OneBitMean(3, Fraction(3))
    worst = list_worst_deltas(tabulate(system, range(4)), 4, POWERS)
    crowd = Shuffled(SetResponseEvent(Fraction(9, 4), Fraction(1, 2), Fraction(0)), 4)
    bounds = [pair_delta(crowd, Fraction(log(power))).upper for power in POWERS]
    assert any(delta > bound for delta, bound in zip(worst, bounds, strict=True))
