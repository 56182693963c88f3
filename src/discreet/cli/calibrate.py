"""`discreet calibrate`: the least noise that meets a target."""

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.app import ACCOUNTING, app
from discreet.cli.epsilon import to_json_interval
from discreet.cli.options import Json, complete_words
from discreet.cli.output import parse_number, print_json, print_styled, print_table
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.events import Event

SCALES = {"laplace": "scale", "discrete_laplace": "scale", "gaussian": "sigma", "discrete_gaussian": "sigma"}


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog="Example: [bold]discreet calibrate gaussian --epsilon 1 --delta 1e-6 --times 1000[/bold]",
)
def calibrate(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="gaussian, laplace, discrete_laplace or discrete_gaussian.", autocompletion=complete_words(*SCALES)
        ),
    ],
    epsilon: Annotated[str, typer.Option(help="The ε that all rounds together may cost.")],
    delta: Annotated[
        str, typer.Option(help="The δ that all rounds together may cost; Laplace noise needs none.", show_default=False)
    ] = "0",
    times: Annotated[int, typer.Option(help="The number of rounds.")] = 1,
    sensitivity: Annotated[str, typer.Option(help="How far one unit moves the answer of a round.")] = "1",
    rate: Annotated[str | None, typer.Option(help="The rate of the Poisson sample that each round sees.")] = None,
    json: Json = False,
) -> None:
    """Find the least noise whose certified ε meets a target."""
    from discreet._numbers import (
        Bounds,
        ceil_float,
        check_int,
        check_positive,
        floor_float,
        format_down,
        format_rational,
        format_up,
    )
    from discreet.accounting.cost import format_at
    from discreet.accounting.curve import epsilon as certified_epsilon
    from discreet.accounting.expression import NOISE_TERMS
    from discreet.accounting.pure import pure
    from discreet.events import repeat, subsample
    from discreet.mechanisms.calibration import check_rate, find_smallest_scale, guess_scale

    if mechanism not in SCALES:
        raise BadParameter("mechanism", repr(mechanism), "not a mechanism with a scale", f"take one of {', '.join(SCALES)}")
    parameter, term = SCALES[mechanism], NOISE_TERMS[mechanism]
    target, failing = parse_number(epsilon, "epsilon"), parse_number(delta, "delta")
    if failing == 0 and parameter == "sigma":
        raise BadParameter("delta", "0", "Gaussian noise has no ε without a δ", "give delta=1e-6, or take laplace")
    distance = check_positive(parse_number(sensitivity, "sensitivity"), "sensitivity")
    sampling_rate = check_rate(None if rate is None else parse_number(rate, "rate"))
    check_int(times, "times", 1)

    def event_at(scale: Fraction) -> "Event":
        once = term.make({parameter: scale, "sensitivity": distance})
        return repeat(once if sampling_rate is None else subsample(once, sampling_rate), times)

    if failing == 0:
        if sampling_rate is not None:
            raise BadParameter("delta", "0", "rounds on samples need a δ", "give delta=1e-6, or leave out rate=")
        scale = distance * times / check_positive(target, "epsilon")  # each round costs sensitivity/scale, and they add up
    else:
        guess = guess_scale(float(distance), target, failing, times, sampling_rate)
        scale = find_smallest_scale(event_at, target, failing, guess)
    if failing == 0:
        pure_epsilon = pure(event_at(scale))  # exact, and attained
        bounds = Bounds(floor_float(pure_epsilon), ceil_float(pure_epsilon))
    else:
        bounds = certified_epsilon(event_at(scale), failing)
    if json:
        print_json({parameter: ceil_float(scale), "epsilon": to_json_interval(bounds), "delta": float(failing)})
        return
    print_table(
        f"Least noise for ε = {format_rational(target)}{format_at(failing)}, {times:,} round{'s' * (times != 1)}",
        ["mechanism", parameter, "certified ε"],
        [(mechanism, f"{ceil_float(scale):.12g}", f"[{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}]")],
    )
    print_styled(term.meaning)
