"""Noise for k queries, and the cost of k Gaussians in each notion: the figures of [N2] at its parameters.

The last figure is of a notion that does not compose: two k-anonymous tables, and what an attacker learns from both [S4,
figs. 1 and 2].
"""

from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np

from discreet._numbers import to_rational
from discreet.accounting.conversions import (
    epsilon_from_rdp,
    epsilon_from_rdp_classic,
    epsilon_from_zcdp,
    epsilon_from_zcdp_classic,
)
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.renyi import find_best_order, renyi
from discreet.accounting.textbook import advanced_composition
from discreet.accounting.zcdp import zcdp
from discreet.lab.anonymity import (
    ALICE,
    FOUR_ANONYMOUS,
    QUASI_IDENTIFIERS,
    SIX_ANONYMOUS,
    candidates,
    covers,
    find_leaks,
    k_anonymity,
)
from discreet.lab.errata import printed_short_form
from discreet.lab.figures.figure import (
    BLACK,
    BLUE,
    EXACT,
    FIRST,
    FOURTH,
    GREEN,
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
from discreet.units import counts

SIGMA, DELTA = Fraction(200), Fraction(1, 10**5)
USUAL_ORDERS = range(2, 101)
"""The orders that [N2] searches."""


def _spread(k: int, parts: int) -> list[int]:
    """1 to k, all of them or about `parts` of them."""
    return sorted({1, *(max(1, round(k * i / parts)) for i in range(1, parts + 1))})


def _noise_l1(epsilon: Fraction = Fraction(1, 10), k: int = 10) -> dict[str, Any]:
    ks = _spread(k, 100)
    return {
        "k": ks,
        "sequential": [float(Laplace.for_epsilon(epsilon / n, sensitivity=1).scale) for n in ks],
        "vectorised": [float(Laplace.for_epsilon(epsilon, counts(n)).scale) for n in ks],
    }


def _paint_noise_l1(axes: Axes, n: Numbers) -> None:
    axes.plot(n["k"], n["sequential"], color=SKY, linewidth=7, alpha=0.7, label="k queries, each at ε/k")
    axes.plot(n["k"], n["vectorised"], **EXACT, label="one query with k answers, Δ₁ = k")
    axes.set(xlabel="number of counts k", ylabel="scale of the Laplace noise on each", xlim=(0, n["k"][-1]), ylim=(0, None))
    axes.legend(loc="upper left")


def split_by_theorem(k: int, delta: Fraction, epsilon: Fraction = Fraction(1)) -> tuple[float, Fraction]:
    """Return ε and δ of each of k releases by advanced composition: δ/2 for the theorem, δ/2 divided [N2]."""
    return float(epsilon) / (2 * sqrt(2 * k * log(2 / delta))), delta / (2 * k)


def _noise_l2(epsilon: Fraction = Fraction(1, 10), delta: Fraction = DELTA, k: int = 100) -> dict[str, Any]:
    ks, squared = _spread(k, 25), float(epsilon) ** 2
    return {
        "k": ks,
        "as plotted": [16 * n * log(1 / delta) * log(1.25 / delta) / squared for n in ks],
        "sequential": [
            float(Gaussian.for_epsilon(*split_by_theorem(n, delta, epsilon), 1, "classical-1.25").sigma) ** 2 for n in ks
        ],
        "vectorised": [float(Gaussian.for_epsilon(epsilon, delta, counts(n), "classical-1.25").sigma) ** 2 for n in ks],
        "exact": [float(Gaussian.for_epsilon(epsilon, delta, counts(n)).sigma) ** 2 for n in ks],
    }  # fmt: skip


def _paint_noise_l2(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    axes.plot(k, n["sequential"], **FIRST, label="k queries by advanced composition: 16k·ln(2/δ)·ln(2.5k/δ)/ε²")
    axes.plot(
        k, n["as plotted"], **WRONG, label=f"as plotted in the text, with δ for δ/2 and δ/2k: {n['as plotted'][-1]:.3g}"
    )
    axes.plot(k, n["vectorised"], **SECOND, label="one query with k answers, Δ₂ = √k: 2k·ln(1.25/δ)/ε²")
    axes.plot(k, n["exact"], **EXACT, label="ours, exact, for both: composition of Gaussians is tight")
    axes.set(
        xlabel="number of counts k",
        ylabel="variance of the Gaussian noise on each",
        yscale="log",
        xlim=(0, k[-1] * 1.01),
        ylim=(n["exact"][0] / 2, n["sequential"][-1] * 30),
    )
    axes.legend(loc="upper left")


def _variants(sigma: Fraction = SIGMA, delta: Fraction = DELTA, k: int = 500) -> dict[str, Any]:
    ks = _spread(k, 50)
    once = Gaussian(sigma).event(1)
    rho = to_rational(zcdp(once))
    by_order = {
        order: [epsilon_from_rdp_classic(order, to_rational(renyi(once * n, order)), delta) for n in ks]
        for order in (20, 60)
    }
    each = sqrt(2 * log(1.25 / delta)) / float(sigma)
    return {
        "k": ks,
        "advanced, as printed": [printed_short_form(each, n, float(delta)) for n in ks],
        "advanced": [_advanced(n, sigma, delta) for n in ks],
        "moments, as in the code": [4 * sqrt(n * log(1 / delta)) / float(sigma) for n in ks],
        "zCDP": [epsilon_from_zcdp_classic(n * rho, delta) for n in ks],
        "zCDP, improved": [epsilon_from_zcdp(n * rho, delta) for n in ks],
        "RDP, α = 20": by_order[20],
        "RDP, α = 60": by_order[60],
        "exact": [float(certified(once * n, delta)) for n in ks],
        "δ of the printed line at the end": float((k + 1) * delta),
        "α = 60 touches": float(2 * sigma**2) * log(1 / delta) / 59**2,
        "α = 20 touches": float(2 * sigma**2) * log(1 / delta) / 19**2,
    }


def _advanced(k: int, sigma: Fraction, delta: Fraction) -> float:
    """Return ε of k Gaussians: each at δ/2k by the inverse of the classical rule, then the theorem at δ/2."""
    each = delta / (2 * k)
    return float(advanced_composition(sqrt(2 * log(1.25 / each)) / float(sigma), k, delta / 2, each).epsilon)


def _paint_variants(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    real = float(n["δ of the printed line at the end"])
    axes.plot(
        k, n["advanced, as printed"], **WRONG,
        label=f"advanced, as printed: {n['advanced, as printed'][-1]:.3f}, proven at δ = {real:.3g}",
    )  # fmt: skip
    axes.plot(k, n["advanced"], **FIRST, label=f"advanced, with δ split: {n['advanced'][-1]:.3f}")
    axes.plot(
        k, n["moments, as in the code"], linestyle=(0, (1, 1)), color="#56B4E9", linewidth=2.0,
        label=f"moments, commented out in the code: {n['moments, as in the code'][-1]:.3f}",
    )  # fmt: skip
    touches = float(n["α = 60 touches"])
    axes.plot(k, n["RDP, α = 60"], **FOURTH, label=f"RDP at α = 60: touches zCDP at k = {touches:,.0f}")
    axes.plot(k, n["zCDP"], **SECOND, label=f"zCDP, which is RDP at the best α: {n['zCDP'][-1]:.3f}")
    axes.plot(k, n["zCDP, improved"], **THIRD, label=f"zCDP by the improved conversion: {n['zCDP, improved'][-1]:.3f}")
    axes.plot(k, n["exact"], **EXACT, label=f"exact, the certified curve: {n['exact'][-1]:.3f}")
    if touches < k[-1]:
        axes.axvline(touches, **MARK)
    axes.set(xlabel="number of releases k", ylabel="ε", xlim=(0, k[-1]), ylim=(0, 1.6 * n["advanced, as printed"][-1]))
    axes.legend(loc="upper left")


def _orders(sigma: Fraction = SIGMA, delta: Fraction = DELTA, k: int = 500) -> dict[str, Any]:
    event = Gaussian(sigma).event(1) * k
    divergences = [(order, to_rational(renyi(event, order))) for order in USUAL_ORDERS]
    classic = find_best_order(event, delta, USUAL_ORDERS, refine=0, classic=True)
    improved = find_best_order(event, delta, USUAL_ORDERS, refine=0)
    return {
        "α": list(USUAL_ORDERS),
        "classic": [epsilon_from_rdp_classic(order, divergence, delta) for order, divergence in divergences],
        "improved": [epsilon_from_rdp(order, divergence, delta) for order, divergence in divergences],
        "exact": np.full(len(USUAL_ORDERS), float(certified(event, delta))),
        "best α, classic": classic.order,
        "ε there, classic": classic.epsilon,
        "best α, improved": improved.order,
        "ε there, improved": improved.epsilon,
        "zCDP, classic": epsilon_from_zcdp_classic(to_rational(zcdp(event)), delta),
    }


def _paint_orders(axes: Axes, n: Numbers) -> None:
    order = n["α"]
    for name, pen, words in (("classic", FIRST, "ε̄ + ln(1/δ)/(α − 1)"), ("improved", SECOND, "the improved conversion")):
        best, least = float(n[f"best α, {name}"]), float(n[f"ε there, {name}"])
        axes.plot(order, n[name], **pen, label=f"{words}: ε = {least:.5f} at α = {best:.0f}")
        axes.plot([best], [least], "o", color=pen["color"], markersize=7)
    axes.plot(order, n["exact"], **EXACT, label=f"exact, the certified curve: ε = {n['exact'][0]:.5f}")
    axes.set(xlabel="order α", ylabel="ε", xlim=(2, 100), ylim=(0, 4 * n["ε there, classic"]))
    axes.legend(loc="upper right")


NOISE_L1 = Figure(
    "noise-l1",
    "Laplace noise for k counts at ε = {epsilon}: one by one, or at once",
    "The two lines coincide: sequential composition is tight for pure DP.",
    "[N2], first noise plot",
    _noise_l1, _paint_noise_l1, (5,),
)  # fmt: skip
NOISE_L2 = Figure(
    "noise-l2",
    "Gaussian noise for k counts at ε = {epsilon}, δ = {delta}: one by one, or at once",
    "By the theorem, queries that are asked one by one need 100 and more times the variance. The exact line is the same for "
    "both.",
    "[N2], second noise plot; exact σ by [BW18]",
    _noise_l2, _paint_noise_l2, (4, 11),
)  # fmt: skip
VARIANTS = Figure(
    "variants",
    "What k Gaussian answers cost: σ = {sigma}, δ = {delta}",
    "Each notion is a way to account for the same noise.",
    "[N2], comparison of variants; improved conversion by [CKS20]",
    _variants, _paint_variants, (4, 10),
)  # fmt: skip
ORDERS = Figure(
    "orders",
    "ε of {k} Gaussian answers by RDP, for each order α: σ = {sigma}, δ = {delta}",
    "Each order gives a valid ε, so the least one counts; no data is needed to choose it.",
    "[N2], choice of α; improved conversion by [CKS20]",
    _orders, _paint_orders,
)  # fmt: skip


def _numbers() -> dict[str, Any]:
    leaks = find_leaks(FOUR_ANONYMOUS)
    first, second = (candidates(table, ALICE) for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))
    return {
        "first": [[row[name] for name in (*QUASI_IDENTIFIERS, "condition")] for row in FOUR_ANONYMOUS],
        "second": [[row[name] for name in (*QUASI_IDENTIFIERS, "condition")] for row in SIX_ANONYMOUS],
        "k of the first": k_anonymity(FOUR_ANONYMOUS, QUASI_IDENTIFIERS),
        "k of the second": k_anonymity(SIX_ANONYMOUS, QUASI_IDENTIFIERS),
        "groups with one condition": [f"{age}: {condition}" for (_, age, _), condition in leaks.same_in_group.items()],
        "absent from the first": list(leaks.absent),
        "possible by the first": sorted(first),
        "possible by the second": sorted(second),
        "possible by both": sorted(first & second),
    }


def _paint(axes: Axes, n: Numbers) -> None:
    axes.set(xlim=(-1, 100), ylim=(0, 100))
    axes.axis("off")
    for left, table, colour in ((0, "first", BLUE), (53, "second", GREEN)):
        axes.text(
            left, 96, f"{table} hospital: {n[f'k of the {table}']}-anonymous", fontweight="bold", color=colour, va="center"
        )
        for x, heading in zip((0, 9, 18, 30), ("zip", "age", "nation", "condition"), strict=True):
            axes.text(left + x, 90, heading, fontsize=9, style="italic", va="center")
        axes.plot([left, left + 47], [87, 87], color="#999999", linewidth=0.8)
        for i, (place, age, nation, condition) in enumerate(n[table]):
            y, hers = 83 - 5.6 * i, covers(age, ALICE["age"])
            if hers:
                axes.fill_between([left - 1, left + 47], y - 2.8, y + 2.8, color=colour, alpha=0.16, linewidth=0)
            in_both = hers and condition in n["possible by both"]
            for x, text in zip((0, 9, 18, 30), (place, age, nation, condition), strict=True):
                axes.text(
                    left + x, y, text, fontsize=9, va="center", fontweight="bold" if in_both else "normal",
                    color=VERMILLION if in_both else BLACK,
                )  # fmt: skip
    words = [", ".join(n[f"possible by the {table}"]) for table in ("first", "second")]
    alone = (
        f"The first table alone: everyone aged {'; '.join(n['groups with one condition']).replace(': ', ' has ').lower()}"
    )
    axes.text(0, 16, f"{alone}; no one has: {', '.join(n['absent from the first'])}.", va="center", fontsize=9)
    axes.text(0, 11, "A 28-year-old in zip 13012 is in a shaded group of both tables.", va="center", fontweight="bold")
    axes.text(0, 5.5, f"first: {words[0]}; second: {words[1]}", va="center", fontsize=9)
    axes.text(0, 0, f"in both: {', '.join(n['possible by both'])}", va="center", color=VERMILLION, fontweight="bold")


K_ANONYMITY = Figure(
    "k-anonymity",
    "Two k-anonymous tables, one identified person",
    "Every combination of zip, age and nationality occurs at least 4 times in one table and 6 times in the other; yet one "
    "table reveals the thirties, and both together one person.",
    "[S4, figs. 1 and 2]",
    _numbers, _paint,
)  # fmt: skip
