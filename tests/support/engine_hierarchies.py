"""A hierarchy that every engine is tested with: end to end with almost no noise, continued, and with exact invariants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.session.session import Session
from discreet.tabulation.hierarchical import tabulate_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_files import reproduce_hierarchy

NODES = ("11", "12", "21", "22", "31")
"""Nobody lives in 22."""
PEOPLE: tuple[tuple[int, str | None, int | None], ...] = tuple(
    (i, (*NODES[:3], "31", "99", None)[i % 6], (0, 1, None)[i % 3 if i % 4 else 0]) for i in range(300)
)
"""Some have a code that is not listed, or none; some have no sex."""
REASON = "Seats are apportioned by the exact counts of the blocks."
DECLARED: dict[str, Any] = {
    "unit": "id", "unique": True, "epsilon": 10**6, "delta": 1e-6, "keys": {"sex": (0, 1)},
}  # fmt: skip
CONDITIONAL: dict[str, Any] = DECLARED | {"neighbours": "replace", "invariants": {"geo": REASON}}


def check_hierarchy(session: Session, conditional: Session, folder: Path) -> None:
    """Tables are those of plain Python, are reproduced, and are continued for free; with invariants the same, and said."""
    hierarchy = Hierarchy.read("nation > state > block", NODES, column="geo", lengths=[0, 1, 2])
    tables = {"sex": LevelTable(("sex",)), "total": LevelTable()}
    for number, each in enumerate((session, conditional)):
        options: Any = {"epsilon": 300, "stream_level": "state"}
        found = tabulate_hierarchy(each, hierarchy, tables, folder / str(number), **options)
        for level, length in (("nation", 0), ("state", 1), ("block", 2)):
            table = found.tables["sex", level]
            for place, node in enumerate(hierarchy.spine.nodes[hierarchy.spine.level(level)].tolist()):
                kept = [sex for _, code, sex in PEOPLE if code in NODES and str(code)[:length] == node]
                assert np.abs(table.estimate[place] - [kept.count(0), kept.count(1)]).max() < 1, (level, node)
        found.write()
        assert reproduce_hierarchy(folder / str(number)).is_complete
        again = tabulate_hierarchy(each, hierarchy, tables, folder / str(number), **options)
        assert not again.charged
        assert again.root == found.root
        with pytest.raises(BadParameter, match="begun in another folder"):
            tabulate_hierarchy(each, hierarchy, tables, folder / "other", **options)
    assert REASON.rstrip(".") in repr(conditional)
