"""What many releases cost together, and what an attacker learns by averaging [N1]; parallel composition [B2]."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, expm1, log, sqrt
from typing import Any

import numpy as np

from discreet._numbers import Number
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.textbook import optimal_composition, short_form_threshold
from discreet.lab.errata import printed_short_form
from discreet.lab.figures.figure import (
    BLACK,
    BLUE,
    EXACT,
    FIRST,
    MARK,
    ORANGE,
    SECOND,
    SKY,
    THIRD,
    VERMILLION,
    WRONG,
    Axes,
    Figure,
    Numbers,
)
from discreet.mechanisms import Laplace
from discreet.testing import seeded_bits
from discreet.units import histogram

PRINTED_DELTA = Fraction(1, 10**4)
"""The 10e-5 of [N1]'s code."""
TRUTH = 10


def max_valid_k(epsilon: float, delta: float) -> float:
    """Return the k up to which the hypothesis √k·(e^ε − 1) ≤ √(2·ln(1/δ)) holds."""
    return 2 * log(1 / delta) / expm1(epsilon) ** 2


def _composition_numbers(ks: list[int], small: Number, delta: Number) -> dict[str, Any]:
    at, tiny = float(delta), float(small)
    return {
        "k": ks,
        "sequential": np.asarray(ks, float),
        "as printed": [printed_short_form(1, k, at) for k in ks],
        "exact, ε = 1": [float(optimal_composition(1, k, delta).epsilon) for k in ks],
        f"exact, ε = {tiny:g}": [float(optimal_composition(small, k, delta).epsilon) / tiny for k in ks],
        "crossing": short_form_threshold(delta),
        "proven to k, ε = 1": max_valid_k(1, at),
        f"proven to k, ε = {tiny:g}": max_valid_k(tiny, at),
    }


def _composition_100(k: int = 100, epsilon: Fraction = Fraction(1, 10), delta: Fraction = PRINTED_DELTA) -> dict[str, Any]:
    return _composition_numbers(sorted({max(1, round(k * i / 100)) for i in range(1, 101)}), epsilon, delta)


def _composition_10000(
    k: int = 10_000, epsilon: Fraction = Fraction(1, 100), delta: Fraction = PRINTED_DELTA
) -> dict[str, Any]:
    return _composition_numbers(sorted({round(k ** (i / 60)) for i in range(61)}), epsilon, delta)


def _paint_composition(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    small = min(float(name.partition("= ")[2]) for name in n if name.startswith("exact"))
    ends = float(n[f"proven to k, ε = {small:g}"])
    axes.plot(k, n["sequential"], **FIRST, label="sequential: k·ε")
    axes.plot(k, n["as printed"], **WRONG, label="advanced, short form as printed: 2ε√(2k·ln 1/δ)")
    first = int(n["proven to k, ε = 1"])
    axes.plot(k, n["exact, ε = 1"], **EXACT, label=f"exact at ε = 1 (the short form is proven to k = {first})")
    if small < 1:
        axes.plot(k, n[f"exact, ε = {small:g}"], **SECOND, label=f"exact at ε = {small:g} (proven to k = {int(ends):,})")
    missing = n["exact, ε = 1"] > n["as printed"]
    if missing.any():
        axes.fill_between(
            k, n["as printed"], n["exact, ε = 1"], where=missing, color=VERMILLION, alpha=0.15, linewidth=0,
            label="cost at ε = 1 beyond the printed line",
        )  # fmt: skip
    axes.axvline(float(n["crossing"]), **MARK)
    axes.set(xlabel="number of releases k", ylabel="cost of all, in units of the ε of one", xlim=(k[0], k[-1] + 1e-9))
    if k[-1] > 1000:
        axes.set(xscale="log", yscale="log")
    axes.text(
        float(n["crossing"]) * 1.02, 0.03, f"k = 8·ln(1/δ) = {n['crossing']:.1f}", transform=axes.get_xaxis_transform(),
        color="#444444", fontsize=9, clip_on=True,
    )  # fmt: skip
    axes.legend(loc="upper left")


def _averaging(answers: int = 500, epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**5)) -> dict[str, Any]:
    noise = Laplace.for_epsilon(epsilon, sensitivity=1)
    drawn = noise.release(np.full(answers, TRUTH), seeded_bits(3))
    k = np.arange(1, answers + 1)
    decay = exp(-1 / float(noise.scale))
    spread = sqrt(2 * decay) / (1 - decay)  # standard deviation of discrete Laplace noise
    return {
        "k": k,
        "answers": drawn,
        "mean so far": np.cumsum(drawn) / k,
        "spread of the mean": spread / np.sqrt(k),
        "sequential": float(answers * epsilon),
        "certified": float(certified(noise.event(1) * answers, delta)),
        "as printed": printed_short_form(float(epsilon), answers, float(delta)),
    }


