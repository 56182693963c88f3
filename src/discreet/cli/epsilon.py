"""`discreet epsilon`: the certified ε of a composition at δ, or its δ at ε, and a picture of the whole curve.

The picture needs the extra `lab`.
"""

from fractions import Fraction
from itertools import cycle
from math import inf, isfinite, log10
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import ACCOUNTING, app
from discreet.cli.options import Json
from discreet.cli.output import parse_number, print_json, print_styled, print_table
from discreet.errors import BadParameter
from discreet.paths import check_picture_path

if TYPE_CHECKING:
    from discreet._numbers import Bounds
    from discreet.events import Event

POINTS = 25
"""Of each curve: chords between fewer would lie visibly beside it."""
DASHES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3))]
"""One pattern per curve, so that one under another still shows."""
WIDE = 1.02
"""An interval whose ends are further apart than this factor is explained."""
COLOURS = ["#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]  # Okabe and Ito: safe for all eyes


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog='Example: [bold]discreet epsilon "1000*laplace(scale=31.6) + gaussian(sigma=5)*9" --delta 1e-6 --readings[/bold]',
)
def epsilon(
    expression: Annotated[str, typer.Argument(help='A composition: "1000*laplace(scale=31.6) + claim(epsilon=1)".')],
    delta: Annotated[str | None, typer.Option(help="Print ε at this δ.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Or print δ at this ε.")] = None,
    readings: Annotated[bool, typer.Option("--readings", help="Show the ε that each notion of privacy guarantees.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw δ(ε), with the guarantee of each notion, into this file.")] = None,
    json: Json = False,
) -> None:
    """Compute the certified ε of a composition at δ, or its δ at ε, as a proven interval.

    Noise: laplace(scale=), gaussian(sigma=), discrete_laplace(scale=),
    discrete_gaussian(sigma=) and binomial(n=), with sensitivity= (1 unless
    given) or norms l0=, l1=, l2=, linf=.

    Other events: response(epsilon=), set_response(odds=, share=, pair=),
    exponential(epsilon=), claim(epsilon=, delta=), threshold(scale=,
    threshold=, groups=).

    Training with DP-SGD and Poisson sampling: dpsgd(sigma=, batch=, n=,
    epochs=), or rate= for batch/n and steps= for epochs; sigma is the noise
    multiplier.

    Made of events: subsampled(x, rate=) (Poisson), sampled(x, rate=) (without
    replacement), shuffled(x, users=), group(x, size=), parallel(x, y); k*x and
    x*k repeat an event.
    """
    if delta is None and epsilon is None:
        raise BadParameter("--delta", "missing", "ε depends on δ", "give --delta 1e-6 to print ε, or --epsilon 1 to print δ")
    if delta is not None and epsilon is not None:
        raise BadParameter("--epsilon", epsilon, "--delta is given too", "give one of the two; the other is printed")
    if epsilon is not None and (readings or plot):
        flag = "--readings" if readings else "--plot"
        raise BadParameter(flag, "given with --epsilon", "it shows ε at a δ", "give --delta instead of --epsilon")
    if plot is not None:
        check_picture_path(plot, "--plot")
    if delta is None:
        _print_delta(expression, str(epsilon), as_json=json)
    else:
        _print_epsilon(expression, delta, compare=readings, plot=plot, as_json=json)


app.command(
    "account", hidden=True, rich_help_panel=ACCOUNTING, epilog="discreet account is the former name of discreet epsilon."
)(epsilon)


def _print_delta(expression: str, epsilon: str, *, as_json: bool) -> None:
    from discreet.accounting.curve import delta as certified_delta
    from discreet.accounting.expression import parse_with_notes

    (event, notes), at = parse_with_notes(expression), parse_number(epsilon, "epsilon")
    bounds = certified_delta(event, at)
    if as_json:
        print_json({"delta": to_json_interval(bounds), "epsilon": float(at), **_list_notes(notes)})
        return
    print_table(f"δ at ε = {float(at):g}", ["guarantee", "δ"], [("certified", _format_interval(bounds))])
    _print_notes(expression, (*explain_width(bounds, "δ"), *notes))


def _print_epsilon(expression: str, delta: str, *, compare: bool, plot: str | None, as_json: bool) -> None:
    from discreet._numbers import format_up
    from discreet.accounting.compare import compare_guarantees
    from discreet.accounting.cost import format_at
    from discreet.accounting.curve import epsilon as certified_epsilon
    from discreet.accounting.expression import parse_with_notes

    (event, notes), target = parse_with_notes(expression), parse_number(delta, "delta")
    bounds = certified_epsilon(event, target)
    guarantees = compare_guarantees(event, target) if compare else {}
    if plot:
        _draw_curve(event, target, plot)
    if as_json:
        print_json(
            {"epsilon": to_json_interval(bounds), "delta": float(target), "readings": guarantees, **_list_notes(notes)}
        )
        return
    rows, best = [("certified", _format_interval(bounds), "")], float(bounds)
    rows += [
        (name, "∞" if value == inf else format_up(value, 6), _format_excess(value, best))
        for name, value in guarantees.items()
    ]
    print_table(f"ε{format_at(target) or ' at δ = 0'}", ["guarantee", "ε", "above the certified"], rows)
    _print_notes(expression, (*explain_width(bounds, "ε"), *notes))
    if bounds.lower == inf:
        print_styled(
            "No ε holds without a δ: Gaussian noise, partition selection and (ε, δ) claims need one. Give --delta 1e-6."
            if target == 0
            else "No ε holds at this δ: the δ of claims, partition selection and bounded noise (a binomial) alone exceeds "
            "it. Give a larger --delta."
        )
    if plot:
        print_styled(f"Picture written to {plot}.")


