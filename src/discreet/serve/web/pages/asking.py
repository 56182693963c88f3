"""Ask: how good must the answer be? The error comes first and ε is what it costs; ε itself stands behind "I know ε".

The quote is live: htmx posts the form after a pause in typing and puts the answer beside it. Without scripts the button
"Quote" posts the same form. Asking is always two steps: the second page has the cost on its button and what it leaves of
both budgets, and it holds the hash of the measurement that was shown. If that hash is another one when the button is
pressed, because the policy was changed meanwhile, nothing is asked and the new cost is shown.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any
from urllib.parse import urlencode

from fastapi import Response

from discreet._numbers import format_down, parse_rational
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError, QueryRefused
from discreet.query.parser import MAX_CHARACTERS
from discreet.serve.classroom import CLASS_NAME
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Grant, Scope, Snapshot, TableEntry
from discreet.serve.quoting import Priced, Target
from discreet.serve.rounding import round_parents
from discreet.serve.rules import describe_day
from discreet.serve.web.bodies import ERROR, NUMBER
from discreet.serve.web.limits import RateLimit
from discreet.serve.web.pages import words
from discreet.serve.web.pages.builder import (
    ORDERS,
    Built,
    list_conditions,
    list_groups,
    list_measures,
    suggest_queries,
    write_query,
)
from discreet.serve.web.pages.charts import draw_chart
from discreet.serve.web.pages.drawing import Later, Pages, Visit, redirect
from discreet.serve.web.pages.names import list_names
from discreet.serve.web.pages.preview import preview
from discreet.serve.web.pages.showing import AnswerView, view_answer
from discreet.serve.web.pages.warnings import list_warnings
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.service import Question, Quoted

GRADES = {"coarse": "10%", "fair": "5%", "fine": "2%"}
DEFAULT_ERRORS = (GRADES["fair"], GRADES["coarse"], "20%", "50%")
CONFIDENCES = ("0.9", "0.95", "0.99", "0.999")
MAX_PREVIEW_QUERY = 1_500
"""Characters of a query whose preview is fetched: its text is part of the address."""
BUILDER = ("measure", "second", "by", "where", "order", "value")


@dataclass(frozen=True, slots=True)
class AskForm:
    """The fields of the form, as texts."""

    query: str = ""
    error: str = GRADES["fair"]
    size: str = "1000"
    confidence: str = "0.95"
    epsilon: str = ""
    simultaneous: bool = False
    fresh: bool = False
    purpose: str = ""

    @classmethod
    def read(cls, visit: Visit, rows_at_most: int | None = None) -> "AskForm":
        """Return what was filled in. A group is a tenth of the table at least, until another person says otherwise."""
        empty = cls() if rows_at_most is None else cls(size=str(max(1, rows_at_most // 10)))
        names = ("query", "error", "size", "confidence", "epsilon", "purpose")
        fields = {name: visit.field(name, str(getattr(empty, name))) for name in names}
        fields["query"] = fields["query"].replace("\r\n", "\n")
        query, error, size, confidence, epsilon, purpose = (fields[name][: MAX_CHARACTERS + 1] for name in names)
        together, fresh = (visit.field(name) == "yes" for name in ("simultaneous", "fresh"))
        return cls(query, error, size, confidence, epsilon, together, fresh, purpose)

    def to_question(self, table: str) -> Question:
        """Return the question.

        Raises:
            BadParameter: naming the field that cannot be read.
        """
        if not self.query.strip():
            raise BadParameter("query", "empty", "nothing is asked", "write a query, or choose one in the builder")
        if len(self.query) > MAX_CHARACTERS:
            reason = f"longer than {MAX_CHARACTERS:,} characters"
            raise BadParameter("query", "too long", reason, "ask several shorter ones")
        confidence = self.confidence if self.confidence in CONFIDENCES else "0.95"
        epsilon = _read(self.epsilon, NUMBER, "ε", "write a number such as 0.1, with a point")
        error = None if epsilon else _read(self.error, ERROR, "error", "write 5% or ± 12, with a point and not a comma")
        size = _read(self.size, r"^[0-9]{1,15}$", "smallest group", "write a whole number such as 1000")
        if epsilon is None and error is None:
            raise BadParameter("error", "empty", "it is not known how good the answer must be", "write 5% or ± 12")
        target = Target(
            None if epsilon is None else str(parse_rational(epsilon, "epsilon")), error,
            None if size is None else int(size), float(confidence), None,
        )  # fmt: skip
        return Question(table, self.query, target, self.simultaneous, self.fresh, self.purpose[:5_000])


def _read(text: str, pattern: str, name: str, hint: str) -> str | None:
    """Return a field, or None if it is empty. A decimal comma is refused: read as thousands it is a factor of 1,000."""
    stripped = text.strip()
    if not stripped:
        return None
    if len(stripped) > 100 or not re.fullmatch(pattern, stripped, re.ASCII):
        raise BadParameter(name, repr(stripped[:40]), "cannot be read", hint)
    return stripped.removeprefix("±").strip()


@dataclass(frozen=True, slots=True)
class QuoteView:
    """A quote as the page shows it."""

    columns: tuple[words.AccuracyWords, ...]
    cost: str
    button: str
    measurement: str
    share: str  # of what remains
    this_words: str  # of the whole budget
    root_this_words: str
    more: int  # how many like it would follow
    spent_percent: float
    this_percent: float
    root_spent_percent: float
    root_this_percent: float
    own: words.BudgetWords
    root: words.BudgetWords
    sentence: str
    arrives: str
    confidence: str
    is_recorded: bool
    recorded_entry: int | None
    approval: str | None
    refusal: str | None
    fits: bool
    advice: str  # what to do if it does not fit
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    explanation: str
    preview: AnswerView | None
    preview_address: str | None

    @property
    def counts_ranks(self) -> bool:
        """Whether a column is off by ranks."""
        return any(each.counts_ranks for each in self.columns)


@dataclass(frozen=True, slots=True)
class ProblemView:
    """A refusal as the page shows it: the sentence, and the line of the query that it is about."""

    text: str
    see: str
    is_query: bool = False  # whether it is about the query, which may not be finished
    line: int | None = None
    column: int | None = None
    before: str = ""
    at: str = ""
    after: str = ""


def view_problem(error: Exception, query: str) -> ProblemView:
    """Return a refusal with the place in the query, if it has one."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    lines = query.split("\n")
    if not isinstance(error, QueryRefused) or line is None or column is None or not 1 <= line <= len(lines):
        is_empty = isinstance(error, BadParameter) and error.name == "query"
        return ProblemView(str(error), f"/errors#{kind}", isinstance(error, QueryRefused) or is_empty)
    text, start = lines[line - 1], max(0, column - 1)
    found = re.match(r"\w+|.", text[start:])
    end = start + (len(found[0]) if found else 1)
    return ProblemView(str(error), f"/errors#{kind}", True, line, column, text[:start], text[start:end] or " ", text[end:])


