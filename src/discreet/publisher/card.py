"""guarantee.md: what a reader of the tables needs to know, in words."""

from math import exp, isfinite
from typing import Any

from discreet.exact import ceil_float, shown
from discreet.formats import rounded
from discreet.publisher.pay import Answers
from discreet.publisher.solve import Solved
from discreet.query.currency import name_of
from discreet.query.release import explain
from discreet.query.write import written
from discreet.units import Neighbours


def card(solved: Solved, answers: Answers, signed: dict[str, Any] | None) -> str:
    """The card of a publication. It depends on the plan and the answers only: the same of both is the same card."""
    workload = solved.workload
    parts = [
        f"# {workload.title or 'A publication'}: what is promised",
        _whose(solved),
        _promise(solved),
        _not_promised(solved),
        _intervals(solved),
        _tables(solved, answers),
        _made(solved, answers, signed),
    ]
    return "\n\n".join(parts) + "\n"


def _whose(solved: Solved) -> str:
    table, replaced = solved.session.table, solved.session.neighbours is Neighbours.REPLACE
    change = "had other rows" if replaced else "had no row in the data at all"
    rules = sorted({explain(bounded) for bounded in solved.bounded})
    listed = "\n".join(f"- {rule}" for rule in rules)
    return (
        f"## Whose data, and what is hidden\n\nThe tables are about the rows of `{table.name}`. They protect each "
        f"**{table.unit}** as a whole: what is published would look nearly the same if any one {table.unit} {change}. "
        f"To make that possible, the share of each {table.unit} was capped before anything was added up:\n\n{listed}"
    )


def _promise(solved: Solved) -> str:
    price, unit = solved.price, solved.session.table.unit
    epsilon, delta = price.epsilon.upper, ceil_float(price.delta)
    most = exp(epsilon) if epsilon < 700 else float("inf")
    times = f"{most:.3g}" if isfinite(most) else "more than 10^300"
    guess = most / (1 + most) if isfinite(most) else 1.0
    lines = [
        "## The promise, in numbers\n",
        f"All {len(solved.bounded)} tables together are differentially private with **ε = {epsilon:.4g}**"
        + (f" and **δ = {delta:.3g}**." if delta else "."),
        "",
        f"- ε in words: whatever else somebody knows, any conclusion drawn from these tables is at most {times} times as "
        f"likely with one {unit}'s real data as with it changed. Who was fifty-fifty about one {unit} before can be at most "
        f"{100 * guess:.3g}% sure afterwards.",
    ]
    if delta:
        lines.append(f"- δ in words: on top of that factor, nothing becomes more likely by more than {delta:.3g}.")
    lines.append(f"- Smaller ε protects more. Other publications about the same {unit}s add to it.")
    return "\n".join(lines)


def _not_promised(solved: Solved) -> str:
    unit = solved.session.table.unit
    return (
        "## What is not protected\n\n"
        "- What is true of groups: that is what the tables are for. If all of a department earn alike, its mean says so, "
        f"with or without any one {unit}.\n"
        f"- Several {unit}s at once: for a family of k, or somebody who is k {unit}s in the data, ε is k times as large.\n"
        "- What was declared and is public: the names and types of the columns, the keys that are shown, the bounds, the "
        "caps.\n"
        "- Whatever was or will be published from the same data elsewhere."
    )


def _intervals(solved: Solved) -> str:
    share = f"{100 * float(solved.workload.confidence):.4g}%"
    return (
        "## How to read the tables\n\n"
        "Every value has random noise in it. Beside a column `n` stand `n_lower` and `n_upper`, the ends of an interval. "
        f"Each interval covers the true bounded total with a probability of at least {share}. It says nothing about rows "
        "that the caps and the declared bounds left out, about errors in the data, or about chance in how the data came to "
        "be.\n\n"
        "`n_reliable` is true if the half-width is at most a tenth of the value. Do not read much into a value that is "
        "not. Counts may be negative and parts need not add up to their whole: that is the noise, and it is honest."
    )


def _tables(solved: Solved, answers: Answers) -> str:
    lines = ["## The tables\n", "| table | question | cells | reliable | first cell |", "|---|---|---|---|---|"]
    for asked, bounded, answer in zip(solved.workload.questions, solved.bounded, answers.releases, strict=True):
        cells = [cell for _, row in answer.rows for cell in row]
        sure = sum(cell.reliable for cell in cells)
        first = rounded(cells[0].value, cells[0].lower, cells[0].upper) if cells else "none shown"
        sql = written(bounded.query, bounded.table.unit).replace("|", "\\|").replace("\n", " ")
        lines.append(
            f"| [{asked.name}]({asked.name}.csv) ([picture]({asked.name}.png)) | `{sql}` | {len(cells)} | {sure} | {first} |"
        )
    return "\n".join(lines)


def _made(solved: Solved, answers: Answers, signed: dict[str, Any] | None) -> str:
    terms = solved.terms
    how = "a point of the certified privacy curve of the whole plan" if terms.at else f"the sum in {name_of(terms.currency)}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, and paid for as one plan: {how}, "
        f"{shown(solved.charge)} of the budget. It is drawn exactly, in whole numbers.",
    ]
    if solved.workload.text:
        lines.append("`plan.toml` says what was asked for; `python again.py FOLDER` makes it again.")
    if signed is None:
        lines.append("No ledger keeps the price: nothing but its owner's word says that this was published once.")
    else:
        lines.append(
            "`release.json` is the certificate, signed with the ledger's key: `discreet verify release.json` checks it.\n\n"
            f"> {signed['guarantee']['words']}"
        )
    if any(answer.tainted for answer in answers.releases):
        lines.append("\n**Made with reproducible bits: for tests, never for publication.**")
    return "\n".join(lines)
