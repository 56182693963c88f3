"""Answers, asks that are on their way, and the list of one's own asks.

An ask has one address from the moment it is taken: `/a/ID` shows where it is, and later its answer. What is shown meanwhile
comes from the clock and never from an engine, whose progress depends on the rows. An answer stays as it was recorded;
post-processing is another view of it, which says what it is, and costs nothing.
"""

import csv
from fractions import Fraction
from functools import partial
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import msgspec
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from discreet._numbers import format_decimal
from discreet.formats import to_json
from discreet.query.answer import Answer
from discreet.remote.wire import answer_from_wire, cost_from_wire
from discreet.serve.control.model import RELEASED, Ask, AskState, JobState, Scope
from discreet.serve.web.answers import FORMATS, choose_format, write_answer
from discreet.serve.web.api_outcomes import fetch_certificate
from discreet.serve.web.api_stewards import check_certificate
from discreet.serve.web.pages import words
from discreet.serve.web.pages.charts import draw_chart
from discreet.serve.web.pages.drawing import Later, Pages, Visit, read_form, redirect
from discreet.serve.web.pages.showing import SWITCHES, postprocess, view_answer
from discreet.serve.web.problems import Refusal
from discreet.serve.web.signing_in import FORM_TOKEN
from discreet.text import escape_formula, to_printable

DOWNLOADS = (
    ("csv", "CSV"), ("spreadsheet", "for spreadsheets"), ("json", "JSON"), ("ndjson", "NDJSON"), ("arrow", "Arrow"),
    ("parquet", "Parquet"), ("svg", "SVG"), ("png", "PNG"), ("vega", "Vega-Lite"),
)  # fmt: skip
MAX_LISTED = 50
CHARGED = (AskState.ANSWERED, AskState.FAILED, AskState.RUNNING, AskState.WAITING)
"""States in which an ask was charged, or will be unless it is withdrawn."""
MAX_SEARCHED = 1_000


