"""δ(ε) of a ledger, with what each other reading says about it. Needs the extra `plot`."""

from fractions import Fraction
from math import isfinite

from discreet.accounting.curve import delta as certified_delta
from discreet.errors import BadParameter
from discreet.loss import Loss


def draw_curve(loss: Loss, readings: dict[str, float], delta: Fraction, path: str) -> None:
    """Write the picture to `path`."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise BadParameter("--plot", path, "matplotlib is not installed", "pip install 'discreet[plot]'") from None
    finite = sorted(value for value in readings.values() if isfinite(value) and value > 0)
    reach = 1.3 * finite[0] if finite else 1.0
    points = [reach * i / 60 for i in range(61)]
    figure, axes = plt.subplots(figsize=(8, 5))
    curve = [float(certified_delta(loss, Fraction(point))) for point in points]
    axes.plot(points, curve, color="#0072B2", linewidth=2, label="certified δ(ε), upper bound")
    axes.axhline(float(delta), color="0.6", linewidth=1, linestyle=":")
    for (name, value), colour in zip(readings.items(), _COLOURS, strict=False):
        if isfinite(value) and value <= 3 * reach:
            axes.plot([value], [float(delta)], "o", color=colour, label=f"{name}: ε = {value:.4g}")
    axes.set(yscale="log", xlabel="ε", ylabel="δ", title="What the whole ledger costs")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


_COLOURS = ["#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]  # Okabe and Ito: safe for all eyes
