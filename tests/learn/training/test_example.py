"""The example of the documentation runs, and learns."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits.py"


@pytest.mark.filterwarnings("ignore::discreet.learn.charging.RepeatedFit")
def test_digits_are_learned(capsys):
    assert runpy.run_path(str(EXAMPLE))["main"](40) > 0.5
    assert "differentially private" in capsys.readouterr().out
