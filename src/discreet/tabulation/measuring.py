"""One debit for all tables of a tabulation: reserve, read the cells once, sum them up, add noise, record.

The exact tables are sums of the same cells, in 64-bit integers, and are gone when `measure` returns. What is recorded, and
what may be published, are the noisy tables: every estimate follows from them.

What is measured is a whole table or a contrast of binary columns. Contrasts are measured under add/remove alone, where their
sensitivity is that of whole tables: if a unit is replaced, it is larger (`query/cells.py`), and the plan has none. The event
is right in both cases: `make_event` asks for the sensitivity of what is measured.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from zlib import compress, decompress

import numpy as np

from discreet.accounting.currencies import Receipt
from discreet.errors import BadEventEncoding
from discreet.events import Composition, compose
from discreet.mechanisms import DiscreteGaussian, Gaussian
from discreet.noise import SYSTEM, Bits
from discreet.query.answer import IntervalOptions
from discreet.query.cells import BoundedCells, CellBlock
from discreet.query.schema import Key, Table
from discreet.session.executor import Executor, Job, RunOptions
from discreet.tabulation.margins import (
    AnyMeasured,
    Contrast,
    Ints,
    Margin,
    Measured,
    axes_of,
    columns_of,
    count_cells,
    shape_of,
    take_contrast,
)
from discreet.units import Sensitivity

Noise = Gaussian | DiscreteGaussian
MAX_EXACT = 1 << 53
"""Doubles count exactly below this."""

LAWS: dict[str, type[Noise]] = {"rounded Gaussian": Gaussian, "discrete Gaussian": DiscreteGaussian}
"""What the laws of noise are called in records and files."""


def name_law(noise: Noise) -> str:
    """Return what a law of noise is called in records and files."""
    return next(name for name, law in LAWS.items() if isinstance(noise, law))


def sum_cells(blocks: Iterable[CellBlock], sizes: Sequence[int], measured: Iterable[AnyMeasured]) -> dict[AnyMeasured, Ints]:
    """Return the exact table of each margin, and each contrast.

    Tables that no other of these contains are counted from the cells; the others are summed from the smallest that contains
    them, which gives the same integers.
    """
    wanted = [*dict.fromkeys(measured)]
    by_length = sorted(set(map(columns_of, wanted)), key=lambda margin: (-len(margin), margin))
    largest = [a for a in by_length if not any(set(a) < set(b) for b in by_length)]
    tables = {margin: np.zeros(count_cells(sizes, margin), np.int64) for margin in largest}
    for block in blocks:
        count = choose_counting(block.counts)
        columns = [np.ascontiguousarray(block.codes[:, i]) for i in range(len(sizes))]
        for margin, table in tables.items():
            table += count(number_cells(columns, sizes, margin, len(block)), len(table))
    found = {margin: table.reshape(shape_of(sizes, margin)) for margin, table in tables.items()}
    for margin in by_length:
        if margin not in found:
            whole = min((each for each in found if set(margin) < set(each)), key=lambda each: found[each].size)
            found[margin] = np.asarray(found[whole].sum(axis=tuple(k for k, i in enumerate(whole) if i not in margin)))
    return {
        each: take_contrast(found[columns_of(each)], columns_of(each), each.columns)
        if isinstance(each, Contrast)
        else found[columns_of(each)]
        for each in wanted
    }


def number_cells(columns: Sequence[Ints], sizes: Sequence[int], margin: Margin, rows: int) -> Ints:
    """The number of the cell of a table that each row belongs to, the last column changing first."""
    if not margin:
        return np.zeros(rows, np.int64)
    first, *others = margin
    place = columns[first]
    for i in others:
        place = place * sizes[i]
        place += columns[i]
    return place


def choose_counting(counts: Ints) -> Callable[[Ints, int], Ints]:
    """How counts are added up by cell: as they are, or as doubles where these count exactly, which is quicker."""
    if (counts == 1).all():
        return lambda place, cells: np.bincount(place, minlength=cells)
    if float(np.abs(counts).sum(dtype=np.float64)) < MAX_EXACT / 2:
        return lambda place, cells: np.bincount(place, weights=counts, minlength=cells).astype(np.int64)

    def add(place: Ints, cells: int) -> Ints:
        table = np.zeros(cells, np.int64)
        np.add.at(table, place, counts)
        return table

    return add


@dataclass(frozen=True)
class TabulationJob(Job[dict[Measured, Ints]]):
    """What one debit pays for: all noisy tables."""

    bounded: BoundedCells
    noises: Mapping[Measured, Noise]
    event: Composition
    spec: Mapping[str, Any]
    certified_delta: Fraction = Fraction(0)
    after: tuple[int, ...] = ()

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.bounded.table

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each column of the cells has."""
        return self.bounded.keys.sizes

    def measure(
        self, executor: Executor, paid: Receipt, options: RunOptions, intervals: IntervalOptions
    ) -> dict[Measured, Ints]:
        """Read the cells once, sum them up, and add the noise that the receipt paid for."""
        paid.spend(make_event(self.bounded, self.noises))
        with executor.read(options.progress):
            exact = sum_cells(executor.engine.read_cells(self.bounded), self.sizes, self.noises)
        bits: Bits = SYSTEM if options.bits is None else options.bits
        return {measured: noise.release(exact.pop(measured), bits) for measured, noise in self.noises.items()}

    def to_record(self, result: dict[Measured, Ints]) -> dict[str, Any]:
        """Return the noisy tables as plain values: margins, noise, and cells as compressed 64-bit integers."""
        return {
            "sizes": list(self.sizes),
            "step": str(self.bounded.step),
            "measured": [
                {**measured_to_json(measured), **noise_to_json(self.noises[measured]), "cells": pack(table)}
                for measured, table in result.items()
            ],
        }

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> dict[Measured, Ints]:
        """Return what `to_record` wrote."""
        return {
            measured: unpack(each["cells"], shape_of(self.sizes, axes_of(measured)))
            for each in record["measured"]
            for measured in [measured_from_json(each)]
        }

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say how a recorded answer differs: it is no tabulation, or one of other tables."""
        if "measured" not in record:
            return ["it is of a query, and this is a tabulation"]
        found = {measured_from_json(each) for each in record["measured"]}
        same = record["sizes"] == list(self.sizes) and found == set(self.noises)
        return [] if same else ["its tables are others"]


def make_event(bounded: BoundedCells, noises: Mapping[AnyMeasured, Noise]) -> Composition:
    """Return the event of measuring these tables: one independent noise per cell, one event per table."""
    return compose(*(noise.event(sensitivity_of(bounded, measured)) for measured, noise in noises.items()))


def sensitivity_of(bounded: BoundedCells, measured: Measured) -> Sensitivity:
    """Return how far one unit moves a whole table or a contrast; the proofs are in `query/cells.py`."""
    if isinstance(measured, Contrast):
        return bounded.contrast_sensitivity(measured.by)
    return bounded.margin_sensitivity(measured)


def measured_to_json(measured: Measured) -> dict[str, list[int]]:
    """Return what is measured as plain values: the columns that the table is by, and those that it is a contrast of.

    >>> measured_to_json((0, 1)), measured_to_json(Contrast((1,), (0,)))
    ({'margin': [0, 1]}, {'margin': [0], 'contrast': [1]})
    """
    own = {"contrast": list(measured.columns)} if isinstance(measured, Contrast) else {}
    return {"margin": list(axes_of(measured)), **own}


def measured_from_json(record: Mapping[str, Any]) -> Measured:
    """Return what `measured_to_json` wrote."""
    margin = tuple(record["margin"])
    return Contrast(tuple(record["contrast"]), margin) if "contrast" in record else margin


def describe_measured(
    measured: Measured,
    columns: Sequence[str],
    keys: Sequence[Sequence[Key]],
    quote: Callable[[str], str] = str,
) -> str:
    """Say what is measured in words: by which columns, or the difference between which keys.

    >>> describe_measured((1,), ["sex", "age"], [("F", "M"), range(3)]), describe_measured((), [], [])
    ('age', 'everybody')
    >>> describe_measured(Contrast((0,), (1,)), ["sex", "age"], [("F", "M"), range(3)])
    'difference between sex=F and sex=M, by age'
    """
    by = ", ".join(quote(columns[i]) for i in axes_of(measured))
    if not isinstance(measured, Contrast):
        return by or "everybody"
    differences = [
        "difference between " + " and ".join(quote(f"{columns[i]}={key}") for key in keys[i]) for i in measured.columns
    ]
    return " of the ".join(differences) + (f", by {by}" if by else "")


def noise_to_json(noise: Noise) -> dict[str, str]:
    """Return a noise as plain values; σ as a fraction."""
    return {"law": name_law(noise), "sigma": str(noise.sigma)}


def noise_from_json(record: Mapping[str, Any]) -> Noise:
    """Return what `noise_to_json` wrote."""
    try:
        return LAWS[record["law"]](Fraction(record["sigma"]))
    except (KeyError, ValueError, ZeroDivisionError):
        raise BadEventEncoding("the noise of a measured table is unknown", "update discreet") from None


def pack(table: Ints) -> str:
    """Return integers as text.

    >>> unpack(pack(np.array([[1, -2], [3, 4]])), (2, 2)).tolist()
    [[1, -2], [3, 4]]
    """
    return b64encode(compress(np.ascontiguousarray(table, "<i8").tobytes())).decode()


def unpack(text: str, shape: tuple[int, ...]) -> Ints:
    """Return what `pack` wrote."""
    return np.frombuffer(decompress(b64decode(text)), "<i8").astype(np.int64).reshape(shape)
