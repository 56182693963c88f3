"""Prices of mechanisms: account, calibrate."""

from typing import Annotated

import typer

from discreet.cli.app import ACCOUNTING, app


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog='Example: [bold]discreet account "1000*laplace(scale=31.6) + gaussian(sigma=5)*9" --delta 1e-6 --readings[/bold]',
)
def account(
    expression: Annotated[str, typer.Argument(help='A ledger as text: "1000*laplace(scale=31.6) + claim(epsilon=1)".')],
    delta: Annotated[str | None, typer.Option(help="Print ε at this δ.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Print δ at this ε, instead of ε at a δ.")] = None,
    readings: Annotated[bool, typer.Option("--readings", help="Show every notion of privacy side by side.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw δ(ε) with all readings into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Certified price of a whole ledger: ε at δ, or δ at ε, as a proven interval.

    Noise: laplace(scale=) (the continuous law), gaussian(sigma=), discrete_laplace(scale=), discrete_gaussian(sigma=),
    binomial(n=), each with sensitivity= (1 unless given) or norms l0=, l1=, l2=, linf=. Others: response(epsilon=),
    exponential(epsilon=), threshold(scale=, threshold=, groups=), claim(epsilon=, delta=). Of releases:
    subsampled(x, rate=) (Poisson), sampled(x, rate=) (without replacement), group(x, size=), parallel(x, y).
    k*x and x*k repeat.
    """
    from discreet.cli.account import account as run

    run(expression, delta, epsilon, show_readings=readings, plot=plot, as_json=json)


@app.command(
    rich_help_panel=ACCOUNTING,
    epilog="Example: [bold]discreet calibrate gaussian --epsilon 1 --delta 1e-6 --times 1000[/bold]",
)
def calibrate(
    mechanism: Annotated[str, typer.Argument(help="gaussian, laplace, discrete_laplace or discrete_gaussian.")],
    epsilon: Annotated[str, typer.Option(help="The ε that all rounds together may cost.")],
    delta: Annotated[str, typer.Option(help="The δ that all rounds together may cost.")],
    times: Annotated[int, typer.Option(help="The number of rounds.")] = 1,
    sensitivity: Annotated[str, typer.Option(help="How far one unit moves the one answer of a round.")] = "1",
    rate: Annotated[str | None, typer.Option(help="Each round sees a Poisson sample of this rate.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """The least noise whose certified price meets a target."""
    from discreet.cli.account import calibrate as run

    run(mechanism, epsilon, delta, times, sensitivity, rate, as_json=json)
