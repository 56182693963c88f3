"""Runs inside OpenDP's environment: seconds for one question of the Polars context API, as JSON.

python peer_opendp.py QUESTION FILE REPEATS
"""

import json
import sys
import time
from importlib.metadata import version

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
DEPARTMENTS = [f"d{i:02d}" for i in range(50)]
UNKNOWN = "city"


def ask(question: str, path: str) -> int:
    """One private answer; how many rows it has."""
    key = "city" if question == UNKNOWN else "dept"
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=None if question == "unique" else pl.col("user")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6 if question == UNKNOWN else 0.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[key], max_length=20_000_000, max_groups=5_000)],
    )
    query = context.query()
    if question != "unique":
        query = query.truncate_per_group(10, by=[key], keep="first").truncate_num_groups(3, by=[key], keep="first")
    grouped = query.group_by(key)
    if question == "sums":
        amount = pl.col("amount").fill_null(0.0).fill_nan(0.0)
        query = grouped.agg(amount.dp.sum((0.0, 500.0)), dp.len())
    else:
        query = grouped.agg(dp.len())
    if question != UNKNOWN:
        query = query.with_keys(pl.LazyFrame({"dept": DEPARTMENTS}))
    return query.release().collect().height


def main(question: str, path: str, repeats: str) -> None:
    best = float("inf")
    for _ in range(int(repeats)):
        start = time.perf_counter()
        rows = ask(question, path)
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds": best, "rows": rows, "version": version("opendp")}))


main(*sys.argv[1:])
