"""What many releases cost together, and what somebody learns who averages them."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, expm1, log, sqrt
from typing import Any

import numpy as np

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.optimal import optimal_composition
from discreet.accounting.textbook import short_form_threshold
from discreet.lab.figures.figure import Axes, Figure, Numbers
from discreet.lab.figures.pens import BLUE, EXACT, FIRST, MARK, SECOND, SKY, THIRD, VERMILLION, WRONG
from discreet.mechanisms import Laplace
from discreet.testing import seeded_bits

PRINTED_DELTA = 1e-4  # the 10e-5 of [N1]'s code
TRUTH, REPEATS = 10, 500


def printed_short_form(k: Any, delta: float) -> Any:
    """2√(2k·ln(1/δ)), in units of ε and without a word about its hypothesis; `advanced_composition_short` checks it."""
    return 2 * np.sqrt(2 * np.asarray(k) * log(1 / delta))


def max_valid_k(epsilon: float, delta: float) -> float:
    """The k up to which √k·(e^ε − 1) ≤ √(2·ln(1/δ))."""
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
            label="spent at ε = 1, and not written down",
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
    spread = sqrt(2 * decay) / (1 - decay)  # of one answer: the discrete Laplace law
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
        f"the cost at δ = 1e-5: certified ε = {n['certified']:.1f}\n(500 by adding up, {n['as printed']:.1f} as printed)",
        (0.985, 0.035), xycoords="axes fraction", ha="right", fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "#bbbbbb"},
    )  # fmt: skip
    axes.legend(loc="upper right")


COMPOSITION_100 = Figure(
    "composition-100",
    "Sequential against advanced composition, k ≤ 100, δ = 1e-4",
    "Adding up is better for few releases. In units of the ε of one release the two textbook lines are the same for every "
    "ε; the exact cost of k randomised responses (the worst k releases there are) is not.",
    "[N1], advanced composition; exact by [KOV15]",
    _composition([*range(1, 101)], Fraction(1, 10)), _paint_composition, (1, 6),
)  # fmt: skip
COMPOSITION_10000 = Figure(
    "composition-10000",
    "Sequential against advanced composition, k ≤ 10,000, δ = 1e-4",
    "At ε = 0.01 the short form is a bound, and a generous one. At ε = 1, which the text takes, the true cost grows like k "
    "and passes the printed line: whoever trusts it has spent far more than is written down.",
    "[N1], advanced composition; exact by [KOV15]",
    _composition([round(10 ** (i / 15)) for i in range(61)], Fraction(1, 100)), _paint_composition, (1,),
)  # fmt: skip
AVERAGING = Figure(
    "averaging",
    "Averaging 500 answers of a query of sensitivity 1",
    "Each answer is noisy, their mean is the truth. Nothing is broken: 500 answers at ε = 1 cost what they cost, and an "
    "account of limited ε refuses long before.",
    "[N1], averaging attack",
    _averaging, _paint_averaging, (1,),
)  # fmt: skip
