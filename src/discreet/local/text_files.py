"""Files of reports that are text: CSV, and JSON lines with a number for each column.

Clients wrote what stands in them, so **a line is a report and no line decides how another is read**: not by an open quote,
by too many cells, by bytes that are no text, nor by its length. A line that is no report has no parts, and is counted as
rejected. (A general reader of CSV would refuse the whole file, or take what stands between two stray quotes for one cell.)
"""

import csv
import gzip
import json
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import glob
from math import nan
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from discreet.errors import SourceRefused
from discreet.paths import reason_of

JSON_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
CSV_SUFFIXES = tuple(f"{suffix}{end}" for suffix in (".csv", ".tsv") for end in ("", ".gz", ".zst"))
DELIMITERS = (",", "\t", ";", "|")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_BYTES, CELL_BYTES = 1 << 20, 64
"""A longer line than the first and the second for each of its cells is no report."""
NO_LINE = b"\0"

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_DIGITS = 15  # so many are exact in a double


def has_suffix(source: Any, suffixes: tuple[str, ...]) -> bool:
    """Whether a source is a path whose name ends so."""
    return isinstance(source, str | PurePath) and str(source).lower().endswith(suffixes)


def split_lines(file: BinaryIO, limit: int) -> Iterator[bytes]:
    """Return lines without their ends; empty lines and a byte order mark are left out. For a line of `limit` bytes or more,
    which is never held as a whole, NO_LINE is returned.

    >>> from io import BytesIO
    >>> list(split_lines(BytesIO(b"{}\\r\\n\\n{ }" + b" " * 99 + b"\\nlast"), 8))
    [b'{}', b'\\x00', b'last']
    """
    is_first = True
    while line := file.readline(limit):
        is_whole, rest = line.endswith(b"\n") or len(line) < limit, line
        while not rest.endswith(b"\n") and (rest := file.readline(limit)):
            pass
        found = (line.removeprefix(BYTE_ORDER_MARK) if is_first else line).rstrip(b"\r\n") if is_whole else NO_LINE
        is_first = False
        if found:
            yield found


@contextmanager
def open_bytes(path: Any) -> Iterator[Any]:
    """Open a file that may be compressed with gzip or Zstandard, to be read by lines."""
    if has_suffix(path, (".zst",)):
        from discreet.engines.duckdb.files import open_lines

        with open_lines(str(path)) as lines:
            yield _Lines(line.encode("utf-8", "surrogateescape") for line in lines)
        return
    opener: Any = gzip.open if has_suffix(path, (".gz",)) else open
    try:
        with opener(Path(path), "rb") as file:
            yield file
    except (OSError, ValueError, EOFError, zlib.error) as failed:
        reason = reason_of(failed) if isinstance(failed, OSError) else "it cannot be read"
        raise SourceRefused(f"{str(path)!r}: {reason}", "check the path") from None


class _Lines:
    """Lines, as the one method of a file that `split_lines` needs."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self._rest = iter(lines), b""

    def readline(self, limit: int) -> bytes:
        """The next line, or as much of it as the limit allows."""
        line = self._rest or next(self._lines, b"")
        self._rest = line[limit:]
        return line[:limit]


def read_json_rows(names: Sequence[str], source: Any, wanted: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Read a file whose lines are JSON objects with a number under the name of each column.

    A line that is no such object has no parts. `collection` and `version` are checked where they are wanted, and a line
    without a nonce is no copy of another: no line decides what others must have.
    """
    required = [name for name, value in wanted.items() if value is not None]
    columns: dict[str, list[Any]] = {name: [] for name in [*names, *required]}
    nonces = list[Any]()
    with open_bytes(source) as file:
        for place, line in enumerate(split_lines(file, LINE_BYTES + CELL_BYTES * len(names))):
            row = _read_object(line)
            for name, column in columns.items():
                column.append(row.get(name))
            nonces.append(("nonce", str(row["nonce"])) if row.get("nonce") is not None else ("line", place))
    table = {name: to_objects(column) for name, column in columns.items()}
    return table | ({"nonce": to_objects(nonces)} if any(kind == "nonce" for kind, _ in nonces) else {})


