"""One service for the tests of a module, and one Chromium for all of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.served_pages import Running, open_chromium, serve_folder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_folder(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="package")  # no longer: Playwright's event loop runs as long, and other tests start their own
def chromium() -> Iterator[Any]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def cookies(running: Running, chromium: Any) -> list[dict[str, Any]]:
    """The owner's login, so that each test has a context of its own."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(running.link)
    found: list[dict[str, Any]] = context.cookies()
    context.close()
    return found
