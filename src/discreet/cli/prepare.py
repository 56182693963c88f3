"""`discreet prepare`: write a table once, in a form that answers queries in less time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from types import FrameType
from typing import Annotated

import typer

from discreet.cli.app import ASKING, app, print_error
from discreet.cli.options import Json, complete_columns, split_list, takes_source
from discreet.cli.output import print_json, print_line, show_progress
from discreet.session.options import SourceOptions


@app.command(
    rich_help_panel=ASKING,
    epilog="Example: [bold]discreet prepare people.parquet --unit id[/bold]\n\n"
    'Then: [bold]discreet ask people.prepared.duckdb "SELECT COUNT(*) AS n FROM people" --epsilon 0.5[/bold]',
)
@takes_source(
    "unit",
    "policy",
    "table",
    sources="A CSV, Parquet, JSON lines (.jsonl), Excel (.xlsx, people.xlsx#Sheet1) or Arrow file (globs too), or a folder "
    "of Parquet files.",
)
def prepare(
    options: SourceOptions,
    output: Annotated[
        str | None,
        typer.Option(
            help="The file to write; people.prepared.duckdb beside people.parquet, unless given. Needed for a glob."
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="The columns that queries group by, with commas; all texts, dates and truth values, unless given.",
            autocompletion=complete_columns,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace an earlier prepared file; its salt is kept, for the same unit and table."),
    ] = False,
    json: Json = False,
) -> None:
    """Write a table once, as a DuckDB file that answers the same queries in less time.

    The file holds the rows and a random salt, and only you can read it.
    It is a copy: prepare the source again after it has changed.
    """
    from discreet.engines.base import explain_to_owner
    from discreet.session.preparing import prepare_source

    try:
        with _interrupt_when_ended(), explain_to_owner(), show_progress("preparing …") as on_progress:
            ranked = None if group_by is None else split_list(group_by, "--group-by", "dept,city")
            made = prepare_source(options, output, ranked, force, on_progress)
    except KeyboardInterrupt as interrupt:
        if interrupt.args:  # it says what became of the file
            print_error(str(interrupt))
        raise
    if json:
        print_json(
            {
                "source": options.source, "prepared": str(made.file), "table": made.table.name, "unit": made.table.unit,
                "group_by": [*made.ranked], "replaced": made.replaced,
                "answers_kept": made.replaced and made.forgets is None,
            }
        )  # fmt: skip
        return
    name = quote(str(made.file))
    print_line(
        f"Wrote {name} with the table {made.table.name}, which only you can read. Ask it as you ask the source: "
        f"discreet ask {name} …"
    )
    if made.ranked:
        print_line(f"GROUP BY is fast for {', '.join(made.ranked)}. To choose other columns, add --group-by.")
    else:
        print_line("No column was prepared for GROUP BY. To choose some besides the unit's, add --group-by.")
    if made.forgets is not None:
        print_line(
            f"The file that it replaced {made.forgets}: answers that were recorded about it are not found again, and cost "
            "budget again."
        )
    elif made.replaced:
        print_line(
            "Answers that were recorded about the file that it replaced are still given, for free. If the data changed, ask "
            "with --label and a name for its new state."
        )


@contextmanager
def _interrupt_when_ended() -> Iterator[None]:
    """Take the end of the terminal or of the machine for Ctrl-C, so that no part of the copy stays behind. A signal that was
    ignored, as by nohup, still is."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP
    before = {number: signal.signal(number, interrupt) for number in numbers if signal.getsignal(number) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
