"""`discreet local`: collections in which every person adds the noise: plan one, write it, encode, decode, simulate."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from discreet.cli.output import parse_number, print_data, print_json, print_styled, print_warning, show_progress
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from fractions import Fraction

    from discreet.local.collection import Collection
    from discreet.local.domains import Domain
    from discreet.local.store import Store

local = App(
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Collect statistics from people who each add their own noise (local privacy).",
)
app.add_typer(local, name="local", rich_help_panel=ASKING)

ORACLES = ("direct", "symmetric-unary", "optimised-unary", "subset", "hashed", "hadamard", "projective")
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
        COST_PANEL, f"{', '.join(ORACLES)}; the best of direct and projective, unless given.", "--oracle",
        completer=complete_words(*ORACLES),
    ),
]  # fmt: skip
Picture: TypeAlias = Annotated[
    str | None, make_option(ANSWER_PANEL, "Draw it into this file: .svg, .png, .html or .json.", "--plot")
]
Confidence: TypeAlias = Annotated[str, make_option(COST_PANEL, "The probability that an interval contains the truth.")]


# -- plan ------------------------------------------------------------------------------------------------------------------


@local.command(
    "plan",
    epilog="Examples:\n\n[bold]discreet local plan --values 100 --n 1000000 --epsilon 1[/bold]: how accurate?\n\n"
    "[bold]discreet local plan --values 100 --epsilon 1 --error 1%[/bold]: how many people?\n\n"
    "[bold]discreet local plan --values 100 --n 1000000 --error 1% --delta 1e-8 --plot errors.svg[/bold]: which ε?",
)
def local_plan(
    values: Annotated[int, make_option(COLLECTION_PANEL, "How many values there are, with other and missing.")],
    n: Annotated[int | None, make_option(COST_PANEL, "The number of people who report.", "--n")] = None,
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
    from discreet.local.planning import plan_collection

    _check_chart(plot)
    found = plan_collection(
        values, n=n, epsilon=_parse_optional(epsilon, "epsilon"),
        error=None if error is None else _parse_share(error, "error"), confidence=parse_number(confidence, "confidence"),
    )  # fmt: skip
    crowd = None if delta is None else found.shuffled_epsilon(parse_number(delta, "delta"))
    if plot is not None:
        found.plot(plot)
    if json:
        shuffled = None if crowd is None else _describe_bounds(crowd) | {"delta": float(parse_number(str(delta), "delta"))}
        print_json(found.to_dict() | {"shuffled": shuffled})
        return
    from rich.console import Console

    Console().print(found)
    if crowd is not None:
        print_styled(
            f"Shuffled: ε = {format_up(crowd.upper, 3)} at δ = {delta}, if an honest shuffler removes all names and all "
            f"{found.n:,} people report honestly. Against the shuffler itself ε stays {format_up(found.epsilon, 4)}."
        )
    _note_picture(plot)


# -- collection ------------------------------------------------------------------------------------------------------------


@local.command(
    "collection",
    epilog="Examples:\n\n"
    "[bold]discreet local collection colours --values red,green,blue --epsilon 1 --lifetime 10[/bold]\n\n"
    "[bold]discreet local collection hours --range 0:23 --epsilon 2 --out hours-v2.json --version 2[/bold]",
)
def local_collection(
    name: Annotated[str, typer.Argument(help="What is asked, in a word: the name of the collection.")],
    epsilon: Annotated[str, make_option(COST_PANEL, "The ε of each report.")],
    values: Annotated[
        str | None, make_option(COLLECTION_PANEL, "The values: red,green,blue. All others are reported as other.")
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
    times = "once" if life.per == "once" else f"{life.reports} times"
    print_styled(f"Collection written to {path}.", "bold")
    print_styled(
        f"{domain.size:,} values by {kind}, ε = {format_up(mechanism.epsilon, 4)} a report. A device reports {times}: ε = "
        f"{format_up(life.epsilon, 4)} for life, between {life.condition}. A message has {sizes['json']} bytes of JSON or "
        f"{sizes['cbor']} of CBOR."
    )
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
    given: Iterable[str | None] = [None if missing else value] if is_single else _read_values(store)
    stores: Iterator[Store] = iter([FileStore(store)] if store is not None else iter(MemoryStore, None))
    messages: list[bytes] = []
    for text, device in zip(given, stores, strict=False):
        client = Client(made, device, written)
        messages.append(client.report(_parse_value(text, made), "" if occasion is None else occasion))
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
    table: Annotated[str | None, make_option(REPORT_PANEL, "The table of a database.")] = None,
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
    with _name_flags(candidates="--candidates", consistent="--norm-sub", hostile_share="--hostile", layout="--layout"):
        shown = decode_collection(
            made, _count(made, reports, table, layout), candidates=texts, confidence=parse_number(confidence, "confidence"),
            hostile_share=_parse_share(hostile, "--hostile"), consistent=norm_sub,
        )  # fmt: skip
    if isinstance(shown, MeanAnswer):
        _check_mean(top=top, plot=plot)
    else:
        shown = shown.simultaneous() if simultaneous else shown
        shown = shown if top is None else shown.top(top)
        if plot is not None:
            shown.plot(plot, title=made.name, joint=simultaneous or top is not None)
    if json:
        print_json(shown.to_dict() | {"collection": made.id})
    elif csv:
        print_data(shown.to_csv())
    else:
        from rich.console import Console

        Console().print(shown)
        _note_picture(plot)


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
            seed=seed, confidence=parse_number(confidence, "confidence"), on_progress=on_progress,
        )  # fmt: skip
    if plot is not None:
        found.plot(plot)
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
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
        f"{people:,} honest people, each report ε₀ = {format_up(start, 4)}, and a shuffler that removes all names. "
        "Against the shuffler itself only ε₀ holds."
    )


# -- texts and files -------------------------------------------------------------------------------------------------------


def _parse_optional(text: str | None, name: str) -> "Fraction | None":
    return None if text is None else parse_number(text, name)


def _parse_share(text: str, name: str) -> "Fraction":
    """A share: 0.01 or 1%."""
    return parse_number(text[:-1], name) / 100 if text.endswith("%") else parse_number(text, name)


def _parse_count(text: str, flag: str) -> int:
    """A number of people: 1000000 or 1e6."""
    number = parse_number(text, flag)
    if number.denominator != 1 or number < 1:
        raise BadParameter(flag, text, "not a number of people", f"write {flag} 1000000")
    return int(number)


def _parse_oracle(text: str | None) -> str | None:
    if text is None:
        return None
    if text not in ORACLES:
        from difflib import get_close_matches

        near = get_close_matches(text, ORACLES, 1)
        hint = f"did you mean {near[0]}?" if near else f"take {', '.join(ORACLES)}"
        raise BadParameter("--oracle", repr(text), "not a known oracle", hint)
    return text.replace("-", " ")


def _parse_form(text: str) -> Any:
    from discreet.local.wire import Form

    if text not in FORMS:
        raise BadParameter("--form", repr(text), "not a form of messages", f"take {' or '.join(FORMS)}")
    return Form(text)


def _parse_domain(values: str | None, range_: str | None, step: int, missing: str | None, *, only: bool) -> "Domain":
    from discreet.local.domains import Integers, Listed

    if (values is None) == (range_ is None):
        given = "missing" if values is None else "given with --range"
        raise BadParameter("--values", given, "a collection has one domain", "give --values red,green or --range 0:23")
    if values is not None:
        if step != 1:
            raise BadParameter("--step", step, "listed values have no steps", "leave it out")
        return Listed(tuple(split_list(values, "--values", "red,green")), None if only else "other", missing)
    if only:
        raise BadParameter("--only", "given with --range", "integers outside are clipped", "leave it out")
    low, _, high = str(range_).partition(":")
    try:
        return Integers(int(low), int(high), step, missing)
    except ValueError:
        raise BadParameter("--range", repr(range_), "not two integers", "write --range 0:23") from None


def _parse_value(text: str | None, made: "Collection") -> str | int | None:
    """A value as the domain takes it."""
    from discreet.local.domains import Integers

    if text is None or not isinstance(made.domain, Integers):
        return text
    try:
        return int(text)
    except ValueError:
        raise BadParameter("--value", "not shown", "a value is no integer", "give integers such as 7") from None


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

    try:
        return Collection.read(read_text(path, refuse).strip(), pinned)
    except BadParameter as mistake:
        if mistake.name == "collection" and mistake.value == "no collection":
            hint = "write one: discreet local collection colours --values red,green --epsilon 1"
            raise BadParameter("collection", repr(path), f"no collection; {mistake.reason}", hint) from None
        if pinned is not None and mistake.hint == f"give {pinned}":
            reason = f"the collection in {path} has the id {mistake.value}"
            raise BadParameter("--pin", pinned, reason, "check both") from None
        raise


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
    if plot is not None:
        from discreet.vega import check_chart_path

        check_chart_path(plot, "--plot")


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
