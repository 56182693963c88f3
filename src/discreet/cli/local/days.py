"""`discreet local days`: what a report on every day costs a device."""

from functools import partial
from typing import Annotated

from discreet.cli.local.options import (
    CollectionFile,
    Picture,
    check_chart,
    local,
    note_picture,
    read_collection,
    write_picture,
)
from discreet.cli.options import COST_PANEL, Json, make_option
from discreet.cli.output import print_json, print_table
from discreet.errors import BadParameter

MAX_DAYS = 10_000


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

    check_chart(plot)
    if days > MAX_DAYS:
        raise BadParameter("--days", days, f"more than {MAX_DAYS:,}", "give fewer")
    made = read_collection(collection)
    rows = list_spending(made, days, states)
    write_picture(partial(draw_spending, made, days, states=states), plot)
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
    note_picture(plot)
