"""`discreet account` and `discreet calibrate`."""

from fractions import Fraction
from typing import Any

from discreet._numbers import Bounds, ceil_float, check_positive, format_down, format_rational, format_up
from discreet.accounting.compare import compare_guarantees
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.expression import NOISE_TERMS, parse
from discreet.cli.output import parse_number, print_json, print_styled, print_table
from discreet.errors import BadParameter
from discreet.events import Event, Subsampled, repeat
from discreet.mechanisms.calibrate import find_smallest_scale, guess_scale

SCALES = {"laplace": "scale", "discrete_laplace": "scale", "gaussian": "sigma", "discrete_gaussian": "sigma"}


def account(
    expression: str, delta: str | None, epsilon: str | None, *, show_readings: bool, plot: str | None, as_json: bool
) -> None:
    """Price a ledger that is written as text: ε at δ, or δ at ε."""
    if delta is None and epsilon is None:
        raise BadParameter("--delta", "missing", "ε is read at a δ", "give --delta 1e-6, or --epsilon 1 to read δ instead")
    if delta is not None and epsilon is not None:
        raise BadParameter("--epsilon", epsilon, "--delta is given as well", "give one of the two; the other is printed")
    if epsilon is not None and (show_readings or plot):
        flag = "--readings" if show_readings else "--plot"
        raise BadParameter(flag, "given with --epsilon", "it shows ε at a δ", "give --delta instead of --epsilon")
    if delta is None:
        _print_delta(expression, str(epsilon), as_json=as_json)
    else:
        _print_epsilon(expression, delta, show_readings=show_readings, plot=plot, as_json=as_json)


def _print_delta(expression: str, epsilon: str, *, as_json: bool) -> None:
    loss, at = parse(expression), parse_number(epsilon, "epsilon")
    bounds = certified_delta(loss, at)
    if as_json:
        print_json({"delta": _to_json_interval(bounds), "epsilon": float(at)})
        return
    row = ("certified", f"[{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}]")
    print_table(f"δ at ε = {float(at):g}", ["reading", "δ"], [row])
    _note_continuous(expression)


def _print_epsilon(expression: str, delta: str, *, show_readings: bool, plot: str | None, as_json: bool) -> None:
    loss, target = parse(expression), parse_number(delta, "delta")
    bounds = certified_epsilon(loss, target)
    sides = compare_guarantees(loss, target) if show_readings else {}
    if plot:
        from discreet.cli.picture import draw_curve

        draw_curve(loss, target, plot)
    if as_json:
        print_json({"epsilon": _to_json_interval(bounds), "delta": float(target), "readings": sides})
        return
    rows = [("certified", f"[{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}]", "")]
    best = float(bounds)
    rows += [(name, format_up(value, 6), _format_excess(value, best)) for name, value in sides.items()]
    print_table(f"ε at δ = {float(target):g}", ["reading", "ε", "above the certified"], rows)
    _note_continuous(expression)
    if plot:
        print_styled(f"picture written to {plot}")


def _note_continuous(expression: str) -> None:
    if "laplace(" in expression.replace("discrete_laplace(", ""):
        print_styled("laplace is the continuous law; discreet draws discrete_laplace, which costs a little more.")


def calibrate(name: str, epsilon: str, delta: str, times: int, sensitivity: str, rate: str | None, *, as_json: bool) -> None:
    """The least noise for a target."""
    if name not in SCALES:
        raise BadParameter("mechanism", repr(name), "no noise with a scale", f"take one of {', '.join(SCALES)}")
    field, law = SCALES[name], NOISE_TERMS[name]
    eps, target, moved = (
        parse_number(epsilon, "epsilon"),
        parse_number(delta, "delta"),
        check_positive(parse_number(sensitivity, "sensitivity"), "sensitivity"),
    )
    share = None if rate is None else parse_number(rate, "rate")

    def fact(scale: Fraction) -> Event:
        once = law.make({field: scale, "sensitivity": moved})
        return repeat(once if share is None else Subsampled(once, share), times)

    scale = find_smallest_scale(fact, eps, target, guess_scale(float(moved), eps, target, times, share))
    bounds = certified_epsilon(fact(scale), target)
    if as_json:
        print_json({field: ceil_float(scale), "epsilon": _to_json_interval(bounds), "delta": float(target)})
        return
    print_table(
        f"the least noise for ε = {format_rational(eps)}, δ = {float(target):g}, {times:,} times",
        ["mechanism", field, "certified ε"],
        [(name, f"{ceil_float(scale):.12g}", f"[{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}]")],
    )
    print_styled(law.meaning)


def _to_json_interval(bounds: Bounds) -> dict[str, Any]:
    return {"lower": bounds.lower, "upper": bounds.upper}


def _format_excess(value: float, best: float) -> str:
    return f"{value / best - 1:+.1%}" if 0 < best < float("inf") and value < float("inf") else ""
