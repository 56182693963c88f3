"""`discreet publish`: show what a plan costs and buys, ask, then publish."""

import sys
from dataclasses import dataclass

import typer

from discreet.cli.output import print_json, print_line, print_styled
from discreet.cli.question import waiting
from discreet.errors import BadParameter
from discreet.exact import shown_up
from discreet.publisher.outlook import BUDGETS, Line, Outlook, outlooks
from discreet.publisher.publication import Published, publish
from discreet.publisher.read import read_plan
from discreet.publisher.solve import Solved, solve


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was typed beside the plan."""

    to: str
    yes: bool
    dry_run: bool
    force: bool
    fresh: bool
    key: str | None
    as_json: bool


def run(plan: str, choice: Choice) -> None:
    """Print the outlook and, unless it is a dry run, publish."""
    if choice.as_json and not (choice.yes or choice.dry_run):
        raise BadParameter("--json", "given", "nobody is asked there", "give --yes to publish, or --dry-run")
    with waiting("pricing …"):
        solved = solve(read_plan(plan))
        seen = outlooks(solved)
    said = {
        "price": solved.price.to_dict(),
        "fits": solved.fits,
        "raised": solved.raised,
        "budgets": [each.to_dict() for each in seen],
    }
    if not choice.as_json:
        _show(solved, seen)
    if choice.dry_run:
        if choice.as_json:
            print_json(said)
        return
    if solved.fits and not choice.yes:
        _confirm(solved)
    with waiting("publishing …") as told:
        made = publish(solved, choice.to, force=choice.force, fresh=choice.fresh, key=choice.key, progress=told)
    if choice.as_json:
        files = sorted(path.name for path in made.folder.iterdir())
        done = {
            "folder": str(made.folder),
            "entry": made.entry,
            "free": made.free,
            "files": files,
            "undrawn": list(made.undrawn),
        }
        print_json(said | {"price": made.price.to_dict()} | done)
    else:
        _tell(made)


def _confirm(solved: Solved) -> None:
    if not sys.stdin.isatty():
        raise BadParameter("--yes", "missing", "nobody is there to be asked", "give --yes to publish, or --dry-run")
    typer.confirm(f"Pay ε = {shown_up(solved.price.ends[1])} and publish?", abort=True, err=True)


def _show(solved: Solved, seen: tuple[Outlook, ...]) -> None:
    from rich.console import Console

    from discreet.formats import rich_table

    header = ["question", "column", "rows", *(f"ε = {shown_up(outlook.epsilon, 3)}" for outlook in seen), "reliable"]
    lines = [_line(row) for row in zip(*(outlook.lines for outlook in seen), strict=True)]
    Console().print(rich_table(solved.workload.title or None, header, lines, left=2))
    shares = ", ".join(f"{float(share):g}" for share in BUDGETS)
    notes = [
        f"The plan costs {solved.price}. Shown are half-widths that hold with probability "
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


def _line(row: tuple[Line, ...]) -> list[str]:
    """A column at every budget: its half-widths, then how many of its cells would be reliable."""
    first = row[0]
    halves = [f"{shown_up(100 * each.half_width, 3)}% rows" if each.unit else _wide(each.half_width) for each in row]
    counts = "/".join("?" if each.reliable is None else f"{each.reliable:,}" for each in row)
    rows, cells = "" if first.size is None else f"{first.size:,}", "?" if first.cells is None else f"{first.cells:,}"
    return [first.question, first.column, rows, *halves, f"{counts} of {cells}"]


def _wide(half_width: float) -> str:
    """Four digits, rounded up, with commas."""
    return f"{float(shown_up(half_width)):,.4g}"


def _tell(made: Published) -> None:
    cells = [cell for answer in made.answers.values() for _, row in answer.rows for cell in row]
    sure = sum(cell.reliable for cell in cells)
    cost = "answered before, nothing was paid now" if made.free else f"paid: {made.price}"
    print_line(f"{made.folder}: {len(made.answers)} tables, {sure:,} of {len(cells):,} cells reliable; {cost}")
    if made.undrawn:
        print_line(f"no picture could be drawn of {', '.join(made.undrawn)}; everything else is there")
