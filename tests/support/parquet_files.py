"""Parquet files with a column of different types."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MIXED_TYPES = [
    (pa.array([1, 2], pa.int32()), pa.array([3, 2**40], pa.int64())),
    (pa.array([1, 2], pa.int64()), pa.array(["3", "x"])),
    (pa.array([1, 2], pa.int64()), pa.array([3.0, 1e300])),
    (pa.array([1.5, 2], pa.float64()), pa.array([3, 4], pa.int64())),
    (pa.array([0, 1], pa.timestamp("us")), pa.array([0, 1], pa.timestamp("ns"))),
    (pa.array([1, 2], pa.decimal128(5, 2)), pa.array([3, 4], pa.decimal128(9, 4))),
]
"""Pairs of columns: what `v` holds in the first file, and in the second."""


def write_two_files(folder: Path, first: pa.Array, second: pa.Array) -> str:
    """Write two files, with ids that go on in the second, and return a glob of both."""
    folder.mkdir(exist_ok=True)
    middle = len(first)
    pq.write_table(pa.table({"id": range(middle), "v": first}), folder / "people-1.parquet")
    pq.write_table(pa.table({"id": range(middle, middle + len(second)), "v": second}), folder / "people-2.parquet")
    return str(folder / "people-*.parquet")
