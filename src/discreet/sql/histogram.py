"""Rows per cell of a histogram or of a tree's leaves, as one engine statement: (count, cell, keys).

kept      rows of real units that pass WHERE, their keys and their cell
cells     one row per (unit, group, cell): how many rows
ranked    the place of the group among the unit's groups, in the same order as everywhere; and how many of the unit's
          rows in the group stand in cells up to this one, in the order of a hash of unit, group and cell
result    per group and cell: over units, the rows that fit below the cap
"""

from collections.abc import Sequence

from sqlglot import exp

from discreet.query.contribution import BoundedQuery
from discreet.query.statistics import CellCounts
from discreet.sql.dialects import Dialect
from discreet.sql.expressions import SQL, Lowering, alias, column, greatest, int_literal, least, saturate
from discreet.sql.rows import (
    UNIT,
    filter_keys,
    filters_keys_late,
    hash_order,
    key_names,
    needs_rank,
    repartition_by_unit,
    select_rows,
    step_names,
)

CELL, RANK, ROWS, RUNNING = "cell", "rank", "rows", "running"


def lower_cell_counts(bounded: BoundedQuery, counts: CellCounts, source: exp.Expr, dialect: Dialect) -> exp.Select:
    """The statement for one spread of `bounded` over `source`."""
    kept, cells, ranked = step_names(bounded, "kept", "cells", "ranked")
    keys = [column(name) for name in key_names(bounded)]
    write = Lowering(bounded.table, dialect)
    rows = select_rows(bounded, source, write, {CELL: write.lower_value(counts.cell)})
    known = exp.Not(this=exp.Is(this=column(CELL), expression=exp.Null()))
    if bounded.table.unique:
        result = exp.select(_total(dialect, int_literal(1), 1), column(CELL), *keys).from_(kept, copy=False)
        result = (
            result.where(known, copy=False)
            .group_by(column(CELL), *_copies(keys), copy=False)
            .with_(kept, as_=rows, copy=False)
        )
        return filter_keys(bounded, result) if filters_keys_late(bounded) else result
    columns: list[SQL] = [column(UNIT), *_copies(keys), column(CELL)]
    rows = repartition_by_unit(rows) if dialect.repartitions else rows
    counted = exp.select(*columns, alias(exp.Count(this=exp.Star()), ROWS)).from_(kept, copy=False)
    before = exp.Paren(this=exp.Sub(this=column(RUNNING), expression=column(ROWS)))
    room = greatest(exp.Sub(this=int_literal(bounded.max_rows), expression=before), int_literal(0))
    result = (
        exp.select(_total(dialect, least(column(ROWS), room), bounded.max_rows), column(CELL), *keys)
        .from_(ranked, copy=False)
        .where(known, copy=False)
    )
    if needs_rank(bounded):
        result = result.where(exp.LTE(this=column(RANK), expression=int_literal(bounded.max_groups)), copy=False)
    result = result.group_by(column(CELL), *_copies(keys), copy=False).with_(kept, as_=rows, copy=False)
    result = result.with_(cells, as_=counted.group_by(*_copies(columns), copy=False), copy=False)
    return result.with_(ranked, as_=_rank_cells(bounded, dialect).from_(cells, copy=False), copy=False)


def _rank_cells(bounded: BoundedQuery, dialect: Dialect) -> exp.Select:
    keys = key_names(bounded)
    missing = exp.If(this=exp.Is(this=column(CELL), expression=exp.Null()), true=int_literal(0))
    frame = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    running = exp.Window(
        this=exp.Sum(this=exp.Case(ifs=[missing], default=column(ROWS))),
        partition_by=[column(UNIT), *(column(key) for key in keys)],
        order=hash_order(bounded, dialect, *keys, CELL),
        spec=frame,
    )
    rank = exp.Window(this=exp.DenseRank(), partition_by=[column(UNIT)], order=hash_order(bounded, dialect, *keys))
    places = [alias(rank, RANK)] if needs_rank(bounded) else []
    return exp.select(exp.Star(), alias(running, RUNNING), *places)


def _total(dialect: Dialect, share: SQL, most: int) -> SQL:
    return alias(saturate(dialect.add(share, most), dialect), "total0")


def _copies(columns: Sequence[SQL]) -> list[SQL]:
    return [each.copy() for each in columns]
