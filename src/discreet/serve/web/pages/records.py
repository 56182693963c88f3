"""Publications and the audit trail.

A publication is one debit for several queries: proposed, quoted by a worker, approved by a steward, then a folder with
tables, card and certificate. A steward may show it to everybody, under an address that stays.
"""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import msgspec
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from discreet.serve.control.errors import TrailBroken
from discreet.serve.control.model import RELEASED, Publication, PublicationState, Scope, TableEntry
from discreet.serve.rounding import round_parents
from discreet.serve.web.api_stewards import make_zip
from discreet.serve.web.pages import words
from discreet.serve.web.pages.builder import suggest_queries
from discreet.serve.web.pages.drawing import Pages, Visit, redirect
from discreet.serve.web.pages.forms import RefusedForm, keep_form
from discreet.serve.web.pages.reading import CERTIFICATE
from discreet.serve.web.problems import Refusal, not_found
from discreet.serve.web.signing_in import Caller
from discreet.serve.web.stewardship import MAX_PLAN, find_epsilon

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}", re.ASCII)
MEDIA = {
    "csv": "text/csv; charset=utf-8", "json": "application/json", "svg": "image/svg+xml",
    "md": "text/markdown; charset=utf-8",
}  # fmt: skip


class Records:
    """The pages of publications and of the trail."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web, self.control = pages, pages.web, pages.control
        self.stewardship = pages.stewardship

    def list(self, visit: Visit) -> Response:
        """Draw the publications that one may see, and the form that proposes one."""
        return self._list(visit, None)

    def _list(self, visit: Visit, refused: RefusedForm | None) -> Response:
        page = self.control.list_publications(cursor=visit.field("cursor")[:100] or None, limit=50)
        seen = [each for each in page.items if self._may_see(visit.caller, each)]
        tables = [entry for entry, grant in self.web.list_tables(visit.caller) if grant is not None]
        plan, chosen = self._write_plan(visit, tables)
        return self.pages.show(
            visit, "publications", refused=refused, publications=seen, cursor=page.cursor, tables=tables, plan=plan,
            chosen=chosen,
        )  # fmt: skip

    def _write_plan(self, visit: Visit, tables: Sequence[TableEntry]) -> tuple[str, str]:
        """Return a plan to start from, and its table: the query of the ask that the page was opened for, or samples."""
        if not tables:
            return "", ""
        if id := visit.field("ask")[:100]:
            ask = self.web.find_ask(visit.caller, id)
            if ask.table in {each.name for each in tables}:
                return write_sample_plan([ask.query], f"{float(Fraction(ask.epsilon)):g}"), ask.table
        samples = suggest_queries(self.web.quoter.read_table(tables[0]))
        return write_sample_plan([each.value for each in samples]), tables[0].name

    def _may_see(self, caller: Caller | None, publication: Publication) -> bool:
        try:
            self.stewardship.find_publication(caller, publication.id)
        except Refusal:
            return False
        return True

    def propose(self, visit: Visit) -> Response:
        """Propose a publication."""
        return keep_form(visit, "plan", lambda: self._propose(visit), lambda kept: self._list(visit, kept))

    def _propose(self, visit: Visit) -> Response:
        title = visit.field("title").strip()[:200]
        plan = visit.field("plan").replace("\r\n", "\n")
        if not title or not plan.strip() or len(plan) > MAX_PLAN:
            raise Refusal(422, f"A publication needs a title and a plan of at most {MAX_PLAN:,} characters. Write both.")
        made = self.stewardship.add_publication(visit.caller, title, visit.field("table"), plan)
        return redirect(f"/p/{made.id}")

    def decide(self, visit: Visit) -> Response:
        """Approve or decline a publication, or show it to everybody."""
        publication = visit.path("publication")
        match visit.field("do"):
            case "approve" | "decline" as step:
                self.stewardship.decide_publication(visit.caller, publication, step == "approve")
            case "show" | "hide" as step:
                self.stewardship.open_publication(visit.caller, publication, step == "show")
            case _:
                raise Refusal(422, "There is no such decision. Use the buttons of the page.")
        return redirect(f"/p/{publication}")

    def add_public(self) -> None:
        """Add the page of one publication and its folder: a stranger sees what is public."""

        def draw(request: Request) -> Response:
            caller = self.web.signing.find_caller(request)
            found = self.stewardship.find_publication(caller, request.path_params["publication"])
            values = {
                "publication": found,
                "files": sorted(name for name in found.files if FILE_NAME.fullmatch(name)),
                "has_certificate": CERTIFICATE in found.files,
                "place": self.control.find_setting(RELEASED) if caller is not None and caller.is_steward else None,
                "is_published": found.state is PublicationState.PUBLISHED,
                "is_waiting": found.state is PublicationState.APPROVAL,
                "forecast": None if found.quote is None else view_forecast(found.quote),
                "cost": _find_cost(found),
                "shortage": self._find_shortage(caller, found),
                "needed": self.stewardship.count_stewards(found.table, find_epsilon(found)),
            }
            return self.pages.render(request, "publication", values)

        def send(request: Request) -> Response:
            caller = self.web.signing.find_caller(request)
            found = self.stewardship.find_publication(caller, request.path_params["publication"])
            if found.state is not PublicationState.PUBLISHED:
                raise Refusal(409, f"The publication is {found.state}: it has no folder.")
            headers = {"Content-Disposition": f'attachment; filename="publication-{found.id[:8]}.zip"'}
            return Response(make_zip(found), 200, headers, "application/zip")

        def send_file(request: Request) -> Response:
            caller = self.web.signing.find_caller(request)
            found = self.stewardship.find_publication(caller, request.path_params["publication"])
            name = request.path_params["file"]
            if found.state is not PublicationState.PUBLISHED or name not in found.files or not FILE_NAME.fullmatch(name):
                raise not_found()
            media = MEDIA.get(name.rpartition(".")[2], "application/octet-stream")
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(b64decode(found.files[name]), 200, headers, media)

        async def show(request: Request) -> Response:
            return await run_in_threadpool(draw, request)

        async def download(request: Request) -> Response:
            return await run_in_threadpool(send, request)

        async def fetch(request: Request) -> Response:
            return await run_in_threadpool(send_file, request)

        for path, handler in (
            ("/p/{publication}", show), ("/p/{publication}/folder.zip", download), ("/p/{publication}/files/{file}", fetch),
        ):  # fmt: skip
            self.pages.app.add_api_route(path, handler, methods=["GET"], include_in_schema=False, response_model=None)

    def _find_shortage(self, caller: Caller | None, found: Publication) -> str:
        """Say that a publication that waits costs more than its account and its parents have; nothing if it fits. What
        others spend from, too, counts in whole percents, except for stewards."""
        amount = ((found.quote or {}).get("cost") or {}).get("amount")
        if caller is None or found.state is not PublicationState.APPROVAL or not isinstance(amount, int | float | str):
            return ""
        lineage = [] if found.account is None else self.web.find_lineage(found.account)
        shown = lineage if caller.is_steward else round_parents(lineage)
        for each in shown:
            if not isinstance(amount, int | float) or Fraction(amount) > each.budget.remaining:
                whose = "everybody's budget" if each.parent is None else f"the account {each.account}"
                return f"It costs more than what remains of {whose}: {words.describe_snapshot(each).sentence}."
        return ""

    # The trail

    def show_trail(self, visit: Visit) -> Response:
        """Draw the trail: all of it for stewards, else the lines about oneself."""
        return self._draw_trail(visit, None)

    def _draw_trail(self, visit: Visit, verdict: str | None) -> Response:
        lines, cursor = self.stewardship.list_trail(visit.caller, visit.field("cursor")[:100] or None, 50)
        text = visit.field("text")[:200]
        shown = [
            (each, [(name, _show_detail(value)) for name, value in each.details.items() if value is not None])
            for each in lines
            if text.lower() in f"{each.actor} {each.action} {each.subject}".lower()
        ]
        return self.pages.show(
            visit, "trail", lines=shown, cursor=cursor, text=text, verdict=verdict, head=self.control.trail.head()
        )

    def check_trail(self, visit: Visit) -> Response:
        """Check every line against the one before it."""
        visit.caller.require(Scope.STEWARD)
        try:
            verdict = f"The trail is whole: {self.control.trail.check():,} lines, each of which follows from the one before."
        except TrailBroken as error:
            verdict = str(error)
        return self._draw_trail(visit, verdict)

    def download_trail(self, visit: Visit) -> Response:
        """Send lines of the trail as NDJSON."""
        lines, _ = self.stewardship.list_trail(visit.caller, visit.field("cursor")[:100] or None, 1_000)
        body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        headers = {"Content-Disposition": 'attachment; filename="trail.ndjson"'}
        return Response(body, 200, headers, "application/x-ndjson")


def _show_detail(value: Any) -> str:
    """Return a detail of a line of the trail. A hash is cut; the whole of it is in the file."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{text[:16]}…" if re.fullmatch("[0-9a-f]{64}", text) else text


