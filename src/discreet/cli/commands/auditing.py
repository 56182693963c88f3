"""Attacks on claims: audit."""

from typing import Annotated

import typer

from discreet.cli.app import CHECKING, app


@app.command(
    rich_help_panel=CHECKING, epilog="Example: [bold]discreet audit mynoise:noisy_sum --epsilon 1 --domain 0:1[/bold]"
)
def audit(
    function: Annotated[str, typer.Argument(help="module:function, which takes a list with one record per person.")],
    epsilon: Annotated[str | None, typer.Option(help="The ε that is claimed.")] = None,
    delta: Annotated[str, typer.Option(help="The δ that is claimed.")] = "0",
    rho: Annotated[str | None, typer.Option(help="Or the ρ of zCDP.")] = None,
    mu: Annotated[str | None, typer.Option(help="Or the μ of Gaussian DP.")] = None,
    pairs: Annotated[str | None, typer.Option(help="A JSON file with neighbouring inputs, [[[], [1]], …].")] = None,
    domain: Annotated[str, typer.Option(help="Records are numbers in 0:1; any adds NaN, extremes and other types.")] = "0:1",
    neighbours: Annotated[str, typer.Option(help="add-remove one record, or replace one.")] = "add-remove",
    confidence: Annotated[float, typer.Option(help="How sure to be.")] = 0.999,
    seconds: Annotated[float, typer.Option(help="How long to try.")] = 120.0,
    limit: Annotated[float, typer.Option(help="Seconds that one call may take.")] = 1.0,
    workers: Annotated[int, typer.Option(help="Processes that call the function; 0 is one for every core.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="A fresh process for every call: shows a seed.")] = False,
    grade: Annotated[
        bool, typer.Option("--grade", help="For teaching: passed, or the pair and the event that break it.")
    ] = False,
    report: Annotated[str | None, typer.Option(help="Write one page with a picture into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Attack a function that claims to be private, and certify what it really leaks. Exit code 1 if the claim is false."""
    from discreet.cli.audit import AuditRequest, run

    request = AuditRequest(
        function=function, epsilon=epsilon, delta=delta, rho=rho, mu=mu, pairs=pairs, domain=domain, neighbours=neighbours,
        confidence=confidence, seconds=seconds, limit=limit, workers=workers, restart=restart,
    )  # fmt: skip
    run(request, as_json=json, grade=grade, report=report)
