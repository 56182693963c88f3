"""What every statement begins with: the rows that count, and the order in which a unit's contributions are taken.

The rows of real units that pass WHERE, with their keys and their values in grid steps; unlisted keys are dropped here. The
order is that of a salted hash, which depends on nothing but the unit and the contribution itself.
"""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from discreet.query import plan
from discreet.query.bound import Bounded, keys_of
from discreet.query.table import Key
from discreet.sql.dialects import Dialect
from discreet.sql.values import SOURCE, SQL, Lowering, cast, column, constant, declared_column, named

UNIT = "unit"
MANY = 8
"""From so many keys on, an engine looks each row's key up in a table instead of comparing it with a few constants."""


def key_names(bounded: Bounded) -> list[str]:
    """Our own names for the keys."""
    return [f"key{i}" for i in range(len(bounded.query.groups))]


def kept_rows(bounded: Bounded, source: exp.Expr, write: Lowering, values: Mapping[str, SQL]) -> exp.Select:
    """One row per row that counts: unit, keys, and these values."""
    table, query = bounded.table, bounded.query
    keys = [write.key(group.value) for group in query.groups]
    columns = [named(declared_column(table.unit), UNIT)]
    columns += [named(key, name) for key, name in zip(keys, key_names(bounded), strict=True)]
    columns += [named(value, name) for name, value in values.items()]
    rows = exp.select(*columns).from_(exp.alias_(source, SOURCE, table=True, quoted=True, copy=False), copy=False)
    rows = rows.where(exp.Not(this=exp.Is(this=declared_column(table.unit), expression=exp.Null())), copy=False)
    if query.where is not None:
        rows = rows.where(write.where(query.where), copy=False)
    return rows if listed_late(bounded) else rows.where(*_listed(bounded, keys), copy=False)


def by_unit(rows: exp.Select) -> exp.Select:
    """The same rows, each unit's in one place: grouping by unit and ranking within it then move nothing more."""
    rows.set("hint", exp.Hint(expressions=[exp.Anonymous(this="REPARTITION", expressions=[column(UNIT)])]))
    return rows


def listed_late(bounded: Bounded) -> bool:
    """Whether unlisted keys are dropped after grouping, which is cheaper for a long list. It makes no difference to the
    totals where a unit has one row; where it has several, an unlisted group must not take a listed one's place."""
    return bounded.table.unique and bounded.keys is not None and len(bounded.keys) >= MANY


def only_listed(bounded: Bounded, result: exp.Select) -> exp.Select:
    """The groups of a result whose keys are listed; the condition is wrapped, lest an engine move it below the grouping."""
    listed = exp.and_(*_listed(bounded, [column(name) for name in key_names(bounded)]), copy=False)
    counted = exp.Not(this=exp.Is(this=column("total0"), expression=exp.Null()))
    late = exp.Case(ifs=[exp.If(this=counted, true=listed)], default=exp.false())
    return exp.select(exp.Star()).from_(result.subquery("grouped", copy=False), copy=False).where(late, copy=False)


def _listed(bounded: Bounded, keys: Sequence[SQL]) -> list[SQL]:
    """What holds of listed keys, for each grouping whose keys are known."""
    tests: list[SQL] = []
    for group, key in zip(bounded.query.groups, keys, strict=True):
        known = keys_of(group, bounded.table)
        if known is None:
            continue
        if group.keys is None and isinstance(group.value, plan.Bin):  # every bin between the bounds is listed
            tests.append(exp.Not(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
        else:
            tests.append(_among(known, key))
    return tests


def _among(known: Sequence[Key], key: SQL) -> SQL:
    present = [constant(k) for k in known if k is not None]
    tests: list[SQL] = [exp.In(this=key.copy(), expressions=present)] if present else []
    if None in known:
        tests.append(exp.Is(this=key.copy(), expression=exp.Null()))
    return exp.Paren(this=exp.or_(*tests, copy=False))


def needs_rank(bounded: Bounded) -> bool:
    """Whether a unit may have more groups than it may keep."""
    return bool(bounded.query.groups) and (bounded.keys is None or len(bounded.keys) > bounded.groups)


def by_hash(bounded: Bounded, dialect: Dialect, *names: str) -> exp.Order:
    """In the order of md5 of salt, unit and these columns, ties broken by the columns themselves. Each part of the hashed
    text is preceded by its length, so that no two inputs run together."""
    salt = bounded.table.salt
    parts = [exp.Literal.string(f"{len(salt)}:{salt}"), *_sized(UNIT)]  # a unit is never missing
    for name in names:
        missing = exp.If(this=exp.Is(this=column(name), expression=exp.Null()), true=exp.Literal.string("-"))
        parts.append(exp.Case(ifs=[missing], default=dialect.concat(_sized(name))))
    hashed = dialect.bytewise(exp.MD5(this=dialect.concat(parts)))
    return exp.Order(expressions=[exp.Ordered(this=hashed), *(exp.Ordered(this=column(n)) for n in names)])


def _sized(name: str) -> list[SQL]:
    text = cast(column(name), exp.DType.VARCHAR)
    return [cast(exp.Length(this=text.copy()), exp.DType.VARCHAR), exp.Literal.string(":"), text]


def own_names(bounded: Bounded, *names: str) -> list[exp.Identifier]:
    """Names for the steps of a statement: a step must not hide the table that it reads."""
    taken = bounded.table.name.lower()
    return [exp.to_identifier(f"{name}_" if name == taken else name) for name in names]
