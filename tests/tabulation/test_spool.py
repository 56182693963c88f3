"""Measurements of a hierarchy are drawn once: after a kill at any step, in a folder that is lost or was put back, or by two
processes at once. One debit is bound to one folder."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from discreet.accounting.currencies import round_up
from discreet.errors import BadParameter, BudgetExceeded, SourceRefused
from discreet.ledger import open_ledger
from discreet.query.cells import CellBlock
from discreet.tabulation.hierarchy_files import reproduce_hierarchy
from discreet.tabulation.hierarchy_measuring import HierarchyJob, hash_units
from discreet.tabulation.spool import DataChanged, Spool, merkle_root
from discreet.testing import seeded_bits
from tests.support.rounds import at_night
from tests.tabulation.killed_spools import invent_people, run

ROOT = Path(__file__).parents[2]


def kill_children(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.tabulation.killed_spools", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("every", [3, at_night(1)])
def test_a_kill_at_any_step_costs_nothing_and_draws_nothing_again(every: int) -> None:
    found = kill_children(str(every))
    assert found["problems"] == []
    assert found["steps"] >= 28  # two of each file of the folder, and of what the ledger reserves and records


def test_parts_that_are_drawn_again_are_noticed() -> None:
    assert "was drawn again" in kill_children("mutant")["problems"][0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    invent_people(tmp_path)
    return tmp_path


def spent(folder: Path) -> Any:
    ledger = open_ledger(folder / "people.ledger")
    found = ledger.get_account("census").budget.spent
    ledger.close()
    return found


def test_a_lost_folder_stays_paid_and_is_not_measured_again(folder: Path) -> None:
    cost = round_up(run(folder).plan.charge)
    shutil.move(folder / "out", folder / "elsewhere")
    with pytest.raises(BadParameter, match="begun in another folder"):
        run(folder)
    with pytest.raises(BadParameter, match="begun in another folder"):
        run(folder, "other")
    assert not (folder / "out").exists()
    assert spent(folder) == cost
    assert run(folder, "elsewhere").charged is False  # it was only moved
    fresh = run(folder, "third", fresh=True)
    assert fresh.charged
    assert spent(folder) == 2 * cost


def test_a_folder_is_for_one_debit(folder: Path) -> None:
    cost = round_up(run(folder, id="first").plan.charge)
    with pytest.raises(BadParameter, match="measurements of another debit"):
        run(folder, id="second", fresh=True)
    assert spent(folder) == cost


def test_an_older_copy_of_the_folder_is_refused_once_it_is_recorded(folder: Path) -> None:
    found = run(folder)
    part = folder / "out" / "measurements" / "subtree-000001.npz"
    other = folder / "out" / "measurements" / "subtree-000000.npz"
    shutil.copy(other, part)
    with pytest.raises(SourceRefused, match=r"subtree-000001\.npz is not the file that was recorded"):
        _ = run(folder).tables
    with pytest.raises(SourceRefused, match="hash differs"):
        reproduce_hierarchy(folder / "out")
    assert spent(folder) == round_up(found.plan.charge)


def test_an_unfinished_copy_is_refused_and_stays_closed_to_readers(folder: Path) -> None:
    """A copy of a folder that was killed has private hashes in it, and no right to be published."""
    root = run(folder).root
    copied = folder / "copy" / "measurements"
    shutil.copytree(folder / "out", folder / "copy")
    for name in ("upper.npz", "measurements.json", "nodes.parquet"):
        (copied / name).unlink()
    (copied / "private").mkdir(mode=0o700)
    (copied / "private" / "key").write_bytes(b"k" * 32)
    copied.chmod(0o700)
    for again in (copied / "upper.npz", None):
        with pytest.raises(SourceRefused, match=r"upper\.npz"):
            run(folder, "copy")
        assert copied.stat().st_mode & 0o777 == 0o700
        assert not (copied / "measurements.json").exists()
        if again is not None:
            again.write_bytes(b"drawn again")
    shutil.copy(folder / "out" / "measurements" / "upper.npz", copied / "upper.npz")
    assert run(folder, "copy").root == root
    assert not (copied / "private").exists()


def test_files_of_a_publication_hold_nothing_private(folder: Path) -> None:
    run(folder)
    names = {path.name for path in (folder / "out" / "measurements").iterdir()}
    parts = {"subtree-000000.npz", "subtree-000001.npz", "subtree-000002.npz", "upper.npz"}
    assert names == parts | {"spool.json", "measurements.json", "nodes.parquet"}


def test_two_processes_do_not_measure_at_once(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path / "measurements", "plan")
    with spool.lock(), pytest.raises(BadParameter, match="another process"), spool.lock():
        pass


def test_only_what_is_in_a_folder_for_the_same_plan_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "measurements"
    spool = Spool.create(place, "plan")
    assert Spool.create(place, "plan") == spool
    for plan, reuse in (("other", True), ("plan", False)):
        with pytest.raises(BadParameter, match="another debit"):
            Spool.create(place, plan, reuse=reuse)
    spool.write_part("upper", [{(): np.zeros((1, 1), np.int64)}], 0, {})
    with pytest.raises(BadParameter, match="another debit"):
        Spool.create(place, "plan")


def test_parts_are_never_replaced(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path / "measurements", "plan")
    for number in (1, 2):
        spool.write_part("upper", [{(0,): np.full((1, 3), number, np.int64)}], 0, {})
    assert spool.read_part("upper")[0, (0,)].tolist() == [[1, 1, 1]]


def test_numbers_are_read_as_they_were_written(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path / "measurements", "plan")
    for place, most in enumerate((5, 2**15, -(2**15) - 1, 2**31, -(2**63), 2**63 - 1)):
        table = np.array([[most, 0, -1]], np.int64)
        spool.write_part(f"subtree-{place}", [{}, {(0, 2): table}], 3, {})
        assert spool.read_part(f"subtree-{place}")[4, (0, 2)].tolist() == table.tolist()


# -- one state of the data -------------------------------------------------------------------------------------------------


class Stop(Exception):
    """In place of a crash."""


@contextmanager
def stop_after(part: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def pause(what: str, path: Path) -> None:
        if what == "placed" and path.name == part:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("discreet.tabulation.spool._pause", pause)
        yield


def blocks(*rows: tuple[int, int, int]) -> list[CellBlock]:
    """Cells: node of the last level, sex, and how many."""
    numbers = np.array(rows, np.int64)
    return [CellBlock(numbers[:, :2].copy(), numbers[:, 2].copy())]


@pytest.mark.parametrize("is_changed", [False, True])
def test_parts_are_of_one_state_of_the_data(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    """A person who moved from the first subtree to the third, while the work was interrupted, would count in both."""
    plan = run(folder).plan
    spool = Spool.create(tmp_path / "again" / "measurements", "plan")
    job = HierarchyJob(plan.wanted, plan.noises, plan.stream_level, spool, plan.event, {})
    before = [(0, 0, 5), (1, 1, 2), (3, 0, 4)]
    with stop_after("subtree-000001.npz", monkeypatch), pytest.raises(Stop):
        job._draw_parts(blocks(*before), seeded_bits(1))
    assert spool.has_part("subtree-000001")
    assert not spool.has_part("subtree-000002")
    first = spool.hash_part("subtree-000000")
    after = [(0, 0, 4), (1, 1, 2), (3, 0, 5)] if is_changed else before
    if is_changed:
        with pytest.raises(DataChanged, match="the rows have changed since: subtree-000000"):
            job._draw_parts(blocks(*after), seeded_bits(2))
        assert not spool.has_part("subtree-000002")
    else:
        job._draw_parts(blocks(*after), seeded_bits(2))
        assert all(map(spool.has_part, job.part_names))
    assert spool.hash_part("subtree-000000") == first


def write_people(folder: Path, *rows: tuple[int, str, int]) -> None:
    ids, codes, sexes = zip(*rows, strict=True)
    parquet.write_table(pa.table({"id": ids, "geo": codes, "sex": sexes}), folder / "p.parquet")


PEOPLE = [(1, "11", 0), (2, "21", 0), (3, "31", 1), (4, "32", 1), (5, "11", 1)]
"""Two in the first county, one in the second, two in the third."""

CHANGED: dict[str, list[tuple[int, str, int]]] = {
    "two units change places": [(1, "21", 0), (2, "11", 0), *PEOPLE[2:]],
    "two units change places, one of them in a part to come": [(1, "31", 0), *PEOPLE[1:2], (3, "11", 0), *PEOPLE[3:]],
    "another unit has the same row": [(9, "11", 0), *PEOPLE[1:]],
    "a unit is gone": PEOPLE[1:],
    "a unit has another value": [(1, "11", 1), *PEOPLE[1:]],
}


@pytest.mark.parametrize("options", [{}, {"unique": False}, {"unique": False, "max_groups": 3, "max_rows": 2}])
@pytest.mark.parametrize("change", CHANGED)
def test_units_that_moved_do_not_count_in_two_subtrees(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str, options: dict[str, Any]
) -> None:
    """That a part has as many rows in each cell as before does not suffice. Nothing is drawn, charged or quarantined; what
    is said is true; and with the same rows, in another order, the work goes on."""
    before = [(3, "31", 0), *PEOPLE] if change.endswith("to come") else PEOPLE
    after = CHANGED[change]
    write_people(folder, *before)
    with stop_after("subtree-000000.npz", monkeypatch), pytest.raises(Stop):
        run(folder, declared=options)
    paid, place = spent(folder), folder / "out" / "measurements"
    first = (place / "subtree-000000.npz").read_bytes()
    write_people(folder, *after)
    for _ in range(2):
        with pytest.raises(DataChanged, match=r"rows have changed .* first debit is not refunded"):
            run(folder, declared=options)
        assert [path.name for path in place.glob("*.npz")] == ["subtree-000000.npz"]
        assert spent(folder) == paid
    write_people(folder, *reversed(before))
    run(folder, declared=options)
    assert (place / "subtree-000000.npz").read_bytes() == first
    assert spent(folder) == paid


def test_rows_of_subtrees_that_are_not_drawn_count_as_they_are_now(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The units of all parts that are there are the same, so each unit is in the cells of the rows as they are now alone."""
    write_people(folder, *PEOPLE)
    with stop_after("subtree-000000.npz", monkeypatch), pytest.raises(Stop):
        run(folder)
    write_people(folder, *PEOPLE[:1], (2, "31", 1), *PEOPLE[2:])
    run(folder)


