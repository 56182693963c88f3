"""A census as a folder that `discreet publish` takes: invented people, the public list of blocks, and a plan.

    python examples/census/plan.py census-demo
    discreet publish census-demo/plan.toml --to census-demo/tables

The plan has the Bureau's tables and the Bureau's noise (redistricting.py), as σ by level and table. Without its parts
[measure.…], discreet divides the budget itself. Exact totals of states would be one more part, and a conditional guarantee:

    [invariants]
    state = "Seats in parliament are apportioned by the exact counts of the states."
"""

import argparse
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from compare import list_measured
from people import LENGTHS, SHAPE, invent_people
from redistricting import COLUMNS, DELTA, LEVELS, PUBLISHED_EPSILON


def write_census(folder: Path, people: int = 50_000, shape: Sequence[int] = SHAPE, seed: int = 2020) -> Path:
    """Write people.parquet, blocks.csv and plan.toml into a folder. Return the path of the plan."""
    folder.mkdir(parents=True, exist_ok=True)
    population = invent_people(people, shape, seed)
    population.write(folder / "people.parquet")
    (folder / "blocks.csv").write_text("\n".join(["block", *population.codes]) + "\n", encoding="utf-8")
    plan = folder / "plan.toml"
    plan.write_text(format_plan(), encoding="utf-8")
    return plan


def format_plan() -> str:
    """Write the plan: all columns in the first table, so that they keep their order."""
    measured = list_measured()
    tables = sorted({by for some in measured.values() for by in some}, key=lambda by: (-len(by), by))
    lines = [
        'title = "A census of invented people"', 'source = "people.parquet"', 'unit = "row"', 'neighbours = "replace"',
        "[keys]", *(f"{name} = {list(range(size))}" for name, size in COLUMNS.items()),
        "[budget]", f"epsilon = {PUBLISHED_EPSILON}", f"delta = {float(DELTA)}",
        "[hierarchy]",
        f'geo = "{" > ".join(LEVELS)}"', 'nodes = "blocks.csv"', 'column = "block"', f"lengths = {list(LENGTHS)}",
    ]  # fmt: skip
    for by in tables:
        lines += [f"[tables.{name_table(by)}]", f"by = {list(by)}"]
    for level, some in measured.items():
        lines += [f'[measure."{level}"]', *(f"{name_table(by)} = {format_sigma(sigma)}" for by, sigma in some.items())]
    return "\n".join(lines) + "\n"


def format_sigma(sigma: Fraction) -> str:
    """Write a σ of 12 digits as the decimal that it is."""
    return f"{Decimal(sigma.numerator) / Decimal(sigma.denominator):f}"


def name_table(by: Sequence[str]) -> str:
    """Return the name of a table, which is that of its files."""
    return "detail" if len(by) == len(COLUMNS) else "_".join(by) or "total"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a census of invented people that discreet can publish.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--shape", type=int, nargs=5, default=SHAPE, metavar="N", help="states, counties of each, and so on")
    given = parser.parse_args()
    print(f"discreet publish {write_census(given.folder, given.people, given.shape)} --to {given.folder / 'tables'}")
