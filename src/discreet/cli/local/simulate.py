"""`discreet local simulate`: what a collection would recover, beside the truth."""

from typing import Annotated

from discreet.cli.local.options import (
    COLLECTION_PANEL,
    Confidence,
    Oracle,
    Picture,
    check_chart,
    local,
    note_picture,
    parse_count,
    parse_oracle,
    parse_share,
    write_picture,
)
from discreet.cli.options import COST_PANEL, Json, complete_words, make_option
from discreet.cli.output import parse_number, print_json, show_progress

TRUTHS = ("zipf", "flat")


@local.command(
    "simulate",
    epilog="Examples:\n\n[bold]discreet local simulate --values 20 --n 1000000 --epsilon 1[/bold]\n\n"
    "[bold]discreet local simulate --values 1000 --n 1e9 --epsilon 2 --oracle hadamard --truth flat --plot got.svg[/bold]",
)
def local_simulate(
    values: Annotated[int, make_option(COLLECTION_PANEL, "How many values there are.")],
    n: Annotated[str, make_option(COST_PANEL, "The number of people: 1000000 or 1e9.", "--n")],
    epsilon: Annotated[str, make_option(COST_PANEL, "The ε of each report.")],
    oracle: Oracle = None,
    truth: Annotated[
        str,
        make_option(
            COLLECTION_PANEL,
            "zipf: value v has a share as 1/(v + 1); or flat.",
            "--truth",
            completer=complete_words(*TRUTHS),
        ),
    ] = "zipf",
    seed: Annotated[int | None, make_option(COLLECTION_PANEL, "Repeat a simulation; random, unless given.")] = None,
    confidence: Confidence = "0.95",
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Simulate a collection and show what it recovers beside the truth, and whether the intervals contain it."""
    from discreet.local.recovery import simulate_recovery

    check_chart(plot)
    with show_progress("simulating …") as on_progress:
        found = simulate_recovery(
            values, parse_count(n, "--n"), parse_number(epsilon, "epsilon"), oracle=parse_oracle(oracle), truth=truth,
            seed=seed, confidence=parse_share(confidence, "confidence"), on_progress=on_progress,
        )  # fmt: skip
    write_picture(found.plot, plot)
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
    note_picture(plot)
