"""What a notebook and a written page show, looked at in headless Chromium, light and dark.

A notebook runs in a real kernel, with and without ipywidgets, and its outputs are put on a page as a viewer puts them: HTML
as it is, SVG beside it. The table and the chart must be seen, scripts must not complain, and nothing may be loaded.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from PIL import Image

from discreet.vega import MIME_TYPE
from find_browser import find_browser
from tests.kernel import fill_outputs, notebook_of
from tests.support.browser import Browser, Page, open_browser
from tests.support.charted_answers import ANSWERS, HOSTILE_KEYS
from tests.test_notebook import SETUPS

ASKING = """
import duckdb
from discreet import connect

people = duckdb.connect()
people.execute(
    "CREATE TABLE people AS SELECT i AS id, CASE WHEN i % 4 = 0 THEN '<b>$x$</b>' ELSE 'sales' END AS dept, "
    "18 + i % 60 AS age FROM range(4000) t(i)"
)
session = connect(people, table="people", unit="id", unique=True, epsilon=5, keys={"dept": ("sales", "<b>$x$</b>", "legal")})
answer = session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1)
ages = session.ask("SELECT HISTOGRAM(age, 18, 30, 40, 50, 60, 78) AS age FROM people", epsilon=1)
"""
CELLS = (ASKING, "answer", "answer.plot()", "ages.plot()")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'; img-src data:"
SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}"><title>outputs</title></head>
<body>{outputs}</body></html>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as running:
        yield running


def put_on_page(notebook: NotebookNode) -> str:
    """Return a page of the outputs: the richest form that needs no script."""
    outputs = [output["data"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    shown = (data.get("text/html") or data.get("image/svg+xml") or f"<pre>{data['text/plain']}</pre>" for data in outputs)
    return SHELL.format(policy=POLICY, outputs="\n".join(f"<div class='output'>{each}</div>" for each in shown))


def colours(picture: bytes, box: dict[str, Any] | None = None) -> dict[tuple[int, int, int], int]:
    """Count the colours of a picture, or of a part of it."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    if box is not None:
        image = image.crop(tuple(int(box[side]) for side in ("left", "top", "right", "bottom")))
    return {colour: times for times, colour in image.getcolors(1 << 24) or []}  # type: ignore[misc]


SKY = (0x56, 0xB4, 0xE9)
"""The fill of what is reliable."""


def is_drawn(page: Page, selector: str) -> bool:
    """Whether the picture of an element is not blank and has bars of the chart's colour."""
    box = page.evaluate(f"JSON.parse(JSON.stringify(document.querySelector({selector!r}).getBoundingClientRect()))")
    found = colours(page.screenshot, box)
    return len(found) > 10 and found.get(SKY, 0) > 500


@pytest.fixture(scope="module", params=SETUPS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    return fill_outputs(notebook_of((SETUPS[request.param], *CELLS)), tmp_path_factory.mktemp("notebook"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_notebook_shows_the_table_and_the_charts(
    browser: Browser, filled: NotebookNode, dark: bool, tmp_path: Path
) -> None:
    path = tmp_path / "outputs.html"
    path.write_text(put_on_page(filled), encoding="utf-8")
    page = browser.look_at(path, dark=dark, height=1600)
    assert page.complaints == []
    assert page.requests == []
    assert page.evaluate("document.querySelectorAll('table tbody tr').length") == 3
    assert page.evaluate("document.querySelectorAll('.output svg').length") == 2
    assert is_drawn(page, ".output:nth-child(2) svg")
    assert is_drawn(page, ".output:nth-child(3) svg")
    assert "<b>$x$</b>" in page.evaluate("document.querySelector('table').innerText")
    assert page.evaluate("document.querySelectorAll('.output b').length") == 0


def test_a_notebook_holds_both_forms_of_a_chart(filled: NotebookNode) -> None:
    table, bars, cells = (cell.outputs[0]["data"] for cell in filled.cells[2:])
    assert "text/html" in table
    for chart in (bars, cells):
        assert {MIME_TYPE, "image/svg+xml", "text/plain"} == chart.keys()
    assert [len(chart[MIME_TYPE]["data"]["values"]) for chart in (bars, cells)] == [3, 5]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["hostile", "dates by key", "histogram and count"])
def test_a_written_page_draws_its_chart(browser: Browser, name: str, dark: bool, tmp_path: Path) -> None:
    path = tmp_path / "chart.html"
    ANSWERS[name].plot(path)
    page = browser.look_at(path, dark=dark, ready="document.querySelector('#chart svg') !== null", height=1400)
    assert page.complaints == []
    assert page.requests == []
    found = colours(page.screenshot)
    assert found[SKY] > 100
    ground = max(found, key=lambda colour: found[colour])
    assert (sum(ground) < 120) is dark
    texts = page.evaluate("[...document.querySelectorAll('#chart svg text')].map(each => each.textContent)")
    if name == "hostile":
        assert set(HOSTILE_KEYS[:9]) <= set(texts)  # as they are
        assert page.evaluate("document.querySelectorAll('#chart img, #chart b, #chart script, #chart a').length") == 0


MUTANTS = {
    "a script from elsewhere": "<script src='https://cdn.example.com/vega.js'></script>",
    "a picture from elsewhere": "<img src='http://example.com/x.png'>",
    "a script that raises": "<script>throw new Error('broken')</script>",
    "a script that complains": "<script>console.error('broken')</script>",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_page_that_loads_or_complains_is_noticed(browser: Browser, mutant: str, tmp_path: Path) -> None:
    path = tmp_path / "mutant.html"
    path.write_text(f"<!doctype html><title>x</title><body>{MUTANTS[mutant]}</body>", encoding="utf-8")
    page = browser.look_at(path)
    assert bool(page.requests) is ("elsewhere" in mutant)
    assert page.complaints


def test_a_blank_chart_is_noticed(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "blank.html"
    path.write_text("<!doctype html><title>x</title><svg width='400' height='200'></svg>", encoding="utf-8")
    assert not is_drawn(browser.look_at(path), "svg")


def test_a_browser_that_is_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    with pytest.raises(SystemExit, match="CHROMIUM is '/no/such/browser'"):
        find_browser()


def test_without_a_browser_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import find_browser as tool

    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        tool.main(["--install"])
