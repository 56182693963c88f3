"""Telemetry: with fresh noise alone a year of reports tells nearly every value; permanent noise ends that."""

from functools import cache
from math import log

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.telemetry import RAPPOR, VALUES


@cache
def get_result() -> AttackResult:
    return run("telemetry")


def test_a_mean_of_fresh_reports_tells_the_values() -> None:
    """Beyond seven deviations of a share of 40 that is 0.98, and of one that is 1/8."""
    found = get_result().numbers
    assert found["right_without"] > 0.8
    assert found["right_after_one"] < 0.6
    assert found["epsilon_without"] == pytest.approx(365 * RAPPOR.epsilon)


def test_permanent_noise_limits_what_is_guessed() -> None:
    """ε for life is 2·ln 3: of eight values, 9/16 are guessed at most on average. This run is seeded."""
    found = get_result().numbers
    assert found["epsilon_for_life"] == pytest.approx(2 * log(3))
    assert found["right_at_most"] == pytest.approx(9 / (9 + len(VALUES) - 1))
    assert found["right_with_discreet"] <= found["right_at_most"] < found["right_without"]
    assert found["spent"] == pytest.approx(2 * log(3), abs=1e-8)
    assert "same pattern of changes" in found["condition"]


def test_more_days_do_not_help_against_permanent_noise() -> None:
    few, many = (run("telemetry", devices=40, reports=days).numbers for days in (100, 300))
    assert many["right_with_discreet"] < 0.7
    assert many["right_without"] > few["right_without"] - 0.1
    assert many["spent"] == few["spent"]
