"""The wrong twins are caught by their fault, the right ones are not, and what is certified of them is true."""

from fractions import Fraction

import pytest

from discreet import audit
from discreet.auditor.targets import RIGHT, TWINS, Target
from discreet.mechanisms import Laplace

CALLED = 60_000
DRAWN = 5_000_000


def attacked(target: Target, confidence: float, drawn: int = DRAWN, called: int = CALLED):  # type: ignore[no-untyped-def]
    bulk = hasattr(target.mechanism, "sample") or isinstance(target.neighbours[0][0], int | float)
    called = called if not callable(target.mechanism) or bulk else min(called, CALLED)
    return audit(
        target.mechanism,
        target.claim,
        target.neighbours,
        confidence=confidence,
        samples=drawn if hasattr(target.mechanism, "sample") or not callable(target.mechanism) else called,
    )


def test_wrong_twins_are_caught() -> None:
    """At 99.9%. Single ones may escape by chance; at least 95% of them must not."""
    missed = [target.name for target in TWINS if not attacked(target, 0.999).violation]
    print("missed:", missed)
    assert len(missed) <= 0.05 * len(TWINS)


@pytest.mark.parametrize("target", RIGHT, ids=lambda target: target.name)
def test_right_ones_are_not(target: Target) -> None:
    found = attacked(target, 1 - 1e-7, 400_000, 8_000)
    print(found)
    assert not found.violation
    assert found.certified_epsilon <= found.claimed_epsilon


WORDS = {
    "a sum that hands NaN on": "the sort of answer",
    "an exception on one record": "the sort of answer",
    "keys that somebody has": "the sort of answer",
    "Laplace in doubles": "the lowest bit",
    "noise rounded before it is added": "the lowest bit",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_event_names_the_fault(name: str) -> None:
    [target] = [target for target in TWINS if target.name == name]
    found = attacked(target, 1 - 1e-9)
    assert found.violation
    assert WORDS[name] in found.event


@pytest.mark.parametrize("seed", range(3))
def test_a_certified_epsilon_is_below_the_true_one(seed: int) -> None:
    """Whatever is claimed: Laplace noise of scale s leaks exactly 1/s."""
    scale = Fraction(3 + seed, 4)
    found = audit(Laplace(scale), Fraction(1, 10), [(0, 1)], samples=300_000, confidence=1 - 1e-9)
    assert found.violation
    assert 0.1 < found.certified_epsilon <= 1 / scale


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_false_alarms_are_as_rare_as_stated(part: int) -> None:
    """100 audits of right ones at 99.9% in each of ten parts, judged by a binomial test: if an alarm has probability 0.001,
    more than 6 of 100 have probability below 1e-10, and so below 1e-9 over all the parts."""
    alarms = 0
    for i in range(100):
        target = RIGHT[(part * 100 + i) % 7]
        alarms += attacked(target, 0.999, 150_000, 5_000).violation
    assert alarms <= 6
