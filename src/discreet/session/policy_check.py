"""Compare a policy with the data, for the data owner: `discreet policy check`.

The results are exact numbers about the rows, without noise. They are for the data owner only, and never go into an answer, a
certificate or a ledger. If the owner changes a policy because of them, the policy depends on the data, and no guarantee
covers that; such a policy says `adjusted_after_looking = true`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from discreet._numbers import format_rational
from discreet.engines.base import Engine, explain_to_owner
from discreet.errors import BadParameter
from discreet.query.schema import ROW, ROW_UNIT_NOTE, Column, Kind, Table
from discreet.session.options import SourceOptions
from discreet.session.source import open_source
from discreet.sql.dialects import alias, column, double_literal, int_literal, key_literal, source_column
from discreet.sql.expressions import Lowering

WARNING = (
    "For the data owner only: these are exact numbers about the data. If you change the policy because of them, it depends "
    "on the data, and no guarantee covers that. Write adjusted_after_looking = true into it; the guarantee then says so."
)


LIMITS = (1, 2, 5, 10, 20, 50, 100)
"""Contribution bounds that are compared."""

MAX_OTHER_KEYS = 10_000
"""So many keys that are not declared are compared with those that are, the most frequent ones."""

MAX_SHOWN = 10
MISSPELLING = 0.8
"""From this ratio of `difflib` on, one text looks like another."""


class Verdict(Enum):
    """Whether a declaration is true of the data, and what it means if it is not; the worst first."""

    BROKEN = "breaks the guarantee"
    SEVERE = "costs most of the data"  # as below, for more than half of the rows: mostly a wrong declaration
    ACCURACY = "costs accuracy"  # values are clipped or read as missing, or rows are dropped; the guarantee holds
    ASSUMED = "cannot be checked"  # no data can show whether it is true
    COMPARISON = "for comparison"  # what another declaration would cost
    TRUE = "true"


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
    """Validate a source as opening it would, and compare each declaration with the data. The worst findings come first.

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
        checks = _Checker(typed.engine, typed.table).check_all(_Checker(as_texts.engine, as_texts.table).count_present())
        return sorted(checks, key=lambda check: list(Verdict).index(check.verdict))


def summarise_checks(checks: Sequence[Check]) -> str:
    """Say in a sentence or two what the checks found.

    >>> summarise_checks([Check("unique", "true", "2 of 4 units have more than 1 row", Verdict.BROKEN)])
    'The data breaks the guarantee: unique. Do not use this policy with this data.'
    >>> found = [Check("dept", "3 keys", "…", Verdict.SEVERE), Check("pay", "bounds = 0 to 9", "…", Verdict.ACCURACY)]
    >>> summarise_checks(found)
    'The guarantee holds. Most of the data does not count as declared: dept (3 keys). Costs accuracy: pay (bounds = 0 to 9).'
    >>> summarise_checks([Check("age", "kind = integer", "…", Verdict.TRUE)])
    'The guarantee holds, and every declaration is true of the data.'
    """

    def name(verdict: Verdict) -> str:
        found = (check for check in checks if check.verdict is verdict)
        return ", ".join(f"{each.subject} ({each.declared})" for each in found)

    if any(check.verdict is Verdict.BROKEN for check in checks):
        broken = ", ".join(check.subject for check in checks if check.verdict is Verdict.BROKEN)
        return f"The data breaks the guarantee: {broken}. Do not use this policy with this data."
    holds = "The guarantee holds"
    if assumed := name(Verdict.ASSUMED):
        holds += f" if what cannot be checked is true: {assumed}"
    severe, costly = name(Verdict.SEVERE), name(Verdict.ACCURACY)
    if not (severe or costly):
        return f"{holds}, and every declaration is true of the data." if not assumed else f"{holds}."
    parts = [f"{holds}."]
    parts += [f"Most of the data does not count as declared: {severe}."] if severe else []
    parts += [f"Costs accuracy: {costly}."] if costly else []
    return " ".join(parts)


