"""A census of invented people: least squares with intervals beside a display that is made from the top down.

    python examples/census/compare.py [--people 50000] [--runs 10] [--exact-states] [--to comparison.html]

It measures the people with the Bureau's noise (redistricting.py) through an account, and estimates the tables of all levels
in two ways from the same noisy measurements: by generalised least squares, as discreet publishes them, and from the top
down, as the Bureau did, in a simple form. It compares both with the invented truth, which nobody has of real people.

**Top down.** On each level, each node's own measurements are combined by least squares; measurements of other levels are not
used. Then, from the top, the totals of the children of a node are the closest nonnegative whole numbers that add up to the
node's; and their 2,016 cells are the closest ones that add up to these totals and to the node's cells. Blocks, whose totals
were measured with σ = 89, get their cells first, and the total is their sum: `are_totals_first` says where. Against the
Bureau's TopDown [Abo22] this leaves out: the passes over queries in order of importance with a tolerance for each, the
weighting of the measurements in the constrained step, the exact counts of housing units and facilities, structural zeros,
the branch for American Indian areas and the optimised block groups. The number of people is public, as in the relation
"replace one person", and is the total of the nation. The totals of states are exact with --exact-states alone: they are an
invariant, which makes the guarantee conditional. Least squares uses neither.

**Institutions.** The Bureau also measured `hhgq` in three groups. That table is no margin of the four columns; here its
share of the budget goes to `hhgq` itself, of which it is a sum.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from people import LENGTHS, SHAPE, Population, invent_people
from redistricting import COLUMNS, DELTA, LEVEL_SHARES, LEVELS, PUBLISHED_EPSILON, QUERIES, QUERY_SHARES, RHO

import discreet
from discreet.ledger.certificate import describe_conditional
from discreet.noise import SYSTEM, Bits
from discreet.session.executor import RunOptions
from discreet.tabulation.display import are_totals_first, display_level, round_to_total
from discreet.tabulation.hierarchical import execute_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_estimation import HierarchyModel, estimate_blocks
from discreet.tabulation.hierarchy_plan import HierarchyPlan, plan_hierarchy, sigmas_from_shares
from discreet.tabulation.margins import Margin
from discreet.tabulation.node_residuals import rebuild_nodes, split_nodes
from discreet.vega import Chart

TABLES = {
    "total": (),
    "race": ("cenrace",),
    "hispanic_race": ("hispanic", "cenrace"),
    "detail": tuple(COLUMNS),
}
"""What is compared."""

WAYS = {"estimate": "estimate (least squares)", "display": "display of the estimate", "top_down": "top down"}
REASON = "Seats in parliament are apportioned by the exact counts of the states."

Measured = Sequence[Mapping[Margin, NDArray[np.integer]]]
"""By level: noisy tables by margin, one row per node."""


# -- measuring --------------------------------------------------------------------------------------------------------------


def plan_census(population: Population, path: Path, invariants: Mapping[str, str] | None = None) -> HierarchyPlan:
    """Write the people to a file, and plan their tables with the Bureau's noise. Nothing is charged."""
    population.write(path)
    keys = {name: list(range(size)) for name, size in COLUMNS.items()}
    session = discreet.connect(
        path,
        unit="row",
        epsilon=PUBLISHED_EPSILON,
        delta=DELTA,
        currency="pure",
        keys=keys,
        neighbours="replace",
        invariants=invariants,
    )
    hierarchy = Hierarchy.read(LEVELS, population.codes, column="block", lengths=LENGTHS)
    in_order = {"detail": TABLES["detail"]} | TABLES  # columns are numbered as they appear
    tables = {name: LevelTable(by) for name, by in in_order.items()}
    return plan_hierarchy(session, hierarchy, tables, measure=list_measured())


def list_measured() -> dict[str, dict[str | tuple[str, ...], Fraction]]:
    """Return the Bureau's σ by level and columns, with the share of `hhinstlevels` given to `hhgq`."""
    shares: dict[str, dict[str, Fraction]] = {}
    for level, queries in QUERY_SHARES.items():
        shares[level] = {query: LEVEL_SHARES[level] * share for query, share in queries.items()}
        shares[level]["group quarters"] += shares[level].pop("institution")
    sigmas = sigmas_from_shares(RHO, shares, l2_squared=2)
    return {level: {QUERIES[query]: sigma for query, sigma in some.items()} for level, some in sigmas.items()}


def sum_levels(cells: NDArray[np.int64], plan: HierarchyPlan) -> list[NDArray[np.int64]]:
    """Return the exact cells of all nodes, by level."""
    found = [cells]
    for starts in reversed(plan.model.spine.starts):
        found.insert(0, np.add.reduceat(found[0], starts[:-1], axis=0))
    return found


