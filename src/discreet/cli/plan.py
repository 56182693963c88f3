"""`discreet plan`: accuracy, ε and the number of people; two of them give the third, before any data. Of a training run:
the noise multiplier, ε and the number of steps."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.app import ACCOUNTING, app
from discreet.cli.options import ANSWER_PANEL, COST_PANEL, Json, complete_words, make_option, parse_range
from discreet.cli.output import parse_number, print_json, print_styled
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.planner import Plan, PlannerQuery, Training

KINDS = ("count", "proportion", "sum", "mean", "histogram", "training")
PICTURES = (".png", ".svg", ".pdf")
QUERY_PANEL = "Query"
TRAINING_PANEL = "Training (DP-SGD)"


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog="Examples:\n\n[bold]discreet plan mean --bounds 0:100 --error 2 --n 1000[/bold]: which ε?\n\n"
    "[bold]discreet plan proportion --error 1% --epsilon 0.5[/bold]: how many people?\n\n"
    "[bold]discreet plan histogram --cells 3143 --epsilon 0.1 --neighbours replace[/bold]: how accurate?\n\n"
    "[bold]discreet plan count --queries 20 --epsilon 1 --delta 1e-6 --plot plan.png[/bold]: Laplace or Gaussian?\n\n"
    "[bold]discreet plan training --batch 256 --n 60000 --epochs 60 --epsilon 2 --delta 1e-5[/bold]: which noise?",
)
def plan(
    question: Annotated[
        str,
        typer.Argument(help="count, proportion, sum, mean, histogram or training.", autocompletion=complete_words(*KINDS)),
    ],
    bounds: Annotated[
        str | None, make_option(QUERY_PANEL, "The range that values are clipped to: 0:100. For sum and mean.")
    ] = None,
    whole: Annotated[bool, make_option(QUERY_PANEL, "Values are integers. For sum and mean.", "--whole")] = False,
    cells: Annotated[int | None, make_option(QUERY_PANEL, "The number of cells. For histogram.")] = None,
    queries: Annotated[int, make_option(QUERY_PANEL, "The number of such queries at once, each about all people.")] = 1,
    neighbours: Annotated[
        str | None,
        make_option(QUERY_PANEL, "add-remove one person, or replace one; replace where n is public (proportion, mean)."),
    ] = None,
    error: Annotated[str | None, make_option(COST_PANEL, "The largest half-width: 2, or 5% of --size.")] = None,
    rmse: Annotated[str | None, make_option(COST_PANEL, "Or the largest root mean square error.")] = None,
    size: Annotated[
        str | None, make_option(COST_PANEL, "What a percentage is relative to; the whole answer, unless given.")
    ] = None,
    each: Annotated[
        bool, make_option(COST_PANEL, "The error of each answer alone, not the largest of all.", "--each")
    ] = False,
    confidence: Annotated[str, make_option(COST_PANEL, "The probability that the half-width holds.")] = "0.95",
    epsilon: Annotated[str | None, make_option(COST_PANEL, "The ε that all queries together may cost.")] = None,
    delta: Annotated[str, make_option(COST_PANEL, "δ of the (ε, δ) guarantee; Gaussian noise needs one.")] = "0",
    n: Annotated[int | None, make_option(COST_PANEL, "The number of people in the data.", "--n")] = None,
    sigma: Annotated[
        str | None, make_option(TRAINING_PANEL, "The noise multiplier: noise divided by the clipping norm.")
    ] = None,
    batch: Annotated[int | None, make_option(TRAINING_PANEL, "The expected size of a batch; the rate is batch/n.")] = None,
    rate: Annotated[str | None, make_option(TRAINING_PANEL, "Or the rate of the Poisson samples: 1/235.")] = None,
    epochs: Annotated[
        str | None, make_option(TRAINING_PANEL, "How often a record is sampled on average; rounded up to a whole step.")
    ] = None,
    steps: Annotated[int | None, make_option(TRAINING_PANEL, "Or the number of steps.")] = None,
    plot: Annotated[str | None, make_option(ANSWER_PANEL, "Draw the plan into this file.")] = None,
    json: Json = False,
) -> None:
    """Give two of accuracy, ε and the number of people; get the third and the best mechanism. No data is read.

    Of training with DP-SGD, give two of the noise multiplier, ε and the number of steps.
    """
    from discreet.planner import plan as find_plan
    from discreet.units import Neighbours

    run = {"sigma": sigma, "batch": batch, "rate": rate, "epochs": epochs, "steps": steps}
    if question == "training":
        others = {"bounds": bounds, "whole": whole or None, "cells": cells, "queries": None if queries == 1 else queries}
        others |= {"neighbours": neighbours, "error": error, "rmse": rmse, "size": size, "each": each or None, "plot": plot}
        others |= {"confidence": None if confidence == "0.95" else confidence}
        _refuse_flags(others, "training has none", "leave it out")
        _print_training_plan(
            _parse_training(sigma, batch, n, rate, epochs, steps),
            None if epsilon is None else parse_number(epsilon, "epsilon"),
            parse_number(delta, "delta"),
            as_json=json,
        )
        return
    _refuse_flags(run, f"a {question} has none", "leave it out, or plan training")

    if plot is not None and Path(plot).suffix.lower() not in PICTURES:
        raise BadParameter("--plot", plot, "not a picture format", f"end the name with {', '.join(PICTURES)}")
    found = find_plan(
        _parse_query(question, bounds, cells, whole=whole),
        error=error,
        rmse=rmse,
        epsilon=None if epsilon is None else parse_number(epsilon, "epsilon"),
        delta=parse_number(delta, "delta"),
        n=n,
        queries=queries,
        confidence=parse_number(confidence, "confidence"),
        size=None if size is None else parse_number(size, "size"),
        each=each,
        neighbours=None if neighbours is None else Neighbours.parse(neighbours),
    )
    if plot is not None:
        _save_picture(found, plot)
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
    if plot is not None:
        print_styled(f"Picture written to {plot}.")


def _refuse_flags(given: Mapping[str, object], reason: str, hint: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadParameter(f"--{name}", value, reason, hint)


def _parse_training(
    sigma: str | None, batch: int | None, n: int | None, rate: str | None, epochs: str | None, steps: int | None
) -> "Training":
    from discreet.planner import Training

    return Training(
        sigma=None if sigma is None else parse_number(sigma, "sigma"),
        batch=batch,
        n=n,
        rate=None if rate is None else parse_number(rate, "rate"),
        epochs=None if epochs is None else parse_number(epochs, "epochs"),
        steps=steps,
    )


def _print_training_plan(training: "Training", epsilon: Fraction | None, delta: Fraction, *, as_json: bool) -> None:
    from discreet.planner import plan as find_plan

    found = find_plan(training, epsilon=epsilon, delta=delta)
    if as_json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)


def _parse_query(kind: str, bounds: str | None, cells: int | None, *, whole: bool) -> "PlannerQuery":
    """The query, if the options that describe it fit its kind."""
    from discreet.planner import Count, Histogram, Mean, Proportion, Sum

    if kind not in KINDS:  # training is planned before
        raise BadParameter("question", repr(kind), "not a query that can be planned", f"take {', '.join(KINDS)}")
    bounded = kind in ("sum", "mean")
    for flag, given, needed, example in (
        ("--bounds", bounds, bounded, "0:100"),
        ("--cells", cells, kind == "histogram", "50"),
    ):
        if needed and given is None:
            raise BadParameter(flag, "missing", f"a {kind} needs it", f"give {flag} {example}")
        if given is not None and not needed:
            raise BadParameter(flag, given, f"a {kind} has none", "leave it out")
    if whole and not bounded:
        raise BadParameter("--whole", "given", f"a {kind} is an integer anyway", "leave it out")
    if bounds is not None:
        lower, upper = parse_range(bounds, "--bounds")
        return (Sum if kind == "sum" else Mean)(lower, upper, whole=whole)
    if cells is not None:
        return Histogram(cells)
    return Count() if kind == "count" else Proportion()


def _save_picture(found: "Plan", path: str) -> None:
    try:
        found.plot().savefig(path)
    except OSError as failed:
        raise BadParameter(
            "--plot", path, failed.strerror or "cannot be written", "name a file in a folder that exists"
        ) from None