class _Checker:
    """Exact counts over one table."""

    def __init__(self, engine: Engine, table: Table) -> None:
        self.engine, self.table, self.lowering = engine, table, Lowering(table, engine.dialect)
        self.rows = 0
        unit = engine.build_owner_unit(table)
        self.unit = int_literal(1) if unit is None else unit  # where each row is a unit, none is missing

    def check_all(self, text_counts: Mapping[str, int]) -> list[Check]:
        """Check every declaration. `text_counts` are the cells of each column that are present when read as texts."""
        present = self.count_present()
        [[rows, units]] = self._select(exp.Count(this=exp.Star()), exp.Count(this=self.unit.copy()))
        self.rows = int(rows)
        without = self.rows - int(units)
        checks = [
            self._check("rows", f"unit = {self.table.unit}", f"{self._share(without)} have no unit and are dropped", without)
        ]
        for name, declared in self.table.columns.items():
            misfits = text_counts[name] - present[name]
            found = f"{self._share(misfits)} have a cell of another type, which is read as missing"
            checks.append(self._check(name, f"kind = {declared.kind.value}", found, misfits))
            checks += self._check_bounds(name, declared) + self._check_keys(name, declared)
        if not self.table.unit_columns:
            return [*checks, Check("unit", ROW, ROW_UNIT_NOTE, Verdict.ASSUMED)]
        return checks + self._check_unique() + self._check_groups()

    def count_present(self) -> dict[str, int]:
        """Count the cells of each column that are not missing."""
        names = list(self.table.columns)
        [row] = self._select(*(exp.Count(this=self.lowering.lower_column(name)) for name in names))
        return dict(zip(names, map(int, row), strict=True))

    def _check_bounds(self, name: str, declared: Column) -> list[Check]:
        if declared.lower is None or declared.upper is None:
            return []
        low, high = (_bound_literal(end, declared.kind, to) for end, to in ((declared.lower, ceil), (declared.upper, floor)))
        below, above = (
            exp.LT(this=self.lowering.lower_column(name), expression=low),
            exp.GT(this=self.lowering.lower_column(name), expression=high),
        )
        [[under, over]] = self._select(_count_where(below), _count_where(above))
        texts = (str(end) if isinstance(end, date) else format_rational(end) for end in (declared.lower, declared.upper))
        left_out = "" if isinstance(declared.lower, date) else ", and histograms may leave them out"
        bounds = f"bounds = {' to '.join(texts)}"
        found = f"{self._share(under)} are below and {self._share(over)} above; they are clipped{left_out}"
        return [self._check(name, bounds, found, int(under) + int(over))]

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
        found += f"; no row has {_list_some(unseen)}" if unseen else ""
        checks = [self._check(name, f"{len(declared.keys)} keys", found, dropped)]
        return checks + (self._check_spellings(name, declared) if declared.kind is Kind.TEXT and dropped else [])

    def _check_spellings(self, name: str, declared: Column) -> list[Check]:
        """Find keys that are not declared and look like one that is: `male` for `Male`."""
        key = source_column(name)
        listed = exp.In(this=key, expressions=[key_literal(each) for each in declared.keys or () if each is not None])
        others = exp.select(key.copy(), alias(exp.Count(this=exp.Star()), "n")).where(exp.Not(this=listed))
        others = self._over_rows(others).group_by(key.copy()).order_by(column("n").desc()).limit(MAX_OTHER_KEYS)
        known = [each for each in declared.keys or () if isinstance(each, str)]
        near = [
            f"{other!r} ({int(times):,} rows) looks like {meant!r}"
            for other, times in self._run(others)
            if isinstance(other, str) and (meant := find_meant_key(other, known)) is not None
        ]
        return [Check(name, "spelling of keys", _list_some(near, "; "), Verdict.ACCURACY)] if near else []

    def _check_unique(self) -> list[Check]:
        """Check `unique` or `max_rows`. If `unique` is declared and false, nothing bounds a unit's rows."""
        limit, sizes = 1 if self.table.unique else self.table.max_rows, self._count_per_unit()
        units, most, over = _summarise(sizes, limit)
        found = f"{over:,} of {units:,} units have more than {limit} row{'s' * (limit != 1)} (at most {most:,})"
        if self.table.unique:
            return [Check("unique", "true", found, Verdict.BROKEN if over else Verdict.TRUE)]
        checks = [_check("max_rows", str(limit), f"{found}; further rows in one group are dropped", over)]
        return checks + self._compare_limits("max_rows", sizes, "if all rows of a unit are in one group")

    def _check_groups(self) -> list[Check]:
        """Check `max_groups` for each column with declared keys; of several columns together it depends on the query."""
        if self.table.unique:
            return []
        checks, limit = [], self.table.max_groups
        for name in [name for name, each in self.table.columns.items() if each.keys is not None]:
            sizes = self._count_per_unit(name)
            units, most, over = _summarise(sizes, limit)
            groups = f"{limit} group{'s' * (limit != 1)} of {name}"
            found = f"{over:,} of {units:,} units are in more than {groups} (at most {most:,}); further groups are dropped"
            checks.append(_check("max_groups", str(limit), found, over))
            checks += self._compare_limits("max_groups", sizes, f"by {name}, on average over the choice of groups")
        return checks

    def _compare_limits(self, subject: str, sizes: Sequence["_Size"], words: str) -> list[Check]:
        """Say what share of the rows other limits would drop: the bias to weigh against the noise of a looser limit."""
        _, most, _ = _summarise(sizes, 1)
        if most <= 1:
            return []
        tried = [m for i, m in enumerate(LIMITS) if i == 0 or LIMITS[i - 1] < most]
        shares = {m: sum(each.rows * max(0, each.n - m) / each.n for each in sizes if each.n) for m in tried}
        found = ", ".join(f"{m} drops {100 * share / max(self.rows, 1):.3g}%" for m, share in shares.items())
        return [Check(subject, f"other limits, {words}", f"{found} of the rows", Verdict.COMPARISON)]

    def _count_per_unit(self, name: str | None = None) -> list["_Size"]:
        """Count the units by the number of their rows, or of their distinct values of a column."""
        known = exp.Not(this=exp.Is(this=self.unit.copy(), expression=exp.Null()))
        counted = exp.Star() if name is None else exp.Distinct(expressions=[source_column(name)])
        columns = [alias(exp.Count(this=counted), "n"), alias(exp.Count(this=exp.Star()), "rows")]
        per_unit = self._over_rows(exp.select(*columns).where(known).group_by(self.unit.copy()))
        sizes = exp.select(column("n"), exp.Count(this=exp.Star()), exp.Sum(this=column("rows"))).from_(
            per_unit.subquery("per_unit")
        )
        return [_Size(*map(int, row)) for row in self._run(sizes.group_by(column("n")))]

    def _select(self, *values: exp.Expr) -> list[tuple[Any, ...]]:
        return self._run(self._over_rows(exp.select(*values)))

    def _over_rows(self, select: exp.Select) -> exp.Select:
        return select.from_(self.engine.build_owner_source(self.table))

    def _run(self, select: exp.Select) -> list[tuple[Any, ...]]:
        return self.engine.run_for_owner(select)

    def _check(self, subject: str, declared: str, found: str, wrong: int) -> Check:
        """A declaration that is wrong of so many rows."""
        return (
            Check(subject, declared, found, Verdict.SEVERE)
            if 2 * wrong > self.rows
            else _check(subject, declared, found, wrong)
        )

    def _share(self, count: Any) -> str:
        return f"{int(count):,} rows ({100 * int(count) / max(self.rows, 1):.3g}%)"


