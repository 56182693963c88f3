"""The tables of a tabulation: estimates that add up, with intervals, and display values beside them.

Two columns say how many. `estimate` is unbiased and may be negative; its interval covers the exact count of the bounded rows
with the stated confidence. `display` is a nonnegative whole number, and all display values add up; it is post-processing,
biased where counts are small, and may lie outside of the interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import formats
from discreet._numbers import nearest_float
from discreet.query.ast import Margin
from discreet.query.schema import Key
from discreet.tabulation.intervals import ErrorModel, find_ends, find_reliable
from discreet.tabulation.joint_display import display_tables
from discreet.tabulation.margins import Floats, Ints, Measured
from discreet.tabulation.residuals import combine
from discreet.text import to_printable

NO_DISPLAY_NOTE = (
    "There are no display values: the table of all columns, from which they would be summed, is too large. Tabulate fewer "
    "columns together, or also the table by all of them."
)
DISPLAY_NOTE = (
    "`display` is post-processing: nonnegative whole numbers that add up. It is biased where counts are small, and may lie "
    "outside of the interval, which belongs to `estimate`."
)
MAX_SHOWN_ROWS = 20


def explain_display(has_values: bool, step: Fraction) -> str:
    """Say what display values are, in steps of the grid, or why there are none."""
    if not has_values:
        return NO_DISPLAY_NOTE
    return DISPLAY_NOTE if step == 1 else DISPLAY_NOTE.replace("whole numbers", f"multiples of {nearest_float(step):.6g}")


@dataclass(frozen=True, repr=False)
class TabulatedTable:
    """One table: a cell per combination of keys, in the order of the declared keys, the last column changing first.

    Arrays have one axis per column. `print`, a shell and a notebook show the first rows.
    """

    name: str
    columns: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]  # of each column
    estimate: Floats
    sd: float  # the standard deviation of every estimate
    half_width: float  # of every interval, before its ends are rounded
    lower: NDArray[Any]
    upper: NDArray[Any]
    reliable: NDArray[np.bool_]
    display: NDArray[Any] | None
    confidence: float

    @property
    def header(self) -> tuple[str, ...]:
        """The flat columns of the table."""
        shown = () if self.display is None else ("display",)
        return (*self.columns, "estimate", "sd", "lower", "upper", "reliable", *shown)

    @property
    def records(self) -> list[tuple[Any, ...]]:
        """The rows under `header`."""
        return [*self.iter_records()]

    def iter_records(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows under `header`."""
        sds = np.full(self.estimate.size, self.sd)
        arrays = [
            self.estimate,
            sds,
            self.lower,
            self.upper,
            self.reliable,
            *([] if self.display is None else [self.display]),
        ]
        numbers = zip(*(array.ravel().tolist() for array in arrays), strict=True)
        return (keys + row for keys, row in zip(product(*self.keys), numbers, strict=True))

    def __len__(self) -> int:
        return int(self.estimate.size)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts under `header`, with `cv` beside them: sd/estimate, None unless the estimate is above 0."""
        place = self.header.index("reliable")
        names = (*self.header[:place], "cv", *self.header[place:])
        estimate, sd = self.header.index("estimate"), self.header.index("sd")
        return [
            dict(zip(names, (*row[:place], _compute_cv(row[estimate], row[sd]), *row[place:]), strict=True))
            for row in self.records
        ]

    def to_pandas(self) -> Any:
        """A pandas frame under `header`."""
        return formats.to_pandas(self.header, self.records)

    def to_polars(self) -> Any:
        """A Polars frame under `header`."""
        return formats.to_polars(self.header, self.records)

    def to_arrow(self) -> Any:
        """An Arrow table under `header`."""
        return formats.to_arrow(self.header, self.records)

    def to_csv(self, path: Any = None, *, spreadsheet: bool = False) -> str:
        """The table as CSV text, also written to `path` if one is given. `spreadsheet` escapes keys that a spreadsheet would
        run as formulas."""
        return formats.to_csv(self.header, self.records, path, spreadsheet=spreadsheet)

    def to_parquet(self, path: Any) -> None:
        """The table as a Parquet file."""
        formats.write_parquet(self.header, self.records, path)

    def list_lines(self) -> list[str]:
        """The first rows, as people read them: with the coefficient of variation (cv) of each cell, in percent, which is
        sd/estimate. It is of the noise alone, and there is none of an estimate that is not above 0."""
        place = self.header.index("reliable")
        rows = [(*self.header[:place], "cv", *self.header[place:]), *self._format_rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        more = len(self) - MAX_SHOWN_ROWS
        return lines + ([f"… {more:,} more rows"] if more > 0 else [])

    def _format_rows(self) -> Iterator[tuple[str, ...]]:
        for row, _ in zip(self.iter_records(), range(MAX_SHOWN_ROWS), strict=False):
            keys, (estimate, sd, *others) = row[: len(self.columns)], row[len(self.columns) :]
            shown = [*map(_format_number, (estimate, sd, *others))]
            shown.insert(4, format_cv(estimate, sd))
            yield (*(to_printable(str(key)) for key in keys), *shown)

    def __repr__(self) -> str:
        return "\n".join(self.list_lines())


def format_cv(estimate: float, sd: float) -> str:
    """Write the coefficient of variation of an estimate in percent, with two digits; nothing if it is not above 0.

    >>> format_cv(200.0, 5.0), format_cv(3.0, 5.0), format_cv(1e6, 5.0), format_cv(-3.0, 5.0)
    ('2.5%', '170%', '0.0005%', '')
    """
    cv = _compute_cv(estimate, sd)
    if cv is None:
        return ""
    percent = Decimal(f"{100 * cv:.1e}")
    return f"{percent.normalize():,f}%"


def _compute_cv(estimate: float, sd: float) -> float | None:
    """The coefficient of variation of the noise, sd/estimate; None if the estimate is not above 0."""
    return sd / estimate if estimate > 0 else None


def _format_number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def make_tables(
    names: Mapping[str, Margin],
    columns: Sequence[str],
    keys: Sequence[tuple[Key, ...]],
    measured: Mapping[Measured, Ints],
    errors: ErrorModel,
    confidence: float,
    step: Any = 1,
) -> dict[str, TabulatedTable]:
    """Return the tables with these names, estimated from the measured ones.

    It takes nothing but what was measured and what is public, so that anybody who has the measurements can repeat it. `step`
    is what one step of the grid is worth: 1 for counts.
    """
    sizes = tuple(map(len, keys))
    residuals = combine(sizes, measured, errors.variances)
    shown = display_tables(residuals, [*names.values()])
    scale = nearest_float(step)
    found = {}
    for name, margin in names.items():
        parts = errors.parts(margin)
        estimate, width = residuals.rebuild(margin), parts.half_width(confidence)
        lower, upper = find_ends(estimate, width, rounding_error=residuals.rounding_error(margin))
        reliable = find_reliable(estimate, width)
        found[name] = TabulatedTable(
            name, tuple(columns[i] for i in margin), tuple(keys[i] for i in margin), estimate * scale,
            sqrt(parts.variance) * scale, width * scale, lower if step == 1 else lower * scale,
            upper if step == 1 else upper * scale, reliable,
            None if shown is None else shown[margin] if step == 1 else shown[margin] * scale, confidence,
        )  # fmt: skip
    return found