def _explain_closed(entry: TableEntry) -> str:
    if CLASS_NAME.fullmatch(entry.name):
        return "The class is closed and takes no questions. What was asked stays under Asks."
    return "The table takes no questions at present. Ask a steward when it will. What was asked stays under Asks."


class Asking:
    """The pages that ask."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web = pages, pages.web
        rate = pages.web.settings.quotes_per_second
        self.preview_limit = RateLimit(rate, max(rate or 1, 1) * 2, "previews")

    def find(self, visit: Visit) -> tuple[TableEntry, Grant]:
        """Return the table with the grant to ask of it."""
        visit.caller.require(Scope.ASK)
        entry, grant = self.web.find_table(visit.caller, visit.path("table"))
        if grant is None:
            raise Refusal(
                403, "You see this table as its steward. To ask of it you need a grant, as everybody does: see People."
            )
        return entry, grant

    # The form

    def show(self, visit: Visit) -> Response:
        """Draw the form, with the quote of what is in it."""
        entry, _ = self.find(visit)
        if not entry.is_open:
            raise Refusal(409, _explain_closed(entry))
        form = AskForm.read(visit, entry.rows_at_most)
        if not form.query:
            form = replace(form, query=suggest_queries(self.web.quoter.read_table(entry))[0].value)
        if not visit.field("error") and not visit.field("epsilon"):
            form = replace(form, error=self._choose_error(visit, form))
        return self.draw(visit, form, Built())

    def _choose_error(self, visit: Visit, form: AskForm) -> str:
        """Return the error that an empty form starts with: the smallest of a few whose cost fits what remains."""
        for error in DEFAULT_ERRORS:
            try:
                quoted = self.web.quote(visit.caller, replace(form, error=error).to_question(visit.path("table")))
            except (DiscreetError, Refusal):
                break
            if quoted.recorded is not None or _fits(quoted.priced):
                return error
        return form.error

    def draw(self, visit: Visit, form: AskForm, built: Built, status: int = 200) -> Response:
        """Draw the form with a quote, or with what is wrong."""
        entry, grant = self.find(visit)
        table = self.web.quoter.read_table(entry)
        quoted, problem = self.try_quote(visit, form)
        return self.pages.show(
            visit, "ask", status, entry=entry, table=table, unit=words.describe_unit(table), grant=grant, form=form,
            built=built, quote=quoted, problem=problem, grades=GRADES, confidences=CONFIDENCES, orders=ORDERS,
            measures=list_measures(table), groups=list_groups(table), conditions=list_conditions(table),
            columns=[(name, each.kind.value, words.describe_declared(each)) for name, each in table.columns.items()],
            budgets=self.pages.find_budgets(visit.caller, grant.account), names=list_names(table),
        )  # fmt: skip

    def try_quote(self, visit: Visit, form: AskForm) -> tuple[QuoteView | None, ProblemView | None]:
        """Return the quote, or what is wrong."""
        try:
            self.web.quote_limit.take(visit.caller.limit_key)
            return self.quote(visit, form), None
        except DiscreetError as error:
            return None, view_problem(error, form.query)
        except Refusal as error:
            if error.status != 429:
                raise
            return None, ProblemView(str(error), "/errors#too-many-requests")

    def quote(self, visit: Visit, form: AskForm) -> QuoteView:
        """Return the quote of the form."""
        question = form.to_question(visit.path("table"))
        quoted = self.web.quote(visit.caller, question)
        return self.view(visit, question, quoted)

    def view(self, visit: Visit, question: Question, quoted: Quoted) -> QuoteView:
        """Return a quote as the page shows it."""
        priced, target = quoted.priced, question.target
        lineage = self.web.find_lineage(quoted.account)
        left = self.web.find_remaining(lineage, {quoted.account}, visit.caller.is_steward)
        budgets = self.pages.find_budgets(visit.caller, quoted.account)
        if budgets is None:
            raise not_found()
        own, root = budgets
        cost, amount = priced.quote.cost, priced.amount
        units = {each.name: each.unit for each in priced.calibrated.bounded.columns}
        is_free = quoted.recorded is not None and quoted.approval is None
        fits = is_free or _fits(priced)
        tried = preview(priced, quoted.entry.policy, quoted.entry.rows_at_most, target.confidence)
        entry = None if quoted.recorded is None else _find_entry(quoted.recorded.answer)
        return QuoteView(
            columns=tuple(words.describe_accuracy(each, units.get(each.column, "")) for each in priced.quote.columns),
            cost=words.format_cost(cost), button=words.format_cost_short(cost), measurement=priced.hash,
            share=words.format_share(amount / left.amount) if left.amount > 0 and amount <= left.amount else "more than all",
            this_words=_share(amount, lineage[0].limit), root_this_words=_share(amount, lineage[-1].limit),
            more=max(0, floor((left.amount - amount) / amount)) if amount > 0 else 0,
            spent_percent=own.spent_percent, this_percent=_percent(amount, lineage[0].limit),
            root_spent_percent=root.spent_percent, root_this_percent=_percent(amount, lineage[-1].limit),
            own=own, root=root,
            sentence=f"{words.state_budgets(own, root)} {words.explain_shares(cost.currency)}".rstrip(),
            arrives=_describe_arrival(quoted), confidence=f"{100 * target.confidence:g}%",
            is_recorded=quoted.recorded is not None, recorded_entry=entry, approval=quoted.approval,
            refusal=None if quoted.refusal is None else str(quoted.refusal), fits=fits,
            advice="" if fits else self._advise(
                quoted, lineage if visit.caller.is_steward else round_parents(lineage), question
            ),
            warnings=() if is_free else list_warnings(priced, quoted.entry.rows_at_most),
            notes=tuple(each for each in (_describe_day(quoted), priced.quote.selection, *priced.quote.notes) if each),
            explanation=priced.quote.explanation,
            preview=None if tried is None else view_answer(tried),
            preview_address=None if tried is None else self.address_preview(question, priced.epsilon),
        )  # fmt: skip

    def _advise(self, quoted: Quoted, lineage: list[Snapshot], question: Question) -> str:
        """Say what can be done about a cost that does not fit: ask for less, if anything fits at all."""
        fitting = format_down(_find_fitting(quoted.priced), 3)
        if fitting != "0" and self._is_payable(quoted, lineage, question, fitting):
            return (
                f"This costs more than what remains. ε = {fitting} would fit: write it under “I know ε”. "
                "Ask for a coarser answer, or about larger groups."
            )
        least = str(self.web.quoter.read_table(quoted.entry).least_epsilon)
        if self._is_payable(quoted, lineage, question, least):
            return "This costs more than what remains. Ask for a coarser answer."
        return "Too little budget remains for any answer to this question. Questions that were answered before stay free."

    def _is_payable(self, quoted: Quoted, lineage: list[Snapshot], question: Question, epsilon: str) -> bool:
        target = replace(question.target, epsilon=epsilon, error=None)
        try:
            return _fits(self.web.quoter.price(quoted.entry, lineage, question.query, target))
        except DiscreetError:
            return False

    # The preview

    @staticmethod
    def address_preview(question: Question, epsilon: Fraction) -> str | None:
        """Return the address of the chart on invented rows; None if the query is too long for one."""
        if len(question.query) > MAX_PREVIEW_QUERY:
            return None
        values = {"query": question.query, "epsilon": str(epsilon), "confidence": f"{question.target.confidence:g}"}
        if question.target.size is not None:
            values["size"] = str(question.target.size)
        return f"/t/{words.quote_path(question.table)}/preview.svg?{urlencode(values)}"

    def draw_preview(self, visit: Visit) -> Later:
        """Draw the chart on invented rows."""
        entry, _ = self.find(visit)
        self.preview_limit.take(visit.caller.limit_key)
        form = replace(AskForm.read(visit), error="")
        question = form.to_question(entry.name)
        priced = self.web.quote(visit.caller, question).priced

        def draw() -> Response:
            tried = preview(priced, entry.policy, entry.rows_at_most, question.target.confidence)
            if tried is None:
                raise not_found()
            return draw_chart(tried, visit, "Invented rows, true intervals")

        return self.pages.draw_later(visit, draw)

    # Posting

    def post(self, visit: Visit) -> Response:
        """Quote, build, choose how good it must be, or go on to the confirmation."""
        entry, _ = self.find(visit)
        form, step = AskForm.read(visit), visit.field("do")
        built = Built(**{name: visit.field(name)[:500] for name in BUILDER})
        if step == "build":
            form = replace(form, query=write_query(self.web.quoter.read_table(entry), built))
        elif step in GRADES:
            form = replace(form, error=GRADES[step], epsilon="")
        elif step == "confirm":
            return self.confirm(visit, form)
        elif step == "ask":
            return self.ask(visit, form)
        return self.draw(visit, form, built)

    def show_quote(self, visit: Visit) -> Response:
        """Draw the quote alone, for a page that is open."""
        entry, _ = self.find(visit)
        form = AskForm.read(visit)
        quoted, problem = self.try_quote(visit, form)
        return self.pages.show(visit, "_quote", entry=entry, form=form, quote=quoted, problem=problem, live=True)

    def build(self, visit: Visit) -> Response:
        """Draw the field of the query with what the builder wrote."""
        entry, _ = self.find(visit)
        built = Built(**{name: visit.field(name)[:500] for name in BUILDER})
        query = write_query(self.web.quoter.read_table(entry), built)
        return self.pages.show(visit, "_query", entry=entry, form=AskForm(query=query))

    def confirm(self, visit: Visit, form: AskForm, changed: bool = False) -> Response:
        """Draw the confirmation: the cost on the button, and what it leaves."""
        entry, _ = self.find(visit)
        quoted, problem = self.try_quote(visit, form)
        if quoted is None or quoted.refusal is not None or not quoted.fits:
            return self.draw(visit, form, Built())
        return self.pages.show(
            visit, "confirm", entry=entry, form=form, quote=quoted, problem=problem, key=visit.field("key") or new_id(),
            changed=changed,
        )  # fmt: skip

    def ask(self, visit: Visit, form: AskForm) -> Response:
        """Take the ask, if it is still the one that was shown."""
        try:
            question = form.to_question(visit.path("table"))
            key = visit.field("key") or None
            earlier = key and self.web.control.find_ask_by_key(visit.caller.person.id, key)
            if not earlier and self.web.quote(visit.caller, question).priced.hash != visit.field("measurement"):
                return self.confirm(visit, form, changed=True)
            taken = self.web.ask(visit.caller, question, key)
        except DiscreetError:
            return self.draw(visit, form, Built(), 422)
        return redirect(f"/a/{taken.id}")


def _fits(priced: Priced) -> bool:
    try:
        priced.check_budget()
    except BudgetExceeded:
        return False
    return True


def _share(amount: Fraction, limit: str) -> str:
    return words.format_share(amount / Fraction(limit))


def _find_fitting(priced: Priced) -> Fraction:
    """Return the largest ε that fits, as the API and the command line name it; 0 if none does."""
    try:
        priced.check_budget()
    except BudgetExceeded as refused:
        return refused.fitting_epsilon or Fraction(0)
    return priced.epsilon


def _percent(amount: Fraction, limit: str) -> float:
    return min(100.0, round(100 * float(amount / Fraction(limit)), 2))


def _find_entry(answer: Any) -> int | None:
    reference = (answer or {}).get("reference") or {}
    entry = reference.get("entry")
    return entry if isinstance(entry, int) else None


def _describe_day(quoted: Quoted) -> str:
    """Say how much may be asked today without approval, where the rules limit it."""
    per_day = quoted.entry.rules.epsilon_per_day
    if per_day is None or quoted.asked_today is None:
        return ""
    return f"Without approval {describe_day(per_day, quoted.asked_today)}."


def _describe_arrival(quoted: Quoted) -> str:
    if quoted.recorded is not None and quoted.approval is None:
        return "at once"
    arrival = "when it is ready" if quoted.class_seconds is None else f"in {words.format_seconds(quoted.class_seconds)}"
    return arrival if quoted.approval is None else f"{arrival}, once a steward has approved it"


def add_to(pages: Pages) -> None:
    """Add the pages that ask."""
    asking = Asking(pages)
    pages.add("/t/{table}/ask", asking.show, asking.post)
    pages.add("/t/{table}/quote", post=asking.show_quote)
    pages.add("/t/{table}/build", post=asking.build)
    pages.add("/t/{table}/preview.svg", asking.draw_preview)
