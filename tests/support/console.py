"""The console script, in this process or in one of its own."""

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
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


def feed(folder: Path, content: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run `discreet …` in this process and in a folder, with these bytes on its standard input: the bytes that it writes."""
    streams = [io.TextIOWrapper(io.BytesIO(each), encoding="utf-8", write_through=True) for each in (content, b"", b"")]
    command, code, written = ["discreet", *map(str, arguments)], 0, streams[1:]
    with (
        chdir(folder), patch.object(sys, "argv", command), patch.object(cli, "app", _build_command()),
        patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
    ):  # fmt: skip
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    out, err = (each.buffer.getvalue() for each in written)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(command, code, out, err)


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `discreet …` in a process of its own, as a user does."""
    return subprocess.run([DISCREET, *arguments], capture_output=True, text=True, timeout=60, check=False)
