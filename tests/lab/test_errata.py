"""The evidence of each erratum, against the printed numbers and independent computations."""

from math import log, sqrt

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet.lab import ERRATA


def evidence(number: int) -> dict[str, float]:
    return ERRATA[f"erratum-{number}"].evidence()


def test_there_are_nine_errata_with_three_parts_each() -> None:
    assert list(ERRATA) == [f"erratum-{i}" for i in range(1, 10)]
    for erratum in ERRATA.values():
        assert erratum.claim
        assert erratum.correction
        assert erratum.proof
        assert erratum.source in erratum.caption


def test_erratum_1() -> None:
    seen = evidence(1)
    assert seen["printed"] == pytest.approx(214.597, abs=1e-3)
    assert seen["exact"] == pytest.approx(311.767604639710743, rel=1e-12)
    assert seen["left side of the hypothesis"] > seen["right side of the hypothesis"]
    lies = np.arange(501)
    with_lies = stats.binom.pmf(lies, 500, 1 / (1 + np.e))
    privacy_loss = 500.0 - 2 * lies
    spent = (with_lies * np.clip(1 - np.exp(np.minimum(seen["printed"] - privacy_loss, 0)), 0, None)).sum()
    assert seen["δ at the printed ε"] == pytest.approx(spent, rel=1e-6)
    assert spent > 0.78, "where 1e-5 is promised"


def test_erratum_2() -> None:
    seen = evidence(2)
    assert seen["failure as printed, K = 1"] == pytest.approx(0.083, abs=5e-4)
    assert seen["failure as printed, K = 1000"] == pytest.approx(0.81, abs=5e-3)
    for k in (1, 1000):
        assert seen[f"failure corrected, K = {k}"] <= 0.05
        printed = 2 * stats.norm.sf(sqrt(log(k / 0.05)))
        assert seen[f"failure as printed, K = {k}"] == pytest.approx(1 - (1 - printed) ** k, rel=1e-9)


def test_erratum_3() -> None:
    seen = evidence(3)
    assert seen["δ at ε = 10"] == pytest.approx(2.3e-5, rel=0.02)
    assert seen["δ at ε = 20"] == pytest.approx(1.5e-3, rel=0.02)
    assert seen["δ at ε = 1"] < 1e-5 < seen["δ at ε = 10"]
    for epsilon in (1, 10, 20):
        mu = epsilon / mp.sqrt(2 * mp.log(mp.mpf(1.25) / mp.mpf(1e-5)))
        true = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        assert seen[f"δ at ε = {epsilon}"] == pytest.approx(float(true), rel=1e-9)


def test_erratum_4() -> None:
    seen = evidence(4)
    assert seen["k at α = 60"] == pytest.approx(265, abs=1)
    assert seen["k at α = 20"] == pytest.approx(2551, abs=1)
    assert max(seen["gap there, α = 20"], seen["gap there, α = 60"]) < 1e-12
    rho = 300 / 80_000
    assert 20 * rho + log(1e5) / 19 > 1.4 * (rho + 2 * sqrt(rho * log(1e5))), "α = 20 is far away at the k of the text"


def test_erratum_5() -> None:
    one = np.ones(25)
    assert evidence(5) == {"ℓ1 of 25 counts": np.abs(one).sum(), "ℓ2 of 25 counts": np.linalg.norm(one)}


def test_erratum_6() -> None:
    seen = evidence(6)
    assert seen["10e-5"] == 1e-4
    assert seen["crossing at 1e-4"] == pytest.approx(73.7, abs=0.05)
    assert seen["crossing at 1e-5"] == pytest.approx(92.1, abs=0.05)
    assert seen["σ at 1e-4"] == pytest.approx(sqrt(2 * log(1.25e4)), rel=1e-12)
    assert seen["σ at 1e-5"] == pytest.approx(sqrt(2 * log(1.25e5)), rel=1e-12)


def test_erratum_7() -> None:
    seen = evidence(7)
    truth = np.e / (1 + np.e)
    reach = 7.5 * sqrt(truth * (1 - truth) / 20_000)
    assert abs(seen["yes where φ(x) = 1"] - truth) < reach
    assert abs(seen["yes where φ(x) = 0"] - (1 - truth)) < reach
    assert seen["1/(e^x − 1) − 1/x near 0"] == pytest.approx(-0.5, abs=1e-4)
    assert seen["1/(1 − e^−x) − 1/x near 0"] == pytest.approx(0.5, abs=1e-4)


def test_erratum_8() -> None:
    seen = evidence(8)
    assert seen["P(loss > 1)"] == 0.75
    assert seen["least δ at ε = 1"] == pytest.approx(0.75 - np.e / 4, rel=1e-12)


def test_erratum_9() -> None:
    seen = evidence(9)
    corrected, printed = ([v for name, v in seen.items() if mark in name] for mark in ("÷ √(k", "÷ √k·"))
    assert max(corrected) / min(corrected) < 1.2, "the corrected form is stable over four decades"
    assert printed[0] > 2 * printed[-1], "the printed one is not"
    for k in (10, 1000, 100_000):  # E max of k by integrating its distribution
        sigma = sqrt(k) * sqrt(2 * log(1.25e6))
        x = np.linspace(0, 8, 20_001)
        true = sigma * np.trapezoid(1 - (2 * stats.norm.cdf(x) - 1) ** k, x)
        bound = seen[f"bound ÷ √(k·ln k·ln 1/δ), k = {k}"] * sqrt(k * log(k) * log(1e6))
        assert 0.7 * bound < true < bound
