"""The bias of a coin, estimated from n people who each tossed it: openly, by randomised response, with Laplace noise."""

from collections.abc import Iterator
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.lab.figures.figure import BLACK, BLUE, EXACT, FIRST, GREEN, SECOND, THIRD, Axes, Figure, Numbers
from discreet.mechanisms import Laplace, RandomizedResponse
from discreet.noise import Bits, bernoulli
from discreet.testing import seeded_bits

BIAS, EPSILON, RUNS = Fraction(1, 4), Fraction(1, 2), 10_000
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
_TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_AT_ONCE = 20_000  # tosses held in memory


def simulate_estimates(n: int, runs: int = RUNS, seed: int | None = None) -> dict[str, NDArray[np.float64]]:
    """The three estimates of the bias, over `runs` repetitions of the whole experiment. The same tosses serve all three."""
    bits = seeded_bits(10_000 + n if seed is None else seed)
    response, laplace = RandomizedResponse.for_epsilon(EPSILON), Laplace.for_epsilon(EPSILON, sensitivity=1)
    heads, said = (np.concatenate(parts) for parts in zip(*_simulate_runs(n, runs, response, bits), strict=True))
    gap = float(response.truth - response.other)  # as `RandomizedResponse.estimate`, for all runs at once
    return {
        "open": heads / n,
        "response": (said - n * float(response.other)) / gap / n,
        "laplace": laplace.release(heads, bits) / n,
    }


def _simulate_runs(
    n: int, runs: int, response: RandomizedResponse, bits: Bits
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Heads among n people, and how many of them say so; a few runs at a time."""
    rows = max(1, _AT_ONCE // n)
    for first in range(0, runs, rows):
        shape = (min(rows, runs - first), n)
        tossed = bernoulli(BIAS, shape[0] * n, bits).reshape(shape).astype(np.int64)
        yield tossed.sum(axis=1), response.release(tossed, bits).sum(axis=1)


def exact_deviations(n: Any) -> dict[str, Any]:
    """What the three standard deviations are: the tosses' own, and the noise's on top of it."""
    sizes = np.asarray(n, float)
    tossed = float(BIAS * (1 - BIAS)) / sizes
    odds, decay = exp(EPSILON), exp(-EPSILON)
    return {
        "open": np.sqrt(tossed),
        "response": np.sqrt(tossed + odds / (odds - 1) ** 2 / sizes),
        "laplace": np.sqrt(tossed + 2 * decay / (1 - decay) ** 2 / sizes**2),
    }


def _sd() -> dict[str, Any]:
    seen = [simulate_estimates(n) for n in SIZES]
    line = np.geomspace(SIZES[0], SIZES[-1], 60)
    return {
        "n": SIZES,
        **{f"{name}, simulated": [run[name].std(ddof=1) for run in seen] for name in ("open", "response", "laplace")},
        "line n": line,
        **{f"{name}, exact": values for name, values in exact_deviations(line).items()},
    }


_WORDS = {"open": "without privacy", "response": "randomised response", "laplace": "Laplace noise on the count"}


def _paint_sd(axes: Axes, n: Numbers) -> None:
    for (name, words), pen, mark in zip(_WORDS.items(), (EXACT, SECOND, FIRST), "os^", strict=True):
        axes.plot(n["line n"], n[f"{name}, exact"], **pen)
        axes.plot(n["n"], n[f"{name}, simulated"], mark, color=pen["color"], markersize=7)
        axes.plot([], [], **pen, marker=mark, markersize=7, label=words)
    axes.set(
        xscale="log", yscale="log", xlabel="number of people n", ylabel="standard deviation of the estimated bias",
        ylim=(0.005, 0.6),
    )  # fmt: skip
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.legend(loc="upper right")


def _histogram() -> dict[str, Any]:
    found = simulate_estimates(100)
    response = RandomizedResponse.for_epsilon(EPSILON)
    said = np.arange(101.5) - 0.5 - 100 * float(response.other)  # between any two numbers of people who can say yes
    edges = {
        "open": np.arange(-0.105, 0.6, 0.02),  # two whole percents to a bin
        "laplace": np.arange(-0.105, 0.6, 0.02),
        "response": said / float(response.truth - response.other) / 100,
    }
    heights = {name: np.histogram(values, edges[name])[0] / RUNS / np.diff(edges[name]) for name, values in found.items()}
    return {**{f"{name}, edges": values for name, values in edges.items()}, **heights}


def _paint_histogram(axes: Axes, n: Numbers) -> None:
    looks = (("open", BLACK, "", 0.25), ("laplace", BLUE, "///", 0.3), ("response", GREEN, "...", 0.3))
    for name, colour, hatch, shade in looks:
        axes.stairs(n[name], n[f"{name}, edges"], fill=True, color=colour, alpha=shade)
        axes.stairs(n[name], n[f"{name}, edges"], color=colour, linewidth=1.8, hatch=hatch, label=_WORDS[name])
    axes.axvline(float(BIAS), **THIRD, label="the true bias, 1/4")
    axes.set(xlabel="estimated bias of the coin", ylabel=f"density over {RUNS:,} runs", xlim=(-0.5, 1.0))
    axes.legend(loc="upper right")


COIN_SD = Figure(
    "coin-sd",
    "How well a coin's bias is known: p = 1/4, ε = 1/2",
    "Marks: 10,000 runs each; lines: the formula. Laplace noise on the count fades like 1/n and is soon lost in the coin's "
    "own chance; randomised response needs no trusted curator and pays for it for ever: its error keeps a constant factor "
    "above the open one.",
    "[S4, fig. 5]",
    _sd, _paint_sd,
)  # fmt: skip
COIN_HISTOGRAM = Figure(
    "coin-histogram",
    "A coin's bias from 100 people: p = 1/4, ε = 1/2",
    "Ten thousand repetitions of the same survey. All three are right on average; randomised response is the widest, and "
    "says now and then that the bias is negative or above a half.",
    "[S4, fig. 5], histogram at n = 100",
    _histogram, _paint_histogram,
)  # fmt: skip
