"""How large the largest error is, and where the privacy loss is large: the Gaussian mechanism of [L12]."""

from fractions import Fraction
from math import erf, log, sqrt
from typing import Any

import numpy as np

from discreet.accounting.divergences import GaussianAt, hockey_stick
from discreet.accounting.textbook import bad_set_mass
from discreet.lab.figures.figure import (
    BLUE,
    EXACT,
    FIRST,
    FOURTH,
    MARK,
    SECOND,
    THIRD,
    VERMILLION,
    WRONG,
    Axes,
    Figure,
    Numbers,
)
from discreet.mechanisms import Gaussian, textbook_accuracy


def expected_max_gaussian(k: int) -> float:
    """Return E max |Y| of k standard Gaussians, by integrating 1 − erf(x/√2)^k.

    >>> round(expected_max_gaussian(1), 6)  # √(2/π)
    0.797885
    """
    x = np.linspace(0, 12, 12_001)
    return float(np.trapezoid([-np.expm1(k * log(erf(v / sqrt(2)))) if v > 0 else 1.0 for v in x], x))


def harmonic(k: int) -> float:
    """Return 1 + 1/2 + … + 1/k: E max |Z| of k Laplace draws of scale 1.

    >>> harmonic(4)
    2.083333333333333
    """
    return float(np.sum(1 / np.arange(1.0, k + 1)))


def _growth(epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**6), k: int = 1000) -> dict[str, Any]:
    ks = sorted({round(k ** (i / 24)) for i in range(25)})
    eps, at = float(epsilon), float(delta)
    exact_sigma = float(Gaussian.for_epsilon(epsilon, delta, 1).sigma)
    classical = sqrt(2 * log(1.25 / at)) / eps
    largest = [expected_max_gaussian(n) for n in ks]
    laplace = [n * harmonic(n) / eps for n in ks]
    gaussian = [sqrt(n) * exact_sigma * most for n, most in zip(ks, largest, strict=True)]
    wins = [n for n, one, other in zip(ks, laplace, gaussian, strict=True) if other < one]
    return {
        "k": ks,
        "Laplace, exact": laplace,
        "Laplace, bound": [textbook_accuracy.laplace_expected_max(n / eps, n) for n in ks],
        "Gaussian, exact": gaussian,
        "Gaussian, bound": [textbook_accuracy.gaussian_expected_max(sqrt(n) * classical, n) for n in ks],
        "Gaussian wins from": textbook_accuracy.gaussian_wins_from(eps, at),
        "Gaussian wins from, E max": wins[0] if wins else 0,
    }


def _paint_growth(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    axes.plot(k, n["Laplace, bound"], **FIRST, label="Laplace: E max ≤ k(ln k + 1)/ε, of order k·log k")
    axes.plot(k, n["Laplace, exact"], **THIRD, label="Laplace, exact: k(1 + 1/2 + … + 1/k)/ε")
    axes.plot(k, n["Gaussian, bound"], **FOURTH, label="Gaussian, 1.25-formula: E max ≤ σ√(2·ln 2k), of order √(k·log k)")
    axes.plot(k, n["Gaussian, exact"], **EXACT, label="Gaussian, exact σ and exact E max")
    axes.set(xlabel="number of counts k", ylabel="expected largest error", xscale="log", yscale="log", xlim=(1, k[-1]))
    axes.legend(loc="upper left")


def _bad_set(epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**5)) -> dict[str, Any]:
    eps, at = float(epsilon), float(delta)
    sigma = sqrt(2 * log(2 / at)) / eps  # the rule of [L12]
    y = np.linspace(-6 * sigma, 6 * sigma, 241)
    density = [np.exp(-(((y - centre) / sigma) ** 2) / 2) / (sigma * sqrt(2 * np.pi)) for centre in (0, -1)]
    pair = GaussianAt(0, sigma), GaussianAt(-1, sigma)
    return {
        "y": y,
        "with": density[0],
        "without": density[1],
        "σ": sigma,
        "bad from": sigma**2 * eps - 0.5,
        "P(bad)": float(bad_set_mass(*pair, epsilon)),
        "least δ": hockey_stick(*pair, epsilon).upper,
        "printed threshold": sqrt(2) * log(2 / at) / eps,
        "P(|y| > printed)": 1 - erf(log(2 / at) / eps / sigma),
    }


def _paint_bad_set(axes: Axes, n: Numbers) -> None:
    y, threshold, printed = n["y"], float(n["bad from"]), float(n["printed threshold"])
    axes.semilogy(y, n["with"], **FIRST, label="density of the answer with one person")
    axes.semilogy(y, n["without"], **SECOND, label="without that person")
    good = y <= threshold
    axes.fill_between(y[good], n["with"][good], 1e-12, color=BLUE, alpha=0.12, label="good set: privacy loss at most ε")
    axes.fill_between(
        y[~good], n["with"][~good], 1e-12, color=VERMILLION, alpha=0.5, label=f"bad set: probability {n['P(bad)']:.2g}"
    )
    axes.axvline(threshold, **MARK)
    axes.axvline(printed, **WRONG, label=f"as printed: P(|y| > {printed:.3g}) = {n['P(|y| > printed)']:.2g}")
    axes.set(
        xlabel="noise y, for a count that one person changes by 1", ylabel="density", ylim=(1e-10, 20 * n["with"].max()),
        xlim=(y[0], y[-1]),
    )  # fmt: skip
    axes.annotate(
        f"loss = ε at y = {threshold:.3g}\nleast δ (hockey-stick): {n['least δ']:.2g}", (0.015, 0.04),
        xycoords="axes fraction", fontsize=9, bbox={"facecolor": "white", "edgecolor": "#bbbbbb"},
    )  # fmt: skip
    axes.legend(loc="upper left")


GROWTH = Figure(
    "growth",
    "The largest of k errors at ε = {epsilon}, δ = {delta}: k·log k against √(k·log k)",
    "One person is in all k counts. Laplace noise is smaller for a few counts, Gaussian noise for many.",
    "[L12], comparison of the mechanisms; exact σ by [BW18]",
    _growth, _paint_growth, (9,),
)  # fmt: skip
BAD_SET = Figure(
    "bad-set",
    "Good and bad answers of the Gaussian mechanism: ε = {epsilon}, δ = {delta}",
    "Where the privacy loss exceeds ε is the bad set. If its probability is at most δ, the mechanism is (ε, δ)-private; "
    "that "
    "is sufficient, and the least δ is smaller.",
    "[L12], proof of the Gaussian mechanism; [B2]",
    _bad_set, _paint_bad_set, (8, 14),
)  # fmt: skip
