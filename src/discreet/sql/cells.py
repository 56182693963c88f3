"""The finest table of a tabulation as one engine statement that returns integers alone: a total, and a code for each column.

The code of a key is its place among the declared keys of its column. A statement is that of totals (`sql.totals`), over rows
whose keys are codes already:

    kept      the rows of real units that pass WHERE and have a declared key in every column, with the codes of these keys
    pairs, ranked, result    as for totals, each unit in at most `max_groups` cells

So engines group by small integers, and return them; and the order of codes is the order in which keys were declared, in
which the nodes of a hierarchy follow each other. What a unit keeps is ranked by a hash of its codes.

Few keys are compared with constants. Consecutive integers are subtracted from. Any other list of keys is one constant text,
which the engine splits and joins to: a statement with a hundred thousand constants takes an engine longer to parse than the
table to read. No temporary table is made, so that a role which may only read suffices.

Work that is continued later must know whether the same units are in a cell, not only as many. So a statement can return one
more integer per cell, the exclusive or of a hash of each of its units: private, as the totals are.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from sqlglot import exp

from discreet.query.cells import BoundedCells
from discreet.query.schema import Key
from discreet.sql.dialects import SQL, Dialect, alias, cast, column, int_literal, key_literal
from discreet.sql.totals import MANY_KEYS, SEPARATORS, UNIT, Statement, total_statement, type_of

ROWS_OF_SOURCE = "listed"


def lower_cells(
    bounded: BoundedCells,
    source: exp.Expr,
    unit: str | None,
    dialect: Dialect,
    ordered_columns: int = 0,
    *,
    hash_units: bool = False,
) -> exp.Select:
    """The statement for the cells of `bounded` over `source`, whose column `unit` identifies a unit; None where each row is
    one. Cells are in the order of the codes of the first `ordered_columns` columns. With `hash_units`, the last column is a
    hash of the units in the cell; it is constant where each row is one, because such a unit has no identity."""
    statement = CellStatement(bounded, source, unit, dialect)
    result = total_statement(statement)
    if hash_units:
        hashed = dialect.hash_text(cast(column(UNIT), exp.DType.VARCHAR))
        mixed: SQL = int_literal(0) if unit is None else exp.Anonymous(this="BIT_XOR", expressions=[hashed])
        result = result.select(alias(mixed, "units"), copy=False)
    return result.order_by(*statement.keys[:ordered_columns], copy=False) if ordered_columns else result


class CellStatement(Statement):
    """A statement whose keys are codes."""

    def __init__(self, bounded: BoundedCells, source: exp.Expr, unit: str | None, dialect: Dialect) -> None:
        super().__init__(bounded, source, unit, dialect)
        self.lists, self.filters_late = bounded.keys.columns, False

    def select_rows(self, values: Mapping[str, SQL]) -> exp.Select:
        """One row per row that counts: unit, codes, and these values."""
        keys = [self.lowering.lower_key(group.value) for group in self.bounded.query.groups]
        source = self.select_source(keys, values).subquery(exp.to_identifier(ROWS_OF_SOURCE), copy=False)
        codes = [self._code_of_cell(i, listed) for i, listed in enumerate(self.lists)]
        columns = [column(UNIT, ROWS_OF_SOURCE), *map(alias, codes, self.key_names)]
        rows = exp.select(*columns, *(column(name, ROWS_OF_SOURCE) for name in values), copy=False)
        rows = rows.from_(source, copy=False)
        for i, listed in enumerate(self.lists):
            if _is_joined(listed):
                same = exp.EQ(this=self._key(i), expression=column("key", f"keys{i}"))
                keys_of_column = self._select_keys(listed).subquery(exp.to_identifier(f"keys{i}"), copy=False)
                rows = rows.join(keys_of_column, on=same, join_type="left" if None in listed else "inner", copy=False)
        return rows.where(*chain.from_iterable(self._conditions(i, listed) for i, listed in enumerate(self.lists)))

    def _key(self, index: int) -> SQL:
        return column(self.key_names[index], ROWS_OF_SOURCE)

    def _code_of_cell(self, index: int, listed: Sequence[Key]) -> SQL:
        """The place of a row's key; it need not be defined where `_conditions` do not hold."""
        ifs = []
        if None in listed:
            missing = exp.Is(this=self._key(index), expression=exp.Null())
            ifs.append(exp.If(this=missing, true=int_literal(listed.index(None))))
        if _is_joined(listed):
            code = column("code", f"keys{index}")
            return exp.Case(ifs=ifs, default=code) if ifs else code
        if (ends := _find_range(listed)) is not None:
            distance = exp.Sub(this=cast(self._key(index), exp.DType.BIGINT), expression=int_literal(ends[0]))
            return exp.Case(ifs=[*ifs, exp.If(this=self._is_between(index, *ends), true=cast(distance, exp.DType.INT))])
        for place, key in enumerate(listed):
            if key is not None:
                same = exp.EQ(this=self._key(index), expression=key_literal(key))
                ifs.append(exp.If(this=same, true=int_literal(place)))
        return exp.Case(ifs=ifs)

    def _conditions(self, index: int, listed: Sequence[Key]) -> list[SQL]:
        """What holds of rows with a declared key."""
        tests: list[SQL] = []
        if _is_joined(listed):
            if None not in listed:
                return []  # the join has dropped all others
            tests.append(exp.Not(this=exp.Is(this=column("key", f"keys{index}"), expression=exp.Null())))
        elif (ends := _find_range(listed)) is not None:
            tests.append(exp.Paren(this=self._is_between(index, *ends)))
        elif present := [key_literal(key) for key in listed if key is not None]:
            tests.append(exp.In(this=self._key(index), expressions=present))
        if None in listed:
            tests.append(exp.Is(this=self._key(index), expression=exp.Null()))
        return [exp.Paren(this=exp.or_(*tests, copy=False))]

    def _is_between(self, index: int, first: int, last: int) -> SQL:
        above = exp.GTE(this=self._key(index), expression=int_literal(first))
        return exp.And(this=above, expression=exp.LTE(this=self._key(index), expression=int_literal(last)))

    def _select_keys(self, listed: Sequence[Key]) -> exp.Select:
        """The keys of a column that are not NULL, each with its code."""
        known = [key for key in listed if key is not None]
        texts = [*map(str, known)]
        separator = next(each for each in SEPARATORS if not any(each in text for text in texts))
        parts = self.dialect.split(exp.Literal.string(separator.join(texts)), exp.Literal.string(separator))
        part, place = column("part"), cast(column("place"), exp.DType.INT)
        key: SQL = self.dialect.order_bytewise(part) if isinstance(known[0], str) else cast(part, type_of(known[0]))
        if None in listed and listed.index(None) < len(known):  # keys after NULL move up
            after = exp.GTE(this=place, expression=int_literal(listed.index(None)))
            one = exp.Add(this=place.copy(), expression=int_literal(1))
            place = exp.Case(ifs=[exp.If(this=after, true=one)], default=place.copy())
        select = exp.select(alias(key, "key"), alias(place, "code"), copy=False)
        return select.from_(parts.subquery(exp.to_identifier("split"), copy=False), copy=False)


def _is_joined(listed: Sequence[Key]) -> bool:
    return len(listed) > MANY_KEYS and _find_range(listed) is None


def _find_range(listed: Sequence[Key]) -> tuple[int, int] | None:
    """The first and last of consecutive integers in ascending order, which NULL may follow; None of other keys."""
    known = listed[:-1] if listed[-1] is None else listed
    first = known[0] if known else None
    if not isinstance(first, int) or isinstance(first, bool) or [*known] != [*range(first, first + len(known))]:
        return None
    return first, first + len(known) - 1
