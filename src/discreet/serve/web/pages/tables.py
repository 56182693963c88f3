"""Home and tables: what may be asked of, what is declared about it, how much of the budget is spent; and invented rows."""

from typing import Any
from urllib.parse import urlencode

from fastapi import Response

from discreet.serve.control.model import AskState, Grant, TableEntry
from discreet.serve.web.api_outcomes import MAX_INVENTED, write_invented
from discreet.serve.web.pages import words
from discreet.serve.web.pages.builder import suggest_queries, suggest_query
from discreet.serve.web.pages.drawing import Pages, Visit
from discreet.serve.web.pages.preview import invent_rows

INVENTED_SHOWN = 10


class Tables:
    """The pages of tables."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.web = pages, pages.web

    def show_home(self, visit: Visit) -> Response:
        """Draw the tables as cards, the last asks, and what waits."""
        cards = [self._describe(visit, *each) for each in self.web.list_tables(visit.caller)]
        asks = self.web.control.list_asks(person=visit.caller.person.id, limit=5).items
        first = next((card for card in cards if card["grant"] is not None and card["entry"].is_open), None)
        samples = [] if asks or first is None else self._suggest(first["entry"])
        return self.pages.show(
            visit, "home", cards=cards, asks=asks, waiting=self.pages.count_waiting(visit.caller), samples=samples,
            answered=AskState.ANSWERED, released=self.web.list_released(visit.caller),
        )  # fmt: skip

    def _describe(self, visit: Visit, entry: TableEntry, grant: Grant | None) -> dict[str, Any]:
        population = self.web.control.find_population(entry.population)
        account = grant.account if grant is not None else (population.account if population else "")
        budgets = self.pages.find_budgets(visit.caller, account)
        return {
            "entry": entry,
            "grant": grant,
            "unit": self.web.quoter.read_table(entry).unit,
            "own": None if budgets is None else budgets[0],
            "root": None if budgets is None else budgets[1],
            "sentence": None if budgets is None else words.state_budgets(*budgets),
        }

    def _suggest(self, entry: TableEntry) -> list[dict[str, str]]:
        return [
            {"text": each.text, "address": _address(entry, each.value)}
            for each in suggest_queries(self.web.quoter.read_table(entry))
        ]

    def show_table(self, visit: Visit) -> Response:
        """Draw what is declared about a table."""
        entry, grant = self.web.find_table(visit.caller, visit.path("table"))
        table = self.web.quoter.read_table(entry)
        rows = invent_rows(entry.policy, 1_000)[:INVENTED_SHOWN]
        return self.pages.show(
            visit, "table", **self._describe(visit, entry, grant), table=table, sentence_unit=words.describe_unit(table),
            columns=[(name, each.kind.value, words.describe_declared(each)) for name, each in table.columns.items()],
            rows=[[_show(value) for value in row.values()] for row in rows],
            about={name: _address(entry, query) for name in table.columns if (query := suggest_query(table, name))},
            samples=self._suggest(entry), least=words.format_epsilon(table.least_epsilon),
            neighbours=words.describe_neighbours(entry.neighbours, table),
            classes=[words.format_seconds(each) for each in entry.classes],
        )  # fmt: skip

    def download_invented(self, visit: Visit) -> Response:
        """Send invented rows as a file."""
        entry, _ = self.web.find_table(visit.caller, visit.path("table"))
        self.web.quote_limit.take(visit.caller.limit_key)
        rows, name = visit.field("rows", "1000"), visit.field("format", "csv")
        count = min(max(int(rows), 1), MAX_INVENTED) if rows.isdecimal() and len(rows) < 9 else 1_000
        return write_invented(self.web, entry, count, 1, name if name in ("csv", "ndjson", "arrow", "parquet") else "csv")


def _address(entry: TableEntry, query: str) -> str:
    """Return the address of the form with a query."""
    return f"/t/{words.quote_path(entry.name)}/ask?{urlencode({'query': query})}"


def _show(value: Any) -> str:
    """Return an invented value as a text. Six digits are enough for an invented number."""
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def add_to(pages: Pages) -> None:
    """Add home and the pages of tables."""
    tables = Tables(pages)
    pages.add("/", tables.show_home)
    pages.add("/t/{table}", tables.show_table)
    pages.add("/t/{table}/invented", tables.download_invented)
