"""`discreet local`: collections in which every person adds the noise: plan one, write it, encode, decode, simulate."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.cli.app import ASKING, App, app
from discreet.cli.options import (
    ANSWER_PANEL,
    COST_PANEL,
    TABLE_SUFFIXES,
    Json,
    complete_files,
    complete_words,
    make_option,
    split_list,
)
from discreet.cli.output import parse_number, print_data, print_json, print_styled, print_table, print_warning, show_progress
from discreet.errors import BadParameter, DiscreetError, SourceRefused

if TYPE_CHECKING:
    from fractions import Fraction

    from discreet.local.collection import Collection
    from discreet.local.decoding import LocalAnswer
    from discreet.local.domains import Domain
    from discreet.local.store import Store

local = App(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Collect statistics from people who each add their own noise (local privacy).",
)
app.add_typer(local, name="local", rich_help_panel=ASKING)

ORACLES = ("direct", "symmetric-unary", "optimised-unary", "subset", "hashed", "hadamard", "projective")
ALIASES = {
    "k-rr": "direct", "krr": "direct", "grr": "direct", "sue": "symmetric-unary", "oue": "optimised-unary",
    "ss": "subset", "olh": "hashed", "hr": "hadamard", "pgr": "projective",
}  # fmt: skip
"""Oracles as the literature abbreviates them."""
REJECTED = {
    "collection": "made for another collection",
    "version": "made for another version of it, or of the message",
    "length": "not laid out as the messages of this collection, or without one of its columns",
    "range": "with a number that no client of it sends",
    "duplicate": "sent again: the nonce was counted already",
}
"""Why a report is rejected, in words."""
NO_REPORTS = "it holds no report", "encode some: discreet local encode --help"
MAX_LABELS = 5
MAX_ROWS = 40
MAX_DAYS = 10_000
ID_LENGTH = 16
FIELDS = ("domain", "format", "lifetime", "mechanism", "name", "unit", "version")
"""The fields of a collection's file."""
FORMS = ("json", "cbor")
TRUTHS = ("zipf", "flat")
COLLECTION_PANEL, REPORT_PANEL = "Collection", "Report"

CollectionFile: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION", help="The file that discreet local collection wrote.", autocompletion=complete_files(".json")
    ),
]
Oracle: TypeAlias = Annotated[
    str | None,
    make_option(
        COST_PANEL, f"{', '.join(ORACLES)}; also k-rr, sue, oue, olh, hr, pgr. The best of direct and projective, unless "
        "given.", "--oracle", completer=complete_words(*ORACLES),
    ),
]  # fmt: skip
Picture: TypeAlias = Annotated[
    str | None, make_option(ANSWER_PANEL, "Draw it into this file: .svg, .png, .html or .json.", "--plot")
]
Confidence: TypeAlias = Annotated[
    str, make_option(COST_PANEL, "The probability that an interval contains the truth: 0.95 or 95%.")
]


# -- plan ------------------------------------------------------------------------------------------------------------------


