"""What every statement begins with: the rows that count, and the order in which a unit's contributions are taken.

The rows of real units that pass WHERE, with their keys and their values in grid steps; unlisted keys are dropped here. The
order is that of a salted hash, which depends on nothing but the unit and the contribution itself.
"""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from discreet.query import ast
from discreet.query.contribution import BoundedQuery, grouping_keys
from discreet.query.schema import Key
from discreet.sql.dialects import Dialect
from discreet.sql.expressions import SOURCE, SQL, Lowering, alias, cast, column, key_literal, source_column

UNIT = "unit"
MANY_KEYS = 8
"""From so many keys on, an engine looks each row's key up in a table instead of comparing it with a few constants."""


def key_names(bounded: BoundedQuery) -> list[str]:
    """Our own names for the keys."""
    return [f"key{i}" for i in range(len(bounded.query.groups))]


def select_rows(bounded: BoundedQuery, source: exp.Expr, lowering: Lowering, values: Mapping[str, SQL]) -> exp.Select:
    """One row per row that counts: unit, keys, and these values."""
    table, query = bounded.table, bounded.query
    keys = [lowering.lower_key(group.value) for group in query.groups]
    columns = [alias(source_column(table.unit), UNIT)]
    columns += [alias(key, name) for key, name in zip(keys, key_names(bounded), strict=True)]
    columns += [alias(value, name) for name, value in values.items()]
    rows = exp.select(*columns).from_(exp.alias_(source, SOURCE, table=True, quoted=True, copy=False), copy=False)
    rows = rows.where(exp.Not(this=exp.Is(this=source_column(table.unit), expression=exp.Null())), copy=False)
    if query.where is not None:
        rows = rows.where(lowering.lower_where(query.where), copy=False)
    return rows if filters_keys_late(bounded) else rows.where(*_key_conditions(bounded, keys), copy=False)


def repartition_by_unit(rows: exp.Select) -> exp.Select:
    """The same rows, each unit's in one place: grouping by unit and ranking within it then move nothing more."""
    rows.set("hint", exp.Hint(expressions=[exp.Anonymous(this="REPARTITION", expressions=[column(UNIT)])]))
    return rows


def filters_keys_late(bounded: BoundedQuery) -> bool:
    """Whether unlisted keys are dropped after grouping, which is cheaper for a long list. It makes no difference to the
    totals where a unit has one row; where it has several, an unlisted group must not take a listed one's place."""
    return bounded.table.unique and bounded.keys is not None and len(bounded.keys) >= MANY_KEYS


def filter_keys(bounded: BoundedQuery, result: exp.Select) -> exp.Select:
    """The groups of a result whose keys are listed; the condition is wrapped, lest an engine move it below the grouping."""
    listed = exp.and_(*_key_conditions(bounded, [column(name) for name in key_names(bounded)]), copy=False)
    counted = exp.Not(this=exp.Is(this=column("total0"), expression=exp.Null()))
    late = exp.Case(ifs=[exp.If(this=counted, true=listed)], default=exp.false())
    return exp.select(exp.Star()).from_(result.subquery("grouped", copy=False), copy=False).where(late, copy=False)


def _key_conditions(bounded: BoundedQuery, keys: Sequence[SQL]) -> list[SQL]:
    """What holds of listed keys, for each grouping whose keys are known."""
    tests: list[SQL] = []
    for group, key in zip(bounded.query.groups, keys, strict=True):
        known = grouping_keys(group, bounded.table)
        if known is None:
            continue
        if group.keys is None and isinstance(group.value, ast.Bin):  # every bin between the bounds is listed
            tests.append(exp.Not(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
        else:
            tests.append(_is_among(known, key))
    return tests


def _is_among(known: Sequence[Key], key: SQL) -> SQL:
    present = [key_literal(k) for k in known if k is not None]
    tests: list[SQL] = [exp.In(this=key.copy(), expressions=present)] if present else []
    if None in known:
        tests.append(exp.Is(this=key.copy(), expression=exp.Null()))
    return exp.Paren(this=exp.or_(*tests, copy=False))


def needs_rank(bounded: BoundedQuery) -> bool:
    """Whether a unit may have more groups than it may keep."""
    return bool(bounded.query.groups) and (bounded.keys is None or len(bounded.keys) > bounded.max_groups)


def hash_order(bounded: BoundedQuery, dialect: Dialect, *names: str) -> exp.Order:
    """In the order of md5 of salt, unit and these columns, ties broken by the columns themselves. Each part of the hashed
    text is preceded by its length, so that no two inputs run together."""
    salt = bounded.table.salt
    parts = [exp.Literal.string(f"{len(salt)}:{salt}"), *_length_prefixed(UNIT)]  # a unit is never missing
    for name in names:
        missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=exp.Literal.string("-"))
        parts.append(exp.Case(ifs=[missing], default=dialect.concat(_length_prefixed(name))))
    hashed = dialect.order_bytewise(exp.MD5(this=dialect.concat(parts)))
    return exp.Order(expressions=[exp.Ordered(this=hashed), *(exp.Ordered(this=column(n)) for n in names)])


def _length_prefixed(name: str) -> list[SQL]:
    text = cast(column(name), exp.DType.VARCHAR)
    return [cast(exp.Length(this=text.copy()), exp.DType.VARCHAR), exp.Literal.string(":"), text]


def step_names(bounded: BoundedQuery, *names: str) -> list[exp.Identifier]:
    """Names for the steps of a statement: a step must not hide the table that it reads."""
    taken = bounded.table.name.lower()
    return [exp.to_identifier(f"{name}_" if name == taken else name) for name in names]
