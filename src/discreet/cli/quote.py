"""`discreet quote`: the cost of a query and the accuracy of its answer, before it runs."""

from discreet.cli.app import ASKING, app
from discreet.cli.options import (
    AccountName,
    Confidence,
    CurrencyName,
    Delta,
    Epsilon,
    Error,
    Json,
    LedgerOption,
    QueryArguments,
    Size,
    Sql,
    Token,
    Weight,
    takes_source,
)
from discreet.session.options import SourceOptions


@app.command(
    rich_help_panel=ASKING,
    epilog='Example: [bold]discreet quote people.csv "SELECT AVG(pay) AS mean FROM people" --unit id --error 2 --size 1000 '
    "--bounds pay=0:200[/bold]",
)
@takes_source()
def quote(
    options: SourceOptions,
    sql: Sql,
    epsilon: Epsilon = None,
    error: Error = None,
    size: Size = None,
    delta: Delta = "0",
    currency: CurrencyName = None,
    weight: Weight = None,
    confidence: Confidence = 0.95,
    ledger: LedgerOption = None,
    account: AccountName = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show the cost of a query, in every currency, and the accuracy of its answer. No row is read, nothing is charged."""
    arguments = QueryArguments(
        sql=sql, epsilon=epsilon, error=error, size=size, weight=weight, confidence=confidence, delta=delta,
        currency=currency, ledger=ledger, account=account, token=token,
    )  # fmt: skip
    session, cost = arguments.open_session(options)
    quoted = session.quote(sql, **cost)
    if json:
        print(quoted.to_json())
    else:
        from rich.console import Console

        Console().print(quoted)
