"""The evidence of each erratum, against the printed numbers and independent computations."""

from fractions import Fraction
from math import log, sqrt

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.training import dpsgd
from discreet.lab import ERRATA
from discreet.lab.errata import OPACUS_RUNS


def evidence(number: int) -> dict[str, float]:
    return ERRATA[f"erratum-{number}"].evidence()


def test_there_are_fifteen_errata_with_three_parts_each() -> None:
    assert list(ERRATA) == [f"erratum-{i}" for i in range(1, 16)]
    for erratum in ERRATA.values():
        assert erratum.claim
        assert erratum.correction
        assert erratum.proof
        assert erratum.source in erratum.caption


def test_erratum_1() -> None:
    seen = evidence(1)
    assert seen["printed"] == pytest.approx(214.597, abs=1e-3)
    assert seen["exact, randomised response"] == pytest.approx(311.767604639710743, rel=1e-12)
    assert seen["certified, continuous Laplace"] == pytest.approx(258.3045, abs=2e-4)
    assert seen["left side of the hypothesis"] > seen["right side of the hypothesis"]
    lies = np.arange(501)
    with_lies = stats.binom.pmf(lies, 500, 1 / (1 + np.e))
    privacy_loss = 500.0 - 2 * lies
    spent = (with_lies * np.clip(1 - np.exp(np.minimum(seen["printed"] - privacy_loss, 0)), 0, None)).sum()
    assert seen["δ at the printed ε"] == pytest.approx(spent, rel=1e-6)
    assert spent > 0.78, "where 1e-5 is promised"


def response_delta(k: int, at: float) -> float:
    """δ of k randomised responses of ε = 1 at ε' = `at`, by an independent sum over the lies."""
    lies = np.arange(k + 1)
    share = stats.binom.pmf(lies, k, 1 / (1 + np.e))
    return float((share * np.clip(1 - np.exp(np.minimum(at - (k - 2.0 * lies), 0)), 0, None)).sum())


@pytest.mark.parametrize(("delta", "first"), [(1e-4, 144), (1e-5, 176)])
def test_erratum_1_says_where_the_short_form_first_fails(delta: float, first: int) -> None:
    """Its hypothesis ends at k = 6 or 7: it is sufficient, not necessary, and the correction says so."""
    fails = [k for k in range(1, first + 1) if response_delta(k, 2 * sqrt(2 * k * log(1 / delta))) > delta]
    assert fails == [first]
    seen = evidence(1)
    name = f"exact ÷ printed, δ = {delta:g}, k = "
    assert seen[f"{name}{first - 1}"] < 1 < seen[f"{name}{first}"]
    assert str(first) in ERRATA["erratum-1"].correction
    assert "sufficient, not necessary" in ERRATA["erratum-1"].correction
    assert first > 2 * log(1 / delta) / (np.e - 1) ** 2 + 100


def test_an_erratum_claims_no_more_than_its_theorem() -> None:
    for erratum in ERRATA.values():
        for words in ("only holds", "holds only", "simply false"):
            assert words not in erratum.correction + erratum.proof + erratum.title
    assert "proven for" in ERRATA["erratum-1"].correction
    assert "proven for ε ≤ 1" in ERRATA["erratum-3"].correction
    assert "not wrong" in ERRATA["erratum-9"].correction


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
    assert seen["δ at ε = 2"] == pytest.approx(1.3e-7, rel=0.05)
    assert seen["δ is kept up to ε"] == pytest.approx(8.42, abs=0.005)
    for epsilon in (1, 2, 10, 20):
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
    marks = ("÷ √(k·ln k·ln", "÷ √k·ln", "÷ √(k·ln k)·ln")
    tight, printed, other = ([v for name, v in seen.items() if mark in name] for mark in marks)
    assert max(tight) / min(tight) < 1.2, "the tight form is stable over four decades"
    assert printed[0] > 2 * printed[-1], "the first printed one is not"
    assert max(other) / min(other) < 1.2, "the second has the order in k, and log(1/δ) for its root"
    assert tight[0] / other[0] == pytest.approx(sqrt(log(1e6)), rel=1e-12)
    for k in (10, 1000, 100_000):  # E max of k by integrating its distribution
        sigma = sqrt(k) * sqrt(2 * log(1.25e6))
        x = np.linspace(0, 8, 20_001)
        true = sigma * np.trapezoid(1 - (2 * stats.norm.cdf(x) - 1) ** k, x)
        bound = seen[f"bound ÷ √(k·ln k·ln 1/δ), k = {k}"] * sqrt(k * log(k) * log(1e6))
        assert 0.7 * bound < true < bound


