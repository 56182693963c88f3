"""The client against services that lose connections, are full, lie, redirect or were set back."""

import gzip
import json
import os
import stat
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

import discreet
from discreet.accounting.cost import Budget
from discreet.accounting.currencies import pure_filter
from discreet.errors import (
    AskPending,
    BadParameter,
    DiscreetError,
    EngineFailed,
    NotFound,
    NotSignedIn,
    QueryRefused,
    ServiceChanged,
    ServiceUnavailable,
)
from discreet.remote import trust
from discreet.remote.client import RemoteSession, open_remote
from discreet.remote.connection import TRIES, Address, Connection, parse_service
from discreet.remote.plain import MAX_BYTES
from discreet.remote.wire import answer_to_wire, budget_to_wire, quote_to_wire, remaining_to_wire, table_to_wire, to_problem
from discreet.serve.control.model import Rules
from discreet.serve.web.pages.outcomes import write_cell
from discreet.serve.web.signing_in import NOT_SIGNED_IN
from tests.support.people import BY_DEPARTMENT, session
from tests.support.remote_service import serve_session

TOKEN = "dsc_0123456789"


class Fake:
    """A service that answers as the test says."""

    def __init__(self) -> None:
        self.people = session()
        self.service: dict[str, Any] = {"public_key": "k1", "ledger": "l1", "head": {"number": 5, "hash": "aa5"}}
        self.heads = {(5, "aa5"): True}
        self.states_continuity = True  # whether answers say that the ledger continues the head that was sent
        self.requests: list[httpx.Request] = []
        self.script: list[Callable[[httpx.Request], httpx.Response]] = []
        self.asked: dict[str, Any] = {}
        self.pauses: list[float] = []
        self.everybody: Budget | None = None  # the budget of the root, if it is another

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.script and request.method == "POST":
            return self.script.pop(0)(request)
        return self.answer(request)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if path == "/asks":
            key = request.headers["Idempotency-Key"]
            body = json.loads(request.content)
            if key not in self.asked:
                self.asked[key] = answer_to_wire(self.people.ask(body["query"], epsilon=1, id=key))
            asked = list(self.asked).index(key)
            shown = {"id": f"f0{asked}", "state": "answered", "answer": self.asked[key], "head": self.service["head"]}
            number, _, hash = request.headers.get("Ledger-Head", "").partition(":")
            if hash and self.states_continuity:
                shown["continues"] = self.heads.get((int(number), hash), False)
            return httpx.Response(200, json=shown)
        if path == "/quotes":
            quote = self.people.quote(json.loads(request.content)["query"], epsilon=1)
            return httpx.Response(200, json={"quote": quote_to_wire(quote), "epsilon": "1"})
        if path == "/ledger/continues":
            known = (int(request.url.params["number"]), request.url.params["hash"])
            return httpx.Response(200, json={"continues": self.heads.get(known, False)})
        if path in ("/asks/f00/certificate", "/asks/f01/certificate"):
            return httpx.Response(200, json={"signed": path})
        if path.startswith("/accounts"):
            lineage = [{"budget": budget_to_wire(each)} for each in (self.people.budget, self.everybody) if each is not None]
            return httpx.Response(200, json={"lineage": lineage, "remaining": remaining_to_wire(self.people.remaining)})
        if path == "/tables/people":
            table = {"table": table_to_wire(self.people.table), "neighbours": "add-remove", "account": "hr/ada", "notes": []}
            return httpx.Response(200, json=table)
        if path == "":
            return httpx.Response(200, json=self.service)
        return httpx.Response(404, json={"title": "Not found", "status": 404, "detail": "There is nothing here."})

    def open(self, address: str = "https://data.example/people", token: str | None = TOKEN) -> RemoteSession:
        opened = open_remote(address, token, httpx.Client(transport=httpx.MockTransport(self)))
        object.__setattr__(opened.connection, "sleep", self.pauses.append)
        return opened


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("DISCREET_TOKEN", raising=False)
    return tmp_path / "config"


@pytest.fixture
def fake() -> Fake:
    return Fake()


