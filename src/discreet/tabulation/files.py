"""The files of a tabulation: its tables, and the noisy measurements from which anybody can repeat the estimation.

    NAME.csv, NAME.parquet   the tables: keys, estimate, sd, lower, upper, reliable, display
    measurements.parquet     every noisy table: table, cell, noisy (the exact sum plus noise, in steps of the grid)
    measurements.json        what they are: columns, keys, tables, the law and σ (a fraction) of each measured table

A measured table with a `contrast` holds, in each cell, the rows with the first key of each of these columns minus those with
the second (for two columns: the difference of these differences, and so on). Files with contrasts are of format 2, and
others of format 1, which is all that older versions read.

`measurements.json` names the hash of measurements.parquet. Everything in these files was paid for, or is public: the noisy
tables are what the account was charged for, and the estimates are post-processing of them. `reproduce` estimates the tables
again, from the measurements alone, and compares them with the files.

A cell of a table is numbered by the places of its keys, the last column changing first.
"""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from io import StringIO
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadParameter, SourceRefused
from discreet.formats import missing_library_error, to_csv, write_parquet
from discreet.paths import read_text
from discreet.query.record import key_from_json, key_to_json
from discreet.query.schema import Key
from discreet.tabulation.intervals import CountNoise, ErrorModel
from discreet.tabulation.margins import (
    Contrast,
    Ints,
    Margin,
    Measured,
    axes_of,
    check_margin,
    check_measured,
    count_cells,
    shape_of,
)
from discreet.tabulation.measuring import describe_measured, noise_from_json, noise_to_json
from discreet.tabulation.tables import TabulatedTable, make_tables
from discreet.tabulation.tabulation import Tabulation
from discreet.text import parse_json

FORMAT, CONTRAST_FORMAT = "discreet measurements 1", "discreet measurements 2"
DESCRIPTION_KEYS = frozenset(("format", "columns", "tables", "measured", "confidence", "step", "notes", "sha256"))
MEASURED_KEYS = frozenset(("by", "contrast", "words", "law", "sigma"))
MEASURED_TYPES = [("table", "int32"), ("cell", "int64"), ("noisy", "int64")]
LAST_DIGITS = 1e-9
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
DESCRIPTION_FILE, MEASUREMENTS_FILE = "measurements.json", "measurements.parquet"


