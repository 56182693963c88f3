"""A plan with tables is refused with all its problems at once, wherever they are: every pair of independent ones.

The two faults of a pair are in different places, so neither hides the other. A fault of the list of nodes hides whether the
budget is enough for tables on these nodes; that pair is left out, and so are two faults of one key.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest

from discreet.errors import DiscreetError, PlanRefused, Problems
from discreet.ledger import open_ledger
from discreet.workload import sound_parts, tabulated
from discreet.workload.hierarchies import HierarchyWorkload, read_hierarchy_workload
from discreet.workload.tabulations import read_table_workload

HEAD = """
title = "People"
source = "people.parquet"
unit = "id"
max_groups = 2
neighbours = "replace"
confidence = 0.95
where = "age >= 20"
[keys]
sex = [0, 1]
[bounds]
age = [18, 70]
[invariants]
city = "Seats follow from these counts."
[computed]
decade = "age // 10"
[budget]
epsilon = 1
ledger = "people.ledger"
account = "census"
"""
FLAT = """
[tables.sex]
by = ["sex"]
error = 500
[tables.total]
by = []
error = 500
[tables.age]
by = ["sex", "decade"]
error = 500
[tables.decade]
by = ["decade"]
error = 500
"""
LEVELS = """
[hierarchy]
geo = "nation > state > county"
nodes = "nodes.csv"
[tables.sex]
by = ["sex"]
error = 500
[tables.total]
by = []
levels = ["nation", "state"]
error = 500
[tables.age]
by = ["sex", "decade"]
error = {nation = 900, state = 900, county = 900}
[tables.decade]
by = ["decade"]
error = 500
[regions]
coast = ["11", "21"]
inland = {state = ["2"], county = ["12"]}
"""
NODES = "state,county\n1,11\n1,12\n2,21\n2,22\n"
OF_CODES = LEVELS.replace('nodes = "nodes.csv"', 'nodes = "nodes.csv"\ncolumn = "county"\nlengths = [0, 1, 2]')
CODES = "county\n11\n12\n21\n22\n"


@dataclass(frozen=True)
class Fault:
    """A change of a plan, or of its list of nodes, that makes it wrong, and what the refusal must say."""

    part: str  # faults of one part hide each other
    old: str
    new: str
    said: str
    is_of_nodes: bool = False
    hides: tuple[str, ...] = ()  # parts that cannot be looked at any more
    problems: int = 1  # so many follow from it alone


SOURCE_FAULTS = [
    Fault("title", 'title = "People"', "title = 5", "title is 5"),
    Fault("key", 'title = "People"', 'title = "People"\nsuorce = "x"', "suorce is given"),
    Fault(
        "source", "people.parquet", "nowhere.parquet", "no such file",
        hides=("unit", "where", "keys", "bounds", "invariant", "small", "column", "undeclared"),
    ),
    Fault("unit", 'unit = "id"', 'unit = "idd"', "unit is 'idd': the source has no such column"),
    Fault("groups", "max_groups = 2", "max_groups = 0", "max_groups is 0"),
    Fault("neighbours", '"replace"', '"repalce"', "neighbours is 'repalce'"),
    Fault("confidence", "0.95", "2", "confidence is 2"),
    Fault("where", "age >= 20", "agee >= 20", "`agee` is not declared"),
    Fault("keys", "sex = [0, 1]", 'sex = [0, 1]\nsize = ["s"]', "keys is 'size': the source has no such column"),
    Fault("bounds", "[18, 70]", "[18, 70]\nincome = [0, 9]", "bounds is 'income': the source has no such column"),
    Fault("invariants", '"Seats follow from these counts."', '""', "without a reason"),
    Fault("invariant", "counts.\"", 'counts."\ntown = "A reason."', "`town`: not in the table"),
    Fault("computed", '"age // 10"', '"age // 10"\nsquare = 4', "computed.square is 4"),
    Fault("budget", "epsilon = 1\n", "epsilon = -1\n", "budget.epsilon is -1", hides=("account", "small")),
    Fault("account", '"census"', '"sensus"', "account is 'sensus'"),
    Fault("small", "epsilon = 1\n", "epsilon = 0.0001\n", "cost ε = "),
    Fault("table", "[tables.total]\nby = []", "[tables.total]\nby = 3", "tables.total.by is 3"),
    Fault("column", 'by = ["sex"]', 'by = ["sex", "height"]', "no column `height`"),
    Fault("undeclared", 'by = ["sex", "decade"]', 'by = ["sex", "decade", "city"]', "The keys of `city` are not declared"),
    Fault("weight", "by = []", "by = []\nweight = -1", "weight is -1"),
]  # fmt: skip
LEVEL_FAULTS = [
    Fault("overlap", "nation > state > county", "nation > state > county > state", "`state` is named twice", True),
    Fault("cycle", "1,12\n", "1,12\n2,12\n", "in more than one node of `state`", True),
    Fault("twice", "2,21\n", "2,21\n2,21\n", "listed twice", True),
    Fault("label", "2,22\n", "2,22\n,41\n", "empty in row", True),
    Fault("rows", "2,22\n", "2,22,3\n", "not every row has as many fields", True,
          ("cycle", "twice", "label", "region", "missing")),
    Fault("missing", "state > county", "state > town > county", "no level `town`", True),
    Fault("nodes", '"nodes.csv"', '"none.csv"', "none.csv", True,
          ("cycle", "twice", "label", "region", "rows", "missing")),
    Fault(
        "geo", "geo =", "goe =", "hierarchy.goe is given", True,
        ("overlap", "missing", "cycle", "twice", "label", "levels", "region", "by level", "stream"), 2,
    ),
    Fault("levels", 'levels = ["nation", "state"]', 'levels = ["nation", "stat"]', "on no such level"),
    Fault("by level", "county = 900", "count = 900", "'count': no level", problems=2),
    Fault("region", '"11", "21"', '"11", "31"', "in region 'coast'"),
    Fault("region of levels", 'state = ["2"]', "state = 2", "in region 'inland'"),
    Fault("stream", 'nodes = "', 'stream = "village"\nnodes = "', "'village': no level"),
]  # fmt: skip
CODE_FAULTS = [
    Fault("overlap", "nation > state > county", "nation > state > county > state", "`state` is named twice", True),
    Fault("lengths", "[0, 1, 2]", "[0, 2, 1]", "lengths is [0, 2, 1]: levels overlap", True, ("long", "twice", "region")),
    Fault("long", "12\n", "12\n123\n", "'123': not 0, 1 or 2 characters long", True),
    Fault("twice", "21\n", "21\n21\n", "listed twice", True),
    Fault("nodes", '"nodes.csv"', '"none.csv"', "none.csv", True, ("long", "twice", "region")),
    Fault("code", 'column = "county"', 'column = "county_code"', "'county_code': not a column", hides=("source", "small")),
    Fault("levels", 'levels = ["nation", "state"]', 'levels = ["nation", "stat"]', "on no such level"),
    Fault("region", '"11", "21"', '"11", "31"', "in region 'coast'"),
    Fault("region of levels", 'state = ["2"]', "state = 2", "in region 'inland'"),
]  # fmt: skip
OWN_FAULTS = {"flat": SOURCE_FAULTS, "levels": LEVEL_FAULTS, "codes": CODE_FAULTS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    rows = [(i, "11", i % 2, 20 + i, "a") for i in range(8)]
    pandas.DataFrame(rows, columns=["id", "county", "sex", "age", "city"]).to_parquet(folder / "people.parquet")
    ledger = open_ledger(folder / "people.ledger", create=True)
    ledger.open_account("census", 3, 1e-6)
    ledger.close()
    return folder


def refuse(place: Path, faults: tuple[Fault, ...], kind: str) -> list[str]:
    """Return the problems of a plan with these faults."""
    text, nodes = HEAD + {"flat": FLAT, "levels": LEVELS, "codes": OF_CODES}[kind], CODES if kind == "codes" else NODES
    for fault in faults:
        if fault.old in nodes:
            nodes = nodes.replace(fault.old, fault.new, 1)
        else:
            assert fault.old in text, fault
            text = text.replace(fault.old, fault.new, 1)
    (place / "plan.toml").write_text(text)
    (place / "nodes.csv").write_text(nodes)
    read: Callable[[Path], Any] = read_table_workload if kind == "flat" else read_hierarchy_workload
    try:
        read(place / "plan.toml").plan()
    except PlanRefused as refused:
        return [str(each) for each in refused.problems]
    except DiscreetError as refused:
        return [str(refused)]
    return []


def list_faults(kind: str) -> list[Fault]:
    return SOURCE_FAULTS if kind == "flat" else [*SOURCE_FAULTS, *OWN_FAULTS[kind]]


def are_independent(one: Fault, other: Fault) -> bool:
    if one.part in other.hides or other.part in one.hides or one.old in other.old or other.old in one.old:
        return False
    return not (one.is_of_nodes and other.part == "small") and not (other.is_of_nodes and one.part == "small")


def find_hidden(place: Path, kind: str, sets: Iterable[tuple[Fault, ...]]) -> list[str]:
    """List the faults of each set that its one refusal does not say, and what it says twice."""
    hidden = []
    for some in sets:
        problems = refuse(place, some, kind)
        parts = " + ".join(fault.part for fault in some)
        hidden += [f"{parts}: {fault.said!r} is not said" for fault in some if not any(fault.said in x for x in problems)]
        hidden += [f"{parts}: {problem!r} is said twice" for problem in {*problems} if problems.count(problem) > 1]
    return hidden


def list_pairs(kind: str) -> list[tuple[Fault, ...]]:
    """List all pairs of faults that are independent."""
    return [pair for pair in combinations(list_faults(kind), 2) if are_independent(*pair)]


def list_covers(kind: str) -> list[tuple[Fault, ...]]:
    """List sets of faults, all of them independent of each other, as large as they can be, so that every pair is in one."""
    missing, covers = list_pairs(kind), []
    while missing:
        chosen = list(missing[0])
        for fault in list_faults(kind):
            if fault not in chosen and all(are_independent(fault, each) for each in chosen):
                chosen.append(fault)
        covers.append(tuple(chosen))
        missing = [pair for pair in missing if not {*pair} <= {*chosen}]
    return covers


KINDS = ["flat", "levels", "codes"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_alone_is_refused_for_itself_alone(place: Path, kind: str) -> None:
    assert refuse(place, (), kind) == []
    for fault in OWN_FAULTS[kind]:
        problems = refuse(place, (fault,), kind)
        assert len(problems) == fault.problems, (fault.part, problems)
        assert any(fault.said in problem for problem in problems), (fault.part, problems)


@pytest.mark.parametrize("kind", KINDS)
def test_all_faults_of_a_set_are_in_the_one_refusal(place: Path, kind: str) -> None:
    """Each pair of independent faults is in one of these sets, with as many others as are independent of both."""
    covers = list_covers(kind)
    assert len(list_faults(kind)) >= 12
    assert all(any({*pair} <= {*some} for some in covers) for pair in list_pairs(kind))
    assert not find_hidden(place, kind, covers)


@pytest.mark.parametrize("kind", KINDS)
def test_both_faults_of_some_pairs_are_in_the_one_refusal(place: Path, kind: str) -> None:
    assert not find_hidden(place, kind, Random(20).sample(list_pairs(kind), 6))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_both_faults_of_every_pair_are_in_the_one_refusal(place: Path, kind: str) -> None:
    assert not find_hidden(place, kind, list_pairs(kind))


def _open_or_nothing(options: Any, account: Any, problems: Problems) -> Any:
    """A mutant: the source is opened as it is declared, and one problem of it is the last one."""
    with problems.collect_new():
        return sound_parts.open_plan_session(options, account)
    return None


def _stop_at_the_nodes(self: HierarchyWorkload, session: Any, problems: Problems) -> None:
    """A mutant: of a hierarchy that is refused nothing else is looked at."""
    with problems.collect_new():
        self._read_hierarchy()


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (tabulated, "open_sound_session", _open_or_nothing),
        (HierarchyWorkload, "_collect_table_problems", _stop_at_the_nodes),
        (HierarchyWorkload, "_plan_sound_tables", lambda self, session, tables: None),
        (tabulated.PlanParts, "build", lambda *given, **own: None),
    ],
)
def test_the_property_notices_plans_that_are_looked_at_in_part(
    place: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mutant: Any
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    covers = list_covers("levels")
    some = [next(each for each in covers if any(fault.part == part for fault in each)) for part in ("cycle", "small")]
    assert find_hidden(place, "levels", some)
