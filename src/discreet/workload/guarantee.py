"""The guarantee page of a publication, guarantee.md: what its readers need to know, in words.

It depends on the plan and the answers only: the same plan and the same answers give the same page.

One figure for one thing: ε and δ are rounded up to three digits once, as everywhere else, and every other number on the page
is computed from these. So a reader who computes e^ε gets the number that is printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet._numbers import ceil_digits, format_down, format_up, to_rational
from discreet.accounting.basic import Point
from discreet.accounting.cost import SHOWN_DIGITS, Cost, format_at
from discreet.accounting.elementary import exp_bounds
from discreet.accounting.textbook import group_privacy
from discreet.formats import format_interval
from discreet.ledger.certificate import certified_cost, read_certificate, read_entries
from discreet.query.ast import format_view, to_sql
from discreet.query.calibrate import explain_raised_epsilon
from discreet.query.contribution import explain_sensitivity, list_clipped
from discreet.query.schema import ROW_UNIT_NOTE, parse_unit
from discreet.query.series import has_histogram
from discreet.session.session import Session
from discreet.text import escape_markdown, format_markdown_code
from discreet.units import Invariant, Neighbours, describe_condition, describe_conditional, invariants_from_json
from discreet.workload.planning import WorkloadPlan

if TYPE_CHECKING:
    from discreet.workload.publishing import WorkloadAnswers

MAX_SHOWN_EPSILON = 600
"""Above this ε the factor e^ε is not written out."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom and which rows a page is about: what a session declares, or what a certificate states of it."""

    unit: str
    table: str
    label: str | None
    neighbours: Neighbours
    invariants: tuple[Invariant, ...]
    delta: Fraction  # of the account

    @classmethod
    def of(cls, session: Session | Subject) -> Subject:
        """Return that of a session."""
        if isinstance(session, Subject):
            return session
        table = session.table
        return cls(table.unit, table.name, session.label, session.neighbours, session.invariants, session.delta)

    @classmethod
    def of_certificate(cls, certificate: Mapping[str, Any]) -> Subject:
        """Return that of a certificate."""
        stated = certificate["measurement"]
        first = stated["plan"][0] if "plan" in stated else stated
        [relation] = [each for each in Neighbours if each.definition == stated["neighbours"]]
        opened, _, _ = read_entries(read_certificate(certificate))
        invariants = invariants_from_json(stated["invariants"]) if "invariants" in stated else ()
        return cls(stated["unit"], first["table"], first.get("label"), relation, invariants, opened.to_account(None).delta)


def list_stated_lines(certificate: Mapping[str, Any], tables: int) -> list[str]:
    """Return the lines of a guarantee page that say what is guaranteed, on which condition, and what is not, as they follow
    from its certificate."""
    subject, cost = Subject.of_certificate(certificate), certified_cost(certificate)
    point = published_point(cost)
    parts = [
        describe_guarantee(subject, point, tables), describe_meaning(subject, point), describe_limits(subject, point),
        describe_account(dict(certificate), cost, subject),
    ]  # fmt: skip
    return [line for part in parts for line in part.splitlines() if line]


def states_what_is_certified(text: str, certificate: Mapping[str, Any], tables: int) -> bool:
    """Return whether a guarantee page says of the guarantee what follows from its certificate, and no other ε or δ."""
    _, *lines = text.splitlines()  # the title is the publisher's
    expected = list_stated_lines(certificate, tables)
    charge = f"{certified_cost(certificate).describe_charge()}. "
    raised = explain_raised_epsilon(Fraction(1)).partition("ε")[0]
    others = [line for line in lines if states_guarantee(line) and line not in expected]
    others = [line for line in others if not (CHARGED in line and charge in line)]
    return all(line in lines for line in expected) and all(line.startswith(raised) for line in others)


def states_guarantee(line: str) -> bool:
    """Return whether a line states an ε, δ, ρ or μ."""
    return any(f"{symbol} =" in line or f"- {symbol}:" in line or f"{symbol} is" in line for symbol in "εδρμ")


CHARGED = "and was charged as one plan, "
"""What the sentence on the charge of a publication says."""


