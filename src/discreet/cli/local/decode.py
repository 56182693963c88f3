"""`discreet local decode`: estimates with intervals from messages, or from a table where it is."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.local.options import (
    MAX_LABELS,
    REPORT_PANEL,
    CollectionFile,
    Confidence,
    Picture,
    check_chart,
    explain,
    local,
    name_flags,
    note_picture,
    parse_share,
    read_collection,
    write_picture,
)
from discreet.cli.options import ANSWER_PANEL, TABLE_SUFFIXES, Json, complete_files, complete_words, make_option
from discreet.cli.output import print_data, print_json, print_styled
from discreet.errors import BadParameter, SourceRefused

if TYPE_CHECKING:
    from discreet.local.collection import Collection

REJECTED = {
    "collection": "made for another collection",
    "version": "made for another version of it, or of the message",
    "length": "not laid out as the messages of this collection, or without one of its columns",
    "range": "with a number that no client of it sends",
    "duplicate": "sent again: the nonce was counted already",
}
"""Why a report is rejected, in words."""
NO_REPORTS = "it holds no report", "encode some: discreet local encode --help"
MAX_ROWS = 40
ID_LENGTH = 16


@local.command(
    "decode",
    epilog="Examples:\n\n[bold]discreet local decode colours.json reports.jsonl --plot colours.svg[/bold]\n\n"
    "[bold]discreet local decode words.json reports.parquet --top 20 --hostile 1%[/bold]\n\n"
    "[bold]discreet local decode sites.json reports.jsonl --candidates sites.txt[/bold]: texts that were hashed\n\n"
    "[bold]discreet local decode words.json postgresql://me@host/telemetry --table reports --json[/bold]",
)
def local_decode(
    collection: CollectionFile,
    reports: Annotated[
        str,
        typer.Argument(
            help="Messages (.jsonl, .ndjson, .json, .cbor, - for stdin), or a table with a column for each integer: a file, "
            "or postgresql://user@host/database.",
            autocompletion=complete_files(*TABLE_SUFFIXES, ".cbor"),
        ),
    ],
    table: Annotated[str | None, make_option(REPORT_PANEL, "The table of a database; reports, unless given.")] = None,
    layout: Annotated[
        str | None,
        make_option(
            REPORT_PANEL,
            "What the file holds, where the end of its name does not say it: json or cbor (messages), or columns.",
            completer=complete_words("json", "cbor", "columns"),
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        make_option(
            REPORT_PANEL,
            "Where texts are hashed: a file of those to estimate, one in each line.",
            completer=complete_files(".txt"),
        ),
    ] = None,
    confidence: Confidence = "0.95",
    simultaneous: Annotated[
        bool, make_option(ANSWER_PANEL, "All intervals hold together with the confidence.", "--simultaneous")
    ] = False,
    norm_sub: Annotated[
        bool, make_option(ANSWER_PANEL, "Add a column of estimates that are not negative and add up.", "--norm-sub")
    ] = False,
    hostile: Annotated[str, make_option(ANSWER_PANEL, "Say what a share of hostile reports could do: 0.01 or 1%.")] = "0",
    top: Annotated[int | None, make_option(ANSWER_PANEL, "Show the values with the largest estimates only.")] = None,
    csv: Annotated[bool, make_option(ANSWER_PANEL, "Print CSV only.", "--csv")] = False,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Estimate how many people have each value, or the mean of all, with intervals.

    Tables are counted where they are. RAPPOR and count-mean sketches hash texts: --candidates lists those to estimate. An
    empty line in it is the missing value.
    """
    from discreet.local.receiving import decode_collection
    from discreet.local.systems import MeanAnswer

    if csv and json:
        raise BadParameter("--csv", "given with --json", "one output has one format", "give one of the two")
    if top is not None and top < 1:
        raise BadParameter("--top", top, "not a number of values", "give 1 or more")
    check_chart(plot)
    made = read_collection(collection)
    texts = None if candidates is None else _read_candidates(candidates)
    share, level = parse_share(hostile, "--hostile", most=1), parse_share(confidence, "confidence")
    with (
        name_flags(candidates="--candidates", consistent="--norm-sub", hostile_share="--hostile", layout="--layout"),
        explain("docs/local.md#decoding-where-the-reports-are"),
    ):
        _check_table(reports, table)
        counted = _count(made, reports, table, layout)
        shown = decode_collection(
            made, counted, candidates=texts, confidence=level, hostile_share=share, consistent=norm_sub
        )
    _refuse_nothing(made, reports, counted)
    if isinstance(shown, MeanAnswer):
        _check_mean(top=top, plot=plot)
    else:
        values = len(shown.rows)
        shown = shown.simultaneous() if simultaneous else shown
        shown = shown if top is None else shown.top(top)
        write_picture(partial(shown.plot, title=made.name), plot)
    if json:
        print_json(shown.to_dict() | {"collection": made.id})
    elif csv:
        print_data(shown.to_csv())
    else:
        from rich.console import Console

        Console().print(shown)
        for note in _explain_answer(shown.rows, shown.rejected):
            print_styled(note, "none")
        if top is not None and top < values:
            print_styled(f"Leave out --top to see the other {values - top:,}.", "none")
        if len(shown.rows) > MAX_ROWS:
            print_styled("--csv and --json print all rows.", "none")
        note_picture(plot)


