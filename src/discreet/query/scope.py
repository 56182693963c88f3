"""Which column a name means, in a table and the public ones that it is joined to."""

from dataclasses import dataclass, replace

from discreet.query import plan
from discreet.query.join import apply_joins
from discreet.query.table import Table


@dataclass(frozen=True, slots=True)
class Scope:
    """A table and its joins. The column by which two tables are joined, if it has one name, is the first one's."""

    base: Table
    joins: tuple[plan.Join, ...] = ()

    @property
    def table(self) -> Table:
        """With the columns that were joined to it."""
        return apply_joins(self.joins, self.base)

    def with_join(self, join: plan.Join) -> "Scope":
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
