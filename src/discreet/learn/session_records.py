"""Records of a session's table: rows that the engine reads after the debit, at most so many for each unit.

**Contribution bounding.** A unit with more rows than `max_rows` keeps those with the smallest salted hash of the unit and
the row itself, so what it keeps depends on its own rows alone. Rows without a unit do not count. Where the policy says that
every unit has one row, or that each row is a unit, all rows are kept, as for queries.

**Splitting.** `split` divides the units, not the rows, by a salted hash of the unit: each unit is wholly in one of the two
parts, and adding a unit moves no other from one part to the other. Both parts are charged to the same account, and add up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from discreet._numbers import Number, check_int, to_rational
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.learn.charging import Fit, Fitted, Released, finish
from discreet.learn.features import Design, Features, Target
from discreet.learn.records import Records, Rows, encode_rows
from discreet.query.answer import IntervalOptions
from discreet.query.schema import Column, Table, suggest_name
from discreet.session.executor import SEEDED, Executor, Job, RunOptions
from discreet.session.session import Session

SPLIT_STEPS = 1 << 64


@dataclass(frozen=True)
class Part:
    """Some of the units: those whose hash lies in a range."""

    lower: Fraction = Fraction(0)
    upper: Fraction = Fraction(1)

    @property
    def is_whole(self) -> bool:
        """Whether all units are in it."""
        return self.lower == 0 and self.upper == 1

    def holds(self, salt: str, unit: Any) -> bool:
        """Return whether a unit is in it. It depends on the unit alone."""
        place = int.from_bytes(hash_cells(salt, "split", (unit,))[:8], "big")
        return self.lower * SPLIT_STEPS <= place < self.upper * SPLIT_STEPS


def hash_cells(salt: str, purpose: str, cells: Sequence[Any]) -> bytes:
    """Return a salted hash of cells. The length of each precedes it, so that two inputs never run together."""
    digest = blake2b(digest_size=16)
    for part in (salt, purpose, *(f"{type(cell).__name__}:{cell}" for cell in cells)):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


class SessionRecords(Records):
    """What `session.records(…)` returns: columns of a table that only `fit` reads, once it is paid."""

    def __init__(self, session: Session, columns: tuple[str, ...], target: str | None, max_rows: int, part: Part) -> None:
        self.session, self._columns, self._target_column, self._part = session, columns, target, part
        self.max_rows, self.unit = max_rows, session.table.unit

    def __repr__(self) -> str:
        predicted = "" if self._target_column is None else f", target {self._target_column}"
        return f"Records of {self.session.table.name}: {', '.join(self._columns)}{predicted} (private)"

    @property
    def _table(self) -> Table:
        return self.session.table

    def split(self, test: Number | str = "1/5") -> "tuple[SessionRecords, SessionRecords]":
        """Return two parts, disjoint by unit: the rest, and this share of the units. Fits on both are debits that add up."""
        if not self._table.unit_columns:
            raise BadParameter("unit", "row", "a row has no key by which it stays in its part", "name a column as the unit")
        share = Fraction(test) if isinstance(test, str) else to_rational(test, "test")
        if not 0 < share < 1:
            raise BadParameter("test", test, "not a share", 'give one between 0 and 1, such as "1/5"')
        cut = self._part.upper - share * (self._part.upper - self._part.lower)
        halves = Part(self._part.lower, cut), Part(cut, self._part.upper)
        first, second = (
            SessionRecords(self.session, self._columns, self._target_column, self.max_rows, each) for each in halves
        )
        return first, second

    # -- what the policy declares -----------------------------------------------------------------------------------------

    def declared_bounds(self) -> Mapping[str, tuple[Any, Any]]:
        """The bounds of the columns of numbers."""
        found = {name: self._table.columns[name].number_bounds for name in self._columns}
        return {name: bounds for name, bounds in found.items() if bounds is not None}

    def declared_categories(self) -> Mapping[str, tuple[Any, ...]]:
        """The keys of the columns without bounds."""
        columns = {name: self._table.columns[name] for name in self._columns}
        return {name: each.keys for name, each in columns.items() if each.keys and each.number_bounds is None}

    @property
    def target_name(self) -> str | None:
        """As in `Records`."""
        return self._target_column

    @property
    def target_keys(self) -> tuple[Any, ...] | None:
        """The declared keys of what is predicted, unless it has bounds."""
        column = self._declared_target
        return None if column is None or column.number_bounds is not None else column.keys

    @property
    def target_bounds(self) -> tuple[Any, Any] | None:
        """The declared bounds of what is predicted."""
        return None if self._declared_target is None else self._declared_target.number_bounds

    @property
    def _declared_target(self) -> Column | None:
        return None if self._target_column is None else self._table.columns[self._target_column]

    def check(self, features: Features, target: Target) -> None:
        """As in `Records`: every column has bounds or categories, from the model or from the policy."""
        for name in self._columns:
            if name not in features.names:
                raise BadParameter(
                    "bounds", repr(name), "neither the policy nor the model declares bounds or keys of this column",
                    f'give the model bounds={{"{name}": (0, 100)}} or categories={{"{name}": (…)}}, or declare them in the '
                    "policy",
                )  # fmt: skip
        extra = [name for name in features.names if name not in self._columns]
        if extra:
            reason = "not among the columns of the records"
            raise BadParameter("bounds", repr(extra[0]), reason, suggest_name(extra[0], self._columns))
        if target is not None:
            self.check_target()

    def check_target(self) -> None:
        """As in `Records`."""
        if self._target_column is None:
            raise BadParameter("target", "missing", "the model predicts a column", 'name it: records(…, target="left")')

    # -- reading ----------------------------------------------------------------------------------------------------------

    def read(self, features: Features, target: Target) -> Rows:
        """Refused here: the executor reads, in `FitJob`."""
        raise AssertionError("records of a session are read by its executor")

    def read_rows(self, executor: Executor, features: Features, target: Target) -> Rows:
        """Return the rows that count, as integers. Called once the fit is paid."""
        names = [*features.names, *([] if target is None else [self._target_column])]
        table = self._table
        kept = self._bound_units(executor.engine.read_records(table, [str(name) for name in names]), table)
        columns = [[*column] for column in zip(*kept, strict=True)] if kept else [[] for _ in names]
        cells = dict(zip(features.names, columns, strict=False))
        design: Design = features.encode(cells)
        return encode_rows(design, target, columns[-1] if target is not None else None)

    def _bound_units(self, rows: Any, table: Table) -> list[tuple[Any, ...]]:
        """At most `max_rows` rows for each unit of this part, chosen by the hash of the unit and the row."""
        salt = table.salt
        if not self._part.is_whole:
            held: dict[Any, bool] = {}
            rows = ((unit, cells) for unit, cells in rows if _remember(held, unit, self._part, salt))
        if table.unique:
            return [cells for _, cells in rows]
        by_unit: dict[Any, list[tuple[Any, ...]]] = {}
        for unit, cells in rows:
            by_unit.setdefault(unit, []).append(cells)
        kept: list[tuple[Any, ...]] = []
        for unit, owned in by_unit.items():
            if len(owned) > self.max_rows:
                owned = sorted(owned, key=lambda cells: hash_cells(salt, "row", (unit, *cells)))[: self.max_rows]
            kept += owned
        return kept

    def run(self, fit: Fit, options: RunOptions) -> Fitted:
        """Reserve, read and release, record: as a job of the session's executor."""
        executor, plan = self.session.executor, fit.plan
        spec = fit.describe() | self.describe(executor) | SEEDED[options.tainted]
        job = FitJob(self, fit, plan.event, spec, plan.terms.certified_delta)
        execution = executor.execute(job, options, IntervalOptions(0.95))
        return finish(fit, execution.answers, execution.reference, execution.receipt, options)

    def describe(self, executor: Executor) -> dict[str, Any]:
        """Say which rows are read, as far as their source is known."""
        from discreet.units import invariants_to_json

        found: dict[str, Any] = {
            "source": executor.engine.identity if executor.identity is None else executor.identity,
            "label": executor.label,
            "table": self._table.name,
            "columns": list(self._columns),
            "predicted": self._target_column,
            "part": [str(self._part.lower), str(self._part.upper)],
        }
        if executor.invariants:
            found["invariants"] = invariants_to_json(executor.invariants)
        return found if executor.policy is None else found | {"policy": executor.policy}