def test_the_upper_levels_are_bound_to_the_units_of_all_subtrees(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_people(folder, *PEOPLE)
    with stop_after("upper.npz", monkeypatch), pytest.raises(Stop):
        run(folder)
    (folder / "out" / "measurements" / "subtree-000001.npz").unlink()
    write_people(folder, *PEOPLE[:1], (9, "21", 0), *PEOPLE[2:])
    with pytest.raises(DataChanged, match="upper was drawn from other rows"):
        run(folder)


@pytest.mark.parametrize("lost", ["key", "subtree-000000"])
def test_what_is_private_is_missed_when_it_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    with stop_after("subtree-000000.npz", monkeypatch), pytest.raises(Stop):
        run(folder)
    path = folder / "out" / "measurements" / "private" / lost
    content = path.read_bytes()
    path.unlink()
    for _ in range(2):  # the source stays open
        with pytest.raises(DataChanged, match="is missing"):
            run(folder)
    path.write_bytes(content)
    run(folder)


def test_hashes_of_units_depend_on_no_order_of_cells() -> None:
    codes, counts = np.array([[0, 1], [0, 2], [3, 1]]), np.array([1, 2, 1])
    units = np.array([7, -(2**62), 5])
    block, order = CellBlock(codes, counts, units), np.array([2, 0, 1])
    assert hash_units(block) == hash_units(CellBlock(codes[order], counts[order], units[order]))
    parts = hash_units(block, 0, 1) + hash_units(block, 1, 3)
    assert hash_units(block) == parts % 2**64
    others = [
        CellBlock(codes, counts, units[order]), CellBlock(codes, counts[order], units),
        CellBlock(codes[order], counts, units),
    ]  # fmt: skip
    assert len({hash_units(each) for each in (block, *others)}) == 4
    assert hash_units(CellBlock(codes, counts)) == 0


# -- a refusal binds nothing -----------------------------------------------------------------------------------------------


def count_debits(folder: Path) -> int:
    ledger = open_ledger(folder / "people.ledger")
    found = ledger.get_account("census").state.debits
    ledger.close()
    return found


def test_a_plan_that_is_too_expensive_is_bound_to_no_folder(folder: Path) -> None:
    before = count_debits(folder)
    for name in ("out", "other"):
        with pytest.raises(BudgetExceeded):
            run(folder, name, epsilon=5)
        assert not (folder / name).exists()
    assert count_debits(folder) == before
    assert run(folder, "other").charged


def test_work_that_is_paid_for_is_continued_when_no_budget_remains(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stop_after("subtree-000000.npz", monkeypatch), pytest.raises(Stop):
        run(folder, epsilon=3)
    with pytest.raises(BudgetExceeded):
        run(folder, "other", epsilon=1)
    run(folder, epsilon=3)


def test_a_folder_that_nothing_was_paid_for_is_not_called_paid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the record of the folder and the debit."""
    with stop_after("spool.json", monkeypatch), pytest.raises(Stop):
        run(folder)
    with monkeypatch.context() as patch:
        patch.setattr(HierarchyJob, "table", property(lambda self: (_ for _ in ()).throw(Stop)))
        patch.setattr(Spool, "open", classmethod(lambda *_, **__: (_ for _ in ()).throw(Stop)))
        with pytest.raises(Stop):
            run(folder)
    assert spent(folder) == 0
    with pytest.raises(BadParameter, match=r"nothing was charged for it.*fresh=True and a new folder") as refused:
        run(folder, "other")
    assert "refunded" not in str(refused.value)
    assert run(folder, "third", fresh=True).charged


def test_cells_out_of_order_are_no_subtrees(folder: Path, tmp_path: Path) -> None:
    plan = run(folder).plan
    spool = Spool.create(tmp_path / "again" / "measurements", "plan")
    job = HierarchyJob(plan.wanted, plan.noises, plan.stream_level, spool, plan.event, {})
    with pytest.raises(AssertionError, match="order"):
        job._draw_parts(blocks((2, 0, 1), (0, 0, 1)), seeded_bits(1))


def test_a_hash_of_cells_says_nothing_without_its_key(tmp_path: Path) -> None:
    one, two = (Spool.create(tmp_path / name / "measurements", "plan") for name in ("one", "two"))
    cells = {(): np.array([[7]], np.int64)}
    assert one._hash_cells(cells) == one._hash_cells(cells)
    assert one._hash_cells(cells) != two._hash_cells(cells)
    with pytest.raises(DataChanged):
        one.check_cells("upper", cells)


def test_the_merkle_root_is_that_of_names_and_hashes_in_order() -> None:
    hashes = {f"part {i}": f"{i:064x}" for i in range(5)}
    root = merkle_root(hashes)
    assert merkle_root(dict(reversed(hashes.items()))) != root
    assert merkle_root(hashes | {"part 3": f"{9:064x}"}) != root
    assert merkle_root({name: each for name, each in hashes.items() if name != "part 4"}) != root
    assert merkle_root({f"{name}x": each for name, each in hashes.items()}) != root


def test_a_receipt_of_another_plan_is_refused(folder: Path) -> None:
    found = run(folder)
    plan = found.plan
    job = HierarchyJob(plan.wanted, plan.noises[:1], plan.stream_level, found.measurements.spool, plan.event, {})
    receipt = replace(plan.session.account.pay(plan.event))
    with pytest.raises(BadParameter, match="another measurement"):
        job.measure(plan.session.executor, receipt, None, None)  # type: ignore[arg-type]
