"""Chromium without a window, spoken to in the DevTools protocol over a pair of pipes: no driver, no port, no network.

A page is opened from a file. What is loaded beyond it, what its scripts say on the console and what they raise are recorded.
"""

import fcntl
import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from find_browser import ADVICE, find_browser

FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
    "--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>",  # nothing listens there
)  # fmt: skip
TIMEOUT = 120.0


@dataclass
class Page:
    """What became of a page."""

    events: list[dict[str, Any]]
    evaluate: Any  # a function from an expression of JavaScript to its value
    screenshot: bytes = b""

    @property
    def requests(self) -> list[str]:
        """The addresses that it loaded, but for its own file and what it holds itself."""
        sent = [each["params"] for each in self.events if each.get("method") == "Network.requestWillBeSent"]
        urls = [each["request"]["url"] for each in sent]
        return [url for url in urls if not url.startswith(("data:", "blob:"))][1:]

    @property
    def complaints(self) -> list[str]:
        """What its scripts raised or reported as a warning or an error, and what its policy refused."""
        found = []
        for each in self.events:
            match each:
                case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                    found.append(json.dumps(details))
                case {"method": "Runtime.consoleAPICalled", "params": {"type": "error" | "warning" | "assert"} as said}:
                    found.append(json.dumps(said["args"]))
                case {"method": "Log.entryAdded", "params": {"entry": {"level": "error" | "warning", "text": text}}}:
                    found.append(text)
        return found


class Browser:
    """A running Chromium."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.to_browser, self.from_browser, self.number, self.rest = to_browser, from_browser, 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; events that come before it are recorded."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]  # type: ignore[no-any-return]
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        """Read until this event."""
        while not any(each.get("method") == method for each in self.events):
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        end = monotonic() + TIMEOUT
        while b"\0" not in self.rest:
            assert select([self.from_browser], [], [], max(0.0, end - monotonic()))[0], "Chromium does not answer"
            part = os.read(self.from_browser, 1 << 20)
            assert part, "Chromium has ended"
            self.rest += part
        first, _, self.rest = self.rest.partition(b"\0")
        return json.loads(first)  # type: ignore[no-any-return]

    def look_at(self, path: Path, *, dark: bool = False, ready: str = "true", width: int = 1000, height: int = 900) -> Page:
        """Open a file, wait until an expression is true, and take a picture."""
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self.events = []
        self.call("Page.navigate", session, url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

        def evaluate(expression: str) -> Any:
            return self.call("Runtime.evaluate", session, expression=expression, returnByValue=True, awaitPromise=True)[
                "result"
            ].get("value")

        end = monotonic() + TIMEOUT / 4
        while not evaluate(ready):
            assert monotonic() < end, (f"{ready} stays false", Page(self.events, evaluate).complaints)
        picture = b64decode(self.call("Page.captureScreenshot", session, captureBeyondViewport=True)["data"])
        return Page(self.events, evaluate, picture)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium, and end it."""
    program = find_browser()
    assert program is not None, f"{ADVICE} `make browser` does that."
    to_child, to_parent = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_child[0], to_parent[1])]

    def wire() -> None:  # Chromium reads from 3 and writes to 4
        os.dup2(theirs[0], 3)
        os.dup2(theirs[1], 4)

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # it cannot be built as root
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, *sandbox, f"--user-data-dir={profile}", "about:blank"]
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=wire,
            close_fds=False,
        )  # fmt: skip
        for end in (*theirs, to_child[0], to_parent[1]):
            os.close(end)
        try:
            browser = Browser(to_child[1], to_parent[0])
            yield browser
            with suppress(AssertionError, OSError):
                browser.call("Browser.close")
        finally:
            for end in (to_child[1], to_parent[0]):
                os.close(end)
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