def format_guarantee(
    plan: WorkloadPlan, answers: WorkloadAnswers, certificate: dict[str, Any] | None, missing_charts: Sequence[str] = ()
) -> str:
    """Write the guarantee page of a publication."""
    parts = [
        f"# {escape_markdown(plan.workload.title or 'A publication')}: privacy guarantee",
        _describe_guarantee(plan, answers),
        describe_meaning(plan.session, _published_point(answers)),
        _describe_bounds(plan),
        describe_limits(plan.session, _published_point(answers)),
        _describe_intervals(plan, answers),
        _describe_tables(plan, answers, missing_charts),
        _describe_provenance(plan, answers, certificate),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_guarantee(plan: WorkloadPlan, answers: WorkloadAnswers) -> str:
    return describe_guarantee(plan.session, _published_point(answers), len(plan.bounded_queries))


def describe_guarantee(session: Session | Subject, point: Point, tables: int) -> str:
    """Say which ε and δ all tables have together, and for whom."""
    about = Subject.of(session)
    label = "" if about.label is None else f", labelled {format_markdown_code(about.label)}"
    delta = f" and **δ = {format_up(point.delta, 3)}**" if point.delta else ""
    assumption = "" if parse_unit(about.unit) else f" {ROW_UNIT_NOTE}"
    condition, conditional = "", ""
    if about.invariants:
        condition = f", **among data sets with the same {escape_markdown(describe_condition(about.invariants))}**"
        conditional = f"\n\n{escape_markdown(describe_conditional(about.invariants))}"
    return (
        f"All {tables} tables together are differentially private with **ε = "
        f"{format_up(point.epsilon, SHOWN_DIGITS)}**"
        f"{delta}, for each **{escape_markdown(about.unit)}** as a whole{condition}. They are about the rows of "
        f"{format_markdown_code(about.table)}{label}.{assumption}{conditional}"
    )


def _published_point(answers: WorkloadAnswers) -> Point:
    return published_point(answers.cost)


def published_point(cost: Cost) -> Point:
    """ε and δ as they are printed. Both are rounded up, so what follows from them holds."""
    return Point(float(ceil_digits(cost.epsilon.upper, 3)), ceil_digits(cost.delta, 3))


# -- what ε and δ mean ------------------------------------------------------------------------------------------------------


def describe_meaning(session: Session | Subject, point: Point) -> str:
    """Say what ε and δ mean for one unit."""
    about = Subject.of(session)
    unit, replace = escape_markdown(about.unit), about.neighbours is Neighbours.REPLACE
    lines = ["## What it means\n", *(_explain_replace if replace else _explain_add_remove)(unit, point)]
    if about.invariants:
        counts = escape_markdown(describe_condition(about.invariants))
        lines.append(f"- All of this is about other rows with the same {counts}; about others it says nothing.")
    if point.delta:
        lines.append("- δ: the probability of a conclusion may exceed this bound, but by no more than δ.")
    lines.append(f"- Smaller ε is more private. The costs of other publications about the same {unit}s add to it.")
    return "\n".join(lines)


def _explain_replace(unit: str, point: Point) -> list[str]:
    return [
        f"- ε: whatever else a reader knows, any conclusion from these tables is{_format_delta_exception(point)} at most "
        f"{_format_factor(point)} times as likely with the rows of one {unit} as with other rows in their place. "
        + _format_posterior(f"to two versions of the rows of one {unit}", point)
    ]


def _explain_add_remove(unit: str, point: Point) -> list[str]:
    """Neighbours differ in whether a unit is there. Other rows in place of its own are two steps: one removed, one added."""
    replaced = group_privacy(point, 2)
    delta = f", and δ is {format_up(replaced.delta, 3)}" if replaced.delta else ""
    return [
        f"- ε: whatever else a reader knows, any conclusion from these tables is{_format_delta_exception(point)} at most "
        f"{_format_factor(point)} times as likely with the rows of one {unit} as without them, and vice versa. "
        + _format_posterior(f"on whether one {unit} is in the data", point),
        f"- Other rows in place of those of one {unit} are one {unit} removed and one added: the factor is then e^(2ε), at "
        f"most {_format_factor(replaced)}{delta}. "
        + _format_posterior(f"to two versions of the rows of one {unit}", replaced),
    ]


def _format_delta_exception(point: Point) -> str:
    return ", except for δ," if point.delta else ""


def _format_factor(point: Point) -> str:
    """Write e^ε, rounded up."""
    large = point.epsilon > MAX_SHOWN_EPSILON
    return f"e^{format_up(point.epsilon, 3)}" if large else format_up(exp_bounds(to_rational(point.epsilon))[1], 3)


def _format_posterior(about: str, point: Point) -> str:
    """Write what is left of even odds.

    Without a δ every posterior is at most e^ε/(e^ε + 1). With a δ single outputs may decide, and only the probability of a
    right guess is bounded: (P(S) + 1 − Q(S))/2 ≤ (e^ε + δ)/(e^ε + 1), by P(S) ≤ e^ε·Q(S) + δ and the same for complements.
    """
    factor = exp_bounds(to_rational(min(point.epsilon, MAX_SHOWN_EPSILON)))[1]
    percent = "100" if point.epsilon > MAX_SHOWN_EPSILON else format_up(100 * (factor + point.delta) / (factor + 1), 3)
    if point.delta:
        return f"A reader who first gave even odds {about} guesses right afterwards with probability at most {percent}%."
    return f"A reader who first gave even odds {about} is at most {percent}% certain afterwards."


# -- bounds and limits ------------------------------------------------------------------------------------------------------


def _describe_bounds(plan: WorkloadPlan) -> str:
    unit = escape_markdown(plan.session.table.unit)
    rules = sorted({explain_sensitivity(bounded) for bounded in plan.bounded_queries})
    listed = "\n".join(f"- {escape_markdown(rule)}" for rule in rules)
    clips = _clips_values(plan)
    done = [] if plan.session.table.unique else [f"the contribution of each {unit} was bounded"]
    done += [f"the values of each {unit} were clipped" if not done else "its values were clipped"] if clips else []
    said = f"Before anything was added up, {' and '.join(done)}" if done else f"What one {unit} can change"
    return f"## Contribution bounding{' and clipping' if clips else ''}\n\n{said}:\n\n{listed}"


def _clips_values(plan: WorkloadPlan) -> bool:
    return any(map(list_clipped, plan.bounded_queries))


def describe_limits(session: Session | Subject, point: Point) -> str:
    """Say what is not protected."""
    about = Subject.of(session)
    unit = escape_markdown(about.unit)
    three = group_privacy(point, 3)
    growth = ", and δ is multiplied by 1 + e^ε + … + e^((k−1)ε)" if point.delta else ""
    figures = f"ε = {format_up(three.epsilon, SHOWN_DIGITS)}" + (
        f" and δ = {format_up(three.delta, 3)}" if point.delta else ""
    )
    nothing = " (which guarantees nothing)" if three.delta >= 1 else ""
    invariants = "".join(
        f"\n- The {escape_markdown(each.counts)}: it is exact and public, and so is what follows from it with other "
        f"knowledge, such as who is the only {unit} with a value."
        for each in about.invariants
    )
    return (
        "## What is not protected\n\n"
        "- Properties of groups: they are what the tables publish. If all salaries of a department are equal, its mean "
        f"shows them, with or without any one {unit}.\n"
        f"- Several {unit}s at once (group privacy): for a family of k, or one person with k {unit}s in the data, ε is k "
        f"times as large{growth}: for three of them {figures}{nothing}.\n"
        "- Public metadata: the names and types of the columns, the declared keys, the bounds on values and contributions.\n"
        "- Other publications from the same data, earlier or later."
        f"{invariants}"
    )


# -- the tables -------------------------------------------------------------------------------------------------------------


def _describe_intervals(plan: WorkloadPlan, answers: WorkloadAnswers) -> str:
    histogram = (
        "\n\nA table with a histogram has one row per cell: the cell from `lower_edge` up to `upper_edge` (which belongs to "
        "the last cell only), its count `value` with the interval from `lower` to `upper`, and `reliable`."
        if any(has_histogram(answer.schema) for answer in answers.answers)
        else ""
    )
    confidence = f"{format_down(100 * float(plan.workload.confidence))}%"
    covered, error = (
        ("clipped statistic", "error from clipping")
        if _clips_values(plan)
        else ("count", "")
        if plan.session.table.unique
        else ("count within the contribution bounds", "what lies beyond these bounds")
    )
    missing = f"; {error} is not included. Neither are errors" if error else ". It does not include errors"
    return (
        "## How to read the tables\n\n"
        "Every value contains random noise. A column `n` has an interval from `n_lower` to `n_upper`. Each interval "
        f"contains the {covered} with probability ≥ {confidence}{missing} in the data, nor sampling error.\n\n"
        "`n_reliable` is true if the half-width is at most a tenth of the value and, for averages, variances and quantiles, "
        "the count of rows behind it is as certain. Draw no conclusions from a value that is not reliable. Counts may be "
        f"negative, and parts need not add up to their total: that is an effect of the noise.{histogram}"
    )


def _describe_tables(plan: WorkloadPlan, answers: WorkloadAnswers, missing_charts: Sequence[str]) -> str:
    lines = ["## The tables\n", "| table | query | estimates | reliable | first estimate |", "|---|---|---|---|---|"]
    for query, bounded, answer in zip(plan.workload.questions, plan.bounded_queries, answers.answers, strict=True):
        estimates = [estimate for _, row in answer.rows for estimate in row]
        reliable = sum(estimate.reliable for estimate in estimates)
        first = format_interval(estimates[0].value, estimates[0].lower, estimates[0].upper) if estimates else "none"
        text = to_sql(bounded.query, bounded.table.unit) + format_view(bounded.query.view)
        sql = format_markdown_code(text).replace("|", "\\|")
        chart = "its chart could not be drawn" if query.name in missing_charts else f"[chart]({query.name}.svg)"
        lines.append(f"| [{query.name}]({query.name}.csv) ({chart}) | {sql} | {len(estimates)} | {reliable} | {first} |")
    viewed = [(query.name, answer) for query, answer in zip(plan.workload.questions, answers.answers, strict=True)]
    notes = [f"`{name}`: {escape_markdown(answer.view_note)}" for name, answer in viewed if answer.view_note]
    return "\n\n".join(("\n".join(lines), *notes))


# -- provenance -------------------------------------------------------------------------------------------------------------


def _describe_provenance(plan: WorkloadPlan, answers: WorkloadAnswers, certificate: dict[str, Any] | None) -> str:
    curve = f"by the certified privacy curve of the whole plan at δ = {format_up(answers.certified_delta, 3)}"
    how = curve if answers.certified_delta else "by the sum over its queries"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, {CHARGED}{how}: "
        f"{answers.cost.describe_charge()}. It is drawn exactly, as integers.",
    ]
    if plan.is_raised:
        lines.append(explain_raised_epsilon(plan.session.table.least_epsilon))
    if plan.workload.text:
        lines.append(_explain_again(certificate is not None))
    if certificate is None:
        lines.append("No ledger records the cost: only the publisher can say how often the data was published.")
    else:
        lines.append(
            "`release.json` is the certificate, signed with the ledger's key; `discreet verify FOLDER` checks it, and "
            "compares the tables with it. It "
            "states the same ε with all digits."
        )
        lines.append(describe_account(certificate, answers.cost, plan.session))
    if any(answer.tainted for answer in answers.answers):
        lines.append("\n**Made with seeded bits: for tests, never for publication.**")
    return "\n".join(lines)


def describe_account(certificate: dict[str, Any], cost: Cost, session: Session | Subject) -> str:
    """Say what the account released so far, this publication included."""
    guarantee = certificate["guarantee"]
    so_far, account = guarantee["so_far"], escape_markdown(guarantee["account"])
    return (
        f"Together with all that account {account} released up to entry {so_far['entry']}: ε = "
        f"{format_up(float(so_far['epsilon']), 3)}{format_at(session.delta)}. "
        f"The account adds up {cost.currency.symbol}, which also "
        "covers queries that were chosen after seeing earlier answers."
    )


def _explain_again(has_ledger: bool) -> str:
    noise = (
        "The answers are those that the ledger recorded, and nothing is charged."
        if has_ledger
        else "No ledger recorded the answers, so new noise is drawn: that is a second publication, with its own cost."
    )
    return (
        "`plan.toml` is the plan, and `again.py` is a script for the publisher, who has the data: with discreet installed, "
        "`python again.py FOLDER` publishes the plan once more into a new folder `again`, where FOLDER is the folder that "
        f"the paths in `plan.toml` are relative to. {noise}"
    )
