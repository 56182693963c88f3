"""Threats that have no test elsewhere; and the table of docs/serve-threats.md, every test of which must exist."""

import ast
import csv
import io
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.engines.base import OutOfResources, owner_log
from discreet.errors import BadParameter
from discreet.ledger.entries import Debit
from discreet.serve.control.model import AskState
from discreet.serve.web.metrics import Metrics
from tests.support.served_tables import COUNT, Service, configure, start_service, write_table
from tests.support.web_service import OPEN, Client
from tests.support.web_service import Service as WebService
from tests.support.web_service import open_service as open_web

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "serve-threats.md"
TESTS = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
THREATS = 38


# -- the table ------------------------------------------------------------------------------------------------------------


def list_rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ") and "`tests/" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def list_functions(path: Path) -> frozenset[str]:
    return frozenset(each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef))


def test_every_threat_names_tests_that_exist() -> None:
    rows = list_rows()
    assert len(rows) == THREATS
    for threat, answer, tests in rows:
        named = TESTS.findall(tests)
        assert named, threat
        assert answer
        for path, name in named:
            assert name.startswith("test_")
            assert name in list_functions(ROOT / path), f"{path}::{name}"
        assert TESTS.sub("", tests).strip(" ,") == "", f"what is this? {tests}"


def test_the_table_can_fail() -> None:
    path, name = TESTS.findall(list_rows()[0][2])[0]
    assert f"{name}_not" not in list_functions(ROOT / path)


# -- worker ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Service]:
    write_table(tmp_path / "data", "people")
    write_table(tmp_path / "data", "visits")
    with start_service(configure(tmp_path / "data", classes=(), epsilon=Fraction(1, 2)), "ada", "bob") as running:
        yield running


def test_two_tables_about_the_same_people_have_one_root(served: Service) -> None:
    """The budget is that of a population, not of a file."""
    ended = [
        served.wait(served.ask(person, table=table, epsilon=f"0.2{i}{j}"))
        for i in range(4)
        for j, (person, table) in enumerate((("ada", "people"), ("bob", "visits")))
    ]
    assert {each.state for each in ended} == {AskState.ANSWERED, AskState.REFUSED}
    assert {each.root for each in ended} == {"data"}
    root = served.worker.tables.ledger.get_account("data").state.budget
    assert root.spent == sum(each.cost for each in served.list_entries(Debit)) <= root.limit


def test_a_tiny_epsilon_buys_no_look(served: Service) -> None:
    """Whatever is paid, the engine reads the rows; so an ask has a least ε, which web and worker both demand."""
    with pytest.raises(BadParameter, match="least_epsilon"):
        served.make_ask(epsilon="0.000000001")
    honest = served.make_ask(epsilon="0.01")
    tiny = msgspec.structs.replace(honest, epsilon="1/1000000000")
    assert served.wait(served.control.add_ask(tiny)).state is AskState.REFUSED
    assert not served.list_entries(Debit)


def test_an_equal_question_in_other_words_is_paid_again(served: Service) -> None:
    """Averaging is no attack: every new draw of noise has its price."""
    name = "people"
    queries = [COUNT.format(name=name), f"SELECT dept, COUNT(*) AS n FROM {name} WHERE pay >= 0 GROUP BY dept"]
    for query in (*queries, *queries):
        assert served.wait(served.ask(query=query, epsilon="0.02")).state is AskState.ANSWERED
    assert len(served.list_entries(Debit)) == 2, "each once, and its repetition is free"


def test_the_logs_of_a_worker_hold_no_question_person_or_answer(served: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Also when an engine fails with a message of its own, which the owner's log alone may hold."""
    caplog.set_level(logging.DEBUG)
    secret = "SELECT COUNT(*) AS n FROM people WHERE dept = 'Xanadu-7'"
    served.wait(served.ask(query=secret, epsilon="0.02"))

    def fail(original: Any, bounded: Any) -> Any:
        raise OutOfResources("Xanadu-7 of ada")

    served.change_engine(fail)
    served.wait(served.ask(query=secret, epsilon="0.03"))
    said = [each for each in caplog.records if each.name.startswith("discreet") and each.name != owner_log.name]
    logged = "\n".join(f"{each.getMessage()} {each.exc_text or ''}" for each in said)
    for word in ("Xanadu", "ada", "SELECT", "dept"):
        assert not re.search(rf"\b{word}\b", logged), logged
    from prometheus_client import generate_latest

    shown = generate_latest(Metrics(served.control).registry).decode()
    assert "Xanadu" not in shown
    assert not re.search(r"\b(ada|people|visits)\b", shown)


# -- text of others -------------------------------------------------------------------------------------------------------

MARKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' hx-get='/in",
    "{{7*7}}",
    "</bdi>",
    "<b hx-on:load=x>",
]
TEXT = st.one_of(
    st.sampled_from(MARKS),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf")), min_size=1, max_size=30),
    st.builds("{}{}".format, st.sampled_from(MARKS), st.text("abc<>&\"'=/", max_size=8)),
)
UNSAFE = re.compile(r"<script>alert|<img src=x|<b hx-on|onerror=alert\(1\)>|hx-get='/in", re.IGNORECASE)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebService, Client, Client]]:

    with open_web(tmp_path_factory.mktemp("web"), replace(OPEN, pages=True)) as it:
        browser = it.client()
        browser.post("/in", data={"once": it.control.add_link("ada")})
        yield it, it.client("ada"), browser


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(alias=TEXT, key=TEXT)
def test_no_alias_or_key_becomes_markup(web: tuple[WebService, Client, Client], alias: str, key: str) -> None:
    """In no format of the API that a browser could draw, and on no page."""
    service, client, browser = web
    quoted, literal = alias.replace('"', '""'), key.replace("'", "''")
    query = f"SELECT dept, COUNT(*) AS \"{quoted}\" FROM people WHERE city = '{literal}' GROUP BY dept"
    asked = client.post("/api/v1/asks", json={"table": "people", "query": query, "epsilon": 0.01})
    if asked.status_code == 202:
        service.answer()
    paths = ["/api/v1/asks"]
    if asked.status_code in (200, 202):
        ask = asked.json()["id"]
        paths += [f"/api/v1/asks/{ask}", f"/a/{ask}", "/asks", "/"]
        paths += [f"/api/v1/asks/{ask}/answer?format={each}" for each in ("json", "csv", "spreadsheet", "ndjson")]
        sheet = client.get(f"/api/v1/asks/{ask}/answer?format=spreadsheet")
        cells = [cell for row in csv.reader(io.StringIO(sheet.text)) for cell in row]
        assert not any(cell[:1] in ("=", "+", "-", "@") and not _is_number(cell) for cell in cells)
    for response in (asked, *((client if path.startswith("/api") else browser).get(path) for path in paths)):
        kind = response.headers.get("content-type", "")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in response.headers["content-security-policy"]
        assert response.status_code < 500
        if "html" in kind or "svg" in kind:
            assert not UNSAFE.search(response.text), (response.url, alias, key)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_markup_that_is_not_escaped_would_be_found() -> None:
    assert all(UNSAFE.search(f"<td>{mark}</td>") for mark in MARKS if "alert" in mark)
    assert not UNSAFE.search("<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>")
