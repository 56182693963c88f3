"""Statements that count the reports of a local collection: integers of counts, and how many reports are rejected, by kind.

A report is a row of integer columns, each with the number that it stays below. One expression classifies a row: 0 if it is a
valid report, else a negative number, the first of `REJECTIONS` that applies. It fails on no row: a column that may be a real
is converted only where it was found to be a whole number in range.

The same report sent twice has the same nonce. Of the valid reports with one nonce the least counts, by its columns, and the
others are duplicates: every engine chooses the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp

from discreet.sql.dialects import SQL, Dialect, alias, bigint_literal, cast, column, int_literal, key_literal, source_column

REJECTIONS = ("collection", "version", "length", "range", "duplicate")
"""Why a report is rejected: it is of another collection or of another version, lacks a part, has a part out of range, or was
counted already. Kind i is classified as −1 − i."""

MAX_SUMS = 512
"""Sums in one statement: PostgreSQL returns at most 1664 columns."""


@dataclass(frozen=True, slots=True)
class ReportColumns:
    """The columns of a table of reports."""

    below: Mapping[str, int]  # the columns of a report, each with the number that it stays below
    reals: frozenset[str] = frozenset()  # those of them that the engine stores as reals
    ascending: bool = False  # whether a report's columns must ascend
    required: Mapping[str, str | int] = field(default_factory=dict)  # what `collection` and `version` must be
    nonce: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a report, in order."""
        return tuple(self.below)


def count_cells(reports: ReportColumns, source: SQL, dialect: Dialect) -> exp.Select:
    """Count the rows of each cell, (cell, rows): the cell is the number whose digits are the report's columns, or a kind of
    rejection."""
    cell: SQL | None = None
    for name, below in reports.below.items():
        digit: SQL = column(name, "checked")
        cell = digit if cell is None else exp.Add(
            this=exp.Paren(this=exp.Mul(this=exp.Paren(this=cell), expression=bigint_literal(below))), expression=digit
        )  # fmt: skip
    assert cell is not None
    return _count_by(cell, reports, source, dialect)


def count_column(name: str, reports: ReportColumns, source: SQL, dialect: Dialect) -> exp.Select:
    """Count the rows of each value of one column, or kind of rejection: (value, rows)."""
    return _count_by(column(name, "checked"), reports, source, dialect)


def count_clean(reports: ReportColumns, source: SQL) -> exp.Select:
    """Count valid rows by the columns of a report, (*columns, rows), without looking at nonces. Rejected rows are left out,
    so the result is complete if it adds up to all rows. Columns are grouped as they are, which engines do fastest."""
    keys: list[SQL] = [source_column(name) for name in reports.names]
    return (
        exp.select(*keys, exp.Count(this=exp.Star()))
        .from_(source)
        .where(_is_valid(reports))
        .group_by(*(key.copy() for key in keys))
    )


def select_columns(names: Sequence[str], source: SQL) -> exp.Select:
    """Return the rows themselves: for reports that have to be read one by one."""
    return exp.select(*(source_column(name) for name in names)).from_(source)


def count_rejected(reports: ReportColumns, source: SQL, dialect: Dialect) -> exp.Select:
    """Count the rows of each kind of rejection, (kind, rows), without looking at nonces."""
    kinds = exp.select(alias(_classify(reports, dialect), "kind")).from_(source).subquery("classified")
    kind = column("kind", "classified")
    bad = exp.LT(this=kind, expression=int_literal(0))
    return exp.select(kind, exp.Count(this=exp.Star())).from_(kinds).where(bad).group_by(kind.copy())


def count_rows(source: SQL) -> exp.Select:
    """Count all rows."""
    return exp.select(exp.Count(this=exp.Star())).from_(source)


def sum_bits(
    first: int,
    bits: Sequence[tuple[str, int]],
    reports: ReportColumns,
    source: SQL,
    dialect: Dialect,
    by: str | None = None,
) -> exp.Select:
    """Sum bits of words, (kind, rows, *sums) per kind of rejection: `bits` says of which column and which of its bits. With
    `by`, per kind and value of that column: (kind, value, rows, *sums)."""
    sums: list[SQL] = []
    for place, (name, bit) in enumerate(bits):
        word: SQL = column(name, "checked")
        shifted = exp.BitwiseRightShift(this=word, expression=int_literal(bit)) if bit else word
        one = exp.BitwiseAnd(this=exp.Paren(this=shifted), expression=bigint_literal(1))
        sums.append(alias(exp.Sum(this=one), f"sum{first + place}"))
    keys = [column(name, "checked") for name in ("kind", by) if name is not None]
    select = exp.select(*keys, exp.Count(this=exp.Star()), *sums).from_(_check(reports, source, dialect))
    return select.group_by(*(key.copy() for key in keys))


