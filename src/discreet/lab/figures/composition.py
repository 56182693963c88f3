"""What many releases cost together, how much noise k queries need, and what an attacker learns by averaging."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, expm1, log, sqrt
from typing import Any

import numpy as np

from discreet._numbers import to_rational
from discreet.accounting.conversions import epsilon_from_rdp_classic, epsilon_from_zcdp, epsilon_from_zcdp_classic
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.renyi import renyi
from discreet.accounting.textbook import advanced_composition, optimal_composition, short_form_threshold
from discreet.accounting.zcdp import zcdp
from discreet.lab.figures.figure import (
    BLUE,
    EXACT,
    FIRST,
    FOURTH,
    MARK,
    SECOND,
    SKY,
    THIRD,
    VERMILLION,
    WRONG,
    Axes,
    Figure,
    Numbers,
)
from discreet.mechanisms import Gaussian, Laplace
from discreet.testing import seeded_bits
from discreet.units import counts

PRINTED_DELTA = 1e-4  # the 10e-5 of [N1]'s code
TRUTH, REPEATS = 10, 500


def printed_short_form(k: Any, delta: float) -> Any:
    """Return 2√(2k·ln(1/δ)) in units of ε, without its hypothesis; `advanced_composition_short` checks that."""
    return 2 * np.sqrt(2 * np.asarray(k) * log(1 / delta))


def max_valid_k(epsilon: float, delta: float) -> float:
    """Return the k up to which the hypothesis √k·(e^ε − 1) ≤ √(2·ln(1/δ)) holds."""
    return 2 * log(1 / delta) / expm1(epsilon) ** 2


def _composition(ks: list[int], small: Fraction) -> Callable[[], dict[str, Any]]:
    def numbers() -> dict[str, Any]:
        return {
            "k": ks,
            "sequential": np.asarray(ks, float),
            "as printed": printed_short_form(ks, PRINTED_DELTA),
            "exact, ε = 1": [float(optimal_composition(1, k, PRINTED_DELTA).epsilon) for k in ks],
            f"exact, ε = {float(small):g}": [
                float(optimal_composition(small, k, PRINTED_DELTA).epsilon) / float(small) for k in ks
            ],
            "crossing": short_form_threshold(PRINTED_DELTA),
            "hypothesis ends, ε = 1": max_valid_k(1, PRINTED_DELTA),
            f"hypothesis ends, ε = {float(small):g}": max_valid_k(float(small), PRINTED_DELTA),
        }

    return numbers


def _paint_composition(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    small = min(float(name.partition("= ")[2]) for name in n if name.startswith("exact"))
    ends = float(n[f"hypothesis ends, ε = {small:g}"])
    axes.plot(k, n["sequential"], **FIRST, label="sequential: k·ε")
    axes.plot(k, n["as printed"], **WRONG, label="advanced, short form as printed: 2ε√(2k·ln 1/δ)")
    first = int(n["hypothesis ends, ε = 1"])
    axes.plot(k, n["exact, ε = 1"], **EXACT, label=f"exact at ε = 1 (the short form's proof ends at k = {first})")
    axes.plot(
        k, n[f"exact, ε = {small:g}"], **SECOND, label=f"exact at ε = {small:g} (its proof holds to k = {int(ends):,})"
    )
    missing = n["exact, ε = 1"] > n["as printed"]
    if missing.any():
        axes.fill_between(
            k, n["as printed"], n["exact, ε = 1"], where=missing, color=VERMILLION, alpha=0.15, linewidth=0,
            label="cost at ε = 1 beyond the printed bound",
        )  # fmt: skip
    axes.axvline(float(n["crossing"]), **MARK)
    axes.set(xlabel="number of releases k", ylabel="cost of all, in units of the ε of one", xlim=(k[0], k[-1]))
    if k[-1] > 1000:
        axes.set(xscale="log", yscale="log")
    axes.text(
        float(n["crossing"]) * 1.02, 0.03, f"k = 8·ln(1/δ) = {n['crossing']:.1f}", transform=axes.get_xaxis_transform(),
        color="#444444", fontsize=9,
    )  # fmt: skip
    axes.legend(loc="upper left")


def _averaging() -> dict[str, Any]:
    noise = Laplace.for_epsilon(1, sensitivity=1)
    answers = noise.release(np.full(REPEATS, TRUTH), seeded_bits(3))
    k = np.arange(1, REPEATS + 1)
    decay = exp(-1 / float(noise.scale))
    spread = sqrt(2 * decay) / (1 - decay)  # standard deviation of discrete Laplace noise
    once = noise.event(1)
    return {
        "k": k,
        "answers": answers,
        "mean so far": np.cumsum(answers) / k,
        "spread of the mean": spread / np.sqrt(k),
        "sequential": float(REPEATS),
        "certified": float(certified(once * REPEATS, 1e-5)),
        "as printed": float(printed_short_form(REPEATS, 1e-5)),
    }


def _paint_averaging(axes: Axes, n: Numbers) -> None:
    k, mean, spread = n["k"], n["mean so far"], n["spread of the mean"]
    axes.plot(k, n["answers"], ".", color=BLUE, alpha=0.35, markersize=5, label="one answer, ε = 1: standard deviation 1.36")
    axes.fill_between(
        k,
        TRUTH - 2 * spread,
        TRUTH + 2 * spread,
        color=SKY,
        alpha=0.35,
        label="two standard deviations of a mean of k",
    )
    axes.plot(k, mean, **EXACT, label=f"mean of the first k answers; of all 500: {mean[-1]:.3f}")
    axes.axhline(TRUTH, **THIRD, label=f"the true count, {TRUTH}")
    axes.set(xlabel="number of answers k", ylabel="count", xlim=(0, REPEATS), ylim=(TRUTH - 8, TRUTH + 8))
    axes.annotate(
        f"the cost at δ = 1e-5: certified ε = {n['certified']:.1f}\n(sequential: 500, as printed: {n['as printed']:.1f})",
        (0.985, 0.035), xycoords="axes fraction", ha="right", fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "#bbbbbb"},
    )  # fmt: skip
    axes.legend(loc="upper right")


COMPOSITION_100 = Figure(
    "composition-100",
    "Sequential against advanced composition, k ≤ 100, δ = 1e-4",
    "Sequential composition is better for few releases. In units of the ε of one release the two textbook lines are equal "
    "for every ε; the exact cost of k randomised responses (the most costly ε-private releases) is not.",
    "[N1], advanced composition; exact by [KOV15]",
    _composition([*range(1, 101)], Fraction(1, 10)), _paint_composition, (1, 6),
)  # fmt: skip
COMPOSITION_10000 = Figure(
    "composition-10000",
    "Sequential against advanced composition, k ≤ 10,000, δ = 1e-4",
    "At ε = 0.01 the short form is a bound, and not a tight one. At ε = 1, as in the text, the exact cost grows like k and "
    "exceeds the printed line: an account by that line understates what was spent.",
    "[N1], advanced composition; exact by [KOV15]",
    _composition([round(10 ** (i / 15)) for i in range(61)], Fraction(1, 100)), _paint_composition, (1,),
)  # fmt: skip
AVERAGING = Figure(
    "averaging",
    "Averaging 500 answers of a query of sensitivity 1",
    "Each answer is noisy, and their mean is close to the true count. This contradicts no guarantee: 500 answers at ε = 1 "
    "cost far more than ε = 1, and an account with a budget refuses long before.",
    "[N1], averaging attack",
    _averaging, _paint_averaging, (1,),
)  # fmt: skip


# -- noise for k queries, and the cost of k Gaussians in each notion --------------------------------------------------------


SIGMA, DELTA = 200, Fraction(1, 10**5)


def _noise_l1() -> dict[str, Any]:
    k = list(range(1, 101))
    return {
        "k": k,
        "sequential": [float(Laplace.for_epsilon(Fraction(1, n), sensitivity=1).scale) for n in k],
        "vectorised": [float(Laplace.for_epsilon(1, counts(n)).scale) for n in k],
    }


def _paint_noise_l1(axes: Axes, n: Numbers) -> None:
    axes.plot(n["k"], n["sequential"], color=SKY, linewidth=7, alpha=0.7, label="k queries, each at ε/k")
    axes.plot(n["k"], n["vectorised"], **EXACT, label="one query with k answers, Δ₁ = k")
    axes.set(xlabel="number of counts k", ylabel="scale of the Laplace noise on each", xlim=(0, 100), ylim=(0, 105))
    axes.legend(loc="upper left")


def split_by_theorem(k: int, delta: Fraction) -> tuple[float, Fraction]:
    """Return ε and δ of each of k releases by advanced composition at ε = 1: δ/2 for the theorem, δ/2 divided [N2]."""
    return 1 / (2 * sqrt(2 * k * log(2 / delta))), delta / (2 * k)


def _noise_l2() -> dict[str, Any]:
    k = [*range(1, 5), *range(5, 101, 5)]
    return {
        "k": k,
        "sequential": [
            float(Gaussian.for_epsilon(*split_by_theorem(n, DELTA), 1, "classical-1.25").sigma) ** 2 for n in k
        ],
        "as plotted": [16 * n * log(1 / DELTA) * log(1.25 / DELTA) for n in k],
        "vectorised": [float(Gaussian.for_epsilon(1, DELTA, counts(n), "classical-1.25").sigma) ** 2 for n in k],
        "exact": [float(Gaussian.for_epsilon(1, DELTA, counts(n)).sigma) ** 2 for n in k],
    }  # fmt: skip


def _paint_noise_l2(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    axes.plot(k, n["sequential"], **FIRST, label="k queries by advanced composition: 16k·ln(2/δ)·ln(2.5k/δ)")
    axes.plot(k, n["as plotted"], **WRONG, label="the same as plotted in the text: δ for δ/2 and δ/2k")
    axes.plot(k, n["vectorised"], **SECOND, label="one query with k answers, Δ₂ = √k: 2k·ln(1.25/δ)")
    axes.plot(k, n["exact"], **EXACT, label="exact, for both: composition of Gaussians is tight")
    axes.set(
        xlabel="number of counts k",
        ylabel="variance of the Gaussian noise on each",
        yscale="log",
        xlim=(0, 101),
        ylim=(8, 1e7),
    )
    axes.legend(loc="upper left")


def _variants() -> dict[str, Any]:
    k = [1, *range(10, 501, 10)]
    once = Gaussian(SIGMA).event(1)
    rho = to_rational(zcdp(once))
    by_order = {
        order: [epsilon_from_rdp_classic(order, to_rational(renyi(once * n, order)), DELTA) for n in k] for order in (20, 60)
    }
    return {
        "k": k,
        "advanced": [_advanced(n) for n in k],
        "zCDP": [epsilon_from_zcdp_classic(n * rho, DELTA) for n in k],
        "zCDP, improved": [epsilon_from_zcdp(n * rho, DELTA) for n in k],
        "RDP, α = 20": by_order[20],
        "RDP, α = 60": by_order[60],
        "exact": [float(certified(once * n, DELTA)) for n in k],
        "α = 60 touches": 2 * SIGMA**2 * log(1 / DELTA) / 59**2,
        "α = 20 touches": 2 * SIGMA**2 * log(1 / DELTA) / 19**2,
    }


def _advanced(k: int) -> float:
    """Return ε of k Gaussians: each at δ/2k by the inverse of the classical rule, then the theorem at δ/2."""
    each = DELTA / (2 * k)
    return float(advanced_composition(sqrt(2 * log(1.25 / each)) / SIGMA, k, DELTA / 2, each).epsilon)


def _paint_variants(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    axes.plot(k, n["advanced"], **FIRST, label="advanced composition of (ε, δ)")
    axes.plot(
        k,
        n["RDP, α = 20"],
        **WRONG,
        label=f"RDP at α = 20: touches zCDP at k = {n['α = 20 touches']:,.0f}, outside the figure",
    )
    axes.plot(k, n["RDP, α = 60"], **FOURTH, label=f"RDP at α = 60: touches zCDP at k = {n['α = 60 touches']:.0f}")
    axes.plot(k, n["zCDP"], **SECOND, label="zCDP: ρ + 2√(ρ·ln(1/δ)), which is RDP at the best α")
    axes.plot(k, n["zCDP, improved"], **THIRD, label="zCDP by the improved conversion")
    axes.plot(k, n["exact"], **EXACT, label="exact: the certified curve")
    axes.axvline(float(n["α = 60 touches"]), **MARK)
    axes.set(xlabel="number of releases k", ylabel="ε at δ = 1e-5", xlim=(0, 500), ylim=(0, 1.9))
    axes.legend(loc="upper right")


NOISE_L1 = Figure(
    "noise-l1",
    "Laplace noise for k counts at ε = 1: one by one, or at once",
    "The two lines coincide. Sequential composition is tight for pure DP: nothing is gained by one query for all.",
    "[N2], first noise plot",
    _noise_l1, _paint_noise_l1, (5,),
)  # fmt: skip
NOISE_L2 = Figure(
    "noise-l2",
    "Gaussian noise for k counts at ε = 1, δ = 1e-5: one by one, or at once",
    "By the theorem the same queries need 100 to 140 times the variance when they are asked one by one. That is the "
    "theorem's looseness: composition of Gaussians is tight, so the exact line is the same for both, below both bounds.",
    "[N2], second noise plot; exact σ by [BW18]",
    _noise_l2, _paint_noise_l2, (4,),
)  # fmt: skip
VARIANTS = Figure(
    "variants",
    "What k Gaussian answers cost: σ = 200, δ = 1e-5",
    "Each notion of privacy is a way to account for the same noise; all are upper bounds on the exact cost.",
    "[N2], comparison of variants; improved conversion by [CKS20]",
    _variants, _paint_variants, (4,),
)  # fmt: skip
