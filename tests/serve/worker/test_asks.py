"""Asks through a worker: when they end, how, and what is visible before."""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.engines.base import OutOfResources
from discreet.errors import EngineFailed
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit, FailureRecorded
from discreet.serve.control.model import AskState, Rules
from discreet.serve.worker.delivery import Delivery
from tests.support.hand_clock import at, wait_until
from tests.support.served_tables import Service, configure, start_by_hand, start_service, value_of, write_table


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data"), "ada", "bob") as running:
        yield running


def run_until(service: Service, seconds: float) -> Any:
    """Return a run that ends so many seconds after the clock shows now, when everything that is due by then is done."""
    start = service.clock.now()

    def run(original: Any, bounded: Any) -> Any:
        service.set_time(start + seconds)
        return original(bounded)

    return run


def fail(original: Any, bounded: Any) -> Any:
    raise OutOfResources


def look(service: Service) -> Any:
    """Return what people see of a ledger: its head and balances; and its entries."""
    entries = [*map(type, service.worker.tables.ledger.iter_entries())]
    return service.control.last_head(), service.control.list_snapshots(), entries


def test_an_answer_leaves_at_its_moment_and_is_recorded_then(service: Service) -> None:
    """Head, balances and entries change at moments alone. The mutant that records what is ready fails, and so does the one
    that ends an ask a hundredth of a second before its moment."""
    heads, snapshots, entries = look(service)
    ask = service.ask()
    service.wait_until_ready(ask)
    for early in (0.3, 0.2, 0.1, 0.01):
        service.set_time_of(ask, -early)
        assert look(service) == (heads, snapshots, [*entries, Debit])  # paid before any row was read
        assert service.find(ask).state is AskState.RUNNING
    service.set_time_of(ask)
    answered = service.find(ask)
    assert answered.state is AskState.ANSWERED
    assert answered.answered_at == at(ask.release_at)
    assert answered.overruns == 0
    assert len(service.list_entries(AnswerRecorded)) == 1
    assert service.control.last_head() != heads
    changed = {each.account for each in set(service.control.list_snapshots()) - set(snapshots)}
    assert changed == {"data", "data/ada"}
    assert {row[0] for row in value_of(answered)} == {"a", "b"}


def test_an_equal_query_learns_nothing_of_one_that_is_ready(service: Service) -> None:
    """It has a moment of its own, pays nothing, and shows the same answer."""
    first = service.ask("ada")
    service.wait_until_ready(first)
    service.set_time(service.clock.now() + 0.15)
    second = service.ask("bob")
    service.wait_until_ready(second)
    service.set_time_of(first, -0.01)
    assert service.find(second).state is AskState.RUNNING
    service.set_time_of(first)
    assert service.find(second).state is AskState.RUNNING
    service.set_time_of(second)
    one, other = service.find(first), service.find(second)
    assert other.answered_at == at(second.release_at)
    assert value_of(one) == value_of(other)
    assert len(service.list_entries(Debit)) == len(service.list_entries(AnswerRecorded)) == 1


