"""`discreet local plan`: compare all oracles before anything is collected."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from discreet.cli.local.options import (
    COLLECTION_PANEL,
    Confidence,
    Picture,
    check_chart,
    describe_bounds,
    describe_crowd,
    local,
    note_picture,
    parse_count,
    parse_share,
    write_picture,
)
from discreet.cli.options import COST_PANEL, Json, make_option
from discreet.cli.output import parse_number, print_json, print_styled
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from fractions import Fraction


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

    check_chart(plot)
    _check_two({"--n": n, "--epsilon": epsilon, "--error": error})
    found = plan_collection(
        values, n=None if n is None else parse_count(n, "--n"), epsilon=_parse_optional(epsilon, "epsilon"),
        error=None if error is None else _parse_error(error), confidence=parse_share(confidence, "confidence"),
    )  # fmt: skip
    crowd = None if delta is None else found.shuffled_epsilon(parse_number(delta, "delta"))
    write_picture(found.plot, plot)
    if json:
        shuffled = None if crowd is None else describe_bounds(crowd) | {"delta": float(parse_number(str(delta), "delta"))}
        print_json(found.to_dict() | {"shuffled": shuffled})
        return
    from rich.console import Console

    Console().print(found)
    if crowd is not None:
        print_styled(
            f"Shuffled: ε = {format_up(crowd.upper, 3)} at δ = {delta}, if an honest shuffler removes all names and all "
            f"{count_people(found.n)} report honestly. Against the shuffler itself ε stays {format_up(found.epsilon, 4)}."
            f"{describe_crowd(crowd.upper, found.epsilon)}"
        )
    note_picture(plot)


def _parse_optional(text: str | None, name: str) -> "Fraction | None":
    return None if text is None else parse_number(text, name)


def _parse_error(text: str) -> "Fraction":
    """The largest half-width, as a share of all people."""
    found = parse_share(text, "--error")
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
