"""The embedded service in a process of its own, as `discreet serve FOLDER` starts it, and a Chromium that visits it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from find_browser import ADVICE, find_browser
from vendor import fetch_axe

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
STEWARDS_PAGES = (
    "/",
    "/asks",
    "/b",
    "/r",
    "/p",
    "/people",
    "/me",
    "/trail",
    "/state",
    "/verify",
    "/api",
    "/errors",
    "/keys",
)
TABLE_PAGES = ("/t/people", "/t/people/ask", "/t/people/rules", "/t/people/policy")
VIEWS = [(scheme, width) for scheme in ("light", "dark") for width in (375, 1280)]
QUERY = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean_pay\nFROM people\nGROUP BY dept"


@dataclass
class Running:
    """A service that runs."""

    address: str
    link: str
    token: str
    folder: Path
    lines: list[str] = field(default_factory=list)


def find_free_port() -> int:
    """Return a port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve_folder(folder: Path) -> Iterator[Running]:
    """Serve a copy of the examples, and end it."""
    data = folder / "data"
    data.mkdir()
    for name in ("people.csv", "people.policy.toml"):
        shutil.copy(EXAMPLES / name, data / name)
    environment = os.environ | {
        "HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONUNBUFFERED": "1", "COLUMNS": "300",
    }  # fmt: skip
    command = [sys.executable, "-m", "discreet", "serve", str(data), "--port", str(find_free_port()), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if "Ctrl+C" in line:
                break
        text = "\n".join(lines)
        link, token = re.search(r"http://\S+/in\?once=\S+", text), re.search(r"dsc_[\w-]+", text)
        assert link is not None, text
        assert token is not None, text
        reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
        reader.start()
        yield Running(link[0].partition("/in?")[0], link[0], token[0], folder, lines)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start Chromium under Playwright."""
    from playwright.sync_api import sync_playwright

    program = find_browser()
    assert program is not None, f"{ADVICE} `make browser` does that."
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=[*flags, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


QUIET_MILLISECONDS = 60


class Traffic:
    """What a page or all pages of a context send and receive."""

    def __init__(self, source: Any) -> None:
        self.requests: list[Any] = []
        self.responses: list[Any] = []
        self._pending = 0
        source.on("request", self._begin)
        source.on("response", lambda response: self.responses.append(response))
        for ended in ("requestfinished", "requestfailed"):
            source.on(ended, self._end)

    def _begin(self, request: Any) -> None:
        self.requests.append(request)
        self._pending += 1

    def _end(self, _: Any) -> None:
        self._pending -= 1

    def settle(self, page: Any) -> None:
        """Wait until everything that a page requested has come, and it requests nothing more for a moment; Playwright's own
        state of this kind takes half a second to be reached."""
        before = -1
        while self._pending > 0 or len(self.requests) != before:
            before = len(self.requests)
            page.wait_for_timeout(QUIET_MILLISECONDS)


def find_barriers(page: Any) -> list[str]:
    """Return what axe-core finds on a page. The context of the page must bypass the policy, which refuses axe's script."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(fetch_axe().read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [
        f"{each['id']}: {node['html'][:160]} ({node['failureSummary'][:200]})" for each in found for node in each["nodes"]
    ]


def find_barriers_in_all_views(page: Any, name: str) -> list[str]:
    """Return the barriers of a page in all views, each with its name. No view is wider than the window."""
    found = []
    for scheme, width in VIEWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width}"
        found += [f"{name} ({scheme}, {width}): {each}" for each in find_barriers(page)]
    return found


def ask(page: Any, address: str, query: str = QUERY, **fields: str) -> str:
    """Ask through the pages as a person does, and return the address of the answer."""
    page.goto(f"{address}/t/people/ask")
    page.fill("#query", query)
    for name, value in fields.items():
        page.fill(f"#{name}", value)
    page.locator("#ask-form button[value=fair]").click()
    page.locator("#go").wait_for()
    page.locator("button[value=confirm]").click()
    page.locator("button[value=ask]").click()
    page.locator("h1", has_text="Answer").wait_for(timeout=20_000)
    return str(page.url)
