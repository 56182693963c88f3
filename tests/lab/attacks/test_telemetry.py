"""Telemetry: with fresh noise alone a year of reports tells nearly every value; permanent noise ends that."""

from fractions import Fraction
from functools import cache
from math import log

import numpy as np
import pytest

from discreet.lab.attacks import AttackResult, run, telemetry
from discreet.lab.attacks.telemetry import RAPPOR, VALUES
from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Listed
from discreet.testing import seeded_bits


@cache
def get_result() -> AttackResult:
    return run("telemetry")


def test_a_mean_of_fresh_reports_tells_the_values() -> None:
    """Beyond seven deviations of a share of 1000 that is 0.99. One report tells little more than chance (seeded)."""
    found = get_result().numbers
    assert found["right_without"] > 0.97
    assert found["right_by_chance"] + 0.02 < found["right_after_one"] < found["right_with_discreet"] - 0.1
    assert found["right_after_one"] < 0.3
    assert found["epsilon_without"] == pytest.approx(365 * RAPPOR.epsilon)


def test_permanent_noise_limits_what_is_guessed() -> None:
    """ε for life is 2·ln 3: of eight values, 9/16 are guessed at most on average. This run is seeded."""
    found = get_result().numbers
    assert found["epsilon_for_life"] == pytest.approx(2 * log(3))
    assert found["right_at_most"] == pytest.approx(9 / (9 + len(VALUES) - 1))
    assert found["right_with_discreet"] <= found["right_at_most"] < found["right_without"]
    assert found["spent"] == pytest.approx(2 * log(3), abs=1e-8)
    assert "same pattern of changes" in found["condition"]


def test_drawn_reports_are_those_of_clients() -> None:
    """The two ways of drawing memoised reports agree: the means of all bits differ by less than five deviations."""
    truth = np.zeros(150, np.int64)
    collection = Collection("page", 1, RAPPOR, Listed(VALUES, other=None), Lifetime.of(RAPPOR, Fraction(5, 2), "state"))
    by_clients, _ = telemetry._report_with_clients(collection, truth, 20, seeded_bits(1))
    drawn = telemetry._report_with_memo(np.zeros(5000, np.int64), 20, seeded_bits(2))
    gaps = by_clients.mean(axis=0) - drawn.mean(axis=0)
    assert (abs(gaps) < 5 * drawn.std(axis=0) * (1 / 150 + 1 / 5000) ** 0.5).all()
    assert drawn.mean(axis=0)[0] > drawn.mean(axis=0)[1:].max() + 1


def test_more_days_do_not_help_against_permanent_noise() -> None:
    few, many = (run("telemetry", devices=40, reports=days).numbers for days in (100, 300))
    assert many["right_with_discreet"] < 0.7
    assert many["right_without"] > few["right_without"] - 0.1
    assert many["spent"] == few["spent"]
