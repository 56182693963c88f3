"""The queue: the oldest job first, leases that end, one running ask per person, waiting without polling."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from discreet.serve.classroom import enqueue_attack
from discreet.serve.control.errors import TooManyWaiting
from discreet.serve.control.model import AskState, Job, JobState
from discreet.serve.control.queue import job_topic
from discreet.serve.control.store import Control, open_control
from discreet.serve.control.waiting import Hub, Subscription, ask_topic, queue_topic
from tests.serve.control.conftest import NOON
from tests.serve.control.sample import make_ask
from tests.support.hand_clock import PATIENCE

CERTIFICATES = queue_topic("certificate")


def test_the_oldest_job_comes_first_and_is_leased_once(control: Control) -> None:
    jobs = [control.enqueue("certificate", f"ask {number}", {"n": number}) for number in range(3)]
    claimed = [control.claim("w", NOON) for _ in range(4)]
    assert [job and job.id for job in claimed] == [*(job.id for job in jobs), None]
    first = claimed[0]
    assert first is not None
    assert (first.worker, first.lease_until, first.attempts, first.payload) == ("w", NOON + 30, 1, {"n": 0})
    assert control.finish(first, {"done": 1})
    assert not control.finish(first, {"done": 2})
    assert not control.fail(first)
    assert not control.release(first)
    assert not control.renew(first, NOON)
    stored = control.find_job(first.id)
    assert stored is not None
    assert (stored.state, stored.result) == (JobState.DONE, {"done": 1})
    assert control.count_jobs() == {JobState.DONE: 1, JobState.LEASED: 2}


def test_kinds_can_be_chosen(control: Control) -> None:
    control.enqueue("publication", "p")
    control.add_ask(make_ask())
    assert control.claim("w", NOON, kinds=()) is None
    ask = control.claim("w", NOON, kinds=["ask", "open_account"])
    assert ask is not None
    assert ask.kind == "ask"
    assert control.claim("w", NOON, kinds=["ask"]) is None
    assert control.claim("w", NOON) is not None


def test_the_job_of_a_killed_worker_is_claimed_again_after_its_lease(control: Control) -> None:
    ask = control.add_ask(make_ask())
    lost = control.claim("killed", NOON, 30)
    assert lost is not None
    assert control.claim("other", NOON + 29.9) is None
    taken = control.claim("other", NOON + 30, 30)
    assert taken is not None
    assert (taken.id, taken.attempts, taken.worker) == (lost.id, 2, "other")
    for late in (control.finish(lost, to=AskState.FAILED), control.renew(lost), control.release(lost), control.fail(lost)):
        assert not late
    found = control.find_ask(ask.id)
    assert found is not None
    assert found.state is AskState.RUNNING
    assert control.finish(taken, to=AskState.ANSWERED, answer={"n": 1})
    found = control.find_ask(ask.id)
    assert found is not None
    assert (found.state, found.answer) == (AskState.ANSWERED, {"n": 1})


def test_a_worker_that_claims_its_own_job_again_loses_the_first_lease(control: Control) -> None:
    control.add_ask(make_ask())
    first, second = control.claim("w", NOON), control.claim("w", NOON + 31)
    assert first is not None
    assert second is not None
    assert not control.finish(first, to=AskState.ANSWERED)
    assert control.finish(second, to=AskState.ANSWERED)


def test_a_renewed_lease_holds(control: Control) -> None:
    control.add_ask(make_ask())
    job = control.claim("w", NOON, 30)
    assert job is not None
    assert control.renew(job, NOON + 20, 30)
    assert control.claim("other", NOON + 49) is None
    assert control.claim("other", NOON + 50) is not None


def test_a_lease_that_ended_and_was_not_taken_can_still_be_used(control: Control) -> None:
    control.add_ask(make_ask())
    job = control.claim("w", NOON, 30)
    assert job is not None
    assert control.finish(job, to=AskState.ANSWERED, answered_at=NOON + 40)


def test_a_released_job_keeps_its_place(control: Control) -> None:
    first = control.add_ask(make_ask("a"))
    control.add_ask(make_ask("b", person="bob"))
    job = control.claim("w", NOON)
    assert job is not None
    assert control.release(job)
    found = control.find_ask(first.id)
    assert found is not None
    assert found.state is AskState.WAITING
    again = control.claim("w", NOON)
    assert again is not None
    assert again.subject == first.id


def test_a_person_has_one_ask_running_and_others_do_not_wait_for_them(control: Control) -> None:
    asks = [control.add_ask(make_ask(f"{number}", person=person)) for number, person in enumerate(["ada"] * 3 + ["bob"])]
    first, second = control.claim("w", NOON), control.claim("w", NOON)
    assert first is not None
    assert second is not None
    assert [first.subject, second.subject] == [asks[0].id, asks[3].id]
    assert control.claim("w", NOON) is None
    more = control.claim("w", NOON, per_person=2)
    assert more is not None
    assert more.subject == asks[1].id
    assert control.claim("w", NOON, per_person=2) is None
    last = control.claim("w", NOON, per_person=None)
    assert last is not None
    assert last.subject == asks[2].id
    control.enqueue("certificate", "x", person="ada")
    assert control.claim("w", NOON) is not None  # the limit is about asks


def test_the_job_of_an_ask_that_has_ended_is_done(control: Control) -> None:
    ask = control.add_ask(make_ask())
    job = control.claim("w", NOON)
    assert job is not None
    control.change_state(ask.id, AskState.RUNNING, AskState.FAILED)
    assert control.claim("w", NOON + 60) is None
    assert control.count_jobs() == {JobState.DONE: 1}


def test_parallel_claims_lease_each_job_once_and_one_per_person(sql_location: str) -> None:
    people, each = 4, 6
    with open_control(sql_location) as control:
        for number in range(people * each):
            control.add_ask(make_ask(f"{number}", person=f"p{number % people}"))
        with ThreadPoolExecutor(8) as pool:
            for _ in range(each):
                claimed = [job for job in pool.map(lambda worker: control.claim(str(worker)), range(8)) if job]
                asks = [control.find_ask(job.subject) for job in claimed]
                assert sorted(ask.person for ask in asks if ask) == [f"p{number}" for number in range(people)]
                assert all(control.finish(job, to=AskState.ANSWERED) for job in claimed)
        assert control.count_jobs() == {JobState.DONE: people * each}


def test_parallel_claims_lease_a_job_of_nobody_once(sql_location: str) -> None:
    with open_control(sql_location) as control, ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            jobs = {control.enqueue("certificate", f"{number}").id for number in range(8)}
            together = threading.Barrier(8)

            def claim(worker: int, together: threading.Barrier = together) -> Job | None:
                together.wait()
                return control.claim(str(worker))

            claimed = [job for job in pool.map(claim, range(8)) if job]
            while (job := control.claim("last")) is not None:
                claimed.append(job)
            assert sorted(job.id for job in claimed) == sorted(jobs)
            assert all(control.finish(job) for job in claimed)


def test_a_worker_passes_over_a_job_that_another_is_claiming(database: str) -> None:
    with open_control(database) as control:
        first, second = (control.enqueue("certificate", name) for name in "ab")
        with psycopg.connect(database) as other:
            other.execute("SELECT 1 FROM control_jobs WHERE id = %s FOR UPDATE", (first.id,))
            claimed = control.claim("w")
            assert claimed is not None
            assert claimed.id == second.id


def test_withdrawing_does_not_wait_for_a_claim_that_waits_for_the_ask(database: str) -> None:
    with open_control(database) as control:
        ask = control.add_ask(make_ask())
        with psycopg.connect(database) as claiming:
            claiming.execute("SELECT 1 FROM control_jobs WHERE subject = %s FOR UPDATE", (ask.id,))
            control.withdraw_ask(ask.id)  # the mutant that waits for the lock gives up after 30 s, and fails
        assert control.claim("w") is None
        assert control.count_jobs() == {JobState.DONE: 1}


# Waiting


def test_a_waiter_in_the_process_wakes_at_once(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when it looks at the database the next time, which is in an hour here, nor at its end."""
    monkeypatch.setattr("discreet.serve.control.waiting.POLL_SECONDS", 3600.0)
    with control.subscribe(CERTIFICATES) as waiting:
        while waiting.wait(0.1):
            pass
        for number in range(20):
            thread = threading.Thread(target=waiting.wait, args=(4 * PATIENCE,), daemon=True)
            thread.start()
            control.enqueue("certificate", f"{number}")
            thread.join(PATIENCE)
            assert not thread.is_alive()
            while waiting.wait(0.0):
                pass