def _find_cost(publication: Publication) -> str | None:
    epsilon = find_epsilon(publication)
    return f"ε = {words.format_epsilon(epsilon)}" if isfinite(epsilon) else None


@dataclass(frozen=True, slots=True)
class ForecastView:
    """What half, the same and twice the cost of a publication would buy: the half-width of each column at each."""

    budgets: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]  # query, column, half-widths
    fits: bool


def view_forecast(quote: Mapping[str, Any]) -> ForecastView:
    """Return what a worker quoted as a table."""
    budgets = [each for each in quote.get("budgets") or () if isinstance(each, Mapping)]
    rows: dict[tuple[str, str], list[str]] = {}
    for budget in budgets:
        for each in budget.get("columns") or ():
            size = "" if each.get("size") is None else f" at {each['size']:,} rows"
            reliable = "" if each.get("reliable") is None else f", {each['reliable']:,} of {each['cells']:,} reliable"
            half_width = inf if each.get("half_width") is None else float(each["half_width"])
            width = words.format_half_width(half_width, str(each.get("unit") or ""))
            rows.setdefault((str(each["query"]), str(each["column"])), []).append(f"± {width}{size}{reliable}")
    heads = tuple(
        f"ε = {words.format_epsilon(float(each['epsilon']))}" + (", as planned" if each["share"] == 1 else "")
        for each in budgets
    )
    return ForecastView(heads, tuple((*key, tuple(widths)) for key, widths in rows.items()), quote.get("fits") is not False)


def write_sample_plan(queries: Sequence[str], epsilon: str = "0.5") -> str:
    """Return a plan to start from."""
    lines = ["[budget]", f"epsilon = {epsilon}", ""]
    for number, query in enumerate(queries[:2], start=1):
        is_plain = not re.search(r'\\|"""|"$|[^\n\x20-\x7e\xa0-\uffff]', query)
        sql = ['sql = """', query, '"""'] if is_plain else [f"sql = {msgspec.json.encode(query).decode()}"]
        lines += [f"[questions.q{number}]", *sql, ""]
    return "\n".join(lines)


def add_to(pages: Pages) -> None:
    """Add the pages."""
    records = Records(pages)
    pages.add("/p", records.list, records.propose)
    records.add_public()
    pages.add("/p/{publication}", post=records.decide)
    pages.add("/trail", records.show_trail, records.check_trail)
    pages.add("/trail.ndjson", records.download_trail)
