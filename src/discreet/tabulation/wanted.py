"""What a tabulation is asked for: its tables, as Python or as SQL with GROUPING SETS, CUBE or ROLLUP."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from discreet._numbers import Number, read_positive
from discreet.errors import BadParameter, QueryRefused
from discreet.query.ast import Query, quote_name
from discreet.query.builder import Select
from discreet.query.cells import BoundedCells, bound_cells
from discreet.query.parser import QueryLike, read_query
from discreet.query.schema import Table
from discreet.session.session import Session
from discreet.tabulation.margins import Margin

TOTAL = "total"
"""The name of the table of one cell, if it has no other."""


@dataclass(frozen=True, slots=True)
class WantedTable:
    """A table by some columns: none for the total.

    Cells of a table that weighs 2 count twice as much as those of one that weighs 1, when the noise is divided. `error` is
    the half-width that the interval of each cell may have.
    """

    by: tuple[str, ...]
    name: str = ""
    weight: Number = 1
    error: Number | None = None

    def __post_init__(self) -> None:
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by) if isinstance(self.by, list | tuple) else (None,)
        if not all(isinstance(name, str) and name for name in by) or len(set(by)) < len(by):
            raise BadParameter("by", repr(self.by), "not a list of different columns", 'give by=("sex", "age")')
        object.__setattr__(self, "weight", read_positive(self.weight, "weight"))
        if self.error is not None:
            object.__setattr__(self, "error", read_positive(self.error, "error"))
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "name", self.name or "_".join(by) or TOTAL)


TableLike: TypeAlias = WantedTable | str | Sequence[str]
TablesLike: TypeAlias = QueryLike | Iterable[TableLike] | Mapping[str, TableLike]


@dataclass(frozen=True, slots=True)
class WantedTables:
    """The tables of a tabulation, with their margins, over cells whose contributions are bounded once."""

    tables: tuple[WantedTable, ...]
    margins: tuple[Margin, ...]  # of each table: column numbers of the cells
    bounded: BoundedCells

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the cells."""
        return tuple(group.name for group in self.bounded.query.groups)


def read_wanted(
    session: Session,
    tables: TablesLike,
    *,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
) -> WantedTables:
    """Return what is asked for. Refuse tables that cannot be made, before anything is charged.

    `tables` is a query with GROUPING SETS, CUBE or ROLLUP; or a list of columns or lists of columns; or these by the name
    of their tables. `columns` are columns that are computed, as SQL: {"decade": "age // 10"}. `where` is a condition in
    SQL, and `weight` a column whose values are added up in place of a count of rows.
    """
    if isinstance(tables, str | Query | Select):
        if columns or where or weight:
            given = "columns" if columns else "where" if where else "weight"
            raise BadParameter(
                given, "given", "the query says it itself", "write it into the query, or give a list of tables"
            )
        return _read_sql(tables, session)
    wanted = _list_tables(tables)
    names = list(dict.fromkeys(name for table in wanted for name in table.by))
    query = read_query(write_cells_sql(names, columns or {}, where, weight, session.table), session.table)
    bounded = bound_cells(query, session.table, session.neighbours)
    return WantedTables(wanted, tuple(tuple(sorted(map(names.index, table.by))) for table in wanted), bounded)


def _read_sql(query: QueryLike, session: Session) -> WantedTables:
    bounded = bound_cells(read_query(query, session.table), session.table, session.neighbours)
    names = [group.name for group in bounded.query.groups]
    wanted = tuple(WantedTable(tuple(names[i] for i in margin)) for margin in bounded.margins)
    return WantedTables(wanted, bounded.margins, bounded)


def _list_tables(tables: Iterable[TableLike] | Mapping[str, TableLike]) -> tuple[WantedTable, ...]:
    named = isinstance(tables, Mapping)
    pairs = tables.items() if isinstance(tables, Mapping) else (("", table) for table in tables)
    found: list[WantedTable] = []
    for name, table in pairs:
        one = table if isinstance(table, WantedTable) else WantedTable((table,) if isinstance(table, str) else tuple(table))
        found.append(WantedTable(one.by, name, one.weight, one.error) if named else one)
    if not found:
        raise BadParameter("tables", "empty", "no table is wanted", 'give tables=[("sex", "age"), "region"]')
    twice = [table.name for i, table in enumerate(found) if table.name in {each.name for each in found[:i]}]
    if twice:
        raise BadParameter(
            "tables", repr(twice[0]), "two tables have this name", "name one of them otherwise, or leave it out"
        )
    errors = sum(table.error is not None for table in found)
    if 0 < errors < len(found):
        raise BadParameter(
            "tables", f"{errors} of {len(found)} with an error", "noise is divided by errors or by weights, not by both",
            "give every table an error, or none",
        )  # fmt: skip
    return tuple(found)


def write_cells_sql(
    names: Sequence[str], columns: Mapping[str, str], where: str | None, weight: str | None, table: Table
) -> str:
    """The query for the cells. It is parsed as an analyst's: what is not allowed there is refused."""
    unknown = [name for name in names if name not in columns and name not in table.columns]
    if unknown:
        raise QueryRefused(f"There is no column `{unknown[0]}`", "take a column of the table, or define it with columns=")
    computed = {name: f"({columns[name]})" if name in columns else quote_name(name) for name in names}
    items = [f"{text} AS {quote_name(name)}" for name, text in computed.items()]
    items.append("COUNT(*) AS n" if weight is None else f"SUM({weight}) AS n")
    condition = "" if where is None else f" WHERE {where}"
    groups = f" GROUP BY {', '.join(computed.values())}" if computed else ""
    return f"SELECT {', '.join(items)} FROM {quote_name(table.name)}{condition}{groups}"
