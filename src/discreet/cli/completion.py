"""What a shell completes after Tab: tables, policies, ledgers, accounts, topics and words to choose from.

typer makes the scripts for bash, zsh, fish and PowerShell (`discreet --install-completion`), and completes commands and
options. A function here lists the values of one option or argument. None of them raises or prints, and none reads a row.
What it cannot list, the shell completes as the name of a file.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import typer

Completer = Callable[..., list[str]]

TABLE_SUFFIXES = (
    ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".parquet",
    ".arrow", ".feather", ".ipc", ".xlsx", ".duckdb", ".db",
)  # fmt: skip
SQLITE_MAGIC = b"SQLite format 3\0"


def complete_words(*words: str) -> Completer:
    """Complete one of these words.

    >>> complete_words("add-remove", "replace")("re")
    ['replace']
    """
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_files(*suffixes: str) -> Completer:
    """Complete the files with one of these endings, in the folder that is typed."""

    def complete(incomplete: str) -> list[str]:
        return [path for path in _list_files(incomplete) if path.lower().endswith(suffixes)]

    return complete


def complete_ledgers(incomplete: str) -> list[str]:
    """Complete the files that are SQLite databases."""
    return [path for path in _list_files(incomplete) if _starts_with(path, SQLITE_MAGIC)]


def complete_accounts(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the accounts of the ledger that is typed before."""
    place = context.params.get("ledger") or _first_argument(context, "place")
    if not isinstance(place, str) or not _starts_with(place, SQLITE_MAGIC):
        return []
    from discreet.errors import DiscreetError
    from discreet.ledger.sqlite import SqliteStore

    with suppress(DiscreetError):
        store = SqliteStore(place)
        try:
            with store.read_transaction() as transaction:
                return [name for name in transaction.list_account_names() if name.startswith(incomplete)]
        finally:
            store.close()
    return []


def complete_columns(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the columns in the header of the CSV file that is typed before."""
    source = _first_argument(context, "source")
    if not isinstance(source, str) or not source.lower().endswith((".csv", ".tsv")):
        return []
    import csv

    with suppress(OSError, ValueError, csv.Error, StopIteration), open(source, newline="", encoding="utf-8-sig") as file:
        line = file.readline(1 << 16)
        delimiter = max(",;\t|", key=line.count)
        return [name for name in next(csv.reader([line], delimiter=delimiter)) if name and name.startswith(incomplete)]
    return []


def _first_argument(context: typer.Context, name: str) -> object:
    """The first argument, which is not parsed yet if the option before the cursor still lacks its value."""
    return context.params.get(name) or next(iter(context.args), None)


def _list_files(incomplete: str) -> list[str]:
    folder, slash, start = incomplete.rpartition("/")
    found: list[str] = []
    with suppress(OSError, ValueError):
        for path in sorted(Path(folder or slash or ".").iterdir()):
            if path.name.startswith(start) and (start or not path.name.startswith(".")) and path.is_file():
                found.append(f"{folder}{slash}{path.name}")
    return found


def _starts_with(path: str, magic: bytes) -> bool:
    with suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(len(magic)) == magic
    return False
