"""guarantee.md: what a reader of the tables needs to know, in words."""

from collections.abc import Sequence
from typing import Any

from discreet.accounting.approx import Point
from discreet.accounting.elementary import exp_bounds
from discreet.accounting.textbook import group
from discreet.exact import rational, shown_down, shown_up
from discreet.formats import rounded
from discreet.pricing import raised_note
from discreet.publisher.pay import Answers
from discreet.publisher.solve import Solved
from discreet.query.currency import name_of
from discreet.query.release import explain
from discreet.query.write import written
from discreet.text import markdown, markdown_code
from discreet.units import Neighbours

LARGEST_FACTOR = 600
"""Above this ε the factor e^ε is not written out."""


def card(solved: Solved, answers: Answers, signed: dict[str, Any] | None, undrawn: Sequence[str] = ()) -> str:
    """The card of a publication. It depends on the plan and the answers only: the same of both is the same card."""
    workload = solved.workload
    parts = [
        f"# {markdown(workload.title or 'A publication')}: what is promised",
        _whose(solved),
        _promise(solved, answers),
        _not_promised(solved, answers),
        _intervals(solved),
        _tables(solved, answers, undrawn),
        _made(solved, answers, signed),
    ]
    return "\n\n".join(parts) + "\n"


def _whose(solved: Solved) -> str:
    table, replaced = solved.session.table, solved.session.neighbours is Neighbours.REPLACE
    change = "had other rows" if replaced else "had no row in the data at all"
    unit, rules = markdown(table.unit), sorted({explain(bounded) for bounded in solved.bounded})
    listed = "\n".join(f"- {markdown(rule)}" for rule in rules)
    label = "" if solved.session.label is None else f", as labelled {markdown_code(solved.session.label)}"
    return (
        f"## Whose data, and what is hidden\n\nThe tables are about the rows of {markdown_code(table.name)}{label}. They "
        f"protect each **{unit}** as a whole: what is published would look nearly the same if any one {unit} {change}. "
        f"To make that possible, the share of each {unit} was capped before anything was added up:\n\n{listed}"
    )


def _promise(solved: Solved, answers: Answers) -> str:
    unit, point = markdown(solved.session.table.unit), _point(answers)
    lines = [
        "## The promise, in numbers\n",
        f"All {len(solved.bounded)} tables together are differentially private with **ε = {shown_up(point.epsilon)}**"
        + (f" and **δ = {shown_up(point.delta, 3)}**." if point.delta else "."),
        "",
        *(_replaced if solved.session.neighbours is Neighbours.REPLACE else _added_or_removed)(unit, point),
    ]
    if point.delta:
        lines.append(
            "- δ in words: it is the exception. Something may become more likely than the factor allows, but by no more "
            f"than {shown_up(point.delta, 3)}."
        )
    lines.append(f"- Smaller ε protects more. Other publications about the same {unit}s add to it.")
    return "\n".join(lines)


def _point(answers: Answers) -> Point:
    return Point(answers.price.epsilon.upper, answers.price.delta)


def _replaced(unit: str, point: Point) -> list[str]:
    return [
        f"- ε in words: whatever else somebody knows, any conclusion drawn from these tables is{_but(point)} at most "
        f"{_times(point)} times as likely with one {unit}'s real data as with it changed. "
        + _fifty(f"between two versions of one {unit}'s data", point)
    ]


def _added_or_removed(unit: str, point: Point) -> list[str]:
    """Neighbours differ in whether a unit is there. Other rows in place of its own are two steps: one goes, one comes."""
    changed = group(point, 2)
    grown = f", and the exception {shown_up(changed.delta, 3)}" if changed.delta else ""
    return [
        f"- ε in words, about taking part: whatever else somebody knows, any conclusion drawn from these tables "
        f"is{_but(point)} at most {_times(point)} times as likely as it would be had the rows of one {unit} not been "
        f"there, and the other way round. {_fifty(f'about whether one {unit} is in the data', point)}",
        f"- About what the rows of one {unit} say, for somebody who knows that they are there: other rows in their place "
        f"are one {unit} less and one more, so the factor is e^(2ε), at most {_times(changed)}{grown}. "
        + _fifty(f"between two versions of one {unit}'s rows", changed),
    ]


def _but(point: Point) -> str:
    return ", except for δ," if point.delta else ""


def _times(point: Point) -> str:
    """e^ε, rounded up."""
    large = point.epsilon > LARGEST_FACTOR
    return f"e^{shown_up(point.epsilon)}" if large else shown_up(exp_bounds(rational(point.epsilon))[1], 3)


