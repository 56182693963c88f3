"""Which column a name means, in a table and the public ones that it is joined to."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.schema import Column, Kind, PublicTable, Table
from discreet.query.validate import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Scope:
    """A table and its joins. The column by which two tables are joined, if it has one name, is the first one's."""

    base: Table
    joins: tuple[ast.Join, ...] = ()

    @property
    def table(self) -> Table:
        """With the columns that were joined to it."""
        return apply_joins(self.joins, self.base)

    def with_join(self, join: ast.Join) -> "Scope":
        """One join more, refused if it could match a row twice."""
        apply_joins((*self.joins, join), self.base)
        return replace(self, joins=(*self.joins, join))

    def find(self, name: str, prefix: str | None = None, *, exact: bool = True) -> list[str]:
        """The columns that a name may mean: one if all is well. As it is written, or else in any case of letters."""
        named = [(bare, full) for owner, bare, full in self._names() if prefix is None or owner.lower() == prefix.lower()]
        if prefix is None:
            merged = {f"{join.table}.{join.there}" for join in self.joins if join.here == join.there}
            named = [(bare, full) for bare, full in named if full not in merged]
        found = [full for bare, full in named if bare == name]
        return found if found or exact else [full for bare, full in named if bare.lower() == name.lower()]

    def _names(self) -> list[tuple[str, str, str]]:
        names = [(self.base.name, column, column) for column in self.base.columns]
        for join in self.joins:
            names += [(join.table, column, f"{join.table}.{column}") for column in self.base.public[join.table].columns]
        return names


# What a table holds after it was joined to public ones.
#
# Why a join costs nothing: a lookup table is the same on neighbouring tables, and no value occurs twice in the column that
# it is joined by. So the join is a function of one row that yields that row with more columns, or nothing. The rows of a
# unit stay its own, nobody gets more of them, a unit with one row still has at most one; whatever bounds a unit's
# contribution before the join bounds it afterwards. A join that could match two rows would void all of that, and is refused.


def apply_joins(joins: Iterable[ast.Join], table: Table) -> Table:
    """The table as conditions, keys and values see it: the columns of a lookup table are called "lookup.column".

    >>> from discreet.query.schema import Column, Kind, PublicTable
    >>> city, region = Column(Kind.TEXT), Column(Kind.TEXT, keys=("north", "south"))
    >>> cities = PublicTable("cities", {"city": city, "region": region}, frozenset({"city"}))
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "city": city}, public={"cities": cities})
    >>> list(apply_joins([ast.Join("cities", "city", "city")], people).columns)
    ['id', 'city', 'cities.city', 'cities.region']
    """
    seen: set[str] = set()
    for join in joins:
        if join.table in seen:
            raise QueryRefused(f"{join.table} is joined twice", "join each public table once")
        seen.add(join.table)
        table = _apply_join(join, table)
    return table


def _apply_join(join: ast.Join, table: Table) -> Table:
    lookup = table.public.get(join.table)
    if lookup is None:
        known = ", ".join(table.public) or "none is declared: connect(…, public={…})"
        raise QueryRefused(f"{join.table} is not a public table", f"join to one of these: {known}")
    _check_matches_once(join, table, lookup)
    more = {f"{lookup.name}.{name}": _add_null_key(column, join) for name, column in lookup.columns.items()}
    for name in more:
        if name in table.columns:
            raise QueryRefused(f"there are two columns called {name}", f"rename the public table {lookup.name}")
    return replace(table, columns={**table.columns, **more})


def _check_matches_once(join: ast.Join, table: Table, public: PublicTable) -> None:
    here, there = table.columns.get(join.here), public.columns.get(join.there)
    if here is None:
        raise QueryRefused(f"{join.here} is not declared", f"take one of {', '.join(table.columns)}")
    if there is None:
        raise QueryRefused(f"{public.name} has no column {join.there}", f"take one of {', '.join(public.columns)}")
    if here.kind is not there.kind or here.kind is Kind.REAL:
        raise QueryRefused(
            f"{join.here} ({here.kind.value}) cannot be matched with {public.name}.{join.there} ({there.kind.value})",
            "join columns of one kind that are not reals",
        )
    if join.there not in public.unique:
        raise QueryRefused(
            f"some value occurs twice in {public.name}.{join.there}, so one row could become two",
            "join by a column whose values are unique in the public table",
        )


def _add_null_key(column: Column, join: ast.Join) -> Column:
    """A row that a left join leaves alone has nothing there, which is one more key."""
    if not join.left or column.keys is None or None in column.keys:
        return column
    return replace(column, keys=(*column.keys, None))


# The same piece of a question with every column under its full name.


Piece = TypeVar("Piece")


def resolve_columns(piece: Piece, scope: Scope, room: int = MAX_DEPTH) -> Piece:
    """`piece` with each Ref replaced by the column that its name means."""
    if room == 0:
        raise QueryRefused("this is nested too deeply", "ask something simpler")
    renamed: Any = piece
    if isinstance(piece, ast.Ref):
        renamed = ast.Ref(_resolve_name(piece.column, scope))
    elif isinstance(piece, tuple):
        renamed = tuple(resolve_columns(part, scope, room) for part in piece)
    elif is_dataclass(piece) and not isinstance(piece, type):
        renamed = replace(piece, **{f.name: resolve_columns(getattr(piece, f.name), scope, room - 1) for f in fields(piece)})
    return renamed  # type: ignore[no-any-return]


def _resolve_name(name: str, scope: Scope) -> str:
    prefix, _, rest = name.partition(".")
    found = scope.find(name) or (scope.find(rest, prefix) if rest else [])
    if len(found) == 1:
        return found[0]
    if not found:
        raise QueryRefused(f"{name} is not declared", f"take one of {', '.join(scope.table.columns)}")
    raise QueryRefused(f"two columns are called {name}", f"write one of {', '.join(found)}")
