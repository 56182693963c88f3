"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from typing import Annotated

import typer

from discreet.cli.options import (
    Budget,
    Confidence,
    Consistent,
    Csv,
    CurrencyName,
    Delta,
    Epsilon,
    Error,
    Integers,
    Json,
    Keys,
    Limits,
    MaxGroups,
    MaxRows,
    NonNegative,
    Pilot,
    PolicyFile,
    Public,
    Relation,
    Simultaneous,
    Size,
    Source,
    Sql,
    TableName,
    Unique,
    Unit,
    Weight,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Answers questions about people without telling on anyone.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from discreet import __version__

        typer.echo(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Answers questions about people without telling on anyone."""


@app.command(epilog="Example: [bold]discreet demo --epsilon 0.5[/bold]")
def demo(
    epsilon: Annotated[str, typer.Option(help="The price of each of the two questions.")] = "0.5",
    delta: Annotated[str, typer.Option(help="The chance of failure.")] = "1e-6",
    json: Json = False,
) -> None:
    """Two questions about a generated table of 200,000 rows: a quote, the answers with error bars, the budget."""
    from discreet.cli.demo import run

    run(epsilon, delta, as_json=json)


@app.command(
    epilog='Examples:\n\n[bold]discreet ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" --unit id '
    "--epsilon 1 --keys dept=a,b,c[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --bounds pay=0:200 --error 5% '
    "--pilot 0.01 --budget 1[/bold]"
)
def ask(
    source: Source,
    sql: Sql,
    unit: Unit = None,
    epsilon: Epsilon = None,
    error: Error = None,
    size: Size = None,
    pilot: Pilot = None,
    budget: Budget = None,
    delta: Delta = "0",
    currency: CurrencyName = None,
    weight: Weight = None,
    confidence: Confidence = 0.95,
    policy: PolicyFile = None,
    keys: Keys = None,
    max_groups: MaxGroups = None,
    max_rows: MaxRows = None,
    unique: Unique = False,
    bounds: Limits = None,
    table: TableName = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    simultaneous: Simultaneous = False,
    consistent: Consistent = False,
    non_negative: NonNegative = False,
    integers: Integers = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Ask a question of a table about people and get an answer that may be published, with error bars and its price."""
    from discreet.cli.ask import Form, run
    from discreet.cli.question import Question

    asked = Question(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours, pilot=pilot, budget=budget,
    )  # fmt: skip
    form = Form(
        simultaneous=simultaneous, consistent=consistent, non_negative=non_negative, integers=integers, as_json=json,
        as_csv=csv,
    )  # fmt: skip
    run(asked, confidence, form)


@app.command(
    epilog='Example: [bold]discreet quote people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --error 2 --size 1000 '
    "--bounds pay=0:200[/bold]"
)
def quote(
    source: Source,
    sql: Sql,
    unit: Unit = None,
    epsilon: Epsilon = None,
    error: Error = None,
    size: Size = None,
    delta: Delta = "0",
    currency: CurrencyName = None,
    weight: Weight = None,
    confidence: Confidence = 0.95,
    policy: PolicyFile = None,
    keys: Keys = None,
    max_groups: MaxGroups = None,
    max_rows: MaxRows = None,
    unique: Unique = False,
    bounds: Limits = None,
    table: TableName = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    json: Json = False,
) -> None:
    """What a question would cost, in every currency, and how good its answer would be. No row is read, nothing is paid."""
    from discreet.cli.question import Question
    from discreet.cli.quote import run

    asked = Question(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours,
    )  # fmt: skip
    run(asked, confidence, as_json=json)


policy = typer.Typer(no_args_is_help=True, help="What is declared about a table, as a file.")
app.add_typer(policy, name="policy")


@policy.command("init", epilog="Example: [bold]discreet policy init people.csv --unit id[/bold]")
def policy_init(
    source: Source,
    unit: Annotated[str, typer.Option(prompt="Which column says whose row it is", help="Whose row it is.")],
    table: TableName = None,
    out: Annotated[str, typer.Option(help="Where to write it; - for the screen.")] = "policy.toml",
) -> None:
    """Write a policy.toml to fill in: the names and types of the columns, never a value."""
    from discreet.cli.policy import init

    init(source, unit, table, out)


@app.command(
    epilog='Example: [bold]discreet account "1000*laplace(scale=31.6) + gaussian(sigma=5)*9" --delta 1e-6 --readings[/bold]'
)
def account(
    expression: Annotated[str, typer.Argument(help='A ledger as text: "1000*laplace(scale=31.6) + claim(epsilon=1)".')],
    delta: Annotated[str, typer.Option(help="The δ at which ε is read.")],
    readings: Annotated[bool, typer.Option("--readings", help="Show every notion of privacy side by side.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw δ(ε) with all readings into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Certified price of a whole ledger: ε at δ as a proven interval.

    Names: laplace (the continuous law), gaussian, discrete_laplace, discrete_gaussian, response(epsilon=),
    claim(epsilon=, delta=), subsampled(x, rate=). k*x and x*k repeat; sensitivity= is 1 unless given.
    """
    from discreet.cli.account import account as run

    run(expression, delta, show_readings=readings, plot=plot, as_json=json)


@app.command(epilog="Example: [bold]discreet calibrate gaussian --epsilon 1 --delta 1e-6 --times 1000[/bold]")
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


@app.command(epilog="Example: [bold]discreet audit mynoise:noisy_sum --epsilon 1 --domain 0:1[/bold]")
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
    grade: Annotated[
        bool, typer.Option("--grade", help="For teaching: passed, or the pair and the event that break it.")
    ] = False,
    report: Annotated[str | None, typer.Option(help="Write one page with a picture into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Attack a function that claims to be private, and certify what it really leaks. Exit code 1 if the claim is false."""
    from discreet.cli.audit import Request, run

    request = Request(
        function=function, epsilon=epsilon, delta=delta, rho=rho, mu=mu, pairs=pairs, domain=domain, neighbours=neighbours,
        confidence=confidence, seconds=seconds, limit=limit, workers=workers,
    )  # fmt: skip
    run(request, as_json=json, grade=grade, report=report)


def main() -> None:
    """The console script: a mistake gets one line and an exit code (2 usage or question, 3 budget, 4 source or engine)."""
    from discreet.errors import BudgetExceeded, DiscreetError, EngineFailed, SourceRefused

    try:
        app()
    except DiscreetError as mistake:
        typer.echo(f"discreet: {mistake}", err=True)
        code = 3 if isinstance(mistake, BudgetExceeded) else 4 if isinstance(mistake, SourceRefused | EngineFailed) else 2
        raise SystemExit(code) from None