def _fifty(about: str, point: Point) -> str:
    """What is left of a doubt of a half. With a δ single outcomes may settle it, and the guess is bounded on average only:
    half of P(S) + 1 − Q(S) is at most (e^ε + δ)/(e^ε + 1), by P(S) ≤ e^ε·Q(S) + δ and the same for the complements."""
    most = exp_bounds(rational(min(point.epsilon, LARGEST_FACTOR)))[1]
    sure = "100" if point.epsilon > LARGEST_FACTOR else shown_up(100 * (most + point.delta) / (most + 1), 3)
    if point.delta:
        return f"Who was fifty-fifty {about} before guesses right afterwards with a probability of at most {sure}%."
    return f"Who was fifty-fifty {about} before can be at most {sure}% sure afterwards."


def _not_promised(solved: Solved, answers: Answers) -> str:
    unit, point = markdown(solved.session.table.unit), _point(answers)
    three = group(point, 3)
    growth = ", and δ is multiplied by 1 + e^ε + … + e^((k−1)ε)" if point.delta else ""
    figures = f"ε = {shown_up(three.epsilon)}" + (f" and δ = {shown_up(three.delta, 3)}" if point.delta else "")
    nothing = " (which promises nothing)" if three.delta >= 1 else ""
    return (
        "## What is not protected\n\n"
        "- What is true of groups: that is what the tables are for. If all of a department earn alike, its mean says so, "
        f"with or without any one {unit}.\n"
        f"- Several {unit}s at once: for a family of k, or somebody who is k {unit}s in the data, ε is k times as large"
        f"{growth}: for three of them {figures}{nothing}.\n"
        "- What was declared and is public: the names and types of the columns, the keys that are shown, the bounds, the "
        "caps.\n"
        "- Whatever was or will be published from the same data elsewhere."
    )


def _intervals(solved: Solved) -> str:
    share = f"{shown_down(100 * float(solved.workload.confidence))}%"
    return (
        "## How to read the tables\n\n"
        "Every value has random noise in it. Beside a column `n` stand `n_lower` and `n_upper`, the ends of an interval. "
        f"Each interval covers the true bounded total with a probability of at least {share}. It says nothing about rows "
        "that the caps and the declared bounds left out, about errors in the data, or about chance in how the data came to "
        "be.\n\n"
        "`n_reliable` is true if the half-width is at most a tenth of the value and, for averages, variances and quantiles, "
        "the count of rows behind it is as certain. Do not read much into a value that is not reliable. Counts may be "
        "negative and parts need not add up to their whole: that is the noise, and it is honest."
    )


def _tables(solved: Solved, answers: Answers, undrawn: Sequence[str]) -> str:
    lines = ["## The tables\n", "| table | question | cells | reliable | first cell |", "|---|---|---|---|---|"]
    for asked, bounded, answer in zip(solved.workload.questions, solved.bounded, answers.releases, strict=True):
        cells = [cell for _, row in answer.rows for cell in row]
        sure = sum(cell.reliable for cell in cells)
        first = rounded(cells[0].value, cells[0].lower, cells[0].upper) if cells else "none shown"
        sql = markdown_code(written(bounded.query, bounded.table.unit)).replace("|", "\\|")
        drawn = "its picture could not be drawn" if asked.name in undrawn else f"[picture]({asked.name}.png)"
        lines.append(f"| [{asked.name}]({asked.name}.csv) ({drawn}) | {sql} | {len(cells)} | {sure} | {first} |")
    return "\n".join(lines)


def _made(solved: Solved, answers: Answers, signed: dict[str, Any] | None) -> str:
    price, at = answers.price, shown_up(answers.at, 3)
    curve = f"a point of the certified privacy curve of the whole plan, ε at δ = {at}"
    how = curve if answers.at else f"the sum in {name_of(price.currency)}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, and paid for as one plan: {how}, "
        f"{shown_up(price.amount, 6)} of the budget. It is drawn exactly, in whole numbers.",
    ]
    if solved.raised:
        lines.append(raised_note(solved.session.table.least_epsilon))
    if solved.workload.text:
        lines.append("`plan.toml` says what was asked for; `python again.py FOLDER` makes it again.")
    if signed is None:
        lines.append("No ledger keeps the price: nothing but its owner's word says that this was published once.")
    else:
        lines.append(
            "`release.json` is the certificate, signed with the ledger's key: `discreet verify release.json` checks it.\n\n"
            f"> {markdown(signed['guarantee']['words'])}"
        )
    if any(answer.tainted for answer in answers.releases):
        lines.append("\n**Made with reproducible bits: for tests, never for publication.**")
    return "\n".join(lines)
