"""Reports of local collections are counted in PostgreSQL as everywhere; the statements, for reviewers."""

from pathlib import Path
from typing import Any

import pytest
import sqlglot

from discreet.local.counting import count_reports
from discreet.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from discreet.sql.reports import ReportColumns, count_cells, count_clean, count_column, count_rejected, sum_bits
from tests.support.local_reports import COLLECTION, ORACLES, VERSION, count_slowly, make_rows, to_columns
from tests.support.local_systems import SYSTEMS, Columns, assert_counted_alike
from tests.support.postgres_server import Server, create_table

GOLDEN = Path(__file__).parent / "golden" / "reports.sql"


@pytest.mark.parametrize("name", ORACLES)
def test_postgres_counts_the_same(postgres: Server, name: str) -> None:
    oracle, rows = ORACLES[name], make_rows(ORACLES[name], seed=2)
    columns = to_columns(rows)
    kinds = ", ".join(f'"{column}" {"TEXT" if column in ("collection", "nonce") else "BIGINT"}' for column in columns)
    create_table(postgres.owner, "reports", kinds, [tuple(row.values()) for row in rows])
    counts = count_reports(oracle, postgres.reader, table="reports", collection=COLLECTION, version=VERSION)
    assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows)
    create_table(postgres.owner, "plain", ", ".join(f'"{field.name}" NUMERIC' for field in oracle.fields),
                 [tuple(row[field.name] for field in oracle.fields) for row in rows])  # fmt: skip
    plain = count_reports(oracle, postgres.reader, table="plain")
    assert (plain.n, plain.supports.tolist(), plain.rejected) == count_slowly(oracle, rows, plain=True)


@pytest.mark.parametrize("name", SYSTEMS)
def test_postgres_counts_reports_of_every_system(postgres: Server, name: str) -> None:
    def load(columns: Columns) -> dict[str, Any]:
        kinds = ", ".join(f'"{column}" {"TEXT" if column in ("collection", "nonce") else "BIGINT"}' for column in columns)
        create_table(postgres.owner, "systems", kinds, list(zip(*columns.values(), strict=True)))
        return {"source": postgres.reader, "table": "systems"}

    assert_counted_alike(name, load)


def format_statements(dialect: Dialect) -> str:
    """Return the statements of two kinds of reports, with line breaks."""
    source = sqlglot.exp.alias_(sqlglot.exp.to_table("reports"), "source", table=True, quoted=True)
    full = ReportColumns({"j": 16, "b": 2}, frozenset({"b"}), False, {"collection": "0123", "version": 2}, True)
    words, lists = ReportColumns({"w0": 4}), ReportColumns({"y0": 9, "y1": 9}, ascending=True)
    statements = [
        count_cells(full, source, dialect),
        count_clean(full, source),
        count_rejected(full, source, dialect),
        sum_bits(0, [("w0", 0), ("w0", 1)], words, source, dialect),
        count_column("y1", lists, source, dialect),
    ]
    texts = (statement.sql(dialect=dialect.name, pretty=True) for statement in statements)
    return f"-- {dialect.name}\n" + "".join(f"{text};\n" for text in texts)


def write_golden() -> str:
    return "\n".join(format_statements(dialect) for dialect in (DUCKDB, POSTGRES, SPARK))


def test_the_statements_are_those_that_were_reviewed() -> None:
    assert GOLDEN.read_text() == write_golden()


if __name__ == "__main__":
    GOLDEN.write_text(write_golden())
