"""Whole paths through the pages: the analyst's and the steward's, with scripts and without, and with the keyboard alone."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.served_pages import QUERY, Running


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def page(request: pytest.FixtureRequest, running: Running, chromium: Any, cookies: list[Any]) -> Iterator[Any]:
    context = chromium.new_context(java_script_enabled=request.param)
    context.add_cookies(cookies)
    yield context.new_page()
    context.close()


def read_text(page: Any) -> str:
    return str(page.locator("main").inner_text())


def wait_for_text(page: Any, text: str, place: str = "main") -> None:
    """A page that was reached by a click may still be arriving: its text is waited for, not read."""
    page.locator(place).get_by_text(text).first.wait_for()


def test_an_analyst_quotes_asks_and_downloads(page: Any, running: Running) -> None:
    page.goto(running.address)
    page.get_by_role("link", name="Ask people").click()
    page.fill("#query", "SELECT dept, COUNT(* FROM people")
    page.get_by_role("button", name="Quote again").click()
    page.locator(".problem").first.wait_for()
    assert "line 1" in page.locator("#quote").inner_text().lower()
    page.fill("#query", QUERY)
    page.fill("#error", "0,05")
    page.locator("#quote button[value=quote]").click()
    page.locator(".problem", has_text="comma").wait_for()
    page.get_by_role("button", name="coarse").click()
    page.locator("#quote dt", has_text="mean_pay").wait_for()
    quote = page.locator("#quote").inner_text()
    assert "You have ε" in quote
    assert "everybody together has ε" in quote
    assert "more like this" in quote or "answered already" in quote
    button = page.locator("#go").inner_text()
    page.locator("#go").click()
    page.locator("h1", has_text=re.compile("Ask for|Show the answer")).wait_for()
    assert page.locator("button[value=ask]").inner_text() == button
    page.locator("button[value=ask]").click()
    page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    assert "sales" in page.locator("table").first.inner_text()
    assert page.locator("img.chart").evaluate("node => node.decode().then(() => node.naturalWidth)") > 100
    for name in ("CSV", "for spreadsheets", "JSON", "NDJSON", "Arrow", "Parquet", "SVG", "PNG", "Vega-Lite"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        assert download.value.path().stat().st_size > 20
    page.get_by_label("nothing below 0").check()
    page.get_by_label("whole numbers").check()
    page.get_by_role("button", name="Show this view").click()
    page.get_by_text("This is a view of the answer after post-processing").wait_for()
    page.get_by_role("link", name="The answer as it was recorded").click()
    page.get_by_role("button", name="Check now").click()
    page.locator("h1", has_text="certificate valid").wait_for(timeout=30_000)
    answered = page.url.removesuffix("/check")
    page.goto(f"{running.address}/asks")
    page.locator(".list a.main").first.click()
    assert page.url == answered


def test_a_repeated_question_is_free(page: Any, running: Running) -> None:
    for _ in range(2):
        page.goto(f"{running.address}/t/people/ask")
        page.fill("#query", "SELECT COUNT(*) AS n FROM people")
        page.locator("#quote button[value=quote]").click()
        page.locator("#quote dt", has_text=re.compile("^n$")).wait_for()
        page.locator("#go").click()
        page.locator("button[value=ask]").click()
        page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    wait_for_text(page, "Free: recorded before")


def test_the_builder_writes_the_query(page: Any, running: Running) -> None:
    page.goto(f"{running.address}/t/people/ask")
    page.locator("summary", has_text="Builder").click()
    page.select_option("#second", "avg:pay")
    page.select_option("#by", "col:dept")
    page.select_option("#where", "age")
    page.select_option("#order", ">=")
    page.fill("#value", "30")
    page.get_by_role("button", name="Write the SQL").click()
    page.locator("#quote dt", has_text="mean_pay").wait_for()
    written = page.locator("#query").input_value()
    assert written == "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean_pay\nFROM people\nWHERE age >= 30\nGROUP BY dept"


def test_a_steward_grants_rules_and_approves(
    request: pytest.FixtureRequest, page: Any, running: Running, chromium: Any
) -> None:
    has_scripts = "no scripts" not in request.node.name
    person = "ada" if has_scripts else "bea"
    page.goto(f"{running.address}/people")
    page.fill("#new-id", person)
    page.fill("#new-name", f"{person} <b>Example</b>")
    page.get_by_role("button", name="Add", exact=True).click()
    section = page.locator("section", has=page.locator("h2", has_text=f"{person} <b>Example</b>"))
    section.locator("summary", has_text="Change").click()
    section.get_by_label("Grant a table").select_option("people")
    section.get_by_label("Own ε").fill("1")
    section.get_by_role("button", name="Grant", exact=True).click()
    wait_for_text(page, "cannot be changed later")
    page.get_by_role("button", name="Grant ε = 1 for life").click()
    page.goto(f"{running.address}/t/people/rules")
    page.fill("#epsilon_per_ask", "0.2" if has_scripts else "0.25")
    page.get_by_role("button", name="Show what changes").click()
    wait_for_text(page, "epsilon_per_ask", ".diff")
    page.get_by_role("button", name="Put these rules into force").click()
    wait_for_text(page, "at most ε")
    page.goto(f"{running.address}/people")
    section.locator("summary", has_text="Change").click()
    section.get_by_role("button", name="Link that signs in").click()
    link = page.locator(".secret").inner_text()

    analyst = chromium.new_context(java_script_enabled=has_scripts)
    hers = analyst.new_page()
    hers.goto(link)
    hers.goto(f"{running.address}/people")
    wait_for_text(hers, "Only a steward")
    hers.goto(f"{running.address}/t/people/ask")
    hers.fill("#query", f"SELECT COUNT(*) AS n FROM people WHERE age >= {30 + has_scripts}")
    hers.locator("details", has_text="I know ε").locator("summary").click()
    hers.fill("#epsilon", "0.5")
    hers.locator("#quote button[value=quote]").click()
    hers.locator("#go", has_text="Request approval").click()
    hers.fill("#purpose", "for the yearly report")
    hers.locator("button[value=ask]").click()
    hers.get_by_text("A steward must approve it").first.wait_for()
    asked = hers.url

    page.goto(f"{running.address}/r")
    page.locator(".list a.main").first.click()
    wait_for_text(page, "for the yearly report")
    page.locator("#comment").fill("for which year?")
    page.get_by_role("button", name="Return with a question").click()
    hers.goto(asked.replace("/a/", "/r/"))
    wait_for_text(hers, "for which year?")
    hers.locator("#comment").fill("2026")
    hers.get_by_role("button", name="Send").click()
    page.goto(asked.replace("/a/", "/r/"))
    wait_for_text(page, "2026")
    page.locator("#approve").click()
    hers.goto(asked)
    hers.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    wait_for_text(hers, "everybody together has ε")
    analyst.close()
    page.goto(f"{running.address}/trail")
    page.get_by_role("button", name="Check the whole trail").click()
    page.get_by_text("The trail is whole").wait_for()
    page.goto(f"{running.address}/t/people/rules")
    page.fill("#epsilon_per_ask", "")
    page.get_by_role("button", name="Show what changes").click()
    page.get_by_role("button", name="Put these rules into force").click()


def test_a_policy_is_proposed_and_not_in_force(page: Any, running: Running) -> None:
    page.goto(f"{running.address}/t/people/policy")
    text = page.locator("#policy").input_value()
    page.fill("#policy", text.replace("upper = 200", "upper = 300"))
    page.get_by_role("button", name="Show what changes").click()
    wait_for_text(page, "+upper = 300", ".diff")
    wait_for_text(page, "What three questions cost")
    page.get_by_role("button", name="Propose this policy").click()
    page.get_by_text("discreet serve policy-accept").first.wait_for()
    page.goto(f"{running.address}/t/people")
    wait_for_text(page, "0 to 200")


def test_tokens_are_shown_once(page: Any, running: Running) -> None:
    page.goto(f"{running.address}/me")
    page.fill("#label", "my notebook")
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator(".secret").inner_text()
    assert secret.startswith("dsc_")
    page.goto(f"{running.address}/me")
    assert secret not in page.content()
    page.locator("summary", has_text="Revoke my notebook").first.click()
    page.get_by_role("button", name="Revoke my notebook").first.click()
    wait_for_text(page, "revoked")


def test_a_stranger_checks_a_certificate(page: Any, running: Running, cookies: list[Any]) -> None:
    page.goto(f"{running.address}/t/people/ask")
    page.fill("#query", "SELECT COUNT(*) AS n FROM people")
    page.locator("#quote button[value=quote]").click()
    page.locator("#go").click()
    page.locator("button[value=ask]").click()
    page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    with page.expect_download(timeout=30_000) as download:
        page.get_by_role("link", name="Fetch it").click()
    certificate = download.value.path().read_text()
    page.context.clear_cookies()
    page.goto(f"{running.address}/verify")
    page.fill("#text", certificate)
    page.get_by_role("button", name="Check", exact=True).click()
    wait_for_text(page, "Valid.")
    assert "Not valid" not in read_text(page)
    changed = json.loads(certificate)
    next(iter(value for value in changed.values() if isinstance(value, dict)))["changed"] = 1
    page.fill("#text", json.dumps(changed))
    page.get_by_role("button", name="Check", exact=True).click()
    wait_for_text(page, "Not valid.")
    assert "Valid." not in read_text(page).replace("Not valid.", "")


def test_the_keyboard_alone_is_enough(running: Running, chromium: Any, cookies: list[Any]) -> None:
    context = chromium.new_context()
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(running.address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tab_to(page, "document.activeElement.textContent.trim() === 'Ask people'")
    page.keyboard.press("Enter")
    page.locator("#go").wait_for()
    tab_to(page, "document.activeElement.id === 'query'")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT COUNT(*) AS k FROM people WHERE pay >= 50")
    page.locator("#quote dt", has_text=re.compile("^k$")).wait_for()
    page.keyboard.press("Control+Shift+Enter")
    page.locator("button[value=ask]").wait_for()
    assert page.evaluate("document.activeElement.value") == "ask"
    page.keyboard.press("Enter")
    page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    tab_to(page, "document.activeElement.textContent.trim() === 'CSV'")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.endswith(".csv")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.locator("h1", has_text="Budgets").wait_for()
    context.close()


def tab_to(page: Any, condition: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(condition):
            return
    raise AssertionError(f"no element is reached: {condition}")


def test_the_quote_is_live(running: Running, chromium: Any, cookies: list[Any]) -> None:
    context = chromium.new_context()
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(f"{running.address}/t/people/ask")
    page.fill("#query", "SELECT COUNT(*) AS alive FROM people")
    page.locator("#quote dt", has_text="alive").wait_for(timeout=5_000)
    assert page.url.endswith("/ask")
    page.locator("#preview img.chart").wait_for()
    context.close()
