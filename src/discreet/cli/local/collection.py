"""`discreet local collection`: write what every device is asked, under one id that clients pin."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.local.options import COLLECTION_PANEL, MAX_LABELS, Oracle, local, parse_oracle
from discreet.cli.options import ANSWER_PANEL, COST_PANEL, Json, complete_files, make_option, split_list
from discreet.cli.output import parse_number, print_json, print_styled, print_warning
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.local.domains import Domain


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
    mechanism = choose_oracle(int(domain.size or 0), parse_number(epsilon, "epsilon"), parse_oracle(oracle))
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


def _allow(mechanism: Any, text: str) -> Any:
    """The budget of a device for life; the error names its flag, and not that of a report."""
    from discreet.local.collection import Lifetime

    epsilon = parse_number(text, "--lifetime")
    try:
        return Lifetime.of(mechanism, epsilon)
    except BadParameter as mistake:
        raise BadParameter("--lifetime", text, mistake.reason, mistake.hint) from None


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
