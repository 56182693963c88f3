"""The command line: what can be typed is in `commands`, what it does beside it."""

import os
from io import TextIOWrapper

import typer

from discreet.cli.app import app

# as `discreet --help` shows them
from discreet.cli.commands import questions  # isort: skip
from discreet.cli.commands import keeping  # isort: skip
from discreet.cli.commands import sources  # isort: skip
from discreet.cli.commands import planning  # isort: skip
from discreet.cli.commands import publishing  # isort: skip
from discreet.cli.commands import accounting  # isort: skip
from discreet.cli.commands import auditing  # isort: skip
from discreet.cli.commands import lab  # isort: skip

__all__ = ["accounting", "app", "auditing", "keeping", "lab", "main", "planning", "publishing", "questions", "sources"]


def _escape_unencodable() -> None:
    """Where the terminal's encoding has no ε, and none of somebody's keys, print \\u03b5: what was paid for is not lost."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """The console script: a mistake gets one line and an exit code.

    1 a check failed, 2 usage or question, 3 budget, 4 source, engine or ledger. What an engine said, which may quote values,
    goes to the file that DISCREET_OWNER_LOG names, and nowhere without it.
    """
    from discreet.errors import (
        BudgetExceeded,
        DiscreetError,
        EngineFailed,
        LedgerCorrupted,
        LedgerUnavailable,
        SourceRefused,
    )

    _escape_unencodable()
    try:
        if path := os.environ.get("DISCREET_OWNER_LOG"):
            from discreet.engines.base import open_log_file, owner_log

            owner_log.addHandler(open_log_file(path))
        app()
    except DiscreetError as mistake:
        typer.echo(f"discreet: {mistake}\n  see {mistake.see}", err=True)
        codes = ((1, LedgerCorrupted), (3, BudgetExceeded), (4, SourceRefused), (4, EngineFailed), (4, LedgerUnavailable))
        raise SystemExit(next((code for code, kind in codes if isinstance(mistake, kind)), 2)) from None
