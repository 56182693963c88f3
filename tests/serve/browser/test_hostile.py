"""Names, keys and aliases that try to be markup, in a real browser: no node, no request, no dialog, and they wrap."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.served_pages import find_barriers
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, POLICY, Service, answer_query, open_service

SCRIPT = "<script>document.title='taken'</script>"
IMAGE = "<img src=/out?taken onerror=document.title='taken'>"
LIVE = '"><div hx-get="/out?taken" hx-trigger="load">'
TURNED = "\u202egnp.exe א"
LONG = "x" * 400
HOSTILE = (SCRIPT, IMAGE, LIVE, TURNED, LONG)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    bound, port = find_socket()
    address = f"http://127.0.0.1:{port}"
    settings = replace(OPEN, pages=True, address=address)
    with open_service(tmp_path_factory.mktemp("hostile"), settings) as service, serve(service.app, bound):
        yield service, address


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "image", "htmx", "turned", "long"])
@pytest.mark.parametrize("width", [375, 1280])
def test_hostile_texts_stay_texts(hostile: tuple[Service, str], chromium: Any, text: str, width: int) -> None:
    service, address = hostile
    key = text.replace("\u202e", "").replace("'", "''").replace("\\", "")
    declared = POLICY.replace('keys = ["a", "b"]', f"keys = ['a', '''{key[:60]}''']")
    service.register(title=text, description=text, policy=declared, notes=(text,), label=text)
    alias = '"' + text.replace('"', '""')[:100] + '"'
    query = f"SELECT dept, COUNT(*) AS {alias} FROM people GROUP BY dept"
    _, secret = service.control.add_login("ada")
    context = chromium.new_context(viewport={"width": width, "height": 800}, bypass_csp=True)
    context.add_cookies([{"name": "discreet", "value": secret, "url": address}])
    page = context.new_page()
    requests: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    shown = [f"/t/people/ask?{urlencode({'query': query})}", "/", "/t/people", "/t/people/policy", "/t/people/rules"]
    for path in shown:
        response = page.goto(address + path)
        assert response.status == 200, path
        page.wait_for_load_state("networkidle")
        assert page.title() != "taken"
        assert page.locator("main script, main [onerror], main [hx-get]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the window"
        assert find_barriers(page) == []
    assert dialogs == []
    assert not [url for url in requests if "taken" in url.partition("?")[0] or "/out" in url.partition("?")[0]]
    context.close()
