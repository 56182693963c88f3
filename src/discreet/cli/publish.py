"""`discreet publish`: plan a workload, show its cost and what it buys, confirm, and write the publication."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import ASKING, app, spell_notes
from discreet.cli.options import Json, KeyFile, complete_files
from discreet.cli.output import print_json, print_line, print_styled, print_warning, show_progress
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.accounting.cost import Cost
    from discreet.tabulation.hierarchy_plan import HierarchyPlan
    from discreet.tabulation.priced_plan import PricedPlan
    from discreet.workload.forecast import Forecast, ForecastRow
    from discreet.workload.planning import TargetCost, WorkloadPlan
    from discreet.workload.publishing import Publication
    from discreet.workload.spec import PlanOptions


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples:\n\n[bold]discreet publish examples/publish.toml --dry-run[/bold]\n\n"
    "[bold]discreet publish examples/publish.toml --to people-2026 --yes[/bold]",
)
def publish(
    plan: Annotated[
        str,
        typer.Argument(
            help="A plan.toml: the source, the queries, their errors, the budget.", autocompletion=complete_files(".toml")
        ),
    ],
    to: Annotated[str, typer.Option(help="The folder to create.")] = "published",
    yes: Annotated[bool, typer.Option("--yes", help="Publish without confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cost and what it buys. No query runs, nothing is charged.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier publication in that folder.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Charge again and draw new noise; needs budget.id in the plan.")
    ] = False,
    key: KeyFile = None,
    spreadsheet: Annotated[
        bool, typer.Option("--spreadsheet", help="Escape keys in the CSV files that a spreadsheet would run as formulas.")
    ] = False,
    json: Json = False,
) -> None:
    """Publish several tables about one source: the least noise for the errors that you allow, one charge, one folder.

    Shows the half-widths and the reliable estimates at half the cost, the cost
    and twice the cost, and asks for a confirmation. Then it charges the
    account, runs the queries, and writes CSV, Parquet and a chart per query,
    the guarantee in words, and the certificate if a ledger pays.

    --dry-run also shows what each error that you allow costs, and how much of
    the budget is missing; the ledger of the plan need not exist yet.

    A plan with \\[tables.NAME] in place of queries publishes tables that add up
    (`discreet tabulate`), and the noisy measurements behind them; with
    \\[hierarchy], on all levels of a hierarchy. If such a publication is
    interrupted, the same command continues it.
    """
    from discreet.workload.forecast import forecast_budgets
    from discreet.workload.planning import find_noise, price_targets, read_plan
    from discreet.workload.publishing import publish as write_publication
    from discreet.workload.spec import has_hierarchy, has_tables

    if json and not (yes or dry_run):
        raise BadParameter("--json", "given", "it cannot ask for confirmation", "give --yes to publish, or --dry-run")
    if has_hierarchy(plan):
        if spreadsheet:
            hint = "leave it out, and open the Parquet files"
            raise BadParameter("--spreadsheet", "given", "the CSV files of a hierarchy are not escaped", hint)
        _publish_hierarchy(plan, to, yes=yes, dry_run=dry_run, force=force, fresh=fresh, key=key, json=json)
        return
    if has_tables(plan):
        _publish_tables(
            plan, to, yes=yes, dry_run=dry_run, force=force, fresh=fresh, key=key, spreadsheet=spreadsheet, json=json
        )
        return
    with show_progress("planning …"):
        opened = read_plan(plan, assume_account=dry_run)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise BadParameter("--yes", "missing", "there is no terminal for confirmation", "give --yes, or --dry-run")
    with show_progress("planning …"):
        prices = price_targets(opened) if dry_run else ()
    if prices and not json:  # first, so that it is seen even if the budget is too small for any plan
        _print_target_costs(opened, prices)
    with show_progress("planning …"):
        solved = find_noise(opened)
        forecasts = forecast_budgets(solved)
    summary = {
        "cost": solved.cost.to_dict(),
        "fits": solved.fits,
        "raised": solved.is_raised,
        "budgets": [each.to_dict() for each in forecasts],
    }
    if not json:
        _print_forecast(solved, forecasts)
    if dry_run:
        if json:
            print_json(summary | _summarise_targets(solved, prices))
        return
    if solved.fits and not yes:
        _confirm(solved.cost)
    with show_progress("publishing …") as on_progress:
        published = write_publication(
            solved, to, force=force, fresh=fresh, key=key, spreadsheet=spreadsheet, progress=on_progress
        )
    if not json:
        _print_outcome(published)
        return
    print_json(
        summary
        | {
            "cost": published.cost.to_dict(),
            "folder": str(published.folder),
            "entry": published.entry,
            "free": published.free,
            "files": sorted(path.name for path in published.folder.iterdir()),
            "undrawn": list(published.missing_charts),
        }
    )


def _publish_tables(
    plan: str, to: str, *, yes: bool, dry_run: bool, force: bool, fresh: bool, key: str | None, spreadsheet: bool, json: bool
) -> None:
    """Publish a plan that has tables in place of queries."""
    from discreet.cli.tabulate import print_plan, summarise_plan
    from discreet.workload.tabulated import check_fresh
    from discreet.workload.tabulations import publish_tables, read_table_workload

    with show_progress("planning …"):
        workload = read_table_workload(plan)
        account, assumed = workload.find_account(assume=dry_run)
        solved = workload.plan(account)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise BadParameter("--yes", "missing", "there is no terminal for confirmation", "give --yes, or --dry-run")
    for note in solved.session.account_notes:
        print_warning(note)
    check_fresh(workload, fresh)
    summary = summarise_plan(solved)
    summary["notes"] += [assumed] if assumed else _warn_of_memory(workload)
    if not json:
        print_plan(solved, summary)
    if dry_run:
        if json:
            print_json(summary)
        return
    if not yes:
        _confirm(solved.cost)
    with show_progress("publishing …") as on_progress:
        published = publish_tables(
            workload, to, solved=solved, force=force, fresh=fresh, key=key, spreadsheet=spreadsheet, progress=on_progress
        )
    files = sorted(path.name for path in published.folder.iterdir())
    if json:
        print_json(summary | {"folder": str(published.folder), "free": published.free, "files": files})
        return
    print_line(f"Published {len(files)} files in {published.folder}. {_describe_outcome(solved, published.free)}")


def _warn_of_memory(workload: "PlanOptions") -> list[str]:
    """Say that nothing adds up what is published without a ledger."""
    if workload.ledger is not None:
        return []
    return [
        "Without a ledger nothing remembers this cost: if the plan is published again, to any folder, new noise is drawn "
        "and the costs add up. budget.ledger in the plan keeps an account."
    ]


def _describe_outcome(solved: "PricedPlan", free: bool) -> str:
    """Say what remains after a publication."""
    from discreet.accounting.cost import Budget

    session = solved.session
    state = str(Budget.of(session.account.budget, session.delta))
    if not free:
        return state
    return f"The measurements were recorded before: nothing was charged. {state}"


def _publish_hierarchy(
    plan: str, to: str, *, yes: bool, dry_run: bool, force: bool, fresh: bool, key: str | None, json: bool
) -> None:
    """Publish a plan that has a hierarchy, or continue where it was interrupted."""
    from discreet.workload.hierarchies import publish_hierarchy, read_hierarchy_workload

    with show_progress("planning …"):
        workload = read_hierarchy_workload(plan)
        account, assumed = workload.find_account(assume=dry_run)
        solved = workload.plan(account)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise BadParameter("--yes", "missing", "there is no terminal for confirmation", "give --yes, or --dry-run")
    summary = _summarise_hierarchy(solved)
    summary["notes"] += [assumed] if assumed else _warn_of_memory(workload)
    if not json:
        _print_hierarchy(solved, summary)
    if dry_run:
        if json:
            print_json(summary)
        return
    if not yes:
        _confirm(solved.cost)
    with show_progress("publishing …") as on_progress:
        published = publish_hierarchy(workload, to, solved=solved, force=force, fresh=fresh, key=key, progress=on_progress)
    files = sorted(path.name for path in published.folder.iterdir())
    if json:
        found = {"folder": str(published.folder), "free": published.free, "root": published.tabulation.root, "files": files}
        print_json(summary | found)
        return
    print_line(
        f"Published {len(files)} files in {published.folder}. {_describe_outcome(solved, published.free)} "
        f"Merkle root of the measurements: {published.tabulation.root}."
    )


def _summarise_hierarchy(plan: "HierarchyPlan") -> dict[str, Any]:
    from discreet.tabulation.hierarchy_files import RowMaker, list_files

    model, levels, rows = plan.model, plan.wanted.hierarchy.levels, RowMaker(plan.model)
    tables = []
    for name, level in list_files(model):
        margin = model.tables[name][0]
        widths = model.list_half_widths(level, margin) * float(model.step)
        by, ends = [model.columns[i] for i in margin], [float(widths.min()), float(widths.max())]
        tables.append({"name": name, "level": rows.level_name(level), "by": by, "half_widths": ends})
    nodes = dict(zip(levels, plan.wanted.hierarchy.spine.sizes, strict=True))
    return {
        "cost": plan.cost.to_dict(), "nodes": nodes, "tables": tables, "measured": plan.describe()["measured"],
        "notes": [*map(spell_notes, plan.list_notes())],
    }  # fmt: skip


def _print_hierarchy(plan: "HierarchyPlan", summary: dict[str, Any]) -> None:
    from rich.console import Console

    from discreet.cli.tabulate import count_measured
    from discreet.formats import make_rich_table

    rows = [
        (
            each["name"],
            each["level"],
            ", ".join(each["by"]) or "everybody",
            _format_half_widths(*each["half_widths"]),
        )
        for each in summary["tables"]
    ]
    Console().print(make_rich_table(None, ("table", "level", "by", "half-width"), rows))
    print_line(f"{count_measured(summary['measured'])} {plan.cost}")
    for note in summary["notes"]:
        print_line(note)


def _format_half_widths(least: float, most: float) -> str:
    """Half-widths of the nodes of a level, for people.

    >>> _format_half_widths(29.99, 29.99), _format_half_widths(9794.2, 11094)
    ('±29.99', '±9,794 to ±11,090')
    """
    from discreet.cli.tabulate import format_number

    ends = dict.fromkeys((f"±{format_number(least)}", f"±{format_number(most)}"))
    return " to ".join(ends)


def _confirm(cost: "Cost") -> None:
    from discreet._numbers import format_up
    from discreet.accounting.cost import format_at

    epsilon = format_up(cost.exact_epsilon[1], 3)
    typer.confirm(f"Spend ε = {epsilon}{format_at(cost.delta)} and publish?", abort=True, err=True)


def _print_target_costs(plan: "WorkloadPlan", prices: "tuple[TargetCost, ...]") -> None:
    from rich.console import Console

    from discreet._numbers import format_up
    from discreet.formats import make_rich_table
    from discreet.workload.planning import describe_shortfall

    lines = [
        [each.column.query.name, each.column.name, str(each.column.query.get_error(each.column.name)),
         f"ε = {format_up(each.epsilon, 3)}"]
        for each in prices
        if each.column is not None
    ]  # fmt: skip
    Console().print(make_rich_table(None, ["query", "column", "allowed error", "costs by itself"], lines, left=2))
    print_styled(f"Together the allowed errors cost {describe_shortfall(plan)}.")


def _summarise_targets(solved: "WorkloadPlan", prices: "tuple[TargetCost, ...]") -> dict[str, object]:
    """The costs of the allowed errors, and what is missing in the account's currency: of the plan's own budget, and of what
    remains of the account."""
    from discreet._numbers import decimal_up
    from discreet.accounting.currencies import to_json_number

    targets = [
        {"question": each.column and each.column.query.name, "column": each.column and each.column.name,
         "epsilon": to_json_number(decimal_up(each.epsilon)), "amount": decimal_up(each.charge)}
        for each in prices
    ]  # fmt: skip
    over = {
        "plan": max(0.0, decimal_up(solved.charge - solved.terms.limit)),
        "account": max(0.0, decimal_up(solved.charge - solved.session.account.budget.remaining)),
    }
    return {"targets": targets, "missing": over, "assumed": solved.assumed or None}


def _print_forecast(solved: "WorkloadPlan", forecasts: "tuple[Forecast, ...]") -> None:
    from rich.console import Console

    from discreet._numbers import format_up
    from discreet.formats import make_rich_table
    from discreet.workload.forecast import BUDGET_SHARES
    from discreet.workload.planning import describe_shortage

    header = ["query", "column", "rows", *(f"ε = {format_up(forecast.epsilon, 3)}" for forecast in forecasts), "reliable"]
    lines = [_format_column(row) for row in zip(*(forecast.columns for forecast in forecasts), strict=True)]
    Console().print(make_rich_table(solved.workload.title or None, header, lines, left=2))
    *shares, last = (f"{float(share):g}" for share in BUDGET_SHARES)
    if not solved.fits:
        print_styled("The allowed errors cost more than budget.epsilon: the publication will be refused.")
    if solved.fits and (shortage := describe_shortage(solved)):
        print_styled(shortage)
    for note in (
        str(solved.cost),
        *_explain_cost(solved),
        f"The table shows half-widths at {', '.join(shares)} and {last} times this cost, which hold with probability "
        f"≥ {float(100 * solved.workload.confidence):g}%; those of averages and quantiles are for the number of rows shown.",
        "The number of reliable estimates is a forecast from the sizes in the plan, for values spread evenly over their "
        "bounds. No row is read for it.",
        *solved.notes,
    ):
        print_styled(note)


def _explain_cost(solved: "WorkloadPlan") -> list[str]:
    """Say why the cost is another ε than that of the plan, where noise was chosen to use up the budget."""
    from discreet._numbers import read_positive

    if all(column.target is not None for column in solved.columns):
        return []
    asked = read_positive(solved.workload.epsilon, "budget.epsilon")
    said = solved.cost.explain_epsilon(asked, "this publication alone")
    return [] if said is None else [said]


def _format_column(row: "tuple[ForecastRow, ...]") -> list[str]:
    """A column at every budget: its half-widths, then the number of its reliable estimates."""
    from discreet._numbers import format_up
    from discreet.query.estimates import SHARE_OF_ROWS

    first = row[0]
    half_widths = [
        f"{format_up(100 * each.half_width, 3)}% rows" if each.unit == SHARE_OF_ROWS else format_up(each.half_width)
        for each in row
    ]
    counts = "/".join("?" if each.reliable is None else f"{each.reliable:,}" for each in row)
    rows, cells = "" if first.size is None else f"{first.size:,}", "?" if first.cells is None else f"{first.cells:,}"
    return [first.query, first.column, rows, *half_widths, f"{counts} of {cells}"]


def _explain_free(published: "Publication") -> str:
    return (
        f"The answers were recorded before, and are about the data as of entry {published.entry}: nothing was charged. If "
        "the data changed since, another label in the plan names their new state."
    )


def _print_outcome(published: "Publication") -> None:
    from discreet.formats import count_things

    tables = count_things(len(published.answers), "table")
    estimates = [estimate for answer in published.answers.values() for _, row in answer.rows for estimate in row]
    reliable = sum(estimate.reliable for estimate in estimates)
    print_line(
        f"{published.folder}: {tables}, {reliable:,} of {len(estimates):,} estimates reliable. "
        + (_explain_free(published) if published.free else str(published.cost))
    )
    if published.missing_charts:
        print_line(f"Charts of {', '.join(published.missing_charts)} could not be drawn; all other files are complete.")
