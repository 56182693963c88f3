"""Rows per cell of a histogram, or of the leaves of a quantile tree, as one engine statement: (count, cell, keys).

    kept      the rows of real units that pass WHERE, with their keys and their cell
    cells     one row per (unit, group, cell): how many rows
    ranked    the place of the group among the unit's groups, in the same order as for totals; and how many of the unit's
              rows in the group stand in cells up to this one, in the order of a hash of unit, group and cell
    result    per group and cell: over units, the rows that fit below the cap

Where the metadata proves that a unit has one row, `cells` and `ranked` are left out.
"""

from sqlglot import exp

from discreet.query.contribution import BoundedQuery
from discreet.query.statistics import CellCounts
from discreet.sql.dialects import SQL, Dialect, alias, column, greatest, int_literal, least, saturate
from discreet.sql.totals import RANK, ROWS, RUNNING, UNIT, Statement

CELL = "cell"


def lower_cell_counts(
    bounded: BoundedQuery, counts: CellCounts, source: exp.Expr, unit: str | None, dialect: Dialect
) -> exp.Select:
    """The statement for one histogram of `bounded` over `source`, whose column `unit` identifies a unit; None where each row
    is one."""
    statement = Statement(bounded, source, unit, dialect)
    kept = statement.select_rows({CELL: statement.lowering.lower_value(counts.cell)})
    at_kept, at_cells, at_ranked = (statement.steps[name] for name in ("kept", "cells", "ranked"))
    unique = bounded.table.unique
    contribution, most = (int_literal(1), 1) if unique else (_cap_rows(bounded.max_rows), bounded.max_rows)
    total = alias(saturate(dialect.add(contribution, most), dialect), "total0")
    result = exp.select(total, column(CELL), *statement.keys, copy=False).from_(at_kept if unique else at_ranked, copy=False)
    result = result.where(exp.Not(this=exp.Is(this=column(CELL), expression=exp.Null())), copy=False)
    if not unique and statement.ranks:
        result = result.where(exp.LTE(this=column(RANK), expression=int_literal(bounded.max_groups)), copy=False)
    result = result.group_by(column(CELL), *statement.keys, copy=False)
    if unique:
        result = result.with_(at_kept, as_=kept, copy=False)
        return statement.filter_keys(result) if statement.filters_late else result
    place = [column(UNIT), *statement.keys, column(CELL)]
    cells = exp.select(*place, alias(exp.Count(this=exp.Star()), ROWS), copy=False).from_(at_kept, copy=False)
    cells = cells.group_by(*(each.copy() for each in place), copy=False)
    result = result.with_(at_kept, as_=statement.repartition(kept), copy=False).with_(at_cells, as_=cells, copy=False)
    return result.with_(at_ranked, as_=_rank_cells(statement).from_(at_cells, copy=False), copy=False)


def _cap_rows(max_rows: int) -> SQL:
    """How many of a unit's rows in a cell still fit: cells earlier in the order take their room first."""
    before = exp.Paren(this=exp.Sub(this=column(RUNNING), expression=column(ROWS)))
    room = greatest(exp.Sub(this=int_literal(max_rows), expression=before), int_literal(0))
    return least(column(ROWS), room)


def _rank_cells(statement: Statement) -> exp.Select:
    missing = exp.If(this=exp.Is(this=column(CELL), expression=exp.Null()), true=int_literal(0))
    running = statement.count_up_to(exp.Case(ifs=[missing], default=column(ROWS)), CELL)
    ranks = [alias(statement.rank_groups(exp.DenseRank()), RANK)] if statement.ranks else []
    return exp.select(exp.Star(), alias(running, RUNNING), *ranks, copy=False)
