"""One table with every type that the engines share, and what each is read as: the same everywhere, but for the markers."""

from discreet.engines.base import Engine
from discreet.query.schema import Kind
from tests.engines.markers import ENGINES, MARKERS

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
SHOWN = {
    "small": Kind.INTEGER, "whole": Kind.INTEGER, "long": Kind.INTEGER, "amount": Kind.REAL, "single": Kind.REAL,
    "double": Kind.REAL, "flag": Kind.BOOLEAN, "name": Kind.TEXT, "code": Kind.TEXT, "day": Kind.DATE,
    "noted": Kind.TIMESTAMP, "moment": Kind.TIMESTAMP,
}  # fmt: skip


def declared(engine: str) -> str:
    """The columns, as this engine writes them."""
    return ", ".join(f"{name} {types[ENGINES.index(engine)]}" for name, types in TYPES.items())


def unmarked(name: str, engine: Engine) -> dict[str, object]:
    """What is read otherwise than it should be."""
    expected = SHOWN | {"points": MARKERS["decimal(p, 0)"].of(name)}
    found = {column: each.kind for column, each in engine.describe_columns().items()}
    return {column: found.get(column) for column in TYPES if found.get(column) != expected.get(column)}
