"""The lab's erratum on the accountant `gdp` of Opacus, reproduced with Opacus itself, in its own environment.

The environment is that of the benchmarks: benchmarks/.peers, made on first use, which needs the network.
"""

import json
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from benchmarks.peers import interpreter
from benchmarks.side_by_side import BLOCK

from discreet import dpsgd, epsilon
from discreet.lab.errata import OPACUS_RUNS

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "peer_opacus.py"
PACKAGES = ["torch==2.13.0", "opacus==1.6.0"]


def test_opacus_prints_what_the_erratum_says() -> None:
    python = interpreter("opacus", PACKAGES)
    runs = [[float(Fraction(rate)), float(sigma), steps] for rate, sigma, steps, _ in OPACUS_RUNS]
    out = subprocess.run([python, "-W", "ignore", SCRIPT, json.dumps(runs)], check=True, capture_output=True, text=True)
    for row, (rate, sigma, steps, printed) in zip(json.loads(out.stdout.splitlines()[-1]), OPACUS_RUNS, strict=True):
        bounds = epsilon(dpsgd(sigma=sigma, rate=rate, steps=steps), 1e-5)
        assert row["gdp"] == pytest.approx(printed, abs=6e-4)
        assert row["gdp"] < bounds.lower <= bounds.upper < row["prv"] < row["rdp"]


def test_the_recipe_for_opacus_runs() -> None:
    """Its last line compares the history of the accountant with the one that the page accounts for."""
    page = (ROOT / "docs" / "recipes-training.md").read_text(encoding="utf-8")
    ((name, version, code),) = BLOCK.findall(page)
    assert f"{name}=={version}" in PACKAGES
    subprocess.run([interpreter("opacus", PACKAGES), "-W", "ignore", "-c", code], check=True, capture_output=True)
    wrong = code.replace("0.1, 10)]", "0.1, 11)]")
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([interpreter("opacus", PACKAGES), "-W", "ignore", "-c", wrong], check=True, capture_output=True)
