"""All pages: no barrier that axe-core finds, light and dark; one heading, small, few requests, nothing from elsewhere."""

from typing import Any

import pytest

from tests.support.served_pages import STEWARDS_PAGES, TABLE_PAGES, Running, Traffic, ask, find_barriers_in_all_views

PAGES = (*STEWARDS_PAGES, *TABLE_PAGES, "/t/people/ask?query=SELECT+nothing+FROM+people", "/t/nowhere", "/asks?text=x")
MAX_BYTES, MAX_REQUESTS = 60_000, 6


@pytest.fixture(scope="module")
def answer(running: Running, chromium: Any, cookies: list[Any]) -> str:
    context = chromium.new_context()
    context.add_cookies(cookies)
    address = ask(context.new_page(), running.address)
    context.close()
    return address.removeprefix(running.address)


def test_no_page_has_a_barrier(running: Running, chromium: Any, cookies: list[Any], answer: str) -> None:
    context = chromium.new_context(bypass_csp=True)
    context.add_cookies(cookies)
    page = context.new_page()
    found = []
    for path in (*PAGES, answer, f"{answer}?non_negative=yes&integers=yes", "/b?report=data"):
        page.goto(running.address + path)
        assert page.locator("h1").count() == 1, path
        found += find_barriers_in_all_views(page, path)
    for path in ("/t/people/ask", "/b"):
        page.goto(running.address + path)
        for summary in page.locator("summary").all():
            summary.click()
        found += find_barriers_in_all_views(page, f"{path}, opened")
    page.goto(f"{running.address}/t/people/ask")
    page.locator("button[value=confirm]").click()
    page.locator("button[value=ask]").wait_for()
    found += find_barriers_in_all_views(page, "confirm")
    context.clear_cookies()
    for path in ("/in", "/in?once=12345678", "/verify", "/api", "/errors"):
        page.goto(running.address + path)
        found += find_barriers_in_all_views(page, f"stranger {path}")
    context.close()
    assert not found, "\n".join(found)


def test_pages_are_small_and_load_nothing_from_elsewhere(
    running: Running, chromium: Any, cookies: list[Any], answer: str
) -> None:
    for path in (*PAGES, answer):
        context = chromium.new_context()
        context.add_cookies(cookies)
        page = context.new_page()
        complaints: list[str] = []
        traffic = Traffic(page)
        page.on(
            "console", lambda said, into=complaints: into.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error, into=complaints: into.append(str(error)))
        expected = page.goto(running.address + path).status
        traffic.settle(page)
        responses = traffic.responses
        assert all(each.url.startswith(running.address) for each in responses), path
        assert len(responses) <= MAX_REQUESTS, [each.url for each in responses]
        sizes = {each.url: each.request.sizes()["responseBodySize"] for each in responses if ".svg?" not in each.url}
        charts = sum(size for url, size in sizes.items() if "chart.svg" in url)
        assert sum(sizes.values()) - charts <= MAX_BYTES, (path, sizes)
        assert complaints == [] or expected != 200, (path, complaints)
        context.close()
