"""Plans before any data: plan."""

from typing import Annotated

import typer

from discreet.cli.app import ACCOUNTING, app
from discreet.cli.options import ANSWER_PANEL, COST_PANEL, Json, make_option

KIND = "What is asked"


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog="Examples:\n\n[bold]discreet plan mean --bounds 0:100 --error 2 --n 1000[/bold]: which ε?\n\n"
    "[bold]discreet plan proportion --error 1% --epsilon 0.5[/bold]: how many people?\n\n"
    "[bold]discreet plan histogram --cells 3143 --epsilon 0.1 --neighbours replace[/bold]: how accurate?\n\n"
    "[bold]discreet plan count --queries 20 --epsilon 1 --delta 1e-6 --plot plan.png[/bold]: Laplace or Gaussian?",
)
def plan(
    question: Annotated[str, typer.Argument(help="count, proportion, sum, mean or histogram.")],
    bounds: Annotated[str | None, make_option(KIND, "Values are clamped: 0:100. For sum and mean.")] = None,
    whole: Annotated[bool, make_option(KIND, "Values are whole numbers. For sum and mean.", "--whole")] = False,
    cells: Annotated[int | None, make_option(KIND, "How many cells. For histogram.")] = None,
    queries: Annotated[int, make_option(KIND, "So many such questions at once, each about everybody.")] = 1,
    neighbours: Annotated[
        str | None, make_option(KIND, "add-remove one person, or replace one; replace where n is public (proportion, mean).")
    ] = None,
    error: Annotated[str | None, make_option(COST_PANEL, "The half-width that is allowed: 2, or 5% of --size.")] = None,
    rmse: Annotated[str | None, make_option(COST_PANEL, "Or the root mean square error.")] = None,
    size: Annotated[str | None, make_option(COST_PANEL, "What a percentage is of; the whole answer unless given.")] = None,
    each: Annotated[
        bool, make_option(COST_PANEL, "The error of each answer alone, not the largest of all.", "--each")
    ] = False,
    confidence: Annotated[str, make_option(COST_PANEL, "How often the half-width holds.")] = "0.95",
    epsilon: Annotated[str | None, make_option(COST_PANEL, "The ε that all questions together may cost.")] = None,
    delta: Annotated[str, make_option(COST_PANEL, "The δ; Gaussian noise needs one.")] = "0",
    n: Annotated[int | None, make_option(COST_PANEL, "How many people the data is about.", "--n")] = None,
    plot: Annotated[str | None, make_option(ANSWER_PANEL, "Draw the plan into this file.")] = None,
    json: Json = False,
) -> None:
    """Accuracy, ε and the number of people: give two, get the third, and the mechanism to take. No data is read."""
    from discreet.cli.plan import PlanRequest, run

    request = PlanRequest(
        question=question, bounds=bounds, whole=whole, cells=cells, queries=queries, neighbours=neighbours, error=error,
        rmse=rmse, size=size, each=each, confidence=confidence, epsilon=epsilon, delta=delta, n=n,
    )  # fmt: skip
    run(request, plot=plot, as_json=json)
