"""The pages of the course show what their code prints: a block of text below a block of code is its output, line by line."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "guide").glob("[0-9]-*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def run_blocks(page: str) -> list[tuple[str, str | None]]:
    """What each block prints, and what the page says that it prints."""
    names: dict[str, object] = {}
    seen = []
    for code, text in BLOCK.findall(page):
        out = StringIO()
        with redirect_stdout(out):
            exec(compile(code, "page", "exec"), names)
        seen.append((out.getvalue(), text or None))
    return seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_code_prints(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for printed, shown in run_blocks(page.read_text(encoding="utf-8")):
        assert printed, "a block of the course shows a result"
        if shown is not None:
            assert printed == shown


def test_the_course_asserts_nothing() -> None:
    for page in PAGES:
        assert "assert " not in page.read_text(encoding="utf-8"), page.name


def test_a_wrong_output_is_noticed() -> None:
    ((printed, shown),) = run_blocks("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert (printed, shown) == ("2\n", "3\n")
