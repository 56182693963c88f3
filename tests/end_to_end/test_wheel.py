"""`pip install discreet` gives a command that works: what the wheel requires is what the command imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wheel import ROOT, link_alone, list_requirements, read_metadata, unpack

RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from discreet.cli import main; main()"


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    return unpack(wheel, tmp_path_factory.mktemp("site"))


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with this folder and the standard library alone."""
    command = [sys.executable, "-I", "-S", "-c", RUN, str(place), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_COLOR": "1"})


def test_the_wheel_requires_what_the_command_needs(unpacked: Path) -> None:
    found = read_metadata(unpacked)
    assert {"typer", "rich"} <= set(list_requirements(found))
    assert "cli" not in (found.metadata.get_all("Provides-Extra") or ())
    assert any(each.value == "discreet.cli:main" for each in found.entry_points if each.name == "discreet")


def test_the_wheel_holds_the_pages_and_no_pictures(unpacked: Path) -> None:
    pages = {
        path.relative_to(unpacked / "discreet" / "docs").as_posix() for path in (unpacked / "discreet" / "docs").rglob("*.*")
    }
    assert pages == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} | {"glossary.md"}


def test_the_command_runs_with_the_wheels_own_requirements_alone(unpacked: Path, tmp_path: Path) -> None:
    place = link_alone(unpacked, list_requirements(read_metadata(unpacked)), tmp_path)
    help_text = run(place, "--help")
    assert help_text.returncode == 0, help_text.stderr
    assert "ask" in help_text.stdout
    question = "SELECT COUNT(*) AS n FROM people"
    asked = run(place, "ask", str(ROOT / "examples" / "people.csv"), question, "--unit", "id", "--epsilon", "1")
    assert asked.returncode == 0, asked.stderr
    assert "Cost" in asked.stdout


def test_a_wheel_without_typer_has_a_command_that_dies(unpacked: Path, tmp_path: Path) -> None:
    """So the test above sees a requirement that is missing."""
    names = [name for name in list_requirements(read_metadata(unpacked)) if name not in ("typer", "rich")]
    done = run(link_alone(unpacked, names, tmp_path), "--help")
    assert done.returncode != 0
    assert "ModuleNotFoundError: No module named 'typer'" in done.stderr


def test_importing_discreet_imports_neither_typer_nor_rich() -> None:
    """A session over a frame neither: only the command line and tables in a terminal need them."""
    program = (
        "import sys, discreet, pandas\n"
        "people = discreet.connect(pandas.DataFrame({'id': range(9)}), unit='id', table='people', epsilon=1)\n"
        "people.ask('SELECT COUNT(*) AS n FROM people', epsilon=1).to_csv()\n"
        "assert not {'typer', 'rich', 'click', 'matplotlib'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
