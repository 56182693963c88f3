"""Tell the owner whether a policy is true of the data: `discreet policy check`.

Everything here is an exact number about the rows, without noise: it is for the owner's eyes only, and never goes into an
answer, a certificate or a ledger. A policy that is changed because of what it says depends on the data, which no
guarantee covers; such a policy says so itself (`adjusted_after_looking = true`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from sqlglot import exp

from discreet._numbers import format_rational
from discreet.engines.base import Engine, explain_to_owner
from discreet.errors import BadParameter
from discreet.query.schema import Column, Kind, Table
from discreet.session.source import open_source
from discreet.sql.expressions import Lowering, alias, column, double_literal, int_literal, key_literal, source_column

WARNING = (
    "For the data owner only: these are exact numbers about the data. A policy that is changed because of them depends on "
    "the data, and no guarantee covers that: write adjusted_after_looking = true into it, and the guarantee will say so."
)


class Verdict(Enum):
    """What follows from what was found."""

    TRUE = "true"
    ACCURACY = "costs accuracy"  # cells or rows are clipped, dropped or missing; the guarantee holds
    BROKEN = "breaks the guarantee"


@dataclass(frozen=True, slots=True)
class Check:
    """What is declared, and what was found."""

    subject: str
    declared: str
    found: str
    verdict: Verdict

    def to_dict(self) -> dict[str, str]:
        """As JSON has it."""
        return {"subject": self.subject, "declared": self.declared, "found": self.found, "verdict": self.verdict.value}


def check_policy(
    source: Any, policy: str | Path | Table, *, table: str | None = None, path: str | Path | None = None
) -> list[Check]:
    """Validate a source as opening it would, and compare what is declared with what is there.

    Raises:
        SourceRefused: with the engine's own words, which may quote values: for the data owner only.

    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER)}, unique=True)
    >>> [check.verdict.name for check in check_policy("examples/people.csv", people) if check.subject == "unique"]
    ['TRUE']
    """
    with explain_to_owner():
        return _check_all(source, policy, table, path)


def _check_all(source: Any, policy: str | Path | Table, table: str | None, path: str | Path | None) -> list[Check]:
    opened = open_source(source, unit=None, policy=policy, table=table, path=path).validate()
    texts = {name: Column(Kind.TEXT) for name in opened.table.columns}
    as_texts = Table(opened.table.name, opened.table.unit, texts)
    try:
        written = open_source(source, unit=None, policy=as_texts, table=table, path=path).validate()
    except BadParameter:  # a source with types of its own: its cells are of the declared kinds, or it had been refused
        written = opened
    return _Checker(opened.engine, opened.table).check_all(_Checker(written.engine, written.table).count_present())


class _Checker:
    """Counts over one table. Each method returns one check or several."""

    def __init__(self, engine: Engine, table: Table) -> None:
        self.engine, self.table, self.write = engine, table, Lowering(table, engine.dialect)
        self.unit, self.rows = engine.build_owner_unit(table), 0

    def check_all(self, written: Mapping[str, int]) -> list[Check]:
        present = self.count_present()
        [[rows, units]] = self._select(exp.Count(this=exp.Star()), exp.Count(this=self.unit.copy()))
        self.rows = int(rows)
        without = self.rows - int(units)
        checks = [
            _check("rows", f"unit = {self.table.unit}", f"{self._share(without)} have no unit and are dropped", without)
        ]
        for name, declared in self.table.columns.items():
            misfits = written[name] - present[name]
            said = f"{self._share(misfits)} have a cell that does not fit and is missing"
            checks.append(_check(name, f"kind = {declared.kind.value}", said, misfits))
            checks += self._check_bounds(name, declared) + self._check_keys(name, declared)
        return checks + self._check_unique() + self._check_groups()

    def count_present(self) -> dict[str, int]:
        """How many cells of each column are not missing."""
        names = list(self.table.columns)
        [row] = self._select(*(exp.Count(this=self.write.lower_column(name)) for name in names))
        return dict(zip(names, map(int, row), strict=True))

    def _check_bounds(self, name: str, declared: Column) -> list[Check]:
        if declared.lower is None or declared.upper is None:
            return []
        real = declared.kind is Kind.REAL
        low, high = (double_literal(end) if real else int_literal(int(end)) for end in (declared.lower, declared.upper))
        below, above = (
            exp.LT(this=self.write.lower_column(name), expression=low),
            exp.GT(this=self.write.lower_column(name), expression=high),
        )
        [[under, over]] = self._select(_count_where(below), _count_where(above))
        said = f"{self._share(under)} are below and {self._share(over)} above; these are clipped"
        return [
            _check(
                name,
                f"bounds = {format_rational(declared.lower)} to {format_rational(declared.upper)}",
                said,
                int(under) + int(over),
            )
        ]

    def _check_keys(self, name: str, declared: Column) -> list[Check]:
        if declared.keys is None:
            return []
        column_there = source_column(name)
        listed = exp.In(this=column_there, expressions=[key_literal(key) for key in declared.keys if key is not None])
        counted = exp.select(column_there.copy(), exp.Count(this=exp.Star())).where(listed).group_by(column_there.copy())
        seen = {key: int(times) for key, times in self._run(self._over_rows(counted))}
        [[missing]] = self._select(_count_where(exp.Is(this=source_column(name), expression=exp.Null())))
        dropped = self.rows - sum(seen.values()) - (int(missing) if None in declared.keys else 0)
        unseen = [repr(key) for key in declared.keys if key is not None and key not in seen]
        said = f"{self._share(dropped)} have another key and are dropped"
        said += f"; no row has {', '.join(unseen[:10])}{' …' * (len(unseen) > 10)}" if unseen else ""
        return [_check(name, f"{len(declared.keys)} keys", said, dropped)]

    def _check_unique(self) -> list[Check]:
        """`unique` is what the sensitivity rests on: where it is false, nothing bounds a unit's rows."""
        limit = 1 if self.table.unique else self.table.max_rows
        units, most, over = self._over_units(self._per_unit(), limit)
        said = f"{over:,} of {units:,} units have more than {limit} rows (at most {most:,})"
        if self.table.unique:
            return [Check("unique", "true", said, Verdict.BROKEN if over else Verdict.TRUE)]
        return [_check("max_rows", str(limit), f"{said}; in one group, the rest are dropped", over)]

    def _check_groups(self) -> list[Check]:
        """Per column that has declared keys. How many groups several columns make depends on the question."""
        if self.table.unique:
            return []
        checks, limit = [], self.table.max_groups
        for name in [name for name, each in self.table.columns.items() if each.keys is not None]:
            units, most, over = self._over_units(self._per_unit(name), limit)
            said = f"{over:,} of {units:,} units are in more than {limit} groups of {name} (at most {most:,})"
            checks.append(_check("max_groups", str(limit), f"{said}; the rest are dropped", over))
        return checks

    def _per_unit(self, name: str | None = None) -> exp.Select:
        """One row per unit: how many rows it has, or how many values of a column."""
        known = exp.Not(this=exp.Is(this=self.unit.copy(), expression=exp.Null()))
        counted = exp.Star() if name is None else exp.Distinct(expressions=[source_column(name)])
        rows = exp.select(alias(exp.Count(this=counted), "n")).where(known).group_by(self.unit.copy())
        return self._over_rows(rows)

    def _over_units(self, per_unit: exp.Select, limit: int) -> tuple[int, int, int]:
        """How many units there are, the most that one has, and how many have more than the limit."""
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


def _count_where(condition: exp.Expr) -> exp.Expr:
    case = exp.Case(ifs=[exp.If(this=condition, true=int_literal(1))], default=int_literal(0))
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[int_literal(0)])