def lose(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("the address and the token dsc_ may be in here", request=request)


def lose_after_the_debit(fake: Fake) -> Callable[[httpx.Request], httpx.Response]:
    def respond(request: httpx.Request) -> httpx.Response:
        fake.answer(request)
        return lose(request)

    return respond


def test_a_lost_connection_is_asked_again_with_the_same_id_and_charged_once(fake: Fake) -> None:
    """The mutant makes a new id for each try: the budget is then charged three times."""
    people = fake.open()
    fake.script = [lose, lose_after_the_debit(fake), lose_after_the_debit(fake)]
    answer = people.ask(BY_DEPARTMENT, epsilon=1)
    assert answer.charged
    keys = {each.headers["Idempotency-Key"] for each in fake.requests if each.url.path.endswith("/asks")}
    assert len(keys) == 1
    assert fake.people.budget.amount == 1
    assert len(fake.pauses) == 3


def test_a_service_that_stays_away_is_given_up(fake: Fake) -> None:
    people = fake.open()
    fake.script = [lose] * 20
    with pytest.raises(ServiceUnavailable, match=r"data\.example: the connection was lost \(ReadError\)") as lost:
        people.quote(BY_DEPARTMENT, epsilon=1)
    assert "dsc_" not in str(lost.value)
    assert len(fake.pauses) == TRIES - 1
    assert fake.pauses == sorted(fake.pauses)


def test_a_full_service_is_asked_again_when_it_says(fake: Fake) -> None:
    people = fake.open()
    full = to_problem(ServiceUnavailable("too many asks are waiting", "try again later"))
    fake.script = [lambda _: httpx.Response(503, json=full, headers={"Retry-After": "3"})]
    people.ask(BY_DEPARTMENT, epsilon=1)
    assert 3 <= fake.pauses[0] <= 4.5


def test_states_of_an_ask(fake: Fake) -> None:
    people = fake.open()
    for state in ("waiting", "running"):
        fake.script = [lambda _, s=state: httpx.Response(202, json={"id": "f", "state": s, "retry_after": 0.1})]  # type: ignore[misc]
        people.ask(BY_DEPARTMENT, epsilon=1, fresh=True)
    approval = {"id": "f", "state": "for approval", "reason": "more than ε = 0.5"}
    fake.script = [lambda _: httpx.Response(202, json=approval)]
    with pytest.raises(AskPending, match=r"for approval\. A steward must approve it \(more than ε = 0\.5\)") as pending:
        people.ask(BY_DEPARTMENT, epsilon=1, id="mine")
    assert pending.value.id == "mine"
    fake.script = [lambda _: httpx.Response(200, json={"state": "failed", "problem": to_problem(EngineFailed())})]
    with pytest.raises(EngineFailed):
        people.ask(BY_DEPARTMENT, epsilon=1)
    fake.script = [lambda _: httpx.Response(200, json={"state": "declined", "reason": "not now"})]
    with pytest.raises(QueryRefused, match="declined: not now"):
        people.ask(BY_DEPARTMENT, epsilon=1)


def test_progress_is_of_the_clock_alone(fake: Fake) -> None:
    people, heard = fake.open(), list[float]()
    fake.script = [lambda _: httpx.Response(202, json={"id": "f", "state": "waiting", "retry_after": 1e6})]
    people.ask(BY_DEPARTMENT, epsilon=1, progress=heard.append)
    assert heard[0] < 0.01
    assert heard[-1] == 1


def test_patience_ends(fake: Fake) -> None:
    people = fake.open()
    object.__setattr__(people, "patience", 0.0)
    fake.script = [lambda _: httpx.Response(202, json={"id": "f", "state": "waiting", "retry_after": 60})]
    with pytest.raises(AskPending, match="it is waiting"):
        people.ask(BY_DEPARTMENT, epsilon=1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(fake: Fake, status: int) -> None:
    people = fake.open()
    fake.script = [lambda _: httpx.Response(status, headers={"Location": "https://evil.example/api/v1/quotes"})]
    with pytest.raises(ServiceUnavailable, match="redirects"):
        people.quote(BY_DEPARTMENT, epsilon=1)
    assert {each.url.host for each in fake.requests} == {"data.example"}


def test_what_is_too_long_or_no_answer_is_refused(fake: Fake) -> None:
    people = fake.open()
    bodies: list[Any] = [b"<html>", b"[]", b"{}", b'{"quote": {}}', b" " * (MAX_BYTES + 1)]
    for body in bodies:
        fake.script = [lambda _, b=body: httpx.Response(200, content=b)]  # type: ignore[misc]
        with pytest.raises(ServiceUnavailable, match="cannot be read"):
            people.quote(BY_DEPARTMENT, epsilon=1)


def test_the_budget_of_everybody_is_a_share_of_its_own_limit(fake: Fake) -> None:
    """The mutant states what remains of the root as a share of the analyst's own limit: 30% of it is spent, and not 93%."""
    fake.everybody = Budget.of(pure_filter(1).charge_cost(Fraction(3, 10), Fraction(0)), Fraction(0))
    people = fake.open()
    assert people.state_budgets() == (str(people.budget), "Everybody together: ε = 0.7 of 1 remaining, 30% spent.")
    assert "Everybody together: ε = 0.7 of 1 remaining, 30% spent." in repr(people)
    assert people.shared_budget.limit == 1 < people.budget.limit


def test_addresses() -> None:
    assert Address.parse("http://127.0.0.1:8000/people").is_loopback
    assert Address.parse("https://data.example/dp/my%20table") == Address("https://data.example/dp", "my table", False)
    assert parse_service("http://[::1]:80")[0] == "http://[::1]"
    for wrong in ("http://data.example/people", "http://127.0.0.1.evil.example/p", "http://10.0.0.1/p", "https://u:pw@h/p",
                  "https://h/p?x=1", "https://h/p#x", "https:///p", "https://h:99999/p", "ftp://h/p", "https://h",
                  "https://h/"):  # fmt: skip
        with pytest.raises(BadParameter) as refused:
            Address.parse(wrong)
        assert "pw" not in str(refused.value)


def test_tokens(fake: Fake, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with pytest.raises(NotSignedIn, match=r"discreet login https://data\.example$"):
        fake.open(token=None)
    trust.store_token("https://data.example", "dsc_stored-token")
    people = fake.open(token=None)
    assert people.connection.token == "dsc_stored-token"
    monkeypatch.setenv("DISCREET_TOKEN", "dsc_from-environment")
    assert fake.open(token=None).connection.token == "dsc_from-environment"
    assert fake.open(token="dsc_given-here").connection.token == "dsc_given-here"
    for text in (repr(people), repr(people.connection), str(vars(people)["identity"])):
        assert "dsc_" not in text
    for wrong in ("short", "dsc_ with spaces", "dsc_\nHost: evil", 7):
        with pytest.raises(BadParameter) as refused:
            fake.open(token=wrong)  # type: ignore[arg-type]
        assert "evil" not in str(refused.value)
    for name in (trust.CREDENTIALS, trust.SERVICES):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    os.chmod(folder / trust.CREDENTIALS, 0o644)
    monkeypatch.delenv("DISCREET_TOKEN")
    with pytest.raises(BadParameter, match="chmod 600"):
        fake.open(token=None)


def test_another_key_or_ledger_is_refused_and_can_be_forgotten(fake: Fake) -> None:
    fake.open()
    for field in ("public_key", "ledger"):
        before = fake.service[field]
        for other in ("another", None):
            fake.service[field] = other
            with pytest.raises(ServiceChanged, match="than before"):
                fake.open()
        fake.service[field] = before
    fake.service |= {"public_key": "new", "head": None}
    assert trust.forget("https://data.example")
    fake.open()


def test_a_fresh_demo_on_the_own_machine_is_no_alarm(fake: Fake) -> None:
    fake.open("http://127.0.0.1:8000/people")
    fake.service = {"public_key": "k2", "ledger": "l2", "head": None}
    fake.open("http://127.0.0.1:8000/people")
    fake.service = {"public_key": "k3", "ledger": "l1", "head": {"number": 9, "hash": "aa9"}}
    with pytest.raises(ServiceChanged):  # the first ledger with another key
        fake.open("http://127.0.0.1:8000/people")


def test_a_ledger_that_was_set_back_is_noticed(fake: Fake) -> None:
    """The mutant remembers no head: the answers of a ledger that forgot its debits are then shown."""
    people = fake.open()
    fake.service["head"] = {"number": 7, "hash": "aa7"}
    people.ask(BY_DEPARTMENT, epsilon=1)
    for head in ({"number": 6, "hash": "bb6"}, {"number": 7, "hash": "bb7"}, None):
        fake.service["head"] = head
        with pytest.raises(ServiceChanged, match="set back"):
            people.ask(BY_DEPARTMENT, epsilon=1)
    fake.service["head"] = {"number": 50, "hash": "bb50"}  # it has grown since
    with pytest.raises(ServiceChanged, match="set back"):
        fake.open()


@pytest.mark.parametrize("states_continuity", [True, False])
def test_a_ledger_that_was_set_back_and_has_grown_is_noticed_within_a_session(fake: Fake, states_continuity: bool) -> None:
    """The mutant believes every head with a higher number: the ledger forgot entries 6 and 7, and wrote others since."""
    fake.states_continuity = states_continuity
    people = fake.open()
    fake.service["head"] = {"number": 7, "hash": "aa7"}
    people.ask(BY_DEPARTMENT, epsilon=1)
    fake.heads = {(5, "aa5"): True, (50, "bb50"): True}
    fake.service["head"] = {"number": 50, "hash": "bb50"}
    with pytest.raises(ServiceChanged, match="set back"):
        people.ask(BY_DEPARTMENT, epsilon=1)
    assert people.seen["head"].number == 7


def test_heads_are_verified_without_further_requests(fake: Fake) -> None:
    people = fake.open()
    before = len(fake.requests)
    for number in range(6, 26):
        fake.heads[(number, f"aa{number}")] = True
        fake.service["head"] = {"number": number, "hash": f"aa{number}"}
        people.ask(BY_DEPARTMENT, epsilon=1)
    assert len(fake.requests) == before + 20
    assert people.seen["head"].number == 25


def test_a_mirror_that_lags_is_no_alarm(fake: Fake) -> None:
    people = fake.open()
    fake.service["head"] = {"number": 7, "hash": "aa7"}
    people.ask(BY_DEPARTMENT, epsilon=1)
    fake.heads[(7, "aa7")] = True
    fake.service["head"] = {"number": 6, "hash": "aa6"}
    people.ask(BY_DEPARTMENT, epsilon=1)
    fake.open()


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("gzip", "more than 10,000 bytes"),
        ("identity", "more than 10,000 bytes"),
        ("gzip, gzip", "an encoding that was not asked for"),
        ("deflate", "an encoding that was not asked for"),
    ],
)
def test_what_is_small_until_it_is_unpacked_fills_no_memory(
    fake: Fake, encoding: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant unpacks what comes before it counts: two layers of gzip make gigabytes of a few kilobytes."""
    people, packed = fake.open(), gzip.compress(b" " * 20_000_000)
    monkeypatch.setattr("discreet.remote.connection.MAX_BYTES", 10_000)
    if encoding == "gzip, gzip":
        packed = gzip.compress(packed)
    fake.script = [lambda _: httpx.Response(200, headers={"Content-Encoding": encoding}, stream=httpx.ByteStream(packed))]
    tracemalloc.start()
    try:
        with pytest.raises(ServiceUnavailable, match=said):
            people.quote(BY_DEPARTMENT, epsilon=1)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_an_answer_may_be_compressed_once(fake: Fake) -> None:
    people = fake.open()

    def pack(request: httpx.Request) -> httpx.Response:
        body = httpx.ByteStream(gzip.compress(fake.answer(request).content))
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=body)

    fake.script = [pack]
    assert people.quote(BY_DEPARTMENT, epsilon=1).cost == fake.people.quote(BY_DEPARTMENT, epsilon=1).cost
    assert fake.requests[-1].headers["Accept-Encoding"] == "gzip"
    fake.script = [lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"{}"))]
    with pytest.raises(ServiceUnavailable, match="not compressed"):
        people.quote(BY_DEPARTMENT, epsilon=1)


def test_certificates_and_what_a_service_refuses(fake: Fake) -> None:
    people = fake.open()
    answer = people.ask(BY_DEPARTMENT, epsilon=1)
    other = people.ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    for each, ask in ((answer, "f00"), (other, "f01"), (answer, "f00")):  # each answer has its own
        for certify in (people.certificate, people.certify):
            with pytest.raises(ServiceChanged, match="it is no certificate"):
                certify(each)
            assert fake.requests[-1].url.path == f"/api/v1/asks/{ask}/certificate"
    with pytest.raises(BadParameter, match=r"answer is of type str: not an answer\. Give what ask"):
        people.certificate("monday")  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="key"):
        people.certify(answer, object())  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="answer"):
        fake.open().certificate(answer)
    for call in (lambda: people.find_bounds("pay", epsilon=1), lambda: people.ask(BY_DEPARTMENT, error="5%", pilot=0.1)):
        with pytest.raises(QueryRefused):
            call()
    with pytest.raises(NotFound, match="There is nothing here"):
        fake.open("https://data.example/other")


def test_dummy_rows_cost_nothing_and_say_what_they_are(fake: Fake) -> None:
    people = fake.open()
    before = people.budget
    answer = people.dummy(500, seed=3).ask(BY_DEPARTMENT, epsilon=1)
    assert "invented" in answer.explanation
    assert answer.event == people.ask(BY_DEPARTMENT, epsilon=1).event
    assert before.amount == 0
    rich = people.dummy(50)
    for _ in range(3):  # more than the account holds
        assert rich.ask(BY_DEPARTMENT, epsilon=8, fresh=True).charged


def test_connect_takes_a_service_and_refuses_what_its_owner_declares() -> None:
    with pytest.raises(NotSignedIn):
        discreet.connect("https://data.example/people")
    for given in ({"epsilon": 1}, {"unit": "id"}, {"ledger": "hr.ledger"}, {"delta": 1e-6}, {"keys": {}}, {"label": "x"}):
        with pytest.raises(BadParameter, match="its own policy and budget"):
            discreet.connect("https://data.example/people", token=TOKEN, **given)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="only a service knows tokens"):
        discreet.connect("people.csv", unit="id", epsilon=1, token=TOKEN)


def test_a_real_service_asks_a_steward(tmp_path: Path) -> None:
    with serve_session(session(), tmp_path, rules=Rules(epsilon_per_ask="1/2")) as (people, _, _http):
        with pytest.raises(AskPending, match="for approval"):
            people.ask(BY_DEPARTMENT, epsilon=1)
        assert people.ask(BY_DEPARTMENT, epsilon=0.5).charged


def test_a_quote_says_who_decides_and_when_the_answer_arrives(fake: Fake, tmp_path: Path) -> None:
    with serve_session(session(), tmp_path, rules=Rules(epsilon_per_ask="1/2")) as (people, _, _http):
        quote = people.quote(BY_DEPARTMENT, epsilon=1)
        assert quote.needs_approval
        assert quote.approval_reason is not None
        assert "A steward must approve it" in repr(quote)
        assert quote.approval_reason in " ".join(repr(quote).split())
        assert json.loads(quote.to_json())["needs_approval"] is True
        allowed = people.quote(BY_DEPARTMENT, epsilon=0.5)
        assert not allowed.needs_approval
        assert "steward" not in repr(allowed)
        people.ask(BY_DEPARTMENT, epsilon=0.5)
        recorded = people.quote(BY_DEPARTMENT, epsilon=0.5)
        assert recorded.is_recorded
        assert "asking it again is free" in repr(recorded)
    stated = {"quote": quote_to_wire(fake.people.quote(BY_DEPARTMENT, epsilon=1)), "epsilon": "1", "arrives_in": 5.0}
    fake.script = [lambda _: httpx.Response(200, json=stated)]
    later = fake.open().quote(BY_DEPARTMENT, epsilon=1)
    assert later.arrives_in == 5
    assert "The answer arrives 5 seconds after the ask." in repr(later)


def test_the_same_query_waits_once_with_its_purpose_and_can_be_withdrawn(tmp_path: Path) -> None:
    """The mutant adds a second request each time the query is asked."""
    with serve_session(session(), tmp_path, rules=Rules(epsilon_per_ask="1/2")) as (people, worker, _http):
        seen = []
        for given in ({"purpose": "a report on pay"}, {}, {"id": "mine"}):
            with pytest.raises(AskPending) as pending:
                people.ask(BY_DEPARTMENT, epsilon=1, **given)  # type: ignore[arg-type]
            seen.append(pending.value.id)
        assert len(set(seen)) == 1
        with pytest.raises(AskPending):
            people.ask(BY_DEPARTMENT, epsilon=1, confidence=0.9)  # other intervals: another request
        other, first = people.list_pending()
        assert (first.id, first.state, first.epsilon, first.query) == (seen[0], "for approval", 1, BY_DEPARTMENT)
        purposes = {each.purpose for each in worker.control.list_requests().items}
        assert purposes == {"a report on pay", ""}
        people.withdraw(pending.value)
        people.withdraw(other)
        assert people.list_pending() == ()
        with pytest.raises(BadParameter, match="no query of this table waits under it"):
            people.withdraw(first)
        assert people.budget.amount == 0
    with pytest.raises(BadParameter, match="purpose"):
        session().ask(BY_DEPARTMENT, epsilon=1, purpose="a report on pay")


def test_a_token_that_is_not_valid_is_said_without_http(fake: Fake) -> None:
    people = fake.open()
    fake.script = [lambda _: httpx.Response(401, json={"detail": f"{NOT_SIGNED_IN}", "status": 401})]
    with pytest.raises(NotSignedIn, match=r"the token is not valid there.* discreet login https://data\.example") as refused:
        people.quote(BY_DEPARTMENT, epsilon=1)
    assert "Bearer" not in str(refused.value)


def test_a_free_answer_advises_what_an_analyst_can_do(tmp_path: Path) -> None:
    with serve_session(session(), tmp_path) as (people, _, _http):
        people.ask(BY_DEPARTMENT, epsilon=1)
        again = people.ask(BY_DEPARTMENT, epsilon=1)
        assert not again.charged
        shown = " ".join(repr(again).split())
        assert "label=" not in shown
        assert "If the data changed since, fresh=True pays for a new answer." in shown


def test_no_token_no_table(tmp_path: Path) -> None:
    with serve_session(session(), tmp_path) as (people, _, http):
        service = people.connection.service
        with pytest.raises(NotSignedIn):
            open_remote(f"{service}/people", TOKEN, http)
        with pytest.raises(NotFound):
            open_remote(f"{service}/salaries", people.connection.token, http)
    assert isinstance(people.connection, Connection)
    assert issubclass(NotFound, DiscreetError)


@pytest.mark.parametrize("epsilon", ["3/10", "0.05", "1/3", "2"])
def test_the_cell_of_an_answer_shows_it_again_for_nothing(tmp_path: Path, epsilon: str) -> None:
    """The mutant writes epsilon='3/10' where 0.3 is meant."""
    with serve_session(session(), tmp_path) as (people, worker, _http):
        first = people.ask(BY_DEPARTMENT, epsilon=epsilon, id="monday")
        ask = worker.control.find_ask_by_key("ada", "monday")
        assert ask is not None
        cell = write_cell("https://data.example", ask)
        assert f"epsilon={ {'3/10': '0.3', '1/3': repr('1/3')}.get(epsilon, epsilon) }," in cell
        told: dict[str, Any] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(discreet, "connect", lambda address: people)
            exec(cell, told)
        assert told["answer"].to_dicts() == first.to_dicts()
        assert people.budget.amount == Fraction(epsilon)


def test_an_epsilon_that_is_no_number_is_named(fake: Fake) -> None:
    with pytest.raises(BadParameter, match="epsilon is 'much': not a number"):
        fake.open().ask(BY_DEPARTMENT, epsilon="much")
