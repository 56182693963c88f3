"""A quote without an engine is the session's: the same measurement, the same hash, the same refusals."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from discreet._numbers import format_up
from discreet.errors import BudgetExceeded, DiscreetError, QueryRefused, ServiceUnavailable
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import hash_measurement
from discreet.query.calibrate import AccuracyTarget
from discreet.query.policy import read_policy
from discreet.query.record import policy_hash
from discreet.remote.wire import write_public_policy
from discreet.serve.control.model import Snapshot, TableEntry
from discreet.serve.quoting import FairPlaces, Priced, Quoter, Target, build_account
from discreet.serve.web.pages.words import format_cost_short
from discreet.session.connect import open_session
from discreet.session.options import SourceOptions
from discreet.session.session import Session

POLICY = """\
table = "people"
unit = "id"
max_groups = 2
max_rows = 3
salt = "a salt that only the owner knows"

[columns.id]
kind = "integer"

[columns.dept]
kind = "text"
keys = ["sales", "research", "legal"]

[columns.age]
kind = "integer"
lower = 18
upper = 70

[columns.pay]
kind = "real"
lower = 0
upper = 200
"""
TABLE = read_policy(POLICY)
ENTRY = TableEntry(
    name="people", population="employees", policy=write_public_policy(TABLE), policy_hash=policy_hash(TABLE),
    policy_version=1, identity="serve:people", neighbours="add-remove", label="2026-11",
)  # fmt: skip
QUESTIONS = [
    ("SELECT COUNT(*) AS n FROM people", Target("1/10")),
    ("SELECT dept, COUNT(*) AS n, AVG(pay) AS mean FROM people GROUP BY dept", Target("1/3", weights=(("mean", "2"),))),
    ("SELECT dept, SUM(age) AS s FROM people GROUP BY dept", Target(error="5%", size=1000)),
    ("SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY n DESC LIMIT 3", Target("1/5")),
    ("SELECT COUNT(*) AS n FROM people WHERE age >= 65 AND dept = 'legal'", Target(error="20", confidence=0.9)),
]
UNDECLARED = POLICY.replace('keys = ["sales", "research", "legal"]\n', "")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = open_ledger(tmp_path / "hr.ledger", create=True)
    opened.open_account("employees", 3, 1e-9)
    opened.open_account("employees/ada", Fraction(1, 2), 1e-9, parent="employees")
    return opened


def open_worker_session(ledger: Ledger, policy: str = POLICY, account: str = "employees/ada") -> Session:
    found = ledger.get_account(account)
    options = SourceOptions(source="examples/people.csv", policy=read_policy(policy), label="2026-11")
    return open_session(options, found, found.state.delta, identity="serve:people")


def list_lineage(ledger: Ledger, account: str = "employees/ada") -> list[Snapshot]:
    return [Snapshot.of(each) for each in ledger.get_account(account).state.lineage]


def make_entry(policy: str) -> TableEntry:
    table = read_policy(policy)
    import msgspec

    return msgspec.structs.replace(ENTRY, policy=write_public_policy(table), policy_hash=policy_hash(table))


def measure(session: Session, query: str, target: AccuracyTarget) -> str:
    """Return the hash that a worker computes before it charges anything."""
    bounded = session.discovery.bound(query)
    choice = session.calibrator.choose_epsilon(bounded, target)
    return hash_measurement(session.executor.describe(session.calibrator.calibrate(bounded, choice.epsilon, choice.weights)))


@pytest.mark.parametrize(("query", "target"), QUESTIONS)
def test_the_web_and_the_worker_agree_on_the_measurement(ledger: Ledger, query: str, target: Target) -> None:
    session, quoter = open_worker_session(ledger), Quoter()
    priced = quoter.price(ENTRY, list_lineage(ledger), query, target)
    assert priced.hash == measure(session, query, target.to_accuracy())
    assert priced.hash == measure(session, query, AccuracyTarget(priced.epsilon, weights=target.to_accuracy().weights))


@pytest.mark.parametrize(("query", "target"), QUESTIONS)
def test_the_quote_is_the_sessions(ledger: Ledger, query: str, target: Target) -> None:
    session = open_worker_session(ledger)
    given = target.to_accuracy()
    local = session.quote(
        query, epsilon=given.epsilon, error=given.error, size=given.size, confidence=given.confidence, weights=given.weights
    )
    shown = Quoter().price(ENTRY, list_lineage(ledger), query, target).quote
    assert replace(shown, notes=()) == replace(local, notes=())
    assert [note for note in local.notes if note not in session.notes + session.account_notes] == list(shown.notes)


def test_undeclared_keys_have_the_same_threshold_in_every_account(ledger: Ledger) -> None:
    query, target = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", Target("1/10")
    entry, quoter = make_entry(UNDECLARED), Quoter()
    ledger.open_account("employees/bob", 1, 1e-9, parent="employees")
    hashes = {quoter.price(entry, list_lineage(ledger, f"employees/{name}"), query, target).hash for name in ("ada", "bob")}
    session = open_worker_session(ledger, UNDECLARED)
    assert hashes == {measure(session, query, target.to_accuracy())}
    assert quoter.price(entry, list_lineage(ledger), query, target).calibrated.discovers_keys


def test_the_salt_is_in_the_hash_and_nowhere_else(ledger: Ledger) -> None:
    other = make_entry(POLICY.replace("a salt that only", "another salt that only"))
    query, target = QUESTIONS[0]
    assert "salt" not in ENTRY.policy
    assert other.policy == ENTRY.policy
    hashes = {Quoter().price(each, list_lineage(ledger), query, target).hash for each in (ENTRY, other)}
    assert len(hashes) == 2


def test_a_widened_policy_is_another_measurement(ledger: Ledger) -> None:
    wider = make_entry(POLICY.replace("max_rows = 3", "max_rows = 4"))
    query, target = QUESTIONS[1]
    assert price(ledger, query, target).hash != Quoter().price(wider, list_lineage(ledger), query, target).hash


def price(ledger: Ledger, query: str, target: Target, quoter: Quoter | None = None) -> Priced:
    return (quoter or Quoter()).price(ENTRY, list_lineage(ledger), query, target)


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("SELECT nope FROM people", Target("1/10")),
        ("SELECT COUNT(*) AS n FROM people", Target("1/1000000")),
        ("SELECT COUNT(*) AS n FROM people", Target()),
        ("SELECT COUNT(*) AS n FROM people", Target("1/10", "5%")),
        ("SELECT COUNT(*) AS n FROM people", Target(error="5%")),
        ("DROP TABLE people", Target("1/10")),
    ],
)
def test_refusals_are_the_sessions(ledger: Ledger, query: str, target: Target) -> None:
    session = open_worker_session(ledger)
    given = target.to_accuracy()
    with pytest.raises(DiscreetError) as local:
        session.quote(query, epsilon=given.epsilon, error=given.error, size=given.size)
    with pytest.raises(type(local.value)) as shown:
        price(ledger, query, target)
    assert str(shown.value) == str(local.value)


def test_what_does_not_fit_is_refused_with_what_would(ledger: Ledger) -> None:
    session = open_worker_session(ledger)
    with pytest.raises(BudgetExceeded) as local:
        session.ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(3, 4))
    with pytest.raises(BudgetExceeded) as shown:
        price(ledger, "SELECT COUNT(*) AS n FROM people", Target("3/4")).check_budget()
    assert str(shown.value) == str(local.value)
    assert shown.value.fitting_epsilon == local.value.fitting_epsilon


def test_the_balance_changes_the_quote_and_not_the_measurement(ledger: Ledger) -> None:
    quoter, (query, target) = Quoter(), QUESTIONS[0]
    before = price(ledger, query, target, quoter)
    open_worker_session(ledger).ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(1, 5))
    after = price(ledger, query, target, quoter)
    assert after.hash == before.hash
    assert after.calibrated is before.calibrated
    assert after.quote.cost.remaining < before.quote.cost.remaining
    again = price(ledger, query, target, quoter)
    assert again.calibrated is after.calibrated
    assert again == after


def test_a_long_text_is_refused_before_it_is_parsed(ledger: Ledger) -> None:
    with pytest.raises(QueryRefused, match="20,000 characters"):
        price(ledger, "SELECT " + " " * 20_000 + "COUNT(*) FROM people", Target("1/10"))


def test_slow_texts_wait_for_each_other_and_not_for_ever(ledger: Ledger) -> None:
    quoter = Quoter(threads=1, wait=0.05)
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with quoter._places.take(""):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with pytest.raises(ServiceUnavailable):
        price(ledger, *QUESTIONS[0], quoter)
    done.set()
    thread.join()
    assert price(ledger, *QUESTIONS[0], quoter).hash


def test_an_account_that_no_worker_opened_is_not_quoted() -> None:
    with pytest.raises(ServiceUnavailable):
        build_account([])


@pytest.mark.parametrize(("query", "target"), QUESTIONS)
def test_an_ask_has_one_epsilon_on_pages_in_rules_and_in_refusals(query: str, target: Target) -> None:
    """The certified ε of the query alone, which pages showed, is another one than the rules and a refusal name."""
    root = AccountState.open("employees", 3, 1e-9)
    priced = Quoter().price(ENTRY, [Snapshot.of(root)], query, target)
    shown = format_cost_short(priced.cost)
    assert shown == f"ε = {format_up(priced.epsilon, 3)}"
    poor = AccountState.open("employees", 0.001, 1e-9)
    with pytest.raises(BudgetExceeded) as refused:
        replace(priced, account=poor).check_budget()
    assert f"This costs {shown}," in str(refused.value)
    assert priced.cost.epsilon.upper <= priced.epsilon  # and it is no less than what is certified


def test_one_person_has_one_place_and_others_come_between() -> None:
    """The mutant with a plain semaphore gives Bob both places, and Zed waits for all that Bob sent before."""
    places, go, order = FairPlaces(2, wait=30.0), threading.Semaphore(0), list[str]()

    def take(person: str) -> None:
        with places.take(person):
            order.append(person)
            go.acquire(timeout=30)

    def start(person: str, number: int) -> list[threading.Thread]:
        threads = [threading.Thread(target=take, args=(person,)) for _ in range(number)]
        for thread in threads:
            thread.start()
        return threads

    threads = start("bob", 5)
    wait_until(lambda: len(order) == 1 and len(places._waiting) == 4)
    threads += start("eve", 5)
    wait_until(lambda: len(order) == 2 and len(places._waiting) == 8)
    assert sorted(order) == ["bob", "eve"]
    threads += start("zed", 1)
    wait_until(lambda: len(places._waiting) == 9)
    go.release()
    wait_until(lambda: len(order) == 3)
    assert order[2] == "zed"
    for _ in range(10):
        go.release()
    for thread in threads:
        thread.join(30)
    assert sorted(order) == ["bob"] * 5 + ["eve"] * 5 + ["zed"]
    assert (places._free, places._has_place, places._served) == (2, set(), {})


def test_who_waits_too_long_for_a_place_is_refused() -> None:
    places = FairPlaces(2, wait=0.05)
    with places.take("bob"), pytest.raises(ServiceUnavailable), places.take("bob"):
        pass
    with places.take("bob"), places.take("zed"):
        pass


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)
