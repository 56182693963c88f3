"""Compare a policy with the data, for the data owner: `discreet policy check`.

The results are exact numbers about the rows, without noise. They are for the data owner only, and never go into an answer, a
certificate or a ledger. If the owner changes a policy because of them, the policy depends on the data, and no guarantee
covers that; such a policy says `adjusted_after_looking = true`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlglot import exp

from discreet._numbers import format_rational
from discreet.engines.base import Engine, explain_to_owner
from discreet.errors import BadParameter
from discreet.query.schema import Column, Kind, Table
from discreet.session.options import SourceOptions
from discreet.session.source import open_source
from discreet.sql.expressions import Lowering, alias, column, double_literal, int_literal, key_literal, source_column

WARNING = (
    "For the data owner only: these are exact numbers about the data. If you change the policy because of them, it depends "
    "on the data, and no guarantee covers that. Write adjusted_after_looking = true into it; the guarantee then says so."
)


class Verdict(Enum):
    """Whether a declaration is true of the data, and what it means if it is not."""

    TRUE = "true"
    ACCURACY = "costs accuracy"  # values are clipped or read as missing, or rows are dropped; the guarantee holds
    BROKEN = "breaks the guarantee"


@dataclass(frozen=True, slots=True)
class Check:
    """A declaration, what the data holds, and the verdict."""

    subject: str
    declared: str
    found: str
    verdict: Verdict

    def to_dict(self) -> dict[str, str]:
        """As plain values for JSON."""
        return {"subject": self.subject, "declared": self.declared, "found": self.found, "verdict": self.verdict.value}


def check_policy(
    source: Any, policy: str | Path | Table, *, table: str | None = None, path: str | Path | None = None
) -> list[Check]:
    """Validate a source as opening it would, and compare each declaration with the data.

    Raises:
        SourceRefused: with the engine's own message, which may quote values and is for the data owner only.

    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER)}, unique=True)
    >>> [check.verdict.name for check in check_policy("examples/people.csv", people) if check.subject == "unique"]
    ['TRUE']
    """
    options = SourceOptions(source=source, policy=policy, table=table, path=path)
    with explain_to_owner():
        typed = open_source(options).validate()
        texts = {name: Column(Kind.TEXT) for name in typed.table.columns}
        try:
            as_texts = open_source(replace(options, policy=Table(typed.table.name, typed.table.unit, texts))).validate()
        except BadParameter:  # a source with types of its own: its cells are of the declared kinds, or it was refused above
            as_texts = typed
        return _Checker(typed.engine, typed.table).check_all(_Checker(as_texts.engine, as_texts.table).count_present())


class _Checker:
    """Exact counts over one table."""

    def __init__(self, engine: Engine, table: Table) -> None:
        self.engine, self.table, self.lowering = engine, table, Lowering(table, engine.dialect)
        self.unit, self.rows = engine.build_owner_unit(table), 0

    def check_all(self, text_counts: Mapping[str, int]) -> list[Check]:
        """Check every declaration. `text_counts` are the cells of each column that are present when read as texts."""
        present = self.count_present()
        [[rows, units]] = self._select(exp.Count(this=exp.Star()), exp.Count(this=self.unit.copy()))
        self.rows = int(rows)
        without = self.rows - int(units)
        checks = [
            _check("rows", f"unit = {self.table.unit}", f"{self._share(without)} have no unit and are dropped", without)
        ]
        for name, declared in self.table.columns.items():
            misfits = text_counts[name] - present[name]
            found = f"{self._share(misfits)} have a cell of another type, which is read as missing"
            checks.append(_check(name, f"kind = {declared.kind.value}", found, misfits))
            checks += self._check_bounds(name, declared) + self._check_keys(name, declared)
        return checks + self._check_unique() + self._check_groups()

    def count_present(self) -> dict[str, int]:
        """Count the cells of each column that are not missing."""
        names = list(self.table.columns)
        [row] = self._select(*(exp.Count(this=self.lowering.lower_column(name)) for name in names))
        return dict(zip(names, map(int, row), strict=True))

    def _check_bounds(self, name: str, declared: Column) -> list[Check]:
        if declared.lower is None or declared.upper is None:
            return []
        low, high = (_bound_literal(end, declared.kind) for end in (declared.lower, declared.upper))
        below, above = (
            exp.LT(this=self.lowering.lower_column(name), expression=low),
            exp.GT(this=self.lowering.lower_column(name), expression=high),
        )
        [[under, over]] = self._select(_count_where(below), _count_where(above))
        texts = (str(end) if isinstance(end, date) else format_rational(end) for end in (declared.lower, declared.upper))
        bounds = f"bounds = {' to '.join(texts)}"
        found = f"{self._share(under)} are below and {self._share(over)} above; they are clipped"
        return [_check(name, bounds, found, int(under) + int(over))]

    def _check_keys(self, name: str, declared: Column) -> list[Check]:
        if declared.keys is None:
            return []
        key_column = source_column(name)
        listed = exp.In(this=key_column, expressions=[key_literal(key) for key in declared.keys if key is not None])
        counted = exp.select(key_column.copy(), exp.Count(this=exp.Star())).where(listed).group_by(key_column.copy())
        seen = {key: int(times) for key, times in self._run(self._over_rows(counted))}
        [[missing]] = self._select(_count_where(exp.Is(this=source_column(name), expression=exp.Null())))
        dropped = self.rows - sum(seen.values()) - (int(missing) if None in declared.keys else 0)
        unseen = [repr(key) for key in declared.keys if key is not None and key not in seen]
        found = f"{self._share(dropped)} have another key and are dropped"
        found += f"; no row has {', '.join(unseen[:10])}{' …' * (len(unseen) > 10)}" if unseen else ""
        return [_check(name, f"{len(declared.keys)} keys", found, dropped)]

    def _check_unique(self) -> list[Check]:
        """Check `unique` or `max_rows`. If `unique` is declared and false, nothing bounds a unit's rows."""
        limit = 1 if self.table.unique else self.table.max_rows
        units, most, over = self._over_units(self._per_unit(), limit)
        found = f"{over:,} of {units:,} units have more than {limit} row{'s' * (limit != 1)} (at most {most:,})"
        if self.table.unique:
            return [Check("unique", "true", found, Verdict.BROKEN if over else Verdict.TRUE)]
        return [_check("max_rows", str(limit), f"{found}; further rows in one group are dropped", over)]

    def _check_groups(self) -> list[Check]:
        """Check `max_groups` for each column with declared keys; of several columns together it depends on the query."""
        if self.table.unique:
            return []
        checks, limit = [], self.table.max_groups
        for name in [name for name, each in self.table.columns.items() if each.keys is not None]:
            units, most, over = self._over_units(self._per_unit(name), limit)
            groups = f"{limit} group{'s' * (limit != 1)} of {name}"
            found = f"{over:,} of {units:,} units are in more than {groups} (at most {most:,}); further groups are dropped"
            checks.append(_check("max_groups", str(limit), found, over))
        return checks

    def _per_unit(self, name: str | None = None) -> exp.Select:
        """Select one row per unit: the number of its rows, or of its distinct values of a column."""
        known = exp.Not(this=exp.Is(this=self.unit.copy(), expression=exp.Null()))
        counted = exp.Star() if name is None else exp.Distinct(expressions=[source_column(name)])
        rows = exp.select(alias(exp.Count(this=counted), "n")).where(known).group_by(self.unit.copy())
        return self._over_rows(rows)

    def _over_units(self, per_unit: exp.Select, limit: int) -> tuple[int, int, int]:
        """The number of units, the largest number that one has, and the number of units above the limit."""
        n, over = column("n"), _count_where(exp.GT(this=column("n"), expression=int_literal(limit)))
        most = exp.Coalesce(this=exp.Max(this=n), expressions=[int_literal(0)])
        [row] = self._run(exp.select(exp.Count(this=exp.Star()), most, over).from_(per_unit.subquery("per_unit")))
        units, largest, many = map(int, row)
        return units, largest, many

    def _select(self, *values: exp.Expr) -> list[tuple[Any, ...]]:
        return self._run(self._over_rows(exp.select(*values)))

    def _over_rows(self, select: exp.Select) -> exp.Select:
        return select.from_(self.engine.build_owner_source(self.table))

    def _run(self, select: exp.Select) -> list[tuple[Any, ...]]:
        return self.engine.run_for_owner(select)

    def _share(self, count: Any) -> str:
        return f"{int(count):,} rows ({100 * int(count) / max(self.rows, 1):.3g}%)"


def _check(subject: str, declared: str, found: str, wrong: int) -> Check:
    return Check(subject, declared, found, Verdict.ACCURACY if wrong else Verdict.TRUE)


def _bound_literal(bound: Fraction | date, kind: Kind) -> exp.Expr:
    if isinstance(bound, date):
        return key_literal(bound)
    return double_literal(bound) if kind is Kind.REAL else int_literal(int(bound))


def _count_where(condition: exp.Expr) -> exp.Expr:
    case = exp.Case(ifs=[exp.If(this=condition, true=int_literal(1))], default=int_literal(0))
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[int_literal(0)])
