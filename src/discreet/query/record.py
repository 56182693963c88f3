"""An answer as plain values that can be kept and read back, and what it was measured by, for a ledger to remember.

Nothing here says anything about the data but the answer itself: no hash of it, no time, no count of rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from typing import Any

from discreet.errors import BadEventEncoding
from discreet.events import Composition
from discreet.mechanisms import Gaussian
from discreet.query.answer import Answer
from discreet.query.ast import to_sql
from discreet.query.calibrate import Measurement
from discreet.query.estimates import Estimate
from discreet.query.schema import Column, Key, Table
from discreet.query.statistics import CentredSum, statistic_name


@dataclass(frozen=True, slots=True)
class LedgerReference:
    """What stands in the account for an answer: its entry, what was measured, and the answer as it was recorded.

    `after` are the entries whose answers it rests on: the count that its price was found by, the bounds that were found.
    """

    entry: int
    measurement: Mapping[str, Any]
    record: Mapping[str, Any]
    after: tuple[int, ...] = ()


def measurement_spec(measurement: Measurement, source: str, label: str | None = None) -> dict[str, Any]:
    """Everything that decides what is measured: the same of it is the same question. A label tells apart what one source
    holds at different times; without one nothing is said, so that what was recorded before there were labels is found."""
    bounded = measurement.bounded
    labelled: dict[str, Any] = {} if label is None else {"label": label}
    labelled |= {"adjusted_after_looking": True} if bounded.table.adjusted_after_looking else {}
    return labelled | {
        "source": source,
        "table": bounded.table.name,
        "question": to_sql(bounded.query, bounded.table.unit),
        "keys": None if bounded.keys is None else _hash_repr([[key_to_json(key) for key in keys] for keys in bounded.keys]),
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
        "noise": [_noise_spec(measurement, i) for i in range(len(measurement.noises))],
        "selection": None
        if measurement.selection is None
        else [str(measurement.selection.scale), measurement.selection.threshold],
    }


def _noise_spec(measurement: Measurement, i: int) -> dict[str, Any]:
    measure, noise = measurement.noises[i]
    grid = measurement.bounded.grid_range(measure).grid ** measure.power if isinstance(measure, CentredSum) else Fraction(1)
    width = noise.sigma if isinstance(noise, Gaussian) else noise.scale
    return {"total": statistic_name(measure), "mechanism": type(noise).__name__, "scale": str(width), "grid": str(grid)}


def policy_hash(table: Table) -> str:
    """The hash of all that is declared about a table, the salt and the public tables included; but for its `least_epsilon`,
    which refuses queries and changes no measurement."""
    public = {name: [lookup.digest, _list_columns(lookup.columns)] for name, lookup in sorted(table.public.items())}
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
    """A key as JSON has it; dates and times are told from texts."""
    if isinstance(key, datetime):
        return {"time": key.isoformat()}
    return {"date": key.isoformat()} if isinstance(key, date) else key


def key_from_json(value: Any) -> Key:
    """The key that was written.

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
    raise BadEventEncoding("a recorded answer holds a key of no known kind", "read it with the version that wrote it")


def to_record(answer: Answer) -> dict[str, Any]:
    """The answer as plain values."""
    return {
        "groups": list(answer.groups),
        "columns": list(answer.columns),
        "rows": [
            [[*map(key_to_json, keys)], [[c.value, c.lower, c.upper, c.reliable] for c in row]] for keys, row in answer.rows
        ],
        "confidence": float(answer.confidence),
        "simultaneous": answer.simultaneous,
        "tainted": answer.tainted,
        "explanation": answer.explanation,
        "known_least": [None if least is None else str(least) for least in answer.lower_limits],
        "counted": list(answer.is_count),
        "additive": list(answer.additive),
        "selected": answer.keys_selected,
        "pipeline": list(answer.pipeline),
    }


def from_record(record: Mapping[str, Any], event: Composition) -> Answer:
    """The answer that was recorded."""
    try:
        return Answer(
            groups=tuple(record["groups"]),
            columns=tuple(record["columns"]),
            rows=tuple(
                (tuple(map(key_from_json, keys)), tuple(Estimate(*cell) for cell in row)) for keys, row in record["rows"]
            ),
            confidence=record["confidence"],
            event=event,
            explanation=record["explanation"],
            tainted=record["tainted"],
            simultaneous=record["simultaneous"],
            lower_limits=tuple(None if least is None else Fraction(least) for least in record["known_least"]),
            is_count=tuple(record["counted"]),
            additive=tuple(record["additive"]),
            keys_selected=record["selected"],
            pipeline=tuple(record["pipeline"]),
        )
    except (KeyError, TypeError, ValueError):
        raise BadEventEncoding(
            "a recorded answer is not one that this version writes", "read it with the one that wrote it"
        ) from None