class Outcomes:
    """The pages of asks and answers."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web = pages, pages.web

    # One ask

    def show(self, visit: Visit) -> Response:
        """Draw an ask: its answer, or where it is."""
        ask = self.web.find_ask(visit.caller, visit.path("ask"))
        if ask.state is AskState.ANSWERED and ask.answer is not None:
            return self.show_answer(visit, ask, None)
        return self.pages.show(visit, "waiting", **self._describe(visit, ask))

    def show_state(self, visit: Visit) -> Response:
        """Draw where an ask is, for a page that is open; the page loads again once the ask has ended."""
        ask = self.web.find_ask(visit.caller, visit.path("ask"))
        if ask.state.is_final:
            return Response(status_code=204, headers={"HX-Refresh": "true"})
        return self.pages.show(visit, "_state", **self._describe(visit, ask))

    def _describe(self, visit: Visit, ask: Ask) -> dict[str, Any]:
        now = self.web.clock.now()
        left = None if ask.release_at is None else max(0.0, ask.release_at - now)
        whole = ask.class_seconds or 1.0
        is_own = ask.person == visit.caller.person.id
        return {
            "ask": ask,
            "state": words.STATES[ask.state],
            "seconds": None if left is None else max(1, round(left + 0.5)),
            "done": None if left is None else round(100 * min(1.0, max(0.0, 1 - left / whole))),
            "again": 2 if left is None or left > 2 else 1,
            "may_withdraw": is_own and ask.state in (AskState.WAITING, AskState.APPROVAL),
            "is_own": is_own,
            "request": self.web.control.find_request(ask.id) if ask.state is AskState.APPROVAL else None,
            "problem": ask.problem,
            "charged": ask.state is AskState.FAILED,
        }

    def withdraw(self, visit: Visit) -> Response:
        """Withdraw an ask that no worker has taken."""
        ask = self.web.withdraw(visit.caller, visit.path("ask"))
        return redirect(f"/a/{ask.id}")

    # An answer

    def show_answer(self, visit: Visit, ask: Ask, verdict: dict[str, Any] | None) -> Response:
        """Draw an answer."""
        assert ask.answer is not None
        recorded = answer_from_wire(ask.answer)
        switches = tuple(each for each in SWITCHES if visit.field(each) == "yes")
        answer, refused = postprocess(recorded, switches)
        suffix = urlencode(dict.fromkeys(switches, "yes"))
        budgets = self.pages.find_budgets(visit.caller, ask.account)
        entry = None if answer.reference is None else answer.reference.entry
        return self.pages.show(
            visit, "answer", ask=ask, answer=view_answer(answer), switches=SWITCHES, on=switches, refused=refused,
            suffix=f"?{suffix}" if suffix else "", joined=f"&{suffix}" if suffix else "", downloads=DOWNLOADS, entry=entry,
            cost=None if answer.cost is None else words.format_cost(answer.cost), charged=answer.charged,
            notes=answer.list_notes(),
            budgets=None if budgets is None else words.state_budgets(*budgets, self._find_other(visit, ask)),
            pipeline=answer.pipeline, verdict=verdict, is_own=ask.person == visit.caller.person.id,
            address_of_answer=f"{self.web.settings.address}/a/{ask.id}",
            notebook=write_cell(self.web.settings.address, ask), curl=write_curl(self.web.settings.address, ask),
            place=self.web.control.find_setting(RELEASED), release=self._describe_release(visit, ask),
            again=_link_again(ask), arithmetic=() if answer.cost is None else answer.cost.explain_addition(),
        )  # fmt: skip

    def _find_other(self, visit: Visit, ask: Ask) -> str | None:
        """Return the name of who asked, if a steward reads another person's answer; their account is shown then."""
        if ask.person in ("", visit.caller.person.id):
            return None
        person = self.web.control.find_person(ask.person)
        return ask.person if person is None else to_printable(person.name)

    def _describe_release(self, visit: Visit, ask: Ask) -> str:
        """Say for a steward what became of a release: the table that it made, or why there is none."""
        if not visit.caller.is_steward or ask.released is None:
            return ""
        job = next((each for each in self.web.control.list_jobs(subject=ask.id) if each.kind == "release"), None)
        place = self.web.control.find_setting(RELEASED)
        if job is None or not place:
            return "No place for tables is set; [released] in serve.toml names one."
        if job.state is JobState.FAILED:
            return str((job.error or {}).get("detail", "A worker could not copy it."))
        table = (job.result or {}).get("table")
        return f"A worker is copying it into {place}." if table is None else f"It is the table {table} in {place}."

    def release(self, visit: Visit) -> Response:
        """Release an answer: readers see it, and tools that read released tables."""
        ask = visit.path("ask")
        self.pages.stewardship.release_answer(visit.caller, ask, visit.field("title").strip()[:200])
        return redirect(f"/a/{ask}")

    def download(self, visit: Visit) -> Response | Later:
        """Send an answer, or a view of it, as a file."""
        ask = self.web.find_answered(visit.caller, visit.path("ask"))
        name = choose_format(visit.field("format") or "csv", None)
        write = partial(self._write_file, visit, ask, name)
        return self.pages.draw_later(visit, write) if FORMATS[name].is_drawn else write()

    def _write_file(self, visit: Visit, ask: Ask, name: str) -> Response:
        switches = tuple(each for each in SWITCHES if visit.field(each) == "yes")
        if not switches:
            response = write_answer(ask, name, visit.request.headers.get("if-none-match"))
        else:
            answer, _ = postprocess(self._read(ask), switches)
            response = Response(_write_view(answer, name), 200, {"Cache-Control": "no-store"}, FORMATS[name].media)
        kept = "-view" if switches else ""
        file = f"answer-{ask.id[:8]}{kept}.{FORMATS[name].suffix}"
        response.headers["Content-Disposition"] = f'attachment; filename="{file}"'
        return response

    @staticmethod
    def _read(ask: Ask) -> Answer:
        assert ask.answer is not None
        return answer_from_wire(ask.answer)

    def draw(self, visit: Visit) -> Later:
        """Draw the chart of an answer, or of a view of it."""
        ask = self.web.find_answered(visit.caller, visit.path("ask"))
        switches = tuple(each for each in SWITCHES if visit.field(each) == "yes")
        answer, _ = postprocess(self._read(ask), switches)
        return self.pages.draw_later(visit, lambda: draw_chart(answer, visit))

    # Certificates

    def add_certificates(self) -> None:
        """Add the certificate as a file, and the check of it. A worker signs it, so both wait without holding a thread."""
        app, signing = self.pages.app, self.web.signing

        async def find(request: Request, form_token: str | None) -> tuple[Visit, Ask, Any]:
            def recognise() -> tuple[Visit, Ask]:
                caller = signing.find_caller(request)
                if caller is None:
                    raise Refusal(401, "You are not signed in. Sign in, and open the page again.")
                if form_token is not None:
                    signing.check_form(caller, form_token)
                ask = self.web.find_answered(caller, request.path_params["ask"])
                return Visit(request, caller, {}), ask

            visit, ask = await run_in_threadpool(recognise)
            return visit, ask, await fetch_certificate(self.web, visit.caller, ask)

        async def send(request: Request) -> Response:
            _, ask, job = await find(request, None)
            if job.result is None:
                raise Refusal(503, _explain_missing(job), {"Retry-After": "2"})
            headers = {"Content-Disposition": f'attachment; filename="certificate-{ask.id[:8]}.json"'}
            return Response(msgspec.json.encode(job.result["certificate"]), 200, headers, "application/json")

        async def check(request: Request) -> Response:
            form = await read_form(request)
            visit, ask, job = await find(request, (form.get(FORM_TOKEN) or ("",))[0])

            def run() -> Response:
                verdict: dict[str, Any] = {"is_valid": False, "conclusion": _explain_missing(job), "claims": []}
                if job.result is not None:
                    key = self.web.control.find_setting("public_key")
                    verdict = check_certificate(job.result["certificate"], key)
                return self.show_answer(visit, ask, {"assumptions": [], **verdict})

            return await run_in_threadpool(run)

        for path, method, handler in (("certificate.json", "GET", send), ("check", "POST", check)):
            app.add_api_route(f"/a/{{ask}}/{path}", handler, methods=[method], include_in_schema=False, response_model=None)

    # The list

    def list_own(self, visit: Visit) -> Response:
        """Draw the list of one's own asks, by day."""
        asks, cursor, state, text = self._find_own(visit)
        days: dict[str, list[dict[str, Any]]] = {}
        for ask in asks:
            day = words.format_moment(ask.accepted_at).partition(",")[0]
            days.setdefault(day, []).append({"ask": ask, "cost": _describe_cost(ask)})
        following = None if cursor is None else urlencode({"cursor": cursor, "state": state, "text": text})
        return self.pages.show(visit, "asks", days=days, following=following, state=state, text=text, all=list(AskState))

    def _find_own(self, visit: Visit, limit: int = MAX_LISTED) -> tuple[list[Ask], str | None, str, str]:
        visit.caller.require(Scope.READ)
        state, text = visit.field("state"), visit.field("text")[:200]
        chosen = AskState(state) if state in set(AskState) else None
        cursor: str | None = visit.field("cursor")[:100] or None
        found, seen = list[Ask](), 0
        while len(found) < limit and seen < MAX_SEARCHED:
            page = self.web.control.list_asks(person=visit.caller.person.id, state=chosen, cursor=cursor, limit=limit)
            found += [each for each in page.items if text.lower() in f"{each.query} {each.table}".lower()]
            seen, cursor = seen + len(page.items), page.cursor
            if cursor is None:
                break
        return found, cursor, state if chosen else "", text

    def download_own(self, visit: Visit) -> Response:
        """Send the list as CSV for spreadsheets."""
        asks, _, _, _ = self._find_own(visit, 200)
        out = StringIO()
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        writer.writerow(("id", "asked", "table", "query", "state", "epsilon"))
        for ask in asks:
            texts = (ask.id, words.format_moment(ask.accepted_at), ask.table, ask.query, ask.state.value, ask.epsilon)
            writer.writerow([escape_formula(each) for each in texts])
        headers = {"Content-Disposition": 'attachment; filename="asks.csv"'}
        return Response(out.getvalue(), 200, headers, "text/csv; charset=utf-8")


