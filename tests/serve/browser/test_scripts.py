"""What scripts add: keys, names that are inserted and completed, parts that are swapped in. None of it is a barrier."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from discreet.serve.control.model import Rules
from tests.support.served_pages import find_barriers
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, QUERY, Service, open_service


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    bound, port = find_socket()
    address = f"http://127.0.0.1:{port}"
    settings = replace(OPEN, pages=True, address=address)
    with open_service(tmp_path_factory.mktemp("scripts"), settings) as service, serve(service.app, bound):
        yield service, address


@pytest.fixture
def visit(served: tuple[Service, str], chromium: Any) -> Iterator[Any]:
    """Opens a page of the service as a person; whatever a script complains of fails the test."""
    service, address = served
    contexts, complaints = [], list[str]()

    def visit(person: str, path: str, **given: Any) -> Any:
        _, secret = service.control.add_login(person)
        context = chromium.new_context(**given)
        contexts.append(context)
        context.add_cookies([{"name": "discreet", "value": secret, "url": address}])
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address + path)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def ask(served: tuple[Service, str], query: str, epsilon: float = 0.1) -> str:
    """Ask as Ada, and return the id of the ask."""
    service, address = served
    body = {"table": "people", "query": query, "epsilon": epsilon}
    taken = service.client("ada", address=address).post("/api/v1/asks", json=body)
    assert taken.status_code == 202, taken.text
    return str(taken.json()["id"])


# Keys


def test_slash_goes_to_the_search_or_the_query(visit: Any) -> None:
    page = visit("ada", "/asks")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.press("/")
    assert page.input_value("#text") == "/"  # in a field it is a letter
    page = visit("ada", "/t/people/ask")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"


def test_j_and_k_walk_along_a_list(served: tuple[Service, str], visit: Any) -> None:
    for number in range(3):
        ask(served, f"SELECT COUNT(*) AS n{number} FROM people")
    page = visit("ada", "/asks")
    links = [each.get_attribute("href") for each in page.locator(".list a.main").all()]
    at = "document.activeElement.getAttribute('href')"
    for key, expected in (("k", 0), ("k", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0), ("j", 1)):
        page.keyboard.press(key)
        assert page.evaluate(at) == links[expected], key
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{links[1]}")


def test_a_and_d_go_to_the_decisions_and_decide_nothing(served: tuple[Service, str], visit: Any) -> None:
    service, _ = served
    service.register(rules=Rules(epsilon_per_ask="1/100"))
    asked = ask(served, QUERY, 0.3)
    service.register()
    page = visit("sam", f"/r/{asked}")
    for key, expected in (("a", "approve"), ("d", "decline")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == expected
    page.locator("#comment").press("a")
    assert page.input_value("#comment") == "a"
    request = service.control.find_request(asked)
    assert request is not None
    assert request.state == "open"


def test_the_question_mark_lists_the_keys(visit: Any) -> None:
    page = visit("ada", "/b", bypass_csp=True)
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    assert find_barriers(page) == []
    page.keyboard.press("Escape")
    assert page.locator("#keys").is_hidden()
    page.keyboard.press("?")
    page.locator("[data-close]").click()
    assert page.locator("#keys").is_hidden()


# Names


def test_names_complete_what_is_typed(visit: Any) -> None:
    page = visit("ada", "/t/people/ask", bypass_csp=True)
    query, options = page.locator("#query"), page.locator("#options li")
    query.fill("")
    query.press_sequentially("SELECT de")
    assert options.all_inner_texts() == ["dept"]
    assert query.get_attribute("aria-activedescendant") is None
    query.press("ArrowDown")
    assert query.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    assert find_barriers(page) == []
    query.press("Enter")
    query.press_sequentially(", AV")
    query.press("ArrowDown")
    query.press("Enter")
    query.press_sequentially("pay")
    assert query.input_value() == "SELECT dept, AVG(pay)"
    query.press("Control+End")
    query.press_sequentially(" AS m FROM people WHERE dept <> '")
    query.press("Control+Space")
    assert options.all_inner_texts() == ["a", "b"]  # in a literal, keys alone
    query.press("Escape")
    query.press_sequentially("b")
    assert options.all_inner_texts() == []  # it is whole
    query.press_sequentially("'")
    query.press("Control+Space")
    assert options.count() == 8
    query.press("Escape")
    assert options.count() == 0
    query.press_sequentially(" GR")
    query.press("Enter")  # nothing is chosen: a line ends, as in any field
    assert query.input_value() == "SELECT dept, AVG(pay) AS m FROM people WHERE dept <> 'b' GR\n"
    query.press_sequentially("de")
    query.press("Tab")
    assert options.count() == 0
    assert page.evaluate("document.activeElement.id") != "query"  # no trap


def test_names_are_inserted_at_the_cursor_and_quoted(served: tuple[Service, str], visit: Any) -> None:
    page = visit("ada", "/t/people/ask")
    page.fill("#query", "SELECT COUNT(*) AS n FROM people WHERE")
    page.locator("summary", has_text="Names").click()
    page.get_by_role("button", name="dept", exact=True).press("Enter")
    page.locator("#query").press_sequentially(" = ")
    page.get_by_role("list", name="Keys of dept").get_by_role("button", name="a").click()
    assert page.input_value("#query") == "SELECT COUNT(*) AS n FROM people WHERE dept = 'a'"
    page.locator("#go").wait_for()  # the quote followed
    plain = visit("ada", "/t/people/ask", java_script_enabled=False)
    plain.locator("summary", has_text="Names").click()
    assert plain.get_by_role("list", name="Columns").inner_text().split() == ["id", "dept", "city", "pay"]
    assert plain.locator("button.name").count() == 0


# Parts that are swapped in


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_parts_that_are_swapped_in_have_no_barrier(served: tuple[Service, str], visit: Any, scheme: str) -> None:
    service, address = served
    page = visit("ada", "/t/people/ask", bypass_csp=True, color_scheme=scheme, viewport={"width": 390, "height": 800})
    found = {}
    page.fill("#query", f"SELECT COUNT(*) AS {scheme} FROM people")
    page.locator("#quote dt", has_text=scheme).wait_for()
    page.locator("#preview img.chart").wait_for()
    found["quote"] = find_barriers(page)
    page.fill("#query", "SELECT nothing FROM people")
    page.locator("#quote .note mark").wait_for()  # quietly, while one types
    found["problem"] = find_barriers(page)
    page.fill("#error", "0,05")
    page.locator("#quote .problem", has_text="comma").wait_for()
    found["comma"] = find_barriers(page)
    page.locator("summary", has_text="Builder").click()
    page.select_option("#by", "col:dept")
    page.wait_for_function("() => document.querySelector('#query').value.includes('GROUP BY')")
    found["builder"] = find_barriers(page)
    asked = ask(served, f"SELECT SUM(pay) AS {scheme} FROM people")
    page.goto(f"{address}/a/{asked}")
    with page.expect_response(f"**/a/{asked}/state") as swapped:
        pass
    assert swapped.value.status == 200
    page.locator("#state .state", has_text="waiting").wait_for()
    found["waiting"] = find_barriers(page)
    service.answer()
    page.locator("h1", has_text="Answer").wait_for()
    found["answer"] = find_barriers(page)
    assert not any(found.values()), found
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
