"""`tabulate_hierarchy`: tables on all levels of a hierarchy that add up, from one debit and one pass over the rows.

**Theory of operation.** plan → bind the debit to a folder → reserve → read, sum and add noise, subtree by subtree → record
the hashes → estimate → write. What the account is charged for are the measurements in the folder; tables are post-processing
of them, repeated from the folder whenever they are asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number
from discreet.accounting.cost import Cost
from discreet.formats import count_things
from discreet.noise import Bits
from discreet.query.cells import explain_cells
from discreet.query.record import LedgerReference
from discreet.query.schema import Key
from discreet.session.executor import ProgressCallback, RunOptions
from discreet.session.session import Session
from discreet.tabulation.hierarchy import Hierarchy, LevelTablesLike
from discreet.tabulation.hierarchy_estimation import REGIONS, TableBlock, estimate_blocks
from discreet.tabulation.hierarchy_files import (
    MEASUREMENTS_FOLDER,
    REGION,
    HierarchyMeasurements,
    write_hierarchy_tables,
)
from discreet.tabulation.hierarchy_plan import FixedNoise, HierarchyPlan, Weigh, plan_hierarchy
from discreet.tabulation.margins import Floats
from discreet.tabulation.spool import merkle_root
from discreet.tabulation.tables import DISPLAY_NOTE, NO_DISPLAY_NOTE


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
        """All tables by name and level, in memory; those of regions have the level "region"."""
        blocks: dict[tuple[str, int], list[TableBlock]] = {}
        for block in estimate_blocks(self.plan.model, self.measurements.source):
            blocks.setdefault((block.name, block.level), []).append(block)
        return {(name, self._name_level(level)): self._join(each) for (name, level), each in blocks.items()}

    def _name_level(self, level: int) -> str:
        return REGION if level == REGIONS else self.plan.wanted.hierarchy.levels[level]

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
        """What one unit can change, what intervals cover, what display values are, and what it cost."""
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
    covered = (
        f"Each interval covers the count of the rows that are kept and lie in a listed node, with {plan.confidence:.4g} "
        "confidence; `estimate` is unbiased and may be negative, and all tables add up over all levels."
    )
    shown = DISPLAY_NOTE if plan.model.display_columns else NO_DISPLAY_NOTE
    paid = str(plan.cost) if charged else plan.cost.describe_free(f" (entry {execution.reference.entry})")
    notes = (explain_cells(plan.wanted.bounded), covered, shown, paid)
    measurements = HierarchyMeasurements(plan.model, spool, execution.answers, plan.hash, notes)
    return HierarchyTabulation(plan, place, measurements, execution.reference, charged, options.tainted)
