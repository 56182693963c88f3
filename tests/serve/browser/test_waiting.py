"""Pages of asks that wait, requests and publications: no barrier, and the state stands in words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.serve.control.model import Rules
from tests.support.served_pages import find_barriers
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, QUERY, open_service

PLAN = '[budget]\nepsilon = 0.5\n\n[questions.q1]\nsql = "SELECT COUNT(*) AS n FROM people"\n'


def find_in_schemes(page: Any) -> list[str]:
    """Return the barriers of a page, light and dark."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += [f"{scheme}: {each}" for each in find_barriers(page)]
    return found


def test_waiting_pages_have_no_barrier(tmp_path: Path, chromium: Any) -> None:
    bound, port = find_socket()
    address = f"http://127.0.0.1:{port}"
    settings = replace(OPEN, pages=True, address=address)
    with open_service(tmp_path, settings) as service, serve(service.app, bound):
        ada = service.client("ada", address=address)
        body = {"table": "people", "query": QUERY, "epsilon": 0.1}
        waiting = ada.post("/api/v1/asks", json=body).json()["id"]
        service.register(rules=Rules(epsilon_per_ask="1/100"))
        requested = ada.post("/api/v1/asks", json=body | {"epsilon": 0.2, "purpose": "why not"}).json()["id"]
        published = ada.post("/api/v1/publications", json={"title": "All", "table": "people", "plan": PLAN}).json()["id"]
        for person, paths in (
            ("ada", (f"/a/{waiting}", f"/a/{requested}", f"/r/{requested}", "/r", f"/p/{published}", "/asks", "/")),
            ("sam", (f"/r/{requested}", "/r", f"/p/{published}", "/p", "/b", "/people", "/state", "/")),
            ("rea", ("/", "/p", "/me", "/b")),
        ):
            _, secret = service.control.add_login(person)
            context = chromium.new_context(bypass_csp=True)
            context.add_cookies([{"name": "discreet", "value": secret, "url": address}])
            page = context.new_page()
            for path in paths:
                assert page.goto(address + path).status == 200, path
                assert find_in_schemes(page) == [], (person, path)
            if person == "ada":
                page.goto(f"{address}/a/{waiting}")
                assert "waiting" in page.locator("#state").inner_text()
                page.get_by_role("button", name="Withdraw").click()
                page.locator("#state", has_text="withdrawn").wait_for()
                page.goto(f"{address}/a/{requested}")
                assert "for approval" in page.locator("#state").inner_text()
            if person == "sam":
                page.goto(f"{address}/r")
                page.get_by_label("choose").first.check()
                page.get_by_role("button", name="Approve the chosen ones").click()
                assert find_in_schemes(page) == []
                page.get_by_role("button", name="Approve for").click()
                assert service.control.count_waiting("ada") == 1
            context.close()
