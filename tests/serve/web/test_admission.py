"""Admission: an ask whose moment the queue cannot make is refused before anything is charged or queued."""

import msgspec
import pytest

from discreet.serve.control.model import AskState, Grant, Publication, PublicationState, Role
from discreet.serve.control.queue import SILENT_SECONDS
from discreet.serve.schedule import measure_backlog
from tests.support.web_service import QUERY, Service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}


def fill(service: Service, count: int) -> list[int]:
    """Ask different things; return the statuses."""
    client = service.client("ada")
    return [client.post("/api/v1/asks", json=ASK | {"epsilon": f"0.1{i:02}"}).status_code for i in range(count)]


def test_an_ask_that_cannot_be_answered_in_time_is_refused_with_a_pause(service: Service) -> None:
    """The mutant without the check queues all of them, and the last ones miss their moments."""
    service.register(classes=(60.0,))
    service.control.save_slots("w", 1, 1e12)
    statuses = fill(service, 8)
    assert statuses[0] == 202
    assert 503 in statuses
    taken = statuses.count(202)
    assert statuses == [202] * taken + [503] * (8 - taken)
    refused = service.client("ada").post("/api/v1/asks", json=ASK | {"epsilon": 0.2})
    assert refused.status_code == 503
    problem = refused.json()
    assert (problem["error"], problem["status"]) == ("ServiceUnavailable", 503)
    assert "nothing was charged" in problem["detail"]
    pause = int(refused.headers["retry-after"])
    assert pause >= 1
    assert pause >= msgspec.convert(problem["fields"]["retry_after"], float, strict=False)
    assert service.control.count_states() == {AskState.WAITING: taken}


def test_more_slots_take_more_asks(service: Service) -> None:
    service.register(classes=(60.0,))
    service.control.save_slots("w", 1, 1e12)
    assert fill(service, 5).count(503) == 1
    service.control.save_slots("w", 4, 1e12)
    assert fill(service, 5) == [202] * 5


def test_recorded_answers_and_asks_without_a_class_are_always_taken(service: Service) -> None:
    service.ask()
    service.register(classes=(60.0,))
    service.control.save_slots("w", 1, 1e12)
    assert 503 in fill(service, 8)
    assert service.client("ada").post("/api/v1/asks", json=ASK).status_code == 200
    service.register(classes=())
    assert service.client("ada").post("/api/v1/asks", json=ASK | {"epsilon": 0.3}).status_code == 202


def test_without_a_worker_nothing_is_taken(service: Service) -> None:
    service.register(classes=(1.0,))
    service.control.save_slots("w", 2, -SILENT_SECONDS)  # it said so long ago
    refused = service.client("ada").post("/api/v1/asks", json=ASK)
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 1
    assert service.control.count_states() == {}


def test_workers_are_counted_together_until_they_are_silent(service: Service) -> None:
    control = service.control
    assert control.count_slots() is None
    control.save_slots("a", 2, 1e12)
    control.save_slots("b", 3, 1e12)
    assert control.count_slots() == 5
    control.save_slots("b", 0, 0.0)
    assert control.count_slots() == 2
    assert "slots" not in service.client().get("/api/v1").text


@pytest.mark.parametrize("state", [AskState.WAITING, AskState.RUNNING])
def test_what_is_ahead_does_not_depend_on_how_long_a_statement_runs(service: Service, state: AskState) -> None:
    """The mutant that counts waiting asks alone tells when a statement of another analyst ended."""
    service.register(classes=(60.0,))
    service.client("ada").post("/api/v1/asks", json=ASK)
    if state is AskState.RUNNING:
        assert service.control.claim("test", kinds=["ask"]) is not None
    [(accepted, seconds)] = service.control.list_unfinished()
    assert seconds == 60.0
    assert measure_backlog([(accepted, seconds)], 1, accepted) == 60.0


def test_long_asks_of_one_person_keep_nobody_from_asking_short_ones(service: Service) -> None:
    """The mutant admits all of Ada's, and Eve waits until they are worked off."""
    short = "SELECT COUNT(*) AS n FROM people"
    service.register(classes=(1.0, 30.0), seconds_per_pass=0.25)
    service.control.save_slots("w", 2, 1e12)
    service.add_person("eve", Role.ANALYST)
    service.control.add_grant(Grant(person="eve", table="people", account="employees/ada", created=0, by="sam"))
    ada, eve = service.client("ada"), service.client("eve")
    medians = ", ".join(f"MEDIAN(pay+{each}) AS m{each}" for each in range(4))
    taken = [
        ada.post("/api/v1/asks", json=ASK | {"query": f"SELECT {medians} FROM people", "epsilon": f"0.01{i}"})
        for i in range(10)
    ]
    assert [each.status_code for each in taken] == [202] + [503] * 9
    assert "your share" in taken[1].json()["detail"].lower()
    assert 1 <= int(taken[1].headers["retry-after"]) <= 8
    assert [seconds for _, seconds in service.control.list_unfinished()] == [30.0]
    refused = eve.post("/api/v1/asks", json=ASK | {"query": short})
    assert refused.status_code == 503, "one long query may be ahead"
    pause = float(refused.json()["fields"]["retry_after"])
    assert pause < 3.5, "and no more than that"
    offset = service.web.clock._offset
    service.web.clock._offset = offset + pause
    assert eve.post("/api/v1/asks", json=ASK | {"query": short}).status_code == 202
    again = ada.post("/api/v1/asks", json=ASK | {"query": f"SELECT {medians} FROM people", "epsilon": "0.02"})
    assert again.status_code == 503, "half of the time is for others"
    service.web.clock._offset = offset + 8.0
    again = ada.post("/api/v1/asks", json=ASK | {"query": f"SELECT {medians} FROM people", "epsilon": "0.02"})
    assert again.status_code == 202


def test_a_query_of_a_publication_is_ahead_of_every_ask_of_its_table(service: Service) -> None:
    """The mutant counts asks alone: one of a second waits for a query of a minute, and misses its moment."""
    service.register(classes=(1.0, 60.0), seconds_per_pass=0.0)
    service.control.save_slots("w", 2, 1e12)
    running = Publication(
        id="p" * 32, title="Heads", table="people", plan="", by="ada", state=PublicationState.RUNNING, created=0.0,
        quote={"slowest": 60.0},
    )  # fmt: skip
    service.control.add_publication(running)
    refused = service.client("ada").post("/api/v1/asks", json=ASK)
    assert refused.status_code == 503
    assert "nothing was charged" in refused.json()["detail"]
    service.control.change_publication(running.id, running.state, running.state, quote={"slowest": 1.0})
    assert service.client("ada").post("/api/v1/asks", json=ASK).status_code == 202, "it waits for one query, and not for all"
    service.control.change_publication(running.id, running.state, PublicationState.PUBLISHED, quote={"slowest": 60.0})
    assert service.client("ada").post("/api/v1/asks", json=ASK | {"epsilon": 0.2}).status_code == 202
