"""How much noise k queries need, and what k Gaussians cost in each notion of privacy."""

from fractions import Fraction
from math import log, sqrt
from typing import Any

from discreet.accounting.conversions import epsilon_from_rdp_classic, epsilon_from_zcdp, epsilon_from_zcdp_classic
from discreet.accounting.curve import epsilon as certified
from discreet.accounting.renyi import renyi
from discreet.accounting.textbook import advanced_composition
from discreet.accounting.zcdp import zcdp
from discreet.exact import to_rational
from discreet.lab.figures.figure import Axes, Figure, Numbers
from discreet.lab.figures.pens import EXACT, FIRST, FOURTH, MARK, SECOND, SKY, THIRD, WRONG
from discreet.mechanisms import Gaussian, Laplace
from discreet.units import counts

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
    """ε and δ of each of k releases by advanced composition at ε = 1: half of δ for the theorem, half shared out [N2]."""
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
    axes.plot(k, n["exact"], **EXACT, label="exact, for both: Gaussians compose without loss")
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
    """Each Gaussian at δ/2k by the classical rule read backwards, then the theorem at δ/2."""
    each = DELTA / (2 * k)
    return float(advanced_composition(sqrt(2 * log(1.25 / each)) / SIGMA, k, DELTA / 2, each).epsilon)


def _paint_variants(axes: Axes, n: Numbers) -> None:
    k = n["k"]
    axes.plot(k, n["advanced"], **FIRST, label="advanced composition of (ε, δ)")
    axes.plot(
        k,
        n["RDP, α = 20"],
        **WRONG,
        label=f"RDP at α = 20: touches zCDP at k = {n['α = 20 touches']:,.0f}, far to the right",
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
    "Laplace noise for k counts at ε = 1: asked one by one, or at once",
    "The lines are one. Adding up ε is tight for pure privacy: nothing is gained by asking all at once.",
    "[N2], first noise plot",
    _noise_l1, _paint_noise_l1, (5,),
)  # fmt: skip
NOISE_L2 = Figure(
    "noise-l2",
    "Gaussian noise for k counts at ε = 1, δ = 1e-5: one by one, or at once",
    "By the theorem the same queries need 100 to 140 times the variance when they are asked one by one. That is the "
    "theorem's doing: Gaussians compose without loss, so the truth is one line for both, below the textbook's best.",
    "[N2], second noise plot; exact σ by [BW18]",
    _noise_l2, _paint_noise_l2, (4,),
)  # fmt: skip
VARIANTS = Figure(
    "variants",
    "What k Gaussian answers cost: σ = 200, δ = 1e-5",
    "Each notion of privacy is a way to account for the same noise; the exact cost is what they all bound from above.",
    "[N2], comparison of variants; improved conversion by [CKS20]",
    _variants, _paint_variants, (4,),
)  # fmt: skip
