"""What a tabulation is asked for: its tables, as Python or as SQL with GROUPING SETS, CUBE or ROLLUP."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sqlglot

from discreet._numbers import Number, read_positive
from discreet.errors import BadParameter, DiscreetError, Problems, QueryRefused
from discreet.query.ast import Query, quote_name
from discreet.query.builder import Select
from discreet.query.cells import BoundedCells, bound_cells
from discreet.query.parser import QueryLike, read_query
from discreet.query.schema import Table
from discreet.session.session import Session
from discreet.tabulation.margins import Margin
from discreet.units import Neighbours

TABLE_COLUMNS = frozenset(("estimate", "sd", "lower", "upper", "reliable", "display"))
"""The columns that every table has beside those that it is by."""

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
    problems: list[DiscreetError] = []
    wanted = _list_tables(tables, problems)
    names = list(dict.fromkeys(name for table in wanted for name in table.by))
    computed = _check_computed(columns, names, session.table, problems)
    wrong = {name: _find_name_problem(name, computed, session.table) for name in names}
    problems += [*filter(None, wrong.values())]
    if problems:
        sound = [name for name in names if wrong[name] is None and _is_expression(computed.get(name, name))]
        Problems(
            [*problems, *list_column_problems(sound, computed, where, weight, session.table, session.neighbours)]
        ).raise_all()
    try:
        bounded = _bound(names, computed, where, weight, session.table, session.neighbours)
    except (QueryRefused, BadParameter) as refused:
        found = list_column_problems(names, computed, where, weight, session.table, session.neighbours)
        Problems(found or [refused]).raise_all()
        raise
    return WantedTables(wanted, tuple(tuple(sorted(map(names.index, table.by))) for table in wanted), bounded)


def _bound(
    names: Sequence[str], computed: Mapping[str, str], where: str | None, weight: str | None, table: Table,
    neighbours: Neighbours,
) -> BoundedCells:  # fmt: skip
    query = read_query(write_cells_sql(names, computed, where, weight, table), table)
    return bound_cells(query, table, neighbours)


def list_column_problems(
    names: Sequence[str], computed: Mapping[str, str], where: str | None, weight: str | None, table: Table,
    neighbours: Neighbours,
) -> list[DiscreetError]:  # fmt: skip
    """What is wrong with each column, with the condition and with the weight, looked at one by one."""
    parts: list[tuple[str, str, list[str], str | None, str | None]] = [
        ("columns" if name in computed else "", f"{name!r}: {computed.get(name)!r}", [name], None, None) for name in names
    ]
    parts += [("where", repr(where), [], where, None)] if where is not None else []
    parts += [("weight", repr(weight), [], None, weight)] if weight is not None else []
    found: list[DiscreetError] = []
    for parameter, text, by, condition, added in parts:
        try:
            _bound(by, computed, condition, added, table, neighbours)
        except QueryRefused as refused:
            is_placed = bool(parameter) and refused.line is not None  # a place in a text that the user did not write
            found.append(BadParameter(parameter, text, refused.reason, refused.hint) if is_placed else refused)
        except BadParameter as refused:
            found.append(refused)
    return found


def _check_computed(
    columns: Mapping[str, str] | None, names: Sequence[str], table: Table, problems: list[DiscreetError]
) -> Mapping[str, str]:
    if columns is not None and not isinstance(columns, Mapping):
        given = f"of type {type(columns).__name__}"
        problems.append(BadParameter("columns", given, "not columns by name", 'give columns={"decade": "age // 10"}'))
    if not isinstance(columns, Mapping):
        return {}
    for name, text in columns.items():
        if not _is_expression(text):
            reason, hint = "not an expression in SQL", 'write columns={"decade": "age // 10"}'
            problems.append(BadParameter("columns", f"{name!r}: {text!r}", reason, hint))
        elif name not in names:
            problems.append(BadParameter("columns", repr(name), "no table is by it", "leave it out, or add it to a table"))
        elif name in table.columns:
            reason = "the source has a column of this name, which would be hidden"
            problems.append(BadParameter("columns", repr(name), reason, "name the computed column otherwise"))
    return columns


def _is_expression(text: object) -> bool:
    try:
        return isinstance(text, str) and sqlglot.parse_one(text, read="duckdb") is not None
    except (sqlglot.errors.SqlglotError, RecursionError):
        return False


def _find_name_problem(name: str, computed: Mapping[str, str], table: Table) -> DiscreetError | None:
    if name.lower() in TABLE_COLUMNS:
        hint = f'define it with columns={{"{name}_of_rows": "{name}"}}, and take that'
        return BadParameter("by", repr(name), "every table has a column of this name of its own", hint)
    if name not in computed and name not in table.columns:
        return QueryRefused(f"There is no column `{name}`", "take a column of the table, or define it with columns=")
    return None


def _read_sql(query: QueryLike, session: Session) -> WantedTables:
    bounded = bound_cells(read_query(query, session.table), session.table, session.neighbours)
    names = [group.name for group in bounded.query.groups]
    wanted = tuple(WantedTable(tuple(names[i] for i in margin)) for margin in bounded.margins)
    return WantedTables(wanted, bounded.margins, bounded)


def _list_tables(
    tables: Iterable[TableLike] | Mapping[str, TableLike], problems: list[DiscreetError]
) -> tuple[WantedTable, ...]:
    if not isinstance(tables, Iterable):
        given = f"of type {type(tables).__name__}"
        raise BadParameter("tables", given, "not a list of tables", 'give tables=[("sex", "age"), "region"]')
    named = isinstance(tables, Mapping)
    pairs = tables.items() if isinstance(tables, Mapping) else (("", table) for table in tables)
    found: list[WantedTable] = []
    for name, table in pairs:
        try:
            one = _read_table(table)
            found.append(WantedTable(one.by, name, one.weight, one.error) if named else one)
        except BadParameter as wrong:
            problems.append(wrong)
    if not found and not problems:
        raise BadParameter("tables", "empty", "no table is wanted", 'give tables=[("sex", "age"), "region"]')
    problems += list_table_problems(found)
    return tuple(found)


def list_table_problems(tables: Sequence[WantedTable]) -> list[DiscreetError]:
    """What is wrong with tables together: names that are the same, also where case is ignored; errors of some alone."""
    problems: list[DiscreetError] = []
    for i, table in enumerate(tables):
        same = next((each.name for each in tables[:i] if each.name.lower() == table.name.lower()), None)
        if same is not None:
            reason = "two tables have this name" if same == table.name else f"on some disks it is the same as {same!r}"
            problems.append(
                BadParameter("tables", repr(table.name), reason, "name one of them otherwise, or leave it out")
            )  # fmt: skip
    errors = sum(table.error is not None for table in tables)
    if 0 < errors < len(tables):
        given, reason = f"{errors} of {len(tables)} with an error", "noise is divided by errors or by weights, not by both"
        problems.append(BadParameter("tables", given, reason, "give every table an error, or none"))
    return problems


def _read_table(table: TableLike) -> WantedTable:
    if isinstance(table, WantedTable):
        return table
    if isinstance(table, str):
        return WantedTable((table,))
    if not isinstance(table, list | tuple):
        raise BadParameter(
            "tables", repr(table), "not the columns of a table", 'give tables=[("sex", "age"), "region"]'
        )  # fmt: skip
    return WantedTable(tuple(table))


def write_cells_sql(
    names: Sequence[str], columns: Mapping[str, str], where: str | None, weight: str | None, table: Table
) -> str:
    """The query for the cells. It is parsed as an analyst's: what is not allowed there is refused."""
    computed = {name: f"({columns[name]})" if name in columns else quote_name(name) for name in names}
    items = [f"{text} AS {quote_name(name)}" for name, text in computed.items()]
    items.append("COUNT(*) AS n" if weight is None else f"SUM({weight}) AS n")
    condition = "" if where is None else f" WHERE {where}"
    groups = f" GROUP BY {', '.join(computed.values())}" if computed else ""
    return f"SELECT {', '.join(items)} FROM {quote_name(table.name)}{condition}{groups}"
