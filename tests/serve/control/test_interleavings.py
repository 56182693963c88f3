"""Property: whatever analysts, stewards and workers do at once, in threads and processes, some of which are killed,
no ask has two ends, no job is done twice, and every state follows from the one before it."""

import time
from collections import Counter
from multiprocessing import get_context

import pytest

from discreet.serve.control.model import TRANSITIONS, AskState, JobState
from discreet.serve.control.store import open_control
from tests.serve.control.interleavings import read_log, run_actors, run_actors_in_process, watch_rows

JOB_TRANSITIONS = {
    ("queued", "leased"),
    ("leased", "queued"),
    ("leased", "done"),
    ("leased", "failed"),
    ("queued", "done"),  # its ask had ended when it was claimed
}


def check_log(location: str, ended: list[str]) -> None:
    """Check what the triggers saw."""
    log = read_log(location)
    assert len(log) > 50, "too little happened"
    states: dict[str, str] = {}
    for what, subject, before, after in log:
        if what == "job":
            assert (before, after) in JOB_TRANSITIONS
        else:
            assert AskState(after) in TRANSITIONS[AskState(before)]
        assert states.setdefault(subject, before) == before, "a state was not followed from where it was"
        states[subject] = after
    finals = Counter(subject for what, subject, _, after in log if what == "ask" and AskState(after).is_final)
    ends = Counter(subject for what, subject, _, after in log if what == "job" and after in ("done", "failed"))
    assert set(finals.values()) <= {1}
    assert set(ends.values()) <= {1}
    assert set(Counter(ended).values()) <= {1}, "two workers were told that they ended one job"
    assert set(ended) <= set(ends)


def drain(location: str) -> None:
    """Be the last worker: every ask that is on its way ends, whoever died with its job."""
    with open_control(location) as control:
        later = time.time() + 60
        while (job := control.claim("last", later, 60)) is not None:
            assert control.finish(job, to=AskState.ANSWERED, answer={"by": "last"})
        left = control.count_states()
        assert left.get(AskState.WAITING, 0) == left.get(AskState.RUNNING, 0) == 0
        assert set(control.count_jobs()) <= {JobState.DONE, JobState.FAILED}
        control.trail.check()
        for ask in control.list_asks(state=AskState.APPROVAL, limit=200).items:
            request = control.find_request(ask.id)
            assert request is not None
            assert request.state.value in ("open", "returned")


@pytest.mark.parametrize("seed", [1, 2])
def test_threads(sql_location: str, seed: int) -> None:
    open_control(sql_location).close()
    watch_rows(sql_location)
    ended = run_actors(sql_location, seed, actors=6, steps=60)
    drain(sql_location)
    check_log(sql_location, ended)


def run_processes(location: str, seeds: range, steps: int, kill: bool) -> None:
    open_control(location).close()
    watch_rows(location)
    context = get_context("spawn")
    results = context.SimpleQueue()
    processes = [context.Process(target=run_actors_in_process, args=(location, seed, 3, steps, results)) for seed in seeds]
    for process in processes:
        process.start()
    killed = context.Process(target=run_actors_in_process, args=(location, 99, 3, 100_000, context.SimpleQueue()))
    if kill:
        killed.start()
    ended = []
    for _ in processes:
        _, jobs, error = results.get()
        assert error is None
        ended += jobs
    if kill:
        killed.kill()
        killed.join()
    for process in processes:
        process.join()
    drain(location)
    check_log(location, ended)


def test_processes_one_of_which_is_killed(sql_location: str) -> None:
    run_processes(sql_location, range(1, 3), steps=60, kill=True)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_processes_many_times(sql_location: str, seed: int) -> None:
    run_processes(sql_location, range(seed * 4, seed * 4 + 4), steps=300, kill=True)
