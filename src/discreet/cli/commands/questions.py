"""Questions to a table: demo, ask, quote, policy."""

from typing import Annotated

import typer

from discreet.cli.app import ASKING, app
from discreet.cli.options import (
    AccountName,
    AnswerId,
    BoundsOption,
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
    Label,
    LedgerOption,
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
    Spreadsheet,
    Sql,
    TableName,
    Unique,
    Unit,
    Weight,
)


@app.command(rich_help_panel=ASKING, epilog="Example: [bold]discreet demo --epsilon 0.5[/bold]")
def demo(
    epsilon: Annotated[str, typer.Option(help="The price of each of the two questions.")] = "0.5",
    delta: Annotated[str, typer.Option(help="The chance of failure.")] = "1e-6",
    json: Json = False,
) -> None:
    """Two questions about a generated table of 200,000 rows: a quote, the answers with error bars, the budget."""
    from discreet.cli.demo import run

    run(epsilon, delta, as_json=json)


@app.command(
    rich_help_panel=ASKING,
    epilog='Examples:\n\n[bold]discreet ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" --unit id '
    "--epsilon 1 --keys dept=a,b,c[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --bounds pay=0:200 --error 5% '
    "--pilot 0.01 --budget 1[/bold]\n\n"
    '[bold]discreet ask people.csv "SELECT COUNT(*) AS n FROM people" --unit id --epsilon 0.1 --ledger hr.ledger '
    "--account hr --release release.json[/bold]",
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
    bounds: BoundsOption = None,
    table: TableName = None,
    path: FilePath = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    label: Label = None,
    ledger: LedgerOption = None,
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
    spreadsheet: Spreadsheet = False,
) -> None:
    """Ask a question of a table about people and get an answer that may be published, with error bars and its price."""
    from discreet.cli.ask import AnswerOptions, RecordOptions, run
    from discreet.cli.question import QueryArguments

    asked = QueryArguments(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours, path=path, pilot=pilot, budget=budget, ledger=ledger, account=account,
        label=label,
    )  # fmt: skip
    form = AnswerOptions(
        simultaneous=simultaneous, consistent=consistent, non_negative=non_negative, integers=integers, as_json=json,
        as_csv=csv, spreadsheet=spreadsheet,
    )  # fmt: skip
    run(asked, confidence, form, RecordOptions(id=id, fresh=fresh, release=release, key=key))


@app.command(
    rich_help_panel=ASKING,
    epilog='Example: [bold]discreet quote people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --error 2 --size 1000 '
    "--bounds pay=0:200[/bold]",
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
    bounds: BoundsOption = None,
    table: TableName = None,
    path: FilePath = None,
    public: Public = None,
    neighbours: Relation = "add-remove",
    label: Label = None,
    ledger: LedgerOption = None,
    account: AccountName = None,
    json: Json = False,
) -> None:
    """What a question would cost, in every currency, and how good its answer would be. No row is read, nothing is paid."""
    from discreet.cli.question import QueryArguments
    from discreet.cli.quote import run

    asked = QueryArguments(
        source=source, sql=sql, unit=unit, epsilon=epsilon, error=error, size=size, delta=delta, policy=policy, keys=keys,
        max_groups=max_groups, max_rows=max_rows, unique=unique, bounds=bounds, table=table, public=public, weight=weight,
        currency=currency, neighbours=neighbours, path=path, ledger=ledger, account=account, label=label,
    )  # fmt: skip
    run(asked, confidence, as_json=json)


policy = typer.Typer(no_args_is_help=True, help="What is declared about a table, as a file.")
app.add_typer(policy, name="policy", rich_help_panel=ASKING)


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


@policy.command("check", epilog="Example: [bold]discreet policy check people.csv policy.toml[/bold]")
def policy_check(
    source: Source,
    policy: Annotated[str, typer.Argument(help="The policy.toml to check.")] = "policy.toml",
    table: TableName = None,
    path: FilePath = None,
    json: Json = False,
) -> None:
    """Tell the data owner, and nobody else, whether a policy is true of the data; exit code 1 if its guarantee is broken."""
    from discreet.cli.policy import check

    if not check(source, policy, table, path, as_json=json):
        raise typer.Exit(1)
