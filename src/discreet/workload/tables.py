"""The tables of a published folder, compared with the answers of its certificate.

A certificate holds the whole answers. A table may be a view of one (ORDER BY, LIMIT, HAVING): fewer rows and columns in
another order, with intervals that are at least as wide. So a table agrees with an answer if each of its rows is a row of the
answer with the same keys and values, and with intervals that contain the signed ones.

A table that lacks rows is not the answer, unless its query left them out. The view is not signed, so what its query selects
is read from the guarantee page, which is not signed either: if the query there selects no rows, or another number of them,
the table is INVALID; if it does, the verdict names the rows that are missing and is at best VALID SO FAR.
"""

import csv
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

from discreet.errors import BadParameter, DiscreetError
from discreet.events import compose
from discreet.formats import to_csv
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import to_canonical_json
from discreet.ledger.verify import CheckedClaim, Verification, verify
from discreet.paths import read_text
from discreet.query.cells import KeyProduct
from discreet.query.record import from_record, hash_keys
from discreet.query.validate import INTERVAL_SUFFIXES
from discreet.tabulation.files import MEASUREMENTS_FILE, Measurements, Reproduction, reproduce
from discreet.tabulation.hierarchy import hash_nodes
from discreet.tabulation.hierarchy_files import HierarchyMeasurements, HierarchyReproduction, reproduce_hierarchy
from discreet.tabulation.measuring import measured_from_json, noise_from_json, noise_to_json, unpack
from discreet.text import to_printable
from discreet.workload.guarantee import states_what_is_certified
from discreet.workload.publishing import GUARANTEE_FILE, make_table
from discreet.workload.table_pages import (
    Statement,
    count_level_tables,
    format_hierarchy_page,
    format_table_page,
    is_same_page,
)

NOT_SIGNED = (
    "that the names of the files, the charts, plan.toml, again.py and the other words of guarantee.md describe these "
    "tables: they are not signed"
)
NOT_SIGNED_NAMES = (
    "that the names of tables, plan.toml and the notes in measurements.json are those of what was measured: columns, keys, "
    "noise and noisy numbers are signed, and these are not"
)
NOT_SIGNED_REGIONS = "that regions consist of the nodes that their names promise: measurements.json lists them, unsigned"
NOT_SIGNED_WORDS = "that the title of guarantee.md and its notes on the source are true: they are not signed"
OTHER_FILES = "that {names} is no part of what was published: no publication writes it, and it is not checked"
PAPERS = {"guarantee.md", "release.json", "plan.toml", "again.py", "measurements.json", "measurements"}
VIEWS = "that the query of {names} left out the other rows or columns of the signed answers, or widened their intervals"


def verify_folder(
    folder: Path, certificate: Any, *, public: str | None = None, ledger: Ledger | None = None
) -> Verification:
    """Check the certificate of a published folder, and compare every table with it.

    Raises:
        BadParameter: if it is no certificate.
    """
    verdict = verify(certificate, public=public, ledger=ledger)
    signed = certificate.get("release") if isinstance(certificate, dict) else None
    compare = _compare_tables
    if isinstance(signed, dict) and ("measured" in signed or "parts" in signed):
        compare = _compare_hierarchy if "parts" in signed else _compare_tabulation
    claims, assumptions, unchecked = compare(folder, certificate)
    return replace(
        verdict,
        claims=(*verdict.claims, *claims),
        assumptions=(*verdict.assumptions, *assumptions, *_name_other_files(folder, has_charts=compare is _compare_tables)),
        are_tables_compared=True,
        unchecked=tuple(unchecked),
    )


