"""guarantee.md: what a reader of the tables needs to know, in words."""

from collections.abc import Sequence
from typing import Any

from discreet._numbers import format_down, format_up, to_rational
from discreet.accounting.basic import Point
from discreet.accounting.elementary import exp_bounds
from discreet.accounting.textbook import group_privacy
from discreet.formats import format_interval
from discreet.query.answer import explain_sensitivity
from discreet.query.ast import to_sql
from discreet.query.calibrate import explain_raised_epsilon
from discreet.text import escape_markdown, format_markdown_code
from discreet.units import Neighbours
from discreet.workload.execution import WorkloadAnswers
from discreet.workload.planning import WorkloadPlan

MAX_SHOWN_EPSILON = 600
"""Above this ε the factor e^ε is not written out."""


def format_guarantee(
    solved: WorkloadPlan, answers: WorkloadAnswers, signed: dict[str, Any] | None, missing_charts: Sequence[str] = ()
) -> str:
    """The card of a publication. It depends on the plan and the answers only: the same of both is the same card."""
    workload = solved.workload
    parts = [
        f"# {escape_markdown(workload.title or 'A publication')}: what is promised",
        _describe_unit(solved),
        _describe_guarantee(solved, answers),
        _describe_limits(solved, answers),
        _describe_intervals(solved),
        _describe_tables(solved, answers, missing_charts),
        _describe_provenance(solved, answers, signed),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_unit(solved: WorkloadPlan) -> str:
    table, replaced = solved.session.table, solved.session.neighbours is Neighbours.REPLACE
    change = "had other rows" if replaced else "had no row in the data at all"
    unit, rules = escape_markdown(table.unit), sorted({explain_sensitivity(bounded) for bounded in solved.bounded_queries})
    listed = "\n".join(f"- {escape_markdown(rule)}" for rule in rules)
    label = "" if solved.session.label is None else f", as labelled {format_markdown_code(solved.session.label)}"
    return (
        "## Whose data, and what is hidden\n\nThe tables are about the rows of "
        f"{format_markdown_code(table.name)}{label}. They "
        f"protect each **{unit}** as a whole: what is published would look nearly the same if any one {unit} {change}. "
        f"To make that possible, the share of each {unit} was capped before anything was added up:\n\n{listed}"
    )


def _describe_guarantee(solved: WorkloadPlan, answers: WorkloadAnswers) -> str:
    unit, point = escape_markdown(solved.session.table.unit), _published_point(answers)
    lines = [
        "## The promise, in numbers\n",
        f"All {len(solved.bounded_queries)} tables together are differentially private with **ε = "
        f"{format_up(point.epsilon)}**" + (f" and **δ = {format_up(point.delta, 3)}**." if point.delta else "."),
        "",
        *(_explain_replace if solved.session.neighbours is Neighbours.REPLACE else _explain_add_remove)(unit, point),
    ]
    if point.delta:
        lines.append(
            "- δ in words: it is the exception. Something may become more likely than the factor allows, but by no more "
            f"than {format_up(point.delta, 3)}."
        )
    lines.append(f"- Smaller ε protects more. Other publications about the same {unit}s add to it.")
    return "\n".join(lines)


def _published_point(answers: WorkloadAnswers) -> Point:
    return Point(answers.cost.epsilon.upper, answers.cost.delta)


def _explain_replace(unit: str, point: Point) -> list[str]:
    return [
        "- ε in words: whatever else somebody knows, any conclusion drawn from these tables "
        f"is{_format_delta_exception(point)} at most "
        f"{_format_factor(point)} times as likely with one {unit}'s real data as with it changed. "
        + _format_posterior(f"between two versions of one {unit}'s data", point)
    ]


def _explain_add_remove(unit: str, point: Point) -> list[str]:
    """Neighbours differ in whether a unit is there. Other rows in place of its own are two steps: one goes, one comes."""
    changed = group_privacy(point, 2)
    grown = f", and the exception {format_up(changed.delta, 3)}" if changed.delta else ""
    return [
        f"- ε in words, about taking part: whatever else somebody knows, any conclusion drawn from these tables "
        f"is{_format_delta_exception(point)} at most {_format_factor(point)} times as likely as it would be had the "
        f"rows of one {unit} not been "
        f"there, and the other way round. {_format_posterior(f'about whether one {unit} is in the data', point)}",
        f"- About what the rows of one {unit} say, for somebody who knows that they are there: other rows in their place "
        f"are one {unit} less and one more, so the factor is e^(2ε), at most {_format_factor(changed)}{grown}. "
        + _format_posterior(f"between two versions of one {unit}'s rows", changed),
    ]


def _format_delta_exception(point: Point) -> str:
    return ", except for δ," if point.delta else ""


def _format_factor(point: Point) -> str:
    """e^ε, rounded up."""
    large = point.epsilon > MAX_SHOWN_EPSILON
    return f"e^{format_up(point.epsilon)}" if large else format_up(exp_bounds(to_rational(point.epsilon))[1], 3)


def _format_posterior(about: str, point: Point) -> str:
    """What is left of a doubt of a half. With a δ single outcomes may settle it, and the guess is bounded on average only:
    half of P(S) + 1 − Q(S) is at most (e^ε + δ)/(e^ε + 1), by P(S) ≤ e^ε·Q(S) + δ and the same for the complements."""
    most = exp_bounds(to_rational(min(point.epsilon, MAX_SHOWN_EPSILON)))[1]
    sure = "100" if point.epsilon > MAX_SHOWN_EPSILON else format_up(100 * (most + point.delta) / (most + 1), 3)
    if point.delta:
        return f"Who was fifty-fifty {about} before guesses right afterwards with a probability of at most {sure}%."
    return f"Who was fifty-fifty {about} before can be at most {sure}% sure afterwards."


def _describe_limits(solved: WorkloadPlan, answers: WorkloadAnswers) -> str:
    unit, point = escape_markdown(solved.session.table.unit), _published_point(answers)
    three = group_privacy(point, 3)
    growth = ", and δ is multiplied by 1 + e^ε + … + e^((k−1)ε)" if point.delta else ""
    figures = f"ε = {format_up(three.epsilon)}" + (f" and δ = {format_up(three.delta, 3)}" if point.delta else "")
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


def _describe_intervals(solved: WorkloadPlan) -> str:
    share = f"{format_down(100 * float(solved.workload.confidence))}%"
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


def _describe_tables(solved: WorkloadPlan, answers: WorkloadAnswers, missing_charts: Sequence[str]) -> str:
    lines = ["## The tables\n", "| table | question | cells | reliable | first cell |", "|---|---|---|---|---|"]
    for asked, bounded, answer in zip(solved.workload.questions, solved.bounded_queries, answers.answers, strict=True):
        cells = [cell for _, row in answer.rows for cell in row]
        sure = sum(cell.reliable for cell in cells)
        first = format_interval(cells[0].value, cells[0].lower, cells[0].upper) if cells else "none shown"
        sql = format_markdown_code(to_sql(bounded.query, bounded.table.unit)).replace("|", "\\|")
        drawn = "its picture could not be drawn" if asked.name in missing_charts else f"[picture]({asked.name}.png)"
        lines.append(f"| [{asked.name}]({asked.name}.csv) ({drawn}) | {sql} | {len(cells)} | {sure} | {first} |")
    return "\n".join(lines)


def _describe_provenance(solved: WorkloadPlan, answers: WorkloadAnswers, signed: dict[str, Any] | None) -> str:
    price, at = answers.cost, format_up(answers.certified_delta, 3)
    curve = f"a point of the certified privacy curve of the whole plan, ε at δ = {at}"
    how = curve if answers.certified_delta else f"the sum in {price.currency.name}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, and paid for as one plan: {how}, "
        f"{format_up(price.amount, 6)} of the budget. It is drawn exactly, in whole numbers.",
    ]
    if solved.is_raised:
        lines.append(explain_raised_epsilon(solved.session.table.least_epsilon))
    if solved.workload.text:
        lines.append("`plan.toml` says what was asked for; `python again.py FOLDER` makes it again.")
    if signed is None:
        lines.append("No ledger keeps the price: nothing but its owner's word says that this was published once.")
    else:
        lines.append(
            "`release.json` is the certificate, signed with the ledger's key: `discreet verify release.json` checks it.\n\n"
            f"> {escape_markdown(signed['guarantee']['words'])}"
        )
    if any(answer.tainted for answer in answers.answers):
        lines.append("\n**Made with reproducible bits: for tests, never for publication.**")
    return "\n".join(lines)
