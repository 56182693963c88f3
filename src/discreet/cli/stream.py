"""`discreet stream`: counters that are shown at every step: open one, tick it, show it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet._numbers import read_positive
from discreet.cli.app import ASKING, App, app, spell_notes
from discreet.cli.options import (
    COST_PANEL,
    AccountName,
    Confidence,
    Json,
    LedgerArgument,
    LedgerOption,
    complete_files,
    complete_words,
    make_option,
    takes_source,
)
from discreet.cli.output import parse_number, print_json, print_line, print_styled, print_table
from discreet.errors import BadParameter
from discreet.session.options import SourceOptions

if TYPE_CHECKING:
    from discreet.session.session import Session
    from discreet.streams import StreamAnswer, StreamSeries

stream = App(no_args_is_help=True, help="Count over time: running totals at every step, paid for once.")
app.add_typer(stream, name="stream", rich_help_panel=ASKING)

STREAM_PANEL = "Stream"
PERIODS = ("hour", "day", "week", "month")
MAX_ROWS = 20
"""How many rows a terminal shows of a long stream: the last ones."""

StateFile: TypeAlias = Annotated[
    str | None, make_option(STREAM_PANEL, "The file of the owner's state; in the owner's folder, unless given.", "--state")
]
Name: TypeAlias = Annotated[str, make_option(STREAM_PANEL, "The name of the stream in its account.", "--name")]
Window: TypeAlias = Annotated[
    int | None, make_option(STREAM_PANEL, "Show sums over so many steps instead of running totals.", "--window")
]


@stream.command(
    "open",
    epilog='Example:\n\n[bold]discreet stream open visits.csv "SELECT COUNT(*) AS n FROM visits" --policy visits.toml '
    "--time day --start 2026-03-01 --steps 365 --at-most 3 --apart 7 --epsilon 1 --name visits --ledger hr.ledger[/bold]",
)
@takes_source()
def stream_open(
    options: SourceOptions,
    sql: Annotated[
        str | None, typer.Argument(help='"SELECT COUNT(*) AS n FROM visits", with GROUP BY declared keys.')
    ] = None,
    name: Annotated[str | None, make_option(STREAM_PANEL, "A name for the stream in its account.")] = None,
    time: Annotated[str | None, make_option(STREAM_PANEL, "The column of dates or timestamps.")] = None,
    every: Annotated[
        str | None,
        make_option(STREAM_PANEL, "The length of a step: hour, day, week or month.", completer=complete_words(*PERIODS)),
    ] = None,
    start: Annotated[str | None, make_option(STREAM_PANEL, "When the first step begins: 2026-03-01.")] = None,
    steps: Annotated[int | None, make_option(STREAM_PANEL, "How many steps there will be.")] = None,
    at_most: Annotated[int | None, make_option(STREAM_PANEL, "In how many steps one unit counts; 1 unless given.")] = None,
    apart: Annotated[int | None, make_option(STREAM_PANEL, "Steps between two of them, at least; 1 unless given.")] = None,
    plan: Annotated[
        str | None, make_option(STREAM_PANEL, "A TOML file with the key stream.", completer=complete_files(".toml"))
    ] = None,
    epsilon: Annotated[str | None, make_option(COST_PANEL, "The ε of the whole horizon.")] = None,
    ledger: LedgerOption = None,
    account: AccountName = None,
    state: StateFile = None,
    json: Json = False,
) -> None:
    """Open a stream of counts: fix its noise and charge its whole horizon. No row is counted.

    Opening the same stream again charges nothing. --plan takes what flags do
    not give from a file. Column types of a CSV file must be declared, with
    --policy.
    """
    from discreet.streams import open_stream
    from discreet.streams.plan import read_stream_plan

    given: dict[str, Any] = {
        "query": sql, "name": name, "time": time, "every": every, "start": start, "steps": steps, "at_most": at_most,
        "apart": apart, "epsilon": epsilon,
    }  # fmt: skip
    chosen = {} if plan is None else read_stream_plan(plan)
    chosen |= {key: value for key, value in given.items() if value is not None}
    missing = [key for key in ("query", "name", "time", "start", "steps", "epsilon") if key not in chosen]
    if missing:
        flags = ", ".join("the query" if key == "query" else f"--{key}" for key in missing)
        raise BadParameter("--plan" if plan is not None else "--steps", "given" if plan else "missing",
                           f"a stream also needs {flags}", "give them as flags, or in the file of --plan")  # fmt: skip
    chosen["epsilon"] = parse_number(str(chosen["epsilon"]), "epsilon")
    session = _open_session(options, ledger, account)
    before = session.account.budget.remaining
    opened = open_stream(session, chosen.pop("query"), state=state, **chosen)
    charged, last = session.account.budget.remaining < before, opened.design.steps
    widths = [opened.half_width(step) for step in (1, last)]
    asked, grouped = read_positive(chosen["epsilon"], "epsilon"), bool(opened.design.groups)
    notes = [
        *map(spell_notes, session.list_plan_notes(opened.cost, asked, "this stream alone", grouped=grouped)),
        *session.account_notes,
    ]
    if json:
        print_json(
            opened.design.to_dict()
            | {"entry": opened.entry, "charged": charged, "cost": opened.cost.to_dict(), "half_width": widths}
            | {"notes": notes}
        )
        return
    print_line(repr(opened))
    print_line(str(opened.cost) if charged else f"It was open already (entry {opened.entry}): nothing was charged.")
    print_styled(
        f"Each running total is within ±{widths[0]:.3g} after the first step and ±{widths[1]:.3g} after the last, with "
        "probability ≥ 95%. The budget of the whole horizon is charged; ticks cost nothing."
    )
    for note in notes:
        print_line(note)


@stream.command(
    "tick",
    epilog="Example: [bold]discreet stream tick visits.csv --policy visits.toml --name visits --ledger hr.ledger[/bold]",
)
@takes_source()
def stream_tick(
    options: SourceOptions,
    name: Name,
    step: Annotated[int | None, make_option(STREAM_PANEL, "The step to show; the next one that is due.")] = None,
    window: Window = None,
    confidence: Confidence = 0.95,
    ledger: LedgerOption = None,
    account: AccountName = None,
    state: StateFile = None,
    json: Json = False,
) -> None:
    """Measure the next step whose period is over, record it, and show it. A step that is recorded is shown again.

    If no step is due, or the horizon is over, the last one is shown: running
    this command twice is safe. The source and what is declared about it must be those that the
    stream was opened with.
    """
    from discreet.streams import load_stream

    loaded = load_stream(_open_session(options, ledger, account), name, state=state)
    before = loaded.last_step
    answer = loaded.tick(step, window=window, confidence=confidence)
    is_over = answer.step == before == loaded.design.steps
    if json:
        print_json(answer.to_dict() | {"stream": name, "window": window, "new": answer.step > before, "over": is_over})
        return
    kind = "running total" if window is None else f"last {window} steps"
    title = f"{name}, step {answer.step} of {loaded.design.steps}: {answer.start}, {kind}"
    print_table(title, ["counter", "estimate", "interval"], _list_estimates(answer, loaded.design.column))
    if answer.step <= before:
        print_styled("This step was recorded before: nothing was measured.")
    if is_over and step is None:
        print_styled(f"The horizon of {loaded.design.steps} steps is over. For later steps, open another stream.")


@stream.command(
    "show", epilog="Example: [bold]discreet stream show hr.ledger --name visits --window 7 --plot visits.svg[/bold]"
)
def stream_show(
    place: LedgerArgument,
    name: Annotated[str | None, make_option(STREAM_PANEL, "One stream; a list of them, unless given.", "--name")] = None,
    account: AccountName = None,
    window: Window = None,
    confidence: Confidence = 0.95,
    plot: Annotated[
        str | None, make_option(STREAM_PANEL, "Draw it into this file: .svg, .png, .html or .json.", "--plot")
    ] = None,
    json: Json = False,
) -> None:
    """Show what a stream has recorded, from the ledger alone: running totals or sums over a window, with intervals."""
    from discreet.ledger import open_ledger
    from discreet.streams import list_streams, read_stream
    from discreet.vega import check_chart_path

    if plot is not None:
        check_chart_path(plot, "--plot")
    opened = open_ledger(place).get_account(account)
    if name is None:
        if plot is not None or window is not None:
            flag = "--plot" if plot is not None else "--window"
            raise BadParameter(flag, "given", "it is of one stream", "name it: --name")
        designs = list_streams(opened)
        if json:
            print_json({"streams": [each.to_dict() for each in designs]})
            return
        for design in designs:
            print_line(repr(read_stream(opened, design.name)))
        if not designs:
            print_line(f'Account "{opened.initial_state.name}" has no stream.')
        return
    series = read_stream(opened, name).show(window=window, confidence=confidence)
    if json:
        print_json(series.to_dict())
    else:
        _print_series(series)
    if plot is not None:
        series.plot(plot)
        if not json:
            print_styled(f"Chart written to {plot}.")


def _open_session(options: SourceOptions, ledger: str | None, account: str | None) -> "Session":
    from discreet.session.connect import open_account, open_session

    if ledger is None:
        raise BadParameter("--ledger", "missing", "only a ledger keeps streams", "name it: --ledger hr.ledger")
    if not Path(ledger).exists() and "://" not in ledger and "=" not in ledger:
        raise BadParameter("--ledger", repr(ledger), "there is none", "make one: discreet ledger open")
    return open_session(options, *open_account(None, 0, None, ledger, account))


def _list_estimates(answer: "StreamAnswer", column: str) -> list[list[str]]:
    return [
        [", ".join(map(str, each.keys)) or column, f"{each.value:,.1f}", f"{each.lower:,} to {each.upper:,}"]
        for each in answer.estimates
    ]


def _print_series(series: "StreamSeries") -> None:
    rows = [
        [answer.start, *each] for answer in series.answers for each in _list_estimates(answer, series.column)
    ]  # fmt: skip
    first = "from" if series.window is None else "last step"
    print_table(series.title, [first, "counter", "estimate", "interval"], rows[-MAX_ROWS:])
    if len(rows) > MAX_ROWS:
        print_styled(f"The last {MAX_ROWS} of {len(rows):,} rows; --json prints all.")
    if series.window is not None and series.window > 1:
        print_styled(
            f"A window is named by its last step; before step {series.window:,} it has fewer than {series.window:,} steps."
        )
    print_styled(
        f"{len(series.answers)} of {series.steps} steps. Each interval contains its count, as bounded, with probability "
        f"≥ {100 * series.confidence:g}%."
    )
