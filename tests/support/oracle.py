"""The bounded query in plain Python, row by row, in exact fractions. It shares no code with `discreet.sql`.

The parts that a mutant gets wrong are methods, so that a mutant overrides one of them and nothing else.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import md5, sha256
from math import ceil, floor, isnan
from typing import Any

from discreet.query import ast
from discreet.query.contribution import BoundedQuery, grouping_keys
from discreet.query.grid import grid_range_of
from discreet.query.schema import Kind, Table
from discreet.query.statistics import (
    CellCounts,
    CentredProduct,
    CentredSum,
    DistinctCount,
    RowCount,
    UnitCount,
    ValueCount,
)

Row = Mapping[str, Any]
Answer = dict[tuple[Any, ...], tuple[Any, ...]]


def half_up(x: Fraction) -> int:
    """⌊x + ½⌋ with the sum rounded to a double, as IEEE arithmetic has it in every engine."""
    return floor(float(x + Fraction(1, 2)))


def text_of(value: Any) -> str:
    """The text that engines agree on."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        whole = value.strftime("%H:%M:%S")
        part = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        return f"{value.date().isoformat()} {whole}{part}"
    if isinstance(value, tuple):  # a unit of several columns
        return "".join(f"{len(part)}:{part}" for part in map(text_of, value))
    return value.isoformat() if isinstance(value, date) else str(value)


def unit_of(table: Table, row: Row, place: int) -> Any:
    """The privacy unit of the row at a place of a table."""
    parts = tuple(row[name] for name in table.unit_columns)
    if not parts:
        return f"row {place}"
    return None if None in parts else parts if len(parts) > 1 else parts[0]


PARTS = {
    ast.Part.YEAR: lambda moment: int(text_of(moment)[:4]),
    ast.Part.QUARTER: lambda moment: (
        {"01": 1, "02": 1, "03": 1, "04": 2, "05": 2, "06": 2}.get(text_of(moment)[5:7])
        or (3 if text_of(moment)[5:7] < "10" else 4)
    ),
    ast.Part.MONTH: lambda moment: int(text_of(moment)[5:7]),
    ast.Part.DAY: lambda moment: int(text_of(moment)[8:10]),
    ast.Part.HOUR: lambda moment: int(text_of(moment)[11:13]),
    ast.Part.ISODOW: lambda moment: (moment.toordinal() - 1) % 7 + 1,
}
"""Each part of a date or time, read off its text; 0001-01-01 was a Monday."""


P, Q = 2**31 - 69, 2**31 - 1


def constant(salt: str, name: str, lower: int, upper: int) -> int:
    """A constant that the salt determines."""
    return lower + int(sha256(f"{name} {salt}".encode()).hexdigest(), 16) % (upper - lower)


def linear(salt: str, purpose: str, value: int) -> int:
    """Two remainders, each with the sign of the value, weighted."""
    sign = -1 if value < 0 else 1
    first, second = constant(salt, f"{purpose} first", 2**29, 2**30), constant(salt, f"{purpose} second", 2**28, 2**29)
    return sign * (first * (abs(value) % P) + second * (abs(value) % Q))


def text_hash(salt: str, purpose: str, value: Any) -> int:
    return int(md5(f"{len(salt)}:{salt} {purpose} {text_of(value)}".encode()).hexdigest()[:15], 16) % P


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def unit_hash(salt: str, unit: Any) -> int:
    return linear(salt, "unit", unit) if is_whole(unit) else text_hash(salt, "unit", unit)


def key_hash(salt: str, key: tuple[Any, ...]) -> int:
    """The hash of a group, or of a group and a cell or value."""
    found: list[int] = []
    for part in key:
        if part is None:
            found.append(constant(salt, "missing", 0, P))
        elif is_whole(part):
            found.append(pow(linear(salt, "key", part) + constant(salt, "key offset", 0, P), 3, P))
        else:
            found.append(text_hash(salt, "key", part))
    result = found[0] if found else 0  # a query without groups orders nothing
    for each in found[1:]:
        result = pow(constant(salt, "fold", 1, P) * result + each, 3, P)
    return result


