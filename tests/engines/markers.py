"""Every difference between the engines that must exist, by name, with its reason. Whatever is not here must be the same.

The first two and the last show in discreet; what the others tell of the engines themselves never reaches an answer, and
the probes say why not.
"""

from dataclasses import dataclass
from typing import Any

from discreet.query.schema import Kind

ENGINES = ("duckdb", "postgres", "spark")


@dataclass(frozen=True)
class Marker:
    """What each engine does, and why it may."""

    why: str
    duckdb: Any
    postgres: Any
    spark: Any

    def of(self, engine: str) -> Any:
        return getattr(self, engine)


MARKERS = {
    "decimal(p, 0)": Marker(
        "DuckDB has whole numbers of 128 bits, so a decimal there is an amount whatever its digits; PostgreSQL and Spark "
        "have no other type for whole numbers of more than 64 bits",
        duckdb=Kind.REAL, postgres=Kind.INTEGER, spark=Kind.INTEGER,
    ),
    "sums that may pass 64 bits": Marker(
        "a sum of BIGINT is wider than 64 bits in DuckDB and PostgreSQL, and raises in Spark, where it is told to be wide",
        duckdb="SUM(", postgres="SUM(", spark="SUM(CAST(",
    ),
    "a sum of BIGINT by itself": Marker(
        "the type of a sum is the engine's own choice", duckdb=2**64 - 2, postgres=2**64 - 2, spark="raises"
    ),
    "a double as BIGINT": Marker(
        "of 2.5, 3.5 and 2.7: the standard leaves it open; none of them is ⌊x + ½⌋, which all of them are asked for",
        duckdb=(2, 4, 3), postgres=(2, 4, 3), spark=(2, 3, 2),
    ),
    "the text of a double": Marker(
        "of 10²⁰, 1 and 10⁻⁵: there is no rule, so no double is a key and none is hashed",
        duckdb=("1e+20", "1.0", "1e-05"), postgres=("1e+20", "1", "1e-05"), spark=("1.0E20", "1.0", "1.0E-5"),
    ),
    "division by zero": Marker(
        "DuckDB follows IEEE, the others the standard; only a constant that is not zero divides here",
        duckdb="answers", postgres="raises", spark="raises",
    ),
    "FILTER as a guard": Marker(
        "DuckDB computes an aggregate's argument before its filter; a guard here is a CASE",
        duckdb="raises", postgres="answers", spark="answers",
    ),
    "a guard in a join": Marker(
        "the key of a hash join is computed of every row, whatever stands beside it; a join here is one plain equality",
        duckdb="raises", postgres="raises", spark="raises",
    ),
}  # fmt: skip