def _remember(held: dict[Any, bool], unit: Any, part: Part, salt: str) -> bool:
    if unit not in held:
        held[unit] = part.holds(salt, unit)
    return held[unit]


@dataclass(frozen=True)
class FitJob(Job[Released]):
    """What one debit pays for: all that a fit releases."""

    records: SessionRecords
    fit: Fit
    event: Composition
    spec: Mapping[str, Any]
    certified_delta: Fraction = Fraction(0)
    after: tuple[int, ...] = ()

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.records.session.table

    def measure(self, executor: Executor, paid: Receipt, options: RunOptions, intervals: IntervalOptions) -> Released:
        """Read the rows, and release what the receipt paid for."""
        paid.spend(self.event)
        with executor.read(options.progress):
            rows = self.records.read_rows(executor, self.fit.features, self.fit.target)
        return self.fit.release(rows, options.bits)

    def to_record(self, result: Released) -> dict[str, Any]:
        """Return what was released as plain values."""
        return self.fit.to_record(result)

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> Released:
        """Return what `to_record` wrote."""
        return self.fit.from_record(record)

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say how a recorded answer differs: it is no fit, or one of another model."""
        if "fitted" not in record:
            return ["it is of a query, and this is a fit"]
        found = {name: tuple(each["shape"]) for name, each in record["fitted"].items()}
        return [] if found == dict(self.fit.shapes) else ["it is of another model"]


def make_records(session: Session, columns: Sequence[str], target: str | None, max_rows: int) -> SessionRecords:
    """Return records of a session's table; refuse columns that the policy does not have."""
    known = session.table.columns
    if not columns:
        raise BadParameter("columns", "missing", "records have features", 'name them: session.records("age", "pay")')
    for name in (*columns, *([] if target is None else [target])):
        if not isinstance(name, str) or name not in known:
            raise BadParameter("columns", repr(name), "not a column of the table", suggest_name(name, known))
        if name in session.table.unit_columns:
            raise BadParameter("columns", repr(name), "it identifies the privacy unit", "leave it out")
    if len(set(columns)) < len(columns) or target in columns:
        raise BadParameter("columns", ", ".join(map(repr, columns)), "a column is named twice", "name each column once")
    return SessionRecords(session, tuple(columns), target, check_int(max_rows, "max_rows", 1), Part())


__all__ = ["SessionRecords", "make_records"]
