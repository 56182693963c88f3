"""What differs between engines, as data."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

Divide = Callable[[exp.Expr, exp.Expr], exp.Expr]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's ways."""

    name: str
    is_nan: Callable[[exp.Expr], exp.Expr]
    divide: Divide  # integer division that truncates towards zero
    wide: str  # the type of sums of 64-bit integers


DUCKDB = Dialect(
    "duckdb",
    is_nan=lambda x: exp.func("isnan", x, dialect="duckdb"),
    divide=lambda a, b: exp.IntDiv(this=a, expression=b),
    wide="HUGEINT",
)
