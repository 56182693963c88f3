"""A question in parts, for an engine that has too little memory for the whole.

A part has some of the units, each with all its rows, and every unit is in one part alone. So a unit's share is bounded in
its part just as it would be in the whole, and totals over all units are the sums of those over the parts. They are cut off
at 64 bits once, in the end: how many parts there were depends on the data, and must make no difference to any total.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from discreet.engines.base import OutOfResources
from discreet.sql.expressions import SATURATION_LIMIT, column, int_literal, shorten_name

COUNTS = (8, 64, 512)
"""Into how many parts a question is split, if the attempt before ran out of memory."""


class OutOfMemory(OutOfResources):
    """An engine had too little memory for a statement."""


@dataclass(frozen=True, slots=True)
class Part:
    """The units whose hash leaves `index` when divided by `count`."""

    index: int
    count: int

    def restrict(self, source: exp.Expr, unit: str) -> exp.Expr:
        """The rows of these units alone. A unit is no real number and has no collation: equal units have equal hashes."""
        if self == WHOLE:
            return source
        hashed = exp.Anonymous(this="hash", expressions=[column(shorten_name(unit))])
        left = exp.Mod(this=hashed, expression=int_literal(self.count))
        mine = exp.EQ(this=left, expression=int_literal(self.index))
        return exp.select("*").from_(source).where(mine, copy=False).subquery()


WHOLE = Part(0, 1)


def sum_over_parts(run: Callable[[Part], Iterable[tuple[Any, ...]]], width: int) -> Iterator[tuple[Any, ...]]:
    """Rows of `width` totals and what they are totals of, added up over parts that are small enough."""
    for count in COUNTS:
        try:
            sums = _add_rows((row for index in range(count) for row in run(Part(index, count))), width)
        except OutOfMemory:
            continue
        return (
            (*(max(-SATURATION_LIMIT, min(total, SATURATION_LIMIT)) for total in totals), *rest)
            for rest, totals in sums.items()
        )
    raise OutOfResources


def _add_rows(rows: Iterable[tuple[Any, ...]], width: int) -> dict[tuple[Any, ...], tuple[int, ...]]:
    sums: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in rows:
        totals, rest = row[:width], row[width:]
        before = sums.get(rest)
        sums[rest] = totals if before is None else tuple(map(int.__add__, before, totals))
    return sums
