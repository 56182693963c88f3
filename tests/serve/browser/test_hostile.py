"""Names, keys and aliases that try to be markup, in a real browser: no node, no request, no dialog, and they wrap."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest

from discreet.serve.control.model import AskState
from discreet.text import to_printable
from tests.support.served_pages import Traffic, find_barriers
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, POLICY, QUERY, Service, answer_query, open_service

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
def test_hostile_texts_stay_texts(hostile: tuple[Service, str], chromium: Any, text: str) -> None:
    service, address = hostile
    key = text.replace("\u202e", "").replace("'", "''").replace("\\", "")
    declared = POLICY.replace('keys = ["a", "b"]', f"keys = ['a', '''{key[:60]}''']")
    service.register(title=text, description=text, policy=declared, notes=(text,), label=text)
    alias = '"' + text.replace('"', '""')[:100] + '"'
    query = f"SELECT dept, COUNT(*) AS {alias} FROM people GROUP BY dept"
    _, secret = service.control.add_login("ada")
    context = chromium.new_context(bypass_csp=True)
    context.add_cookies([{"name": "discreet", "value": secret, "url": address}])
    page = context.new_page()
    traffic, dialogs = Traffic(page), list[str]()
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    shown = [f"/t/people/ask?{urlencode({'query': query})}", "/", "/t/people", "/t/people/policy", "/t/people/rules"]
    for path in shown:
        response = page.goto(address + path)
        assert response.status == 200, path
        for width in (375, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            traffic.settle(page)
            assert page.title() != "taken"
            assert page.locator("main script, main [onerror], main [hx-get]").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than {width}"
            assert find_barriers(page) == []
    assert dialogs == []
    sent = [each.url.partition("?")[0] for each in traffic.requests]
    assert not [url for url in sent if "taken" in url or "/out" in url]
    context.close()


FRAGMENTS = (
    SCRIPT, IMAGE, LIVE, TURNED, "'", '"', "<", ">", "&lt;b&gt;", "</td></table>", "<svg onload=document.title='taken'>",
    "{{ 7*7 }}",
    "javascript:document.title='taken'", "\u200b", "\u2028", "\t", "\x00", "é" * 30, "W" * 80, "<!--", "]]>", "=1+1",
    '" hx-get="/out?taken" hx-trigger="load', "</script>", "<style>*{display:none}</style>", "<base href=/out>", "%00", "\\",
)  # fmt: skip


def make_text(chance: Random) -> str:
    """Return a text of some fragments."""
    return "".join(chance.choice(FRAGMENTS) for _ in range(chance.randint(1, 5)))[:300]


def answer_hostile(service: Service, query: str, chance: Random) -> str:
    """Have Ada ask, and answer with keys, an alias, notes and a statement that try to be markup."""
    taken = service.client("ada", address=service.settings.address).post(
        "/api/v1/asks", json={"table": "people", "query": query, "epsilon": 0.1}
    )
    assert taken.status_code == 202, taken.text
    job = service.control.claim("test", kinds=["ask"], per_person=None)
    assert job is not None
    answer = deepcopy(answer_query(QUERY, 0.1))
    alias = make_text(chance)
    cells = answer["record"]["rows"][0][1]
    answer["record"] |= {
        "groups": [make_text(chance)], "columns": [alias], "explanation": make_text(chance), "pipeline": [make_text(chance)],
        "rows": [[[key], cells] for key in dict.fromkeys(make_text(chance) for _ in range(60))],
    }  # fmt: skip
    answer["columns"][0] |= {"name": alias, "unit": make_text(chance)}
    answer["notes"] = [make_text(chance)]
    service.control.finish(job, to=AskState.ANSWERED, answer=answer, answered_at=1.0)
    return str(taken.json()["id"])


@pytest.mark.parametrize("seed", range(2))
def test_hostile_answers_stay_texts(hostile: tuple[Service, str], chromium: Any, seed: int) -> None:
    """No content security policy holds here: escaping is the only wall. The mutant marks a name as safe."""
    service, address = hostile
    chance = Random(seed)
    service.register()
    alias = '"x' + "".join(each for each in make_text(chance) if each.isprintable()).replace('"', '""') + '"'
    ask = answer_hostile(service, f"SELECT dept, COUNT(*) AS {alias} FROM people GROUP BY dept", chance)
    context = chromium.new_context(viewport={"width": 390, "height": 800}, bypass_csp=True)
    traffic, dialogs = Traffic(context), list[str]()
    context.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for person, paths in (
        ("ada", (f"/a/{ask}", f"/a/{ask}?non_negative=yes", "/asks", "/", "/b")),
        ("sam", (f"/a/{ask}", "/b")),
    ):
        _, secret = service.control.add_login(person)
        context.add_cookies([{"name": "discreet", "value": secret, "url": address}])
        page = context.new_page()
        for path in paths:
            assert page.goto(address + path).status == 200, path
            for summary in page.locator("summary").all():
                summary.click()
            assert page.title() != "taken"
            live = "main script, main style, main base, main [onerror], main [onload], main [hx-get], main [href^=java]"
            assert page.locator(live).count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the window"
        page.goto(f"{address}/a/{ask}")
        traffic.settle(page)
        found = service.control.find_ask(ask)
        assert found is not None
        assert found.answer is not None
        keys = [to_printable(each[0][0]) for each in found.answer["record"]["rows"]]
        assert page.locator("tbody th bdi").evaluate_all("nodes => nodes.map(node => node.textContent)") == keys
        assert page.locator("img.chart").evaluate("node => node.decode().then(() => node.naturalWidth)") > 0
    assert dialogs == []
    assert not [each.url for each in traffic.requests if "/out" in each.url.partition("?")[0]]
    context.close()
