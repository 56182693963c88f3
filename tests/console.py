"""The console script, without a process of its own."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from discreet.cli import main


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What `discreet …` prints, and how it leaves."""
    command = ["discreet", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
