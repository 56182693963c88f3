"""The files of a tabulation of a hierarchy: tables by level, and the measurements from which anybody can repeat them.

    NAME.LEVEL.parquet      a table on a level: node, keys, estimate, sd, lower, upper, reliable, display; small ones as CSV
    NAME.regions.parquet    a table of regions that are sums of nodes, with intervals of their own
    measurements/           the noisy tables, one file per subtree (`spool.py`), and
      measurements.json     what they are: levels, columns, keys, tables, the law and σ (a fraction) of each measured table,
                            the hash of each file, and their Merkle root, which is what the account recorded
      nodes.parquet         the public list of nodes, in the order of the rows

Everything in these files was paid for, or is public. `reproduce_hierarchy` checks all hashes and the Merkle root, estimates
every table again from the measurements alone, and compares it with the files, Parquet and CSV, one subtree in memory at a
time.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from discreet._numbers import check_confidence
from discreet.errors import BadParameter, DiscreetError, SourceRefused
from discreet.formats import missing_library_error, refuse_unwritable
from discreet.paths import read_text
from discreet.query.record import key_from_json, key_to_json
from discreet.query.schema import Key
from discreet.tabulation.hierarchy import FILE_NAME, REGION, REGIONS_LEVEL
from discreet.tabulation.hierarchy_estimation import REGIONS, HierarchyModel, TableBlock, estimate_blocks
from discreet.tabulation.hierarchy_measuring import list_part_names
from discreet.tabulation.margins import Ints, Margin, check_margin, count_cells
from discreet.tabulation.measuring import noise_from_json, noise_to_json
from discreet.tabulation.node_residuals import Tables
from discreet.tabulation.regions import Regions
from discreet.tabulation.spine import Spine
from discreet.tabulation.spool import DRAFT, IDENTITY_FILE, LOCK_FILE, UPPER, Spool, merkle_root, name_subtree
from discreet.text import parse_json

FORMAT = "discreet hierarchy 1"
MEASUREMENTS_FOLDER, DESCRIPTION_FILE, NODES_FILE = "measurements", "measurements.json", "nodes.parquet"
MAX_CSV_ROWS = 200_000
"""Larger tables are written as Parquet alone."""
LAST_DIGITS = 1e-9
MAX_LINE = 1 << 20
"""Characters of a line of CSV that are read at once; no row is as long."""


@dataclass(frozen=True)
class SpoolSource:
    """The measurements in a folder. Each file is checked against its recorded hash whenever it is read."""

    model: HierarchyModel
    spool: Spool
    parts: Mapping[str, str]  # hash of each

    def read_upper(self) -> list[Tables]:
        """As in `MeasuredNodes`."""
        spine, level = self.model.spine, self.model.stream_level
        return self._read(UPPER, 0, [slice(0, size) for size in spine.sizes[:level]])

    def read_subtree(self, place: int) -> list[Tables]:
        """As in `MeasuredNodes`."""
        level = self.model.stream_level
        return self._read(name_subtree(place), level, self.model.spine.slice_subtree(level, place))

    def _read(self, name: str, first: int, where: Sequence[slice]) -> list[Tables]:
        arrays = self.spool.read_part(name, self.parts[name])
        found: list[Tables] = []
        for level, nodes in enumerate(where, first):
            tables = {}
            for margin in self.model.noises[level]:
                table = arrays.pop((level, margin), None)
                shape = (nodes.stop - nodes.start, count_cells(self.model.sizes, margin))
                if table is None or table.shape != shape or table.dtype.kind != "i":
                    raise _refuse(f"{name}.npz does not hold the cells of the measured tables")
                tables[margin] = table
            found.append(tables)
        if arrays:
            raise _refuse(f"{name}.npz holds tables that were not measured")
        return found


# -- rows ------------------------------------------------------------------------------------------------------------------


@dataclass
class RowMaker:
    """Makes rows of files from blocks of tables."""

    model: HierarchyModel
    _keys: dict[str, list[tuple[Any, Ints]]] = field(default_factory=dict)

    def header(self, name: str, level: int) -> list[str]:
        """The columns of a table."""
        node = REGION if level == REGIONS else self.model.spine.levels[level]
        margin = self.model.tables[name][0]
        shown = ["display"] if self.model.display_columns else []
        return [node, *(self.model.columns[i] for i in margin), "estimate", "sd", "lower", "upper", "reliable", *shown]

    def file_name(self, name: str, level: int) -> str:
        """The name of a table's file, without the ending."""
        return f"{name}.{self.level_name(level)}"

    def level_name(self, level: int) -> str:
        """The name of a level, or of that of regions."""
        return REGIONS_LEVEL if level == REGIONS else self.model.spine.levels[level]

    def count_rows(self, name: str, level: int) -> int:
        """How many rows a table has."""
        nodes = len(self.model.region_names) if level == REGIONS else self.model.spine.sizes[level]
        return nodes * count_cells(self.model.sizes, self.model.tables[name][0])

    def to_arrow(self, block: TableBlock) -> Any:
        """Return the rows of a block as an Arrow table: one per node and cell, the last column changing first."""
        pa, _ = _import_arrow()
        nodes, cells = block.estimate.shape
        labels = self._labels(block.level)[block.first : block.first + nodes]
        columns = [_encode(pa, labels, np.repeat(np.arange(nodes, dtype=np.int32), cells))]
        columns += [_encode(pa, keys, np.tile(pattern, nodes)) for keys, pattern in self._patterns(block.name)]
        columns += [
            pa.array(each.reshape(-1))
            for each in (block.estimate, np.repeat(block.sd, cells), block.lower, block.upper, block.reliable)
        ]
        if block.display is not None:
            columns.append(pa.array(block.display.reshape(-1)))
        return pa.Table.from_arrays(columns, names=self.header(block.name, block.level))

    def _labels(self, level: int) -> list[Any]:
        if level == REGIONS:
            return list(self.model.region_names)
        top = self.model.spine.levels[level]
        return [each if each != "" else top for each in self.model.spine.nodes[level].tolist()]

    def _patterns(self, name: str) -> list[tuple[Any, Ints]]:
        """For each column of a table, its keys, and which of them each cell of a node has."""
        if name not in self._keys:
            margin = self.model.tables[name][0]
            sizes = [self.model.sizes[i] for i in margin]
            places: Any = np.indices(sizes, np.int32).reshape(len(sizes), -1) if sizes else []
            self._keys[name] = [(self.model.keys[i], places[axis]) for axis, i in enumerate(margin)]
        return self._keys[name]


