"""Which declarations a query needs and lacks: nothing here reads a row, and placeholders stand where a value belongs.

The same list becomes flags in a shell, parameters in Python, and words for the steward of a service.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.query.schema import Kind, Table

if TYPE_CHECKING:
    from discreet.query import QueryLike, ast


SET_DELTA = "set delta=1e-6 to discover them (partition selection costs δ)"
OPEN_WITH_DELTA = "open an account with a δ to discover them (partition selection costs δ)"
"""What to do where keys are not declared: without a ledger, and with an account of one, whose δ cannot be changed."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing: the unit, the ε, the columns without bounds and the group columns without keys."""

    unit: bool = False
    bounds: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    epsilon: bool = False
    fixed_delta: bool = False  # whether the account has its δ for life, so that no δ can be given

    @property
    def count(self) -> int:
        """How many things are missing."""
        return self.unit + len(self.bounds) + len(self.keys) + self.epsilon

    def name_columns(self, between: str) -> str:
        """Name the columns without bounds and those without keys.

        >>> Missing(bounds=("age", "pay"), keys=("city",)).name_columns(" and ")
        'bounds for `age`, `pay` and keys for `city`'
        """
        named = (("bounds", self.bounds), ("keys", self.keys))
        return between.join(f"{what} for {', '.join(f'`{name}`' for name in names)}" for what, names in named if names)

    def flags(self) -> list[str]:
        """The missing flags, with a word in capitals for each value."""
        flags = ["--unit", "COLUMN"] if self.unit else []
        flags += [part for name in self.bounds for part in ("--bounds", f"{name}=LOW:HIGH")]
        flags += [part for name in self.keys for part in ("--keys", f"{name}=A,B")]
        return flags + (["--epsilon", "EPSILON"] if self.epsilon else [])

    def parameters(self) -> dict[str, str]:
        """The missing parameters of `connect`, with a word in capitals for each value."""
        found = {"unit": '"COLUMN"'} if self.unit else {}
        if self.bounds:
            found["bounds"] = f"{{{', '.join(f'{name!r}: (LOW, HIGH)' for name in self.bounds)}}}"
        if self.keys:
            found["keys"] = f"{{{', '.join(f'{name!r}: [A, B]' for name in self.keys)}}}"
        return found | ({"epsilon": "EPSILON"} if self.epsilon else {})

    def describe(self, in_shell: bool) -> str:
        """Name all that is missing in one sentence."""
        mark = "--{}" if in_shell else "{}="
        parts = [mark.format("unit")] if self.unit else []
        parts += [f"{mark.format('bounds')} for `{name}`" for name in self.bounds]
        parts += [f"{mark.format('keys')} for `{name}`" for name in self.keys]
        parts += [mark.format("epsilon")] if self.epsilon else []
        if len(parts) > 1:
            return f"{', '.join(parts[:-1])} and {parts[-1]} are missing"
        example = "--unit id" if in_shell else 'unit="id"'
        named = f": no privacy unit. Name the column that identifies a person: {example}"
        return f"{parts[0]} is missing{named * self.unit}"

    def alternatives(self, in_shell: bool) -> list[str]:
        """What may be given in place of what is missing.

        >>> Missing(keys=("dept",), fixed_delta=True).alternatives(in_shell=True)
        ['In place of --keys, an account that is opened with a δ discovers the keys that many people have.']
        """
        unit, delta = ("--unit row", "--delta 1e-6") if in_shell else ('unit="row"', "delta=1e-6")
        delta = "an account that is opened with a δ" if self.fixed_delta else delta
        lines = [f"If each row is one person and there is no id: {unit}."] if self.unit else []
        keys = "--keys" if in_shell else "keys="
        return lines + ([f"In place of {keys}, {delta} discovers the keys that many people have."] if self.keys else [])


def find_missing(
    query: "QueryLike", table: Table, *, auto_bounds: Iterable[str] = (), discovers_keys: bool = False
) -> Missing:
    """Find the bounds and keys that a query needs and that are not declared.

    Raises:
        QueryRefused: it is no query about this table.
    """
    # imported here: connect lists what it lacks itself, before there is a query
    from discreet.query import ast
    from discreet.query.contribution import grouping_keys
    from discreet.query.grid import columns_in
    from discreet.query.parser import read_query
    from discreet.query.validate import apply_joins

    parsed = read_query(query, table)
    joined = apply_joins(parsed.joins, table)
    bounds = [name for name in columns_without_bounds(parsed, joined) if name not in set(auto_bounds)]
    keys: list[str] = []
    for group in () if discovers_keys else parsed.groups:
        names = columns_in(group.value)
        if {*names} & {*bounds} or grouping_keys(group, joined) is not None:
            continue
        # the years or months of a date are listed from the bounds of the date
        (keys if isinstance(group.value, ast.Ref) else bounds).extend(names)
    return Missing(bounds=tuple(dict.fromkeys(bounds)), keys=tuple(dict.fromkeys(keys)))


def columns_without_bounds(query: "ast.Query", table: Table) -> tuple[str, ...]:
    """Return the numeric columns without declared bounds that a query computes with."""
    from discreet.query import ast
    from discreet.query.grid import columns_in

    values = [value for _, aggregate in query.aggregates for value in aggregate.values_with_bounds()]
    values += [group.value for group in query.groups if not isinstance(group.value, ast.Ref | ast.DateTrunc)]
    names = [name for value in values for name in columns_in(value)]
    names += [] if query.where is None else columns_in(query.where)
    numeric = {name for name, each in table.columns.items() if each.kind in (Kind.INTEGER, Kind.REAL) and each.lower is None}
    return tuple(name for name in dict.fromkeys(names) if name in numeric)
