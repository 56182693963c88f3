"""A proxy, or a web process that was taken over, changes what a client receives: the certificate shows it."""

import copy
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from discreet.errors import BadParameter, ServiceChanged
from discreet.ledger.entries import to_canonical_json
from discreet.ledger.keys import load_key
from discreet.remote.client import RemoteSession, open_remote
from discreet.serve.web.app import create_app
from tests.support.remote_service import ADDRESS, SETTINGS, InProcess
from tests.support.served_tables import Service, configure, start_service, write_table

QUERY = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
Change = Callable[[dict[str, Any]], None]


class Tampering(httpx.BaseTransport):
    """Passes requests on, and changes the JSON of some responses."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner, self.changes = inner, dict[str, Change]()  # by how an address ends
        self.sent = dict[str, Any]()  # changes of an ask

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """As httpx calls it."""
        if self.sent and request.url.path.endswith("/asks"):
            body = json.dumps(json.loads(request.read()) | self.sent).encode()
            headers = {name: each for name, each in request.headers.items() if name != "content-length"}
            request = httpx.Request(request.method, request.url, headers=headers, content=body)
        response = self.inner.handle_request(request)
        change = next((each for end, each in self.changes.items() if request.url.path.endswith(end)), None)
        if change is None or response.status_code != 200:
            return response
        shown = json.loads(response.read())
        change(shown)
        return httpx.Response(200, json=shown)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "config"))
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=()), "ada") as running:
        yield running


@pytest.fixture
def proxy(service: Service) -> Iterator[Tampering]:
    inside = InProcess(create_app(service.control, SETTINGS))
    yield Tampering(inside)
    inside.close()


@pytest.fixture
def people(service: Service, proxy: Tampering) -> RemoteSession:
    _, token = service.control.add_token("ada", "test")
    return open_remote(f"{ADDRESS}/people", token, httpx.Client(transport=proxy))


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        f"{QUERY} ORDER BY n DESC LIMIT 1",
        "SELECT COUNT(*) AS n, AVG(pay) AS mean FROM people",
        f"{QUERY} HAVING n > 1",
        "SELECT MEDIAN(pay) AS middle, COUNT(DISTINCT id) AS people FROM people",
    ],
)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_what_is_not_changed_is_certified(people: RemoteSession, query: str, simultaneous: bool) -> None:
    answer = people.ask(query, epsilon=0.2, simultaneous=simultaneous)
    assert people.certificate(answer)["public_key"] == people.identity.public_key
    assert people.certificate(people.ask(query, epsilon=0.2, simultaneous=simultaneous)) is not None, "one that is recorded"


def set_in(*path: Any) -> Change:
    """Return a change that adds 1 to a number somewhere in an ask."""

    def change(shown: dict[str, Any]) -> None:
        place: Any = shown["answer"]
        for each in path[:-1]:
            place = place[each]
        place[path[-1]] += 1

    return change


def drop_row(shown: dict[str, Any]) -> None:
    del shown["answer"]["record"]["rows"][0]


def swap_keys(shown: dict[str, Any]) -> None:
    first, second = shown["answer"]["record"]["rows"]
    first[0], second[0] = second[0], first[0]


def rename(shown: dict[str, Any]) -> None:
    shown["answer"]["reference"]["measurement"]["policy"] = "0" * 64


def narrow(**changed: Any) -> Change:
    """Return a change that narrows all intervals, and says that they are of another kind."""

    def change(shown: dict[str, Any]) -> None:
        record = shown["answer"]["record"]
        record.update(changed)
        for _, cells in record["rows"]:
            for cell in cells:
                cell[1], cell[2] = cell[0] - 1, cell[0] + 1

    return change


def flag(shown: dict[str, Any]) -> None:
    for _, cells in shown["answer"]["record"]["rows"]:
        for cell in cells:
            cell[3] = not cell[3]


CHANGES: dict[str, Change] = {
    "narrow intervals": narrow(),
    "another confidence": narrow(confidence=0.950001),
    "simultaneous": narrow(simultaneous=True),
    "reliable": flag,
    "value": set_in("record", "rows", 0, 1, 0, 0),
    "lower end": set_in("record", "rows", 0, 1, 0, 1),
    "dropped row": drop_row,
    "swapped keys": swap_keys,
    "measurement": rename,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_answer_is_noticed(people: RemoteSession, proxy: Tampering, change: str) -> None:
    """The mutant returns the certificate, which is valid, and the analyst keeps numbers that nobody signed."""
    proxy.changes["/asks"] = CHANGES[change]
    answer = people.ask(QUERY, epsilon=0.2)
    with pytest.raises(ServiceChanged, match="not of the answer that it sent"):
        people.certificate(answer)


@pytest.mark.parametrize("changed", [{"epsilon": "0.4"}, {"epsilon": "0.2001"}, {"confidence": 0.8}])
def test_a_changed_request_is_noticed(people: RemoteSession, proxy: Tampering, changed: dict[str, Any]) -> None:
    """The mutant compares the certificate with the answer alone, and the analyst pays twice what was asked. One that
    compares the certified ε of the query, which is below the one that is asked for, lets a little more pass."""
    proxy.sent = changed
    answer = people.ask(QUERY, epsilon=0.2)
    proxy.sent = {}
    with pytest.raises(ServiceChanged, match="ε than was asked for" if "epsilon" in changed else "another kind"):
        people.certificate(answer)


@pytest.mark.parametrize("target", [{"error": 40}, {"epsilon": 0.2}])
def test_a_cost_that_is_shown_too_low_is_noticed(people: RemoteSession, proxy: Tampering, target: dict[str, Any]) -> None:
    """The mutant compares no cost where an error was stated: the analyst pays twice what the answer says."""

    def halve(shown: dict[str, Any]) -> None:
        cost = shown["answer"]["cost"]
        cost["amount"] = str(Fraction(cost["amount"]) / 2)

    answer = people.ask(QUERY, **target)
    assert people.certificate(answer) is not None
    proxy.changes["/asks"] = halve
    answer = people.ask(QUERY.replace("GROUP", "WHERE pay > 90 GROUP"), **target)
    with pytest.raises(ServiceChanged, match="it costs more than the answer says"):
        people.certificate(answer)


def test_the_answer_of_another_query_is_noticed(people: RemoteSession, proxy: Tampering) -> None:
    other: dict[str, Any] = {}
    proxy.changes["/asks"] = lambda shown: other.update(copy.deepcopy(shown))
    people.ask(QUERY, epsilon=0.2)
    proxy.changes["/asks"] = lambda shown: shown.update(other)
    answer = people.ask("SELECT dept, COUNT(*) AS n FROM people WHERE pay > 90 GROUP BY dept", epsilon=0.2)
    with pytest.raises(ServiceChanged, match="another query than was asked"):
        people.certificate(answer)


def test_a_certificate_that_another_key_signed_is_noticed(people: RemoteSession, proxy: Tampering, tmp_path: Path) -> None:
    key = load_key(tmp_path / "own.key")

    def sign_again(shown: dict[str, Any]) -> None:
        unsigned = {name: each for name, each in shown.items() if name != "signature"} | {"public_key": key.public}
        shown.update(unsigned | {"signature": key.sign(to_canonical_json(unsigned))})

    answer = people.ask(QUERY, epsilon=0.2)
    proxy.changes["/certificate"] = sign_again
    with pytest.raises(ServiceChanged, match="signed with"):
        people.certificate(answer)
    proxy.changes["/certificate"] = lambda shown: shown["release"]["rows"].pop()
    with pytest.raises(ServiceChanged, match="signature"):
        people.certificate(answer)
    proxy.changes["/certificate"] = lambda shown: shown.pop("entry")
    with pytest.raises(ServiceChanged, match="no certificate"):
        people.certificate(answer)
    with pytest.raises(BadParameter, match="answer"):
        people.certificate(object())  # type: ignore[arg-type]