class _Size(NamedTuple):
    """The units that have `n` rows, or `n` distinct values of a column: how many, and how many rows they have together."""

    n: int
    units: int
    rows: int


def _summarise(sizes: Iterable[_Size], limit: int) -> tuple[int, int, int]:
    """The number of units, the largest number that one has, and the number of units above the limit."""
    listed = list(sizes)
    over = sum(each.units for each in listed if each.n > limit)
    return sum(each.units for each in listed), max((each.n for each in listed), default=0), over


def _check(subject: str, declared: str, found: str, wrong: int) -> Check:
    return Check(subject, declared, found, Verdict.ACCURACY if wrong else Verdict.TRUE)


def _bound_literal(bound: Fraction | date, kind: Kind, to_integer: Callable[[Fraction], int]) -> exp.Expr:
    if isinstance(bound, date):
        return key_literal(bound)
    return double_literal(bound) if kind is Kind.REAL else int_literal(to_integer(bound))


def _count_where(condition: exp.Expr) -> exp.Expr:
    case = exp.Case(ifs=[exp.If(this=condition, true=int_literal(1))], default=int_literal(0))
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[int_literal(0)])


def _list_some(texts: list[str], between: str = ", ") -> str:
    return f"{between.join(texts[:MAX_SHOWN])}{' …' * (len(texts) > MAX_SHOWN)}"


def find_meant_key(key: str, declared: Iterable[str]) -> str | None:
    """Return the declared key that another one looks like: the same but for case and blanks, or close to it.

    >>> find_meant_key("male ", ["Male", "Female"]), find_meant_key("Femal", ["Male", "Female"]), find_meant_key("x", ["y"])
    ('Male', 'Female', None)
    """
    plain = {" ".join(each.casefold().split()): each for each in declared}
    looked_up = " ".join(key.casefold().split())
    if looked_up in plain:
        return plain[looked_up]
    close = get_close_matches(looked_up, plain, 1, MISSPELLING) if len(looked_up) >= 4 else []
    return plain[close[0]] if close else None