def _paint_averaging(axes: Axes, n: Numbers) -> None:
    k, mean, spread = n["k"], n["mean so far"], n["spread of the mean"]
    reach = 6 * spread[0]
    axes.plot(
        k, n["answers"], ".", color=BLUE, alpha=0.35, markersize=5, label=f"one answer: standard deviation {spread[0]:.3g}"
    )
    axes.fill_between(
        k,
        TRUTH - 2 * spread,
        TRUTH + 2 * spread,
        color=SKY,
        alpha=0.35,
        label="two standard deviations of a mean of k",
    )
    axes.plot(k, mean, **EXACT, label=f"mean of the first k answers; of all {len(k):,}: {mean[-1]:.3f}")
    axes.axhline(TRUTH, **THIRD, label=f"the true count, {TRUTH}")
    axes.set(xlabel="number of answers k", ylabel="count", xlim=(0, k[-1]), ylim=(TRUTH - reach, TRUTH + reach))
    axes.annotate(
        f"the cost of all: certified ε = {n['certified']:.4g}\n"
        f"(sequential: {n['sequential']:.4g}, as printed: {n['as printed']:.4g})",
        (0.985, 0.035), xycoords="axes fraction", ha="right", fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "#bbbbbb"},
    )  # fmt: skip
    axes.legend(loc="upper right")


def _composition_figure(name: str, compute: Callable[..., dict[str, Any]], words: str, errata: tuple[int, ...]) -> Figure:
    return Figure(
        name, "Sequential against advanced composition, k ≤ {k}, δ = {delta}", words,
        "[N1], advanced composition; exact by [KOV15]", compute, _paint_composition, errata,
    )  # fmt: skip


COMPOSITION_100 = _composition_figure(
    "composition-100",
    _composition_100,
    "Sequential composition is better for few releases. In units of the ε of one, the textbook's lines are the same for "
    "every "
    "ε; the exact cost of k randomised responses is not.",
    (1, 6),
)
COMPOSITION_10000 = _composition_figure(
    "composition-10000",
    _composition_10000,
    "At a small ε the short form is a bound, though not tight. At ε = 1, as in the text, the exact cost exceeds it.",
    (1,),
)
AVERAGING = Figure(
    "averaging",
    "Averaging {answers} answers of a query of sensitivity 1",
    "Each answer is noisy, and their mean is close to the true count. Together they cost far more than one answer, and a "
    "budget refuses them.",
    "[N1], averaging attack",
    _averaging, _paint_averaging, (1,),
)  # fmt: skip


# -- parallel composition: counts by gender and hair colour ----------------------------------------------------------------

GENDERS = ("female", "male")
COLOURS = ("blond", "brown", "black", "red")
COUNTS = ((20, 32, 27, 9), (18, 40, 35, 10))
"""[B2]'s table, one row per gender. The text's order of columns is kept; the names of the columns are ours."""


def _cells(epsilon: Fraction = Fraction(1)) -> dict[str, Any]:
    exact = np.array(COUNTS).ravel()
    together = Laplace.for_epsilon(epsilon, histogram())
    apart = Laplace.for_epsilon(epsilon / exact.size, histogram())
    return {
        "cell": [f"{gender}, {colour}" for gender in GENDERS for colour in COLOURS],
        "exact": exact,
        "private at ε": together.release(exact, seeded_bits(8)),
        "private at ε/8": apart.release(exact, seeded_bits(9)),
        "scale at ε": float(together.scale),
        "scale at ε/8": float(apart.scale),
        "error at ε, 95%": together.error(0.95, exact.size),
        "error at ε/8, 95%": apart.error(0.95, exact.size),
    }


def _paint_cells(axes: Axes, n: Numbers) -> None:
    place = np.arange(len(n["cell"]))
    axes.bar(place - 0.27, n["exact"], 0.26, color=BLACK, alpha=0.55, label="exact, not private")
    axes.bar(
        place, n["private at ε"], 0.26, color=BLUE, hatch="///", edgecolor="white",
        label=f"each at ε, which costs ε: all within {n['error at ε, 95%']:g} (95%)",
    )  # fmt: skip
    axes.bar(
        place + 0.27, n["private at ε/8"], 0.26, color=ORANGE, hatch="...", edgecolor="white",
        label=f"each at ε/8, for no reason: all within {n['error at ε/8, 95%']:g} (95%)",
    )  # fmt: skip
    axes.set_xticks(place, [cell.replace(", ", " ") for cell in n["cell"]], fontsize=8)
    axes.set(ylabel="people", xlabel="cell", ylim=(min(0, n["private at ε/8"].min()), None))
    axes.legend(loc="upper right")


CELLS = Figure(
    "cells",
    "Counts by gender and hair colour at ε = {epsilon}: 2 × 4 disjoint cells",
    "One person is in one cell: by parallel composition all eight counts cost ε, not 8ε, if one person is added or removed.",
    "[B2], parallel composition",
    _cells, _paint_cells,
)  # fmt: skip
