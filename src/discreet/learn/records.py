"""Records: what a fit reads once it is paid, from arrays and frames or from a session's table.

A *record* is one row of features, with its target. Records are handed over unread: `check` looks at names and types of
columns before the charge, `read` returns the integers of the rows after it. A record whose target is missing, or not one of
the declared classes, stays in its place and contributes nothing: dropping it by an error would tell that it exists.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.learn.features import (
    CategoryFeature,
    ColumnSource,
    Design,
    Features,
    Ints,
    Name,
    Target,
    to_column,
)
from discreet.query.schema import ROW


@dataclass(frozen=True, eq=False)
class Rows:
    """The integers of the records. They are private: nothing of them leaves but sums with noise."""

    design: Design
    target: Ints  # the position of the class, or a number on the grid; 0 where there is none
    present: NDArray[np.bool_]  # which records have a target; the others contribute nothing

    def __repr__(self) -> str:
        return "Rows (private)"


class Records(ABC):
    """What `fit` gets. It has no length, no rows to look at, and is not copied."""

    max_rows: int = 1
    """How many records one unit has at most."""
    unit: str = ROW
    """The privacy unit, in words."""

    @abstractmethod
    def check(self, features: Features, target: Target) -> None:
        """Refuse columns that are missing, not declared or of a wrong type. No value decides it."""

    @abstractmethod
    def read(self, features: Features, target: Target) -> Rows:
        """Return the rows. Only a fit that is paid calls it."""

    @property
    def columns(self) -> tuple[Name, ...]:
        """The names of the columns of features, or their positions in an array."""
        return ()

    @property
    def target_name(self) -> str | None:
        """The column of a table that is predicted; None where the targets have no name."""
        return None

    def check_target(self) -> None:
        """Refuse records of a table without a column to predict, before anything is read from what is declared."""
        return

    def declared_bounds(self) -> Mapping[str, tuple[Any, Any]] | None:
        """The bounds of columns that a policy declares, for a model that declares none; None where there is no policy."""
        return None

    def declared_categories(self) -> Mapping[str, tuple[Any, ...]] | None:
        """The categories of columns that a policy declares, likewise."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__} (private)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise BadParameter("records", "to be pickled or copied", "the rows are private", "hand the records to fit()")


class ArrayRecords(Records):
    """Rows that the caller holds: a frame, a dict of columns, or an array, and the targets beside it.

    Each row is one unit, or each unit has at most `max_rows` rows: that is the caller's word, and nothing checks it.
    """

    def __init__(self, features: Any, target: Any = None, *, max_rows: int = 1) -> None:
        self._table, self._target, self.max_rows = ColumnSource.of(features), target, max_rows

    @property
    def columns(self) -> tuple[Name, ...]:
        """As in `Records`."""
        return tuple(range(self._table.count)) if self._table.names is None else self._table.names

    def check(self, features: Features, target: Target) -> None:
        """As in `Records`; and refuse targets that are missing, or of another length."""
        features.check(self._table)
        rows = self._table.rows
        if target is None:
            return
        if self._target is None:
            raise BadParameter(
                "y", "None", "requires y to be passed, but the target y is None", "give the targets: fit(X, y)"
            )
        column = self._flatten()
        if column.ndim != 1:
            raise BadParameter("y", "no column", f"y should be a 1d array, got {column.ndim} dimensions", "give one column")
        if len(column) != rows:
            raise BadParameter("y", "of another length than X", "each row has one target", "give as many as there are rows")

    def _flatten(self) -> NDArray[Any]:
        column = to_column(self._target)
        return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column

    def read(self, features: Features, target: Target) -> Rows:
        """As in `Records`."""
        return encode_rows(features.encode(self._table.data), target, None if target is None else self._flatten())


def encode_rows(design: Design, target: Target, cells: Any) -> Rows:
    """Return rows whose targets are integers."""
    if target is None:
        return Rows(design, np.zeros(design.rows, np.int64), np.ones(design.rows, np.bool_))
    if isinstance(target, CategoryFeature):
        codes = target.encode(cells).astype(np.int64)
        present = codes < len(target.keys)
        return Rows(design, np.where(present, codes, 0), present)
    steps, present = target.encode_present(cells)
    return Rows(design, steps.astype(np.int64), present)


def to_records(features: Any, target: Any = None) -> Records:
    """Return what `fit(X, y)` or `fit(records)` is given as records."""
    if isinstance(features, Records):
        if target is not None:
            raise BadParameter("y", "given", "the records have their own target", "name it: records(…, target=…)")
        return features
    return ArrayRecords(features, target)


__all__ = ["ArrayRecords", "Records", "Rows", "encode_rows", "to_records"]
