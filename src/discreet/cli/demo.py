"""`discreet demo`: the whole road on one screen. What is shown was paid for; the true numbers are not shown."""

from discreet.cli.output import parse_number, print_json
from discreet.cli.sample import REGIONS, ROWS, make_visits
from discreet.session.connect import connect
from discreet.session.session import Session

COUNTS = "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region"
MEAN = "SELECT AVG(paid) AS mean_paid FROM visits"


def run(epsilon: str, delta: str, *, as_json: bool) -> None:
    """A quote, two questions, and the budget before and after."""
    price = parse_number(epsilon, "epsilon")
    session = connect(
        make_visits(), table="visits", unit="person", epsilon=3 * price, delta=parse_number(delta, "delta"),
        bounds={"paid": (0, 150)}, keys={"region": REGIONS}, max_groups=2, max_rows=5,
    )  # fmt: skip
    before, quoted = session.budget, session.quote(COUNTS, epsilon=price)
    answers = [session.ask(question, epsilon=price) for question in (COUNTS, MEAN)]
    if as_json:
        shown = [answer.to_dict() for answer in answers]
        budget = {"before": before.to_dict(), "after": session.budget.to_dict()}
        print_json({"budget": budget, "quote": quoted.to_dict(), "answers": shown})
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(f"{ROWS:,} invented visits. Budget: {before}."))
    for promise in quoted.columns:
        noise = ", ".join(mechanism for _, mechanism in promise.noises)
        console.print(Text(f"> quote {COUNTS}\n  {promise.column} ± {promise.half_widths[0][1]:g}, {noise}. {quoted.cost}."))
    console.print(Text(f"  In every currency: {', '.join(map(str, quoted.costs))}."))
    for question, answer in zip((COUNTS, MEAN), answers, strict=True):
        console.print(Text(f"> ask {question}", style="bold"))
        console.print(answer)
    console.print(_ask_beyond_budget(session, 3 * price))
    console.print(Text(f"Budget: {session.budget}."))


def _ask_beyond_budget(session: Session, epsilon: object) -> str:
    """What happens to a question that costs too much."""
    from discreet.errors import BudgetExceeded

    try:
        session.ask(COUNTS, epsilon=epsilon)  # type: ignore[arg-type]
    except BudgetExceeded as refusal:
        return f"> ask the same at three times the price\n  refused: {refusal}"
    return ""