def _describe_cost(ask: Ask) -> str:
    """Return what an ask costs, or that it was free."""
    if ask.is_free:
        return "free, answered before"
    if ask.state not in (*CHARGED, AskState.APPROVAL):
        return "nothing charged"
    cost = words.format_cost_short(cost_from_wire(ask.cost))
    return f"{cost}, not charged yet" if ask.state is AskState.APPROVAL else cost


def _explain_missing(job: Any) -> str:
    if job.error is not None:
        return str(job.error.get("detail", "The certificate could not be signed."))
    return "The certificate is not signed yet. Try again in a moment."


def _write_view(answer: Answer, name: str) -> bytes:
    return to_json(answer.to_dict()).encode() if name == "json" else FORMATS[name].write(answer)


def _link_again(ask: Ask) -> str:
    """Return the address of the form with the same query and new noise."""
    options = ask.options
    values = {"query": ask.query, "confidence": f"{options.confidence:g}", "fresh": "yes"}
    values |= {"error": options.error} if options.error is not None else {"epsilon": ask.epsilon}
    if options.size is not None:
        values["size"] = str(options.size)
    return f"/t/{words.quote_path(ask.table)}/ask?{urlencode(values)}"


def _list_options(ask: Ask) -> str:
    options = ask.options
    good = f"error={options.error!r}" if options.error is not None else f"epsilon={_write_number(ask.epsilon)}"
    size = "" if options.size is None else f", size={options.size}"
    together = ", simultaneous=True" if options.simultaneous else ""
    return f"{good}{size}, confidence={options.confidence:g}{together}"