def test_one_of_the_asks_that_share_a_debit_says_that_it_was_charged(tmp_path: Path) -> None:
    """The mutant believes the session, which continued the account's own debit: each of them says that it paid."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data"), "ada", slots=3) as service:
        asks = [service.ask("ada") for _ in range(3)]
        answered = [service.wait(each) for each in asks]
        [debit] = service.list_entries(Debit)
        said = [each.answer for each in answered]
        assert [each is not None and each["charged"] for each in said].count(True) == 1
        for ask, answer in zip(answered, said, strict=True):
            assert answer is not None
            has_paid = debit.id == ask.debit_id
            assert (answer["charged"], ask.is_free) == (has_paid, not has_paid)
            is_shared = any("Nothing was charged for this ask" in each for each in answer["notes"])
            is_recorded = any("as of entry" in each for each in answer["notes"])
            assert has_paid != (is_shared or is_recorded)


def test_a_recorded_answer_leaves_at_once(service: Service) -> None:
    """No time passes until it has ended."""
    first = service.wait(service.ask("ada"))
    start = service.clock.now()
    again = service.wait(service.ask("bob"))
    assert service.clock.now() == again.answered_at == start
    assert value_of(again) == value_of(first)
    assert again.answer is not None
    assert again.answer["charged"] is False
    assert len(service.list_entries(Debit)) == 1


def test_an_answer_that_is_late_leaves_at_the_moment_of_the_next_class(service: Service) -> None:
    service.change_engine(run_until(service, 0.5))
    ask = service.ask()
    service.wait_until_ready(ask)
    late = service.find(ask)
    assert (late.state, late.overruns, late.class_seconds) == (AskState.RUNNING, 1, 0.8)
    answered = service.wait(ask)
    assert answered.state is AskState.ANSWERED
    assert answered.answered_at == at(ask.accepted_at + 0.8)
    assert answered.overruns == 1
    assert answered.class_seconds == 0.8


def test_after_the_last_class_an_ask_fails_and_stays_charged(service: Service) -> None:
    seen = list[AskState]()
    start = service.clock.now()

    def run(original: Any, bounded: Any) -> Any:
        for moment in (0.79, 0.8, 1.2):
            service.set_time(start + moment)
            seen.append(service.find(ask).state)
        return original(bounded)

    ask = service.make_ask()
    service.change_engine(run)
    service.control.add_ask(ask)
    failed = service.wait(ask)
    service.wait_until_ready(ask)
    assert seen == [AskState.RUNNING, AskState.FAILED, AskState.FAILED]
    assert failed.state is AskState.FAILED
    assert failed.problem is not None
    assert failed.problem["detail"] == str(EngineFailed())
    assert len(service.list_entries(Debit)) == 1
    service.set_time(start + 3600)
    assert not service.list_entries(AnswerRecorded)  # the late answer is shown to nobody
    assert service.find(ask).state is AskState.FAILED


def test_three_late_answers_pause_the_account(service: Service) -> None:
    for i in range(3):
        grant = service.control.find_grant("ada", "people")
        assert grant is not None
        assert grant.paused is None
        engine: Any = service.worker.tables._tables["people"].source.engine
        original = engine.run
        service.change_engine(run_until(service, 0.4))
        service.wait(service.ask(epsilon=f"0.0{i + 2}"))
        engine.run = original
    grant = service.control.find_grant("ada", "people")
    assert grant is not None
    assert grant.paused is not None
    refused = service.wait(service.ask(epsilon="0.06"))
    assert refused.state is AskState.REFUSED
    assert len(service.list_entries(Debit)) == 3
    bob = service.control.find_grant("bob", "people")
    assert bob is not None
    assert bob.paused is None


def test_a_failure_is_told_at_its_moment_in_constant_words_and_stays_charged(service: Service) -> None:
    service.change_engine(fail)
    ask = service.ask()
    service.wait_until_ready(ask)
    service.set_time_of(ask, -0.01)
    assert service.find(ask).state is AskState.RUNNING
    failed = service.wait(ask)
    assert failed.state is AskState.FAILED
    assert failed.answered_at == at(ask.release_at)
    assert failed.problem is not None
    assert failed.problem["detail"] == str(EngineFailed())
    snapshot = service.control.find_snapshot("data/ada")
    assert snapshot is not None
    assert snapshot.budget.spent > 0
    for epsilon in ("0.02", "0.03"):
        service.wait(service.ask(epsilon=epsilon))
    grant = service.control.find_grant("ada", "people")
    assert grant is not None
    assert grant.paused is not None


def test_a_table_that_is_quarantined_is_refused_without_its_path(service: Service) -> None:
    def broken(original: Any, bounded: Any) -> Any:
        raise EngineFailed

    service.change_engine(broken)
    service.wait(service.ask("ada"))
    refused = service.wait(service.ask("bob", epsilon="0.02"))
    assert refused.state is AskState.REFUSED
    assert "data" not in str(refused.problem)
    assert "ledger" not in str(refused.problem)
    assert len(service.list_entries(Debit)) == 1


def test_a_failure_closes_the_table_at_its_moment_and_not_before(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then neither the ledger nor the fate of other asks tells that a query failed; and no other query reads rows."""
    runs: list[Any] = []
    overruns: list[Any] = []

    def broken(original: Any, bounded: Any) -> Any:
        runs.append(bounded)
        raise EngineFailed

    monkeypatch.setattr(Delivery, "count_overrun", lambda _, running: overruns.append(running))
    service.change_engine(broken)
    first = service.ask("ada")
    service.wait_until_ready(first)
    service.set_time_of(first, -0.1)
    second = service.ask("bob", epsilon="0.02")
    service.wait_until_ready(second)
    service.set_time_of(first, -0.01)
    assert [service.find(each).state for each in (first, second)] == [AskState.RUNNING] * 2
    assert not service.list_entries(FailureRecorded)
    for ask in (first, second):
        service.set_time_of(ask)
        failed = service.find(ask)
        assert failed.state is AskState.FAILED
        assert failed.answered_at == at(ask.release_at)
        assert failed.problem is not None
        assert failed.problem["detail"] == str(EngineFailed())
        assert len(service.list_entries(FailureRecorded)) == 1
    third = service.ask("ada", epsilon="0.03")
    assert service.wait(third).state is AskState.REFUSED
    assert service.clock.now() == third.accepted_at
    assert len(runs) == len(service.list_entries(Debit)) == 1
    service.set_time_of(third, 0.05)
    assert not overruns


