"""Names and texts that DuckDB is given as SQL arrive as they are."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from discreet.engines.duckdb.types import quote_name, quote_text, quote_texts

TEXTS = st.text(
    st.one_of(st.sampled_from("\"'\\;-\n$%{}[]"), st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, others=st.lists(TEXTS, max_size=3), name=TEXTS.filter(bool))
def test_duckdb_reads_back_what_is_quoted(
    connection: duckdb.DuckDBPyConnection, text: str, others: list[str], name: str
) -> None:
    found = connection.execute(
        f"SELECT {quote_text(text)} AS {quote_name(name)}, {quote_texts(others)}::VARCHAR[] AS others"
    )
    assert found.description is not None
    assert found.description[0][0] == name
    assert found.fetchall() == [(text, others)]


@given(text=TEXTS, name=TEXTS.filter(bool))
def test_quoting_is_that_of_the_statements_of_queries(text: str, name: str) -> None:
    assert quote_text(text) == exp.Literal.string(text).sql(dialect="duckdb")
    assert quote_name(name) == exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
