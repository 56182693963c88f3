"""What the README shows is what runs: its commands, and its example in Python with what that prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
SHOWN = re.findall(r"^\$ \.venv/bin/(discreet .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", SHOWN)
def test_it_runs_and_shows_a_table(command: str) -> None:
    words = shlex.split(command)
    done = subprocess.run(
        [Path(sys.executable).with_name(words[0]), *words[1:]],
        cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition(command)[2].partition("```")[0]
    words = set(re.findall(r"[a-z]{4,}", shown)) - {
        "marks",
        "values",
        "whose",
        "interval",
        "wider",
        "than",
        "tenth",
        "them",
        "either",
    }
    assert len(words) > 20
    assert words <= set(re.findall(r"[a-z]{4,}", done.stdout)), "all but the noise, and the note on what it makes unreliable"


def without_digits(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def test_the_example_in_python_prints_what_is_shown_but_for_the_noise() -> None:
    [(program, shown)] = EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(shown.splitlines()) == 3
    assert without_digits(done.stdout) == without_digits(shown)