def test_a_failure_after_the_last_class_closes_the_table_too(service: Service) -> None:
    """At a whole number of last classes after its acceptance: the head of the ledger does not tell when it failed."""
    start = service.clock.now()

    def broken(original: Any, bounded: Any) -> Any:
        service.set_time(start + 1.0)
        raise EngineFailed

    service.change_engine(broken)
    assert service.wait(service.ask()).state is AskState.FAILED
    wait_until(lambda: any(each.moment > service.clock.now() for each in service.worker.moments._entries))
    service.set_time(start + 1.59)
    assert not service.list_entries(FailureRecorded)
    service.set_time(start + 1.6)
    assert len(service.list_entries(FailureRecorded)) == 1
    assert service.wait(service.ask("bob", epsilon="0.02")).state is AskState.REFUSED


def test_no_time_of_the_control_database_decides_a_class(tmp_path: Path) -> None:
    """A web process that was taken over writes that a pass takes no time, to get classes that are overrun."""
    write_table(tmp_path / "data")
    config = configure(tmp_path / "data")
    tables = {name: dataclasses.replace(each, rows_at_most=500) for name, each in config.tables.items()}
    config = dataclasses.replace(config, tables=tables)
    with start_service(config) as service:
        entry = service.control.find_table("people")
        assert entry is not None
        assert entry.seconds_per_pass > 0
        served = service.worker.tables.get_entry("people")
        assert (served.classes, served.seconds_per_pass) == ((0.3, 0.8), entry.seconds_per_pass)
        service.control.register_table(msgspec.structs.replace(entry, seconds_per_pass=1e-9))
    with start_service(config) as service:
        served = service.worker.tables.get_entry("people")
        assert (served.classes, served.seconds_per_pass) == ((0.3, 0.8), entry.seconds_per_pass)
        assert service.control.find_table("people") == entry


def test_rules_of_the_configuration_are_fixed_and_others_stay_as_stewards_set_them(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    config, stated = configure(tmp_path / "data"), Rules(epsilon_per_ask="1/20")
    fixed = dataclasses.replace(
        config, tables={name: dataclasses.replace(each, rules=stated) for name, each in config.tables.items()}
    )
    found = []
    for each in (config, config, fixed, config):
        with start_service(each) as service:
            entry = service.control.find_table("people")
            assert entry is not None
            found.append((entry.rules, entry.has_fixed_rules))
            if len(found) == 1:
                service.control.change_rules("people", Rules(declared_keys_only=True), by="sam")
    assert found == [(Rules(), False), (Rules(declared_keys_only=True), False), (stated, True), (Rules(), False)]


def test_a_measurement_that_was_not_quoted_is_refused_before_it_is_charged(service: Service) -> None:
    """A web process that was taken over changes the query or the ε after the approval."""
    ask = service.make_ask()
    for change in (
        {"epsilon": "1/10"},
        {"query": "SELECT COUNT(*) AS n FROM people WHERE id = 7"},
        {"measurement": "0" * 64},
    ):
        changed = msgspec.structs.replace(ask, id=f"{len(str(change)):032}", key=str(change), **change)  # type: ignore[arg-type]
        refused = service.wait(service.control.add_ask(changed))
        assert refused.state is AskState.REFUSED
        assert "quoted or approved" in str(refused.reason)
    assert not service.list_entries(Debit)
    assert service.wait(service.control.add_ask(ask)).state is AskState.ANSWERED


def test_a_policy_that_was_widened_after_the_quote_is_refused(service: Service) -> None:
    ask = service.make_ask()
    policy = service.config.tables["people"].policy
    policy.write_text(policy.read_text().replace("upper = 100", "upper = 1000"))
    service.worker.tables.open_table("people")
    entry = service.control.find_table("people")
    assert entry is not None
    assert entry.policy_version == 2
    assert service.wait(service.control.add_ask(ask)).state is AskState.REFUSED
    assert service.wait(service.ask()).state is AskState.ANSWERED


def test_a_grant_that_was_taken_away_while_an_ask_waited_is_respected(service: Service) -> None:
    ask = service.make_ask()
    service.control.remove_grant("ada", "people")
    assert service.wait(service.control.add_ask(ask)).state is AskState.REFUSED
    assert not service.list_entries(Debit)


def test_analysts_together_never_pass_the_root(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(), epsilon=0.5), "ada", "bob", "eve") as service:
        people = ("ada", "bob", "eve")  # each asks something else, so nothing is free
        asks = [service.ask(person, epsilon=f"0.2{i}{j}") for i in range(9) for j, person in enumerate(people)]
        ended = [service.wait(ask) for ask in asks]
        assert {each.state for each in ended} == {AskState.ANSWERED, AskState.REFUSED}
        root = service.worker.tables.ledger.get_account("data").state.budget
        assert root.spent <= root.limit
        assert check_ledger(service.worker.tables.ledger).is_valid
        refused = next(each for each in ended if each.state is AskState.REFUSED)
        assert refused.problem is not None
        assert refused.problem["error"] == "BudgetExceeded"
        remaining = Fraction(refused.problem["fields"]["remaining"])
        assert remaining < root.remaining
        assert (remaining / root.limit * 100).denominator == 1  # whole percents: others spend from the root, too