class Oracle:
    """Answers one bounded query over a list of rows."""

    def __init__(self, bounded: BoundedQuery) -> None:
        self.bounded, self.table = bounded, bounded.table

    # -- values ----------------------------------------------------------------------------------------------------------

    def raw(self, row: Row, name: str) -> Any:
        value, kind = row[name], self.table.columns[name].kind
        if value is None or kind is not Kind.REAL:
            return value
        return None if isnan(float(value)) else float(value)

    def clamped(self, row: Row, name: str) -> Fraction | None:
        value, column = self.raw(row, name), self.table.columns[name]
        if value is None:
            return None
        if column.kind is Kind.BOOLEAN:
            return Fraction(int(value))
        assert column.lower is not None
        assert column.upper is not None
        if column.kind is Kind.INTEGER:
            return Fraction(min(max(value, ceil(column.lower)), floor(column.upper)))
        inside = Fraction(min(max(value, float(column.lower)), float(column.upper)))
        widest = max(abs(column.lower), abs(column.upper))
        step = Fraction(2) ** (widest.numerator.bit_length() - widest.denominator.bit_length() - 20)
        return step * min(max(half_up(inside / step), floor(column.lower / step)), ceil(column.upper / step))

    def value(self, row: Row, value: ast.Value) -> Fraction | None:
        match value:
            case ast.Ref(column=name):
                return self.clamped(row, name)
            case ast.Number(value=constant):
                scaled = constant * 2**30
                return Fraction(floor(scaled + Fraction(1, 2)), 2**30)
            case ast.Bin(value=inner, width=width):
                found = self.value(row, inner)
                return None if found is None else Fraction(floor(found / width))
            case ast.Case(branches=branches, default=default):
                for condition, branch in branches:
                    if self.holds(row, condition) is True:
                        return self.value(row, branch)
                return None if default is None else self.value(row, default)
            case ast.Divide(value=inner, divisor=divisor):
                found = self.value(row, inner)
                return None if found is None else self.on_grid(found / divisor, value)
            case ast.Round(value=inner, rounding=rounding, digits=digits):
                found = self.value(row, inner)
                return (
                    None
                    if found is None
                    else self.on_grid(self.rounded(found * 10**digits, rounding) / Fraction(10) ** digits, value)
                )
            case ast.Abs(value=inner):
                found = self.value(row, inner)
                return None if found is None else abs(found)
            case ast.Coalesce(values=values):
                return next((found for found in (self.value(row, each) for each in values) if found is not None), None)
            case ast.Extreme(values=values, greatest=greatest):
                present = self.present_values([self.value(row, each) for each in values])
                return None if not present else max(present) if greatest else min(present)
            case ast.NullIf(value=inner, other=other):
                same = compared(ast.Order.EQUAL, *self._sides(row, inner, other))
                return None if same else self.value(row, inner)
            case ast.DatePart(part=part, column=ref):
                moment = self.moment(row, ref.column)
                return None if moment is None else Fraction(PARTS[part](moment))
        a, b = self.value(row, value.left), self.value(row, value.right)
        if a is None or b is None:
            return None
        return {ast.Plus: a + b, ast.Minus: a - b, ast.Times: a * b}[type(value)]

    def on_grid(self, found: Fraction, value: ast.Value) -> Fraction:
        """The nearest step of a value's grid; the grid itself is part of the definition of a quotient."""
        step = grid_range_of(value, self.table).grid
        return step * floor(found / step + Fraction(1, 2))

    def rounded(self, found: Fraction, rounding: ast.Rounding) -> Fraction:
        match rounding:
            case ast.Rounding.DOWN:
                return Fraction(floor(found))
            case ast.Rounding.UP:
                return Fraction(ceil(found))
            case ast.Rounding.NEAREST:
                return Fraction(floor(found + Fraction(1, 2)))

    def present_values(self, values: list[Any]) -> list[Any]:
        """What GREATEST and LEAST look at."""
        return [each for each in values if each is not None]

    # -- dates -----------------------------------------------------------------------------------------------------------

    def moment(self, row: Row, name: str) -> Any:
        """A date or time within its bounds. A row of plain Python holds no infinite one."""
        found, column = row[name], self.table.columns[name]
        if found is None:
            return None
        return found if column.lower is None else min(max(found, column.lower), column.upper)

    def truncated(self, row: Row, value: ast.DateTrunc) -> date | None:
        moment = self.moment(row, value.column.column)
        if moment is None:
            return None
        day = moment.date() if isinstance(moment, datetime) else moment
        match value.period:
            case ast.Period.DAY:
                return day
            case ast.Period.WEEK:
                return day - timedelta(days=day.weekday())
            case ast.Period.MONTH:
                return day.replace(day=1)
            case ast.Period.QUARTER:
                return day.replace(day=1, month={1: 1, 2: 4, 3: 7, 4: 10}[PARTS[ast.Part.QUARTER](day)])
            case ast.Period.YEAR:
                return day.replace(day=1, month=1)

    def operand(self, row: Row, value: Any) -> Any:
        """A column as it is, a truncated date, or a number."""
        if isinstance(value, ast.Ref):
            return self.raw(row, value.column)
        return self.truncated(row, value) if isinstance(value, ast.DateTrunc) else self.value(row, value)

    def matches(self, text: str, pattern: str) -> bool:
        """LIKE: % is any text, _ any one character, everything else itself."""
        regex = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
        return re.fullmatch(regex, text, re.DOTALL) is not None

    # -- three-valued logic ----------------------------------------------------------------------------------------------

    def holds(self, row: Row, condition: ast.Condition) -> bool | None:
        match condition:
            case ast.Missing(value=value):
                return self.operand(row, value) is None
            case ast.Like(value=ref, pattern=pattern):
                text = row[ref.column]
                return None if text is None else self.matches(text, pattern)
            case ast.Not(part=part):
                found = self.holds(row, part)
                return None if found is None else not found
            case ast.All(parts=parts):
                found_all = [self.holds(row, part) for part in parts]
                return False if False in found_all else None if None in found_all else True
            case ast.Any(parts=parts):
                found_all = [self.holds(row, part) for part in parts]
                return True if True in found_all else None if None in found_all else False
            case ast.OneOf(value=ref, among=among):
                return self.holds(row, ast.Any(tuple(ast.Compare(ast.Order.EQUAL, ref, each) for each in among)))
            case ast.Compare(order=order, left=left, right=right):
                return compared(order, *self._sides(row, left, right))

    def _sides(self, row: Row, left: ast.Value, right: Any) -> tuple[Any, Any]:
        if isinstance(left, ast.Ref | ast.DateTrunc) and isinstance(right, ast.Constant):
            return self.operand(row, left), right.value
        if isinstance(left, ast.Ref) and isinstance(right, ast.Number):
            real = self.table.columns[left.column].kind is Kind.REAL
            return self.raw(row, left.column), float(right.value) if real else right.value
        return self.value(row, left), self.value(row, right)

    # -- bounding --------------------------------------------------------------------------------------------------------

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(self.group_key(row, group.value) for group in self.bounded.query.groups)

    def group_key(self, row: Row, value: ast.GroupValue) -> Any:
        if isinstance(value, ast.Ref):
            return row[value.column]
        found = self.operand(row, value)
        return int(found) if isinstance(found, Fraction) else found

    def pairs(self, rows: Iterable[Row]) -> dict[Any, dict[tuple[Any, ...], list[Row]]]:
        query, known = self.bounded.query, None if self.bounded.keys is None else set(self.bounded.keys)
        units: dict[Any, dict[tuple[Any, ...], list[Row]]] = {}
        for place, row in enumerate(rows):
            unit = self.unit(row, place)
            if unit is None or (query.where is not None and self.holds(row, query.where) is not True):
                continue
            key = self.key(row)
            if key in known if known is not None else self.may_be_shown(key):
                units.setdefault(unit, {}).setdefault(key, []).append(row)
        return units

    def unit(self, row: Row, place: int) -> Any:
        """The privacy unit of a row; None if it has none."""
        return unit_of(self.table, row, place)

    def may_be_shown(self, key: tuple[Any, ...]) -> bool:
        """Where some keys are unknown, the others must be listed all the same."""
        listed = [grouping_keys(group, self.table) for group in self.bounded.query.groups]
        return all(keys is None or part in keys for part, keys in zip(key, listed, strict=True))

    def order(self, unit: Any, key: tuple[Any, ...], units: dict[Any, Any]) -> Any:
        """Where a group stands among a unit's groups. A right answer does not look at the other units."""
        if self.bounded.bounding == 1:
            parts = [self.table.salt, text_of(unit), *(None if k is None else text_of(k) for k in key)]
            return md5("".join("-" if p is None else f"{len(p)}:{p}" for p in parts).encode()).hexdigest()
        hashed = key_hash(self.table.salt, key)
        place = pow(unit_hash(self.table.salt, unit) + hashed, 3, P)
        return place, [(1,) if part is None else (0, part.encode() if isinstance(part, str) else part) for part in key]

    def capped(self, total: Any, n: int) -> Any:
        r = self.bounded.max_rows
        if n <= r:
            return total
        inside = min(abs(total), 2**62 // r)  # a longer sum is cut off before it is multiplied
        return inside * r // n * (1 if total >= 0 else -1)

    def present(self, row: Row, value: ast.Value) -> bool:
        if isinstance(value, ast.Ref):
            return self.raw(row, value.column) is not None
        return self.value(row, value) is not None

    def added(self, rows: list[Row], measure: CentredSum) -> Any:
        grid = self.bounded.grid_range(measure).grid
        total = 0
        for row in rows:
            if (value := self.value(row, measure.value)) is not None:
                steps = value / grid
                assert steps.denominator == 1, "off the grid"
                total += (int(steps) - measure.centre) ** measure.power
        return total

    def products(self, rows: list[Row], measure: CentredProduct) -> list[int]:
        """The products of distances, of the rows where both values are there."""
        found = []
        for row in rows:
            pair = [self.value(row, side) for side in (measure.left, measure.right)]
            if None not in pair:
                grids = [grid_range_of(side, self.table).grid for side in (measure.left, measure.right)]
                left, right = (int(value / grid) for value, grid in zip(pair, grids, strict=True) if value is not None)
                found.append((left - measure.left_centre) * (right - measure.right_centre))
        return found

    def share(self, rows: list[Row], measure: Any) -> Any:
        """What one unit adds to one total of one group."""
        match measure:
            case RowCount():
                return self.capped(len(rows), len(rows))
            case UnitCount():
                return 1
            case ValueCount(value=value):
                n = sum(self.present(row, value) for row in rows)
                return self.capped(n, n)
            case CentredSum(value=value):
                return self.capped(self.added(rows, measure), sum(self.present(row, value) for row in rows))
            case CentredProduct():
                products = self.products(rows, measure)
                return self.capped(sum(products), len(products))

    def cells(self, rows: list[Row], unit: Any, key: tuple[Any, ...], counts: CellCounts) -> dict[int, int]:
        """The cells that one unit's rows in one group fall into, at most r of them, in hash order."""
        found: dict[int, int] = {}
        for row in rows:
            cell = self.value(row, counts.cell)
            if cell is not None:
                found[int(cell)] = found.get(int(cell), 0) + 1
        room, kept = self.bounded.max_rows, {}
        for cell in sorted(found, key=lambda c: self.order(unit, (*key, c), {})):
            kept[cell], room = min(found[cell], room), room - min(found[cell], room)
        return {cell: n for cell, n in kept.items() if n}

    def kept_values(self, rows: list[Row], unit: Any, key: tuple[Any, ...], measure: DistinctCount) -> set[Any]:
        """The distinct values of one unit in one group, at most r of them, in hash order."""
        found = {self.group_key(row, measure.value) for row in rows} - {None}
        return set(sorted(found, key=lambda value: self.order(unit, (*key, value), {}))[: self.bounded.max_rows])

    def spread(self, rows: Iterable[Row], counts: CellCounts) -> dict[tuple[Any, ...], int]:
        """Rows per (key, cell)."""
        units, result = self.pairs(rows), {}
        for unit, groups in units.items():
            for key in sorted(groups, key=lambda key: self.order(unit, key, units))[: self.bounded.max_groups]:
                for cell, n in self.cells(groups[key], unit, key, counts).items():
                    result[(*key, cell)] = result.get((*key, cell), 0) + n
        return result

    def answer(self, rows: Iterable[Row]) -> Answer:
        units, totals = self.pairs(rows), self.bounded.totals
        result: dict[tuple[Any, ...], list[Any]] = {}
        values: dict[tuple[Any, ...], set[Any]] = {}
        for unit, groups in units.items():
            kept = sorted(groups, key=lambda key: self.order(unit, key, units))[: self.bounded.max_groups]
            for key in kept:
                sums = result.setdefault(key, [0] * len(totals))
                for i, measure in enumerate(totals):
                    if isinstance(measure, DistinctCount):
                        seen = values.setdefault((i, *key), set())
                        seen |= self.kept_values(groups[key], unit, key, measure)
                        sums[i] = len(seen)
                    else:
                        sums[i] = sums[i] + self.share(groups[key], measure)
        return {key: tuple(sums) for key, sums in result.items()}


def reference(
    question: BoundedQuery, rows: Iterable[Row], oracle: type[Oracle] = Oracle
) -> dict[Any, dict[tuple[Any, ...], Any]]:
    """Per measure, what is not zero: by key, and for a spread by key and cell. Totals saturate at ±(2⁶³ − 1)."""
    told, most = oracle(question), (1 << 63) - 1
    totals = told.answer(rows)
    found = {
        m: {key: max(-most, min(row[i], most)) for key, row in totals.items() if row[i]}
        for i, m in enumerate(question.totals)
    }
    return found | {counts: told.spread(rows, counts) for counts in question.cell_counts}


def compared(order: ast.Order, a: Any, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    match order:
        case ast.Order.EQUAL:
            return bool(a == b)
        case ast.Order.NOT_EQUAL:
            return bool(a != b)
        case ast.Order.LESS:
            return bool(a < b)
        case ast.Order.AT_MOST:
            return bool(a <= b)
        case ast.Order.MORE:
            return bool(a > b)
        case ast.Order.AT_LEAST:
            return bool(a >= b)
