"""The pages about the service name tests. Each name is that of a test, so that the list of threats stays true."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").glob("serve*.md"))
NAMED = re.compile(r"`?(tests/[\w/]+\.py)(?:::(\w+))?`?")


def list_named(text: str) -> list[tuple[str, str]]:
    """Return the tests that a page names: a file, and a function or class of it where one is given."""
    return [(path, name) for path, name in NAMED.findall(text)]


def is_there(path: str, name: str) -> bool:
    """Whether a test of this name is in this file."""
    file = ROOT / path
    if not file.is_file():
        return False
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return not name or any(getattr(node, "name", None) == name for node in ast.walk(tree))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    missing = [f"{path}::{name}" for path, name in list_named(page.read_text(encoding="utf-8")) if not is_there(path, name)]
    assert missing == []


def test_a_name_that_is_gone_is_noticed() -> None:
    here = "tests/serve/test_threat_list.py"
    assert list_named(f"`{here}::test_x` and {here}") == [(here, "test_x"), (here, "")]
    assert is_there(here, "test_a_name_that_is_gone_is_noticed")
    assert not is_there(here, "test_that_was_renamed")
    assert not is_there("tests/serve/test_gone.py", "")
