"""Fits without an account are counted by process: every test and every doctest starts with none."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_earlier_fits() -> None:
    charging = sys.modules.get("discreet.learn.charging")
    if charging is not None:
        charging.TALLY.clear()
