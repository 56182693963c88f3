"""Tabulations of hierarchies: what is refused, how far one unit moves all levels and tables at once, what a plan costs and
gives, and files from which every table can be repeated."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas
import pytest
from pyarrow import parquet

import discreet
from discreet.errors import BadParameter, BudgetExceeded, PlanRefused, QueryRefused, SourceRefused
from discreet.session.session import Session
from discreet.tabulation.hierarchical import tabulate_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, HierarchyWanted, LevelTable, read_hierarchy_wanted
from discreet.tabulation.hierarchy_estimation import REGIONS
from discreet.tabulation.hierarchy_files import HierarchyMeasurements, is_hierarchy_folder, reproduce_hierarchy
from discreet.tabulation.hierarchy_measuring import LevelAdder
from discreet.tabulation.hierarchy_plan import plan_hierarchy, sigmas_from_shares
from discreet.tabulation.intervals import choose_noise
from discreet.units import Neighbours, Sensitivity
from tests.support.rounds import every_nth_by_day
from tests.tabulation.random_hierarchies import list_margins

CODES = ["1111", "1112", "1121", "1211", "1212", "2111", "2211"]
LEVELS = "nation > state > county > block"
LENGTHS = [0, 1, 2, 4]
TABLES = {"sex_age": LevelTable(("sex", "age")), "age": LevelTable(("age",)), "total": LevelTable()}


def read_hierarchy() -> Hierarchy:
    return Hierarchy.read(LEVELS, CODES, column="geo", lengths=LENGTHS)


def make_rows(rng: Random, units: int) -> list[tuple[int, str | None, int, int]]:
    """Rows of units that may have many, some of them in no listed node."""
    nodes = [*CODES, "9999", None]
    return [
        (unit, rng.choice(nodes), rng.choice([0, 1]), rng.choice([0, 1, 2, 7]))
        for unit in range(units)
        for _ in range(rng.choice([1, 1, 2, 5]))
    ]


def connect(rows: list[tuple[Any, ...]], **options: Any) -> Session:
    frame = pandas.DataFrame(rows, columns=["id", "geo", "sex", "age"])
    declared = {"unit": "id", "epsilon": 10, "delta": 1e-6, "keys": {"sex": [0, 1], "age": [0, 1, 2]}}
    session = discreet.connect(frame, name="people", **(declared | options))
    assert isinstance(session, Session)
    return session


# -- sensitivity -----------------------------------------------------------------------------------------------------------

Stated = Callable[[HierarchyWanted, int, Any], Sensitivity]


def sum_all(session: Session) -> tuple[HierarchyWanted, dict[tuple[int, Any], Any]]:
    """The exact tables of all margins on all levels, in the one pass of the engine, as a job sums them."""
    wanted = read_hierarchy_wanted(session, read_hierarchy(), TABLES)
    noises = tuple({margin: choose_noise(1) for margin in list_margins(2)} for _ in wanted.hierarchy.levels)
    adder, found = LevelAdder(wanted, noises, 2), {}
    for place, cells in adder.iterate_subtrees(session.engine.read_cells(wanted.bounded, ordered_columns=1)):
        for level, tables in enumerate(adder.sum_subtree(place, cells), 2):
            for margin, table in tables.items():
                found.setdefault((level, margin), []).append(table)
    for level, tables in enumerate(adder.sum_upper()):
        for margin, table in tables.items():
            found[level, margin] = [table]
    return wanted, {key: np.concatenate(tables) for key, tables in found.items()}


def change_unit(rng: Random, rows: list[Any], neighbours: Neighbours) -> list[Any]:
    """The rows without one unit, or with others in its place."""
    unit = rng.choice(rows)[0]
    rest = [row for row in rows if row[0] != unit]
    added = [(unit, *row[1:]) for row in make_rows(rng, 3)] if neighbours is Neighbours.REPLACE else []
    return rest + added


def breaks_the_law(seed: int, neighbours: Neighbours, stated: Stated) -> bool:
    """Whether one unit moves a table, or all of them together, by more than is stated."""
    rng = Random(seed)
    rows = make_rows(rng, 12)
    if seed % 2:  # one unit has all its rows in one cell: the worst case
        rows = [(unit, "1111", 0, 0) if unit == 0 else (unit, *rest) for unit, *rest in rows + [(0, "", 0, 0)] * 9]
    options = {"max_groups": rng.choice([1, 2, 3]), "max_rows": rng.choice([1, 2, 4]), "neighbours": neighbours}
    other = [(u, *r) if u else (0, "2211", 1, 2) for u, *r in rows] if seed % 4 == 3 else change_unit(rng, rows, neighbours)
    if neighbours is Neighbours.ADD_REMOVE and seed % 2:
        other = [row for row in rows if row[0]]
    wanted, one = sum_all(connect(rows, **options))
    _, two = sum_all(connect(other, **options))
    total, most = 0, 0
    for (level, margin), table in one.items():
        change, allowed = np.abs(table - two[level, margin]), stated(wanted, level, margin)
        norms = [(change > 0).sum(), change.sum(), (change**2).sum(), change.max()]
        total, most = total + int(norms[2]), most + allowed.l2_squared
        if any(
            norm > bound
            for norm, bound in zip(norms, [allowed.l0, allowed.l1, allowed.l2_squared, allowed.linf], strict=True)
        ):
            return True
    return total > most


def state(wanted: HierarchyWanted, level: int, margin: Any) -> Sensitivity:
    return wanted.sensitivity(level, margin)


@pytest.mark.parametrize("start", every_nth_by_day(range(3), 3))
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_one_unit_moves_all_levels_and_tables_by_no_more_than_stated(neighbours: Neighbours, start: int) -> None:
    assert not any(breaks_the_law(seed, neighbours, state) for seed in range(start, 24, 3))


def test_the_sensitivity_of_cells_is_not_that_of_levels() -> None:
    """The mutant: a bound per cell of the last level, stated for the levels above, where cells merge."""

    def state_of_cells(wanted: HierarchyWanted, level: int, margin: Any) -> Sensitivity:
        return wanted.bounded.sensitivity(wanted.bounded.statistic)

    assert any(breaks_the_law(seed, Neighbours.ADD_REMOVE, state_of_cells) for seed in range(24))


def test_replacing_is_not_adding_or_removing() -> None:
    """The mutant: k² where one unit is replaced, which moves two nodes of every level."""

    def state_half(wanted: HierarchyWanted, level: int, margin: Any) -> Sensitivity:
        k = wanted.bounded.max_change
        return Sensitivity(l0=2 * k, l2_squared=k**2, linf=k)

    assert any(breaks_the_law(seed, Neighbours.REPLACE, state_half) for seed in range(24))


def test_the_sensitivity_is_reached_on_all_levels_at_once() -> None:
    options: dict[str, Any] = {"max_groups": 1, "max_rows": 4, "neighbours": Neighbours.REPLACE}
    rest = [(1, "1111", 0, 1)]
    wanted, one = sum_all(connect([(0, "1111", 0, 0)] * 5 + rest, **options))
    _, two = sum_all(connect([(0, "2211", 1, 2)] * 5 + rest, **options))
    moved = {key: ((table - two[key]) ** 2).sum() for key, table in one.items()}
    assert moved.pop((0, ())) == 0  # both have four rows that count, which no bound promises
    assert set(moved.values()) == {32}
    assert all(wanted.sensitivity(*key).l2_squared == 32 for key in moved)
    assert wanted.sensitivity(0, ()).l2_squared == 16


def test_exact_tables_are_those_of_the_rows() -> None:
    rng = Random(4)
    rows = [(i, *row[1:]) for i, row in enumerate(make_rows(rng, 60))]
    wanted, found = sum_all(connect(rows, unique=True))
    kept = [row for row in rows if row[1] in CODES and row[3] in (0, 1, 2)]
    for (level, margin), table in found.items():
        length = LENGTHS[level]
        for place, node in enumerate(wanted.hierarchy.spine.nodes[level].tolist()):
            expected = np.zeros([(2, 3)[i] for i in margin], int)
            for _, geo, *keys in kept:
                if str(geo)[:length] == node:
                    expected[tuple(keys[i] for i in margin)] += 1
            assert table[place].tolist() == expected.reshape(-1).tolist()


def test_tables_say_that_their_guarantee_is_conditional(tmp_path: Path) -> None:
    """Whoever reads the result, or the description of the measurements alone, reads on what the guarantee depends."""
    options = {"neighbours": Neighbours.REPLACE, "invariants": {"sex": "The law says so."}}
    session = connect(make_rows(Random(1), 20), **options)
    found = tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path / "out", epsilon=5)
    found.write()
    read = HierarchyMeasurements.read(tmp_path / "out")
    for notes in (found.list_notes(), read.notes, repr(found).splitlines()):
        [said] = [note for note in notes if note.startswith("Conditional: ")]
        assert "among data sets with the same number of rows for each `sex`" in said
        assert "The law says so." in said
    assert {*found.plan.list_notes()} <= {*found.list_notes()}  # and all else that is said of the plan


# -- plans -----------------------------------------------------------------------------------------------------------------


def test_all_problems_of_a_hierarchy_are_listed_at_once() -> None:
    with pytest.raises(PlanRefused) as refused:
        Hierarchy.read("nation > state > state", ["1"], lengths=[0, 1])
    assert "named twice" in str(refused.value)
    assert "no column holds the code" in str(refused.value)
    with pytest.raises(PlanRefused) as refused:
        Hierarchy.read("nation > block", ["11", "11", "3"], column="geo", lengths=[0, 2])
    assert "listed twice" in str(refused.value)
    assert "characters long" in str(refused.value)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({"state": ["1", "2"], "county": ["11", "11"]}, "more than one node"),
        ({"county": ["11", "12"]}, "no level `state`"),
        ({"state": [1.5], "county": ["1"]}, "not labels"),
        (["11"], "one column per level"),
        ({"state": ["1", "1"], "county": ["11", ""]}, "nodes of `county` are empty in row 2"),
    ],
)
def test_bad_lists_of_nodes_are_refused(nodes: Any, said: str) -> None:
    with pytest.raises((BadParameter, PlanRefused), match=said):
        Hierarchy.read("nation > state > county", nodes)


def test_levels_may_be_columns_and_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("state,county\n01,001\n01,002\n02,003\n")
    found = Hierarchy.read("nation > state > county", tmp_path / "nodes.csv")
    assert (found.column, found.spine.sizes, found.leaves) == ("county", (1, 2, 3), ("001", "002", "003"))
    pandas.DataFrame({"code": CODES}).to_parquet(tmp_path / "nodes.parquet")
    assert Hierarchy.read(LEVELS, tmp_path / "nodes.parquet", column="geo", lengths=LENGTHS).leaves == tuple(CODES)
    frame = pandas.DataFrame({"state": [1, 1, 2], "county": ["001", "002", "003"], "area": [1.5, 2.5, 3.5]})
    assert Hierarchy.read("nation > state > county", frame).leaves == ("001", "002", "003")
    (tmp_path / "bad.csv").write_text("state,county\n01\n")
    with pytest.raises(SourceRefused, match="fields"):
        Hierarchy.read("nation > state > county", tmp_path / "bad.csv")


def test_all_problems_of_tables_are_listed_before_anything_is_charged() -> None:
    session = connect(make_rows(Random(1), 20))
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(
            session, read_hierarchy(),
            {"a/b": LevelTable(("sex",)), "x": LevelTable(("nothing",), levels=("village",)), "y": LevelTable(weight=-1)},
            epsilon=1,
        )  # fmt: skip
    for said in ("'a/b'", "`nothing`", "'village'", "weight"):
        assert said in str(refused.value)
    assert session.account.budget.spent == 0


def test_problems_of_the_plan_are_listed_too() -> None:
    session = connect(make_rows(Random(1), 20))
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(
            session, read_hierarchy(), TABLES, regions={"none": [], "other": ["0000"]}, weigh="people", confidence=2,  # type: ignore[arg-type]
            stream_level="nation",
        )  # fmt: skip
    for said in ("epsilon", "'none'", "'0000'", "'people'", "confidence", "top level"):
        assert said in str(refused.value), said


def test_keys_that_are_not_declared_are_refused() -> None:
    session = connect(make_rows(Random(1), 20), keys={"sex": [0, 1]})
    with pytest.raises(QueryRefused, match="keys of `age` are not declared"):
        plan_hierarchy(session, read_hierarchy(), TABLES, epsilon=1)


def test_a_budget_that_is_too_small_is_refused(tmp_path: Path) -> None:
    session = connect(make_rows(Random(1), 20))
    with pytest.raises(BudgetExceeded):
        tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path / "out", epsilon=100)
    assert session.account.budget.spent == 0
    with pytest.raises(QueryRefused, match="These σ cost"):
        plan_hierarchy(session, read_hierarchy(), TABLES, epsilon=1, measure={"block": {"sex_age": 1}})


def test_tables_that_cannot_be_estimated_are_refused_all_at_once() -> None:
    session = connect(make_rows(Random(1), 20))
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(session, read_hierarchy(), TABLES, measure={"county": {"sex_age": 2}, "block": {"total": 3}})
    assert "by sex, age on level `block`" in str(refused.value)
    assert "by age on level `block`" in str(refused.value)
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(session, read_hierarchy(), TABLES, measure={"village": {"total": 3}, "block": {"height": 1}})
    assert "village" in str(refused.value)
    assert "height" in str(refused.value)


def test_fixed_noise_is_measured_as_it_stands() -> None:
    session = connect(make_rows(Random(1), 20), unique=True, neighbours=Neighbours.REPLACE)
    shares = {"nation": {"total": Fraction(1, 10)}, "block": {"sex_age": Fraction(6, 10), "age": Fraction(3, 10)}}
    measure = sigmas_from_shares(Fraction(1, 2), shares, l2_squared=2)
    plan = plan_hierarchy(session, read_hierarchy(), TABLES, measure=measure)
    assert {(level, margin): noise.sigma for level, each in enumerate(plan.noises) for margin, noise in each.items()} == {
        (0, ()): measure["nation"]["total"], (3, (0, 1)): measure["block"]["sex_age"], (3, (1,)): measure["block"]["age"],
    }  # fmt: skip
    # The nation's total is one number, which replacing moves by 1: it costs half of what its share would pay for.
    rho = sum(
        Fraction(1 if level == "nation" else 2) / 2 / sigma**2 for level, each in measure.items() for sigma in each.values()
    )
    assert plan.charge == rho
    assert Fraction(474, 1000) < rho <= Fraction(475, 1000)
    with pytest.raises(BadParameter, match="more than the whole"):
        sigmas_from_shares(1, {"nation": {"total": Fraction(2, 3), "age": Fraction(2, 3)}}, l2_squared=2)


def test_weights_of_levels_are_a_policy() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)

    def width(level: str, **options: Any) -> float:
        plan = plan_hierarchy(session, read_hierarchy(), TABLES, epsilon=1, **options)
        return float(plan.half_widths("total", level).mean())

    assert (
        width("block", weigh="node")
        < width("block")
        < width("block", weigh={"nation": 99, "state": 1, "county": 1, "block": 1})
    )
    assert width("nation", weigh="node") > width("nation")
    tables = TABLES | {"total": LevelTable(weight={"nation": 1000})}
    heavy = plan_hierarchy(session, read_hierarchy(), tables, epsilon=1)
    assert float(heavy.half_widths("total", "nation")[0]) < width("nation")


def test_the_plan_costs_no_more_than_its_budget_and_nearly_all_of_it() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    plan = plan_hierarchy(session, read_hierarchy(), TABLES, epsilon=1)
    assert plan.fits
    assert plan.charge > plan.terms.limit * Fraction(99, 100)
    assert plan.allocation is not None
    assert plan.allocation.gap <= 1.1e-6
    assert plan_hierarchy(session, read_hierarchy(), TABLES, epsilon=1).hash == plan.hash


# -- wanted errors ---------------------------------------------------------------------------------------------------------

BY_LEVEL = {"nation": 10, "state": 15, "county": 20, "block": 30}


def test_errors_by_level_are_met_at_the_least_cost() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    tables = {"sex_age": LevelTable(("sex", "age"), error=40), "total": LevelTable(error=BY_LEVEL)}
    plan = plan_hierarchy(session, read_hierarchy(), tables)
    widths = {level: float(plan.half_widths("total", level).max()) for level in BY_LEVEL}
    assert all(width <= BY_LEVEL[level] for level, width in widths.items())
    assert all(float(plan.half_widths("sex_age", level).max()) <= 40 for level in BY_LEVEL)
    assert max(width / BY_LEVEL[level] for level, width in widths.items()) > 0.99
    assert plan.allocation is not None
    assert plan.allocation.gap <= 1.01e-4
    by_weights = plan_hierarchy(session, read_hierarchy(), {name: LevelTable(each.by) for name, each in tables.items()},
                                epsilon=plan.cost.epsilon.upper)  # fmt: skip
    assert float(by_weights.half_widths("total", "nation").max()) > 10  # the same cost, divided otherwise, does not do
    larger = {"sex_age": LevelTable(("sex", "age"), error=80), "total": LevelTable(error=60)}
    assert plan_hierarchy(session, read_hierarchy(), larger).charge < plan.charge / 2


def test_errors_that_the_budget_does_not_buy_are_refused_with_the_epsilon_that_does() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    tables = {"total": LevelTable(error={"nation": 1, "state": 4, "county": 4, "block": 8})}
    with pytest.raises(QueryRefused, match=r"These errors cost ε = .*, and ε = 0\.5 is given") as refused:
        plan_hierarchy(session, read_hierarchy(), tables, epsilon=0.5)
    enough = str(refused.value).partition("epsilon = ")[2].partition(",")[0]
    assert plan_hierarchy(session, read_hierarchy(), tables, epsilon=float(enough)).fits
    with pytest.raises(QueryRefused, match="remains"):
        plan_hierarchy(session, read_hierarchy(), {"total": LevelTable(error=0.001)})
    assert session.account.budget.spent == 0


def test_all_problems_of_errors_are_listed_at_once() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    tables = {
        "sex": LevelTable(("sex",), error=-1),
        "age": LevelTable(("age",), error={"village": 3}),
        "total": LevelTable(),
    }
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(session, read_hierarchy(), tables, epsilon=1)
    for said in ("error is -1", "'village'", "`age` without `nation`", "2 of 3 with an error"):
        assert said in str(refused.value), said
    with pytest.raises(PlanRefused) as refused:
        plan_hierarchy(
            session, read_hierarchy(), {"total": LevelTable(error=9)}, weigh="node", measure={"block": {"total": 1}}
        )
    assert "measure is given with errors" in str(refused.value)
    assert "weigh is given with errors" in str(refused.value)


# -- end to end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_level", [None, "state", "block"])
def test_tables_are_near_the_rows_and_reproduced_from_the_measurements(tmp_path: Path, stream_level: str | None) -> None:
    rng = Random(2)
    rows = [(i, rng.choice(CODES[:-1]), rng.choice([0, 1]), rng.choice([0, 1, 2])) for i in range(4000)]
    session = connect(rows, unique=True)
    regions = {"left": ["1111", "2111"], "right": {"county": ["12"], "block": ["2111"]}}
    options: Any = {"epsilon": 8, "regions": regions, "stream_level": stream_level}
    found = tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path / "out", **options)
    found.write()
    total = found.tables["total", "nation"]
    assert total.lower[0] <= 4000 <= total.upper[0]
    assert found.tables["sex_age", "block"].estimate.shape == (7, 2, 3)
    assert found.tables["total", "block"].lower[6] == 0  # nobody lives there, and it is measured as all others
    left = found.tables["total", "regions"]
    counts = [sum(row[1] in codes for row in rows) for codes in (["1111", "2111"], ["1211", "1212", "2111"])]
    assert all(low <= count <= high for low, count, high in zip(left.lower, counts, left.upper, strict=True))
    assert found.reference.record["root"] == found.root
    assert is_hierarchy_folder(tmp_path / "out")
    reproduced = reproduce_hierarchy(tmp_path / "out")
    assert reproduced.is_complete
    assert reproduced.root == found.root
    assert len(reproduced.same) == 2 * (3 * 4 + 3)  # Parquet and CSV
    again = tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path / "out", **options)
    assert not again.charged
    assert np.array_equal(again.tables["age", "county"].estimate, found.tables["age", "county"].estimate)
    frame = pandas.read_parquet(tmp_path / "out" / "age.county.parquet")
    assert list(frame.columns) == ["county", "age", "estimate", "sd", "lower", "upper", "reliable", "display"]
    assert np.allclose(frame["estimate"], found.tables["age", "county"].estimate.reshape(-1))
    assert (tmp_path / "out" / "age.county.csv").read_text().splitlines()[0] == ",".join(
        f'"{name}"' for name in frame.columns
    )


def test_what_was_edited_or_deleted_is_noticed(tmp_path: Path) -> None:
    rows = [(i, *row[1:]) for i, row in enumerate(make_rows(Random(3), 100))]
    found = tabulate_hierarchy(
        connect(rows, unique=True), read_hierarchy(), TABLES, tmp_path, epsilon=4, stream_level="state"
    )
    found.write()
    path = tmp_path / "age.block.parquet"
    table = parquet.read_table(path)
    edited = table.set_column(
        table.column_names.index("display"), "display", [[n + 1 for n in table["display"].to_pylist()]]
    )
    parquet.write_table(edited, path)
    (tmp_path / "total.nation.parquet").unlink()
    reproduced = reproduce_hierarchy(tmp_path)
    assert reproduced.different == ("age.block.parquet",)
    assert reproduced.missing == ("total.nation.parquet",)
    description = tmp_path / "measurements" / "measurements.json"
    text = description.read_text()
    description.write_text(text.replace(found.root, "0" * 64))
    with pytest.raises(SourceRefused, match="Merkle root"):
        HierarchyMeasurements.read(tmp_path)
    description.write_text(text)
    (tmp_path / "measurements" / "upper.npz").write_bytes(b"")
    with pytest.raises(SourceRefused, match="hash differs"):
        reproduce_hierarchy(tmp_path)


@pytest.mark.parametrize(
    "forged",
    [
        {"block": [0, 0]}, {"block": [0, 2, 0]}, {"state": [0], "block": [0]}, {"block": [6], "nation": [0]},
        {"county": [1], "state": [0]}, {"state": [1, 1]},
    ],
)  # fmt: skip
def test_a_region_that_counts_a_node_twice_is_refused(tmp_path: Path, forged: dict[str, list[int]]) -> None:
    """No list of nodes has such a cover; its sum would be no count of any rows."""
    rows = [(i, *row[1:]) for i, row in enumerate(make_rows(Random(3), 100))]
    regions = {"lake": ["1111", "2111"]}
    tabulate_hierarchy(connect(rows, unique=True), read_hierarchy(), TABLES, tmp_path, epsilon=4, regions=regions).write()
    description = tmp_path / "measurements" / "measurements.json"
    described = json.loads(description.read_text())
    for listed, is_refused in (
        (described["regions"]["lake"], False),
        ({"block": [0, 1], "state": [1]}, False),
        (forged, True),
    ):
        description.write_text(json.dumps(described | {"regions": {"lake": listed}}))
        if is_refused:
            with pytest.raises(SourceRefused, match="count twice"):
                reproduce_hierarchy(tmp_path)
        else:
            HierarchyMeasurements.read(tmp_path)


@pytest.mark.parametrize("unique", [True, False])
def test_notes_claim_the_limits_that_are_applied(tmp_path: Path, unique: bool) -> None:
    """Under `unique` no row is dropped: that a unit has one row is taken for granted."""
    rows = [(1, "1111", 0, 0)] * 15 + [(2, "2111", 1, 1)]
    session = connect(rows, unique=unique, epsilon=10**6)
    found = tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path, epsilon=1000)
    assert round(found.tables["total", "nation"].estimate.item()) == (16 if unique else 2)
    [limits, *_] = found.list_notes()
    assert ("taken for granted" in limits) == unique
    assert ("Limits" in limits) != unique


def edit_csv(text: str) -> dict[str, bytes]:
    """Ways to change a CSV file, each of which must be noticed."""
    header, first, second, *rest = text.splitlines(keepends=True)
    cells = first.split(",")
    moved = ",".join([*cells[:-1], f"{int(cells[-1]) + 1}\n"])
    return {
        "a display value": "".join([header, moved, second, *rest]).encode(),
        "an estimate": text.replace(cells[2], f"{float(cells[2]) + 1e-6}", 1).encode(),
        "no number": text.replace(cells[2], "nan", 1).encode(),
        "rows change places": "".join([header, second, first, *rest]).encode(),
        "one row more": (text + rest[-1]).encode(),
        "one row less": "".join([header, first, second, *rest[:-1]]).encode(),
        "another header": text.replace("estimate", "count", 1).encode(),
        "a key": text.replace('"1111"', '"1112"', 1).encode(),
        "no text": b"\xff\xfe",
        "nothing": b"",
        "one endless line": b"x" * 3_000_000,
    }


def test_csv_files_are_compared_as_parquet_is(tmp_path: Path) -> None:
    rows = [(i, *row[1:]) for i, row in enumerate(make_rows(Random(3), 100))]
    session = connect(rows, unique=True)
    tabulate_hierarchy(session, read_hierarchy(), TABLES, tmp_path, epsilon=4, stream_level="state").write()
    path = tmp_path / "age.block.csv"
    text = path.read_text(encoding="utf-8")
    assert reproduce_hierarchy(tmp_path).is_complete
    for what, content in edit_csv(text).items():
        assert content != text.encode(), what
        path.write_bytes(content)
        assert reproduce_hierarchy(tmp_path).different == ("age.block.csv",), what
    path.unlink()
    assert reproduce_hierarchy(tmp_path).missing == ("age.block.csv",)
    path.write_text(text, encoding="utf-8")
    (tmp_path / "age.village.CSV").write_text(text, encoding="utf-8")
    assert reproduce_hierarchy(tmp_path).unknown == ("age.village.CSV",)


@pytest.mark.parametrize("text", ["7/2", "3.5", "14/4"])
def test_a_sigma_may_be_a_text(text: str) -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    plan = plan_hierarchy(session, read_hierarchy(), TABLES, measure={"block": {"sex_age": text}})
    assert plan.noises[3][0, 1].sigma == Fraction(7, 2)


@pytest.mark.parametrize("text", ["7/0", "1e9", "-1", "0", "seven", "1/2/3", "9" * 5000])
def test_a_text_that_is_no_sigma_is_refused(text: str) -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    with pytest.raises(BadParameter, match="measure"):
        plan_hierarchy(session, read_hierarchy(), TABLES, measure={"block": {"sex_age": text}})


def test_weights_of_rows_are_summed_on_their_grid(tmp_path: Path) -> None:
    rng = Random(2)
    frame = pandas.DataFrame(
        [(i, rng.choice(CODES), rng.choice([0.5, 1.0, 2.5])) for i in range(500)], columns=["id", "geo", "w"]
    )
    session = discreet.connect(frame, name="people", unit="id", unique=True, epsilon=50, delta=1e-6, bounds={"w": (0, 4)})
    found = tabulate_hierarchy(
        session, read_hierarchy(), [()], tmp_path / "out", epsilon=40, weight="w", confidence=1 - 1e-9
    )
    total = found.tables["total", "nation"]
    assert total.lower[0] <= frame["w"].sum() <= total.upper[0]
    found.write()
    assert reproduce_hierarchy(tmp_path / "out").is_complete


def test_regions_that_no_table_reaches_are_refused() -> None:
    session = connect(make_rows(Random(1), 20), unique=True)
    tables = {"sex": LevelTable(("sex",), levels=("nation", "state")), "total": LevelTable(levels="state")}
    plan = plan_hierarchy(session, read_hierarchy(), tables, epsilon=1, regions={"whole": {"state": ["1"]}})
    assert set(plan.model.region_tables) == {"sex", "total"}
    assert plan.model.display_columns == ((0,), (0,))
    assert (REGIONS, ()) not in plan.model._noise
    with pytest.raises(BadParameter, match="no table is estimated"):
        plan_hierarchy(session, read_hierarchy(), tables, epsilon=1, regions={"part": ["1111"]})
