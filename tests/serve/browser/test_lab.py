"""The lab in a browser: a class from its opening to the score, with scripts and without; no barrier on any of its pages."""

from typing import Any

import pytest

from tests.support.served_pages import Running, find_barriers_in_all_views

PAGES = (
    "/lab", "/lab/join", "/lab/figure/noise-l1", "/lab/figure/k-anonymity", "/lab/erratum/erratum-1",
    "/lab/exercise/counties?answer=90.53", "/lab/exercise/counties?show=solution", "/lab/attack/differencing",
)  # fmt: skip


def open_class(page: Any, running: Running, title: str) -> tuple[str, str]:
    """Open a class as the teacher does. Returns its address and its code."""
    page.goto(f"{running.address}/lab")
    page.fill("#title", title)
    page.click("text=Open the class")
    code = page.locator(".secret").inner_text()
    for _ in range(100):
        if page.locator("text=Everybody together has").count():
            break
        page.wait_for_timeout(100)
        page.reload()
    return str(page.url), str(code)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_student_joins_asks_and_guesses(running: Running, chromium: Any, cookies: list[Any], scripts: bool) -> None:
    teacher = chromium.new_context(java_script_enabled=scripts)
    teacher.add_cookies(cookies)
    desk = teacher.new_page()
    address, code = open_class(desk, running, f"Class {scripts}")
    student = chromium.new_context(java_script_enabled=scripts)
    page = student.new_page()
    page.goto(f"{running.address}/lab/join")
    page.fill("#code", code)
    page.fill("#name", "Zoë")
    page.click("button:has-text('Join')")
    assert page.url == address
    for _ in range(100):
        if page.locator("h2#ask ~ p.actions a").count():
            break
        page.wait_for_timeout(100)
        page.reload()
    page.click("h2#ask ~ p.actions a")
    page.locator("#ask-form button[value=fair]").click()
    page.locator("#go").click()
    page.locator("button[value=ask]").click()
    page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    page.goto(address)
    for each in page.locator("fieldset input[value=no]").all():
        each.check()
    page.click("button[value=guess]")
    page.locator("text=Your guesses are in").wait_for()
    assert page.locator("text=You had").count() == 0  # a score before the class is closed would be a free answer
    desk.goto(address)
    seen = desk.locator("main").inner_text()
    assert "Zoë" in seen
    assert "1 guessed" in seen
    assert "0% spent" not in desk.locator("section:has(#root)").inner_text()
    page.goto(f"{running.address}/t/people")
    assert page.locator("h1", has_text="Not found").count() == 1
    desk.goto(address)
    desk.click("summary:has-text('Close the class')")
    desk.click("button[value=close]")
    desk.locator("text=The class is closed.").wait_for()
    page.goto(address)
    page.locator("text=You had").wait_for()
    teacher.close()
    student.close()


def test_a_slider_draws_again(running: Running, chromium: Any, cookies: list[Any]) -> None:
    context = chromium.new_context(color_scheme="light")
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(f"{running.address}/lab/figure/noise-l1")
    slider = page.locator("input[type=range][data-mirrors=p-k]")
    assert slider.is_visible()
    slider.focus()
    with page.expect_navigation():
        page.keyboard.press("End")
    assert page.input_value("#p-k") == "40"
    assert page.evaluate("document.querySelector('img.chart').naturalWidth > 0")
    find_filter = "getComputedStyle(document.querySelector('img.chart')).filter"
    assert page.evaluate(find_filter) == "none"
    page.emulate_media(color_scheme="dark")  # white paper becomes dark; hues stay
    assert page.evaluate(find_filter) == "invert(0.9) hue-rotate(180deg)"
    context.close()


def test_no_page_has_a_barrier(running: Running, chromium: Any, cookies: list[Any]) -> None:
    context = chromium.new_context(bypass_csp=True)
    context.add_cookies(cookies)
    page = context.new_page()
    address, code = open_class(page, running, "Statistics")
    page.goto(f"{running.address}/lab/join")
    page.fill("#code", code)
    page.click("button:has-text('Join')")  # the teacher takes part
    found = []
    for path in (*PAGES, address.removeprefix(running.address)):
        page.goto(running.address + path)
        assert page.locator("h1").count() == 1, path
        found += find_barriers_in_all_views(page, path)
    context.close()
    assert not found, "\n".join(found)
