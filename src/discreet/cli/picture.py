"""δ(ε) of a ledger, with what each other reading says about it. Needs the extra `plot`."""

from fractions import Fraction
from math import isfinite, log10
from typing import Any

from discreet.accounting.compare import compare_guarantees
from discreet.accounting.curve import delta as certified_delta
from discreet.errors import BadParameter
from discreet.events import Event
from discreet.paths import reason_of

POINTS = 8


def draw_curve(loss: Event, delta: Fraction, path: str) -> None:
    """Write the picture to `path`: the certified curve, and the curve that every other reading promises."""
    plt = _load_pyplot(path)
    promised = _compute_guarantees(loss, delta)
    reach = 1.05 * min((line[-1][0] for line in promised.values()), default=1.0)
    points = [reach * i / 60 for i in range(61)]
    figure, axes = plt.subplots(figsize=(8, 5))
    curve = [float(certified_delta(loss, Fraction(point))) for point in points]
    axes.plot(points, curve, color="#0072B2", linewidth=2.5, label="certified δ(ε), upper bound")
    axes.axhline(float(delta), color="0.6", linewidth=1, linestyle=":")
    for (name, line), colour in zip(promised.items(), _COLOURS, strict=False):
        axes.plot(*zip(*line, strict=True), "o-", color=colour, markersize=3, linewidth=1, label=name)
    axes.set(yscale="log", xlabel="ε", ylabel="δ", title="What the whole ledger costs", ylim=(float(delta) / 100, 1))
    axes.legend()
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as failed:
        raise BadParameter("--plot", path, reason_of(failed), "name a .png file in a folder that exists") from None
    finally:
        plt.close(figure)


def _load_pyplot(path: str) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise BadParameter("--plot", path, "matplotlib is not installed", "pip install 'discreet[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _compute_guarantees(loss: Event, delta: Fraction) -> dict[str, list[tuple[float, float]]]:
    """Each reading's (ε, δ) at a few δ's, for the readings that say something within three times the best of them."""
    from rich.console import Console
    from rich.progress import track

    low, high = log10(float(delta)) - 2, -1.0
    deltas = [10 ** (high + (low - high) * i / (POINTS - 1)) for i in range(POINTS)]
    swept = [compare_guarantees(loss, d) for d in track(deltas, "reading …", console=Console(stderr=True), transient=True)]
    lines = {name: [(side[name], d) for side, d in zip(swept, deltas, strict=True)] for name in swept[0]}
    finite = {name: line for name, line in lines.items() if all(isfinite(eps) for eps, _ in line)}
    best = min((line[-1][0] for line in finite.values()), default=1.0)
    return {name: line for name, line in finite.items() if line[-1][0] <= 3 * best}


_COLOURS = ["#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]  # Okabe and Ito: safe for all eyes
