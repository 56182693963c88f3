"""`discreet publish`: show what a plan costs and buys, ask, then publish."""

import sys
from dataclasses import dataclass

import typer

from discreet._numbers import format_up
from discreet.cli.output import print_json, print_line, print_styled
from discreet.cli.question import show_progress
from discreet.errors import BadParameter
from discreet.workload.forecast import BUDGET_SHARES, Forecast, ForecastRow, forecast_budgets
from discreet.workload.planning import WorkloadPlan, plan_workload
from discreet.workload.publishing import Publication, publish
from discreet.workload.spec import read_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """What was typed beside the plan."""

    to: str
    yes: bool
    dry_run: bool
    force: bool
    fresh: bool
    key: str | None
    as_json: bool


def run(plan: str, choice: PublishOptions) -> None:
    """Print the outlook and, unless it is a dry run, publish."""
    if choice.as_json and not (choice.yes or choice.dry_run):
        raise BadParameter("--json", "given", "nobody is asked there", "give --yes to publish, or --dry-run")
    with show_progress("pricing …"):
        solved = plan_workload(read_workload(plan))
        seen = forecast_budgets(solved)
    said = {
        "price": solved.cost.to_dict(),
        "fits": solved.fits,
        "raised": solved.is_raised,
        "budgets": [each.to_dict() for each in seen],
    }
    if not choice.as_json:
        _print_forecast(solved, seen)
    if choice.dry_run:
        if choice.as_json:
            print_json(said)
        return
    if solved.fits and not choice.yes:
        _confirm(solved)
    with show_progress("publishing …") as told:
        made = publish(solved, choice.to, force=choice.force, fresh=choice.fresh, key=choice.key, progress=told)
    if choice.as_json:
        files = sorted(path.name for path in made.folder.iterdir())
        done = {
            "folder": str(made.folder),
            "entry": made.entry,
            "free": made.free,
            "files": files,
            "undrawn": list(made.missing_charts),
        }
        print_json(said | {"price": made.cost.to_dict()} | done)
    else:
        _print_outcome(made)


def _confirm(solved: WorkloadPlan) -> None:
    if not sys.stdin.isatty():
        raise BadParameter("--yes", "missing", "nobody is there to be asked", "give --yes to publish, or --dry-run")
    typer.confirm(f"Pay ε = {format_up(solved.cost.exact_epsilon[1])} and publish?", abort=True, err=True)


def _print_forecast(solved: WorkloadPlan, seen: tuple[Forecast, ...]) -> None:
    from rich.console import Console

    from discreet.formats import make_rich_table

    header = ["question", "column", "rows", *(f"ε = {format_up(outlook.epsilon, 3)}" for outlook in seen), "reliable"]
    lines = [_format_column(row) for row in zip(*(outlook.columns for outlook in seen), strict=True)]
    Console().print(make_rich_table(solved.workload.title or None, header, lines, left=2))
    shares = ", ".join(f"{float(share):g}" for share in BUDGET_SHARES)
    notes = [
        f"The plan costs {solved.cost}. Shown are half-widths that hold with probability "
        f"{float(solved.workload.confidence):g} at {shares} times its price, "
        "shared out in the same way; of averages and quantiles, over so many rows.",
        "Reliable cells are a forecast from the plan's sizes, for values spread evenly over their bounds; the rows have no "
        "part in it.",
        *solved.notes,
    ]
    if not solved.fits:
        notes.insert(0, "The wanted errors do not fit into budget.epsilon: this will be refused.")
    for note in notes:
        print_styled(note)


def _format_column(row: tuple[ForecastRow, ...]) -> list[str]:
    """A column at every budget: its half-widths, then how many of its cells would be reliable."""
    first = row[0]
    halves = [
        f"{format_up(100 * each.half_width, 3)}% rows" if each.unit else _format_half_width(each.half_width) for each in row
    ]
    counts = "/".join("?" if each.reliable is None else f"{each.reliable:,}" for each in row)
    rows, cells = "" if first.size is None else f"{first.size:,}", "?" if first.cells is None else f"{first.cells:,}"
    return [first.question, first.column, rows, *halves, f"{counts} of {cells}"]


def _format_half_width(half_width: float) -> str:
    """Four digits, rounded up, with commas."""
    return f"{float(format_up(half_width)):,.4g}"


def _print_outcome(made: Publication) -> None:
    cells = [cell for answer in made.answers.values() for _, row in answer.rows for cell in row]
    sure = sum(cell.reliable for cell in cells)
    cost = "answered before, nothing was paid now" if made.free else f"paid: {made.cost}"
    print_line(f"{made.folder}: {len(made.answers)} tables, {sure:,} of {len(cells):,} cells reliable; {cost}")
    if made.missing_charts:
        print_line(f"no picture could be drawn of {', '.join(made.missing_charts)}; everything else is there")
