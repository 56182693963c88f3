"""Workbooks written by hand, so that a cell may hold whatever the format allows."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZipFile

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DATE_STYLE, MOMENT_STYLE = 1, 2


class Raw(str):
    """The attributes and the value of a cell, as they stand in the file."""


def write_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    """Write a workbook with these sheets."""
    numbers = range(1, len(sheets) + 1)
    listed = "".join(f"<sheet name={quoteattr(n)} sheetId='{i}' r:id='r{i}'/>" for i, n in zip(numbers, sheets, strict=True))
    related = "".join(f"<Relationship Id='r{i}' Type='{DOCUMENT}/worksheet' Target='worksheets/s{i}.xml'/>" for i in numbers)
    related += f"<Relationship Id='s' Type='{DOCUMENT}/styles' Target='styles.xml'/>"
    styles = "".join(f"<xf numFmtId='{number}'/>" for number in (0, 14, 22))
    workbook_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    parts = {
        "[Content_Types].xml": f"<Types xmlns='{PACKAGE}/content-types'><Default Extension='rels' "
        "ContentType='application/vnd.openxmlformats-package.relationships+xml'/><Default Extension='xml' "
        f"ContentType='application/xml'/><Override PartName='/xl/workbook.xml' ContentType='{workbook_type}'/></Types>",
        "_rels/.rels": f"<Relationships xmlns='{PACKAGE}/relationships'><Relationship Id='r' "
        f"Type='{DOCUMENT}/officeDocument' Target='xl/workbook.xml'/></Relationships>",
        "xl/workbook.xml": f"<workbook xmlns='{MAIN}' xmlns:r='{DOCUMENT}'><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships xmlns='{PACKAGE}/relationships'>{related}</Relationships>",
        "xl/styles.xml": f"<styleSheet xmlns='{MAIN}'><cellXfs count='3'>{styles}</cellXfs></styleSheet>",
    }
    for i, rows in zip(numbers, sheets.values(), strict=True):
        lines = "".join(
            f"<row r='{r}'>{''.join(_format_cell(r, c, cell) for c, cell in enumerate(row))}</row>"
            for r, row in enumerate(rows, 1)
        )
        parts[f"xl/worksheets/s{i}.xml"] = f"<worksheet xmlns='{MAIN}'><sheetData>{lines}</sheetData></worksheet>"
    with ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def _format_cell(row: int, column: int, cell: Any) -> str:
    where = f"<c r='{chr(65 + column)}{row}'"
    if cell is None:
        return ""
    if isinstance(cell, Raw):
        return f"{where} {cell}</c>"
    if isinstance(cell, bool):
        return f"{where} t='b'><v>{int(cell)}</v></c>"
    if isinstance(cell, datetime):
        return f"{where} s='{MOMENT_STYLE}'><v>{(cell - datetime(1899, 12, 30)).total_seconds() / 86400!r}</v></c>"
    if isinstance(cell, date):
        return f"{where} s='{DATE_STYLE}'><v>{(cell - date(1899, 12, 30)).days}</v></c>"
    if isinstance(cell, int | float):
        return f"{where}><v>{cell!r}</v></c>"
    return f"{where} t='inlineStr'><is><t xml:space='preserve'>{escape(cell)}</t></is></c>"
