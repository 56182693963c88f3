"""Runs inside PipelineDP's environment: seconds for one question on its local backend, as JSON.

    python peer_pipelinedp.py QUESTION FILE REPEATS

Reading the file is not timed: only aggregating the rows, which the local backend takes as a list of Python objects.
"""

import json
import sys
import time
from importlib.metadata import version

import pipeline_dp
import pyarrow.parquet

DEPARTMENTS = [f"d{i:02d}" for i in range(50)]
M = pipeline_dp.Metrics


def ask(question: str, rows: list[tuple[int, str, float]]) -> int:
    """One private answer; how many rows it has."""
    unknown = question == "city"
    account = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(account, pipeline_dp.LocalBackend())
    unique = question == "unique"
    parameters = pipeline_dp.AggregateParams(
        metrics=[M.SUM, M.MEAN] if question == "sums" else [M.COUNT],
        max_partitions_contributed=1 if unique else 3,
        max_contributions_per_partition=1 if unique else 10,
        min_value=0,
        max_value=500,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    answer = engine.aggregate(rows, parameters, extractors, public_partitions=None if unknown else DEPARTMENTS)
    account.compute_budgets()
    return len(list(answer))


def main(question: str, path: str, repeats: str) -> None:
    columns = ["user", "city" if question == "city" else "dept", "amount"]
    table = pyarrow.parquet.read_table(path, columns=columns)
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    best = float("inf")
    for _ in range(int(repeats)):
        start = time.perf_counter()
        found = ask(question, rows)
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds": best, "rows": found, "version": version("pipeline-dp")}))


main(*sys.argv[1:])
