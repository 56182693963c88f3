"""An answer as plain values that a ledger records and reads back, and the specification of what was measured.

Nothing here depends on the data but the answer itself: no hash of the rows, no time, no count of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from typing import Any

from discreet.errors import BadEventEncoding
from discreet.events import Composition
from discreet.mechanisms import Gaussian
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.ast import to_sql
from discreet.query.calibrate import Measurement
from discreet.query.cells import KeyProduct
from discreet.query.contribution import FIRST_BOUNDING, BoundedQuery
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.schema import Column, Key, Table


@dataclass(frozen=True, slots=True)
class LedgerReference:
    """Where an account keeps an answer: its entry, what was measured, and the answer as it was recorded.

    `after` are the entries whose answers it rests on: a pilot count, discovered bounds.
    """

    entry: int
    measurement: Mapping[str, Any]
    record: Mapping[str, Any]
    after: tuple[int, ...] = ()


def measurement_spec(measurement: Measurement, source: str, label: str | None = None) -> dict[str, Any]:
    """Return everything that decides what is measured: two measurements with the same specification are the same one."""
    return bounded_spec(measurement.bounded, source, label) | noise_spec(measurement)


def bounded_spec(bounded: BoundedQuery, source: str, label: str | None = None) -> dict[str, Any]:
    """Return everything that decides the exact statistics.

    A label tells apart what one source holds at different times. What is absent or false by default is left out, so that
    answers recorded before it existed are found.
    """
    optional: dict[str, Any] = {} if label is None else {"label": label}
    optional |= {"adjusted_after_looking": True} if bounded.table.adjusted_after_looking else {}
    optional |= {"bounding": bounded.bounding} if bounded.is_ordered and bounded.bounding != FIRST_BOUNDING else {}
    return optional | {
        "source": source,
        "table": bounded.table.name,
        "question": to_sql(bounded.query, bounded.table.unit),
        "keys": hash_keys(bounded.keys),
        "unit": bounded.table.unit,
        "neighbours": bounded.neighbours.definition,
        "max_groups": bounded.max_groups,
        "max_rows": bounded.max_rows,
        "policy": policy_hash(bounded.table),
        "bounds": {
            name: [str(column.lower), str(column.upper)]
            for name, column in sorted(bounded.table.columns.items())
            if column.lower is not None
        },
    }


def drop_bounding(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification, of a measurement or of a workload, that the first version of contribution bounding wrote."""
    first = {name: value for name, value in spec.items() if name != "bounding"}
    return first | {"plan": [*map(drop_bounding, spec["plan"])]} if "plan" in spec else first


def noise_spec(measurement: Measurement) -> dict[str, Any]:
    """Return everything that decides the noise."""
    bounded, selection = measurement.bounded, measurement.selection
    return {
        "noise": [
            {
                "total": statistic.name,
                "mechanism": type(noise).__name__,
                "scale": str(noise.sigma if isinstance(noise, Gaussian) else noise.scale),
                "grid": str(statistic.step_size(bounded.table)),
            }
            for statistic, noise in measurement.noises
        ],
        "selection": None if selection is None else [str(selection.scale), selection.threshold],
    }


def hash_keys(keys: Sequence[tuple[Key, ...]] | None) -> str | None:
    """Return the hash of all combinations of keys; of a product, which may be too long to be listed, that of its columns."""
    if isinstance(keys, KeyProduct):
        return _hash_repr({"product": [[key_to_json(key) for key in column] for column in keys.columns]})
    return None if keys is None else _hash_repr([[key_to_json(key) for key in combination] for combination in keys])


def policy_hash(table: Table) -> str:
    """Return the hash of all that is declared about a table, the salt and the public tables included; not of its
    `least_epsilon`, which refuses queries and changes no measurement."""
    public = {name: [each.digest, _list_columns(each.columns)] for name, each in sorted(table.public.items())}
    return _hash_repr(
        [
            table.name,
            table.unit,
            _list_columns(table.columns),
            table.max_groups,
            table.max_rows,
            table.unique,
            table.salt,
            public,
        ]
    )


def _list_columns(columns: Mapping[str, Column]) -> list[Any]:
    return [
        [
            name,
            column.kind.value,
            str(column.lower),
            str(column.upper),
            None if column.keys is None else [*map(key_to_json, column.keys)],
        ]
        for name, column in sorted(columns.items())
    ]


def _hash_repr(value: Any) -> str:
    return sha256(repr(value).encode()).hexdigest()


def key_to_json(key: Key) -> Any:
    """Return a key as JSON; dates and times are marked, so that they differ from texts."""
    if isinstance(key, datetime):
        return {"time": key.isoformat()}
    return {"date": key.isoformat()} if isinstance(key, date) else key


def key_from_json(value: Any) -> Key:
    """Return the key that `key_to_json` wrote.

    >>> key_from_json(key_to_json(date(2024, 2, 29))), key_from_json(key_to_json("2024-02-29"))
    (datetime.date(2024, 2, 29), '2024-02-29')
    """
    match value:
        case {"time": str(text)}:
            return datetime.fromisoformat(text)
        case {"date": str(text)}:
            return date.fromisoformat(text)
        case None | str() | int() | bool():
            return value
    raise BadEventEncoding("a recorded answer holds a key of an unknown kind", "read it with the version that wrote it")


def to_record(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values."""
    return {
        "groups": list(answer.groups),
        "columns": [each.name for each in answer.schema],
        "rows": [
            [[*map(key_to_json, keys)], [[e.value, e.lower, e.upper, e.reliable] for e in row]] for keys, row in answer.rows
        ],
        "confidence": answer.intervals.confidence,
        "simultaneous": answer.intervals.simultaneous,
        "tainted": answer.tainted,
        "explanation": answer.explanation,
        "known_least": [None if each.lower_limit is None else str(each.lower_limit) for each in answer.schema],
        "counted": [each.is_count for each in answer.schema],
        "additive": [each.is_additive for each in answer.schema],
        "selected": answer.keys_selected,
        "pipeline": list(answer.pipeline),
    }


def from_record(record: Mapping[str, Any], event: Composition, columns: tuple[AnswerColumn, ...] = ()) -> Answer:
    """Return the answer that `to_record` wrote, with what is recorded nowhere of its `columns`: what they count."""
    try:
        limits = [None if least is None else Fraction(least) for least in record["known_least"]]
        described = zip(record["columns"], limits, record["counted"], record["additive"], strict=True)
        shown = {each.name: (each.unit, each.histogram_of) for each in columns}
        return Answer(
            groups=tuple(record["groups"]),
            schema=tuple(
                AnswerColumn(*column, unit=unit, histogram_of=values)
                for column in described
                for unit, values in [shown.get(column[0], ("", ""))]
            ),
            rows=tuple(
                (tuple(map(key_from_json, keys)), tuple(Estimate(*each) for each in row)) for keys, row in record["rows"]
            ),
            intervals=IntervalOptions(record["confidence"], record["simultaneous"]),
            event=event,
            explanation=record["explanation"],
            tainted=record["tainted"],
            keys_selected=record["selected"],
            pipeline=tuple(record["pipeline"]),
        )
    except (KeyError, TypeError, ValueError):
        raise BadEventEncoding(
            "a recorded answer is not one that this version writes", "read it with the version that wrote it"
        ) from None
