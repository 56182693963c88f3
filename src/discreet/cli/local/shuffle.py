"""`discreet local shuffle`: the ε of reports whose names a shuffler removes."""

from typing import Annotated

from discreet.cli.local.options import ORACLES, describe_bounds, describe_crowd, local, parse_count, parse_oracle
from discreet.cli.options import COST_PANEL, Json, complete_words, make_option
from discreet.cli.output import parse_number, print_json, print_styled
from discreet.errors import BadParameter


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

    people, start, at = parse_count(n, "--n"), parse_number(epsilon0, "epsilon0"), parse_number(delta, "delta")
    if oracle is None and values is not None:
        raise BadParameter("--values", values, "any randomiser is meant", "name one with --oracle, or leave it out")
    if oracle is None:
        bounds = shuffled_epsilon(people, start, at)
    else:
        from discreet.local.choosing import choose_oracle

        if values is None:
            raise BadParameter("--values", "missing", "the ε of an oracle depends on it", "give --values 100")
        bounds = pair_epsilon(shuffle(choose_oracle(values, start, parse_oracle(oracle)).event(), people), at)
    if json:
        words = {"n": people, "epsilon0": float(start), "delta": float(at), "oracle": oracle, "values": values}
        print_json(describe_bounds(bounds) | words)
        return
    print_styled(f"ε in [{format_down(bounds.lower, 12)}, {format_up(bounds.upper, 12)}] at δ = {delta}", "bold")
    print_styled(
        f"{count_people(people, 'honest ')}, each report ε₀ = {format_up(start, 4)}, and a shuffler that removes all names. "
        f"Against the shuffler itself only ε₀ holds.{describe_crowd(bounds.upper, start)}"
    )
