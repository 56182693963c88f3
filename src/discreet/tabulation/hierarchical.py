"""`tabulate_hierarchy`: tables on all levels of a hierarchy that add up, from one debit and one pass over the rows.

**Theory of operation.** plan → bind the debit to a folder → reserve → read, sum and add noise, subtree by subtree → record
the hashes → estimate → write. What the account is charged for are the measurements in the folder; tables are post-processing
of them, repeated from the folder whenever they are asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number
from discreet.accounting.cost import Cost
from discreet.formats import count_things
from discreet.noise import Bits
from discreet.query.cells import describe_total, explain_cells, explain_weight
from discreet.query.record import LedgerReference
from discreet.query.schema import Key
from discreet.session.executor import ProgressCallback, RunOptions
from discreet.session.session import Session
from discreet.tabulation.hierarchy import REGIONS_LEVEL, Hierarchy, LevelTablesLike
from discreet.tabulation.hierarchy_estimation import REGIONS, TableBlock, estimate_blocks
from discreet.tabulation.hierarchy_files import (
    MEASUREMENTS_FOLDER,
    HierarchyMeasurements,
    is_hierarchy_folder,
    write_hierarchy_tables,
)
from discreet.tabulation.hierarchy_plan import FixedNoise, HierarchyPlan, Weigh, plan_hierarchy
from discreet.tabulation.margins import Floats
from discreet.tabulation.spool import merkle_root
from discreet.tabulation.tables import explain_display


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A table on one level, or of regions: arrays with one row per node, and then one axis per column."""

    name: str
    level: str
    nodes: tuple[Any, ...]
    columns: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]
    estimate: Floats
    sd: Floats  # of every cell of a node
    half_width: Floats
    lower: NDArray[Any]
    upper: NDArray[Any]
    reliable: NDArray[np.bool_]
    display: NDArray[Any] | None


@dataclass(frozen=True, repr=False, eq=False)
class HierarchyTabulation:
    """Tables on all levels of a hierarchy, what they cost, and the folder of measurements that they are estimated from."""

    plan: HierarchyPlan
    folder: Path
    measurements: HierarchyMeasurements
    reference: LedgerReference
    charged: bool  # whether anything was charged for it now; False: all of it was recorded before
    tainted: bool = False

    @property
    def cost(self) -> Cost:
        """What it costs, and what remains."""
        return self.plan.cost

    @property
    def root(self) -> str:
        """The Merkle root of the measurements, which the account recorded."""
        return merkle_root(self.measurements.parts)

    @cached_property
    def tables(self) -> dict[tuple[str, str], NodeTable]:
        """All tables by name and level, in memory; those of regions have the level "regions"."""
        blocks: dict[tuple[str, int], list[TableBlock]] = {}
        for block in estimate_blocks(self.plan.model, self.measurements.source):
            blocks.setdefault((block.name, block.level), []).append(block)
        return {(name, self._name_level(level)): self._join(each) for (name, level), each in blocks.items()}

    def _name_level(self, level: int) -> str:
        return REGIONS_LEVEL if level == REGIONS else self.plan.wanted.hierarchy.levels[level]

    def _join(self, blocks: list[TableBlock]) -> NodeTable:
        model, name, level = self.plan.model, blocks[0].name, blocks[0].level
        margin = model.tables[name][0]
        shape = (-1, *(model.sizes[i] for i in margin))
        nodes = model.region_names if level == REGIONS else tuple(self.plan.wanted.hierarchy.list_labels(level))

        def join(field: str) -> Any:
            return np.concatenate([getattr(block, field) for block in blocks])

        return NodeTable(
            name, self._name_level(level), nodes, tuple(model.columns[i] for i in margin),
            tuple(model.keys[i] for i in margin), join("estimate").reshape(shape), join("sd"), join("half_width"),
            join("lower").reshape(shape), join("upper").reshape(shape), join("reliable").reshape(shape),
            None if blocks[0].display is None else join("display").reshape(shape),
        )  # fmt: skip

    def write(self) -> None:
        """Write the tables and what describes the measurements into the folder, one subtree in memory at a time."""
        self.measurements.write()
        write_hierarchy_tables(self.folder, self.plan.model, self.measurements.source)

    def list_notes(self) -> list[str]:
        """What one unit can change, what intervals cover, what display values are, what it cost, on what its guarantee
        depends, and what is not declared."""
        return list(self.measurements.notes)

    def __repr__(self) -> str:
        spine = self.plan.wanted.hierarchy.spine
        lines = [f"{level}: {count_things(size, 'node')}" for level, size in zip(spine.levels, spine.sizes, strict=True)]
        return "\n".join([*lines, f"measurements: {self.measurements.spool.folder}, root {self.root}", *self.list_notes()])


