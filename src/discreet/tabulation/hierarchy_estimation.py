"""Estimates of all tables of a hierarchy from its measurements, one subtree in memory at a time.

**Theory of operation.** On every level, noisy tables of a node are split into residuals (`node_residuals.py`). All nodes of
a level have the same noise, so least squares is one scalar problem on the spine for every residual, which two passes solve
(`two_pass.py`); tables are rebuilt from residuals. The measurements of one subtree of the *stream level* are read at a time,
once for the pass up and once for the pass down; what is kept is one row per subtree, and the levels above.

**Intervals.** The estimate of a cell of table B on a node is its exact count plus Σ_j l_j·z_j. For table A measured on node
u, the vector of its l is Σ_{b⊆A∩B} t_b(u)·e_b, where t_b(u) is the factor that two passes give the node in residual b, and
the e_b are orthogonal, because residuals are. So Σ l² over all noises of one kind is a sum over b: of the squared weights of
the passes, Σ_u t_b(u)²·ω_b(level of u), with ω_b the noise in a coordinate of the residual as measured on that level
(`ErrorModel.residual_parts`), times p_b/N_{B∖b}² as in one table. Half-widths are then those of `intervals.py`, whose proof
asks for no more than independent noises. It covers regions, which are other sums of the same noises.

**Rounding.** Let M bound the coordinates of residual b as measured, n nodes, A = Σ over levels of n·M, L levels, w the most
children of a node and u = 2⁻⁵³. Sums of absolute values over disjoint subtrees are at most A, and so is each z and Z; f is
at most (2L + 1)·A. Adding w rows errs by at most w·u times the sum of their absolute values, so the pass up errs by at most
L·(w + 8)·u·A in all, and as much again for factors whose own relative error is at most L·(w + 8)·u. Every step down adds
twice that, and 16·u·(2L + 1)·A of its own. `_bound_rounding` is more than their sum, and than what splitting and rebuilding
add. It is far below 1, and intervals are widened by it.

**Display values** (`display.py`) are made from the top down. U_l are the columns of all tables of level l and below; the
table of U_l is shown as nonnegative whole numbers that add up to the parent's and, on levels whose totals are known better
than their cells, to the node's displayed total; every table is a sum of it. Residuals of U_l that no table needs count as 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import nearest_float
from discreet.errors import BadParameter
from discreet.query.schema import Key
from discreet.tabulation.display import Counts, are_totals_first, display_level, display_top, sum_to_margin
from discreet.tabulation.intervals import CountNoise, ErrorModel, find_ends, find_reliable, half_widths
from discreet.tabulation.margins import Floats, Margin, centred_share, count_cells, drop_single_columns, list_closure
from discreet.tabulation.node_residuals import Tables, rebuild_nodes, split_nodes
from discreet.tabulation.regions import Regions
from discreet.tabulation.residuals import UNIT
from discreet.tabulation.spine import Spine
from discreet.tabulation.two_pass import DownStream, TwoPass

MAX_DISPLAYED_CELLS = 4_000_000
"""Cells of one node in the table from which display values are summed."""
REGIONS = -1
"""Stands for a level in blocks of regions."""


class MeasuredNodes(Protocol):
    """Where measurements come from: noisy tables by margin, one row per node and flat cells; one entry per level."""

    def read_upper(self) -> Sequence[Tables]:
        """Return those of the levels above the stream level."""
        ...

    def read_subtree(self, place: int) -> Sequence[Tables]:
        """Return those of a subtree, from the stream level down."""
        ...


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Some rows of a table: nodes of one level from `first` on, or all regions, and all cells of each."""

    name: str
    level: int  # or REGIONS
    first: int
    estimate: Floats  # (nodes, cells), as all that follow but the next two, which have one number per node
    sd: Floats
    half_width: Floats
    lower: NDArray[Any]
    upper: NDArray[Any]
    reliable: NDArray[np.bool_]
    display: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class HierarchyModel:
    """All that is known of a tabulation before a row is read, and all that estimation needs besides the measurements."""

    spine: Spine
    columns: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]  # of each column
    tables: Mapping[str, tuple[Margin, tuple[int, ...]]]  # margin and levels of each wanted table
    noises: tuple[Mapping[Margin, CountNoise], ...]  # of the tables that are measured on each level
    confidence: float
    step: Fraction
    stream_level: int  # subtrees of this level are measured and read one at a time; past the last level: there are none
    region_names: tuple[str, ...] = ()
    regions: Regions | None = None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each column has."""
        return tuple(map(len, self.keys))

    @cached_property
    def errors(self) -> tuple[ErrorModel | None, ...]:
        """The noise of each level by itself; None where nothing is measured."""
        return tuple(ErrorModel(self.sizes, noises) if noises else None for noises in self.noises)

    @cached_property
    def lowest(self) -> dict[Margin, int]:
        """The residuals that are needed, each with the lowest level on which it is."""
        found: dict[Margin, int] = {}
        for margin, levels in self.tables.values():
            for b in list_closure([drop_single_columns(self.sizes, margin)]):
                found[b] = max(found.get(b, 0), max(levels))
        return found

    @cached_property
    def two_passes(self) -> dict[Margin, TwoPass]:
        """Least squares of each residual."""
        found = {}
        for b, lowest in self.lowest.items():
            tau = [0.0 if each is None else each.precisions.get(b, 0.0) for each in self.errors]
            try:
                found[b] = TwoPass(self.spine, tau, lowest)
            except BadParameter:
                raise self._not_estimable(b, lowest) from None
        return found

    def _not_estimable(self, b: Margin, lowest: int) -> BadParameter:
        by = ", ".join(self.columns[i] for i in b) or "no columns"
        return BadParameter(
            "measure", f"no table by {by} on level `{self.spine.levels[lowest]}` or below",
            "it is wanted there, and cannot be estimated from the levels above",
            "measure a table by these columns on that level, or leave the table out there",
        )  # fmt: skip

    def check(self) -> list[BadParameter]:
        """List the tables that cannot be estimated."""
        problems = []
        for b, lowest in self.lowest.items():
            deepest = max(
                (level for level, each in enumerate(self.errors) if each and each.precisions.get(b, 0) > 0), default=-1
            )
            if deepest < 0 or self.spine.sizes[lowest] > self.spine.sizes[min(deepest, lowest)]:
                problems.append(self._not_estimable(b, lowest))
        return problems

    # -- variances -----------------------------------------------------------------------------------------------------

    @cached_property
    def _omegas(self) -> dict[Margin, Floats]:
        """The noise in a coordinate of each residual as measured, by level."""
        return {
            b: np.array([np.zeros(4) if each is None else each.residual_parts(b) for each in self.errors])
            for b in self.two_passes
        }

    @cached_property
    def _residual_noise(self) -> dict[Margin, list[Floats]]:
        """The noise in a coordinate of each residual as estimated, for each group of equal nodes, by level."""
        found = {}
        for b, two_pass in self.two_passes.items():
            by_node = two_pass.squared_weights(self._omegas[b])
            found[b] = [each[self._first_of_group[level]] for level, each in enumerate(by_node)]
        return found

    @cached_property
    def _first_of_group(self) -> list[NDArray[np.int64]]:
        return [np.unique(each, return_index=True)[1] for each in self.spine.paths.of_node]

    def list_parts(self, level: int, margin: Margin) -> Floats:
        """Return the noise in each cell of a table (a row as in `NoiseParts`) for each group of nodes (`Spine.paths`)."""
        return sum(  # type: ignore[return-value]
            self._share(b, margin) * self._residual_noise[b][level] for b in self._parts_of(margin)
        )

    def list_region_parts(self, margin: Margin) -> Floats:
        """Return the same for each region."""
        assert self.regions is not None
        return sum(  # type: ignore[return-value]
            self._share(b, margin) * self.two_passes[b].sum_squared_weights(self.regions, self._omegas[b])
            for b in self._parts_of(margin)
        )

    def _parts_of(self, margin: Margin) -> list[Margin]:
        return list_closure([drop_single_columns(self.sizes, margin)])

    def _share(self, b: Margin, margin: Margin) -> float:
        """p_b/N_{B∖b}²."""
        return centred_share(self.sizes, b) * (count_cells(self.sizes, b) / count_cells(self.sizes, margin)) ** 2

    def find_noise(self, level: int, margin: Margin) -> tuple[Floats, Floats]:
        """Return the variances and half-widths of a table, for each group of nodes, or for regions."""
        key = (level, margin)
        if key not in self._noise:
            parts = self.list_region_parts(margin) if level == REGIONS else self.list_parts(level, margin)
            self._noise[key] = parts[:, 0], half_widths(parts, self.confidence)
        return self._noise[key]

    @cached_property
    def _noise(self) -> dict[tuple[int, Margin], tuple[Floats, Floats]]:
        return {}

    def list_half_widths(self, level: int, margin: Margin) -> Floats:
        """Return the half-width of the intervals of a table, in steps of the grid, for every node of a level, or for
        every region."""
        widths = self.find_noise(level, margin)[1]
        return widths if level == REGIONS else np.asarray(widths[self.spine.paths.of_node[level]])

    # -- display -------------------------------------------------------------------------------------------------------

    @cached_property
    def display_columns(self) -> tuple[Margin, ...]:
        """U of each level, as far down as a table is wanted; none if the table of U is too large."""
        last = max(max(levels) for _, levels in self.tables.values())
        found = []
        for level in range(last + 1):
            union = {i for margin, levels in self.tables.values() if max(levels) >= level for i in margin}
            found.append(tuple(sorted(union)))
        return tuple(found) if count_cells(self.sizes, found[0]) <= MAX_DISPLAYED_CELLS else ()

    @cached_property
    def totals_first(self) -> tuple[bool, ...]:
        """Whether the totals of each level that is displayed are shown before its cells."""
        return tuple(
            are_totals_first(self._mean_variance(level, ()) ** 0.5, self._mean_variance(level, union) ** 0.5)
            for level, union in enumerate(self.display_columns)
        )

    def _mean_variance(self, level: int, margin: Margin) -> float:
        """The variance of a cell, as a mean over the nodes of a level; residuals that are not estimated there count as 0."""
        groups = self.spine.paths.of_node[level]
        parts = (b for b in self._parts_of(margin) if self.lowest.get(b, -1) >= level)
        return sum(self._share(b, margin) * float(self._residual_noise[b][level][groups, 0].mean()) for b in parts)

    @cached_property
    def region_tables(self) -> dict[str, Margin]:
        """The tables that can be given for all regions: estimated on every level on which a region has nodes."""
        if self.regions is None:
            return {}
        deepest = max((level for level, nodes in enumerate(self.regions.nodes) if len(nodes)), default=0)
        return {
            name: margin for name, (margin, _) in self.tables.items()
            if all(self.two_passes[b].lowest >= deepest for b in self._parts_of(margin))
        }  # fmt: skip


@dataclass
class _Estimation:
    """One run over the measurements."""

    model: HierarchyModel
    source: MeasuredNodes
    largest: dict[tuple[int, Margin], float] = field(default_factory=dict)  # of each residual as measured, by level
    region_sums: dict[str, Floats] = field(default_factory=dict)
    region_display: dict[str, Counts] = field(default_factory=dict)

    def run(self) -> Iterator[TableBlock]:
        model, spine = self.model, self.model.spine
        level, depth = model.stream_level, len(model.spine.levels)
        upper = self._split(self.source.read_upper(), 0)
        streams = {}
        if level < depth:
            streams = {
                b: two_pass.open_stream(level, count_cells(model.sizes, b), keep_level=True)
                for b, two_pass in model.two_passes.items()
                if two_pass.deepest >= level
            }
            for place in range(spine.sizes[level]):
                parts = self._split(self.source.read_subtree(place), level)
                for b, stream in streams.items():
                    stream.add(place, [each.get(b) for each in parts])
        top: list[dict[Margin, Floats]] = [{} for _ in range(depth)]
        downs: dict[Margin, DownStream] = {}
        for b, two_pass in model.two_passes.items():
            measured = [each.get(b) for each in upper]
            if b in streams:
                downs[b] = streams.pop(b).close(measured)
                found = downs[b].top
            else:
                found = two_pass.estimate(measured)
            for number, estimate in enumerate(found):
                top[number][b] = estimate
        shown = self._display_top(top, min(level, depth - 1))
        for number in range(min(level + 1, depth)):
            yield from self._make_blocks(number, 0, top[number], shown[number] if number < len(shown) else None)
        if level < depth - 1:
            for place in range(spine.sizes[level]):
                yield from self._run_subtree(place, downs, top, shown[level] if level < len(shown) else None)
        yield from self._make_region_blocks()

    def _split(self, levels: Sequence[Tables], first: int) -> list[dict[Margin, Floats]]:
        found: list[dict[Margin, Floats]] = []
        for level, tables in enumerate(levels, first):
            errors = self.model.errors[level]
            if errors is None:
                found.append({})
                continue
            parts, largest = split_nodes(self.model.sizes, tables, errors, self.model.lowest)
            for b, size in largest.items():
                self.largest[level, b] = max(self.largest.get((level, b), 0.0), size)
            found.append(parts)
        return found

    def _display_top(self, top: Sequence[dict[Margin, Floats]], last: int) -> list[Counts]:
        model, spine = self.model, self.model.spine
        shown: list[Counts] = []
        for level, union in enumerate(model.display_columns[: last + 1]):
            if not level:
                shown.append(display_top(rebuild_nodes(model.sizes, top[level], union)))
            else:
                shown.append(self._display_children(top[level], shown[-1], level, spine.starts[level - 1]))
        return shown

    def _display_children(self, parts: Mapping[Margin, Floats], above: Counts, level: int, starts: Any) -> Counts:
        """What nodes show, whose parents show `above`."""
        model = self.model
        totals = rebuild_nodes(model.sizes, parts, ())
        cells = rebuild_nodes(model.sizes, parts, model.display_columns[level])
        first = model.totals_first[level]
        return display_level(cells, totals, self._fold(above, level), starts, totals_first=first)

    def _fold(self, shown: Counts, level: int) -> Counts:
        """What the level above shows, summed to the columns of this one."""
        above, union = self.model.display_columns[level - 1 : level + 1]
        if above == union:
            return shown
        sizes = [self.model.sizes[i] for i in above]
        return sum_to_margin(shown, sizes, [above.index(i) for i in union]).reshape(len(shown), -1)

    def _run_subtree(
        self, place: int, downs: Mapping[Margin, DownStream], top: Sequence[dict[Margin, Floats]], shown: Counts | None
    ) -> Iterator[TableBlock]:
        model, spine, level = self.model, self.model.spine, self.model.stream_level
        where = spine.slice_subtree(level, place)
        measured = self._split(self.source.read_subtree(place), level)
        parts: list[dict[Margin, Floats]] = [{} for _ in where]
        for b, down in downs.items():
            for number, estimate in enumerate(down.estimate(place, [each.get(b) for each in measured])):
                parts[number][b] = estimate
        above = None if shown is None else shown[place : place + 1]
        for number in range(level + 1, len(spine.levels)):
            nodes = where[number - level]
            found = parts[number - level] | {b: each[nodes] for b, each in top[number].items()}
            if above is not None:
                parents = where[number - level - 1]
                starts = spine.starts[number - 1][parents.start : parents.stop + 1]
                is_shown = number < len(model.display_columns)
                above = self._display_children(found, above, number, starts) if is_shown else None
            yield from self._make_blocks(number, nodes.start, found, above)

    def _make_blocks(
        self, level: int, first: int, parts: Mapping[Margin, Floats], shown: Counts | None
    ) -> Iterator[TableBlock]:
        model = self.model
        for name, (margin, levels) in model.tables.items():
            in_regions = name in model.region_tables and self._has_region_nodes(level, first, parts)
            if level not in levels and not in_regions:
                continue
            estimate = rebuild_nodes(model.sizes, parts, margin)
            display = None if shown is None else self._sum_display(shown, level, margin)
            if in_regions:
                self._add_to_regions(name, level, first, estimate, display)
            if level in levels:
                groups = model.spine.paths.of_node[level][first : first + len(estimate)]
                noise, widths = model.find_noise(level, margin)
                yield self._make_block(name, level, first, estimate, noise[groups], widths[groups], display, margin)

    def _make_block(
        self, name: str, level: int, first: int, estimate: Floats, variance: Floats, width: Floats,
        display: NDArray[Any] | None, margin: Margin, terms: int = 1,
    ) -> TableBlock:  # fmt: skip
        step = self.model.step
        scale = nearest_float(step)
        rounding = self._bound_rounding(margin) * terms
        lower, upper = find_ends(estimate, width[:, None], rounding_error=rounding)
        reliable = find_reliable(estimate, width[:, None])
        sd = np.sqrt(variance)
        if step == 1:
            return TableBlock(name, level, first, estimate, sd, width, lower, upper, reliable, display)
        shown = None if display is None else display * scale
        return TableBlock(
            name, level, first, estimate * scale, sd * scale, width * scale, lower * scale, upper * scale, reliable, shown
        )

    def _bound_rounding(self, margin: Margin) -> float:
        """How far doubles may have moved a cell of a table from its least-squares estimate; see the head of this file."""
        spine, sizes = self.model.spine, self.model.sizes
        depth, widest = len(spine.levels), max((int(np.diff(each).max()) for each in spine.starts), default=1)
        total = 0.0
        for b in list_closure([drop_single_columns(sizes, margin)]):
            a = sum(spine.sizes[level] * self.largest.get((level, b), 0.0) for level in range(depth)) * 2 ** len(b)
            passes = 12 * depth**2 * (widest + 24)
            splitting = 4 ** len(b) * (sum(sizes[i] for i in b) + 40) * (2 * depth + 1)
            rebuilding = 4 * 2 ** len(margin) * (2 * depth + 1)
            share = count_cells(sizes, b) / count_cells(sizes, margin)
            total += UNIT * a * (passes + splitting + rebuilding) * share
        return total

    def _sum_display(self, shown: Counts, level: int, margin: Margin) -> Counts:
        union = self.model.display_columns[level]
        if margin == union:
            return shown
        sizes = [self.model.sizes[i] for i in union]
        kept = [union.index(i) for i in margin if i in union]  # a column that is not in it has one key
        return sum_to_margin(shown, sizes, kept).reshape(len(shown), -1)

    # -- regions -------------------------------------------------------------------------------------------------------

    def _has_region_nodes(self, level: int, first: int, parts: Mapping[Margin, Floats]) -> bool:
        many = len(next(iter(parts.values()))) if parts else 0
        regions = self.model.regions
        if regions is None:
            return False
        nodes = regions.nodes[level]
        return bool(np.any((nodes >= first) & (nodes < first + many)))

    def _add_to_regions(self, name: str, level: int, first: int, estimate: Floats, display: Counts | None) -> None:
        regions = self.model.regions
        assert regions is not None
        nodes = regions.nodes[level]
        here = (nodes >= first) & (nodes < first + len(estimate))
        sums, rows = regions.sums[level][here], nodes[here] - first
        total = self.region_sums.setdefault(name, np.zeros((regions.count, estimate.shape[1])))
        np.add.at(total, sums, estimate[rows])
        if display is not None:
            shown = self.region_display.setdefault(name, np.zeros((regions.count, estimate.shape[1]), np.int64))
            np.add.at(shown, sums, display[rows])

    def _make_region_blocks(self) -> Iterator[TableBlock]:
        model = self.model
        if model.regions is None or not model.regions.count:
            return
        terms = 2 * sum(len(each) for each in model.regions.nodes)
        for name, margin in model.region_tables.items():
            variances, widths = model.find_noise(REGIONS, margin)
            display = self.region_display.get(name)
            yield self._make_block(
                name, REGIONS, 0, self.region_sums[name], variances, widths, display, margin, terms
            )  # fmt: skip


def estimate_blocks(model: HierarchyModel, source: MeasuredNodes) -> Iterator[TableBlock]:
    """Yield all tables in blocks, from the top level down, those of one table and level in the order of its nodes; then the
    tables of regions. It takes nothing but measurements and what is public."""
    return _Estimation(model, source).run()
