"""The console script, in this process or in one of its own."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from discreet import cli

DISCREET = str(Path(sys.executable).with_name("discreet"))


@cache
def _build_command() -> Any:
    """All commands with their parameters, which typer would build anew for every run."""
    return get_command(cli.app)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `discreet …` in this process: what it prints, and its exit code."""
    command = ["discreet", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    built = _build_command()
    with patch.object(sys, "argv", command), patch.object(cli, "app", built), redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `discreet …` in a process of its own, as a user does."""
    return subprocess.run([DISCREET, *arguments], capture_output=True, text=True, timeout=60, check=False)