def tabulate_hierarchy(
    session: Session,
    hierarchy: Hierarchy,
    tables: LevelTablesLike,
    folder: "str | Path",
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
    id: str | None = None,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: ProgressCallback | None = None,
) -> HierarchyTabulation:
    """Charge the account once for tables on the levels of a hierarchy, and measure them into a folder.

    After a crash, the same call with the same folder continues behind the last subtree that was measured, and is charged
    nothing again. `write` then writes the tables.

    Raises:
        BudgetExceeded: if the account, or a parent of it, does not hold the cost; nothing was charged.
        PlanRefused, QueryRefused, BadParameter: if it cannot be asked, or if the folder is not the one in which the same
            measurements were begun.
        EngineFailed: if reading the rows failed after it was charged.
    """
    plan = plan_hierarchy(
        session, hierarchy, tables, epsilon=epsilon, delta=delta, measure=measure, weigh=weigh, regions=regions,
        columns=columns, where=where, weight=weight, confidence=confidence, stream_level=stream_level,
    )  # fmt: skip
    return execute_hierarchy(plan, folder, RunOptions(bits, progress, id, fresh))


def execute_hierarchy(plan: HierarchyPlan, folder: "str | Path", options: RunOptions) -> HierarchyTabulation:
    """Charge the account for a plan, and measure into a folder."""
    place = Path(folder)
    execution, spool = plan.execute(place / MEASUREMENTS_FOLDER, options)
    charged = execution.receipt is not None
    bounded = plan.wanted.bounded
    covered = (
        f"Each interval covers {describe_total(bounded.weight)} and lie in a listed node, with {100 * plan.confidence:.6g}% "
        "confidence; `estimate` is unbiased and may be negative, and all tables add up over all levels."
    )
    shown = explain_display(bool(plan.model.display_columns), plan.model.step)
    paid = str(plan.cost) if charged else plan.cost.describe_free(f" (entry {execution.reference.entry})")
    said = (explain_cells(bounded), covered, *explain_weight(bounded.weight, bounded.step), shown, paid)
    notes = (*said, *plan.list_notes())
    measurements = HierarchyMeasurements(plan.model, spool, execution.answers, plan.hash, notes, options.tainted)
    return HierarchyTabulation(plan, place, measurements, execution.reference, charged, options.tainted)


def resume_hierarchy(plan: HierarchyPlan, folder: "str | Path") -> HierarchyTabulation | None:
    """Return what an earlier process measured for the same plan without a ledger, if its folder has all of it; else None.

    The folder describes its measurements only once they are complete and charged for, so writing their tables is
    post-processing: nothing is charged, read or drawn. What was made with seeded bits is left to its own process.
    """
    place = Path(folder)
    if not is_hierarchy_folder(place):
        return None
    found = HierarchyMeasurements.read(place)
    if found.plan != plan.hash or found.tainted:
        return None
    measurements = replace(found, model=plan.model)
    return HierarchyTabulation(plan, place, measurements, LedgerReference(0, plan.describe(), {}), charged=False)