@local.command(
    "plan",
    epilog="Examples:\n\n[bold]discreet local plan --values 100 --n 1000000 --epsilon 1[/bold]: how accurate?\n\n"
    "[bold]discreet local plan --values 100 --epsilon 1 --error 1%[/bold]: how many people?\n\n"
    "[bold]discreet local plan --values 100 --n 1000000 --error 1% --delta 1e-8 --plot errors.svg[/bold]: which ε?",
)
def local_plan(
    values: Annotated[int, make_option(COLLECTION_PANEL, "How many values there are, with other and missing.")],
    n: Annotated[str | None, make_option(COST_PANEL, "The number of people who report: 1000000 or 1e6.", "--n")] = None,
    epsilon: Annotated[str | None, make_option(COST_PANEL, "The ε of each report.")] = None,
    error: Annotated[
        str | None, make_option(COST_PANEL, "The largest half-width, as a share of all people: 1% or 0.01.")
    ] = None,
    confidence: Confidence = "0.95",
    delta: Annotated[str | None, make_option(COST_PANEL, "Say what ε a shuffler would give at this δ.")] = None,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Compare all oracles before anything is collected. Give two of people, ε and error; get the third."""
    from discreet._numbers import format_up
    from discreet.formats import count_people
    from discreet.local.planning import plan_collection

    _check_chart(plot)
    _check_two({"--n": n, "--epsilon": epsilon, "--error": error})
    found = plan_collection(
        values, n=None if n is None else _parse_count(n, "--n"), epsilon=_parse_optional(epsilon, "epsilon"),
        error=None if error is None else _parse_error(error), confidence=_parse_share(confidence, "confidence"),
    )  # fmt: skip
    crowd = None if delta is None else found.shuffled_epsilon(parse_number(delta, "delta"))
    _draw(found.plot, plot)
    if json:
        shuffled = None if crowd is None else _describe_bounds(crowd) | {"delta": float(parse_number(str(delta), "delta"))}
        print_json(found.to_dict() | {"shuffled": shuffled})
        return
    from rich.console import Console

    Console().print(found)
    if crowd is not None:
        print_styled(
            f"Shuffled: ε = {format_up(crowd.upper, 3)} at δ = {delta}, if an honest shuffler removes all names and all "
            f"{count_people(found.n)} report honestly. Against the shuffler itself ε stays {format_up(found.epsilon, 4)}."
            f"{_describe_crowd(crowd.upper, found.epsilon)}"
        )
    _note_picture(plot)


# -- collection ------------------------------------------------------------------------------------------------------------


@local.command(
    "collection",
    epilog="Examples:\n\n"
    "[bold]discreet local collection colours --values red,green,blue --epsilon 1 --lifetime 10[/bold]\n\n"
    "[bold]discreet local collection hours --range 0:23 --epsilon 2 --out hours-v2.json --version 2[/bold]\n\n"
    "[bold]discreet local collection settings --values @settings.txt --epsilon 1[/bold]: one value in each line",
)
def local_collection(
    name: Annotated[str, typer.Argument(help="What is asked, in a word: the name of the collection.")],
    epsilon: Annotated[str, make_option(COST_PANEL, "The ε of each report.")],
    values: Annotated[
        str | None,
        make_option(
            COLLECTION_PANEL, "The values: red,green,blue, or @values.txt with one in each line. All else is other."
        ),
    ] = None,
    range_: Annotated[
        str | None, make_option(COLLECTION_PANEL, "Or integers: 0:23. Those outside are clipped.", "--range")
    ] = None,
    step: Annotated[int, make_option(COLLECTION_PANEL, "With --range: how many integers share a bucket.")] = 1,
    missing: Annotated[
        str | None, make_option(COLLECTION_PANEL, "The name of a value for people who have none; none, unless given.")
    ] = None,
    only: Annotated[
        bool, make_option(COLLECTION_PANEL, "With --values: there is no other; clients refuse it.", "--only")
    ] = False,
    lifetime: Annotated[
        str | None, make_option(COST_PANEL, "The ε that a device may spend for life; it reports once, unless given.")
    ] = None,
    oracle: Oracle = None,
    version: Annotated[int, make_option(COLLECTION_PANEL, "The version; any change is a new collection.")] = 1,
    out: Annotated[
        str | None, make_option(ANSWER_PANEL, "The file; NAME.json, unless given.", completer=complete_files(".json"))
    ] = None,
    json: Json = False,
) -> None:
    """Write a collection: the values, the oracle and the budget of a device, under one id that clients pin."""
    from discreet._numbers import format_up
    from discreet.local.choosing import choose_oracle
    from discreet.local.collection import Collection, Lifetime, least_cost
    from discreet.local.planning import warn_of_epsilon
    from discreet.local.wire import Form, Wire

    domain = _parse_domain(values, range_, step, missing, only=only)
    mechanism = choose_oracle(int(domain.size or 0), parse_number(epsilon, "epsilon"), _parse_oracle(oracle))
    if lifetime is None:
        cost = least_cost(mechanism, "once")
        life = Lifetime(cost, cost, "once")
    else:
        life = _allow(mechanism, lifetime)
    made = Collection(name, version, mechanism, domain, life)
    path = Path(f"{name}.json" if out is None else out)
    _write_new(path, made.to_json())
    sizes = {form.value: Wire(made, form).size for form in Form}
    kind = type(mechanism).__name__.lower()
    if json:
        print_json({
            "file": str(path), "name": name, "version": version, "id": made.id, "oracle": kind, "values": domain.size,
            "epsilon": mechanism.epsilon, "message_bytes": sizes, "warnings": list(made.warnings),
            "lifetime": {
                "epsilon": float(life.epsilon), "per": life.per, "reports": life.reports, "condition": life.condition,
            },
        })  # fmt: skip
        return
    times = "once" if life.reports == 1 else f"{life.reports} times"
    print_styled(f"Collection written to {path}.", "bold")
    each = format_up(mechanism.epsilon, 4)
    print_styled(
        f"{domain.size:,} values ({_list_labels(domain)}) by {kind}, ε = {each} a report. A device reports {times}: ε = "
        f"{format_up(life.epsilon, 4)} for life, between {life.condition.partition(';')[0]}. A message "
        f"has {sizes['json']} bytes of JSON or {sizes['cbor']} of CBOR."
    )
    for warning in warn_of_epsilon(life.epsilon, "for life"):
        print_warning(warning)
    print_styled(f"Clients pin the id: {made.id}")
    for warning in made.warnings:
        print_warning(warning.replace("`missing`", "--missing none").replace("`other`", "`other`: leave out --only"))


# -- encode ----------------------------------------------------------------------------------------------------------------


@local.command(
    "encode",
    epilog="Examples:\n\n[bold]discreet local encode colours.json --value red --store device.db --occasion monday[/bold]\n\n"
    "[bold]discreet local encode colours.json < values.txt > reports.jsonl[/bold]",
)
def local_encode(
    collection: CollectionFile,
    value: Annotated[
        str | None, make_option(REPORT_PANEL, "The value of one device; read from stdin, unless given.")
    ] = None,
    missing: Annotated[bool, make_option(REPORT_PANEL, "The device has no value.", "--missing")] = False,
    store: Annotated[
        str | None, make_option(REPORT_PANEL, "The device's file: its secret, its budget, reports to send again.")
    ] = None,
    occasion: Annotated[
        str | None, make_option(REPORT_PANEL, "With --store: a day or a version; the same again repeats the report.")
    ] = None,
    form: Annotated[str, make_option(REPORT_PANEL, "json or cbor.", "--form", completer=complete_words(*FORMS))] = "json",
    pin: Annotated[str | None, make_option(COLLECTION_PANEL, "The id that the collection must have.")] = None,
    json: Json = False,
) -> None:
    """Encode a value as the message that a device sends. Noise comes from the system's random source.

    Without --store every value is that of a new device, which reports once and keeps nothing: for tests. From stdin, a value
    is a line, which no list of processes shows; an empty line is a person without a value.
    """
    from discreet.local.client import Client
    from discreet.local.store import FileStore, MemoryStore

    made, written = _read_collection(collection, pin), _parse_form(form)
    is_single = value is not None or missing
    _check_device(store, occasion, both=value is not None and missing)
    _check_missing(made, missing)
    given: Iterable[str | None] = [None if missing else value] if is_single else _read_values(store)
    stores: Iterator[Store] = iter([FileStore(store)] if store is not None else iter(MemoryStore, None))
    messages: list[bytes] = []
    changed: Counter[str] = Counter()
    with _explain("docs/local.md#a-collection-from-end-to-end"):
        for line, (text, device) in enumerate(zip(given, stores, strict=False), 1):
            typed = _parse_value(text, made, "--value" if is_single else f"line {line} of stdin")
            client = Client(made, device, written)
            messages.append(client.report(typed, "" if occasion is None else occasion))
            changed.update(_name_change(typed, made))
    if store is None:  # a real device says nothing about its value, not even to its own log
        _warn_of_changes(changed, len(messages))
    if json:
        texts = [message.hex() if form == "cbor" else message.decode() for message in messages]
        print_json({"collection": made.id, "form": form, "bytes": client.wire.size if messages else None, "messages": texts})
    elif form == "cbor":
        _print_bytes(b"".join(messages))
    else:
        print_data("".join(f"{message.decode()}\n" for message in messages))


# -- decode ----------------------------------------------------------------------------------------------------------------


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
    _check_chart(plot)
    made = _read_collection(collection)
    texts = None if candidates is None else _read_candidates(candidates)
    share, level = _parse_share(hostile, "--hostile", most=1), _parse_share(confidence, "confidence")
    with (
        _name_flags(candidates="--candidates", consistent="--norm-sub", hostile_share="--hostile", layout="--layout"),
        _explain("docs/local.md#decoding-where-the-reports-are"),
    ):
        _check_table(reports, table)
        counted = _count(made, reports, table, layout)
        shown = decode_collection(
            made, counted, candidates=texts, confidence=level, hostile_share=share, consistent=norm_sub
        )
    _refuse_nothing(made, reports, counted)
    joint = simultaneous or top is not None
    if isinstance(shown, MeanAnswer):
        _check_mean(top=top, plot=plot)
    else:
        values = len(shown.rows)
        shown = shown.simultaneous() if simultaneous else shown
        shown = shown if top is None else shown.top(top)
        _draw(partial(shown.plot, title=made.name, joint=joint), plot)
    if json:
        print_json(shown.to_dict() | {"collection": made.id})
    elif csv:
        print_data(shown.to_csv())
    else:
        from rich.console import Console

        if isinstance(shown, MeanAnswer) or not joint:
            Console().print(shown)
        else:
            Console().print(_make_joint_table(shown))
        for note in _explain_answer(shown.rows, shown.rejected):
            print_styled(note, "none")
        if top is not None and top < values:
            print_styled(f"Leave out --top to see the other {values - top:,}.", "none")
        if len(shown.rows) > MAX_ROWS:
            print_styled("--csv and --json print all rows.", "none")
        _note_picture(plot)


def _make_joint_table(shown: "LocalAnswer") -> Any:
    """The table of an answer whose only intervals are the joint ones: they stand in one column."""
    from discreet.formats import add_rich_notes, format_value, make_rich_table

    consistent = any(row.consistent is not None for row in shown.rows)
    rows = [*shown.rows[:MAX_ROWS], *([] if shown.total is None else [shown.total])]
    lines = [
        [
            str(row.label), format_value(row.value, row.joint_lower, row.joint_upper),
            f"[{row.joint_lower:,.0f}, {row.joint_upper:,.0f}]",
            *([] if not consistent else [f"{row.consistent:,.0f}" if row.consistent is not None else ""]),
        ]
        for row in rows
    ]  # fmt: skip
    header = ["value", "people", "joint interval", *(["consistent"] if consistent else [])]
    cut = [f"The first {MAX_ROWS} of {len(shown.rows):,} values."] if len(shown.rows) > MAX_ROWS else []
    return add_rich_notes(make_rich_table(None, header, lines), [*cut, *(note.strip() for note in shown.list_notes())])


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


@contextmanager
def _name_flags(**flags: str) -> Iterator[None]:
    """Let errors about parameters name the flags that set them."""
    try:
        yield
    except BadParameter as mistake:
        if mistake.name not in flags:
            raise
        flag = flags[mistake.name]
        hint = "give --candidates texts.txt" if mistake.value == "missing" else mistake.hint
        raise BadParameter(flag, "given" if mistake.value is True else mistake.value, mistake.reason, hint) from None


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


# -- simulate --------------------------------------------------------------------------------------------------------------


@local.command(
    "simulate",
    epilog="Examples:\n\n[bold]discreet local simulate --values 20 --n 1000000 --epsilon 1[/bold]\n\n"
    "[bold]discreet local simulate --values 1000 --n 1e9 --epsilon 2 --oracle hadamard --truth flat --plot got.svg[/bold]",
)
def local_simulate(
    values: Annotated[int, make_option(COLLECTION_PANEL, "How many values there are.")],
    n: Annotated[str, make_option(COST_PANEL, "The number of people: 1000000 or 1e9.", "--n")],
    epsilon: Annotated[str, make_option(COST_PANEL, "The ε of each report.")],
    oracle: Oracle = None,
    truth: Annotated[
        str,
        make_option(
            COLLECTION_PANEL,
            "zipf: value v has a share as 1/(v + 1); or flat.",
            "--truth",
            completer=complete_words(*TRUTHS),
        ),
    ] = "zipf",
    seed: Annotated[int | None, make_option(COLLECTION_PANEL, "Repeat a simulation; random, unless given.")] = None,
    confidence: Confidence = "0.95",
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Simulate a collection and show what it recovers beside the truth, and whether the intervals contain it."""
    from discreet.local.recovery import simulate_recovery

    _check_chart(plot)
    with show_progress("simulating …") as on_progress:
        found = simulate_recovery(
            values, _parse_count(n, "--n"), parse_number(epsilon, "epsilon"), oracle=_parse_oracle(oracle), truth=truth,
            seed=seed, confidence=_parse_share(confidence, "confidence"), on_progress=on_progress,
        )  # fmt: skip
    _draw(found.plot, plot)
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
    _note_picture(plot)


# -- days ------------------------------------------------------------------------------------------------------------------


@local.command(
    "days",
    epilog="Examples:\n\n[bold]discreet local days colours.json[/bold]\n\n"
    "[bold]discreet local days sites.json --days 90 --states 3 --plot days.svg[/bold]: a value that changes twice",
)
def local_days(
    collection: CollectionFile,
    days: Annotated[int, make_option(COST_PANEL, "How many days, with a report on each.")] = 365,
    states: Annotated[
        int, make_option(COST_PANEL, "Where noise is memoised: how many values, or states, a device has in that time.")
    ] = 1,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Show what daily reports cost a device: ε after each day, with fresh noise and with what the collection allows."""
    from discreet.local.charts import DAY_WORDS, draw_spending, list_spending

    _check_chart(plot)
    if days > MAX_DAYS:
        raise BadParameter("--days", days, f"more than {MAX_DAYS:,}", "give fewer")
    made = _read_collection(collection)
    rows = list_spending(made, days, states)
    _draw(partial(draw_spending, made, days, states=states), plot)
    if json:
        print_json({"collection": made.id, "days": rows})
        return
    from discreet._numbers import format_up

    shown = [row for row in rows if row["day"] in (1, 7, 30, 90, 365, days)]
    kinds = [name for name in rows[0] if name != "day"]
    print_table(
        f"ε of a device that reports every day: {made.name}", ["days", *(DAY_WORDS[kind] for kind in kinds)],
        [[f"{row['day']:,.0f}", *(format_up(row[kind], 4) for kind in kinds)] for row in shown],
    )  # fmt: skip
    _note_picture(plot)


# -- vectors and shuffle ---------------------------------------------------------------------------------------------------


@local.command("vectors", epilog="Example: [bold]discreet local vectors --out vectors.jsonl[/bold]")
def local_vectors(
    out: Annotated[str | None, make_option(ANSWER_PANEL, "Write them into this file; to stdout, unless given.")] = None,
    json: Json = False,
) -> None:
    """Write the conformance vectors: what every client, in every language, does with the same random bytes.

    Each line is JSON. They are the same on every machine; --json prints how many there are of each kind, and their hash.
    """
    from collections import Counter
    from hashlib import sha256

    from discreet.formats import refuse_unwritable
    from discreet.local.vectors import list_vectors, write_vectors

    vectors = list(list_vectors())
    text = "".join(f"{line}\n" for line in write_vectors(vectors))
    if out is not None:
        with refuse_unwritable(out, "--out"), open(out, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    if json:
        kinds = Counter(str(vector["kind"]) for vector in vectors)
        digest = sha256(text.encode()).hexdigest()
        print_json({"file": out, "vectors": len(vectors), "kinds": dict(kinds), "sha256": digest})
    elif out is None:
        print_data(text)
    else:
        print_styled(f"{len(vectors):,} vectors written to {out}.")


@local.command(
    "shuffle",
    epilog="Examples:\n\n[bold]discreet local shuffle --n 10000 --epsilon0 1 --delta 1e-6[/bold]\n\n"
    "[bold]discreet local shuffle --n 10000 --epsilon0 1 --delta 1e-6 --oracle projective --values 100[/bold]",
)
def local_shuffle(
    n: Annotated[str, make_option(COST_PANEL, "How many honest people report: 10000 or 1e6.", "--n")],
    epsilon0: Annotated[str, make_option(COST_PANEL, "The local ε of each report.", "--epsilon0")],
    delta: Annotated[str, make_option(COST_PANEL, "δ of the (ε, δ) guarantee.")],
    oracle: Annotated[
        str | None,
        make_option(
            COST_PANEL,
            "The oracle, which gives a smaller ε; any randomiser, unless given.",
            "--oracle",
            completer=complete_words(*ORACLES),
        ),
    ] = None,
    values: Annotated[int | None, make_option(COST_PANEL, "With --oracle: how many values there are.")] = None,
    json: Json = False,
) -> None:
    """Compute the ε of reports whose names an honest shuffler removes: an interval around that of the dominating pair.

    n counts the honest people, is fixed and public, and neighbours replace one person's value.
    """
    from discreet._numbers import format_down, format_up
    from discreet.accounting.shuffling import pair_epsilon, shuffled_epsilon
    from discreet.events import shuffle
    from discreet.formats import count_people

    people, start, at = _parse_count(n, "--n"), parse_number(epsilon0, "epsilon0"), parse_number(delta, "delta")
    if oracle is None and values is not None:
        raise BadParameter("--values", values, "any randomiser is meant", "name one with --oracle, or leave it out")
    if oracle is None:
        bounds = shuffled_epsilon(people, start, at)
    else:
        from discreet.local.choosing import choose_oracle

        if values is None:
            raise BadParameter("--values", "missing", "the ε of an oracle depends on it", "give --values 100")
        bounds = pair_epsilon(shuffle(choose_oracle(values, start, _parse_oracle(oracle)).event(), people), at)
    if json:
        words = {"n": people, "epsilon0": float(start), "delta": float(at), "oracle": oracle, "values": values}
        print_json(_describe_bounds(bounds) | words)
        return
    print_styled(f"ε in [{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}] at δ = {delta}", "bold")
    print_styled(
        f"{count_people(people, 'honest ')}, each report ε₀ = {format_up(start, 4)}, and a shuffler that removes all names. "
        f"Against the shuffler itself only ε₀ holds.{_describe_crowd(bounds.upper, start)}"
    )


# -- texts and files -------------------------------------------------------------------------------------------------------


def _parse_optional(text: str | None, name: str) -> "Fraction | None":
    return None if text is None else parse_number(text, name)


def _parse_share(text: str, name: str, most: int | None = None) -> "Fraction":
    """A share: 0.01 or 1%."""
    found = parse_number(text[:-1], name) / 100 if text.endswith("%") else parse_number(text, name)
    if most is not None and not 0 <= found <= most:
        raise BadParameter(name, text, "not a share", "give one between 0 and 1, or between 0% and 100%")
    if name == "confidence" and 1 < found < 100:
        raise BadParameter("--confidence", text, "a probability is below 1", f"write --confidence {text.strip('%')}%"
                           if found < 100 and not text.endswith("%") else "write --confidence 95%")  # fmt: skip
    return found


def _parse_error(text: str) -> "Fraction":
    """The largest half-width, as a share of all people."""
    found = _parse_share(text, "--error")
    if found >= 1:
        hint = f"write --error {text}%" if found < 100 and not text.endswith("%") else "write --error 5%"
        raise BadParameter("--error", text, "it is a share of all people, and all of them are 100%", hint)
    return found


def _check_two(given: Mapping[str, str | None]) -> None:
    """Refuse a plan that is given other than two of its three numbers."""
    names = [flag for flag, text in given.items() if text is not None]
    if len(names) == 2:
        return
    missing = [flag for flag in given if flag not in names]
    reason = f"two of --n, --epsilon and --error give the third, and you gave {['none', 'one', '', 'three'][len(names)]}"
    if missing:
        hint = f"give {' or '.join(missing)} too" if names else "give two of them: --n 1000000 --epsilon 1"
        raise BadParameter(missing[0], "missing", reason, hint)
    raise BadParameter(names[-1], f"given with {' and '.join(names[:-1])}", reason, "leave out exactly one")


def _describe_crowd(epsilon: float, local_epsilon: "Fraction") -> str:
    """Say that the crowd does not help where ε is nearly that of one report."""
    if epsilon < 0.9 * float(local_epsilon):
        return ""
    return " The crowd does not help here: ε is nearly that of one report. Take more people."


def _parse_count(text: str, flag: str) -> int:
    """A number of people: 1000000 or 1e6."""
    number = parse_number(text, flag)
    if number.denominator != 1 or number < 1:
        raise BadParameter(flag, text, "not a number of people", f"write {flag} 1000000")
    return int(number)


def _parse_oracle(text: str | None) -> str | None:
    if text is None:
        return None
    text = ALIASES.get(text.lower(), text)
    if text.lower() == "flh":
        reason = "a few public hash functions, whose error does not fall with more people"
        raise BadParameter("--oracle", "'flh'", reason, "take projective or hashed; in Python it is FixedHashed")
    if text not in ORACLES:
        from difflib import get_close_matches

        near = get_close_matches(text, (*ORACLES, *ALIASES), 1)
        hint = f"did you mean {near[0]}?" if near else f"take {', '.join(ORACLES)}"
        raise BadParameter("--oracle", repr(text), "not a known oracle", hint)
    return text.replace("-", " ")


def _parse_form(text: str) -> Any:
    from discreet.local.wire import Form

    if text not in FORMS:
        raise BadParameter("--form", repr(text), "not a form of messages", f"take {' or '.join(FORMS)}")
    return Form(text)


def _parse_domain(values: str | None, range_: str | None, step: int, missing: str | None, *, only: bool) -> "Domain":
    from discreet.local.domains import Integers

    if (values is None) == (range_ is None):
        given = "missing" if values is None else "given with --range"
        raise BadParameter("--values", given, "a collection has one domain", "give --values red,green or --range 0:23")
    if values is not None:
        if step != 1:
            raise BadParameter("--step", step, "listed values have no steps", "leave it out")
        return _parse_listed(values, missing, only=only)
    if only:
        raise BadParameter("--only", "given with --range", "integers outside are clipped", "leave it out")
    low_text, _, high_text = str(range_).partition(":")
    try:
        low, high = int(low_text), int(high_text)
    except ValueError:
        raise BadParameter("--range", repr(range_), "not two integers", "write --range 0:23") from None
    if low >= high:
        reason = "the first integer is not below the second"
        raise BadParameter("--range", repr(range_), reason, f"write --range {high}:{low if low > high else high + 1}")
    if step > high - low:
        reason = f"all integers from {low} to {high} would share one bucket, and nothing would be asked"
        raise BadParameter("--step", step, reason, f"give at most {high - low}")
    domain = Integers(low, high, step, _clean_missing(missing))
    if missing is not None and domain.labels.count(domain.labels[-1]) > 1:
        raise BadParameter("--missing", repr(missing), "it is the name of a bucket", "take another name, such as none")
    return domain


def _parse_listed(text: str, missing: str | None, *, only: bool) -> "Domain":
    """The values between commas, or in the lines of a file after @; spaces around them are left out."""
    from discreet.local.domains import Listed

    names = [name.strip() for name in _split_values(text)]
    empty = _clean_missing(missing)
    if not all(names):
        place = names.index("") + 1
        what = f"value {place} is empty" if len(names) > 1 else "it is empty"
        raise BadParameter("--values", _shorten(text), what, "give each value a name; people without one: --missing none")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise BadParameter("--values", _shorten(text), f"{repeated[0]!r} stands in it twice", "name every value once")
    if not only and "other" in names:
        raise BadParameter("--values", _shorten(text), "`other` is added, so it would be in it twice",
                           "leave it out once, or give --only")  # fmt: skip
    if empty is not None and empty in (*names, *([] if only else ["other"])):
        raise BadParameter("--missing", repr(missing), "it is the name of a value", "take another name, such as none")
    if len(names) + (not only) + (empty is not None) < 2:
        raise BadParameter("--values", _shorten(text), "everyone has the one value, and nothing would be asked",
                           "list two or more, or leave out --only")  # fmt: skip
    return Listed(tuple(names), None if only else "other", empty)


def _split_values(text: str) -> list[str]:
    from discreet.paths import read_text

    if not text.startswith("@"):
        if "," not in text and Path(text).is_file():
            raise BadParameter("--values", repr(text), "a file, which would be one value of this name",
                               f"read its lines: --values @{text}")  # fmt: skip
        return split_list(text, "--values", "red,green")

    def refuse(reason: str) -> BadParameter:
        return BadParameter("--values", repr(text), reason, "name a file with one value in each line after the @")

    lines = read_text(text[1:], refuse).splitlines()
    return lines if lines else [""]


def _clean_missing(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise BadParameter("--missing", repr(text), "it is empty", "give a name, such as --missing none")
    return None if text is None else text.strip()


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def _list_labels(domain: "Domain") -> str:
    """The first labels and the last, to see at once whether a list was read as it was meant."""
    labels = domain.labels or ()
    if len(labels) <= MAX_LABELS + 1:
        return ", ".join(labels)
    return f"{', '.join(labels[:MAX_LABELS])}, …, {labels[-1]}"


def _parse_value(text: str | None, made: "Collection", where: str) -> str | int | None:
    """A value as the domain takes it."""
    from discreet.local.domains import Integers

    if text is None or not isinstance(made.domain, Integers):
        return text
    try:
        return int(text)
    except ValueError:
        reason = f"this collection takes integers from {made.domain.low} to {made.domain.high}, and rounds none"
        raise BadParameter(where, "not an integer", reason, "give integers such as 7") from None


def _check_missing(made: "Collection", missing: bool) -> None:
    """Refuse --missing where it would be reported as another value."""
    from discreet.local.domains import Texts

    if missing and not isinstance(made.domain, Texts) and made.domain.missing is None:
        reason = "this collection has no value for people without one"
        raise BadParameter("--missing", "given", reason, "leave it out, or write a collection with --missing none")


def _name_change(value: str | int | None, made: "Collection") -> list[str]:
    """What a client reports in place of a value: `other`, or the end of a range."""
    from discreet.local.domains import Integers, Listed

    match made.domain:
        case Listed() as listed if (listed.missing if value is None else value) not in listed.labels:
            return [f"as {listed.other}", *(["comma"] if isinstance(value, str) and "," in value else [])]
        case Integers(low=low, high=high) if isinstance(value, int) and not low <= value <= high:
            return [f"clipped to {low} … {high}"]
    return []


def _warn_of_changes(changed: "Counter[str]", reports: int) -> None:
    from discreet.formats import count_things

    commas = changed.pop("comma", 0)
    for what, times in changed.items():
        print_warning(f"{count_things(reports, 'value')}, {times:,} {what}.")
    if commas:
        print_warning(
            "A value with a comma is not in the list. A device reports one value: if it has several, let it draw one at "
            "random, or ask for each in a collection of its own. See: discreet help local#several-values"
        )


def _allow(mechanism: Any, text: str) -> Any:
    """The budget of a device for life; the error names its flag, and not that of a report."""
    from discreet.local.collection import Lifetime

    epsilon = parse_number(text, "--lifetime")
    try:
        return Lifetime.of(mechanism, epsilon)
    except BadParameter as mistake:
        raise BadParameter("--lifetime", text, mistake.reason, mistake.hint) from None


def _read_collection(path: str, pinned: str | None = None) -> "Collection":
    from discreet.local.collection import Collection
    from discreet.paths import read_text

    def refuse(reason: str) -> BadParameter:
        return BadParameter("collection", repr(path), reason, "check the path")

    text = read_text(path, refuse).strip()
    try:
        return Collection.read(text, pinned)
    except BadParameter as mistake:
        if mistake.name == "collection" and mistake.value == "no collection":
            hint = "write one: discreet local collection colours --values red,green --epsilon 1"
            reason = _diagnose_collection(text, mistake.reason)
            raise BadParameter("collection", repr(path), f"no collection; {reason}", hint) from None
        if pinned is not None and mistake.hint == f"give {pinned}":
            reason = f"the collection in {path} has the id {mistake.value}"
            raise BadParameter("--pin", pinned, reason, "check both") from None
        raise


def _diagnose_collection(text: str, reason: str) -> str:
    """Say why a file is no collection: it is empty or cut off, or fields are missing or were added."""
    from json import JSONDecodeError, loads

    try:
        found = loads(text)
    except JSONDecodeError as mistake:
        if not text:
            return "the file is empty"
        if mistake.pos >= len(text) - 1 or mistake.msg.startswith("Unterminated"):
            return f"the file is cut off after {len(text.encode()):,} bytes"
        return f"it is not JSON (line {mistake.lineno}, column {mistake.colno})"
    except (ValueError, RecursionError):
        return reason
    if not isinstance(found, dict):
        return "it holds no fields"
    if missing := [name for name in FIELDS if name not in found]:
        return f"it lacks {', '.join(missing)}"
    if added := [str(name) for name in found if name not in FIELDS]:
        return f"it was edited: {', '.join(map(repr, added[:MAX_LABELS]))} is no field of a collection"
    return f"it was edited: {reason}"


def _read_values(store: str | None) -> Iterator[str | None]:
    """The values on stdin, one in each line; an empty line is a person without one. A device has one value."""
    if sys.stdin.isatty():
        raise BadParameter("--value", "missing", "stdin is a terminal", "give --value red, or pipe lines into the command")
    values = (line.rstrip("\r\n") or None for line in sys.stdin)
    if store is None:
        print_warning("Each line is reported by a new device that keeps nothing: for tests. Devices need --store.")
        return values
    listed = list(values)
    if len(listed) != 1:
        reason = f"it is one device's, with one value at a time, and stdin has {len(listed)} lines"
        raise BadParameter("--store", store, reason, "pipe one line into the command, or give --value")
    return iter(listed)


def _check_device(store: str | None, occasion: str | None, *, both: bool) -> None:
    if both:
        raise BadParameter("--missing", "given with --value", "a device has a value or none", "give one of the two")
    if store is not None and occasion is None:
        raise BadParameter("--occasion", "missing", "a device reports once on each", "give --occasion 2026-11-17")
    if store is None and occasion is not None:
        raise BadParameter("--occasion", occasion, "without --store nothing is kept", "give --store device.db")


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet; one of the same content stays as it is."""
    try:
        if path.exists() and path.read_bytes() != content:
            raise BadParameter(
                "--out", str(path), "another collection is in it, and clients may have pinned it",
                "name another file, with a new --version",
            )  # fmt: skip
        path.write_bytes(content)
    except OSError as failed:
        from discreet.paths import reason_of

        raise BadParameter("--out", str(path), reason_of(failed), "name a file in a folder that exists") from None


def _check_chart(plot: str | None) -> None:
    """Refuse a picture that cannot be written, before anything is computed."""
    if plot is not None:
        from discreet.vega import check_chart_path

        check_chart_path(plot, "--plot")
        if not Path(plot).parent.is_dir():
            raise BadParameter("--plot", repr(plot), "its folder does not exist", "name a file in a folder that exists")


def _draw(draw: Callable[[str], Any], plot: str | None) -> None:
    """Draw into the file that --plot names, if it is given."""
    if plot is not None:
        with _name_flags(path="--plot"):
            draw(plot)


@contextmanager
def _explain(page: str) -> Iterator[None]:
    """Let errors that have no flag name the page about local privacy."""
    try:
        yield
    except DiscreetError as mistake:
        if not isinstance(mistake, BadParameter):
            mistake.see = page
        raise


def _note_picture(plot: str | None) -> None:
    if plot is not None:
        print_styled(f"Picture written to {plot}.")


def _describe_bounds(bounds: Any) -> dict[str, Any]:
    return {"epsilon": {"lower": bounds.lower, "upper": bounds.upper}}


def _print_bytes(content: bytes) -> None:
    if sys.stdout.isatty():
        raise BadParameter("--form", "cbor", "a terminal cannot show bytes", "redirect them: > reports.cbor")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