def _encode(pa: Any, values: Sequence[Any], places: Any) -> Any:
    """Values by their place in a list of few; None is missing."""
    known = [each for each in values if each is not None]
    if len(known) == len(values):
        return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(known))
    moved = np.cumsum([each is not None for each in values], dtype=np.int32) - 1
    missing = np.array([each is None for each in values])[places]
    return pa.DictionaryArray.from_arrays(pa.array(moved[places], mask=missing), pa.array(known))


class TableWriter:
    """Writes tables as their blocks come."""

    def __init__(self, folder: Path, model: HierarchyModel) -> None:
        self.folder, self.rows = folder, RowMaker(model)
        self._writers: dict[tuple[str, int], Any] = {}

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in self._writers.values():
            writer.close()

    def write(self, block: TableBlock) -> None:
        """Write the rows of a block: each is a row group of its file."""
        table = self.rows.to_arrow(block)
        self._open(block, table.schema).write_table(table, table.num_rows)

    def _open(self, block: TableBlock, schema: Any) -> Any:
        key = (block.name, block.level)
        if key not in self._writers:
            _, parquet = _import_arrow()
            path = self.folder / f"{self.rows.file_name(*key)}.parquet"
            coded = [each.name for each in schema if each.name not in ("estimate", "reliable")]
            with refuse_unwritable(path, "folder"):
                self._writers[key] = parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=coded)
        return self._writers[key]


