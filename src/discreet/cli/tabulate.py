"""`discreet tabulate`: several tables that add up, from one debit, with an interval for every cell."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet._numbers import ceil_digits, decimal_up
from discreet.cli.app import ASKING, app, spell_notes
from discreet.cli.options import (
    AccountName,
    AnswerId,
    Budget,
    Confidence,
    Epsilon,
    Fresh,
    GaussianDelta,
    Json,
    LedgerOption,
    PlanCurrencyName,
    QueryArguments,
    collect_pairs,
    takes_source,
)
from discreet.cli.output import TEMPORARY_BUDGET, parse_number, print_json, print_line, print_warning, show_progress
from discreet.errors import BadParameter
from discreet.session.options import SourceOptions

if TYPE_CHECKING:
    from discreet.tabulation.plan import TabulationPlan
    from discreet.tabulation.wanted import TablesLike

TABLES_PANEL = "Tables"
AMPLE_BUDGET = "10000"
"""The ε of the budget that a cost is looked for in, where only errors are given. Nothing is charged to it."""
EVERYBODY = "-"
"""What stands for no columns: the total."""


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples:\n\n[bold]discreet tabulate people.csv --by dept,decade --by dept --computed 'decade=age // 10' "
    "--unit id --unique --keys dept=a,b,c --bounds age=18:70 --epsilon 1 --delta 1e-6[/bold]\n\n"
    '[bold]discreet tabulate people.csv --sql "SELECT dept, city, COUNT(*) AS n FROM people GROUP BY CUBE(dept, city)" '
    "--unit id --epsilon 1 --delta 1e-6 --keys dept=a,b,c --keys city=x,y --dry-run[/bold]",
)
@takes_source()
def tabulate(
    options: SourceOptions,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of one table, with commas: dept,age. - is the total. Repeat it.", rich_help_panel=TABLES_PANEL
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help="The tables as one query with GROUP BY CUBE, ROLLUP or GROUPING SETS.", rich_help_panel=TABLES_PANEL
        ),
    ] = None,
    computed: Annotated[
        list[str] | None,
        typer.Option(help="A column that is computed, in SQL: 'decade=age // 10'. Repeat it.", rich_help_panel=TABLES_PANEL),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Which rows count, in SQL: 'age >= 18'.", rich_help_panel=TABLES_PANEL)
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="A column with declared bounds that is added up in place of rows.", rich_help_panel=TABLES_PANEL),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="The half-width that every cell may have, in place of --epsilon.", rich_help_panel="Cost or error"
        ),
    ] = None,
    epsilon: Epsilon = None,
    budget: Budget = None,
    delta: GaussianDelta = "0",
    currency: PlanCurrencyName = None,
    confidence: Confidence = 0.95,
    ledger: LedgerOption = None,
    account: AccountName = None,
    id: AnswerId = None,
    fresh: Fresh = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cost and the half-widths. Nothing is charged.")
    ] = False,
    json: Json = False,
) -> None:
    """Print several tables that add up: jointly optimal noise, one charge, one pass over the rows, an interval per cell.

    Every table has an unbiased estimate with its interval, and a display value:
    nonnegative whole numbers that add up, too. `discreet publish` writes tables
    into a folder, with the measurements behind them.
    """
    from discreet.session.executor import RunOptions
    from discreet.tabulation.plan import plan_tabulation
    from discreet.tabulation.tabulation import execute_tabulation

    if (epsilon is None) == (error is None):
        given = "missing" if epsilon is None else "given with --error"
        raise BadParameter("--epsilon", given, "tables have either a cost or an error", "give --epsilon or --error")
    tables = _read_tables(by, sql, None if error is None else parse_number(error, "error"))
    if error is not None and ledger is None and budget is None and not dry_run:
        raise BadParameter(
            "--budget",
            "missing",
            "the cost follows from the error",
            "give the most that it may cost, which --dry-run shows: --budget 2",
        )
    if id is not None and ledger is None:
        reason = "only a ledger remembers what was charged under an id"
        raise BadParameter("--id", id, reason, "give --ledger too, or leave --id out")
    limit = (epsilon or budget or "1") if ledger is None else "1"
    arguments = QueryArguments(
        sql="", epsilon=limit, error=None, size=None, weight=None, confidence=confidence, delta=delta,
        currency=choose_currency(currency, delta, ledger), ledger=ledger, account=account, budget=budget,
    )  # fmt: skip

    def find_plan(arguments: QueryArguments) -> "TabulationPlan":
        session: Any = arguments.open_session(options)[0]
        for note in session.account_notes:
            print_warning(note)
        with show_progress("planning …"):
            return plan_tabulation(
                session, tables, epsilon=None if epsilon is None else parse_number(epsilon, "epsilon"),
                columns=collect_pairs(map(parse_computed, computed or ()), "--computed") or None, where=where,
                weight=weight, confidence=confidence,
            )  # fmt: skip

    if error is not None and ledger is None and budget is None:  # a budget of what the errors cost
        needed = find_plan(replace(arguments, budget=AMPLE_BUDGET)).sufficient_epsilon
        arguments = replace(arguments, budget=str(decimal_up(ceil_digits(needed, 3))))
    plan = find_plan(arguments)
    if dry_run:
        print_json(summarise_plan(plan)) if json else print_plan(plan)
        return
    with show_progress("tabulating …") as on_progress:
        found = execute_tabulation(plan, RunOptions(None, on_progress, id, fresh))
    if json:
        listed = {name: each.to_dicts() for name, each in found.items()}
        print_json(summarise_plan(plan) | {"values": listed, "notes": [*map(spell_notes, found.list_notes())]})
        return
    for line in repr(found).splitlines():
        print_line(spell_notes(line))
    if ledger is None:
        print_line(TEMPORARY_BUDGET)


def choose_currency(currency: str | None, delta: str, ledger: str | None) -> str | None:
    """Return the currency of a budget that lives as long as the command. One plan is all that it pays for, so with a δ it is
    pure ε: the plan is charged at a point of its certified curve, which buys more than a sum of zCDP."""
    return "pure" if currency is None and ledger is None and parse_number(delta, "delta") else currency


def _read_tables(by: list[str] | None, sql: str | None, error: Any) -> "TablesLike":
    from discreet.tabulation.wanted import WantedTable

    if (by is None) == (sql is None):
        given = "missing" if by is None else "given with --sql"
        raise BadParameter("--by", given, "no table is named", "give --by dept,age for each table, or --sql")
    if sql is not None:
        if error is not None:
            hint = "name the tables with --by, and give --computed and --where in place of the query"
            raise BadParameter("--error", "given with --sql", "an error is one of tables that are named", hint)
        return sql
    assert by is not None
    return [
        WantedTable(() if each.strip() == EVERYBODY else tuple(map(str.strip, each.split(","))), error=error) for each in by
    ]


def parse_computed(text: str) -> tuple[str, str]:
    """Read a column and its SQL, as typed.

    >>> parse_computed("decade = age // 10")
    ('decade', 'age // 10')
    """
    name, equals, expression = text.partition("=")
    if not (name.strip() and equals and expression.strip()):
        raise BadParameter("--computed", repr(text), "not a column and its SQL", "give 'decade=age // 10'")
    return name.strip(), expression.strip()


def summarise_plan(plan: "TabulationPlan") -> dict[str, Any]:
    """What a plan costs and buys, as plain values."""
    wanted, step = plan.wanted, float(plan.step)
    return {
        "cost": plan.cost.to_dict(),
        "fits": plan.fits,
        "tables": [
            {"name": table.name, "by": list(table.by), "half_width": plan.half_width(margin) * step,
             "sd": plan.parts(margin).variance ** 0.5 * step}
            for table, margin in zip(wanted.tables, wanted.margins, strict=True)
        ],
        "measured": [
            each | {name: [wanted.columns[i] for i in each[name]] for name in ("margin", "contrast") if name in each}
            for each in plan.describe()["measured"]
        ],
        "notes": [*map(spell_notes, plan.list_notes())],
    }  # fmt: skip


def count_measured(measured: list[Any]) -> str:
    """Say how many tables get noise, and of which columns differences are measured.

    >>> count_measured([{}])
    '1 table is measured.'
    >>> count_measured([{"margin": ["age"]}, {"margin": [], "contrast": ["sex"]}, {"margin": ["age"], "contrast": ["sex"]}])
    '3 tables are measured, 2 of them as differences between the two keys of sex.'
    """
    counted = "1 table is measured" if len(measured) == 1 else f"{len(measured):,} tables are measured"
    contrasts = [each["contrast"] for each in measured if "contrast" in each]
    if not contrasts:
        return f"{counted}."
    columns = ", ".join(sorted({name for each in contrasts for name in each}))
    return f"{counted}, {len(contrasts):,} of them as differences between the two keys of {columns}."


def format_number(number: float) -> str:
    """A half-width or a standard deviation for people: four digits, and never an exponent.

    >>> format_number(29.987), format_number(11094.3), format_number(0.012346)
    ('29.99', '11,090', '0.01235')
    """
    return f"{float(f'{number:.4g}'):,.0f}" if number >= 1000 else f"{number:.4g}"


def print_plan(plan: "TabulationPlan", summary: dict[str, Any] | None = None) -> None:
    """Print what a plan costs and buys. `summary` is what `summarise_plan` says of it, with more notes."""
    from rich.console import Console

    from discreet.formats import make_rich_table

    found = summarise_plan(plan) if summary is None else summary
    rows = [
        (
            each["name"],
            ", ".join(each["by"]) or "everybody",
            format_number(each["sd"]),
            f"±{format_number(each['half_width'])}",
        )
        for each in found["tables"]
    ]
    Console().print(make_rich_table(None, ("table", "by", "sd", "half-width"), rows))
    print_line(f"{count_measured(found['measured'])} {plan.cost}")
    for note in found["notes"]:
        print_line(note)
