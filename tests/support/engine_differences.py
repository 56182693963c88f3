"""Every difference between the engines that must exist, by name, with its reason. Everything else must be the same.

The first two and the last show in discreet. The others are differences of the engines themselves that never reach an
answer; `engine_pitfalls` shows why not.

Below them, one table with every type that the engines share, and the kind that each is read as.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from discreet.engines.base import Engine
from discreet.query.schema import Kind

ENGINES = ("duckdb", "postgres", "spark")


@dataclass(frozen=True)
class Difference:
    """What each engine does, and why it may."""

    why: str
    duckdb: Any
    postgres: Any
    spark: Any

    def of(self, engine: str) -> Any:
        """What this engine does."""
        return getattr(self, engine)


DIFFERENCES = {
    "decimal(p, 0)": Difference(
        "DuckDB has whole numbers of 128 bits, so a decimal there is an amount whatever its digits; PostgreSQL and Spark "
        "have no other type for whole numbers of more than 64 bits",
        duckdb=Kind.REAL, postgres=Kind.INTEGER, spark=Kind.INTEGER,
    ),
    "sums that may pass 64 bits": Difference(
        "a sum of BIGINT is wider than 64 bits in DuckDB and PostgreSQL; in Spark it raises, unless values are cast first",
        duckdb="SUM(", postgres="SUM(", spark="SUM(CAST(",
    ),
    "a sum of BIGINT by itself": Difference(
        "the type of a sum is the engine's own choice", duckdb=2**64 - 2, postgres=2**64 - 2, spark="raises"
    ),
    "a double as BIGINT": Difference(
        "of 2.5, 3.5 and 2.7: the standard leaves it open; none of them is ⌊x + ½⌋, which the statements compute",
        duckdb=(2, 4, 3), postgres=(2, 4, 3), spark=(2, 3, 2),
    ),
    "the text of a double": Difference(
        "of 10²⁰, 1 and 10⁻⁵: there is no rule, so no double is a key and none is hashed",
        duckdb=("1e+20", "1.0", "1e-05"), postgres=("1e+20", "1", "1e-05"), spark=("1.0E20", "1.0", "1.0E-5"),
    ),
    "division by zero": Difference(
        "DuckDB follows IEEE, the others the standard; statements divide only by constants that are not zero",
        duckdb="answers", postgres="raises", spark="raises",
    ),
    "abs of the least integer": Difference(
        "its opposite is no integer of 64 bits; statements take ABS of integers below 2⁵¹ only",
        duckdb="raises", postgres="raises", spark=(-(2**63),),
    ),
    "ROUND of 2.5 and -2.5": Difference(
        "of doubles: away from zero, or to the even neighbour; statements compute ⌊x + ½⌋ with integers",
        duckdb=(3, -3), postgres=(2, -2), spark=(3, -3),
    ),
    "the year of infinity": Difference(
        "DuckDB has none, PostgreSQL says infinity, Spark has no infinite dates; statements make NULL of them first",
        duckdb=(None,), postgres=(inf,), spark="raises",
    ),
    "a backslash in LIKE": Difference(
        "whether 'a%' is LIKE 'a\\%': it is itself in DuckDB, and an escape elsewhere; patterns have none",
        duckdb=(False,), postgres=(True,), spark=(True,),
    ),
    "a date beyond DATE_TRUNC": Difference(
        "the first and last dates that an engine can hold; statements clip to the years 1 to 9999 first",
        duckdb="raises", postgres="raises", spark="answers",
    ),
    "FILTER as a guard": Difference(
        "DuckDB computes the argument of an aggregate before its filter; statements guard with CASE",
        duckdb="raises", postgres="answers", spark="answers",
    ),
    "a guard in a join": Difference(
        "the key of a hash join is computed for every row, whatever stands beside it; statements join by one plain equality",
        duckdb="raises", postgres="raises", spark="raises",
    ),
}  # fmt: skip

TYPES: dict[str, tuple[str, str, str]] = {
    "small": ("SMALLINT", "SMALLINT", "SMALLINT"),
    "whole": ("INTEGER", "INTEGER", "INTEGER"),
    "long": ("BIGINT", "BIGINT", "BIGINT"),
    "points": ("DECIMAL(18,0)", "NUMERIC(18,0)", "DECIMAL(18,0)"),
    "amount": ("DECIMAL(18,2)", "NUMERIC(18,2)", "DECIMAL(18,2)"),
    "single": ("FLOAT", "REAL", "FLOAT"),
    "double": ("DOUBLE", "DOUBLE PRECISION", "DOUBLE"),
    "flag": ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    "name": ("VARCHAR", "TEXT", "STRING"),
    "code": ("CHAR(5)", "CHAR(5)", "CHAR(5)"),
    "day": ("DATE", "DATE", "DATE"),
    "noted": ("TIMESTAMP", "TIMESTAMP", "TIMESTAMP_NTZ"),
    "moment": ("TIMESTAMPTZ", "TIMESTAMPTZ", "TIMESTAMP"),
    "raw": ("BLOB", "BYTEA", "BINARY"),
    "several": ("INTEGER[]", "INTEGER[]", "ARRAY<INTEGER>"),
    "span": ("INTERVAL", "INTERVAL", "INTERVAL DAY"),
}
KINDS = {
    "small": Kind.INTEGER, "whole": Kind.INTEGER, "long": Kind.INTEGER, "amount": Kind.REAL, "single": Kind.REAL,
    "double": Kind.REAL, "flag": Kind.BOOLEAN, "name": Kind.TEXT, "code": Kind.TEXT, "day": Kind.DATE,
    "noted": Kind.TIMESTAMP, "moment": Kind.TIMESTAMP,
}  # fmt: skip


def column_definitions(engine: str) -> str:
    """The columns of the shared table, as this engine writes them."""
    return ", ".join(f"{name} {types[ENGINES.index(engine)]}" for name, types in TYPES.items())


def find_unexpected_kinds(name: str, engine: Engine) -> dict[str, object]:
    """Return the columns that are read as another kind than `KINDS` and the declared difference say."""
    expected = KINDS | {"points": DIFFERENCES["decimal(p, 0)"].of(name)}
    found = {column: each.kind for column, each in engine.describe_columns().items()}
    return {column: found.get(column) for column in TYPES if found.get(column) != expected.get(column)}
