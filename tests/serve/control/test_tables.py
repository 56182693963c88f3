"""Tables, grants, and the mirror of the ledger."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

from discreet.serve.control.model import Grant, Population, Rules, Snapshot, TableEntry
from discreet.serve.control.store import Control


def make_table(name: str = "people", **fields: object) -> TableEntry:
    values: dict[str, object] = {
        "name": name, "population": "employees", "policy": "unit = 'id'\0", "policy_hash": "h1", "policy_version": 1,
        "identity": f"serve:{name}", "neighbours": "add or remove", "rules": Rules(epsilon_per_ask="1/2"),
    }  # fmt: skip
    return TableEntry(**(values | fields))  # type: ignore[arg-type]


def make_snapshot(account: str, entry: int = 0, spent: str = "0", root: str = "employees") -> Snapshot:
    return Snapshot(
        account=account, parent=None, root=root, currency="pure", limit="3/8", delta_limit="0", delta="0", spent=spent,
        delta_spent="0", entry=entry,
    )  # fmt: skip


def test_tables_and_populations_are_registered_and_replaced(control: Control) -> None:
    population = Population(name="employees", account="employees", epsilon="2", delta="1/1000000", currency="zcdp")
    control.save_population(population)
    assert control.find_population("employees") == population
    assert control.list_populations() == (population,)
    control.register_table(make_table("b"))
    control.register_table(make_table("a"), by="owner")
    control.register_table(make_table("a", policy_version=2), by="owner")
    control.register_table(make_table("a", policy_version=2), by="owner")  # nothing changes, so no line
    assert [each.policy_version for each in control.list_tables()] == [2, 1]
    assert control.find_table("a") == make_table("a", policy_version=2)
    assert control.find_table("c") is None
    assert [entry.details["version"] for entry in control.trail.list().items] == [2, 1]


def test_grants_say_who_may_ask_and_can_be_paused(control: Control) -> None:
    control.register_table(make_table("a"))
    control.register_table(make_table("b"))
    for person, table in (("ada", "a"), ("ada", "b"), ("bob", "a")):
        grant = Grant(person=person, table=table, account=f"employees/{person}", created=0.0, by="steward")
        control.add_grant(grant, by="steward")
    assert [each.name for each in control.list_tables("bob")] == ["a"]
    assert len(control.list_grants()) == 3
    assert len(control.list_grants(person="ada")) == len(control.list_grants(table="a")) == 2
    assert len(control.list_grants(person="ada", table="a")) == 1
    assert control.list_grants(person="") == ()
    control.pause_account("employees/ada", "three failures", by="service")
    assert [each.paused for each in control.list_grants()] == ["three failures", "three failures", None]
    control.resume_account("employees/ada", by="steward")
    assert [each.paused for each in control.list_grants()] == [None] * 3
    assert control.remove_grant("ada", "a", by="steward")
    assert not control.remove_grant("ada", "a", by="steward")
    assert control.find_grant("ada", "a") is None


@pytest.mark.parametrize("kind", ["overrun", "failure"])
def test_the_third_trouble_pauses_the_account(control: Control, kind: str) -> None:
    control.add_grant(Grant(person="ada", table="a", account="employees/ada", created=0.0, by="s"))

    def paused() -> str | None:
        grant = control.find_grant("ada", "a")
        assert grant is not None
        return grant.paused

    seen = []
    for _ in range(3):
        seen.append((control.count_trouble("employees/ada", kind), paused() is not None))  # type: ignore[arg-type]
    assert seen == [(1, False), (2, False), (3, True)]
    control.resume_account("employees/ada", by="steward")
    assert control.count_trouble("employees/ada", kind) == 1  # type: ignore[arg-type]
    assert paused() is None


def test_an_older_snapshot_does_not_replace_a_newer_one(control: Control) -> None:
    control.save_snapshots([make_snapshot("employees", 2, "1/8"), make_snapshot("employees/ada", 2, "1/8")])
    control.save_snapshots([make_snapshot("employees", 1, "1/16"), make_snapshot("patients", root="patients")])
    found = control.find_snapshot("employees")
    assert found is not None
    assert (found.spent, found.entry) == ("1/8", 2)
    assert [each.account for each in control.list_snapshots("employees")] == ["employees", "employees/ada"]
    assert len(control.list_snapshots()) == 3
    control.save_snapshots([make_snapshot("employees", 2, "3/16")])  # the same entry, seen again
    found = control.find_snapshot("employees")
    assert found is not None
    assert found.spent == "3/16"


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_views_of_a_root_in_any_order_leave_the_newest(control: Control, order: tuple[int, ...]) -> None:
    """Workers that saw a root after its first, second, … entry write in any order. The mutant orders by the debits of the
    account, of which a root has none when its children ask: the last writer wins, however old its view is."""
    views = [make_snapshot("employees", entry, f"{entry}/16") for entry in range(4)]
    assert {each.debits for each in views} == {0}
    for i in order:
        control.save_snapshots([views[i]])
    found = control.find_snapshot("employees")
    assert found is not None
    assert (found.entry, found.spent) == (3, "3/16")


def test_views_that_threads_write_at_once_leave_the_newest(control: Control) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: control.save_snapshots([make_snapshot("employees", n, f"{n}/100")]), range(40)))
    found = control.find_snapshot("employees")
    assert found is not None
    assert (found.entry, found.spent) == (39, "39/100")


def test_heads_are_remembered(control: Control) -> None:
    assert control.last_head() is None
    for number, hash in ((1, "aa"), (3, "cc"), (2, "bb"), (3, "cc")):
        control.save_head(number, hash)
    assert control.has_head(2, "bb")
    assert not control.has_head(2, "cc")
    assert not control.has_head(1 << 70, "cc")
    assert not control.has_head(-1, "cc")
    assert not control.has_head(1, "\0")
    last = control.last_head()
    assert last is not None
    assert (last.number, last.hash) == (3, "cc")
