"""The command line. Commands import what they need when they run, so that `--help` is quick."""

import os
from io import TextIOWrapper
from typing import Annotated

import typer

from discreet.cli.options import (
    AccountName,
    AnswerId,
    Budget,
    Certificate,
    Confidence,
    Consistent,
    Csv,
    CurrencyName,
    Delta,
    Epsilon,
    Error,
    FilePath,
    Fresh,
    Integers,
    Json,
    KeyFile,
    Keys,
    LedgerPlace,
    Limits,
    MaxGroups,
    MaxRows,
    NonNegative,
    Pilot,
    Place,
    PolicyFile,
    Public,
    PublicKey,
    Relation,
    SecretKey,
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
    "--pilot 0.01 --budget 1[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.1 --ledger hr.ledger '
    "--account hr --release release.json[/bold]"
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
    path: FilePath = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    ledger: LedgerPlace = None,
    account: AccountName = None,
    id: AnswerId = None,
    fresh: Fresh = False,
    release: Certificate = None,
    key: KeyFile = None,
    simultaneous: Simultaneous = False,
    consistent: Consistent = False,
    non_negative: NonNegative = False,
    integers: Integers = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Ask a question of a table about people and get an answer that may be published, with error bars and its price."""
    from discreet.cli.ask import Form, Kept, run
    from discreet.cli.question import Question

    asked = Question(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours, path=path, pilot=pilot, budget=budget, ledger=ledger, account=account,
    )  # fmt: skip
    form = Form(
        simultaneous=simultaneous, consistent=consistent, non_negative=non_negative, integers=integers, as_json=json,
        as_csv=csv,
    )  # fmt: skip
    run(asked, confidence, form, Kept(id=id, fresh=fresh, release=release, key=key))


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
    path: FilePath = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    ledger: LedgerPlace = None,
    account: AccountName = None,
    json: Json = False,
) -> None:
    """What a question would cost, in every currency, and how good its answer would be. No row is read, nothing is paid."""
    from discreet.cli.question import Question
    from discreet.cli.quote import run

    asked = Question(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours, path=path, ledger=ledger, account=account,
    )  # fmt: skip
    run(asked, confidence, as_json=json)


policy = typer.Typer(no_args_is_help=True, help="What is declared about a table, as a file.")
app.add_typer(policy, name="policy")


@policy.command("init", epilog="Example: [bold]discreet policy init people.csv --unit id[/bold]")
def policy_init(
    source: Source,
    unit: Annotated[str, typer.Option(prompt="Which column says whose row it is", help="Whose row it is.")],
    table: TableName = None,
    path: FilePath = None,
    out: Annotated[str, typer.Option(help="Where to write it; - for the screen.")] = "policy.toml",
) -> None:
    """Write a policy.toml to fill in: the names and types of the columns, never a value."""
    from discreet.cli.policy import init

    init(source, unit, table, path, out)


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
    restart: Annotated[bool, typer.Option("--restart", help="A fresh process for every call: shows a seed.")] = False,
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
        confidence=confidence, seconds=seconds, limit=limit, workers=workers, restart=restart,
    )  # fmt: skip
    run(request, as_json=json, grade=grade, report=report)


ledger = typer.Typer(no_args_is_help=True, help="Budgets that survive: accounts in a file or in PostgreSQL.")
app.add_typer(ledger, name="ledger")


@ledger.command(
    "open",
    epilog="Example: [bold]discreet ledger open hr.ledger --account hr --epsilon 2 --delta 1e-9 --currency zcdp[/bold]",
)
def ledger_open(
    place: Place,
    account: Annotated[str, typer.Option(help="A name: the data and the purpose, or the analyst.")],
    epsilon: Annotated[str, typer.Option(help="The ε that the whole account promises.")],
    delta: Delta = "0",
    currency: CurrencyName = None,
    parent: Annotated[str | None, typer.Option(help="An account of the same currency that caps the sum.")] = None,
    json: Json = False,
) -> None:
    """Open an account with a budget for life. The ledger is made if there is none."""
    from discreet.cli.ledger import opened

    opened(place, account, epsilon, delta, currency, parent, as_json=json)


@ledger.command("check", epilog="Example: [bold]discreet ledger check hr.ledger --head head.json[/bold]")
def ledger_check(
    place: Place,
    head: Annotated[str | None, typer.Option(help="A signed head that was kept elsewhere.")] = None,
    key: PublicKey = None,
    json: Json = False,
) -> None:
    """Recompute the chain, every price and every sum. Ends with 1 if something does not hold."""
    from discreet.cli.ledger import checked

    if not checked(place, head, key, as_json=json):
        raise typer.Exit(1)


@ledger.command("head", epilog="Example: [bold]discreet ledger head hr.ledger > head.json[/bold]")
def ledger_head(place: Place, key: SecretKey = None) -> None:
    """Print the signed head of the chain, to be kept where the ledger's keeper cannot change it."""
    from discreet.cli.ledger import head

    head(place, key)


@ledger.command("key", epilog="Example: [bold]discreet ledger key hr.ledger[/bold]")
def ledger_key(place: Place, key: SecretKey = None) -> None:
    """Print the public key that the ledger signs with, and its fingerprint."""
    from discreet.cli.ledger import public_key

    public_key(place, key)


@app.command(epilog="Example: [bold]discreet budget hr.ledger --account hr[/bold]")
def budget(
    place: Place,
    account: Annotated[str | None, typer.Option(help="One account; all of them unless given.")] = None,
    json: Json = False,
) -> None:
    """What was spent, what is left, and the certified ε of what was spent as a report."""
    from discreet.cli.budget import run

    run(place, account, as_json=json)


@app.command(epilog="Example: [bold]discreet verify release.json --ledger hr.ledger[/bold]")
def verify(
    release: Annotated[str, typer.Argument(help="A certificate: release.json.")],
    key: PublicKey = None,
    ledger: Annotated[str | None, typer.Option(help="The ledger that it must be in.")] = None,
    json: Json = False,
) -> None:
    """Check a certificate: signature, price, entry; and say what is proven and what is trusted. Ends with 1 if it fails."""
    from discreet.cli.verify import run

    if not run(release, key, ledger, as_json=json):
        raise typer.Exit(1)


def _print_anything() -> None:
    """Where the terminal's encoding has no ε, and none of somebody's keys, print \\u03b5: what was paid for is not lost."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """The console script: a mistake gets one line and an exit code.

    1 a check failed, 2 usage or question, 3 budget, 4 source, engine or ledger. What an engine said, which may quote values,
    goes to the file that DISCREET_OWNER_LOG names, and nowhere without it.
    """
    if path := os.environ.get("DISCREET_OWNER_LOG"):
        import logging

        logging.getLogger("discreet.owner").addHandler(logging.FileHandler(path, encoding="utf-8", delay=True))
    from discreet.errors import BudgetExceeded, DiscreetError, EngineFailed, LedgerBroken, LedgerFailed, SourceRefused

    _print_anything()
    try:
        app()
    except DiscreetError as mistake:
        typer.echo(f"discreet: {mistake}", err=True)
        codes = ((1, LedgerBroken), (3, BudgetExceeded), (4, SourceRefused), (4, EngineFailed), (4, LedgerFailed))
        raise SystemExit(next((code for code, kind in codes if isinstance(mistake, kind)), 2)) from None
