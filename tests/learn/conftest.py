"""Fits without an account are tallied for the whole process: each test starts with none."""

import pytest

from discreet.learn.charging import TALLY


@pytest.fixture(autouse=True)
def _no_fits_before() -> None:
    TALLY.clear()