def explain_width(bounds: "Bounds", symbol: str) -> tuple[str, ...]:
    """Say which end is the guarantee where the two are visibly apart.

    >>> from discreet._numbers import Bounds
    >>> explain_width(Bounds(2.0, 2.01), "ε"), explain_width(Bounds(0.0, inf), "ε")[0][:22]
    ((), 'No finite ε is proven.')
    """
    if bounds.upper <= WIDE * bounds.lower or bounds.upper == bounds.lower:
        return ()
    why = "discreet help accounting#where-it-is-slow-or-wide"
    if bounds.upper == inf:
        return (f"No finite {symbol} is proven. Why: {why}",)
    return (f"The guarantee to publish is the upper end; no {symbol} below the lower end holds. Why they differ: {why}",)


def _format_interval(bounds: "Bounds") -> str:
    from discreet._numbers import format_down, format_up

    if bounds.lower == inf:
        return "∞"
    return f"[{format_down(bounds.lower, 12)}, {'∞' if bounds.upper == inf else format_up(bounds.upper, 12)}]"


def _list_notes(notes: tuple[str, ...]) -> dict[str, list[str]]:
    return {"notes": list(notes)} if notes else {}


def _print_notes(expression: str, notes: tuple[str, ...]) -> None:
    for note in notes:
        print_styled(note)
    if "laplace(" in expression.replace("discrete_laplace(", ""):
        print_styled("laplace is the continuous distribution; discreet draws discrete_laplace, which costs a little more.")


def _format_excess(value: float, best: float) -> str:
    if not 0 < best < inf or value == inf:
        return ""
    return f"{value / best - 1:+.1%}".replace("-0.0%", "+0.0%")  # both are rounded up


def to_json_interval(bounds: "Bounds") -> dict[str, Any]:
    """The ends of a proven interval, for JSON."""
    return {"lower": bounds.lower, "upper": bounds.upper}


def _draw_curve(event: "Event", delta: Fraction, path: str) -> None:
    """Draw the certified curve, and the curve that each notion guarantees."""
    from discreet.accounting.curve import delta as certified_delta
    from discreet.paths import reason_of

    plt = _load_pyplot(path)
    guarantees = _compute_guarantees(event, delta)
    reach = 1.05 * min((line[-1][0] for line in guarantees.values()), default=1.0)
    points = [reach * i / 120 for i in range(121)]
    figure, axes = plt.subplots(figsize=(8, 5))
    curve = [float(certified_delta(event, Fraction(point))) for point in points]
    axes.plot(points, curve, color="#0072B2", linewidth=2.5, label="certified δ(ε), upper bound")
    axes.axhline(float(delta), color="0.6", linewidth=1, linestyle=":")
    for (name, line), colour, dash in zip(guarantees.items(), cycle(COLOURS), cycle(DASHES), strict=False):
        axes.plot(*zip(*line, strict=True), color=colour, linestyle=dash, linewidth=1.4, label=name)
    axes.set(yscale="log", xlabel="ε", ylabel="δ", title="Privacy curve of the composition", ylim=(float(delta) / 100, 1))
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
        raise BadParameter("--plot", path, "matplotlib is not installed", "pip install 'discreet[lab]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _compute_guarantees(event: "Event", delta: Fraction) -> dict[str, list[tuple[float, float]]]:
    """Each notion's (ε, δ) at a few δ, for the notions that guarantee something within three times the best of them."""
    from rich.console import Console
    from rich.progress import track

    from discreet.accounting.compare import compare_guarantees

    low, high = log10(float(delta)) - 2, -1.0
    deltas = [10 ** (high + (low - high) * i / (POINTS - 1)) for i in range(POINTS)]
    progress = track(deltas, "computing …", console=Console(stderr=True), transient=True)
    swept = [compare_guarantees(event, each) for each in progress]
    lines = {name: [(found[name], d) for found, d in zip(swept, deltas, strict=True)] for name in swept[0]}
    finite = {name: line for name, line in lines.items() if all(isfinite(eps) for eps, _ in line)}
    best = min((line[-1][0] for line in finite.values()), default=1.0)
    return {name: line for name, line in finite.items() if line[-1][0] <= 3 * best}
