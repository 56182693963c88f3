"""A writer without pause keeps no other out: threads of one process take turns, and so do processes; renewals go first."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from discreet.serve.control import queue
from discreet.serve.control.queue import SILENT_SECONDS
from discreet.serve.control.store import Control, open_control
from discreet.serve.control.writers import Gate, WriterQueue

ROUNDS = 20
WRITES = """
import sys
from discreet.serve.control.store import open_control
with open_control(sys.argv[1], create=False) as control:
    written = 0
    while True:
        control.set_setting("written", str(written := written + 1))
"""


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    with open_control(str(tmp_path / "control.sqlite")) as opened:
        yield opened


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def count_waiting(control: Control) -> int:
    """Threads of this process that wait to write."""
    return int(control._database._hub.writer.count_waiting())  # type: ignore[attr-defined]


def test_a_thread_that_writes_again_at_once_waits_for_one_that_waited(control: Control) -> None:
    """The mutant with a plain lock takes it again before the other thread wakes."""
    for number in range(1, ROUNDS + 1):
        with control.transaction():
            other = threading.Thread(target=control.save_slots, args=("w", number, 1e9))
            other.start()
            wait_until(lambda: count_waiting(control) == 1)
        with control.transaction():
            assert control.count_slots() == number
        other.join()


def test_a_renewal_goes_before_writes_that_came_first(control: Control) -> None:
    seen: list[int | None] = []

    def write() -> None:
        with control.transaction():
            seen.append(control.count_slots())

    writers = [threading.Thread(target=write) for _ in range(3)]
    with control.transaction():
        for writer in writers:
            writer.start()
        wait_until(lambda: count_waiting(control) == 3)
        renewing = threading.Thread(target=control.save_slots, args=("w", 2, 1e9))
        renewing.start()
        wait_until(lambda: count_waiting(control) == 4)
    for each in (*writers, renewing):
        each.join()
    assert seen == [2, 2, 2]


def test_a_process_that_writes_without_pause_keeps_no_other_out(control: Control, tmp_path: Path) -> None:
    """Counted in writes of the other process, so that it does not depend on the load of the machine. Where SQLite alone
    decides, a renewal waits for hundreds of them, or until there are no more."""

    def read_written() -> int:
        return int(control.find_setting("written") or 0)

    waited = []
    with subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "control.sqlite")]) as other:
        try:
            for _ in range(ROUNDS):
                seen = read_written()
                wait_until(lambda: read_written() > seen + 2)  # noqa: B023  # it is called in this round alone
                before = read_written()
                control.save_slots("w", 2, 30.0)
                waited.append(read_written() - before)
            assert other.poll() is None
        finally:
            other.kill()
    assert sorted(waited)[ROUNDS // 2] <= 5, waited
    assert max(waited) <= 50, waited


def test_a_thread_that_waits_no_longer_leaves_the_queue() -> None:
    turns = WriterQueue()
    assert turns.acquire(1.0)
    assert not turns.acquire(0.01)
    assert not turns.acquire(0.01, urgent=True)
    assert turns.count_waiting() == 0
    turns.release()
    assert turns.acquire(0.0)


def test_every_turn_is_given_to_exactly_one_thread() -> None:
    """Many threads, some of which give up: two at once would lose a count, and a lost turn would end in a wait for ever."""
    turns, counted, expected, lock = WriterQueue(), [0], [0], threading.Lock()

    def run(number: int) -> None:
        for step in range(200):
            if turns.acquire(0.0005 if step % 3 == 0 else 60, urgent=number == 0):
                found = counted[0]
                time.sleep(0)
                counted[0] = found + 1
                turns.release()
                with lock:
                    expected[0] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert counted == expected
    assert turns.acquire(0.0)


def test_a_lease_begins_when_it_is_written(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long others wrote before. The mutant that reads the clock before it waits makes a lease that has ended, or
    ends too early: another worker takes a job that is running."""
    now = [1000.0]
    monkeypatch.setattr(control, "_clock", lambda: now[0])
    monkeypatch.setattr(queue, "find_boot", lambda: None)
    control.enqueue("alert", "people")
    claimed = []
    with control.transaction():
        with_claim = threading.Thread(target=lambda: claimed.append(control.claim("w", None, 30.0)))
        with_claim.start()
        with_slots = threading.Thread(target=control.save_slots, args=("w", 2, 30.0))
        with_slots.start()
        wait_until(lambda: count_waiting(control) == 2)
        now[0] += 100
    with_claim.join()
    with_slots.join()
    assert claimed[0].lease_until == 1130.0
    assert (control.list_workers() or {})["w"].until == 1130.0
    with control.transaction():
        renewing = threading.Thread(target=control.renew, args=(claimed[0], None, 30.0))
        renewing.start()
        wait_until(lambda: count_waiting(control) == 1)
        now[0] += 100
    renewing.join()
    assert getattr(control.find_job(claimed[0].id), "lease_until") == 1230.0  # noqa: B009


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_workers_of_one_machine_are_counted_on_its_own_clock(tmp_path: Path, skew: float) -> None:
    """The clock was set between the starts of the processes. The mutant that compares the clocks they started with refuses
    every ask while a worker runs, or takes asks for an hour after it has ended."""
    path = str(tmp_path / "control.sqlite")
    with open_control(path) as worker, open_control(path, clock=lambda: time.time() + skew) as web:
        worker.save_slots("w", 2, 30.0)
        assert web.count_slots() == 2
        assert web.list_workers() == worker.list_workers() != {}
        worker.save_slots("w", 2, -SILENT_SECONDS)
        assert (web.list_workers(), web.count_slots()) == ({}, 0)


def test_workers_of_another_machine_or_an_earlier_start_are_counted_on_the_wall_clock(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(queue, "find_boot", lambda: "another start")
        elsewhere.setattr(queue, "read_uptime", lambda: 1e12)
        control.save_slots("w", 2, 30.0)
    assert control.count_slots() == 2
    monkeypatch.setattr(control, "_clock", lambda: time.time() + 30.0 + SILENT_SECONDS)
    assert control.count_slots() == 0


def test_a_worker_that_was_heard_a_moment_ago_counts_unless_another_runs_or_it_stopped(control: Control) -> None:
    """It is late, or was killed and starts again; it takes what is queued. One that was stopped is gone at once."""
    control.save_slots("late", 2, -SILENT_SECONDS / 2)
    assert (control.list_workers(), control.count_slots()) == ({}, 2)
    control.save_slots("other", 3, 30.0)
    assert control.count_slots() == 3
    control.save_slots("other", 0, 0.0)
    assert control.count_slots() == 2
    control.save_slots("late", 0, 0.0)
    assert control.count_slots() == 0


def test_a_gate_that_cannot_be_made_stops_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "control.sqlite"
    (tmp_path / "control.sqlite-gate").mkdir()
    with open_control(str(path)) as control:
        control.save_slots("w", 2, 30.0)
        assert control.count_slots() == 2


def test_a_process_that_is_stopped_at_the_gate_delays_others_until_their_deadline_alone(tmp_path: Path) -> None:
    database = tmp_path / "control.sqlite"
    database.touch()
    holds = (
        "import sys, time\nfrom discreet.serve.control.writers import Gate\n"
        "with Gate(sys.argv[1]).hold(time.monotonic()):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", holds, str(database)], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            gate, start = Gate(str(database)), time.monotonic()
            with gate.hold(start + 0.2):
                assert time.monotonic() - start >= 0.2
        finally:
            other.kill()
    with gate.hold(time.monotonic() + 60):
        pass