def _write_number(text: str) -> str:
    """Return an exact number as Python reads it: as a decimal if it is a short one, else as a text.

    >>> _write_number("3/10"), _write_number("2"), _write_number("1/3")
    ('0.3', '2', "'1/3'")
    """
    exact = Fraction(text)
    decimal = format_decimal(exact).replace(",", "")
    return decimal if "/" not in decimal and Fraction(decimal) == exact else repr(text)


def write_cell(address: str, ask: Ask) -> str:
    """Return a notebook's cell that shows the same answer, for nothing."""
    id = f", id={ask.key!r}" if ask.key else ""
    return (
        "import discreet\n\n"
        f"table = discreet.connect({f'{address}/{ask.table}'!r})  # token: DISCREET_TOKEN, or `discreet login`\n"
        f"answer = table.ask(\n    {ask.query!r},\n    {_list_options(ask)}{id},\n)\nanswer"
    )


def write_curl(address: str, ask: Ask) -> str:
    """Return the command that fetches the answer."""
    return f'curl -H "Authorization: Bearer $DISCREET_TOKEN" "{address}/api/v1/asks/{ask.id}/answer?format=csv"'


def add_to(pages: Pages) -> None:
    """Add the pages of asks and answers."""
    outcomes = Outcomes(pages)
    pages.add("/a/{ask}", outcomes.show)
    pages.add("/a/{ask}/state", outcomes.show_state)
    pages.add("/a/{ask}/withdraw", post=outcomes.withdraw)
    pages.add("/a/{ask}/release", post=outcomes.release)
    pages.add("/a/{ask}/download", outcomes.download)
    pages.add("/a/{ask}/chart.svg", outcomes.draw)
    outcomes.add_certificates()
    pages.add("/asks", outcomes.list_own)
    pages.add("/asks.csv", outcomes.download_own)
