"""The group `discreet local`, and what its commands share: options and their texts, collections, pictures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.cli.app import ASKING, App, app
from discreet.cli.options import ANSWER_PANEL, COST_PANEL, complete_files, complete_words, make_option
from discreet.cli.output import parse_number, print_styled
from discreet.errors import BadParameter, DiscreetError

if TYPE_CHECKING:
    from fractions import Fraction

    from discreet.local.collection import Collection

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
MAX_LABELS = 5
FIELDS = ("domain", "format", "lifetime", "mechanism", "name", "unit", "version")
"""The fields of a collection's file."""
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


def parse_share(text: str, name: str, most: int | None = None) -> "Fraction":
    """A share: 0.01 or 1%."""
    found = parse_number(text[:-1], name) / 100 if text.endswith("%") else parse_number(text, name)
    if most is not None and not 0 <= found <= most:
        raise BadParameter(name, text, "not a share", "give one between 0 and 1, or between 0% and 100%")
    if name == "confidence" and 1 < found < 100:
        raise BadParameter("--confidence", text, "a probability is below 1", f"write --confidence {text.strip('%')}%"
                           if found < 100 and not text.endswith("%") else "write --confidence 95%")  # fmt: skip
    return found


def describe_crowd(epsilon: float, local_epsilon: "Fraction") -> str:
    """Say that the crowd does not help where ε is nearly that of one report."""
    if epsilon < 0.9 * float(local_epsilon):
        return ""
    return " The crowd does not help here: ε is nearly that of one report. Take more people."


def parse_count(text: str, flag: str) -> int:
    """A number of people: 1000000 or 1e6."""
    number = parse_number(text, flag)
    if number.denominator != 1 or number < 1:
        raise BadParameter(flag, text, "not a number of people", f"write {flag} 1000000")
    return int(number)


def parse_oracle(text: str | None) -> str | None:
    """The name of an oracle as `choose_oracle` takes it, from its name or its abbreviation."""
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


def read_collection(path: str, pinned: str | None = None) -> "Collection":
    """Read the file of a collection, and refuse one that has not the pinned id."""
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


def check_chart(plot: str | None) -> None:
    """Refuse a picture that cannot be written, before anything is computed."""
    if plot is not None:
        from discreet.vega import check_chart_path

        check_chart_path(plot, "--plot")
        if not Path(plot).parent.is_dir():
            raise BadParameter("--plot", repr(plot), "its folder does not exist", "name a file in a folder that exists")


def write_picture(draw: Callable[[str], Any], plot: str | None) -> None:
    """Draw into the file that --plot names, if it is given."""
    if plot is not None:
        with name_flags(path="--plot"):
            draw(plot)


@contextmanager
def name_flags(**flags: str) -> Iterator[None]:
    """Let errors about parameters name the flags that set them."""
    try:
        yield
    except BadParameter as mistake:
        if mistake.name not in flags:
            raise
        flag = flags[mistake.name]
        hint = "give --candidates texts.txt" if mistake.value == "missing" else mistake.hint
        raise BadParameter(flag, "given" if mistake.value is True else mistake.value, mistake.reason, hint) from None


@contextmanager
def explain(page: str) -> Iterator[None]:
    """Let errors that have no flag name the page about local privacy."""
    try:
        yield
    except DiscreetError as mistake:
        if not isinstance(mistake, BadParameter):
            mistake.see = page
        raise


def note_picture(plot: str | None) -> None:
    """Say where the picture is."""
    if plot is not None:
        print_styled(f"Picture written to {plot}.")


def describe_bounds(bounds: Any) -> dict[str, Any]:
    """Both ends of ε, for JSON."""
    return {"epsilon": {"lower": bounds.lower, "upper": bounds.upper}}