def _explain_answer(rows: Any, rejected: Mapping[str, int]) -> list[str]:
    """Say what the notes of an answer leave open: estimates outside their intervals, and what the reasons mean."""
    notes = []
    if any(row.value > row.upper or 0 <= row.value < row.lower for row in rows):
        notes.append("An estimate outside its interval is no mistake: only the interval is cut to what is possible.")
    kinds = [kind for kind, count in rejected.items() if count and kind in REJECTED]
    return notes + [f"Rejected as {kind}: {REJECTED[kind]}." for kind in kinds]


def _refuse_nothing(made: "Collection", reports: str, counted: Any) -> None:
    """Refuse to estimate from no report, and say why there is none."""
    if counted.n:
        return
    received = counted.received
    if not received:
        raise BadParameter("reports", repr(reports), *NO_REPORTS)
    words = [f"{count:,} {REJECTED.get(kind, kind)}" for kind, count in counted.rejected.items() if count]
    found = _find_sent_id(reports)
    hint = "check that the collection is the one that the clients pinned"
    if found is not None and found != made.id[: len(found)]:
        words.append(f"the first is of the collection {found}, and this one is {made.id[: len(found)]}")
        hint = "decode it with the collection that the clients pinned"
    raise BadParameter("reports", repr(reports), f"no report of {received:,} was accepted: {'; '.join(words)}", hint)


def _find_sent_id(reports: str) -> str | None:
    """The first digits of the id of the collection that the first JSON message of a file names."""
    from json import loads

    try:
        with open(reports, "rb") as file:
            found = loads(file.readline(4096))["c"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) and len(found) == ID_LENGTH and found.isalnum() else None


def _check_table(reports: str, table: str | None) -> None:
    """Refuse --table for what is no database, and a database that is not there; list the tables of one that has others."""
    path = Path(reports)
    is_file = path.suffix.lower() in (*TABLE_SUFFIXES, ".cbor", ".jsonl", ".json") or reports == "-"
    is_database = path.suffix.lower() in (".duckdb", ".db")
    if table is not None and is_file and not is_database:
        raise BadParameter("--table", repr(table), "only a database has tables, and REPORTS is one file", "leave it out")
    if not is_database:
        return
    if not path.exists():
        raise SourceRefused(f"{reports!r}: there is no such file", "check the path")
    from discreet.engines.duckdb.connection import list_tables

    names = list_tables(path)
    wanted = "reports" if table is None else table
    if names and wanted.rpartition(".")[2].lower() not in {name.lower() for name in names}:
        shown = ", ".join(names[:MAX_LABELS]) + ", …" * (len(names) > MAX_LABELS)
        reason = f"the tables of {reports} are {shown}"
        raise BadParameter("--table", repr(wanted), reason, f"name one: --table {names[0]}")


def _check_mean(**given: Any) -> None:
    """Refuse what only a table of values has."""
    for name, value in given.items():
        if value is not None:
            raise BadParameter(f"--{name}", value, "a mean is one number", "leave it out")


def _read_candidates(path: str) -> list[str | None]:
    """The texts of a file, one in each line; an empty line is the missing value."""
    from discreet.paths import read_text

    def refuse(reason: str) -> BadParameter:
        return BadParameter("--candidates", repr(path), reason, "name a file with one text in each line")

    return [line or None for line in read_text(path, refuse).splitlines()]


def _count(made: "Collection", reports: str, table: str | None, layout: Any) -> Any:
    from discreet.local.receiving import count_collection, count_messages, find_form, split_messages
    from discreet.local.wire import Form

    if reports != "-":
        if Path(reports).is_file() and not Path(reports).stat().st_size:
            raise BadParameter("reports", repr(reports), *NO_REPORTS)
        return count_collection(made, reports, table=table, layout=layout)
    if sys.stdin.isatty():
        raise BadParameter("reports", "-", "stdin is a terminal", "pipe messages into it, or name a file")
    form = Form.JSON if layout is None else find_form(reports, table, layout)
    if form is None:
        raise BadParameter("--layout", layout, "stdin holds messages", "give json or cbor, or name a file")
    return count_messages(made, split_messages(made, sys.stdin.buffer, form), form)
