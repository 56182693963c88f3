"""What goes over HTTP comes back as it was: the same class and fields, printed, drawn and post-processed alike."""

import json
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import inf
from random import Random
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet import testing
from discreet.accounting.cost import Remaining
from discreet.accounting.currencies import create_budget
from discreet.errors import DiscreetError, QueryRefused, ServiceUnavailable
from discreet.events import compose
from discreet.query.answer import Answer
from discreet.query.calibrate import Calibrator
from discreet.query.policy import read_policy
from discreet.query.quote import Quote
from discreet.query.schema import DEFAULT_SALT
from discreet.remote import wire
from discreet.remote.plain import MAX_DEPTH, parse_json
from tests.support import random_tables
from tests.support.charted_answers import COUNT, HOSTILE_KEYS, estimate, make_answer
from tests.support.people import EVERYTHING, session
from tests.support.public_values import PEOPLE, POLICY

VIEWS = (
    "",
    " ORDER BY n DESC LIMIT 2",
    " HAVING COUNT(*) > 10 AND NOT (dept = 'a' OR dept IN ('b', 'x')) ORDER BY dept",
    " HAVING COUNT(*) > SUM(age) OR dept IS NULL ORDER BY n LIMIT 2 OFFSET 1",
)


def sent(value: Any) -> Any:
    """What arrives of plain values: bytes in between."""
    return parse_json(msgspec.json.encode(value))


def assert_same_answer(answer: Answer) -> Answer:
    back = wire.answer_from_wire(sent(wire.answer_to_wire(answer)))
    assert back == answer
    assert type(back) is type(answer)
    assert [each.joint_margin for each in back.schema] == [each.joint_margin for each in answer.schema]
    assert repr(back) == repr(answer)
    assert back._repr_html_() == answer._repr_html_()
    assert back.to_json() == answer.to_json()
    assert back.to_csv() == answer.to_csv()
    assert [[*map(type, row)] for row in back.records] == [[*map(type, row)] for row in answer.records]
    return back


def assert_same_quote(quote: Quote) -> None:
    back = wire.quote_from_wire(sent(wire.quote_to_wire(quote)))
    assert back == quote
    assert repr(back) == repr(quote)
    assert back._repr_html_() == quote._repr_html_()
    assert back.to_json() == quote.to_json()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("budget", [{}, {"delta": 1e-6}, {"delta": 1e-6, "currency": "gdp"}])
def test_answers_and_quotes_come_back_as_they_were(view: str, budget: dict[str, Any]) -> None:
    people = session(**budget)
    query = EVERYTHING + view
    assert_same_quote(people.quote(query, epsilon=1))
    assert_same_quote(people.quote(query, error="5%", size=1000, confidence=0.9))
    back = assert_same_answer(people.ask(query, epsilon=1))
    assert assert_same_answer(people.ask(query, epsilon=1)).charged is False
    assert back.plot(column="n").spec == people.ask(query, epsilon=1).plot(column="n").spec
    for again in (lambda each: each.non_negative(), lambda each: each.order_by("n").limit(1)):
        assert repr(again(back)) == repr(
            again(replace(people.ask(query, epsilon=1), charged=True, cost=back.cost, notes=back.notes))
        )


def test_post_processed_and_joint_answers_come_back() -> None:
    people = session(delta=1e-6)
    query = "SELECT dept, COUNT(*) AS n, SUM(age) AS years, MEDIAN(pay) AS m FROM people GROUP BY dept"
    answer = people.ask(query, epsilon=1, simultaneous=True)
    for each in (answer, answer.consistent(), answer.integers("n"), answer.non_negative(), answer.shares("n")):
        assert_same_answer(each)


def test_selected_keys_come_back() -> None:
    people = discreet.connect(PEOPLE, unit="id", unique=True, epsilon=4, delta=1e-6)
    assert_same_answer(people.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1))


def test_hostile_keys_and_infinite_ends_come_back() -> None:
    rows = [((key,), (estimate(5, 1),)) for key in HOSTILE_KEYS] + [((None,), (estimate(1, inf),))]
    assert_same_answer(make_answer(["a"], [COUNT], rows))


@pytest.mark.parametrize("seed", range(6))
def test_answers_to_random_queries_come_back(seed: int) -> None:
    rng, connection = Random(seed), duckdb.connect()
    place = random_tables.world(rng)
    random_tables.stored(place, connection)
    people = discreet.connect(
        connection, policy=replace(place.table, least_epsilon=Fraction(1, 10**6)), epsilon=1000, delta=1e-6
    )
    asked = 0
    while asked < 6:
        bounded, _ = random_tables.bounded(rng, place)
        try:
            answer = people.ask(random_tables.text(bounded.query), epsilon=1, bits=testing.seeded_bits(seed))
            assert_same_quote(people.quote(random_tables.text(bounded.query), epsilon=1))
        except QueryRefused:
            continue
        assert_same_answer(answer)
        asked += 1


def test_the_comparison_can_fail() -> None:
    plain = wire.answer_to_wire(session().ask(EVERYTHING, epsilon=1))
    plain["charged"] = False
    assert wire.answer_from_wire(plain) != wire.answer_from_wire(plain | {"charged": True})
    plain["cost"]["remaining"] = "1/7"
    assert wire.answer_from_wire(plain).cost.remaining == Fraction(1, 7)  # type: ignore[union-attr]


