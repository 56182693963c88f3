"""The preview: exact values over invented rows, which DuckDB computes too, with the half-widths of the quote."""

from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from discreet.serve.quoting import Quoter, Target
from discreet.serve.web.pages.preview import MAX_ROWS, invent_rows, preview
from tests.serve.web.test_templates import sign_in
from tests.support.web_service import OPEN, Service, open_service

POLICY = """\
table = "people"
unit = "id"
max_groups = 3
max_rows = 2

[columns.id]
kind = "integer"

[columns.dept]
kind = "text"
keys = ["a", "b", "c"]

[columns.city]
kind = "text"

[columns.pay]
kind = "integer"
lower = 0
upper = 100

[columns.hired]
kind = "date"
lower = 2020-01-01
upper = 2023-12-31
"""
QUERIES = (
    "SELECT COUNT(*) AS n FROM people",
    "SELECT dept, COUNT(*) AS n, AVG(pay) AS m FROM people GROUP BY dept",
    "SELECT dept, SUM(pay) AS s, COUNT(pay) AS c FROM people WHERE pay >= 30 GROUP BY dept",
    "SELECT dept, COUNT(DISTINCT id) AS u FROM people WHERE dept IN ('a', 'b') AND NOT pay < 20 GROUP BY dept",
    "SELECT pay // 10 AS bin, COUNT(*) AS n FROM people GROUP BY bin",
    "SELECT EXTRACT(year FROM hired) AS y, COUNT(*) AS n FROM people GROUP BY y",
    "SELECT COUNT(*) AS n FROM people WHERE city IS NULL OR hired >= DATE '2022-06-01'",
    "SELECT SUM(CASE WHEN pay < 50 THEN 0 ELSE 1 END) AS s FROM people WHERE NOT (pay < 10 AND hired > DATE '2021-01-01')",
    "SELECT SUM(pay + 2 * pay) AS s, AVG(ABS(pay - 50)) AS d FROM people",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    with open_service(tmp_path_factory.mktemp("preview"), replace(OPEN, pages=True)) as opened:
        opened.register(policy=POLICY)
        yield opened


@pytest.mark.parametrize("query", QUERIES)
def test_the_preview_is_what_an_engine_computes(service: Service, query: str) -> None:
    entry, lineage = service.control.find_table("people"), service.web.find_lineage("employees/ada")
    assert entry is not None
    priced = Quoter().price(entry, lineage, query, Target(epsilon="1/2", size=100))
    tried = preview(priced, POLICY, None, 0.95)
    assert tried is not None
    rows = invent_rows(POLICY, MAX_ROWS)
    with duckdb.connect() as connection:
        connection.register("people", pa.table({name: [row[name] for row in rows] for name in rows[0]}))
        found = connection.execute(query).fetchall()
    expected = {row[: len(tried.groups)]: row[len(tried.groups) :] for row in found}
    for keys, estimates in tried.rows:
        values = expected.get(keys, (0,) * len(estimates))
        assert [each.value for each in estimates] == pytest.approx([value or 0 for value in values])
    stated = {each.column: {value for _, value in each.half_widths} for each in priced.quote.columns}
    first = tried.rows[0][1]
    for name, estimate in zip(tried.columns, first, strict=True):
        if stated[name] and query.upper().find(f"COUNT(*) AS {name.upper()}") >= 0:
            assert estimate.upper - estimate.value == max(stated[name])


def test_what_is_not_tried_has_a_quote_and_no_preview(service: Service) -> None:
    client = sign_in(service, "ada")
    for query in ("SELECT MEDIAN(pay) AS m FROM people", "SELECT city, COUNT(*) AS n FROM people GROUP BY city"):
        text = client.get("/t/people/ask", params={"query": query}).text
        assert "There is no preview of this query" in text
        assert "of what remains" in text
        response = client.get("/t/people/preview.svg", params={"query": query, "epsilon": "1/10"})
        assert response.status_code == 404


def test_the_preview_is_a_chart_in_light_and_dark(service: Service) -> None:
    client = sign_in(service, "ada")
    values = {"query": QUERIES[1], "epsilon": "1/10", "confidence": "0.95"}
    light = client.get("/t/people/preview.svg", params=values)
    dark = client.get("/t/people/preview.svg", params={**values, "dark": "1"})
    assert light.headers["content-type"].startswith("image/svg+xml")
    assert light.text.startswith("<svg")
    assert light.text != dark.text
