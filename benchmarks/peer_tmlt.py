"""Runs inside tmlt.analytics' environment: best seconds for a count by 50 departments on Spark, as JSON.

    python peer_tmlt.py FILE TURNS

At most 3 departments and 10 rows in each of them per person, like ours; every turn is a new answer.
"""

import json
import os
import sys
import time
from importlib.metadata import version

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

DEPARTMENTS = [f"d{i:02d}" for i in range(50)]


def main(path: str, turns: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # its noise is drawn by Python inside Spark
    spark = SparkSession.builder.master("local[2]").appName("peer").config("spark.ui.showConsoleProgress", "false")
    spark = spark.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    session = Session.from_dataframe(
        privacy_budget=PureDPBudget(float("inf")),
        source_id="t",
        dataframe=spark.read.parquet(path).select("user", "dept"),
        protected_change=AddRowsWithID(id_column="user"),
    )
    asked = QueryBuilder("t").enforce(MaxGroupsPerID("dept", 3)).enforce(MaxRowsPerGroupPerID("dept", 10))
    asked = asked.groupby(KeySet.from_dict({"dept": DEPARTMENTS})).count()
    best = float("inf")
    for _ in range(int(turns)):
        start = time.perf_counter()
        answer = session.evaluate(asked, PureDPBudget(1)).collect()
        best = min(best, time.perf_counter() - start)
        assert len(answer) == len(DEPARTMENTS)
    print(json.dumps({"seconds": best, "version": f"{version('tmlt.analytics')}, Spark {spark.version}"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