def write_hierarchy_tables(folder: Path, model: HierarchyModel, source: SpoolSource) -> None:
    """Write every table by level, and the tables of regions; small ones also as CSV."""
    with TableWriter(folder, model) as writer:
        for block in estimate_blocks(model, source):
            writer.write(block)
    rows = writer.rows
    for name, level in list_files(model):
        if rows.count_rows(name, level) <= MAX_CSV_ROWS:
            _write_csv(folder / rows.file_name(name, level))


def list_files(model: HierarchyModel) -> list[tuple[str, int]]:
    """List the tables and levels that have files."""
    pairs = [(name, level) for name, (_, levels) in model.tables.items() for level in levels]
    return pairs + [(name, REGIONS) for name in model.region_tables]


def _write_csv(path: Path) -> None:
    """A Parquet file as CSV beside it."""
    _, parquet = _import_arrow()
    with refuse_unwritable(path, "folder"):
        _format_csv(parquet.read_table(f"{path}.parquet"), f"{path}.csv")


def _format_csv(table: Any, to: Any, *, header: bool = True) -> None:
    pa, _ = _import_arrow()
    from pyarrow import csv as arrow_csv

    plain = pa.Table.from_arrays([_to_plain(each) for each in table.columns], names=table.column_names)
    arrow_csv.write_csv(plain, to, arrow_csv.WriteOptions(include_header=header))


