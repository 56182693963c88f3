"""An answer as plain values that can be kept and read back, and what it was measured by, for a ledger to remember.

Nothing here says anything about the data but the answer itself: no hash of it, no time, no count of rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from typing import Any

from discreet.errors import BadFact
from discreet.loss import Composition
from discreet.mechanisms import Gaussian
from discreet.query.cells import Cell
from discreet.query.measure import Measurement
from discreet.query.measures import Total, in_words
from discreet.query.release import Release
from discreet.query.table import Column, Key, Table
from discreet.query.write import written


@dataclass(frozen=True, slots=True)
class Paper:
    """What stands in the account for an answer: its entry, what was measured, and the answer as it was recorded.

    `after` are the entries whose answers it rests on: the count that its price was found by, the bounds that were found.
    """

    entry: int
    measurement: Mapping[str, Any]
    recorded: Mapping[str, Any]
    after: tuple[int, ...] = ()


def described(planned: Measurement, source: str, label: str | None = None) -> dict[str, Any]:
    """Everything that decides what is measured: the same of it is the same question. A label tells apart what one source
    holds at different times; without one nothing is said, so that what was recorded before there were labels is found."""
    bounded = planned.bounded
    labelled: dict[str, Any] = {} if label is None else {"label": label}
    labelled |= {"adjusted_after_looking": True} if bounded.table.adjusted_after_looking else {}
    return labelled | {
        "source": source,
        "table": bounded.table.name,
        "question": written(bounded.query, bounded.table.unit),
        "keys": None if bounded.keys is None else _hashed([[to_plain(key) for key in keys] for keys in bounded.keys]),
        "unit": bounded.table.unit,
        "neighbours": bounded.neighbours.definition,
        "max_groups": bounded.groups,
        "max_rows": bounded.rows,
        "policy": policy_hash(bounded.table),
        "bounds": {
            name: [str(column.lower), str(column.upper)]
            for name, column in sorted(bounded.table.columns.items())
            if column.lower is not None
        },
        "noise": [_noise(planned, i) for i in range(len(planned.noises))],
        "selection": None if planned.selection is None else [str(planned.selection.scale), planned.selection.threshold],
    }


def _noise(planned: Measurement, i: int) -> dict[str, Any]:
    measure, noise = planned.noises[i]
    grid = planned.bounded.span(measure).grid ** measure.power if isinstance(measure, Total) else Fraction(1)
    width = noise.sigma if isinstance(noise, Gaussian) else noise.scale
    return {"total": in_words(measure), "mechanism": type(noise).__name__, "scale": str(width), "grid": str(grid)}


def policy_hash(table: Table) -> str:
    """The hash of all that is declared about a table, the salt and the public tables included; but for its `least_epsilon`,
    which refuses queries and changes no measurement."""
    public = {name: [lookup.digest, _columns(lookup.columns)] for name, lookup in sorted(table.public.items())}
    return _hashed(
        [table.name, table.unit, _columns(table.columns), table.max_groups, table.max_rows, table.unique, table.salt, public]
    )


def _columns(columns: Mapping[str, Column]) -> list[Any]:
    return [
        [
            name,
            column.kind.value,
            str(column.lower),
            str(column.upper),
            None if column.keys is None else [*map(to_plain, column.keys)],
        ]
        for name, column in sorted(columns.items())
    ]


def _hashed(value: Any) -> str:
    return sha256(repr(value).encode()).hexdigest()


def to_plain(key: Key) -> Any:
    """A key as JSON has it; dates and times are told from texts."""
    if isinstance(key, datetime):
        return {"time": key.isoformat()}
    return {"date": key.isoformat()} if isinstance(key, date) else key


def from_plain(value: Any) -> Key:
    """The key that was written.

    >>> from_plain(to_plain(date(2024, 2, 29))), from_plain(to_plain("2024-02-29"))
    (datetime.date(2024, 2, 29), '2024-02-29')
    """
    match value:
        case {"time": str(text)}:
            return datetime.fromisoformat(text)
        case {"date": str(text)}:
            return date.fromisoformat(text)
        case None | str() | int() | bool():
            return value
    raise BadFact("a recorded answer holds a key of no known kind", "read it with the version that wrote it")


def to_record(answer: Release) -> dict[str, Any]:
    """The answer as plain values."""
    return {
        "groups": list(answer.groups),
        "columns": list(answer.columns),
        "rows": [
            [[*map(to_plain, keys)], [[c.value, c.lower, c.upper, c.reliable] for c in row]] for keys, row in answer.rows
        ],
        "confidence": float(answer.confidence),
        "simultaneous": answer.simultaneous,
        "tainted": answer.tainted,
        "explanation": answer.explanation,
        "known_least": [None if least is None else str(least) for least in answer.known_least],
        "counted": list(answer.counted),
        "additive": list(answer.additive),
        "selected": answer.selected,
        "pipeline": list(answer.pipeline),
    }


def from_record(record: Mapping[str, Any], loss: Composition) -> Release:
    """The answer that was recorded."""
    try:
        return Release(
            groups=tuple(record["groups"]),
            columns=tuple(record["columns"]),
            rows=tuple((tuple(map(from_plain, keys)), tuple(Cell(*cell) for cell in row)) for keys, row in record["rows"]),
            confidence=record["confidence"],
            loss=loss,
            explanation=record["explanation"],
            tainted=record["tainted"],
            simultaneous=record["simultaneous"],
            known_least=tuple(None if least is None else Fraction(least) for least in record["known_least"]),
            counted=tuple(record["counted"]),
            additive=tuple(record["additive"]),
            selected=record["selected"],
            pipeline=tuple(record["pipeline"]),
        )
    except (KeyError, TypeError, ValueError):
        raise BadFact(
            "a recorded answer is not one that this version writes", "read it with the one that wrote it"
        ) from None
