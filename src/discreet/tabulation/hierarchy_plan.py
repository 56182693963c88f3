"""The noise of all tables on all levels of a hierarchy, found together, at one cost. No row is read.

**Theory of operation.** `level_allocation` divides a budget over levels and margins, so that the weighted sum of the
variances of all wanted cells is least; one factor on all standard deviations is then the least at which the whole costs what
the account may pay, as for one level (`plan.py`). How much a level weighs is the policy key `weigh`:

    "level"  every level counts as much as another: variances are averaged over its nodes (the default)
    "node"   every node counts as much as another: the last level, which has most of them, decides

The weight of a table, one number or one per level, comes on top. Or errors are wanted (`LevelTable.error`): half-widths by
table and level. Then `level_errors` divides, so that the least budget is enough, and one factor on all standard deviations
is the largest at which every interval of every node is as narrow as wanted. `level_errors` knows variances; how many
standard deviations a half-width has depends on the laws that are drawn, so it is asked again with what the last answer had.

Or the noise is fixed (`measure`): σ of each table on each level, as exact fractions, which are drawn as they stand;
`sigmas_from_shares` gives those that divide a ρ in shares.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discreet._numbers import Number, ceil_digits, check_confidence, format_up, read_positive, sqrt_up
from discreet.errors import BadParameter, Problems, QueryRefused
from discreet.events import Composition
from discreet.ledger.entries import to_canonical_json
from discreet.query.answer import IntervalOptions
from discreet.session.charging import MAX_NOISE_FACTOR, ChargeTerms
from discreet.session.executor import SEEDED, Execution, RunOptions
from discreet.session.session import Session
from discreet.tabulation.hierarchy import (
    Hierarchy,
    HierarchyWanted,
    LevelTable,
    LevelTablesLike,
    check_level_tables,
    hash_nodes,
    read_hierarchy_wanted,
    read_regions,
)
from discreet.tabulation.hierarchy_estimation import HierarchyModel
from discreet.tabulation.hierarchy_measuring import HierarchyJob, LevelNoises, SpoolJob, make_hierarchy_event
from discreet.tabulation.intervals import NoiseParts, choose_noise
from discreet.tabulation.level_allocation import LevelAllocation, allocate_levels
from discreet.tabulation.level_errors import LevelLimit, allocate_for_level_errors
from discreet.tabulation.margins import Lattice, Margin, check_margin, count_cells
from discreet.tabulation.measuring import noise_to_json
from discreet.tabulation.plan import SIGMA_DIGITS
from discreet.tabulation.priced_plan import PricedPlan
from discreet.tabulation.regions import Regions
from discreet.tabulation.spine import Spine
from discreet.tabulation.spool import Spool

MAX_SUBTREE_CELLS = 12_000_000
"""Numbers of all residuals of one subtree: about 1 GB while they are estimated."""
MAX_GAP = 1e-6
"""By which share the weighted variance may be above the least one: it is certified."""
MAX_DIVISIONS = 3
"""How often the noise is divided anew, with the half-widths in standard deviations that the last division had."""
MAX_TRIES, LEAST_STEP = 200, 3e-5
"""How often a factor on all σ is tried, and by which share it falls at least."""
SHARE_DIGITS = 12
"""Digits of a σ that follows from a share of ρ."""

Weigh = Literal["level", "node"]
FixedNoise = Mapping[str, Mapping[str | tuple[str, ...], "Number | str"]]
"""By level, by table (a wanted one's name, or its columns): σ, a number or a text such as "7/2"."""
SIGMA_TEXT = re.compile(r"[0-9]{1,40}(/0{0,9}[1-9][0-9]{0,39}|\.[0-9]{1,40})?")


@dataclass(frozen=True)
class HierarchyPlan(PricedPlan):
    """A tabulation of a hierarchy with its noise and its cost: all that is known before it is charged."""

    session: Session
    wanted: HierarchyWanted
    noises: LevelNoises
    terms: ChargeTerms
    confidence: float
    stream_level: int
    allocation: LevelAllocation | None  # None: the noise was given
    region_names: tuple[str, ...]
    regions: Regions

    @cached_property
    def event(self) -> Composition:
        """What will have happened once the tables are measured."""
        return make_hierarchy_event(self.wanted, self.noises)

    def list_notes(self) -> tuple[str, ...]:
        """What is not declared about the source, why the cost is another ε than was asked for, and what the budget does not
        promise: as for a query."""
        is_divided = self.allocation is not None and not self.wanted.has_errors
        asked = self.terms.asked if is_divided else None
        return self.session.list_plan_notes(self.cost, asked, "these tables together")

    @cached_property
    def model(self) -> HierarchyModel:
        """What estimates the tables, and knows their intervals before a row is read."""
        wanted = self.wanted
        tables = {
            table.name: (margin, levels)
            for table, margin, levels in zip(wanted.tables, wanted.margins, wanted.levels, strict=True)
        }
        step = wanted.bounded.step
        return HierarchyModel(
            wanted.hierarchy.spine, wanted.columns, wanted.keys, tables, self.noises, self.confidence, step,
            self.stream_level, self.region_names, self.regions if self.region_names else None,
        )  # fmt: skip

    def half_widths(self, table: str, level: str) -> Any:
        """Return the half-width of the intervals of a table for every node of a level, in steps of the grid."""
        return self.model.list_half_widths(self.wanted.hierarchy.spine.level(level), self.model.tables[table][0])

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is measured, as plain values. The list of nodes is in it as a hash."""
        hierarchy = self.wanted.hierarchy
        measured = [
            {"level": hierarchy.levels[level], "margin": list(margin), **noise_to_json(noise)}
            for level, noises in enumerate(self.noises)
            for margin, noise in noises.items()
        ]
        described = self.session.executor.describe_bounded(self.wanted.bounded)
        return described | {"nodes": hash_nodes(hierarchy.spine), "stream_level": self.stream_level, "measured": measured}

    @cached_property
    def hash(self) -> str:
        """The hash of all that decides what is measured."""
        return sha256(to_canonical_json(self.describe())).hexdigest()

    def execute(self, folder: Path, options: RunOptions) -> "tuple[Execution[dict[str, str]], Spool]":
        """Bind the debit to a folder, charge the account once, and measure; or return what was recorded for the plan."""
        executor, intervals = self.session.executor, IntervalOptions(self.confidence)
        spec = self.describe() | SEEDED[options.tainted]
        job = SpoolJob(self.wanted.bounded.table, folder, self.hash, spec | {"step": "folder"})
        step = options.for_step("folder")
        executor.check_quarantine()
        if not executor.is_paid(job, step):  # a plan that is too expensive is bound to no folder
            executor.check_budget(self.event, job.table, self.terms.certified_delta)
        bound = executor.execute(job, step, intervals)
        paid = HierarchyJob(
            self.wanted, self.noises, self.stream_level, Spool(folder, bound.answers), self.event,
            spec | {"spool": bound.answers}, self.terms.certified_delta,
        )  # fmt: skip
        spool = Spool.open(folder, bound.answers, is_paid=executor.is_paid(paid, replace(options, fresh=False)))
        execution = executor.execute(paid, options, intervals)
        if execution.receipt is None:  # recorded before, and maybe in another copy of this folder
            spool.check_parts(execution.answers)
        spool.open_to_readers()
        return execution, spool


def plan_hierarchy(
    session: Session,
    hierarchy: Hierarchy,
    tables: LevelTablesLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    measure: FixedNoise | None = None,
    weigh: Weigh | Mapping[str, Number] = "level",
    regions: Mapping[str, Iterable[Any] | Mapping[str, Iterable[Any]]] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
    confidence: Number = 0.95,
    stream_level: str | None = None,
) -> HierarchyPlan:
    """Find the noise of all tables on all levels together. Nothing is charged and no row is read.

    `epsilon` is the most that all of it may cost; with `measure`, which fixes σ by level and table, and with errors for all
    tables, it may be left out.
    `weigh` says how much levels weigh: "level", "node", or a number for each level. `regions` are sums of nodes that are no
    node themselves. `stream_level` is the level whose subtrees are measured one at a time, the highest at which one fits in
    memory by default. The other parameters are those of `tabulate`.
    """
    problems = Problems()
    checked = check_hierarchy_plan(
        session, hierarchy, tables, problems, measure=measure, weigh=weigh, regions=regions, columns=columns, where=where,
        weight=weight, confidence=confidence, stream_level=stream_level,
    )  # fmt: skip
    terms = None
    with problems.collect():
        is_fixed = measure is not None or _have_errors(tables)
        terms = _make_terms(session, epsilon, delta, is_fixed)
    problems.raise_all()
    assert checked is not None
    assert terms is not None
    wanted, region_names, covers, level = checked.wanted, checked.region_names, checked.regions, checked.confidence
    allocation: LevelAllocation | None = None
    if checked.fixed is not None:
        noises = checked.fixed
    elif wanted.has_errors:
        allocation, noises = _allocate_for_errors(session, wanted, terms, level)
    else:
        allocation, noises = _allocate(wanted, terms, checked.weights)
    plan = HierarchyPlan(session, wanted, noises, terms, level, checked.stream_level, allocation, region_names, covers)
    problems.found += plan.model.check()
    if not problems.found and region_names and not plan.model.region_tables:
        problems.add("regions", ", ".join(region_names), "no table is estimated on the levels of their nodes",
                     "want a table on these levels")  # fmt: skip
    problems.raise_all()
    if not plan.fits and (wanted.has_errors or epsilon is not None):
        most = session.remaining.epsilon if epsilon is None else read_positive(epsilon, "epsilon")
        cost, given = format_up(plan.sufficient_epsilon, 3), format_up(most, 3)
        what, hint = ("errors", "allow larger errors") if wanted.has_errors else ("σ", "raise the σ in measure")
        state = "remains" if epsilon is None else "is given"
        raise QueryRefused(f"These {what} cost ε = {cost}, and ε = {given} {state}", f"give epsilon = {cost}, or {hint}")
    return plan


@dataclass(frozen=True)
class CheckedPlan:
    """What a plan of a hierarchy asks for, with nothing wrong in it; its noise is still to be found."""

    wanted: HierarchyWanted
    region_names: tuple[str, ...]
    regions: Regions
    confidence: float
    stream_level: int
    fixed: LevelNoises | None
    weights: Any


def check_hierarchy_plan(
    session: Session | None,
    hierarchy: Hierarchy,
    tables: LevelTablesLike,
    problems: Problems,
    *,
    measure: FixedNoise | None = None,
    weigh: Weigh | Mapping[str, Number] = "level",
    regions: Mapping[str, Iterable[Any] | Mapping[str, Iterable[Any]]] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
    confidence: Number = 0.95,
    stream_level: str | None = None,
) -> CheckedPlan | None:
    """Check what `plan_hierarchy` is asked for. Every problem is collected; None if there is one. No row is read.

    Without a session everything but the columns of tables is looked at, and nothing is returned.
    """
    wanted, fixed, streamed, weights = None, None, len(hierarchy.levels), None
    with problems.collect():
        if session is None:
            check_level_tables(hierarchy, tables, problems)
        else:
            wanted = read_hierarchy_wanted(session, hierarchy, tables, columns=columns, where=where, weight=weight)
    region_names: tuple[str, ...] = ()
    covers = Regions.cover(hierarchy.spine, [])
    with problems.collect():
        region_names, covers = read_regions(hierarchy, regions, () if wanted is None else wanted.columns)
    level = 0.95
    with problems.collect():
        level = check_confidence(confidence)
    with problems.collect():
        _weigh_levels(hierarchy, weigh)
        weights = None if wanted is None else _weigh_residuals(wanted, weigh)
    with problems.collect():
        streamed = _choose_stream_level(hierarchy, wanted, stream_level)
    with problems.collect():
        fixed = None if measure is None or wanted is None else _read_fixed(wanted, measure)
    if wanted is not None and wanted.has_errors:
        for name, is_given in (("measure", measure is not None), ("weigh", weigh != "level")):
            if is_given:
                problems.add(name, "given with errors", "the noise follows from the errors", "leave it out, or the errors")
    if problems.found or wanted is None:
        return None
    return CheckedPlan(wanted, region_names, covers, level, streamed, fixed, weights)


def sigmas_from_shares(
    rho: Number, shares: Mapping[str, Mapping[str, Number]], *, l2_squared: int
) -> dict[str, dict[str, Fraction]]:
    """Return the σ of tables that get exact shares of a ρ: σ² = Δ²/(2·ρ·share), where Δ² is the squared l2 sensitivity of
    one table: k² if a unit of at most k rows is added or removed, 2k² if one is replaced. σ is rounded up in its 12th digit.

    >>> sigmas_from_shares(1, {"nation": {"total": Fraction(1, 4), "age": Fraction(3, 4)}}, l2_squared=2)["nation"]["total"]
    Fraction(2, 1)
    """
    exact = read_positive(rho, "rho")
    parts = {level: {name: read_positive(each, "shares") for name, each in some.items()} for level, some in shares.items()}
    total = sum((each for some in parts.values() for each in some.values()), Fraction(0))
    if total > 1:
        raise BadParameter("shares", f"{total} together", "more than the whole", "give shares that add up to 1")
    return {
        level: {
            name: ceil_digits(sqrt_up(Fraction(l2_squared) / (2 * exact * share)), SHARE_DIGITS)
            for name, share in some.items()
        }
        for level, some in parts.items()
    }


def _have_errors(tables: LevelTablesLike) -> bool:
    """Whether a table, of which something may be wrong, wants an error."""
    listed = tables.values() if isinstance(tables, Mapping) else tables
    return any(isinstance(table, LevelTable) and table.error is not None for table in listed)


def _make_terms(session: Session, epsilon: Number | None, delta: Number | None, is_fixed: bool) -> ChargeTerms:
    if epsilon is None:
        if not is_fixed:
            hint = "give epsilon=, or an error for every table, or measure= with a σ for every table"
            raise BadParameter("epsilon", "missing", "no noise is given", hint)
        epsilon = session.remaining.epsilon
    return ChargeTerms.of_gaussian(session, epsilon, delta, "a tabulation")


def _allocate(wanted: HierarchyWanted, terms: ChargeTerms, weights: Any) -> tuple[LevelAllocation, LevelNoises]:
    """The least weighted variance that the budget buys."""
    lattice = Lattice.of(wanted.sizes, wanted.margins)
    allocation = allocate_levels(wanted.hierarchy.spine.shapes, lattice.averaging, weights, gap=MAX_GAP)

    factor = _find_factor(wanted, lattice, allocation, terms, terms.limit)
    if not factor < MAX_NOISE_FACTOR:
        raise QueryRefused(
            f"ε = {format_up(terms.limit, 3)} is too small for these tables", "raise epsilon, or want fewer tables or levels"
        )
    return allocation, _scale_noises(lattice, allocation, factor, SIGMA_DIGITS)


def _find_factor(
    wanted: HierarchyWanted, lattice: Lattice, allocation: LevelAllocation, terms: ChargeTerms, limit: Fraction
) -> float:
    """The least factor on all σ at which the whole costs no more than a limit."""

    def event_at(factor: float) -> Composition:
        return make_hierarchy_event(wanted, _scale_noises(lattice, allocation, factor))

    return terms.find_noise_factor(event_at, limit, terms.estimate_noise_factor(event_at, limit))


def _scale_noises(lattice: Lattice, allocation: LevelAllocation, factor: float, digits: int | None = None) -> LevelNoises:
    """The noise of each table on each level at a factor on all σ; rounded up to so many digits, if they are given."""
    return tuple(
        {
            margin: choose_noise(sigma if digits is None else ceil_digits(sigma, digits))
            for margin, precision in zip(lattice.margins, row.tolist(), strict=True)
            if precision > 0
            for sigma in [Fraction(factor * precision**-0.5)]
        }
        for row in allocation.precisions
    )


def _allocate_for_errors(
    session: Session, wanted: HierarchyWanted, terms: ChargeTerms, confidence: float
) -> tuple[LevelAllocation, LevelNoises]:
    """The least cost at which every half-width is within its error; no less than the policy's least ε."""
    lattice, spine = Lattice.of(wanted.sizes, wanted.margins), wanted.hierarchy.spine
    step = wanted.bounded.step
    errors = {key: float(error / step) for key, error in wanted.list_errors().items()}
    units = dict.fromkeys(errors, NoiseParts(1.0, 1.0, 0.0, 0.0).half_width(confidence))
    rebuilding = lattice.rebuilding.toarray()

    def divide() -> LevelAllocation:
        limits = [
            LevelLimit(level, rebuilding[lattice.index[lattice.drop(margin)]], (error / units[level, margin]) ** 2)
            for (level, margin), error in errors.items()
        ]
        return allocate_for_level_errors(spine.shapes, spine.paths, lattice.averaging, limits)

    def find_noise(allocation: LevelAllocation, factor: float) -> dict[tuple[int, Margin], tuple[Any, Any]]:
        noises = _scale_noises(lattice, allocation, factor, SIGMA_DIGITS)
        tables = {f"{level} {margin}": (margin, (level,)) for level, margin in errors}
        model = HierarchyModel(spine, wanted.columns, wanted.keys, tables, noises, confidence, step, len(spine.levels))
        return {key: model.find_noise(*key) for key in errors}

    def find_excess(allocation: LevelAllocation, factor: float) -> float:
        found = find_noise(allocation, factor)
        return max(float(found[key][1].max()) / error for key, error in errors.items())

    found: list[tuple[float, LevelAllocation, float]] = []  # precision in all, allocation, factor
    for _ in range(MAX_DIVISIONS):
        allocation = divide()
        factor = _fit_factor(partial(find_excess, allocation))
        found.append((allocation.objective / factor**2, allocation, factor))
        noise = find_noise(allocation, factor)
        if any(variances.min() <= 0 for variances, _ in noise.values()):  # σ so small that next to nothing is drawn
            break
        units.update((key, float((widths / np.sqrt(variances)).max())) for key, (variances, widths) in noise.items())
    _, allocation, factor = min(found, key=lambda each: each[0])
    least, currency = session.table.least_epsilon, terms.currency
    limit = least if currency.counts_epsilon else currency.amount(least, session.delta)
    event = make_hierarchy_event(wanted, _scale_noises(lattice, allocation, factor, SIGMA_DIGITS))
    if terms.compute_charge(event) < limit:  # narrower intervals than wanted, at the policy's least ε
        factor = min(factor, _find_factor(wanted, lattice, allocation, terms, limit))
    return allocation, _scale_noises(lattice, allocation, factor, SIGMA_DIGITS)


def _fit_factor(find_excess: Callable[[float], float]) -> float:
    """A factor on all σ at which the largest excess of a half-width over its error is at most 1, and close to it.

    A half-width is about c·factor + d, where d comes from rounding to integers, so dividing the factor by the excess comes
    closer from above. What is returned was tried.
    """
    factor = 1.0
    for _ in range(MAX_TRIES):
        excess = find_excess(factor)
        if excess <= 1:
            return factor
        factor /= max(excess, 1 + LEAST_STEP)
    raise QueryRefused("No noise that can be drawn makes the errors this small", "allow larger errors")


def _weigh_residuals(wanted: HierarchyWanted, weigh: Weigh | Mapping[str, Number]) -> Any:
    """The weight of the variance of each residual of a node: one row per level, one column per residual."""
    hierarchy = wanted.hierarchy
    lattice = Lattice.of(wanted.sizes, wanted.margins)
    found = np.zeros((len(hierarchy.levels), len(lattice.margins)))
    factors = _weigh_levels(hierarchy, weigh)
    rebuilding = lattice.rebuilding.toarray()
    for table, margin, levels in zip(wanted.tables, wanted.margins, wanted.levels, strict=True):
        row = rebuilding[lattice.index[lattice.drop(margin)]]
        for level in levels:
            own = table.weight.get(hierarchy.levels[level], 1) if isinstance(table.weight, Mapping) else table.weight
            found[level] += float(read_positive(own, "weight")) * factors[level] * count_cells(wanted.sizes, margin) * row
    return found


def _weigh_levels(hierarchy: Hierarchy, weigh: Weigh | Mapping[str, Number]) -> list[float]:
    sizes = hierarchy.spine.sizes
    if isinstance(weigh, Mapping):
        for name in weigh:
            hierarchy.spine.level(name)
        missing = [name for name in hierarchy.levels if name not in weigh]
        if missing:
            raise BadParameter("weigh", f"without `{missing[0]}`", "not every level has a number", "give one for each level")
        pairs = zip(hierarchy.levels, sizes, strict=True)
        return [float(read_positive(weigh[name], "weigh")) / size for name, size in pairs]
    if weigh not in ("level", "node"):
        raise BadParameter("weigh", repr(weigh), "unknown", 'take "level" or "node", or give a number for each level')
    return [1.0 if weigh == "node" else 1 / size for size in sizes]


def _read_fixed(wanted: HierarchyWanted, measure: FixedNoise) -> LevelNoises:
    """The noises that are given: all problems at once."""
    problems = Problems()
    hierarchy = wanted.hierarchy
    names = {table.name: margin for table, margin in zip(wanted.tables, wanted.margins, strict=True)}
    found: list[dict[Margin, Any]] = [{} for _ in hierarchy.levels]
    for level, tables in measure.items():
        with problems.collect():
            number = hierarchy.spine.level(level)
            for table, sigma in tables.items():
                with problems.collect():
                    margin = _find_margin(wanted, names, table)
                    if margin in found[number]:
                        raise BadParameter("measure", repr(table), f"measured twice on level `{level}`", "give one σ for it")
                    found[number][margin] = choose_noise(_read_sigma(sigma))
    if not problems.found and not any(found):
        problems.add("measure", "empty", "nothing is measured", "give a σ for a table on a level")
    problems.raise_all()
    return tuple(found)


def _read_sigma(sigma: "Number | str") -> Fraction:
    if not isinstance(sigma, str):
        return read_positive(sigma, "measure")
    if not SIGMA_TEXT.fullmatch(sigma):
        raise BadParameter("measure", repr(sigma), "neither a fraction nor a decimal", 'give a σ such as "7/2" or 3.5')
    return read_positive(Fraction(sigma), "measure")


def _find_margin(wanted: HierarchyWanted, names: Mapping[str, Margin], table: str | Sequence[str]) -> Margin:
    if isinstance(table, str) and table in names:
        return names[table]
    by = (table,) if isinstance(table, str) else tuple(table)
    if not set(by) <= set(wanted.columns):
        raise BadParameter(
            "measure", repr(table), "neither a wanted table nor columns of the wanted tables",
            "name a table, or a tuple of columns; want a table by all columns that are measured",
        )  # fmt: skip
    return check_margin(tuple(sorted(map(wanted.columns.index, by))), len(wanted.columns))


def _choose_stream_level(hierarchy: Hierarchy, wanted: HierarchyWanted | None, name: str | None) -> int:
    """The highest level whose subtrees fit in memory; past the last one if the whole does, or if nothing is wanted."""
    spine = hierarchy.spine
    if name is not None:
        level = spine.level(name)
        if level == 0:
            raise BadParameter("stream_level", repr(name), "the top level has no levels above it", "name a level below it")
        return level
    if wanted is None:
        return len(spine.levels)
    cells = sum(count_cells(wanted.sizes, b) for b in Lattice.of(wanted.sizes, wanted.margins).margins)
    if sum(spine.sizes) * cells <= MAX_SUBTREE_CELLS:
        return len(spine.levels)
    for level in range(1, len(spine.levels)):
        if _largest_subtree(spine, level) * cells <= MAX_SUBTREE_CELLS:
            return level
    return len(spine.levels) - 1


def _largest_subtree(spine: Spine, level: int) -> int:
    """The most nodes of the last level that a node of a level has below it."""
    ends = np.arange(spine.sizes[level] + 1)
    for starts in spine.starts[level:]:
        ends = starts[ends]
    return int(np.diff(ends).max())