# -- measurements ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HierarchyMeasurements:
    """Noisy tables of a hierarchy with all that is needed to estimate from them; nothing in it is private."""

    model: HierarchyModel
    spool: Spool
    parts: Mapping[str, str]
    plan: str = ""  # the hash of what was measured
    notes: tuple[str, ...] = ()
    tainted: bool = False  # whether its noise came from seeded bits

    @property
    def source(self) -> SpoolSource:
        """What estimation reads."""
        return SpoolSource(self.model, self.spool, self.parts)

    def describe(self) -> dict[str, Any]:
        """Return all but the noisy numbers and the nodes, as plain values."""
        model, levels = self.model, self.model.spine.levels
        return {
            "format": FORMAT,
            "levels": list(levels),
            "stream_level": model.stream_level,
            "columns": [
                {"name": name, "keys": [*map(key_to_json, keys)]}
                for name, keys in zip(model.columns, model.keys, strict=True)
            ],
            "tables": {
                name: {"by": [model.columns[i] for i in margin], "levels": [levels[level] for level in each]}
                for name, (margin, each) in model.tables.items()
            },
            "measured": [
                {"level": levels[level], "by": [model.columns[i] for i in margin], **noise_to_json(noise)}
                for level, noises in enumerate(model.noises)
                for margin, noise in noises.items()
            ],
            "regions": self._describe_regions(),
            "confidence": model.confidence,
            "step": str(model.step),
            "plan": self.plan,
            "spool": self.spool.identity,
            "root": merkle_root(self.parts),
            "parts": dict(self.parts),
            "notes": list(self.notes),
        } | ({"tainted": True} if self.tainted else {})

    def _describe_regions(self) -> dict[str, dict[str, list[int]]]:
        """The places of the nodes that make up each region, by level."""
        regions, levels = self.model.regions, self.model.spine.levels
        if regions is None:
            return {}
        return {
            name: {
                levels[level]: nodes[sums == number].tolist()
                for level, (sums, nodes) in enumerate(zip(regions.sums, regions.nodes, strict=True))
                if np.any(sums == number)
            }
            for number, name in enumerate(self.model.region_names)
        }

    def write(self) -> None:
        """Write the description and the list of nodes beside the measurements."""
        pa, parquet = _import_arrow()
        spine = self.model.spine
        places = np.arange(spine.sizes[-1])
        columns: list[Any] = []
        for level in range(len(spine.levels) - 1, -1, -1):
            columns.insert(0, pa.array(spine.nodes[level][places].tolist()))
            places = spine.parents[level][places] if level else places
        path = self.spool.folder / NODES_FILE
        with refuse_unwritable(path, "folder"):
            parquet.write_table(pa.Table.from_arrays(columns, names=list(spine.levels)), path, compression="zstd")
            described = self.describe() | {"nodes": sha256(path.read_bytes()).hexdigest()}
            text = json.dumps(described, ensure_ascii=False, indent=1) + "\n"
            draft = self.spool.folder / f"{DESCRIPTION_FILE}{DRAFT}"  # whole or not there: a retry reads it
            draft.write_text(text, encoding="utf-8", newline="\n")
            draft.replace(self.spool.folder / DESCRIPTION_FILE)

    def list_unknown_files(self) -> tuple[str, ...]:
        """Return the names of files beside the measurements that are none of them, such as what is private while they are
        drawn."""
        known = {IDENTITY_FILE, DESCRIPTION_FILE, NODES_FILE, LOCK_FILE, *(f"{name}.npz" for name in self.parts)}
        found = sorted(each.name for each in self.spool.folder.iterdir() if each.name not in known)
        return tuple(f"{MEASUREMENTS_FOLDER}/{name}" for name in found)

    @classmethod
    def read(cls, folder: Path) -> "HierarchyMeasurements":
        """Read them from a published folder, and check the hashes and the Merkle root.

        Raises:
            SourceRefused: they are not what a tabulation writes, or do not belong together.
        """
        place = folder / MEASUREMENTS_FOLDER
        described = _read_description(place)
        try:
            found = cls._from_description(place, described)
        except (LookupError, TypeError, ValueError, OSError, AttributeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, SourceRefused):
                raise
            raise _refuse(f"the measurements cannot be read ({type(error).__name__})") from None
        if merkle_root(found.parts) != described.get("root"):
            raise _refuse(f"the Merkle root in {DESCRIPTION_FILE} is not that of its parts")
        return found

    @classmethod
    def _from_description(cls, place: Path, described: Mapping[str, Any]) -> "HierarchyMeasurements":
        _, parquet = _import_arrow()
        levels = [str(each) for each in described["levels"]]
        path = place / NODES_FILE
        if sha256(path.read_bytes()).hexdigest() != described["nodes"]:
            raise _refuse(f"{NODES_FILE} is not the file that {DESCRIPTION_FILE} describes: its hash differs")
        nodes = parquet.read_table(path)
        spine = Spine.from_columns({level: nodes[level].to_pylist() for level in levels})
        columns = tuple(str(each["name"]) for each in described["columns"])
        keys: tuple[tuple[Key, ...], ...] = tuple(tuple(map(key_from_json, each["keys"])) for each in described["columns"])

        def read_margin(by: list[str]) -> Margin:
            return check_margin(tuple(sorted(columns.index(name) for name in by)), len(columns))

        tables = {
            str(name): (read_margin(each["by"]), tuple(map(spine.level, each["levels"])))
            for name, each in described["tables"].items()
        }
        noises: list[dict[Margin, Any]] = [{} for _ in levels]
        for each in described["measured"]:
            noises[spine.level(each["level"])][read_margin(each["by"])] = noise_from_json(each)
        if (
            not tables
            or not all(map(FILE_NAME.fullmatch, (*tables, *levels)))
            or not all(each for _, each in tables.values())
        ):
            raise _refuse(f"{DESCRIPTION_FILE} names tables or levels that cannot have files")
        stream_level = int(described["stream_level"])
        names, regions = _read_regions(spine, described["regions"])
        model = HierarchyModel(
            spine, columns, keys, tables, tuple(noises), float(described["confidence"]), Fraction(described["step"]),
            stream_level, names, regions,
        )  # fmt: skip
        if model.step <= 0 or check_confidence(model.confidence) != model.confidence or model.check():
            raise _refuse(f"{DESCRIPTION_FILE} describes tables that cannot be estimated")
        parts = {str(name): str(each) for name, each in described["parts"].items()}
        if not 1 <= stream_level <= len(levels) or [*parts] != list_part_names(spine.sizes, stream_level):
            raise _refuse(f"{DESCRIPTION_FILE} does not name the parts of these levels")
        spool = Spool.open(place, str(described["spool"]))
        notes = tuple(map(str, described["notes"]))
        return cls(model, spool, parts, str(described["plan"]), notes, bool(described.get("tainted")))