def sum_to(cells: NDArray[Any], margin: Margin) -> NDArray[Any]:
    """Return a table of every node from its 2,016 cells, flat."""
    sizes = tuple(COLUMNS.values())
    away = tuple(1 + i for i in range(len(sizes)) if i not in margin)
    return np.asarray(cells.reshape(-1, *sizes).sum(axis=away).reshape(len(cells), -1))


def draw_measurements(exact: Sequence[NDArray[np.int64]], plan: HierarchyPlan, bits: Bits = SYSTEM) -> Measured:
    """Return noisy tables once more: with real people, that would be a second publication at the same cost."""
    pairs = zip(exact, plan.noises, strict=True)
    return [{margin: noise.release(sum_to(cells, margin), bits) for margin, noise in some.items()} for cells, some in pairs]


@dataclass(frozen=True)
class InMemory:
    """Measurements of all levels, where `estimate_blocks` reads them."""

    levels: Measured

    def read_upper(self) -> Measured:
        """Return those of all levels."""
        return self.levels

    def read_subtree(self, place: int) -> Measured:
        """Return those of a subtree: there are none."""
        raise AssertionError(f"nothing is streamed, and subtree {place} is asked for")


# -- two ways to make tables -----------------------------------------------------------------------------------------------


def estimate_top_down(
    model: HierarchyModel, measured: Measured, people: int, states: NDArray[np.int64] | None = None
) -> list[NDArray[np.int64]]:
    """Return the 2,016 cells of all nodes by level, from the top down; `states` are exact totals, if they are public."""
    sizes, shown = model.sizes, list[NDArray[np.int64]]()
    detail = tuple(range(len(sizes)))
    for level, tables in enumerate(measured):
        errors = model.errors[level]
        assert errors is not None
        parts, _ = split_nodes(sizes, tables, errors, model.lowest)
        cells, totals = rebuild_nodes(sizes, parts, detail), rebuild_nodes(sizes, parts, ())
        if not shown:
            shown.append(round_to_total(cells, np.full(len(cells), people)))
            continue
        first = are_totals_first(*(float(model.noises[level][table].sigma) for table in ((), detail)))
        if level == 1 and states is not None:
            totals, first = states[:, None].astype(float), True
        shown.append(display_level(cells, totals, shown[-1], model.spine.starts[level - 1], totals_first=first))
    return shown


@dataclass(frozen=True)
class Outcome:
    """The errors of one table on one level, over all runs: of the estimate, of its display, and of the top-down display."""

    level: str
    table: str
    cells: int
    estimate_rmse: float
    display_rmse: float
    top_down_rmse: float
    estimate_bias: float  # mean error of the cells that are not empty
    display_bias: float
    top_down_bias: float
    estimate_coverage: float  # how often the interval covers the truth
    display_coverage: float  # how often an interval of that width around the display value would
    top_down_coverage: float
    large_top_down_coverage: float  # of the largest tenth of the cells that are not empty
    half_width: float


def compare(
    plan: HierarchyPlan, cells: NDArray[np.int64], runs: Sequence[Measured], *, exact_states: bool = False
) -> list[Outcome]:
    """Compare estimates and displays with the truth, over some runs of the noise."""
    model, exact = plan.model, sum_levels(cells, plan)
    errors: dict[tuple[int, str], list[tuple[NDArray[Any], ...]]] = {}
    for measured in runs:
        shown = estimate_top_down(model, measured, int(cells.sum()), exact[1].sum(axis=1) if exact_states else None)
        for block in estimate_blocks(model, InMemory(measured)):
            margin, _ = model.tables[block.name]
            truth = sum_to(exact[block.level], margin)
            inside = (block.lower <= truth) & (truth <= block.upper)
            widths = np.broadcast_to(block.half_width[:, None], truth.shape)
            top_down = sum_to(shown[block.level], margin)
            assert block.display is not None
            each = (truth, block.estimate - truth, block.display - truth, top_down - truth, inside, widths)
            errors.setdefault((block.level, block.name), []).append(each)
    levels = range(len(LEVELS))
    return [summarise(LEVELS[level], name, errors[level, name]) for name in TABLES for level in levels]


def summarise(level: str, name: str, runs: Sequence[tuple[NDArray[Any], ...]]) -> Outcome:
    """Return the errors of one table on one level."""
    truth, estimate, display, top_down, inside, widths = (np.stack(each) for each in zip(*runs, strict=True))
    filled = truth > 0
    large = truth >= max(1.0, float(np.quantile(truth[filled], 0.9)))

    def rmse(error: NDArray[Any]) -> float:
        return float(np.sqrt((error.astype(float) ** 2).mean()))

    return Outcome(
        level, name, truth[0].size, rmse(estimate), rmse(display), rmse(top_down),
        float(estimate[filled].mean()), float(display[filled].mean()), float(top_down[filled].mean()),
        float(inside.mean()), float((abs(display) <= widths).mean()), float((abs(top_down) <= widths).mean()),
        float((abs(top_down) <= widths)[large].mean()), float(widths.mean()),
    )  # fmt: skip