def _count_by(cell: SQL, reports: ReportColumns, source: SQL, dialect: Dialect) -> exp.Select:
    kind = column("kind", "checked")
    known = exp.Case(ifs=[exp.If(this=exp.LT(this=kind, expression=int_literal(0)), true=kind.copy())], default=cell)
    cells = exp.select(alias(known, "cell")).from_(_check(reports, source, dialect)).subquery("cells")
    return exp.select(column("cell", "cells"), exp.Count(this=exp.Star())).from_(cells).group_by(column("cell", "cells"))


def _check(reports: ReportColumns, source: SQL, dialect: Dialect) -> SQL:
    """The rows with their kind, and the columns of a report as 64-bit integers: 0 in rows that are rejected."""
    kind = _classify(reports, dialect)
    nonce = [alias(source_column("nonce"), "nonce")] if reports.nonce else []
    columns = [alias(source_column(name), name) for name in reports.names]
    classified = exp.select(alias(kind, "kind"), *columns, *nonce).from_(source).subquery("classified")
    inner = column("kind", "classified")
    valid = exp.EQ(this=inner, expression=int_literal(0))
    whole = [
        alias(
            exp.Case(
                ifs=[exp.If(this=valid.copy(), true=cast(column(name, "classified"), exp.DType.BIGINT))],
                default=bigint_literal(0),
            ),
            name,
        )
        for name in reports.names
    ]
    if not reports.nonce:
        return exp.select(inner, *whole).from_(classified).subquery("checked")
    order = exp.Order(expressions=[exp.Ordered(this=column(name, "classified"), desc=False) for name in reports.names])
    copy = exp.Window(
        this=exp.Anonymous(this="ROW_NUMBER"),
        partition_by=[inner.copy(), column("nonce", "classified")],
        order=order,
    )
    numbered = exp.select(inner, *whole, alias(copy, "copy")).from_(classified).subquery("numbered")
    again = exp.And(
        this=exp.EQ(this=column("kind", "numbered"), expression=int_literal(0)),
        expression=exp.GT(this=column("copy", "numbered"), expression=int_literal(1)),
    )
    final = exp.Case(ifs=[exp.If(this=again, true=_kind("duplicate"))], default=column("kind", "numbered"))
    own = [column(name, "numbered") for name in reports.names]
    return exp.select(alias(final, "kind"), *own).from_(numbered).subquery("checked")


def _classify(reports: ReportColumns, dialect: Dialect) -> SQL:
    """The kind of a row, but for duplicates."""
    ifs = []
    for name, wanted in reports.required.items():
        given = source_column(name)
        other = exp.NEQ(this=given, expression=key_literal(wanted))
        ifs.append(exp.If(this=exp.or_(_is_null(given), other, copy=False), true=_kind(name)))
    missing = [_is_null(source_column(name)) for name in reports.names]
    missing += [dialect.is_nan(source_column(name)) for name in reports.names if name in reports.reals]
    missing += [_is_null(source_column("nonce"))] if reports.nonce else []
    ifs.append(exp.If(this=exp.or_(*missing, copy=False), true=_kind("length")))
    ifs.append(exp.If(this=exp.Not(this=exp.Paren(this=_is_in_range(reports))), true=_kind("range")))
    return exp.Case(ifs=ifs, default=int_literal(0))


def _is_valid(reports: ReportColumns) -> SQL:
    """Whether a row is a valid report; unknown where a part of it is missing."""
    required = [
        exp.EQ(this=source_column(name), expression=key_literal(wanted)) for name, wanted in reports.required.items()
    ]
    return exp.and_(*required, _is_in_range(reports), copy=False)


def _is_in_range(reports: ReportColumns) -> SQL:
    tests: list[SQL] = []
    for name, below in reports.below.items():
        given = source_column(name)
        tests.append(exp.GTE(this=given, expression=int_literal(0)))
        tests.append(exp.LT(this=given.copy(), expression=bigint_literal(below)))
        if name in reports.reals:
            tests.append(exp.EQ(this=given.copy(), expression=exp.Floor(this=given.copy())))
    if reports.ascending:
        names = reports.names
        tests += [exp.LT(this=source_column(one), expression=source_column(two)) for one, two in pairwise(names)]
    return exp.and_(*tests, copy=False)


def _is_null(value: SQL) -> SQL:
    return exp.Is(this=value, expression=exp.Null())


def _kind(name: str) -> SQL:
    return int_literal(-1 - REJECTIONS.index(name))
