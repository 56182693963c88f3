"""A cell that is an object of Python, as the family that it belongs to and a text, each of which depends on that cell alone.

Objects are what pandas columns of mixed types, JSON lines and spreadsheets hold. From family and text a cell is read as the
kind of its column (`value_text`) and as the identity of a unit (`identity_text`); see `types` for what both mean. `frames`
and `rows` share this, and load it only for such cells, because it needs NumPy.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any, TypeAlias

import numpy

from discreet.engines.duckdb.types import ALLOWED, family_prefix
from discreet.query.schema import Kind

Cell: TypeAlias = tuple[str | None, str | None]
"""The family and the text of a cell; (None, None) if it is missing or of no family."""

BIGINT_LIMIT = 1 << 63
DIGITS_LIMIT = 1 << 256
"""From here on whole numbers are written in hexadecimal: Python writes no more than 4,300 decimal digits."""
FAMILY_KINDS = {"text": Kind.TEXT, "boolean": Kind.BOOLEAN, "date": Kind.DATE, "moment": Kind.TIMESTAMP}


def read_cell(cell: Any) -> Cell:
    """Return the family and the text of a cell; (None, None) if it is missing or of no family.

    >>> read_cell(1), read_cell(1.0), read_cell("1"), read_cell(1.5), read_cell(b"1")
    (('number', '1'), ('number', '1'), ('text', '1'), ('number', '1.5'), (None, None))
    """
    if isinstance(cell, bool | numpy.bool_):
        return "boolean", "true" if cell else "false"
    if isinstance(cell, str):
        return "text", str.__str__(cell)
    if isinstance(cell, int | numpy.integer):
        return "number", str(int(cell)) if abs(int(cell)) < DIGITS_LIMIT else hex(cell)
    if isinstance(cell, float | numpy.floating):
        if isnan(cell):
            return None, None
        return "number", _format_float(float(cell)) if float(cell) == cell else _format_decimal(_to_decimal(cell))
    if isinstance(cell, Decimal):
        return ("number", _format_decimal(cell)) if cell.is_finite() else (None, None)
    if isinstance(cell, datetime):
        text = _format_moment(cell) if cell == cell else None  # NaT is a datetime that equals nothing
        return (None, None) if text is None else ("moment", text)
    return ("date", cell.isoformat()) if isinstance(cell, date) else (None, None)


def _format_float(number: float) -> str:
    return str(int(number)) if number.is_integer() and -BIGINT_LIMIT <= number < BIGINT_LIMIT else repr(number)


def _to_decimal(number: Any) -> Decimal:
    """Return exactly the value of a float that is finer than a double: n/2ᵏ = n·5ᵏ/10ᵏ."""
    numerator, denominator = number.as_integer_ratio()
    places = denominator.bit_length() - 1
    sign, digits, _ = Decimal(numerator * 5**places).as_tuple()
    return Decimal((sign, digits, -places))


def _format_decimal(number: Decimal) -> str:
    """Write a decimal without zeros after its last digit: 1 and 1.0 are one number."""
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) if number else "0"


def _format_moment(moment: datetime) -> str | None:
    """Format a moment as DuckDB does: in UTC if it has a zone, without zeros after the last digit. None if no year holds
    it."""
    try:
        naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, ValueError):
        return None
    day = f"{naive.year if naive.year > 0 else 1 - naive.year:04d}-{naive.month:02d}-{naive.day:02d}"
    era = "" if naive.year > 0 else " (BC)"
    digits = f"{naive.microsecond:06d}{getattr(naive, 'nanosecond', 0):03d}".rstrip("0")
    time = f"{naive.hour:02d}:{naive.minute:02d}:{naive.second:02d}" + (f".{digits}" if digits else "")
    return f"{day}{era} {time}" + ("" if moment.tzinfo is None else "+00")


def value_text(kind: Kind, family: str | None, text: str | None) -> str | None:
    """The text from which a cell is read as a kind; None if a cell of its family is not read so, or is not UTF-8."""
    return text if family in ALLOWED[kind] and text is not None and is_utf8(text) else None


def identity_text(kind: Kind, family: str | None, text: str | None, own: str | None = None) -> str | None:
    """The identity of a unit in a column of a kind. A cell of the family `own`, the kind's own unless given, is its text; a
    cell of another family is marked by it."""
    if family is None or text is None:
        return None
    if not is_utf8(text):
        return family_prefix("escaped") + text.encode("unicode_escape").decode()
    plain = family == (own or ALLOWED[kind][0]) and not text.startswith("\0")
    return text if plain else family_prefix(family) + text


def is_utf8(text: str) -> bool:
    """Return whether a text can be stored: one with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class KindFinder:
    """The kind of the one family that the cells of a column have, without a policy; text if they have several."""

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self.families: set[str] = set()
        self.whole = True
        for cell in cells:
            self.add(*cell)

    def add(self, family: str | None, text: str | None) -> None:
        """Take one more cell into account."""
        if family is not None:
            self.families.add(family)
            self.whole = self.whole and (family != "number" or (text or "").lstrip("-").isdecimal())

    @property
    def kind(self) -> Kind:
        """The kind, as far as cells were added."""
        if self.families == {"number"}:
            return Kind.INTEGER if self.whole else Kind.REAL
        [*families] = self.families
        return FAMILY_KINDS[families[0]] if len(families) == 1 else Kind.TEXT