def test_without_a_schedule_answers_leave_when_they_are_ready(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=()), "ada") as service:
        ask = service.ask()
        assert ask.release_at is None
        answered = service.wait(ask)
        assert answered.state is AskState.ANSWERED
        assert answered.answered_at is not None
        assert ask.accepted_at < answered.answered_at <= service.clock.now()


def test_answers_that_wait_occupy_no_slot(tmp_path: Path) -> None:
    """Six asks of 3 s on two slots. Two are taken in each quarter of the class, and not in each class: all of them leave
    after 3 s, and not after 9 s, as one pair after the other would."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(3.0, 20.0)), "ada") as service:
        asks = [service.ask(epsilon=f"0.01{i}") for i in range(6)]
        for pair in (asks[:2], asks[2:4], asks[4:]):
            service.wait_until_ready(*pair)
            wait_until(lambda: len(service.hand.list_waits()) == 2)
            assert service.hand.list_waits() == at([service.clock.now() + 0.75] * 2)
            service.set_time(service.clock.now() + 0.75)
        service.set_time_of(asks[0])
        assert [service.find(each).state for each in asks] == [AskState.ANSWERED] * 6
        assert [service.find(each).overruns for each in asks] == [0] * 6


def test_a_worker_that_is_stopped_puts_back_what_it_holds(tmp_path: Path) -> None:
    write_table(tmp_path / "data")
    config = configure(tmp_path / "data")
    with start_by_hand(config, "ada") as service:
        ask = service.ask()
        service.wait_until_ready(ask)
        service.worker.stop()
        assert service.find(ask).state is AskState.WAITING
        assert not service.list_entries(AnswerRecorded)
        service.control.pause_account("data/ada", "three overruns")  # what is paid for is continued, and nothing is begun
    with start_by_hand(config) as service:
        answered = service.wait(ask)
        assert answered.state is AskState.ANSWERED
        assert service.wait(service.ask(epsilon="0.02")).state is AskState.REFUSED
        assert len(service.list_entries(Debit)) == 1


def test_certificates_are_signed_for_answers_alone(service: Service) -> None:
    from discreet.ledger.verify import verify

    ask = service.ask("ada")
    assert service.wait_for_job("certificate", ask.id).state == "failed"
    service.wait(ask)
    free = service.wait(service.ask("bob"))
    for each in (ask, free):
        done = service.wait_for_job("certificate", each.id)
        assert done.state == "done", done.error
        found = verify(done.result["certificate"], ledger=service.worker.tables.ledger)
        assert found.is_valid


def test_accounts_are_opened_once(service: Service) -> None:
    for _ in range(2):
        done = service.wait_for_job("open_account", "data/eve", {"parent": "data", "epsilon": "1/2"})
        assert done.state == "done"
    snapshot = service.control.find_snapshot("data/eve")
    assert snapshot is not None
    assert snapshot.parent == "data"
    assert service.wait_for_job("open_account", "nobody/eve", {"parent": "nobody"}).state == "failed"
    assert service.wait_for_job("open_account", "root2", {}).state == "failed"
    assert service.wait_for_job("ledger_check", "ledger").result["holds"] is True


def test_the_control_database_has_no_salt(service: Service) -> None:
    salt = (service.config.state / "salts" / "people.salt").read_text().strip()
    service.wait(service.ask())
    assert len(salt) == 64
    for path in service.config.state.glob("control.sqlite*"):
        assert salt.encode() not in path.read_bytes()
    assert service.config.state.stat().st_mode & 0o077 == 0
    assert (service.config.state / "salts" / "people.salt").stat().st_mode & 0o077 == 0
