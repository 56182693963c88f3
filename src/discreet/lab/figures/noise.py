"""What noise looks like, and what it does to an estimate: densities, two neighbours, and the bias of a coin. And the tails
of the Gaussian mechanism of [L12]: how large the largest error is, and where the privacy loss is large."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, erf, exp, log, sqrt, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.divergences import GaussianAt, LaplaceAt, hockey_stick, max_divergence
from discreet.accounting.elementary import exp_bounds
from discreet.accounting.textbook import bad_set_mass
from discreet.lab.figures.figure import (
    BLACK,
    BLUE,
    EXACT,
    FIRST,
    FOURTH,
    GREEN,
    GREY,
    MARK,
    ORANGE,
    SECOND,
    THIRD,
    VERMILLION,
    WRONG,
    Axes,
    Figure,
    Numbers,
)
from discreet.mechanisms import Gaussian, Laplace, RandomizedResponse, textbook_accuracy
from discreet.noise import Bits, bernoulli
from discreet.testing import seeded_bits

SCALES = (1, 2, 4, 7)


def discrete_laplace_pmf(scale: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(k) = tanh(1/2λ)·e^{−|k|/λ}, the distribution of `Laplace`."""
    return np.asarray(tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale))


def rounded_gaussian_pmf(sigma: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(round Z = k), the distribution of `Gaussian`."""
    from scipy.special import ndtr

    return np.asarray(ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma))


def _laplace_gaussian(
    epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**5), draws: int = 100_000
) -> dict[str, Any]:
    laplace = Laplace.for_epsilon(epsilon, sensitivity=1)
    classical = Gaussian.for_epsilon(epsilon, delta, 1, "classical-1.25")
    exact = Gaussian.for_epsilon(epsilon, delta, 1)
    reach = min(2000, ceil(4.1 * float(classical.sigma)))
    k = np.arange(-reach, reach + 1)
    zeros = np.zeros(draws, np.int64)
    drawn = {"laplace": laplace.release(zeros, seeded_bits(1)), "gaussian": classical.release(zeros, seeded_bits(2))}
    return {
        "noise": k,
        **{f"{name} drawn": _share_of_each(values, reach) for name, values in drawn.items()},
        "laplace": discrete_laplace_pmf(float(laplace.scale), k),
        "gaussian, classical": rounded_gaussian_pmf(float(classical.sigma), k),
        "gaussian, exact": rounded_gaussian_pmf(float(exact.sigma), k),
        "sigma, classical": float(classical.sigma),
        "sigma, exact": float(exact.sigma),
    }


def _share_of_each(values: NDArray[np.int64], reach: int) -> NDArray[np.float64]:
    """Return the share of the values −reach, …, reach among the draws."""
    inside = values[np.abs(values) <= reach] + reach
    return np.asarray(np.bincount(inside, minlength=2 * reach + 1) / len(values))


def _paint_laplace_gaussian(axes: Axes, n: Numbers) -> None:
    k = n["noise"]
    axes.bar(k, n["laplace drawn"], width=0.95, color=BLUE, alpha=0.3, label="Laplace, drawn")
    axes.bar(
        k, n["gaussian drawn"], width=0.95, color=ORANGE, alpha=0.45, hatch="///", edgecolor="white", label="Gaussian, drawn"
    )
    axes.plot(k, n["laplace"], **FIRST, label="Laplace, scale 1/ε")
    axes.plot(k, n["gaussian, classical"], **FOURTH, label=f"Gaussian, 1.25-formula: σ = {n['sigma, classical']:.2f}")
    axes.plot(k, n["gaussian, exact"], **EXACT, label=f"Gaussian, exact: σ = {n['sigma, exact']:.2f}")
    axes.set(xlabel="noise added to a count", ylabel="probability", xlim=(0.75 * k[0], 0.75 * k[-1]), ylim=(0, None))
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
    axes.plot([], [], "o", color=GREY, markersize=5, label="dots: the integer noise that discreet draws")
    axes.set(xlabel="x", ylabel="density e^(−|x|/λ)/2λ, probability of an integer", ylim=(0, None), xlim=(-15, 15))
    axes.legend(loc="upper right")


def _indistinguishable(epsilon: Fraction = Fraction(1, 4)) -> dict[str, Any]:
    scale = float(1 / epsilon)
    reach = min(2000, max(3, ceil(3.75 * scale)))
    k = np.arange(-reach, reach + 2)
    without, with_one = discrete_laplace_pmf(scale, k), discrete_laplace_pmf(scale, k - 1)
    return {
        "answer": k,
        "without": without,
        "with": with_one,
        "least": exp(-epsilon) * without,
        "most": exp(epsilon) * without,
        "loss": np.log(with_one / without),
        "max divergence": max_divergence(LaplaceAt(1, 1 / epsilon), LaplaceAt(0, 1 / epsilon)).upper,
    }


def _paint_indistinguishable(axes: Axes, n: Numbers) -> None:
    k = n["answer"]
    axes.plot(k, n["without"], **FIRST, marker="o", markersize=4, label="answers without one person: true count 0")
    axes.fill_between(k, n["least"], n["most"], color=BLUE, alpha=0.18, label="e^−ε to e^ε times as likely")
    axes.plot(k, n["with"], **FOURTH, marker="s", markersize=4, label="answers with that person: true count 1")
    axes.set(xlabel="noisy count", ylabel="probability", ylim=(0, None), xlim=(k[0], k[-1]))
    axes.legend(loc="upper right")


LAPLACE_GAUSSIAN = Figure(
    "laplace-gaussian",
    "Laplace against Gaussian noise at ε = {epsilon}, δ = {delta}",
    "Bars: {draws} draws each. For one count Gaussian noise is wider. The formula of the textbooks gives more than is "
    "needed: "
    "the black line is exact.",
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
    "Two answers within a factor e^{epsilon} of each other, everywhere",
    "Laplace noise on a count: no answer is more than e^ε times as likely with one person as without, nor less likely by a "
    "larger factor.",
    "[S4, fig. 3]",
    _indistinguishable, _paint_indistinguishable,
)  # fmt: skip


# -- bounds on e^x ----------------------------------------------------------------------------------------------------------


def _crossing(low: float, high: float, order: int) -> float:
    """Return where e^x exceeds its upper bound again: 1 + 2x (order 1) or 1 + x + x² (order 2)."""
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
    "Why e^ε is close to 1 + ε for small ε, and up to where. discreet encloses e^ε between two rationals.",
    "[S4, fig. 6]",
    _exp_bounds_numbers, _paint_exp_bounds, (7,),
)  # fmt: skip


# -- the bias of a coin, estimated from n people who each tossed it ---------------------------------------------------------


BIAS, EPSILON, RUNS = Fraction(1, 4), Fraction(1, 2), 10_000
"""[S4]'s coin."""
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
_TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_AT_ONCE = 20_000  # tosses held in memory


def simulate_estimates(
    n: int, runs: int = RUNS, bias: Fraction = BIAS, epsilon: Fraction = EPSILON
) -> dict[str, NDArray[np.float64]]:
    """Return three estimates of the bias over `runs` repetitions: open, by randomised response, with Laplace noise.

    The same tosses are used for all three.
    """
    bits = seeded_bits(10_000 + n)
    response, laplace = RandomizedResponse.for_epsilon(epsilon), Laplace.for_epsilon(epsilon, sensitivity=1)
    heads, reports = (np.concatenate(parts) for parts in zip(*_simulate_runs(n, runs, bias, response, bits), strict=True))
    gap = float(response.truth - response.other)  # as `RandomizedResponse.estimate`, for all runs at once
    return {
        "open": heads / n,
        "response": (reports - n * float(response.other)) / gap / n,
        "laplace": laplace.release(heads, bits) / n,
    }


def _simulate_runs(
    n: int, runs: int, bias: Fraction, response: RandomizedResponse, bits: Bits
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the number of heads among n people, and of reports of heads; some runs at a time."""
    rows = max(1, _AT_ONCE // n)
    for first in range(0, runs, rows):
        shape = (min(rows, runs - first), n)
        tossed = bernoulli(bias, shape[0] * n, bits).reshape(shape).astype(np.int64)
        yield tossed.sum(axis=1), response.release(tossed, bits).sum(axis=1)


def exact_deviations(n: Any, bias: Fraction = BIAS, epsilon: Fraction = EPSILON) -> dict[str, Any]:
    """Return the three standard deviations: of the tosses alone, and with the noise."""
    sizes = np.asarray(n, float)
    tossed = float(bias * (1 - bias)) / sizes
    odds, decay = exp(epsilon), exp(-epsilon)
    return {
        "open": np.sqrt(tossed),
        "response": np.sqrt(tossed + odds / (odds - 1) ** 2 / sizes),
        "laplace": np.sqrt(tossed + 2 * decay / (1 - decay) ** 2 / sizes**2),
    }


def _coin_sd(bias: Fraction = BIAS, epsilon: Fraction = EPSILON, runs: int = RUNS) -> dict[str, Any]:
    estimates = [simulate_estimates(n, runs, bias, epsilon) for n in SIZES]
    line = np.geomspace(SIZES[0], SIZES[-1], 60)
    return {
        "n": SIZES,
        **{f"{name}, simulated": [run[name].std(ddof=1) for run in estimates] for name in ("open", "response", "laplace")},
        "line n": line,
        **{f"{name}, exact": values for name, values in exact_deviations(line, bias, epsilon).items()},
    }


_WORDS = {"open": "without privacy", "response": "randomised response", "laplace": "Laplace noise on the count"}


def _paint_coin_sd(axes: Axes, n: Numbers) -> None:
    for (name, words), pen, mark in zip(_WORDS.items(), (EXACT, SECOND, FIRST), "os^", strict=True):
        axes.plot(n["line n"], n[f"{name}, exact"], **pen)
        axes.plot(n["n"], n[f"{name}, simulated"], mark, color=pen["color"], markersize=7)
        axes.plot([], [], **pen, marker=mark, markersize=7, label=words)
    axes.set(
        xscale="log", yscale="log", xlabel="number of people n", ylabel="standard deviation of the estimated bias",
        ylim=(0.8 * n["open, exact"].min(), 2 * n["response, exact"].max()),
    )  # fmt: skip
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.legend(loc="upper right")


def _coin_histogram(n: int = 100, bias: Fraction = BIAS, epsilon: Fraction = EPSILON, runs: int = RUNS) -> dict[str, Any]:
    estimates = simulate_estimates(n, runs, bias, epsilon)
    response = RandomizedResponse.for_epsilon(epsilon)
    reports = np.arange(n + 1.5) - 0.5 - n * float(response.other)  # one bin per number of reports
    per_bin = max(1, n // 50)  # two percentage points, at n = 100
    wide = {name: _whole_bins(estimates[name] * n, per_bin) / n for name in ("open", "laplace")}
    edges = {**wide, "response": reports / float(response.truth - response.other) / n}
    heights = {
        name: np.histogram(values, edges[name])[0] / runs / np.diff(edges[name]) for name, values in estimates.items()
    }
    return {**{f"{name}, edges": edges[name] for name in ("open", "laplace", "response")}, **heights, "bias": float(bias)}


def _whole_bins(counts: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return edges halfway between integers that cover all the counts."""
    return np.arange(np.floor(counts.min()) - 0.5, counts.max() + width + 0.5, width)


def _paint_coin_histogram(axes: Axes, n: Numbers) -> None:
    looks = (("open", BLACK, "", 0.25), ("laplace", BLUE, "///", 0.3), ("response", GREEN, "...", 0.3))
    for name, colour, hatch, shade in looks:
        axes.stairs(n[name], n[f"{name}, edges"], fill=True, color=colour, alpha=shade)
        axes.stairs(n[name], n[f"{name}, edges"], color=colour, linewidth=1.8, hatch=hatch, label=_WORDS[name])
    axes.axvline(float(n["bias"]), **THIRD, label=f"the true bias, {n['bias']:.3g}")
    axes.set(xlabel="estimated bias of the coin", ylabel="density over all runs", xlim=(-0.5, 1.0))
    axes.legend(loc="upper right")


COIN_SD = Figure(
    "coin-sd",
    "How well a coin's bias is known: p = {bias}, ε = {epsilon}",
    "Marks: {runs} runs each; lines: the formula. The error of Laplace noise falls like 1/n; that of randomised "
    "response, which "
    "needs no curator, stays a constant factor above the open one.",
    "[S4, fig. 5]",
    _coin_sd, _paint_coin_sd,
)  # fmt: skip
COIN_HISTOGRAM = Figure(
    "coin-histogram",
    "A coin's bias from {n} people: p = {bias}, ε = {epsilon}",
    "{runs} repetitions of the same survey. All three estimates are unbiased; randomised response has the widest "
    "distribution.",
    "[S4, fig. 5], histogram at n = 100",
    _coin_histogram, _paint_coin_histogram,
)  # fmt: skip


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
