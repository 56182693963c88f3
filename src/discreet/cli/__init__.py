"""The command line: one file per command, with its signature and its body.

A command imports what it needs when it runs, so that `discreet --help` is quick.
"""

import gc
import os
import sys
from io import TextIOWrapper

# ruff: noqa: E402 (the modules load between these lines and the last `if`: a search for garbage would find none)
_collects_garbage = gc.isenabled()
gc.disable()

from discreet.cli.app import app, print_error

# in the order of `discreet --help`
from discreet.cli import demo  # isort: skip
from discreet.cli import ask  # isort: skip
from discreet.cli import quote  # isort: skip
from discreet.cli import login  # isort: skip
from discreet.cli import tabulate  # isort: skip
from discreet.cli import synthesize  # isort: skip
from discreet.cli import publish  # isort: skip
from discreet.cli import stream  # isort: skip
from discreet.cli import serve  # isort: skip
from discreet.cli import policy  # isort: skip
from discreet.cli import prepare  # isort: skip
from discreet.cli import budget  # isort: skip
from discreet.cli import ledger  # isort: skip
from discreet.cli import source  # isort: skip
from discreet.cli import local  # isort: skip
from discreet.cli import plan  # isort: skip
from discreet.cli import epsilon  # isort: skip
from discreet.cli import calibrate  # isort: skip
from discreet.cli import verify  # isort: skip
from discreet.cli import reproduce  # isort: skip
from discreet.cli import audit  # isort: skip
from discreet.cli import lab  # isort: skip
from discreet.cli import help  # isort: skip

if _collects_garbage:
    gc.enable()

__all__ = [
    "app", "ask", "audit", "budget", "calibrate", "demo", "epsilon", "help", "lab", "ledger", "local", "login", "main",
    "plan", "policy", "prepare", "publish", "quote", "reproduce", "serve", "source", "stream", "synthesize", "tabulate",
    "verify",
]  # fmt: skip

ALLOCATIONS_PER_COLLECTION = 100_000
"""Python's own 700 would search for garbage a hundred times while the modules of a command load, and find none."""


def main() -> None:
    """Run the console script. An error of discreet is one line on stderr and an exit code.

    1 a check failed, 2 usage or query, 3 budget, 4 source, engine, ledger or service. The engine's own messages, which may
    quote values, go to the file that DISCREET_OWNER_LOG names, and nowhere without it.
    """
    from discreet.errors import (
        AskPending,
        BudgetExceeded,
        DiscreetError,
        EngineFailed,
        LedgerCorrupted,
        LedgerUnavailable,
        NotFound,
        NotSignedIn,
        ServiceChanged,
        ServiceUnavailable,
        SourceRefused,
    )

    gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
    _escape_unencodable()
    try:
        if path := os.environ.get("DISCREET_OWNER_LOG"):
            from discreet.engines.base import open_log_file, owner_log

            owner_log.addHandler(open_log_file(path))
        app()
    except DiscreetError as mistake:
        print_error(str(mistake), f"discreet help {help.to_topic(mistake.see)}")
        places = SourceRefused, EngineFailed, LedgerUnavailable, NotSignedIn, NotFound, ServiceUnavailable, ServiceChanged
        codes = (1, LedgerCorrupted), (3, BudgetExceeded), (4, (*places, AskPending))
        raise SystemExit(next((code for code, kinds in codes if isinstance(mistake, kinds)), 2)) from None


def _escape_unencodable() -> None:
    """Print \\u03b5 where the terminal's encoding has no ε, so that an answer that was paid for is not lost."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, TextIOWrapper) and output.errors == "strict":
            output.reconfigure(errors="backslashreplace")
