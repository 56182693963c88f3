"""What stewards see of the service: workers and their disks, answers after their moment, how to back up, fixed rules."""

from collections.abc import Iterator

import pytest

from discreet.serve.control.model import Rules
from tests.serve.web.test_templates import PAGES_OPEN, sign_in
from tests.support.web_service import QUERY, Service, open_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_service(tmp_path_factory.mktemp("state"), PAGES_OPEN) as opened:
        yield opened


def test_stewards_see_workers_disks_overruns_and_how_to_back_up(service: Service) -> None:
    sam = sign_in(service, "sam")
    before = sam.get("/state").text
    assert "unknown" in before
    assert "discreet ledger head" in before
    service.control.save_slots("here:7", 2, 1e12, 12_345_678_901)
    service.control.save_slots("there:8", 3, 1e12, 999_999_999)
    service.control.save_slots("gone:9", 3, 0.0, 5)
    for table in ("people", "people", "visits"):
        service.control.count_overrun(table)
    assert {name: each.times for name, each in service.control.list_overruns().items()} == {"people": 2, "visits": 1}
    shown = sam.get("/state").text
    workers = shown[shown.index('id="workers"') : shown.index('id="overruns"')]
    assert workers.count("<li>") == 2
    assert "jobs at once: 2; 12.3 GB free</li>" in workers
    assert "jobs at once: 3; 0.999 GB free, <span" in workers
    overruns = shown[shown.index('id="overruns"') : shown.index('id="paused"')]
    assert overruns.index("people") < overruns.index(": 2, the last") < overruns.index("visits") < overruns.index(": 1, the")
    assert sign_in(service, "ada").get("/state").status_code == 403


def test_a_worker_of_an_earlier_version_says_nothing_of_its_disk(service: Service) -> None:
    service.control.set_setting("slots", '{"old:1": [2, 1e12]}')
    assert service.control.count_slots() == 2
    assert "jobs at once: 2</li>" in sign_in(service, "sam").get("/state").text


def test_the_page_of_fixed_rules_says_where_they_are_changed_and_has_no_form(service: Service) -> None:
    sam, note = sign_in(service, "sam"), "These rules are stated in serve.toml."
    service.register()
    free = sam.get("/t/people/rules").text
    assert note not in free
    assert 'name="epsilon_per_ask"' in free
    service.register(has_fixed_rules=True)
    fixed = sam.get("/t/people/rules").text
    assert note in fixed
    assert 'name="epsilon_per_ask"' not in fixed
    service.register()


def test_the_reason_for_approval_is_in_decimals(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/100", epsilon_per_day="1/30"))
    body = {"table": "people", "query": QUERY, "epsilon": 0.1}
    reason = service.client("ada").post("/api/v1/quotes", json=body).json()["needs_approval"]
    assert "the rules allow ε = 0.01 at once" in reason
    assert "the rules allow ε = 0.0333 in a day" in reason
    service.register()