@dataclass(frozen=True)
class Measurements:
    """Noisy tables with all that is needed to estimate from them; nothing in it is private."""

    columns: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]  # of each column
    tables: Mapping[str, Margin]  # the wanted tables by name
    noises: Mapping[Measured, CountNoise]  # of the measured tables
    measured: Mapping[Measured, Ints]
    confidence: float
    step: Fraction  # what one step of the grid is worth
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, tabulation: Tabulation) -> "Measurements":
        """Return those of a tabulation."""
        plan, wanted = tabulation.plan, tabulation.plan.wanted
        names = {table.name: margin for table, margin in zip(wanted.tables, wanted.margins, strict=True)}
        return cls(
            wanted.columns, wanted.bounded.keys.columns, names, plan.noises, tabulation.measured, plan.confidence, plan.step,
            tuple(tabulation.list_notes()),
        )  # fmt: skip

    def estimate(self) -> dict[str, TabulatedTable]:
        """Estimate all tables."""
        errors = ErrorModel(tuple(map(len, self.keys)), self.noises)
        return make_tables(self.tables, self.columns, self.keys, self.measured, errors, self.confidence, self.step)

    def describe(self) -> dict[str, Any]:
        """Return all but the noisy numbers, as plain values."""
        return {
            "format": CONTRAST_FORMAT if any(isinstance(each, Contrast) for each in self.noises) else FORMAT,
            "columns": [
                {"name": name, "keys": [*map(key_to_json, keys)]} for name, keys in zip(self.columns, self.keys, strict=True)
            ],
            "tables": {name: [self.columns[i] for i in margin] for name, margin in self.tables.items()},
            "measured": [{**self._name(each), **noise_to_json(noise)} for each, noise in self.noises.items()],
            "confidence": self.confidence,
            "step": str(self.step),
            "notes": list(self.notes),
        }

    def _name(self, measured: Measured) -> dict[str, Any]:
        """What was measured, by the names of columns; a contrast also in words."""
        by = [self.columns[i] for i in axes_of(measured)]
        if not isinstance(measured, Contrast):
            return {"by": by}
        words = describe_measured(measured, self.columns, self.keys)
        return {"by": by, "contrast": [self.columns[i] for i in measured.columns], "words": words}

    def write(self, folder: Path) -> None:
        """Write both files."""
        pa, parquet = _import_arrow()
        sizes = [self.measured[each].size for each in self.noises]
        columns = {
            "table": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            "cell": np.concatenate([np.arange(size, dtype=np.int64) for size in sizes]),
            "noisy": np.concatenate([self.measured[each].ravel() for each in self.noises]),
        }
        place = folder / MEASUREMENTS_FILE
        parquet.write_table(pa.table(columns), place, compression="zstd")
        described = self.describe() | {"sha256": sha256(place.read_bytes()).hexdigest()}
        text = json.dumps(described, ensure_ascii=False, indent=1) + "\n"
        (folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, folder: Path) -> "Measurements":
        """Read both files.

        Raises:
            SourceRefused: they are not what a tabulation writes, or do not belong together.
        """
        described = _read_description(folder)
        _, parquet = _import_arrow()
        place = folder / MEASUREMENTS_FILE
        try:
            if sha256(place.read_bytes()).hexdigest() != described["sha256"]:
                raise _refuse(f"{MEASUREMENTS_FILE} is not the file that {DESCRIPTION_FILE} describes: its hash differs")
            columns = tuple(str(each["name"]) for each in described["columns"])
            keys = tuple(tuple(map(key_from_json, each["keys"])) for each in described["columns"])
            sizes = tuple(map(len, keys))

            def read_margin(by: list[str]) -> Margin:
                return check_margin(tuple(sorted(columns.index(name) for name in by)), len(columns))

            def read_measured(each: dict[str, Any]) -> Measured:
                if "contrast" not in each:
                    return read_margin(each["by"])
                if described["format"] == FORMAT:
                    raise _refuse(f"{DESCRIPTION_FILE} is of the format {FORMAT!r}, which has no contrasts")
                found = Contrast(read_margin(each["contrast"]), read_margin(each["by"]))
                if each["words"] != describe_measured(check_measured(found, sizes), columns, keys):
                    raise _refuse(f"{DESCRIPTION_FILE} describes a contrast in words that are not those of its columns")
                return found

            noises = {read_measured(each): noise_from_json(each) for each in described["measured"]}
            if len(noises) < len(described["measured"]):
                raise _refuse(f"{DESCRIPTION_FILE} lists a measured table twice")
            if described.keys() - DESCRIPTION_KEYS or any(each.keys() - MEASURED_KEYS for each in described["measured"]):
                raise _refuse(f"{DESCRIPTION_FILE} has keys that no tabulation writes")
            if Fraction(described["step"]) <= 0:
                raise _refuse(f"{DESCRIPTION_FILE}: the step of the grid is not above 0")
            rows = parquet.read_table(place)
            if [(each.name, str(each.type)) for each in rows.schema] != MEASURED_TYPES:
                raise _refuse(f"{MEASUREMENTS_FILE} does not have the columns that a tabulation writes")
            noisy, table, cell = (rows[name].to_numpy() for name in ("noisy", "table", "cell"))
            cells = [count_cells(sizes, axes_of(each)) for each in noises]
            expected = np.repeat(np.arange(len(noises)), cells)
            numbered = np.concatenate([np.arange(size) for size in (0, *cells)])
            if rows["noisy"].null_count or not (np.array_equal(table, expected) and np.array_equal(cell, numbered)):
                raise _refuse(f"{MEASUREMENTS_FILE} does not hold the cells of the measured tables")
            starts = np.cumsum([0, *cells]).tolist()
            measured = {
                each: noisy[starts[i] : starts[i + 1]].astype(np.int64).reshape(shape_of(sizes, axes_of(each)))
                for i, each in enumerate(noises)
            }
            tables = {str(name): read_margin(by) for name, by in described["tables"].items()}
            if not tables or not all(map(FILE_NAME.fullmatch, tables)):
                raise _refuse("the names of its tables are no names of files")
            return cls(
                columns, keys, tables, noises, measured, float(described["confidence"]), Fraction(described["step"]),
                tuple(map(str, described["notes"])),
            )  # fmt: skip
        except SourceRefused:
            raise
        except KeyError as missing:
            raise _refuse(f"{DESCRIPTION_FILE} lacks the key {missing}") from None
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, OSError):
            raise _refuse(f"{DESCRIPTION_FILE} and {MEASUREMENTS_FILE} do not hold what a tabulation writes") from None


