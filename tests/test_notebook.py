"""The notebook says what the course says, its links lead somewhere, and it runs from top to bottom."""

import json
import re
import subprocess
import sys

from examples.notebook import NOTEBOOK, cells, notebook


def test_it_is_the_course() -> None:
    assert json.loads(NOTEBOOK.read_text(encoding="utf-8")) == notebook(), "run python examples/notebook.py"


def test_links_lead_somewhere() -> None:
    links = [link for kind, text in cells() if kind == "markdown" for link in re.findall(r"\]\(([^)#]+)", text)]
    assert len(links) > 20
    assert [link for link in links if not link.startswith("http") and not (NOTEBOOK.parent / link).exists()] == []


def test_it_runs() -> None:
    """As a kernel has it: every cell in one process, which starts in the notebook's folder."""
    program = "\n\n".join(text for kind, text in cells() if kind == "code")
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=NOTEBOOK.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