def _read_object(line: bytes) -> Mapping[str, Any]:
    """Return the object of a line; an empty one if there is none."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def to_objects(column: Sequence[Any]) -> NDArray[Any]:
    """Return an array of one dimension, also of cells that are lists."""
    found = np.empty(len(column), object)
    for place, cell in enumerate(column):
        found[place] = cell
    return found


def read_csv_rows(names: Sequence[str], source: Any, wanted: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Read the columns of reports that a CSV file has, or several files of a glob, each with its header.

    A line with more or fewer cells than its header has no parts, and a cell that is no number is a missing one.

    Raises:
        SourceRefused: it cannot be read, or has no header.
    """
    parts = [_CsvReader(names, path, wanted).read() for path in _list_files(str(source))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if all(name in part for part in parts)}


def _list_files(source: str) -> list[str]:
    found = [] if Path(source).exists() else sorted(glob(source, recursive=True))
    return found or [source]


class _CsvReader:
    """Reads one file."""

    def __init__(self, names: Sequence[str], path: str, wanted: Mapping[str, Any]) -> None:
        self.names, self.path, self.wanted = list(names), path, wanted
        self.numbers: dict[str, array[float]] = {}
        self.texts: dict[str, list[Any]] = {}

    def read(self) -> dict[str, NDArray[Any]]:
        limit = LINE_BYTES + CELL_BYTES * len(self.names)
        with open_bytes(self.path) as file:
            lines = (line.decode("utf-8", "surrogateescape") for line in split_lines(file, limit) if line.strip())
            self._read_all(lines)
        numbers = {name: np.frombuffer(column, np.float64) for name, column in self.numbers.items()}
        return numbers | {name: to_objects(column) for name, column in self.texts.items()}

    def _read_all(self, lines: Iterator[str]) -> None:
        first = next(lines, None)
        if first is None:
            raise SourceRefused(f"{self.path!r}: this file has no header", "put the names of the columns in its first line")
        known = {*self.names, "nonce", "collection", "version"}
        headers = {mark: [name.strip() for name in _split(first, mark)] for mark in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda mark: len(known & set(headers[mark])))
        header = headers[delimiter]
        if twice := [name for name in header if name in known and header.count(name) > 1]:
            raise SourceRefused(f"{self.path!r}: two columns of this file are called {twice[0]}", "rename one of them")
        places = {name: header.index(name) for name in header if name in known}
        numbers = [(self.numbers.setdefault(name, array("d")), places[name]) for name in self.names if name in places]
        texts = [(self.texts.setdefault(name, []), places[name], name) for name in places if name not in self.names]
        for line in lines:
            cells = _split(line, delimiter)
            is_row = len(cells) == len(header)
            for number, place in numbers:
                number.append(_read_number(cells[place]) if is_row else nan)
            for text, place, name in texts:
                text.append(_read_text(cells[place], name) if is_row else self.wanted.get(name))


def _split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, of which some may be in double quotes; none if they are not closed.

    >>> _split('1,"a,b"', ","), _split('1,"a', ",")
    (['1', 'a,b'], [])
    """
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _read_number(cell: str) -> float:
    """Return a decimal number; NaN if a cell is none, as with underscores or digits of other scripts.

    >>> [_read_number(cell) for cell in ("7", " 7.0", "1_0", "")]
    [7, 7.0, nan, nan]
    """
    if len(cell) <= _DIGITS and cell.isascii() and cell.isdigit():
        return int(cell)
    return float(cell) if _NUMBER.fullmatch(cell) else nan


def _read_text(cell: str, name: str) -> str | int | None:
    cell = cell.strip()
    if name == "version":
        return int(cell) if len(cell) <= _DIGITS and cell.isascii() and cell.isdigit() else None
    return cell or None
