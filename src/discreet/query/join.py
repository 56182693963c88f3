"""What a table holds after it was joined to public ones.

Why a join costs nothing: a lookup table is the same on neighbouring tables, and no value occurs twice in the column that
it is joined by. So the join is a function of one row that yields that row with more columns, or nothing. The rows of a
unit stay its own, nobody gets more of them, a unit with one row still has at most one; whatever bounds a unit's
contribution before the join bounds it afterwards. A join that could match two rows would void all of that, and is refused.
"""

from collections.abc import Iterable
from dataclasses import replace

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.table import Column, Kind, PublicTable, Table


def apply_joins(joins: Iterable[plan.Join], table: Table) -> Table:
    """The table as conditions, keys and values see it: the columns of a lookup table are called "lookup.column".

    >>> from discreet.query.table import Column, Kind, PublicTable
    >>> city, region = Column(Kind.TEXT), Column(Kind.TEXT, keys=("north", "south"))
    >>> cities = PublicTable("cities", {"city": city, "region": region}, frozenset({"city"}))
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "city": city}, public={"cities": cities})
    >>> list(apply_joins([plan.Join("cities", "city", "city")], people).columns)
    ['id', 'city', 'cities.city', 'cities.region']
    """
    seen: set[str] = set()
    for join in joins:
        if join.table in seen:
            raise QueryRefused(f"{join.table} is joined twice", "join each public table once")
        seen.add(join.table)
        table = _apply_join(join, table)
    return table


def _apply_join(join: plan.Join, table: Table) -> Table:
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


def _check_matches_once(join: plan.Join, table: Table, public: PublicTable) -> None:
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


def _add_null_key(column: Column, join: plan.Join) -> Column:
    """A row that a left join leaves alone has nothing there, which is one more key."""
    if not join.left or column.keys is None or None in column.keys:
        return column
    return replace(column, keys=(*column.keys, None))