# -- printing and drawing --------------------------------------------------------------------------------------------------


def format_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Write the comparison as a table."""
    head = (
        f"{'':<29}{'RMSE':^27}{'bias of nonempty cells':^27}{'covered by ± half-width':^36}\n"
        f"{'table':<14}{'level':<12}{'±':>6}" + f"{'estimate':>9}{'display':>9}{'top down':>9}" * 3 + f"{'its large':>10}"
    )
    lines = [head]
    for each in outcomes:
        rmse = f"{each.estimate_rmse:9.2f}{each.display_rmse:9.2f}{each.top_down_rmse:9.2f}"
        bias = f"{each.estimate_bias:9.2f}{each.display_bias:9.2f}{each.top_down_bias:9.2f}"
        covered = f"{each.estimate_coverage:9.1%}{each.display_coverage:9.1%}{each.top_down_coverage:9.1%}"
        lines.append(
            f"{each.table:<14}{each.level:<12}{each.half_width:6.1f}{rmse}{bias}{covered}{each.large_top_down_coverage:10.1%}"
        )
    return "\n".join(lines)


def draw_outcomes(outcomes: Sequence[Outcome]) -> Chart:
    """Return a chart: RMSE, bias and coverage by level, for the three numbers of every table."""
    rows = [row for each in outcomes for row in _list_rows(each)]
    level = {"field": "level", "type": "ordinal", "sort": list(LEVELS), "title": None}
    colours = {"domain": list(WAYS.values()), "range": ["#0072B2", "#E69F00", "#D55E00"]}
    colour = {"field": "way", "type": "nominal", "title": None, "scale": colours}

    def panel(field: str, title: str) -> dict[str, Any]:
        scale = {"type": "symlog"} if field != "coverage" else {"zero": False}
        y = {"field": field, "type": "quantitative", "title": title, "scale": scale}
        encoding = {"x": level, "y": y, "color": colour}
        return {"mark": {"type": "line", "point": True}, "width": 230, "height": 150, "encoding": encoding}

    panels = [
        panel("rmse", "root mean square error"),
        panel("bias", "bias of nonempty cells"),
        panel("coverage", "share covered by ± half-width"),
    ]
    return Chart({
        "description": "Invented census: least squares beside a top-down display",
        "data": {"values": rows},
        "columns": 1,
        "facet": {"field": "table", "type": "nominal", "sort": list(TABLES), "title": None},
        "spec": {"hconcat": panels},
    })  # fmt: skip


def _list_rows(each: Outcome) -> Iterator[dict[str, Any]]:
    for key, way in WAYS.items():
        numbers = {part: getattr(each, f"{key}_{part}") for part in ("rmse", "bias", "coverage")}
        yield {"level": each.level, "table": each.table, "way": way} | numbers


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description="Compare least squares with a top-down display on invented people.")
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--shape", type=int, nargs=5, default=SHAPE, metavar="N", help="states, counties of each, and so on")
    parser.add_argument("--runs", type=int, default=10, help="how often noise is drawn")
    parser.add_argument("--seed", type=int, default=2020, help="of the people; noise has no seed")
    parser.add_argument("--exact-states", action="store_true", help="publish the totals of states exactly")
    parser.add_argument("--to", type=Path, help="a file for the chart: .html, .svg, .png or .json")
    given = parser.parse_args(arguments)
    population = invent_people(given.people, given.shape, given.seed)
    cells = population.count_cells()
    with tempfile.TemporaryDirectory() as folder:
        invariants = {"state": REASON} if given.exact_states else None
        plan = plan_census(population, Path(folder) / "people.parquet", invariants)
        sizes = ", ".join(f"{n:,} {level}" for n, level in zip(plan.model.spine.sizes, LEVELS, strict=True))
        print(f"{given.people:,} invented people; nodes: {sizes}")
        found = execute_hierarchy(plan, Path(folder) / "tables", RunOptions())  # charges the account, once
        print("\n".join([str(plan.cost), *(describe_conditional(plan.session.invariants) for _ in invariants or ()), ""]))
        first = found.measurements.source.read_upper()
    exact = sum_levels(cells, plan)
    runs = [first, *(draw_measurements(exact, plan) for _ in range(given.runs - 1))]
    outcomes = compare(plan, cells, runs, exact_states=given.exact_states)
    print(format_outcomes(outcomes))
    if given.to is not None:
        draw_outcomes(outcomes).save(given.to)
        print(f"\n{given.to}: written")


if __name__ == "__main__":
    main()
