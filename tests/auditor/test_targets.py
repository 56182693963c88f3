"""Mutants are refuted, by an event that names their fault; correct designs are not; and certified bounds are true."""

from fractions import Fraction

import pytest

from discreet import audit
from discreet.auditor.targets import CORRECT, MUTANTS, Target
from discreet.mechanisms import Laplace
from tests.support.audits import audit_target


def test_mutants_are_refuted() -> None:
    """At 99.9%: a test of power, with the same noise in every run, so that it fails only if something changed.

    With fresh noise the closest mutant, Gaussian noise 5% short, lies about 3 standard errors beyond what can be certified
    and would be missed about once in a thousand times; the others lie further off. 95% of them must be refuted.
    """
    missed = [target.name for target in MUTANTS if not audit_target(target, 0.999).violation]
    print("missed:", missed)
    assert len(missed) <= 0.05 * len(MUTANTS)


@pytest.mark.parametrize("target", CORRECT, ids=lambda target: target.name)
def test_correct_designs_are_not_refuted(target: Target) -> None:
    found = audit_target(target, 1 - 1e-7, 400_000, 8_000)
    print(found)
    assert not found.violation
    assert found.certified_epsilon <= found.claimed_epsilon


EVENTS = {
    "a sum that passes NaN on": "the kind of output",
    "an exception on one record": "the kind of output",
    "no partition selection": "the kind of output",
    "Laplace in floating point": "the lowest bit",
    "noise rounded before it is added": "the lowest bit",
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_event_names_the_fault(name: str) -> None:
    [target] = [target for target in MUTANTS if target.name == name]
    found = audit_target(target, 1 - 1e-9)
    assert found.violation
    assert EVENTS[name] in found.event


@pytest.mark.parametrize("seed", range(3))
def test_a_certified_epsilon_is_below_the_true_one(seed: int) -> None:
    """Whatever is claimed: Laplace noise of scale s has exactly ε = 1/s."""
    scale = Fraction(3 + seed, 4)
    found = audit(Laplace(scale), Fraction(1, 10), [(0, 1)], samples=300_000, confidence=1 - 1e-9)
    assert found.violation
    assert 0.1 < found.certified_epsilon <= 1 / scale