def _name_other_files(folder: Path, *, has_charts: bool) -> list[str]:
    """Name what is in a folder and is neither a table, which is compared, nor anything else that a publication writes."""
    names = {each.name for each in folder.iterdir()}
    charts = {f"{name.removesuffix('.csv')}.svg" for name in names if has_charts and name.endswith(".csv")}
    others = sorted(name for name in names - PAPERS - charts if not name.endswith((".csv", ".parquet")))
    return [OTHER_FILES.format(names=", ".join(map(to_printable, others)))] if others else []


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as texts."""

    keys: int  # so many of its columns are group keys
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _compare_tables(folder: Path, certificate: Any) -> tuple[list[CheckedClaim], list[str], list[str]]:
    try:
        signed = list(_read_signed(certificate["release"]))
    except (DiscreetError, AttributeError, KeyError, TypeError, ValueError):
        return [CheckedClaim("the tables can be read from the certificate", False)], [], []
    claims, views, unchecked = list[CheckedClaim](), list[str](), list[str]()
    queries = _read_queries(folder)
    files = sorted((*folder.glob("*.csv"), *folder.glob("*.parquet")))
    for suffix in sorted({file.suffix for file in files} | {".csv"}):
        unused = list(range(len(signed)))
        named = [file for file in files if file.suffix == suffix]
        for file in named:
            found = _find(file, signed, unused)
            claims.append(CheckedClaim(f"{file.name} holds what was signed", found is not None))
            if found is None:
                continue
            unused.remove(found.answer)
            rows = f"{found.missing:,} of {found.rows:,} rows"
            if found.missing and not _selects(queries.get(file.stem), found):
                claims.append(CheckedClaim(f"{file.name} holds every row that was signed (it lacks {rows})", False))
                continue
            views += [] if found.is_whole else [file.name]
            if found.missing:
                unchecked.append(f"whether the query of {file.name} left out the {rows} that it lacks")
        complete = len(named) == len(signed)
        claims.append(CheckedClaim(f"there is one {suffix} file for each signed answer", complete))
    claims += _compare_page(folder, certificate, len(signed))
    return claims, [NOT_SIGNED, *([VIEWS.format(names=", ".join(views))] if views else [])], unchecked


def _compare_tabulation(folder: Path, certificate: Any) -> tuple[list[CheckedClaim], list[str], list[str]]:
    """The measurements are what was signed; the tables follow from them."""
    try:
        found, signed = Measurements.read(folder), certificate["release"]
        noises = {measured_from_json(each): noise_to_json(noise_from_json(each)) for each in signed["measured"]}
        stated = {measured: noise_to_json(noise) for measured, noise in found.noises.items()}
        is_same = hash_keys(KeyProduct(found.keys)) == certificate["measurement"]["keys"] and stated == noises
        is_same = is_same and found.step == Fraction(signed["step"])
        is_same = is_same and found.columns == _list_signed_columns(certificate["measurement"]["question"])
        is_same = is_same and all(
            (unpack(each["cells"], noisy.shape) == noisy).all()
            for each in signed["measured"]
            for noisy in [found.measured[measured_from_json(each)]]
        )
        claims = [CheckedClaim(f"{MEASUREMENTS_FILE} holds what was signed", bool(is_same))]
        reproduced = reproduce(folder)
    except (DiscreetError, AttributeError, KeyError, TypeError, ValueError, zlib.error):
        return [CheckedClaim("the measurements can be read, and compared with the certificate", False)], [], []
    claims += _list_claims(reproduced, found.confidence)

    def write_page(stated: Statement) -> str:
        return format_table_page("", stated, reproduced.tables, found.columns, found.keys, found.noises, found.step)

    said, unchecked = _compare_whole_page(folder, certificate, found.step, len(found.tables), write_page)
    return [*claims, *said], [NOT_SIGNED_NAMES, NOT_SIGNED_WORDS], unchecked


def _list_signed_columns(question: str) -> tuple[str, ...]:
    """Return the names of the columns that a signed query groups by: all that it selects, but for the sum, which is last."""
    try:
        parsed = sqlglot.parse_one(question, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise ValueError("the signed query cannot be parsed") from None
    return tuple(each.alias_or_name for each in parsed.expressions[:-1])


def _list_claims(reproduced: Reproduction | HierarchyReproduction, confidence: float) -> list[CheckedClaim]:
    """What is claimed of each file of a tabulation."""
    follows = f"follows from the measurements, with intervals of {100 * confidence:.6g}%"
    wrong = (*reproduced.different, *reproduced.missing)
    return [
        *(CheckedClaim(f"{name} {follows}", True) for name in reproduced.same),
        *(CheckedClaim(f"{name} {follows}", False) for name in wrong),
        *(CheckedClaim(f"{name} is a table of the measurements", False) for name in reproduced.unknown),
    ]


def _compare_page(folder: Path, certificate: Any, tables: int) -> list[CheckedClaim]:
    """What the guarantee page says of ε and δ follows from the certificate."""
    try:
        is_stated = states_what_is_certified(_read_page(folder), certificate, tables)
    except (DiscreetError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        is_stated = False
    return [CheckedClaim(f"{GUARANTEE_FILE} states the ε and δ that follow from the certificate", is_stated)]


def _compare_whole_page(
    folder: Path, certificate: Any, step: Fraction, tables: int, write: Callable[[Statement], str]
) -> tuple[list[CheckedClaim], list[str]]:
    """The guarantee page is the one that is written again from the certificate and the measurements.

    What another version wrote may differ in words. Then only what it says of ε and δ is compared, and the rest is named.
    """
    page, software = _read_page(folder), str(certificate.get("software"))
    is_same = says_certified = False
    with suppress(DiscreetError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
        stated = Statement.of_certificate(certificate, step)
        is_same = is_same_page(page, write(stated), stated)
        says_certified = is_same or states_what_is_certified(page, certificate, tables)
    claims = [CheckedClaim(f"{GUARANTEE_FILE} states the ε and δ that follow from the certificate", says_certified)]
    if not is_same and software != f"discreet {version('discreet')}":
        return claims, [f"the other words of {GUARANTEE_FILE}, which {to_printable(software)} wrote"]
    return [
        *claims,
        CheckedClaim(f"{GUARANTEE_FILE} is written as it follows from the certificate and the measurements", is_same),
    ], []


def _read_page(folder: Path) -> str:
    """Return the guarantee page; nothing if it cannot be read."""
    try:
        return read_text(folder / GUARANTEE_FILE, lambda reason: BadParameter("folder", GUARANTEE_FILE, reason, "allow it"))
    except DiscreetError:
        return ""


def _compare_hierarchy(folder: Path, certificate: Any) -> tuple[list[CheckedClaim], list[str], list[str]]:
    """The measurements of a hierarchy are what was signed; the tables follow from them."""
    try:
        found, signed, stated = HierarchyMeasurements.read(folder), certificate["release"], certificate["measurement"]
        described, model = found.describe(), found.model
        noises = [
            {"level": level, "margin": list(margin), **noise_to_json(noise)}
            for level, noises in zip(model.spine.levels, model.noises, strict=True)
            for margin, noise in noises.items()
        ]
        keys = KeyProduct((tuple(model.spine.nodes[-1].tolist()), *model.keys))
        is_same = all(described[name] == signed[name] for name in ("spool", "root", "parts", "step")) and (
            stated["measured"] == noises
            and stated["keys"] == hash_keys(keys)
            and stated["nodes"] == hash_nodes(model.spine)
            and stated["stream_level"] == model.stream_level
            and found.plan == _hash_plan(stated)
            and list(model.columns) == signed["columns"]
        )
        claims = [CheckedClaim("measurements/ holds what was signed, with its Merkle root", bool(is_same))]
        reproduced = reproduce_hierarchy(folder)
    except (DiscreetError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
        return [CheckedClaim("the measurements can be read, and compared with the certificate", False)], [], []

    def write_page(stated: Statement) -> str:
        return format_hierarchy_page("", stated, model, reproduced.root)

    said, unchecked = _compare_whole_page(folder, certificate, model.step, count_level_tables(model), write_page)
    regions = [NOT_SIGNED_REGIONS] if model.region_names else []
    claims = [*claims, *_list_claims(reproduced, model.confidence), *said]
    return claims, [NOT_SIGNED_NAMES, NOT_SIGNED_WORDS, *regions], unchecked


def _hash_plan(measurement: Mapping[str, Any]) -> str:
    """Return the hash of what a certificate says was measured: all but the folder, and the bits, which are no part of it."""
    plan = {name: each for name, each in measurement.items() if name not in ("spool", "bits")}
    return sha256(to_canonical_json(plan)).hexdigest()


@dataclass(frozen=True, slots=True)
class _Match:
    """The signed answer that a table agrees with."""

    answer: int
    is_whole: bool  # it is exactly that answer
    rows: int  # of the signed answer
    missing: int  # so many of them are not in the table


def _read_queries(folder: Path) -> dict[str, str]:
    """Return the query of each table as the guarantee page states it, by the name of the table."""
    text = _read_page(folder)
    line = re.compile(r"^\| \[([^]]+)\]\([^)]*\.csv\) \([^|]*\) \| (`+) ?(.*?) ?\2 \| ", re.MULTILINE)
    return {name: code.replace("\\|", "|") for name, _, code in line.findall(text)}


def _selects(query: str | None, found: _Match) -> bool:
    """Return whether a query may show so few rows of its answer: by HAVING any number, by LIMIT and OFFSET one number."""
    try:
        parsed = None if query is None else sqlglot.parse_one(query)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return False
    if parsed is None:
        return False
    if parsed.args.get("having") is not None:
        return True
    limit, offset = (_read_count(parsed.args.get(name)) for name in ("limit", "offset"))
    after = max(0, found.rows - (offset or 0))
    return found.rows - found.missing == (after if limit is None else min(limit, after))


def _read_count(clause: exp.Expression | None) -> int | None:
    text = "" if clause is None else clause.expression.name
    return int(text) if text.isdecimal() else None


def _read_signed(release: Any) -> Iterator[tuple[_Table, ...]]:
    """Yield each signed answer as it may have been written: plain, or for a spreadsheet."""
    for record in release.get("answers", [release]):
        answer = from_record(record, compose())
        header, records = make_table(answer)
        yield tuple(
            _parse(to_csv(header, records, spreadsheet=spreadsheet), len(answer.groups)) for spreadsheet in (False, True)
        )


def _parse(text: str, keys: int) -> _Table:
    header, *rows = csv.reader(StringIO(text, newline=""))
    return _Table(keys, tuple(header), tuple(map(tuple, rows)))


def _find(file: Path, signed: Sequence[tuple[_Table, ...]], unused: Sequence[int]) -> _Match | None:
    """Return the answer that a table agrees with; None if it agrees with none."""
    try:
        table = _parse(_read_text(file), 0)
    except (DiscreetError, ValueError, csv.Error):
        return None
    for agrees, is_whole in ((_is_same, True), (_is_view, False)):
        for i in unused:
            if any(agrees(table, each) for each in signed[i]):
                rows = len(signed[i][0].rows)
                return _Match(i, is_whole, rows, rows - len(table.rows))
    return None


def _read_text(file: Path) -> str:
    if file.suffix == ".csv":
        return read_text(file, lambda reason: BadParameter("folder", file.name, reason, "allow reading it"))
    from pyarrow import ArrowException, parquet

    try:
        found = parquet.read_table(file)
    except (OSError, ArrowException):
        raise ValueError("not a Parquet file") from None
    return to_csv(found.column_names, list(zip(*(column.to_pylist() for column in found.columns), strict=True)))


def _is_same(table: _Table, signed: _Table) -> bool:
    """Return whether a table is the signed one, row by row."""
    if table.header != signed.header or len(table.rows) != len(signed.rows):
        return False
    keys = signed.keys
    return all(_normalise(row, keys) == _normalise(other, keys) for row, other in zip(table.rows, signed.rows, strict=True))


def _is_view(table: _Table, signed: _Table) -> bool:
    """Return whether each row of a table is another row of the signed one, with intervals that contain the signed ones."""
    names, keys = table.header, signed.header[: signed.keys]
    if len(set(names)) < len(names) or names[: len(keys)] != keys or not set(names) <= set(signed.header):
        return False
    places = [signed.header.index(name) for name in names]
    roles = [_role_of(name) if place >= signed.keys else "" for name, place in zip(names, places, strict=True)]
    equal = [i for i, role in enumerate(roles) if not role]
    by_value: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    for row in signed.rows:
        shown = tuple(row[place] for place in places)
        by_value.setdefault(_normalise([shown[i] for i in equal], signed.keys), []).append(shown)
    for row in table.rows:
        if len(row) != len(names):
            return False
        same = by_value.get(_normalise([row[i] for i in equal], signed.keys), [])
        other = next((each for each in same if all(map(_contains, roles, row, each))), None)
        if other is None:
            return False
        same.remove(other)
    return True


def _normalise(row: Sequence[str], keys: int) -> tuple[object, ...]:
    """Keys are compared as texts, and numbers as numbers."""
    return (*row[:keys], *map(_to_number, row[keys:]))


def _to_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _role_of(name: str) -> str:
    """Return which part of an interval a column is; nothing for a value."""
    ends = [suffix.strip("_") for suffix in INTERVAL_SUFFIXES]
    return next((end for end in ends if name.rstrip("_") == end or name.endswith(f"_{end}")), "")


def _contains(role: str, shown: str, signed: str) -> bool:
    """A view widens intervals, and what is not reliable stays so."""
    if shown == signed or not role:
        return True
    if role == "reliable":
        return (shown, signed) == ("False", "True")
    end, other = _to_number(shown), _to_number(signed)
    if isinstance(end, str) or isinstance(other, str):
        return False
    return end <= other if role == "lower" else end >= other
