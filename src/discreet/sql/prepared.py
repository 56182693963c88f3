"""Statements over a prepared table, which return the same integers as those over its source with the same salt.

A prepared table has, beside the columns of its source, what statements would otherwise compute again for each query:

    unit code     a small integer for each unit; rows of a unit follow each other in the table
    unit hash     A of the unit itself (`sql/order.py`), mod P
    key code      for each *ranked* column, a small integer for each of its keys, NULL included
    key place     the place of the row's key among all keys of its unit in that column, in the order of `sql/order.py`

and for each ranked column a dictionary of its keys: code, value and hash. Codes are in the order of the keys, NULL last.

**Why the totals are the same.** Unit codes are one-to-one with units, key codes with keys: grouping by codes is grouping by
what they stand for. The order of a unit's groups comes from the stored hash and place, which were computed by the source's
own statement from the salt and the values themselves. A code is in no hash: codes are numbers in the order of all units or
keys of the table, so removing one person changes the codes of others, and an order made of codes would change what others
keep. Places are a function of the unit's own rows and the salt.

**Places save the ranking.** The order of a unit's keys does not depend on which of its rows count. So the place of a key is
its rank if all rows of the unit count; else its rank among the keys that remain is the number of those with places up to its
own. Without WHERE and JOIN, rows are dropped only because their key is not listed. Units with such a row are *partial*: only
their groups are ranked, and of all others a row counts if its place is at most `max_groups`. Which of the two a statement
does is decided by the query and the declarations, never by the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from discreet.query import ast
from discreet.query.aggregates import CountRows
from discreet.query.contribution import BoundedQuery, grouping_keys
from discreet.query.schema import Table
from discreet.query.statistics import CellCounts, DistinctCount
from discreet.sql.dialects import SOURCE, SQL, Dialect, alias, cast, column, int_literal, source_column
from discreet.sql.order import OrderHash, Part
from discreet.sql.totals import CELL, RANK, UNIT, Statement, cell_count_statement, total_statement
from discreet.units import Neighbours

PLACE, STORED_HASH, PARTIAL = "place", "stored_hash", "partial"
CODE, VALUE, HASH = "code", "value", "hash"


@dataclass(frozen=True, slots=True)
class RankedColumn:
    """Where the codes and places of one column are."""

    code: str  # the column of codes
    place: str  # the column of places
    dictionary: exp.Table  # of CODE, VALUE and HASH


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """The columns that a prepared table has beside those of its source."""

    unit_code: str
    unit_hash: str
    ranked: Mapping[str, RankedColumn]


def lower_prepared(
    bounded: BoundedQuery, counts: CellCounts | None, source: exp.Expr, columns: PreparedColumns, dialect: Dialect
) -> exp.Select:
    """The statement for the totals of `bounded`, or for one histogram of it, over a prepared table with these columns. The
    salt of `bounded` must be that of the table."""
    if counts is not None:
        statement = PreparedStatement(bounded, source, columns, dialect)
        return statement.decode(cell_count_statement(statement, counts), ["total0", CELL])
    group = bounded.query.groups[0].value if len(bounded.query.groups) == 1 else None
    ranked = columns.ranked.get(group.column) if isinstance(group, ast.Ref) else None
    is_ranked = ranked is not None and not any(isinstance(each, DistinctCount) for each in bounded.totals)
    statement = (RankedStatement if is_ranked else PreparedStatement)(bounded, source, columns, dialect)
    return statement.decode(total_statement(statement), [f"total{i}" for i in range(len(bounded.totals))])


class PreparedStatement(Statement):
    """A statement that identifies units by their codes, and orders their contributions by stored hashes. Keys of ranked
    columns are codes in all steps; integers stay as they are, because they take as little time.

    listed0, …    for each grouping by such a column: the codes of its listed keys, or of all its keys, and what the
                  statement returns of each
    """

    def __init__(
        self, bounded: BoundedQuery, source: exp.Expr, columns: PreparedColumns, dialect: Dialect, *, uses_codes: bool = True
    ) -> None:
        super().__init__(bounded, source, columns.unit_code, dialect, uses_codes=uses_codes)
        self.prepared = columns
        self.stores_hash = bounded.is_ordered
        self.dictionaries = {
            i: columns.ranked[group.value.column]
            for i, group in enumerate(bounded.query.groups)
            if isinstance(group.value, ast.Ref) and group.value.column in columns.ranked and self._is_coded(group.value)
        }
        for i in self.dictionaries:
            self.parts[i] = Part.TEXT

    def _is_coded(self, value: ast.Ref) -> bool:
        return self.part_of(value) is Part.TEXT

    def decode(self, result: exp.Select, first: Sequence[str]) -> exp.Select:
        """What a statement returns: these columns of `result`, and its keys, of which codes are looked up."""
        if not self.dictionaries:
            return result
        keys = [
            alias(column("shown", _listed(i)), name) if i in self.dictionaries else column(name, "totals")
            for i, name in enumerate(self.key_names)
        ]
        decoded = exp.select(*(column(name, "totals") for name in first), *keys, copy=False)
        decoded = decoded.from_(result.subquery("totals", copy=False), copy=False)
        for i in self.dictionaries:
            same = exp.EQ(this=column(self.key_names[i], "totals"), expression=column("key", _listed(i)))
            decoded = decoded.join(exp.to_table(_listed(i)), on=same, copy=False)
            decoded = decoded.with_(_listed(i), as_=self._select_listed(i), copy=False)
        return decoded

    def select_source(self, keys: Sequence[SQL], values: Mapping[str, SQL]) -> exp.Select:
        """As in `Statement`, with the stored hash of the unit."""
        stored = {STORED_HASH: source_column(self.prepared.unit_hash)} if self.stores_hash else {}
        return super().select_source(keys, {**values, **stored})

    def select_rows(self, values: Mapping[str, SQL]) -> exp.Select:
        """One row per row that counts: unit, keys or their codes, and these values."""
        groups = self.bounded.query.groups
        codes = {i: source_column(each.code) for i, each in self.dictionaries.items()}
        others = {i: self.lowering.lower_key(each.value) for i, each in enumerate(groups) if i not in codes}
        keys = [codes[i] if i in codes else self.show_key(i, others[i]) for i in range(len(groups))]
        return self.restrict_codes(self.join_listed(self.select_source(keys, values), others), codes)

    def restrict_codes(self, rows: exp.Select, codes: Mapping[int, SQL]) -> exp.Select:
        """The rows whose keys, of which these are the codes, are listed."""
        listed = [i for i in codes if grouping_keys(self.bounded.query.groups[i], self.bounded.table) is not None]
        return rows.where(*(_is_in(codes[i].copy(), "key", _listed(i)) for i in listed), copy=False)

    def hash_unit(self, grouped: exp.Select) -> SQL:
        """The stored hash, of which each step that groups by unit has one value."""
        grouped.select(alias(exp.Min(this=cast(column(STORED_HASH), exp.DType.BIGINT)), "unit_hash"), copy=False)
        return column("unit_hash")

    def select_hashes(self, index: int) -> exp.Select:
        """The hashes of a ranked column are in its dictionary, and its codes are in the order of the keys."""
        if index not in self.dictionaries:
            return super().select_hashes(index)
        hashed = alias(cast(column(HASH), exp.DType.BIGINT), "hash")
        hashes = exp.select(alias(column(CODE), "key"), hashed, alias(column(CODE), PLACE), copy=False)
        return hashes.from_(self.dictionaries[index].dictionary.copy(), copy=False)

    def _select_listed(self, index: int) -> exp.Select:
        """The codes of the keys that are listed, or of all keys, and what is returned of each."""
        value = column(VALUE, "dictionary")
        keys = exp.select(alias(column(CODE, "dictionary"), "key"), alias(self.show_key(index, value), "shown"), copy=False)
        dictionary = exp.alias_(self.dictionaries[index].dictionary.copy(), "dictionary", table=True, quoted=True)
        return self.join_listed(keys.from_(dictionary, copy=False), {index: value})


class RankedStatement(PreparedStatement):
    """The totals of groups by one ranked column: `kept`, `pairs` and `ranked` have the place of its key too.

    partial   the units with a row whose key is not listed
    """

    def __init__(self, bounded: BoundedQuery, source: exp.Expr, columns: PreparedColumns, dialect: Dialect) -> None:
        super().__init__(bounded, source, columns, dialect)
        self.stores_hash = False
        is_listed = bounded.keys is not None
        self.counts_all = bounded.query.where is None and not bounded.query.joins  # but for keys that are not listed
        self.has_partial = self.ranks and self.counts_all and is_listed
        self.ranks = self.ranks and (is_listed or not self.counts_all)

    def _is_coded(self, value: ast.Ref) -> bool:
        return True

    def decode(self, result: exp.Select, first: Sequence[str]) -> exp.Select:
        """As in `PreparedStatement`, with the partial units."""
        decoded = super().decode(result, first)
        return decoded.with_(PARTIAL, as_=self._select_partial(), copy=False) if self.has_partial else decoded

    @property
    def pair_columns(self) -> list[SQL]:
        """A place is one of a unit and its key."""
        return [*super().pair_columns, *([column(PLACE)] if self.ranks else [])]

    def select_rows(self, values: Mapping[str, SQL]) -> exp.Select:
        """One row per row that may count: unit, code of the key, place, and these values."""
        ranked = self.dictionaries[0]
        code, place = source_column(ranked.code), source_column(ranked.place)
        rows = self.select_source([code], {**values, **({PLACE: place} if self.ranks else {})})
        if not self.bounded.ranks_groups or not self.counts_all:
            return self.restrict_codes(rows, {0: code})
        early: SQL = exp.LTE(this=place.copy(), expression=int_literal(self.bounded.max_groups))
        if self.has_partial:
            early = exp.or_(early, _is_in(source_column(self.prepared.unit_code), UNIT, PARTIAL), copy=False)
        return rows.where(early, copy=False)

    def rank_pairs(self, pairs: exp.Identifier, grouped: exp.Select) -> exp.Query:
        """Rank the groups of partial units, if only these have groups that are not listed."""
        ranked = exp.select(exp.Star(), alias(self.rank_groups(exp.RowNumber()), RANK), copy=False)
        ranked = ranked.from_(exp.Table(this=pairs.copy()), copy=False)
        if not self.has_partial:
            return ranked
        partial = _is_in(column(UNIT), UNIT, PARTIAL)
        ranked = self.restrict_codes(ranked.where(partial, copy=False), {0: self.keys[0]})
        whole = exp.select(exp.Star(), alias(cast(column(PLACE), exp.DType.BIGINT), RANK), copy=False)
        whole = whole.from_(exp.Table(this=pairs.copy()), copy=False).where(exp.Not(this=partial.copy()), copy=False)
        return exp.union(whole, ranked, distinct=False, copy=False)

    def hash_order(self, *names: str) -> exp.Order:
        """The order of places; a second key keeps DuckDB from another plan, which takes longer."""
        return exp.Order(expressions=[exp.Ordered(this=column(name)) for name in (PLACE, *self.key_names)])

    def _select_partial(self) -> exp.Select:
        """The units with a row whose key is not listed."""
        unit, code = source_column(self.prepared.unit_code), source_column(self.dictionaries[0].code)
        units = exp.select(alias(unit, UNIT), copy=False)
        units = units.from_(exp.alias_(self.source.copy(), SOURCE, table=True, quoted=True), copy=False)
        units = units.where(exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())), copy=False)
        return units.where(exp.Not(this=_is_in(code, "key", _listed(0))), copy=False).distinct(copy=False)


def _listed(index: int) -> str:
    """The name of the step with the listed keys of a grouping."""
    return f"listed{index}"


def _is_in(value: SQL, name: str, step: str) -> SQL:
    """Whether a value that is not NULL is in a column of a step, which is never NULL either."""
    return exp.In(this=value, query=exp.select(column(name), copy=False).from_(step, copy=False).subquery(copy=False))


# -- what a prepared table is made of --------------------------------------------------------------------------------------


def lower_unit_hash(table: Table, unit: SQL, part: Part, dialect: Dialect) -> SQL:
    """The hash of a unit as it is stored: mod P, which changes no order."""
    order = OrderHash(table.salt, dialect)
    return order.mix(order.hash_unit(unit, part), int_literal(0))


def lower_places(table: Table, name: str, source: exp.Expr, columns: PreparedColumns, dialect: Dialect) -> exp.Select:
    """The statement for the place of every key of a column among the keys of its unit: unit code, key and place."""
    query = ast.Query(table.name, (("n", CountRows()),), groups=(ast.Grouping(name, ast.Ref(name)),))
    statement = _PlacesStatement(BoundedQuery(query, table, Neighbours.ADD_REMOVE, 1, 1, None), source, columns, dialect)
    at_kept, at_pairs = (statement.steps[name] for name in ("kept", "pairs"))
    pairs = exp.select(*statement.pair_columns, copy=False).from_(at_kept, copy=False)
    pairs = pairs.group_by(*statement.pair_columns, copy=False)
    ranked = statement.rank_pairs(at_pairs, pairs)
    result = exp.select(column(UNIT), alias(statement.keys[0], "key"), alias(column(RANK), PLACE), copy=False)
    result = result.from_(ranked.subquery("ranked", copy=False), copy=False)
    return result.with_(at_kept, as_=statement.select_rows({}), copy=False).with_(at_pairs, as_=pairs, copy=False)


class _PlacesStatement(PreparedStatement):
    """A statement in which every key has a place, NULL included, whatever is declared."""

    def __init__(self, bounded: BoundedQuery, source: exp.Expr, columns: PreparedColumns, dialect: Dialect) -> None:
        super().__init__(bounded, source, columns, dialect, uses_codes=False)
        self.stores_hash = True

    def select_rows(self, values: Mapping[str, SQL]) -> exp.Select:
        """Every row of a real unit: unit, key, and these values."""
        return self.select_source([self.lowering.lower_key(group.value) for group in self.bounded.query.groups], values)
