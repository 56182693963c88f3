"""The lab's erratum on the accountant `gdp` of Opacus, reproduced with Opacus itself, in its own environment.

The environment is that of the benchmarks: benchmarks/.peers, made on first use, which needs the network.
"""

import json
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from benchmarks.peers import interpreter

from discreet import dpsgd, epsilon
from discreet.lab.errata import OPACUS_RUNS

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "peer_opacus.py"
PACKAGES = ["torch==2.13.0", "opacus==1.6.0"]


def test_opacus_prints_what_the_erratum_says() -> None:
    python = interpreter("opacus", PACKAGES)
    runs = [[float(Fraction(rate)), float(sigma), steps] for rate, sigma, steps, _ in OPACUS_RUNS]
    out = subprocess.run([python, "-W", "ignore", SCRIPT, json.dumps(runs)], check=True, capture_output=True, text=True)
    for row, (rate, sigma, steps, printed) in zip(json.loads(out.stdout.splitlines()[-1]), OPACUS_RUNS, strict=True):
        bounds = epsilon(dpsgd(sigma=sigma, rate=rate, steps=steps), 1e-5)
        assert row["gdp"] == pytest.approx(printed, abs=6e-4)
        assert row["gdp"] < bounds.lower <= bounds.upper < row["prv"] < row["rdp"]