def _read_regions(spine: Spine, described: Mapping[str, Mapping[str, list[int]]]) -> tuple[tuple[str, ...], Regions | None]:
    if not described:
        return (), None
    sums: list[list[int]] = [[] for _ in spine.levels]
    nodes: list[list[int]] = [[] for _ in spine.levels]
    for number, by_level in enumerate(described.values()):
        if not any(by_level.values()):
            raise _refuse(f"a region in {DESCRIPTION_FILE} has no nodes")
        held: list[slice] = []  # what each node holds of the last level
        for name, places in by_level.items():
            level = spine.level(name)
            if any(not 0 <= int(each) < spine.sizes[level] for each in places):
                raise _refuse(f"a region in {DESCRIPTION_FILE} has nodes that do not exist")
            held += [spine.slice_subtree(level, int(each))[-1] for each in places]
            sums[level] += [number] * len(places)
            nodes[level] += map(int, places)
        held.sort(key=lambda each: each.start)
        if any(after.start < before.stop for before, after in pairwise(held)):
            raise _refuse(
                f"a region in {DESCRIPTION_FILE} has a node twice, or with one that lies in it: it would count twice"
            )
    arrays = [tuple(np.array(each, np.int64) for each in group) for group in (sums, nodes)]
    factors = tuple(np.ones(len(each)) for each in nodes)
    return tuple(map(str, described)), Regions(len(described), arrays[0], arrays[1], factors)


def _read_description(place: Path) -> dict[str, Any]:
    def refuse(reason: str) -> SourceRefused:
        return _refuse(f"{DESCRIPTION_FILE}: {reason}")

    try:
        found = parse_json(read_text(place / DESCRIPTION_FILE, refuse))
    except ValueError:
        raise _refuse(f"{DESCRIPTION_FILE} is not JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _refuse(f"{DESCRIPTION_FILE} is not of the format {FORMAT!r}")
    return found


def is_hierarchy_folder(folder: "str | Path") -> bool:
    """Whether a folder holds the measurements of a hierarchy."""
    return (Path(folder) / MEASUREMENTS_FOLDER / DESCRIPTION_FILE).is_file()


# -- reproduce -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HierarchyReproduction:
    """Which files of a folder follow from its measurements."""

    root: str  # Merkle root of the measurements: that of the certificate
    same: tuple[str, ...]
    different: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]  # names of files with tables that the measurements know nothing of

    @property
    def is_complete(self) -> bool:
        """Whether every table is there and as estimated, and there is no other."""
        return bool(self.same) and not (self.different or self.missing or self.unknown)


