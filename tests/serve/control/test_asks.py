"""Asks: keys, states, what counts as spent, pages."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec
import pytest

from discreet.errors import BadParameter, ServiceUnavailable
from discreet.serve.control.errors import DayLimitReached, KeyTaken, StateChanged, TooManyWaiting
from discreet.serve.control.model import TRANSITIONS, Ask, AskState, JobState, RequestState
from discreet.serve.control.store import Control, open_control
from tests.serve.control.conftest import NOON, Clock
from tests.serve.control.sample import make_ask, make_request

ROUTES: dict[AskState, list[AskState]] = {
    AskState.APPROVAL: [],
    AskState.WAITING: [AskState.WAITING],
    AskState.RUNNING: [AskState.WAITING, AskState.RUNNING],
    AskState.ANSWERED: [AskState.WAITING, AskState.RUNNING, AskState.ANSWERED],
    AskState.FAILED: [AskState.WAITING, AskState.RUNNING, AskState.FAILED],
    AskState.REFUSED: [AskState.WAITING, AskState.REFUSED],
    AskState.DECLINED: [AskState.DECLINED],
    AskState.WITHDRAWN: [AskState.WITHDRAWN],
}


def put_in_state(control: Control, state: AskState, key: str = "k", **fields: Any) -> Ask:
    """Add an ask and lead it to a state."""
    ask = control.add_ask(make_ask(key, state=AskState.APPROVAL, **fields))
    for following in ROUTES[state]:
        ask = control.change_state(ask.id, ask.state, following)
    return ask


def test_the_same_key_and_measurement_is_the_same_ask(control: Control) -> None:
    first = control.add_ask(make_ask())
    assert control.add_ask(make_ask()) == first
    with pytest.raises(KeyTaken, match="'monday'"):
        control.add_ask(make_ask(measurement="other"))
    with pytest.raises(KeyTaken):
        control.add_ask(make_ask(table="other"))
    other = control.add_ask(make_ask(person="bob"))  # keys are each person's own
    assert control.find_ask_by_key("ada", "monday") == control.find_ask(first.id) == first
    assert control.find_ask_by_key("bob", "monday") == other
    assert len(control.list_jobs()) == 2
    for key in ("", "x" * 201, "a\0b", "\ud800"):
        with pytest.raises(BadParameter):
            control.add_ask(make_ask(key))
    assert control.find_ask("\0") is None


def test_states_change_by_the_table_alone(control: Control) -> None:
    for state, to in product(AskState, AskState):
        ask = put_in_state(control, state, f"{state} {to}")
        if to in TRANSITIONS[state]:
            assert control.change_state(ask.id, state, to).state is to
        else:
            with pytest.raises(StateChanged):
                control.change_state(ask.id, state, to)
            assert control.find_ask(ask.id) == ask
        for wrong in set(AskState) - {state, to}:
            with pytest.raises(StateChanged):
                control.change_state(ask.id, wrong, AskState.WAITING)


def test_only_what_changes_on_the_way_can_be_set(control: Control) -> None:
    ask = control.add_ask(make_ask())
    for field in ("person", "measurement", "epsilon", "state", "id", "query", "account"):
        with pytest.raises(TypeError):
            control.change_state(ask.id, AskState.WAITING, AskState.RUNNING, **{field: "x"})
    with pytest.raises(StateChanged):
        control.change_state("unknown", AskState.WAITING, AskState.RUNNING)
    with pytest.raises(StateChanged):
        control.add_ask(make_ask("new", state=AskState.RUNNING))


def test_an_answer_is_found_by_the_family_and_left_out_of_lists(control: Control) -> None:
    ask = put_in_state(control, AskState.RUNNING, measurement="m1")
    assert control.find_answered("employees", "m1") is None
    answered = control.change_state(ask.id, AskState.RUNNING, AskState.ANSWERED, answer={"n": 12}, answered_at=NOON)
    assert control.find_answered("employees", "m1") == control.find_ask(ask.id) == answered
    assert control.find_answered("patients", "m1") is control.find_answered("employees", "m2") is None
    assert control.list_asks().items == (msgspec.structs.replace(answered, answer=None),)
    assert control.list_asks(with_answers=True).items == (answered,)


def test_a_recorded_answer_is_repeated_in_its_family_alone(control: Control) -> None:
    repeat = make_ask("again", person="bob", measurement="m1", state=AskState.ANSWERED, answer={"n": 12})
    with pytest.raises(StateChanged):
        control.add_ask(repeat)
    ask = put_in_state(control, AskState.RUNNING, measurement="m1")
    control.change_state(ask.id, AskState.RUNNING, AskState.ANSWERED, answer={"n": 12})
    for wrong in ({"root": "patients"}, {"measurement": "m2"}, {"answer": None}):
        with pytest.raises(StateChanged):
            control.add_ask(msgspec.structs.replace(repeat, **wrong))
    assert control.add_ask(repeat) == control.find_ask(repeat.id) == repeat
    assert control.list_jobs(subject=repeat.id) == ()


def test_spent_today_counts_what_was_not_turned_away_since_midnight(control: Control, clock: Clock) -> None:
    for number, state in enumerate(AskState):
        put_in_state(control, state, f"{number}", epsilon=f"1/{3 ** (number + 1)}")
    turned_away = {AskState.APPROVAL, AskState.REFUSED, AskState.DECLINED, AskState.WITHDRAWN}
    counted = [Fraction(1, 3 ** (number + 1)) for number, state in enumerate(AskState) if state not in turned_away]
    midnight = NOON - 12 * 3600
    control.add_ask(make_ask("first", epsilon="1/7", accepted_at=midnight))
    control.add_ask(make_ask("yesterday", epsilon="1/11", accepted_at=midnight - 0.001))
    control.add_ask(make_ask("theirs", epsilon="1/13", person="bob"))
    control.add_ask(make_ask("elsewhere", epsilon="1/17", table="other"))
    assert control.spent_today("ada", "people") == sum(counted) + Fraction(1, 7)
    clock.now = midnight + 86400
    assert control.spent_today("ada", "people") == 0
    assert control.spent_today("ada", "people", midnight - 1) == sum(counted) + Fraction(1, 7) + Fraction(1, 11)


def test_the_day_limit_and_the_waiting_limit_are_exact(control: Control) -> None:
    for number in range(3):
        control.add_ask(make_ask(f"{number}"), epsilon_per_day="3/10", waiting_limit=3)
    with pytest.raises(TooManyWaiting):
        control.add_ask(make_ask("more"), epsilon_per_day="1", waiting_limit=3)
    with pytest.raises(DayLimitReached):
        control.add_ask(make_ask("more", epsilon="1/1000000000000"), epsilon_per_day="3/10")
    control.add_ask(make_ask("2"), epsilon_per_day="3/10", waiting_limit=3)  # a retry is no new ask
    control.add_ask(make_ask("more", state=AskState.APPROVAL), epsilon_per_day="3/10")
    control.add_ask(make_ask("theirs", person="bob"), epsilon_per_day="3/10", waiting_limit=1)
    with pytest.raises(TooManyWaiting):  # nobody floods the stewards either
        control.add_ask(make_ask("flood", state=AskState.APPROVAL), waiting_limit=1)
    control.add_ask(make_ask("second", state=AskState.APPROVAL), waiting_limit=2)
    assert control.count_waiting("ada") == 3
    assert control.count_waiting() == 4
    assert control.count_states() == {AskState.WAITING: 4, AskState.APPROVAL: 2}


def test_pages_go_through_a_list_once(control: Control) -> None:
    asks = [control.add_ask(make_ask(f"{number}", person="ada" if number % 3 else "bob")) for number in range(20)]
    wanted = [ask.id for ask in reversed(asks) if ask.person == "ada"]
    seen, cursor = [], None
    while True:
        page = control.list_asks(person="ada", cursor=cursor, limit=4)
        seen += [ask.id for ask in page.items]
        control.add_ask(make_ask(f"meanwhile {len(seen)}"))  # what is new does not move the pages
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == wanted
    assert len(control.list_asks(limit=0).items) == 1
    assert control.list_asks(state=AskState.RUNNING).items == ()
    for wrong in ("", "x", "bjE=x", "ü", "bi0x" * 20, "bm8"):
        with pytest.raises(BadParameter, match="cursor"):
            control.list_asks(cursor=wrong)


def test_withdrawing_takes_the_job_and_the_request_away(control: Control) -> None:
    waiting = control.add_ask(make_ask("a"))
    control.withdraw_ask(waiting.id, by="ada")
    assert control.list_jobs() == ()
    assert control.claim("w") is None
    approval = make_ask("b", state=AskState.APPROVAL)
    control.add_ask(approval, make_request(approval))
    control.withdraw_ask(approval.id, by="ada")
    request = control.find_request(approval.id)
    assert request is not None
    assert request.state is RequestState.WITHDRAWN
    with pytest.raises(StateChanged):
        control.approve_request(approval.id, approval.measurement, "steward")
    running = control.add_ask(make_ask("c"))
    assert control.claim("w") is not None
    for ask in (running.id, waiting.id, "unknown"):
        with pytest.raises(StateChanged):
            control.withdraw_ask(ask)


def test_a_late_answer_gets_a_later_moment(control: Control) -> None:
    ask = control.add_ask(make_ask(release_at=NOON + 1, class_seconds=1.0))
    with pytest.raises(StateChanged):
        control.set_release(ask.id, NOON + 10, 10.0)
    control.claim("w")
    changed = control.set_release(ask.id, NOON + 10, 10.0, overruns=1)
    assert control.find_ask(ask.id) == changed
    assert (changed.release_at, changed.class_seconds, changed.overruns) == (NOON + 10, 10.0, 1)


def test_an_approval_queues_the_ask_for_its_measurement_alone(control: Control) -> None:
    ask = make_ask(state=AskState.APPROVAL)
    control.add_ask(ask, make_request(ask))
    assert control.claim("w") is None
    with pytest.raises(StateChanged, match="another measurement"):
        control.approve_request(ask.id, "widened", "steward")
    control.comment_request(ask.id, "steward", "why?", state=RequestState.RETURNED)
    control.comment_request(ask.id, "ada", "for the report", state=RequestState.OPEN)
    with pytest.raises(StateChanged):
        control.comment_request(ask.id, "ada", "I approve it", state=RequestState.APPROVED)
    approved = control.approve_request(ask.id, ask.measurement, "steward", comment="fine", release_at=NOON + 9)
    assert (approved.state, approved.decided_by) == (RequestState.APPROVED, "steward")
    assert [comment.text for comment in approved.comments] == ["why?", "for the report", "fine"]
    assert control.list_requests(state=RequestState.OPEN).items == ()
    job = control.claim("w")
    assert job is not None
    assert job.subject == ask.id
    found = control.find_ask(ask.id)
    assert found is not None
    assert (found.state, found.release_at) == (AskState.RUNNING, NOON + 9)
    with pytest.raises(StateChanged):
        control.decline_request(ask.id, "other")
    assert [line.action for line in control.trail.list(actor="steward").items] == ["request approved", "request returned"]


def test_a_declined_ask_ends(control: Control) -> None:
    ask = make_ask(state=AskState.APPROVAL)
    control.add_ask(ask, make_request(ask))
    control.decline_request(ask.id, "steward", comment="no")
    found = control.find_ask(ask.id)
    assert found is not None
    assert (found.state, found.reason) == (AskState.DECLINED, "no")
    assert control.count_jobs() == {}
    assert JobState.QUEUED not in control.count_jobs()


def test_the_queue_is_checked_in_the_transaction_that_adds_an_ask(sql_location: str) -> None:
    """Two web processes, and a queue with room for one ask. The mutant that checks before the transaction takes both."""
    began = threading.Barrier(2)

    def add(number: int) -> bool:
        with open_control(sql_location, create=False) as control:

            def check() -> None:
                if control.list_unfinished():
                    raise ServiceUnavailable("full", "try again")
                time.sleep(0.1)

            began.wait(10)
            try:
                ask = make_ask(str(number), person=f"person{number}", class_seconds=1.0)
                control.add_ask(ask, check_queue=check)
            except ServiceUnavailable:
                return False
            return True

    with open_control(sql_location) as control, ThreadPoolExecutor(2) as webs:
        assert sorted(webs.map(add, range(2))) == [False, True]
        assert len(control.list_unfinished()) == 1
        assert len(control.list_jobs()) == 1
