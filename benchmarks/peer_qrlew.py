"""Runs inside qrlew's environment: seconds for one question, rewritten by qrlew and run by DuckDB, as JSON.

    python peer_qrlew.py QUESTION FILE REPEATS

qrlew clips the norm of what a person adds to all groups, at 30 rows here; rewriting is timed too. It learns the table from
an empty-handed SQLite of the same schema.
"""

import json
import sys
import time
from importlib.metadata import version

import duckdb
import pyqrlew
import sqlalchemy

ASKED = {
    "count": "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept",
    "sums": "SELECT dept, SUM(amount) AS total, AVG(amount) AS mean FROM t GROUP BY dept",
    "city": "SELECT city, COUNT(*) AS n FROM t GROUP BY city",
    "unique": "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept",
}


def described(unique: bool) -> pyqrlew.Dataset:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text('CREATE TABLE t ("user" BIGINT, dept TEXT, city TEXT, amount FLOAT)'))
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES (1, 'd00', 'city-0000', 1.0)"))
    dataset = pyqrlew.Dataset.from_database("db", engine, None).with_range(None, "t", "amount", 0.0, 500.0)
    dataset = dataset.with_possible_values(None, "t", "dept", [f"d{i:02d}" for i in range(50)])
    return dataset.with_constraint(None, "t", "user", "Unique") if unique else dataset


def rewritten(question: str, dataset: pyqrlew.Dataset) -> str:
    most = 1 if question == "unique" else 30
    private = dataset.relation(ASKED[question]).rewrite_with_differential_privacy(
        dataset, [("t", [], "user")], {"epsilon": 1.0, "delta": 1e-6}, most, float(most), 1 if most == 1 else 3
    )
    return private.relation().to_query()


def main(question: str, path: str, repeats: str) -> None:
    connection, dataset = duckdb.connect(), described(question == "unique")
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"CREATE VIEW t AS FROM '{path}'")
    best = float("inf")
    for _ in range(int(repeats)):
        start = time.perf_counter()
        rows = connection.execute(rewritten(question, dataset)).fetchall()
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds": best, "rows": len(rows), "version": version("pyqrlew")}))


main(*sys.argv[1:])