def reproduce_hierarchy(folder: "str | Path") -> HierarchyReproduction:
    """Estimate all tables of a published hierarchy again, from its measurements alone, and compare them with its files.

    Nodes, keys and whole numbers must be equal; estimates may differ by what other versions of NumPy round differently.

    Raises:
        SourceRefused: the measurements are not those that were recorded.
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadParameter("folder", str(folder), "there is no such folder", "name the folder of a published tabulation")
    measurements = HierarchyMeasurements.read(place)
    model, rows = measurements.model, RowMaker(measurements.model)
    files: dict[tuple[str, int], list[_Published]] = {}
    for key in list_files(model):
        path = place / rows.file_name(*key)
        files[key] = [_PublishedParquet(path.with_name(f"{path.name}.parquet"))]
        written = _PublishedCsv(path.with_name(f"{path.name}.csv"), rows.header(*key))
        if written.is_there or rows.count_rows(*key) <= MAX_CSV_ROWS:
            files[key].append(written)
    try:
        for block in estimate_blocks(model, measurements.source):
            for file in files[block.name, block.level]:
                if file.is_there and not file.is_different:
                    file.compare(rows.to_arrow(block))
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, DiscreetError):
            raise
        raise _refuse(f"the tables that {DESCRIPTION_FILE} describes cannot be estimated ({type(error).__name__})") from None
    published = [file for some in files.values() for file in some]
    verdicts = [(file.path.name, file.is_there, file.close()) for file in published]
    known = {f"{rows.file_name(*key)}{ending}" for key in files for ending in (".parquet", ".csv")}
    return HierarchyReproduction(
        merkle_root(measurements.parts),
        tuple(name for name, is_there, is_same in verdicts if is_there and is_same),
        tuple(name for name, is_there, is_same in verdicts if is_there and not is_same),
        tuple(name for name, is_there, _ in verdicts if not is_there),
        tuple(sorted(each.name for each in place.iterdir() if _is_table(each) and each.name not in known))
        + measurements.list_unknown_files(),
    )


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".parquet")


class _Published:
    """A published file of a table that is compared with blocks of rows as they come."""

    def __init__(self, path: Path) -> None:
        self.path, self.is_there, self.is_different = path, path.is_file(), False

    def compare(self, expected: Any) -> None:
        """Compare the next rows."""
        try:
            self.is_different = not self._is_next(expected)
        except (OSError, ValueError, IndexError, csv.Error):
            self.is_different = True

    def close(self) -> bool:
        """Return whether all rows were as expected, and there are no more."""
        try:
            return self.is_there and not self.is_different and self._is_at_end()
        except (OSError, ValueError, csv.Error):
            return False

    def _is_next(self, expected: Any) -> bool:
        raise NotImplementedError

    def _is_at_end(self) -> bool:
        raise NotImplementedError


class _PublishedParquet(_Published):
    """A Parquet file: each block is a row group."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        _, parquet = _import_arrow()
        self._file: Any = None
        self._group = 0
        try:
            self._file = parquet.ParquetFile(path) if self.is_there else None
        except (OSError, ValueError):
            self.is_different = True

    def _is_next(self, expected: Any) -> bool:
        self._group += 1
        return _is_same(self._file.read_row_group(self._group - 1), expected)

    def _is_at_end(self) -> bool:
        return bool(self._group == self._file.num_row_groups)


class _PublishedCsv(_Published):
    """A CSV file: keys and whole numbers must be the same text, estimates the same numbers."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        super().__init__(path)
        self._rows = self._read_rows()
        try:
            self.is_different = self.is_there and next(self._rows, None) != list(header)
        except (OSError, ValueError, csv.Error):
            self.is_different = True

    def _read_rows(self) -> Iterator[list[str]]:
        with open(self.path, encoding="utf-8", newline="") as file:
            yield from csv.reader(iter(partial(file.readline, MAX_LINE), ""))

    def _is_next(self, expected: Any) -> bool:
        text = io.BytesIO()
        _format_csv(expected, text, header=False)
        names = expected.column_names
        numbers = [names.index(name) for name in ("estimate", "sd")]
        written = csv.reader(io.StringIO(text.getvalue().decode(), newline=""))
        pairs = [(next(self._rows, []), row) for row in written]
        for found, row in pairs:
            if len(found) != len(row) or any(found[i] != row[i] for i in range(len(row)) if i not in numbers):
                return False
        one, other = (np.array([[float(each[side][i]) for i in numbers] for each in pairs]) for side in (0, 1))
        return np.allclose(one, other, rtol=LAST_DIGITS, atol=LAST_DIGITS)

    def _is_at_end(self) -> bool:
        return next(self._rows, None) is None


def _is_same(found: Any, expected: Any) -> bool:
    if found.column_names != expected.column_names or found.num_rows != expected.num_rows:
        return False
    for name in expected.column_names:
        one, other = (_to_plain(table[name].combine_chunks()) for table in (found, expected))
        if name in ("estimate", "sd"):
            if not np.allclose(one.to_numpy(), other.to_numpy(), rtol=LAST_DIGITS, atol=LAST_DIGITS):
                return False
        elif not one.equals(other):
            return False
    return True


def _to_plain(column: Any) -> Any:
    pa, _ = _import_arrow()
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _refuse(reason: str) -> SourceRefused:
    return SourceRefused(reason, "name the folder of a tabulation, as it was published", parameter="folder")


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise missing_library_error("pyarrow", "discreet[arrow]") from None
    return pa, parquet