def _read_description(folder: Path) -> dict[str, Any]:
    def refuse(reason: str) -> SourceRefused:
        return _refuse(f"{DESCRIPTION_FILE}: {reason}")

    try:
        found = parse_json(read_text(folder / DESCRIPTION_FILE, refuse))
    except ValueError:
        raise _refuse(f"{DESCRIPTION_FILE} is not JSON") from None
    if not isinstance(found, dict) or found.get("format") not in (FORMAT, CONTRAST_FORMAT):
        raise _refuse(f"{DESCRIPTION_FILE} is not of the format {FORMAT!r} or {CONTRAST_FORMAT!r}")
    return found


def _refuse(reason: str) -> SourceRefused:
    return SourceRefused(reason, "name the folder of a tabulation, as it was published", parameter="folder")


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise missing_library_error("pyarrow", "discreet[arrow]") from None
    return pa, parquet


def write_tables(folder: Path, tables: Mapping[str, TabulatedTable], *, spreadsheet: bool = False) -> None:
    """Write each table as CSV and Parquet."""
    for name, table in tables.items():
        records = table.records
        to_csv(table.header, records, folder / f"{name}.csv", spreadsheet=spreadsheet)
        write_parquet(table.header, records, folder / f"{name}.parquet")


@dataclass(frozen=True)
class Reproduction:
    """Which files of a folder follow from its measurements."""

    tables: Mapping[str, TabulatedTable]  # as they were estimated again
    same: tuple[str, ...]  # names of files
    different: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]  # tables that the measurements know nothing of

    @property
    def is_complete(self) -> bool:
        """Whether every table is there and as estimated, and there is no other."""
        return bool(self.same) and not (self.different or self.missing or self.unknown)


def reproduce(folder: "str | Path") -> Reproduction:
    """Estimate all tables of a published folder again, from its measurements alone, and compare them with its files.

    Keys and whole numbers must be equal; estimates may differ by what other versions of NumPy round differently.
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadParameter("folder", str(folder), "there is no such folder", "name the folder of a published tabulation")
    tables = Measurements.read(place).estimate()
    found: dict[str, list[str]] = {"same": [], "different": [], "missing": []}
    for name, table in tables.items():
        texts = [table.to_csv(spreadsheet=escaped) for escaped in (False, True)]
        for file in (place / f"{name}.csv", place / f"{name}.parquet"):
            if not file.is_file():
                found["missing"].append(file.name)
                continue
            text = _read_table_text(file)
            is_same = text is not None and any(_hold_the_same(text, each) for each in texts)
            found["same" if is_same else "different"].append(file.name)
    known = {MEASUREMENTS_FILE, *(f"{name}{suffix}" for name in tables for suffix in (".csv", ".parquet"))}
    unknown = sorted(each.name for each in place.iterdir() if each.suffix in (".csv", ".parquet") and each.name not in known)
    return Reproduction(tables, **{kind: tuple(names) for kind, names in found.items()}, unknown=tuple(unknown))


def _read_table_text(file: Path) -> str | None:
    """A table as CSV text; None if it cannot be read."""
    if file.suffix == ".csv":
        return file.read_bytes().decode("utf-8", "replace")
    pa, parquet = _import_arrow()
    try:
        rows = parquet.read_table(file)
    except (OSError, pa.ArrowException):
        return None
    return to_csv(rows.column_names, list(zip(*(column.to_pylist() for column in rows.columns), strict=True)))


def _hold_the_same(text: str, other: str) -> bool:
    """Whether two CSV texts hold the same fields, numbers with a fraction up to their last digits."""
    rows, others = (list(csv.reader(StringIO(each, newline=""))) for each in (text, other))
    return len(rows) == len(others) and all(
        len(row) == len(expected) and all(map(_is_same_field, row, expected))
        for row, expected in zip(rows, others, strict=True)
    )


def _is_same_field(field: str, expected: str) -> bool:
    if field == expected:
        return True
    if "." not in field or "." not in expected:
        return False
    try:
        return isclose(float(field), float(expected), rel_tol=LAST_DIGITS, abs_tol=LAST_DIGITS)
    except ValueError:
        return False