@pytest.mark.parametrize("currency", ["pure", "zcdp", "gdp", "rdp(16)"])
def test_budgets_costs_and_what_remains_come_back(currency: str) -> None:
    people = session(30, 0 if currency == "pure" else 1e-6, currency=currency)
    people.ask(EVERYTHING, epsilon=Fraction(7, 3))
    for budget in (people.budget, people.quote(EVERYTHING, epsilon=3).cost):
        back = wire.cost_from_wire(sent(wire.cost_to_wire(budget)))
        assert (back, type(back), str(back), back.to_dict()) == (budget, type(budget), str(budget), budget.to_dict())
    remaining = wire.remaining_from_wire(sent(wire.remaining_to_wire(people.remaining)))
    assert (remaining, str(remaining), float(remaining)) == (
        people.remaining,
        str(people.remaining),
        float(people.remaining),
    )
    assert isinstance(remaining, Remaining)


def test_a_table_comes_back_without_its_salt() -> None:
    table = read_policy(POLICY + '[columns."day \\u2028"]\nkind = "date"\nlower = 2024-01-01\nupper = 2024-12-31\n')
    secret = replace(table, salt="the owner's secret", least_epsilon=Fraction(1, 8))
    plain = sent(wire.table_to_wire(secret))
    assert "the owner's secret" not in json.dumps(plain)
    assert "salt" not in plain["policy"]
    assert wire.table_from_wire(plain) == replace(secret, salt=DEFAULT_SALT)


def test_public_tables_come_back(tmp_path: Any) -> None:
    place = tmp_path / "depts.csv"
    place.write_text("dept,floor,rent,since\nsales,1,0.1,2020-01-01\nlegal,2,3.5,2021-06-30\n")
    people = discreet.connect(PEOPLE, unit="id", unique=True, epsilon=1, public={"depts": place})
    assert wire.table_from_wire(sent(wire.table_to_wire(people.table))) == people.table


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
READERS = (
    wire.answer_from_wire, wire.quote_from_wire, wire.cost_from_wire, wire.budget_from_wire, wire.remaining_from_wire,
    wire.table_from_wire,
)  # fmt: skip


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places_in(each, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], instead: Any) -> Any:
    if not path:
        return instead
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = put(value[path[0]], path[1:], instead)
    return copied


PEOPLE_SESSION = session(delta=1e-6)
SENT = (
    (wire.answer_from_wire, wire.answer_to_wire(PEOPLE_SESSION.ask(EVERYTHING + VIEWS[2], epsilon=1))),
    (wire.quote_from_wire, wire.quote_to_wire(PEOPLE_SESSION.quote(EVERYTHING, epsilon=1))),
    (wire.budget_from_wire, wire.budget_to_wire(PEOPLE_SESSION.budget)),
    (wire.table_from_wire, wire.table_to_wire(PEOPLE_SESSION.table)),
)


@given(st.data())
def test_whatever_a_service_sends_is_a_value_or_a_refusal(data: st.DataObject) -> None:
    """One part of a true message is replaced: the reader returns a value of its class or raises an error of ours."""
    read, plain = data.draw(st.sampled_from(SENT))
    place = data.draw(st.sampled_from(places_in(plain)))
    with suppress(ServiceUnavailable):
        read(put(plain, place, data.draw(VALUES)))


@given(VALUES)
def test_readers_refuse_what_is_none_of_theirs(value: Any) -> None:
    for read in READERS:
        with pytest.raises(ServiceUnavailable):
            read(value)
    assert isinstance(wire.from_problem(value), DiscreetError)


def test_messages_have_limits() -> None:
    with pytest.raises(ServiceUnavailable, match="more than 3 bytes"):
        parse_json(b"[1,2]", 3)
    for deep in (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), b"[" * 10**6, b'{"a":' * 10**5):
        with pytest.raises(ServiceUnavailable):
            parse_json(deep)
    for wrong in (b"", b"\xff", b"NaN", b"[1e999]", b'"\\ud800"'):
        with pytest.raises(ServiceUnavailable):
            parse_json(wrong)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ServiceUnavailable, match="nest"):
        wire.cost_from_wire(loop)


def test_an_answer_whose_rows_have_other_columns_is_refused() -> None:
    plain = wire.answer_to_wire(session().ask(EVERYTHING, epsilon=1))
    for change in ({"columns": ["n"]}, {"groups": []}, {"counted": []}, {"known_least": ["9" * 10**5] * 7}):
        with pytest.raises(ServiceUnavailable):
            wire.answer_from_wire(plain | {"record": plain["record"] | change})


def test_an_event_of_a_newer_version_is_refused_and_not_guessed() -> None:
    plain = wire.cost_to_wire(session().quote(EVERYTHING, epsilon=1).cost)
    plain["event"]["parts"][0][0]["later"] = 1
    with pytest.raises(ServiceUnavailable, match="not an event"):
        wire.cost_from_wire(plain)


def test_calibration_on_the_other_machine_gives_the_same_measurement() -> None:
    """A table that came over the wire quotes alike: the salt decides nothing but which rows count."""
    people, budget = session(delta=1e-6), create_budget(10, 1e-6)
    table = wire.table_from_wire(sent(wire.table_to_wire(people.table)))
    from discreet.query.contribution import bound_contributions
    from discreet.query.parser import read_query

    bounded = bound_contributions(read_query(EVERYTHING, table), table, people.neighbours)
    measurement = Calibrator(budget, people.delta).calibrate(bounded, Fraction(1), None)
    assert measurement.event == people.calibrate(EVERYTHING, epsilon=1).event != compose()
