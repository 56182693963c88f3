"""What a shell completes: through the protocol of each shell, as typer's scripts call it."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from discreet.cli.options import TABLE_SUFFIXES, complete_accounts, complete_files
from discreet.engines.duckdb.engine import READERS
from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
from tests.support.console import DISCREET, run
from tests.support.people_csv import write_people


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a policy, a ledger with two accounts, and files that are none of these."""
    place = tmp_path_factory.mktemp("completed")
    write_people(place)
    (place / "policy.toml").touch()
    (place / "notes.ledger").write_text("not a ledger")
    (place / "deeper").mkdir()
    (place / "deeper" / "visits.parquet").touch()
    (place / ".hidden.csv").touch()
    for account in ("hr", "health"):
        assert run("ledger", "open", place / "l.ledger", "--account", account, "--epsilon", "1").returncode == 0
    return place


def run_process(folder: Path, asked: dict[str, str]) -> tuple[str, str]:
    """What the command prints in a process of its own, as a shell starts it."""
    done = subprocess.run(
        [sys.executable, DISCREET],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | asked,
    )
    return done.stdout, done.stderr


def run_here(folder: Path, asked: dict[str, str]) -> tuple[str, str]:
    """As `run_process`, in this process."""
    with chdir(folder), patch.dict(os.environ, asked):
        done = run()
    return done.stdout, done.stderr


def complete(line: str, shell: str, folder: Path, start: Callable[..., tuple[str, str]] = run_process) -> set[str]:
    """The words that a shell is offered for the last word of a line; an empty one if the line ends with a blank."""
    words = shlex.split(line) + [""] * line.endswith(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    printed, errors = start(folder, asked | {"_DISCREET_COMPLETE": f"complete_{shell}"})
    assert errors == ""
    if shell == "zsh":
        return set(re.findall(r'"([^":]+)"', printed))
    return {each.partition("\t")[0] for each in printed.splitlines()} - {""}


LINES = {
    "discreet local ": {"plan", "collection", "encode", "decode", "days", "simulate", "vectors", "shuffle"},
    "discreet local simulate --oracle h": {"hashed", "hadamard"},
    "discreet led": {"ledger"},
    "discreet ask ": {"people.csv"},
    "discreet ask deeper/": {"deeper/visits.parquet"},
    "discreet ask people.csv x --unit ": {"id", "dept", "age", "pay"},
    "discreet ask people.csv x --policy ": {"policy.toml"},
    "discreet ask people.csv x --ledger ": {"l.ledger"},
    "discreet ask people.csv x --ledger l.ledger --account h": {"hr", "health"},
    "discreet ask people.csv x --neighbours r": {"replace"},
    "discreet budget l.ledger --account hr": {"hr"},
    "discreet budget notes.ledger --account ": set(),
    "discreet budget missing.ledger --account ": set(),
    "discreet help led": {"ledger"},
    "discreet help ledger#q": {"ledger#quarantine"},
    "discreet plan m": {"mean"},
    "discreet lab show no": {name for name in FIGURES if name.startswith("no")},
    "discreet lab show erratum-1": {name for name in ERRATA if name.startswith("erratum-1")},
    "discreet lab exercise co": {name for name in EXERCISES if name.startswith("co")},
    "discreet lab attack ": set(ATTACKS),
}


@pytest.mark.parametrize("line", LINES)
def test_bash_completes(line: str, folder: Path) -> None:
    assert complete(line, "bash", folder, run_here) == LINES[line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_in_a_process_of_its_own(shell: str, folder: Path) -> None:
    assert {"hr", "health"} <= complete("discreet budget l.ledger --account h", shell, folder)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_calls_the_command(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, DISCREET], capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | {"_DISCREET_COMPLETE": f"source_{shell}"},
    )  # fmt: skip
    assert f"complete_{shell}" in done.stdout
    assert "discreet" in done.stdout


def test_every_kind_of_file_that_can_be_read_is_completed(tmp_path: Path) -> None:
    assert set(READERS) <= set(TABLE_SUFFIXES)
    for suffix in READERS:
        (tmp_path / f"a{suffix}").touch()
    assert len(complete_files(*TABLE_SUFFIXES)(f"{tmp_path}/")) == len(READERS)


def test_completion_leaves_a_ledger_as_it_is(folder: Path) -> None:
    context: Any = SimpleNamespace(params={"ledger": str(folder / "l.ledger")}, args=[])
    before = (folder / "l.ledger").read_bytes()
    assert complete_accounts(context, "he") == ["health"]
    assert (folder / "l.ledger").read_bytes() == before
