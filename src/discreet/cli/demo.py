"""`discreet demo`: a quote, two answers and a refusal over a generated table of invented visits, the same every time.

What is shown was paid for; the true numbers are not shown.
"""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import ASKING, app
from discreet.cli.options import Json
from discreet.cli.output import parse_number, print_chart, print_json

if TYPE_CHECKING:
    from discreet.session.session import Session

ROWS, PEOPLE = 200_000, 60_000
REGIONS = ("north", "east", "south", "west", "islands")
TABLE = f"""
CREATE TABLE visits AS
SELECT
    (hash(i) % 1000003 * (hash(i + 7) % 1000003) / 1000006000009.0 * {PEOPLE})::BIGINT AS person,
    CASE
        WHEN hash(i * 3 + 1) % 100 < 34 THEN 'north'
        WHEN hash(i * 3 + 1) % 100 < 61 THEN 'east'
        WHEN hash(i * 3 + 1) % 100 < 83 THEN 'south'
        WHEN hash(i * 3 + 1) % 100 < 98 THEN 'west'
        ELSE 'islands'
    END AS region,
    (20 + hash(i * 5 + 2) % 60 + hash(i * 11 + 3) % 60)::DOUBLE AS paid
FROM range({ROWS}) t(i)
"""
COUNTS = "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region"
MEAN = "SELECT AVG(paid) AS mean_paid FROM visits"


@app.command(rich_help_panel=ASKING, epilog="Example: [bold]discreet demo --epsilon 0.5[/bold]")
def demo(
    epsilon: Annotated[str, typer.Option(help="The cost of each of the two queries.")] = "0.5",
    delta: Annotated[str, typer.Option(help="δ of the (ε, δ) guarantee of the whole budget.")] = "1e-6",
    json: Json = False,
) -> None:
    """Run two queries on a generated table of 200,000 rows: a quote, the answers with error bars, a chart, the budget."""
    from discreet.session.connect import connect

    cost = parse_number(epsilon, "epsilon")
    session = connect(
        make_visits(), table="visits", unit="person", epsilon=3 * cost, delta=parse_number(delta, "delta"),
        bounds={"paid": (0, 150)}, keys={"region": REGIONS}, max_groups=2, max_rows=5,
    )  # fmt: skip
    before, quote = session.budget, session.quote(COUNTS, epsilon=cost)
    answers = [session.ask(query, epsilon=cost) for query in (COUNTS, MEAN)]
    if json:
        budget = {"before": before.to_dict(), "after": session.budget.to_dict()}
        print_json({"budget": budget, "quote": quote.to_dict(), "answers": [answer.to_dict() for answer in answers]})
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(f"{ROWS:,} invented visits. {before}"))
    for column in quote.columns:
        noise = ", ".join(mechanism for _, mechanism in column.noises)
        accuracy = f"{column.column} ± {column.half_widths[0][1]:g}, {noise}"
        console.print(Text(f"> quote {COUNTS}\n  {accuracy}. Cost: {quote.cost.describe()}."))
    console.print(Text(f"  In every currency: {', '.join(map(str, quote.costs))}."))
    for query, answer in zip((COUNTS, MEAN), (answers[0], replace(answers[1], notes=())), strict=True):
        console.print(Text(f"> ask {query}", style="bold"))  # the notes of the second are those of the first
        console.print(answer)
        if answer.groups:
            print_chart(answer)
    console.print(_ask_beyond_budget(session, 3 * cost))
    console.print(Text(str(session.budget)))


def make_visits() -> Any:
    """A DuckDB connection with 200,000 visits of some ten thousands of people, who come once or often."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(TABLE)
    return connection


def _ask_beyond_budget(session: "Session", epsilon: Fraction) -> str:
    """Ask for more than remains, and return the refusal."""
    from discreet.errors import BudgetExceeded

    try:
        session.ask(COUNTS, epsilon=epsilon)
    except BudgetExceeded as refusal:
        return f"> ask the first query again at three times the cost\n  refused: {refusal}"
    return ""
