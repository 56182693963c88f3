"""What noise looks like: Laplace against Gaussian, four scales, and two answers that are hard to tell apart."""

from fractions import Fraction
from math import exp, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.divergences import LaplaceAt, max_divergence
from discreet.accounting.elementary import exp_bounds
from discreet.lab.figures.figure import (
    BLACK,
    BLUE,
    EXACT,
    FIRST,
    FOURTH,
    GREY,
    MARK,
    ORANGE,
    SECOND,
    THIRD,
    Axes,
    Figure,
    Numbers,
)
from discreet.mechanisms import Gaussian, Laplace
from discreet.testing import seeded_bits

DRAWS = 100_000
SCALES = (1, 2, 4, 7)


def discrete_laplace_pmf(scale: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(k) = tanh(1/2λ)·e^{−|k|/λ}, the law that `Laplace` draws from."""
    return np.asarray(tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale))


def rounded_gaussian_pmf(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(round Z = k), the law that `Gaussian` draws from."""
    from scipy.special import ndtr

    return np.asarray(ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma))


def _laplace_gaussian() -> dict[str, Any]:
    k = np.arange(-20, 21)
    laplace = Laplace.for_epsilon(1, sensitivity=1)
    classical = Gaussian.for_epsilon(1, 1e-5, 1, "classical-1.25")
    exact = Gaussian.for_epsilon(1, 1e-5, 1)
    zeros = np.zeros(DRAWS, np.int64)
    drawn = {"laplace": laplace.release(zeros, seeded_bits(1)), "gaussian": classical.release(zeros, seeded_bits(2))}
    return {
        "noise": k,
        **{f"{name} drawn": (draws[:, None] == k).mean(axis=0) for name, draws in drawn.items()},
        "laplace": discrete_laplace_pmf(float(laplace.scale), k),
        "gaussian, classical": rounded_gaussian_pmf(float(classical.sigma), k),
        "gaussian, exact": rounded_gaussian_pmf(float(exact.sigma), k),
        "sigma, classical": float(classical.sigma),
        "sigma, exact": float(exact.sigma),
    }


def _paint_laplace_gaussian(axes: Axes, n: Numbers) -> None:
    k = n["noise"]
    axes.bar(k, n["laplace drawn"], width=0.95, color=BLUE, alpha=0.3, label="Laplace, drawn")
    axes.bar(
        k, n["gaussian drawn"], width=0.95, color=ORANGE, alpha=0.45, hatch="///", edgecolor="white", label="Gaussian, drawn"
    )
    axes.plot(k, n["laplace"], **FIRST, label="Laplace, scale 1")
    axes.plot(k, n["gaussian, classical"], **FOURTH, label=f"Gaussian, 1.25-formula: σ = {n['sigma, classical']:.2f}")
    axes.plot(k, n["gaussian, exact"], **EXACT, label=f"Gaussian, exact: σ = {n['sigma, exact']:.2f}")
    axes.set(xlabel="noise added to a count", ylabel="probability", xlim=(-15, 15), ylim=(0, None))
    axes.legend(loc="upper right")


def _densities() -> dict[str, Any]:
    x, k = np.linspace(-15, 15, 301), np.arange(-15, 16)
    continuous = {f"density, λ = {scale}": np.exp(-np.abs(x) / scale) / (2 * scale) for scale in SCALES}
    drawn = {f"lattice, λ = {scale}": discrete_laplace_pmf(scale, k) for scale in SCALES}
    return {"x": x, **continuous, "k": k, **drawn}


def _paint_densities(axes: Axes, n: Numbers) -> None:
    for scale, pen, mark in zip(SCALES, (FIRST, SECOND, THIRD, FOURTH), "os^D", strict=True):
        axes.plot(n["x"], n[f"density, λ = {scale}"], **pen, label=f"λ = {scale}")
        axes.plot(n["k"], n[f"lattice, λ = {scale}"], mark, color=pen["color"], markersize=5)
    axes.plot([], [], "o", color=GREY, markersize=5, label="dots: the integer law that discreet draws")
    axes.set(xlabel="x", ylabel="density e^(−|x|/λ)/2λ, probability of an integer", ylim=(0, None), xlim=(-15, 15))
    axes.legend(loc="upper right")


def _indistinguishable() -> dict[str, Any]:
    epsilon = Fraction(1, 4)
    k, scale = np.arange(-15, 17), float(1 / epsilon)
    without, with_one = discrete_laplace_pmf(scale, k), discrete_laplace_pmf(scale, k - 1)
    return {
        "answer": k,
        "without": without,
        "with": with_one,
        "least": exp(-epsilon) * without,
        "most": exp(epsilon) * without,
        "loss": np.log(with_one / without),
        "max divergence": max_divergence(LaplaceAt(1, 4), LaplaceAt(0, 4)).upper,
    }


