"""What goes over HTTP: quotes, answers, costs, budgets and tables as plain JSON values, and back.

**What is promised.** For every value x here, reading what was written gives the same class with the same fields, so that it
prints, draws and is post-processed alike on both machines; `remote.problems` promises the same of errors. Exact rationals
travel as texts ("3/8"), an infinite double as "inf", dates and times marked (`query.record.key_to_json`), events by `codec`.
Beside the exact fields, a cost states its ε as doubles, for programs in other languages; readers here ignore them.

**Threat.** A service that was taken over, or a machine in its place, sends whatever it likes. Every message is read with
limits on its size and depth (`remote.plain`), into types that were checked, and every text that is shown is made printable.
Nothing that is read names a class, a path or a statement that would be run. Both sides use this module, so it imports no
engine and no ledger.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from discreet import codec
from discreet._numbers import Bounds
from discreet.accounting.cost import Budget, Cost, Remaining
from discreet.accounting.currencies import Currency, parse_currency
from discreet.errors import BadEventEncoding, BadParameter, DiscreetError
from discreet.events import Composition, Event
from discreet.query import ast
from discreet.query.answer import Answer
from discreet.query.calibrate import ColumnAccuracy
from discreet.query.estimates import AnswerColumn
from discreet.query.policy import read_policy, write_policy
from discreet.query.quote import Quote
from discreet.query.record import LedgerReference, from_record, key_from_json, key_to_json, to_record
from discreet.query.schema import DEFAULT_SALT, Column, Key, Kind, PublicTable, Table
from discreet.remote.plain import (
    amount_from_plain,
    amount_to_plain,
    malformed,
    number_from_plain,
    number_to_plain,
    rational_from_plain,
    rational_to_plain,
    to_shown_text,
    to_struct,
)
from discreet.remote.problems import from_problem, to_problem

__all__ = [
    "answer_from_wire", "answer_to_wire", "budget_from_wire", "budget_to_wire", "cost_from_wire", "cost_to_wire",
    "from_problem", "quote_from_wire", "quote_to_wire", "remaining_from_wire", "remaining_to_wire", "table_from_wire",
    "table_to_wire", "to_problem",
]  # fmt: skip

Plain: TypeAlias = dict[str, Any]
PlainNumber: TypeAlias = int | float | str


# --- events and costs


def event_to_wire(event: Event) -> Plain:
    """Return an event as the plain values that the codec writes."""
    plain: Plain = msgspec.json.decode(codec.encode(event))
    return plain


def event_from_wire(value: Any) -> Event:
    """Return the event of plain values; refuse what the codec would not have written."""
    try:
        return codec.decode(msgspec.json.encode(value))
    except (BadEventEncoding, msgspec.MsgspecError, TypeError, RecursionError):
        raise malformed("not an event") from None


def _composition_from_wire(value: Any) -> Composition:
    event = event_from_wire(value)
    if not isinstance(event, Composition):
        raise malformed("not the event of an answer")
    return event


class _CostWire(msgspec.Struct, frozen=True):
    kind: str
    delta: str
    currency: str
    amount: PlainNumber
    remaining: str
    limit: str
    event: dict[str, Any] | None = None  # none beside bounds: the event of the answer or quote that it belongs to
    bounds: tuple[PlainNumber, PlainNumber] | None = None


def cost_to_wire(cost: Cost, event: Event | None = None) -> Plain:
    """Return a cost, or a budget, as plain values. An event that is sent beside it is not repeated."""
    basis = cost.event_or_bounds
    plain: Plain = {
        "kind": "budget" if isinstance(cost, Budget) else "cost",
        "delta": rational_to_plain(cost.delta),
        "currency": cost.currency.name,
        "amount": amount_to_plain(cost.amount),
        "remaining": rational_to_plain(cost.remaining),
        "limit": rational_to_plain(cost.limit),
        "epsilon": cost.to_dict()["epsilon"],  # for people and programs in other languages
    }
    if isinstance(basis, Bounds):
        return plain | {"bounds": [number_to_plain(basis.lower), number_to_plain(basis.upper)]}
    return plain if basis == event else plain | {"event": event_to_wire(basis)}


def cost_from_wire(value: Any, event: Event | None = None) -> Cost:
    """Return the cost, or the budget, that `cost_to_wire` wrote."""
    wire = to_struct(value, _CostWire, "a cost")
    basis: Event | Bounds
    if wire.bounds is not None:
        lower, upper = map(number_from_plain, wire.bounds)
        if not 0 <= lower <= upper:
            raise malformed("the bounds of a cost")
        basis = Bounds(lower, upper)
    elif wire.event is not None:
        basis = event_from_wire(wire.event)
    elif event is not None:
        basis = event
    else:
        raise malformed("a cost without an event")
    limit = rational_from_plain(wire.limit)
    if limit <= 0:
        raise malformed("a budget of nothing")
    make = {"cost": Cost, "budget": Budget}.get(wire.kind)
    if make is None:
        raise malformed("neither a cost nor a budget")
    return make(
        basis, _read_delta(wire.delta), _read_currency(wire.currency), amount_from_plain(wire.amount),
        rational_from_plain(wire.remaining), limit,
    )  # fmt: skip


def budget_to_wire(budget: Budget) -> Plain:
    """Return a budget as plain values."""
    return cost_to_wire(budget)


def budget_from_wire(value: Any) -> Budget:
    """Return the budget that `budget_to_wire` wrote."""
    budget = cost_from_wire(value)
    if not isinstance(budget, Budget):
        raise malformed("not a budget")
    return budget


class _RemainingWire(msgspec.Struct, frozen=True):
    epsilon: str
    delta: str
    currency: str
    amount: str
    limit: str


def remaining_to_wire(remaining: Remaining) -> Plain:
    """Return what remains as plain values."""
    exact = {name: rational_to_plain(getattr(remaining, name)) for name in ("epsilon", "delta", "amount", "limit")}
    return exact | {"currency": remaining.currency.name}


def remaining_from_wire(value: Any) -> Remaining:
    """Return what `remaining_to_wire` wrote."""
    wire = to_struct(value, _RemainingWire, "what remains of a budget")
    limit = rational_from_plain(wire.limit)
    if limit <= 0:
        raise malformed("a budget of nothing")
    amount, epsilon = rational_from_plain(wire.amount), rational_from_plain(wire.epsilon)
    return Remaining(epsilon, _read_delta(wire.delta), _read_currency(wire.currency), amount, limit)


def _read_delta(text: str) -> Fraction:
    delta = rational_from_plain(text)
    if not 0 <= delta < 1:
        raise malformed("a δ that is no probability")
    return delta


def _read_currency(name: str) -> Currency:
    try:
        return parse_currency(name[:100])
    except BadParameter:
        raise malformed("an unknown currency") from None


# --- quotes


class _AccuracyWire(msgspec.Struct, frozen=True):
    column: str
    noise: list[tuple[str, str]]
    half_widths: list[tuple[int | None, PlainNumber]]
    relative_to: list[tuple[int | None, PlainNumber]]
    unit: str = ""


class _QuoteWire(msgspec.Struct, frozen=True):
    query: str
    cost: dict[str, Any]
    event: dict[str, Any]
    confidence: float
    columns: list[_AccuracyWire]
    selection: str | None
    explanation: str
    notes: list[str]


def quote_to_wire(quote: Quote) -> Plain:
    """Return a quote as plain values."""
    return {
        "query": quote.query_text,
        "cost": cost_to_wire(quote.cost, quote.event),
        "event": event_to_wire(quote.event),
        "confidence": float(quote.confidence),
        "columns": [
            {
                "column": each.column,
                "noise": [list(pair) for pair in each.noises],
                "half_widths": [[size, number_to_plain(value)] for size, value in each.half_widths],
                "relative_to": [[size, number_to_plain(value)] for size, value in each.relative_to],
                "unit": each.unit,
            }
            for each in quote.columns
        ],
        "selection": quote.selection,
        "explanation": quote.explanation,
        "notes": list(quote.notes),
    }


def quote_from_wire(value: Any) -> Quote:
    """Return the quote that `quote_to_wire` wrote."""
    wire = to_struct(value, _QuoteWire, "a quote")
    event = _composition_from_wire(wire.event)
    columns = tuple(
        ColumnAccuracy(
            each.column,
            tuple((to_shown_text(statistic), to_shown_text(noise)) for statistic, noise in each.noise),
            _read_sizes(each.half_widths),
            _read_sizes(each.relative_to),
            to_shown_text(each.unit),
        )
        for each in wire.columns
    )
    if not 0 < wire.confidence < 1:
        raise malformed("a confidence that is no probability")
    return Quote(
        wire.query, cost_from_wire(wire.cost, event), event, wire.confidence, columns,
        None if wire.selection is None else to_shown_text(wire.selection), to_shown_text(wire.explanation),
        tuple(map(to_shown_text, wire.notes)),
    )  # fmt: skip


def _read_sizes(pairs: list[tuple[int | None, PlainNumber]]) -> tuple[tuple[int | None, float], ...]:
    return tuple((size, number_from_plain(value)) for size, value in pairs)


# --- answers


PlainKey: TypeAlias = str | int | bool | dict[str, str] | None
PlainEstimate: TypeAlias = tuple[PlainNumber, PlainNumber, PlainNumber, bool]


class _RecordWire(msgspec.Struct, frozen=True):
    groups: list[str]
    columns: list[str]
    rows: list[tuple[list[PlainKey], list[PlainEstimate]]]
    confidence: float
    simultaneous: bool
    tainted: bool
    explanation: str
    known_least: list[str | None]
    counted: list[bool]
    additive: list[bool]
    selected: bool
    pipeline: list[str]


class _ColumnWire(msgspec.Struct, frozen=True):
    name: str
    lower_limit: str | None = None
    is_count: bool = False
    is_additive: bool = False
    fixed_total: str | None = None
    unit: str = ""
    joint_margin: str | None = None


class _ReferenceWire(msgspec.Struct, frozen=True):
    entry: int
    measurement: dict[str, Any]
    changes: dict[str, Any] | None = None
    record: dict[str, Any] | None = None
    after: list[int] = []


class _AnswerWire(msgspec.Struct, frozen=True):
    record: dict[str, Any]
    columns: list[_ColumnWire]
    event: dict[str, Any]
    cost: dict[str, Any] | None = None
    charged: bool = True
    reference: _ReferenceWire | None = None
    notes: list[str] = []
    view: dict[str, Any] = {}
    view_note: str = ""
    outside_note: str = ""


def answer_to_wire(answer: Answer) -> Plain:
    """Return an answer as plain values: its record, event and cost, and what is public about its columns."""
    shown = _to_plain_record(to_record(answer))
    return {
        "record": shown,
        "columns": [_column_to_wire(each) for each in answer.schema],
        "event": event_to_wire(answer.event),
        "cost": None if answer.cost is None else cost_to_wire(answer.cost, answer.event),
        "charged": answer.charged,
        "reference": None if answer.reference is None else _reference_to_wire(answer.reference, shown),
        "notes": list(answer.notes),
        "view": _view_to_wire(answer.view),
        "view_note": answer.view_note,
        "outside_note": answer.outside_note,
    }


def answer_from_wire(value: Any) -> Answer:
    """Return the answer that `answer_to_wire` wrote."""
    wire = to_struct(value, _AnswerWire, "an answer")
    event = _composition_from_wire(wire.event)
    record = _read_record(wire.record)
    schema = tuple(map(_column_from_wire, wire.columns))
    if [each.name for each in schema] != record["columns"]:
        raise malformed("the columns of an answer")
    answer = _to_answer(record, event)
    reference = None if wire.reference is None else _reference_from_wire(wire.reference, wire.record)
    return replace(
        answer,
        schema=schema,
        explanation=to_shown_text(answer.explanation),
        pipeline=tuple(map(to_shown_text, answer.pipeline)),
        cost=None if wire.cost is None else cost_from_wire(wire.cost, event),
        charged=wire.charged,
        reference=reference,
        notes=tuple(map(to_shown_text, wire.notes)),
        view=_view_from_wire(wire.view),
        view_note=to_shown_text(wire.view_note),
        outside_note=to_shown_text(wire.outside_note),
    )


def _to_answer(record: Mapping[str, Any], event: Composition) -> Answer:
    try:
        return from_record(record, event)
    except (BadEventEncoding, BadParameter, ArithmeticError, ValueError):
        raise malformed("the record of an answer") from None


def _to_plain_record(record: Mapping[str, Any]) -> Plain:
    """Return a record that JSON can hold: tuples as lists, infinite ends as texts."""
    if "rows" not in record:
        return dict(record)
    rows = [[keys, [[*map(number_to_plain, each[:3]), each[3]] for each in row]] for keys, row in record["rows"]]
    return dict(record) | {"rows": rows}


def _read_record(value: Any) -> Plain:
    """Return a record whose types and lengths were checked."""
    wire = to_struct(value, _RecordWire, "the record of an answer")
    width = len(wire.columns)
    lengths = {len(wire.known_least), len(wire.counted), len(wire.additive), width}
    if len(lengths) > 1 or any(len(keys) != len(wire.groups) or len(row) != width for keys, row in wire.rows):
        raise malformed("an answer whose rows have other columns")
    for each in wire.known_least:
        if each is not None:
            _read_short_rational(each)
    rows = [[keys, [[*map(number_from_plain, each[:3]), each[3]] for each in row]] for keys, row in wire.rows]
    return {name: getattr(wire, name) for name in wire.__struct_fields__} | {"rows": rows}


def _read_short_rational(text: str) -> Fraction:
    """Return a rational as `str` writes it, which leaves out a denominator of 1."""
    return rational_from_plain(text if "/" in text else f"{text}/1")


def _column_to_wire(column: AnswerColumn) -> Plain:
    def write(exact: Fraction | None) -> str | None:
        return None if exact is None else rational_to_plain(exact)

    return {
        "name": column.name,
        "lower_limit": write(column.lower_limit),
        "is_count": column.is_count,
        "is_additive": column.is_additive,
        "fixed_total": write(column.fixed_total),
        "unit": column.unit,
        "joint_margin": write(column.joint_margin),
    }


def _column_from_wire(wire: _ColumnWire) -> AnswerColumn:
    def read(text: str | None) -> Fraction | None:
        return None if text is None else rational_from_plain(text)

    return AnswerColumn(
        wire.name, read(wire.lower_limit), wire.is_count, wire.is_additive, read(wire.fixed_total), wire.unit,
        read(wire.joint_margin),
    )  # fmt: skip


def _reference_to_wire(reference: LedgerReference, shown: Plain) -> Plain:
    """Return where the answer is kept. Of the record, only what differs from the answer that is shown beside it."""
    recorded = _to_plain_record(reference.record)
    plain: Plain = {
        "entry": reference.entry, "measurement": dict(reference.measurement), "after": list(reference.after),
    }  # fmt: skip
    if recorded.keys() != shown.keys():
        return plain | {"record": recorded}
    return plain | {"changes": {name: each for name, each in recorded.items() if each != shown[name]}}


def _reference_from_wire(wire: _ReferenceWire, shown: Plain) -> LedgerReference:
    if wire.record is not None:
        recorded = wire.record
    else:
        changed = {name: each for name, each in (wire.changes or {}).items() if name in shown}
        recorded = _read_record({name: shown[name] for name in _RecordWire.__struct_fields__ if name in shown} | changed)
    return LedgerReference(wire.entry, wire.measurement, recorded, tuple(wire.after))


# --- views


class _ViewWire(msgspec.Struct, frozen=True):
    having: dict[str, Any] | None = None
    order_by: list[tuple[str, bool, bool]] = []
    limit: int | None = None
    offset: int = 0
    hidden: list[str] = []


def _view_to_wire(view: ast.View) -> Plain:
    return {
        "having": None if view.having is None else _node_to_wire(view.having),
        "order_by": [[key.column, key.descending, key.nulls_first] for key in view.order_by],
        "limit": view.limit,
        "offset": view.offset,
        "hidden": list(view.hidden),
    }


def _view_from_wire(value: Any) -> ast.View:
    wire = to_struct(value, _ViewWire, "a view")
    having = None if wire.having is None else _node_from_wire(wire.having)
    if isinstance(having, ast.Ref | ast.Number | ast.Constant):
        raise malformed("a HAVING that is no condition")
    keys = tuple(ast.SortKey(*key) for key in wire.order_by)
    return ast.View(having, keys, wire.limit, wire.offset, tuple(wire.hidden))


_Operand: TypeAlias = ast.Ref | ast.Number | ast.Constant
_Node: TypeAlias = ast.Condition | _Operand


def _node_to_wire(node: Any) -> Plain:
    """Return a HAVING as plain values: comparisons of columns of the answer with constants and each other."""
    match node:
        case ast.Ref(column=name):
            return {"column": name}
        case ast.Number(value=exact):
            return {"number": rational_to_plain(exact)}
        case ast.Constant(value=key):
            return {"constant": key_to_json(key)}
        case ast.Compare(order=order, left=left, right=right):
            return {"compare": order.value, "value": _node_to_wire(left), "with": _node_to_wire(right)}
        case ast.OneOf(value=inner, among=among):
            return {"one_of": _node_to_wire(inner), "among": [_node_to_wire(each) for each in among]}
        case ast.Missing(value=inner):
            return {"missing": _node_to_wire(inner)}
        case ast.Like(value=inner, pattern=pattern):
            return {"like": _node_to_wire(inner), "pattern": pattern}
        case ast.All(parts=parts):
            return {"all": [_node_to_wire(each) for each in parts]}
        case ast.Any(parts=parts):
            return {"any": [_node_to_wire(each) for each in parts]}
        case ast.Not(part=part):
            return {"not": _node_to_wire(part)}
    raise BadEventEncoding(f"no wire form for {type(node).__name__} in HAVING", "show the whole answer")


def _node_from_wire(value: Any) -> _Node:
    """Return the node that `_node_to_wire` wrote; the depth was checked before."""
    match value:
        case {"column": str(name)}:
            return ast.Ref(name)
        case {"number": str(text)}:
            return ast.Number(rational_from_plain(text))
        case {"constant": key}:
            return ast.Constant(_read_key(key))
        case {"compare": str(order), "value": left, "with": right}:
            if order not in {each.value for each in ast.Order}:
                raise malformed("a comparison")
            return ast.Compare(ast.Order(order), _read_column(left), _read_operand(right))
        case {"one_of": inner, "among": [*among]}:
            constants = tuple(_read_operand(each) for each in among)
            if any(isinstance(each, ast.Ref) for each in constants):
                raise malformed("a list of constants")
            return ast.OneOf(_read_column(inner), constants)  # type: ignore[arg-type]
        case {"missing": inner}:
            return ast.Missing(_read_column(inner))
        case {"like": inner, "pattern": str(pattern)}:
            return ast.Like(_read_column(inner), pattern)
        case {"all": [*parts]}:
            return ast.All(tuple(_read_condition(each) for each in parts))
        case {"any": [*parts]}:
            return ast.Any(tuple(_read_condition(each) for each in parts))
        case {"not": part}:
            return ast.Not(_read_condition(part))
    raise malformed("a HAVING of an unknown kind")


def _read_operand(value: Any) -> _Operand:
    node = _node_from_wire(value)
    if not isinstance(node, ast.Ref | ast.Number | ast.Constant):
        raise malformed("a condition in place of a value")
    return node


def _read_column(value: Any) -> ast.Ref:
    node = _node_from_wire(value)
    if not isinstance(node, ast.Ref):
        raise malformed("a comparison without a column")
    return node


def _read_condition(value: Any) -> ast.Condition:
    node = _node_from_wire(value)
    if isinstance(node, ast.Ref | ast.Number | ast.Constant):
        raise malformed("a value in place of a condition")
    return node


def _read_key(value: Any) -> Key:
    try:
        return key_from_json(value)
    except (BadEventEncoding, ValueError):
        raise malformed("a key of an unknown kind") from None


# --- tables


class _PublicColumnWire(msgspec.Struct, frozen=True):
    kind: str
    lower: PlainKey = None
    upper: PlainKey = None
    keys: list[PlainKey] | None = None


class _PublicTableWire(msgspec.Struct, frozen=True):
    name: str
    columns: dict[str, _PublicColumnWire]
    unique: list[str]
    digest: str


class _TableWire(msgspec.Struct, frozen=True):
    policy: str
    public: list[_PublicTableWire] = []


def table_to_wire(table: Table) -> Plain:
    """Return what is declared about a table as plain values: its policy without the salt, and its public tables."""
    return {"policy": write_public_policy(table), "public": [*map(_public_to_wire, table.public.values())]}


def write_public_policy(table: Table) -> str:
    """Return the policy of a table without the salt, which is the owner's secret.

    >>> secret = read_policy('table = "t"\\nunit = "id"\\nsalt = "correct horse"\\n[columns.id]\\nkind = "integer"')
    >>> "salt" in write_public_policy(secret), read_policy(write_public_policy(secret)).name
    (False, 't')
    """
    text = write_policy(replace(table, salt=DEFAULT_SALT))
    return "".join(line for line in text.splitlines(keepends=True) if line != f'salt = "{DEFAULT_SALT}"\n')


def table_from_wire(value: Any) -> Table:
    """Return the table that `table_to_wire` wrote, with the salt that everybody knows."""
    wire = to_struct(value, _TableWire, "a table")
    try:
        table = read_policy(wire.policy)
        return replace(table, salt=DEFAULT_SALT, public={each.name: _public_from_wire(each) for each in wire.public})
    except (DiscreetError, RecursionError, ValueError):
        raise malformed("not a policy") from None


def _public_to_wire(table: PublicTable) -> Plain:
    return {
        "name": table.name,
        "columns": {
            name: {
                "kind": column.kind.value,
                "lower": _bound_to_wire(column.lower),
                "upper": _bound_to_wire(column.upper),
                "keys": None if column.keys is None else [*map(key_to_json, column.keys)],
            }
            for name, column in table.columns.items()
        },
        "unique": sorted(table.unique),
        "digest": table.digest,
    }


def _public_from_wire(wire: _PublicTableWire) -> PublicTable:
    columns = {
        name: Column(
            Kind(each.kind), _bound_from_wire(each.lower), _bound_from_wire(each.upper),
            None if each.keys is None else tuple(map(_read_key, each.keys)),
        )
        for name, each in wire.columns.items()
    }  # fmt: skip
    return PublicTable(wire.name, columns, frozenset(wire.unique), wire.digest)


def _bound_to_wire(bound: Fraction | date | None) -> Any:
    return rational_to_plain(bound) if isinstance(bound, Fraction) else key_to_json(bound)


def _bound_from_wire(value: Any) -> Fraction | date | None:
    if isinstance(value, str):
        return rational_from_plain(value)
    bound = _read_key(value)
    if bound is not None and not isinstance(bound, date):
        raise malformed("a bound of an unknown kind")
    return bound
