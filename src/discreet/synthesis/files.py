"""Synthetic rows as frames and files that carry their warning.

Parquet has a place for it: the metadata of the schema, under the key `discreet`. CSV has none, and a comment line would
break readers, so the CSV file stays plain and a file of the same name plus `.json` lies beside it. That one is written
first: there is no moment at which rows lie there without it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import formats
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter
from discreet.synthesis.cells import check_codes
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.metrics import DistanceBounds
from discreet.text import to_printable

WARNING = (
    "Synthetic rows. They describe no person: they were drawn from a model of noisy tables. Standard errors, tests and "
    "intervals that treat them as a sample are wrong, because they leave out the noise and the error of the model. Take "
    "estimates from the noisy tables, which have intervals; of other tables of these rows it is not known how far they are "
    "from the data."
)
METADATA_KEY = "discreet"
MAX_SHOWN_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticTable:
    """Synthetic rows with names and keys of their columns.

    >>> table = SyntheticTable(np.array([[0, 1], [1, 0]]), ("sex", "age"), (("f", "m"), ("young", "old")))
    >>> print(table.to_csv())
    sex,age
    f,old
    m,young
    <BLANKLINE>
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    bounds: DistanceBounds | None = None
    tainted: bool = False
    """Whether seeded bits made the noise: then it is for tests, never for publication."""
    tables: tuple[NoisyTable, ...] = ()
    """The noisy tables that the rows were drawn from."""
    guarantee: tuple[str, ...] = ()
    """What one unit can change, and which ε holds for the rows."""
    cost: Cost | None = None
    """What the noisy tables cost; None if they were published before."""
    charged: bool = False
    """Whether anything was charged for them now."""

    def __post_init__(self) -> None:
        if not isinstance(self.codes, np.ndarray) or self.codes.dtype.kind not in "iu":
            raise BadParameter(
                "codes", type(self.codes).__name__, "not an array of integers", "give one row of codes per row"
            )
        shape = self.codes.shape
        if not (isinstance(self.names, tuple) and isinstance(self.keys, tuple)):
            raise BadParameter("names", repr(self.names), "not a tuple", "give tuples of names and of lists of keys")
        if len(shape) != 2 or shape[1] != len(self.names) or len(self.names) != len(self.keys):
            given = f"{len(self.names)} names and {len(self.keys)} lists of keys"
            raise BadParameter(
                "names", given, f"the rows have shape {shape}", "give one name and one list of keys per column"
            )
        twice = next((name for i, name in enumerate(self.names) if name in self.names[:i]), None)
        if twice is not None:
            raise BadParameter("names", repr(twice), "two columns have this name", "name one of them otherwise")
        check_codes(self.codes, tuple(map(len, self.keys)))

    @property
    def metadata(self) -> dict[str, Any]:
        """What the files say of themselves."""
        found: dict[str, Any] = {"synthetic": True, "warning": WARNING, "rows": len(self.codes)}
        if self.guarantee:
            found["guarantee"] = list(self.guarantee)
        if self.bounds is not None:
            found["distance"] = str(self.bounds)
        if self.tainted:
            found["tainted"] = "Made with reproducible bits: for tests, never for publication."
        return found

    def __len__(self) -> int:
        return len(self.codes)

    def list_notes(self) -> list[str]:
        """What the rows are, how far they are from the data at most, which guarantee holds, and what they cost."""
        bounds = [] if self.bounds is None else str(self.bounds).splitlines()
        paid = [] if self.cost is None else [str(self.cost) if self.charged else self.cost.describe_free()]
        return [WARNING, *bounds, *self.guarantee, *paid]

    def list_lines(self) -> list[str]:
        """The first rows, as people read them."""
        first = SyntheticTable(self.codes[:MAX_SHOWN_ROWS], self.names, self.keys).to_records()
        rows = [self.names, *([to_printable(str(key)) for key in row] for row in first)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.names))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        more = len(self) - MAX_SHOWN_ROWS
        return lines + ([f"… {more:,} more rows"] if more > 0 else [])

    def __repr__(self) -> str:
        return "\n".join([*self.list_lines(), "", *self.list_notes()])

    def _repr_html_(self) -> str:
        return formats.make_html_notes(repr(self).splitlines())

    def to_records(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of keys."""
        columns = (
            list(map(keys.__getitem__, column)) for keys, column in zip(self.keys, self.codes.T.tolist(), strict=True)
        )
        return list(zip(*columns, strict=True))

    def to_csv(self, path: Any = None) -> str:
        """Return CSV; with a path, write it there, and the warning beside it as `<path>.json`."""
        if path is not None:
            beside = Path(f"{path}.json")
            with formats.refuse_unwritable(beside):
                beside.write_text(json.dumps(self.metadata, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return formats.to_csv(self.names, self.to_records(), path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, with the warning in its `attrs`."""
        frame = formats.to_pandas(self.names, self.to_records())
        frame.attrs[METADATA_KEY] = self.metadata
        return frame

    def to_arrow(self) -> Any:
        """Return a table of Arrow, with the warning in the metadata of its schema."""
        table = formats.to_arrow(self.names, self.to_records())
        text = json.dumps(self.metadata, ensure_ascii=False)
        return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA_KEY: text})

    def to_parquet(self, path: Any) -> None:
        """Write a Parquet file, with the warning in the metadata of its schema."""
        table = self.to_arrow()
        from pyarrow import parquet

        with formats.refuse_unwritable(path):
            parquet.write_table(table, path)


def name_columns(sizes: Sequence[int]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Return names and keys for columns that have none: c0, c1 …, with their codes."""
    return tuple(f"c{place}" for place in range(len(sizes))), tuple(tuple(range(size)) for size in sizes)