def _paint_indistinguishable(axes: Axes, n: Numbers) -> None:
    k = n["answer"]
    axes.plot(k, n["without"], **FIRST, marker="o", markersize=4, label="answers without one person: true count 0")
    axes.fill_between(k, n["least"], n["most"], color=BLUE, alpha=0.18, label="e^(−1/4) to e^(1/4) times as likely")
    axes.plot(k, n["with"], **FOURTH, marker="s", markersize=4, label="answers with that person: true count 1")
    axes.set(xlabel="noisy count", ylabel="probability", ylim=(0, None), xlim=(-15, 16))
    axes.legend(loc="upper right")


LAPLACE_GAUSSIAN = Figure(
    "laplace-gaussian",
    "Laplace against Gaussian noise at ε = 1, δ = 1e-5",
    "Bars: 100,000 draws each. For one count the Gaussian is the louder noise. The formula of the texts asks for "
    "more of it than is needed: the exact curve δ(ε) gives the black line.",
    "[N1], section on the Gaussian mechanism; exact σ by [BW18]",
    _laplace_gaussian, _paint_laplace_gaussian, (6,),
)  # fmt: skip
LAPLACE_DENSITIES = Figure(
    "laplace-densities",
    "Laplace noise of four scales",
    "λ = Δ/ε: half the ε, twice the noise. The mean of |Z| is λ, its root mean square √2·λ.",
    "[S4], figure of the Laplace densities",
    _densities, _paint_densities,
)  # fmt: skip
INDISTINGUISHABLE = Figure(
    "indistinguishable",
    "Two answers within a factor e^(1/4) of each other, everywhere",
    "Laplace noise of scale 4 on a count. Whoever sees an answer can hardly say whether one person was counted: no answer "
    "is more than e^(1/4) = 1.28 times likelier with that person than without, nor less likely by more.",
    "[S4, fig. 3]",
    _indistinguishable, _paint_indistinguishable,
)  # fmt: skip


# The bounds on e^x that every proof leans on.


def _crossing(low: float, high: float, order: int) -> float:
    """Where e^x passes its upper bound again: 1 + 2x (order 1) or 1 + x + x² (order 2)."""
    for _ in range(60):
        middle = (low + high) / 2
        bound = 1 + 2 * middle if order == 1 else 1 + middle + middle**2
        low, high = (middle, high) if exp(middle) < bound else (low, middle)
    return low


def _exp_bounds_numbers() -> dict[str, Any]:
    x = np.linspace(-1.5, 2.0, 141)
    ends = [exp_bounds(Fraction(float(point))) for point in x]
    return {
        "x": x,
        "e^x": np.exp(x),
        "e^x from below": [float(low) for low, _ in ends],
        "e^x from above": [float(high) for _, high in ends],
        "1 + x": 1 + x,
        "1 + x + x²": 1 + x + x**2,
        "1 + 2x": 1 + 2 * x,
        "1 + 2x holds to": _crossing(1, 2, 1),
        "1 + x + x² holds to": _crossing(1, 3, 2),
    }


def _paint_exp_bounds(axes: Axes, n: Numbers) -> None:
    x = n["x"]
    inside, right = x <= float(n["1 + x + x² holds to"]), (x >= 0) & (x <= float(n["1 + 2x holds to"]))
    axes.plot(x, n["e^x"], **EXACT, label="e^x")
    axes.plot(x, n["1 + x"], **FIRST, label="1 + x ≤ e^x, everywhere, and equal at 0")
    axes.plot(
        x[inside], n["1 + x + x²"][inside], **SECOND, label=f"1 + x + x² ≥ e^x up to x = {n['1 + x + x² holds to']:.3f}"
    )
    axes.plot(x[right], n["1 + 2x"][right], **THIRD, label=f"1 + 2x ≥ e^x for 0 ≤ x ≤ {n['1 + 2x holds to']:.3f}")
    axes.axvline(0, **MARK)
    axes.plot([0], [1], "o", color=BLACK, markersize=6)
    axes.set(xlabel="x", ylabel="value", xlim=(-1.5, 2.0), ylim=(-0.6, 6.5))
    axes.legend(loc="upper left")


EXP_BOUNDS = Figure(
    "exp-bounds",
    "Bounds on e^x",
    "Why e^ε is read as 1 + ε for small ε, and how far that goes. discreet computes e^ε as a pair of rationals around it.",
    "[S4, fig. 6]",
    _exp_bounds_numbers, _paint_exp_bounds, (7,),
)  # fmt: skip
