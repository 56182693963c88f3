"""`discreet local encode`: a value, or a line of stdin for each of many, as the message that a device sends."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from discreet.cli.local.options import COLLECTION_PANEL, REPORT_PANEL, CollectionFile, explain, local, read_collection
from discreet.cli.options import Json, complete_words, make_option
from discreet.cli.output import print_data, print_json, print_warning
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.local.collection import Collection
    from discreet.local.store import Store

FORMS = ("json", "cbor")


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

    made, written = read_collection(collection, pin), _parse_form(form)
    is_single = value is not None or missing
    _check_device(store, occasion, both=value is not None and missing)
    _check_missing(made, missing)
    given: Iterable[str | None] = [None if missing else value] if is_single else _read_values(store)
    stores: Iterator[Store] = iter([FileStore(store)] if store is not None else iter(MemoryStore, None))
    messages: list[bytes] = []
    changed: Counter[str] = Counter()
    with explain("docs/local.md#a-collection-from-end-to-end"):
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


def _parse_form(text: str) -> Any:
    from discreet.local.wire import Form

    if text not in FORMS:
        raise BadParameter("--form", repr(text), "not a form of messages", f"take {' or '.join(FORMS)}")
    return Form(text)


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


def _print_bytes(content: bytes) -> None:
    if sys.stdout.isatty():
        raise BadParameter("--form", "cbor", "a terminal cannot show bytes", "redirect them: > reports.cbor")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