def test_one_queue_does_not_wake_those_who_wait_at_the_other(control: Control) -> None:
    control.enqueue("certificate", "first")  # the connection that listens is at work
    with control.subscribe(queue_topic("ask")) as asks, control.subscribe(CERTIFICATES) as others:
        for waiting in (asks, others):
            while waiting.wait(0.3):
                pass
        control.enqueue("certificate", "second")
        assert others.wait(PATIENCE)
        if control.location.startswith("postgresql"):  # where commits of other processes are looked for, any may wake it
            assert not asks.wait(0.2)
        control.add_ask(make_ask())
        assert asks.wait(PATIENCE)


def test_a_change_before_the_wait_is_not_missed(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.serve.control.waiting.POLL_SECONDS", 3600.0)
    with control.subscribe(CERTIFICATES) as waiting:
        while waiting.wait(0.1):
            pass
        control.enqueue("certificate", "x")
        assert waiting.wait(PATIENCE)


def test_another_connection_is_heard(sql_location: str) -> None:
    with open_control(sql_location) as control, open_control(sql_location) as other:
        ask = control.add_ask(make_ask())
        with control.subscribe(ask_topic(ask.id)) as waiting:
            while waiting.wait(0.3):
                pass
            other.withdraw_ask(ask.id)
            assert waiting.wait(PATIENCE)


def test_two_who_wait_for_one_topic_both_wake(control: Control) -> None:
    with control.subscribe(CERTIFICATES) as one, control.subscribe(CERTIFICATES) as other:
        for waiting in (one, other):
            while waiting.wait(0.1):
                pass
        job = control.enqueue("certificate", "x")
        assert one.wait(PATIENCE)
        assert other.wait(PATIENCE)
    claimed = control.claim("w")
    assert claimed is not None
    with control.subscribe(job_topic(job.id)) as ended:
        control.finish(claimed)
        assert ended.wait(PATIENCE)


def test_topics_that_nobody_waits_for_are_forgotten() -> None:
    hub = Hub()
    one, other = Subscription(hub, "ask:1"), Subscription(hub, "ask:1")
    one.close()
    one.close()
    hub.notify("ask:1")
    assert other.wait(0)
    other.close()
    assert not hub._topics
    assert not hub._waiters


def test_who_waits_for_anything_learns_what_changed() -> None:
    hub = Hub()
    waiting = Subscription(hub, None)
    hub.notify("ask:1", "jobs")
    assert waiting.wait(0)
    assert waiting.take_changed() == {"ask:1", "jobs"}
    assert waiting.take_changed() == set()
    found = Subscription(hub, None, look=lambda: True)
    assert found.wait(0)
    assert found.take_changed() == {None}  # another process committed, and did not say what
    waiting.close()
    found.close()
    assert not hub.collected


def test_other_topics_of_the_process_are_no_reason_to_look_at_the_database() -> None:
    hub, looks, ended = Hub(), list[float](), threading.Event()

    def notify() -> None:
        while not ended.wait(0.001):
            hub.notify("another")

    def look() -> bool:
        looks.append(time.monotonic())
        return False

    with Subscription(hub, CERTIFICATES, look) as waiting:
        thread = threading.Thread(target=notify)
        thread.start()
        while len(looks) < 4:
            assert not waiting.wait(0.12)
        ended.set()
        thread.join()
    assert all(after - before >= 0.04 for before, after in itertools.pairwise(looks))


def test_reads_in_one_block_see_one_moment(control: Control) -> None:
    with control.reading():
        assert control.find_ask_by_key("ada", "k1") is None
        added = control.add_ask(make_ask(key="k1"))  # a transaction of its own
        assert control.find_ask_by_key("ada", "k1") is None
        with control.reading():
            assert control.find_ask(added.id) is None
    assert control.find_ask_by_key("ada", "k1") == added


def test_nothing_is_heard_where_nothing_happens(control: Control) -> None:
    with control.subscribe(ask_topic("x")) as waiting:
        while waiting.wait(0.1):
            pass
        began = time.monotonic()
        assert not waiting.wait(0.2)
        assert time.monotonic() - began >= 0.19
        waiting.notify()
        assert waiting.wait(0)


def test_a_commit_of_this_process_wakes_those_of_its_topics_alone(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant that looks at the database whenever it wakes has every idle slot claim at every commit."""
    with control.subscribe(ask_topic("x")) as waiting:
        monkeypatch.setattr("discreet.serve.control.waiting.POLL_SECONDS", 60.0)
        while waiting.wait(0.1):
            pass
        control.enqueue("certificate", "x")
        assert not waiting.wait(0.01)
        monkeypatch.setattr(waiting, "_next_look", 0.0)
        if not control.location.startswith("postgresql"):
            assert waiting.wait(PATIENCE)  # another process may have committed too


def test_a_person_has_few_jobs_of_a_kind_in_the_queue(control: Control) -> None:
    for i in range(2):
        control.enqueue("lab_attack", f"a{i}", person="ada", limit=2)
    with pytest.raises(TooManyWaiting, match="2 jobs of this kind"):
        control.enqueue("lab_attack", "a2", person="ada", limit=2)
    control.enqueue("lab_attack", "b", person="bob", limit=2)
    control.enqueue("certificate", "c", person="ada", limit=2)
    job = control.claim("w", NOON, kinds=["lab_attack"])
    assert job is not None
    with pytest.raises(TooManyWaiting):  # one that runs counts
        control.enqueue("lab_attack", "a2", person="ada", limit=2)
    control.finish(job)
    control.enqueue("lab_attack", "a2", person="ada", limit=2)


def test_an_attack_of_the_lab_counts_once_however_often_it_is_wanted(control: Control) -> None:
    for seed in ("1", "2", "1"):
        enqueue_attack(control, "differencing", {"seed": seed}, "ada")
    with pytest.raises(TooManyWaiting):
        enqueue_attack(control, "differencing", {"seed": "3"}, "ada")


def test_asks_without_a_class_are_claimed_apart(control: Control) -> None:
    said = """ '"unscheduled":true' """  # a query that quotes the mark is no other kind
    timed = control.add_ask(make_ask("timed", class_seconds=1.0, query=said))
    untimed = control.add_ask(make_ask("untimed", class_seconds=None, query=said))
    other = control.enqueue("certificate", timed.id)
    claimed = [control.claim("w", NOON, per_person=None, scheduled=False) for _ in range(2)]
    assert [job and job.subject for job in claimed] == [untimed.id, None]
    claimed = [control.claim("w", NOON, per_person=None, scheduled=True) for _ in range(3)]
    assert [job and job.subject for job in claimed] == [timed.id, other.subject, None]