def test_erratum_10() -> None:
    seen = evidence(10)
    each = sqrt(2 * log(1.25e5)) / 200
    assert seen["printed"] == pytest.approx(2 * each * sqrt(1000 * log(1e5)), rel=1e-12)
    assert seen["printed"] == pytest.approx(5.198, abs=5e-4)
    assert seen["δ at which it is proven"] == pytest.approx(5.01e-3, rel=1e-12)
    small = 1e-5 / 1000
    split = sqrt(2 * log(1.25 / small)) / 200
    long = split * sqrt(1000 * log(2e5)) + 500 * split * np.expm1(split)
    assert seen["long form with δ split"] == pytest.approx(long, rel=1e-9)
    assert seen["long form with δ split"] == pytest.approx(3.846, abs=5e-4)
    assert seen["the same form with δ split"] == pytest.approx(2 * split * sqrt(1000 * log(2e5)), rel=1e-9)
    assert seen["exact"] == pytest.approx(0.3846923540510616, rel=1e-9)


def test_erratum_11() -> None:
    seen = evidence(11)
    for k, ratio in ((1, 103), (100, 142), (10**6, 218)):
        sequential, vectorised = 16 * k * log(2e5) * log(2.5e5 * k), 2 * k * log(1.25e5)
        assert seen[f"ratio at k = {k:,}"] == pytest.approx(sequential / vectorised, rel=1e-12)
        assert round(seen[f"ratio at k = {k:,}"]) == ratio


def test_erratum_12() -> None:
    seen = evidence(12)
    assert seen["max divergence"] == np.inf
    mu = mp.mpf(1) / mp.sqrt(2 * mp.log(mp.mpf("1.25e5")))
    for c in (1, 2, 4):
        true = mp.ncdf(mu / 2 - c / mu)
        assert 0 < float(true) <= seen[f"P(loss > {c}·ε)"] == pytest.approx(float(true), rel=1e-9)


def test_erratum_13() -> None:
    """By all outputs of name-and-shame on neighbours: at every ε the least δ is δ, so ε = 0 is enough."""
    seen = evidence(13)
    assert seen["least δ at ε = 0"] == pytest.approx(0.01, rel=1e-12) == seen["least δ at ε = 1"]


def test_erratum_14() -> None:
    seen = evidence(14)
    sigma = sqrt(2 * log(2e5))
    assert seen["P(|y| > printed)"] == pytest.approx(2 * stats.norm.sf(sqrt(2) * log(2e5) / sigma), rel=1e-9)
    assert seen["P(|y| > printed)"] == pytest.approx(4.8e-4, rel=0.01)
    needed = seen["needed threshold"]
    assert needed == pytest.approx(2 * log(2e5) - 0.5, rel=1e-12)
    assert log(stats.norm.pdf(needed, 0, sigma) / stats.norm.pdf(needed, -1, sigma)) == pytest.approx(1, rel=1e-9)
    assert seen["P(|y| > needed)"] < 1e-5 < seen["P(|y| > printed)"]
    assert all("scan" in ERRATA[f"erratum-{number}"].claim for number in (13, 14))


def test_erratum_15() -> None:
    """The printed figures are the formula's, which is below the proven interval; its own upper end is not."""
    seen = evidence(15)
    for rate, sigma, steps, printed in OPACUS_RUNS:
        name = f"q = {rate}, σ = {sigma}, T = {steps:,}"
        q, z = float(Fraction(rate)), float(sigma)
        mu = q * sqrt(steps * (np.exp(1 / z**2) - 1))
        epsilon = float(
            mp.findroot(lambda e, mu=mu: mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) - 1e-5, printed)
        )
        assert seen[f"central limit, {name}"] == pytest.approx(epsilon, rel=1e-6)
        assert seen[f"Opacus 1.6.0, gdp, {name}"] == printed == pytest.approx(epsilon, abs=6e-4)
        assert printed < seen[f"certified, at least, {name}"]
        larger = certified_epsilon(dpsgd(sigma=sigma, rate=rate, steps=steps), 1e-5).upper
        assert not larger < seen[f"certified, at least, {name}"]
