"""Frames: pandas, Polars and Arrow tables, copied once into a table of DuckDB's own.

With a policy, every column is read by its declared kind, as in a CSV file (see `types`); without one, by its own type. A
value that the engine cannot hold is found when the source is opened, and cannot make a query fail later.

A pandas column of Python objects is read cell by cell, each as a text that depends on that cell alone. DuckDB would infer
the type of such a column from a sample of its cells, round 1.5 to 2 where it inferred whole numbers, and fail where a cell
does not fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from discreet.engines.base import identity_columns
from discreet.engines.duckdb.types import EXACT_LIMIT, ZONED_NS, Loaded, kind_of, quote_name, read_as, read_identity
from discreet.errors import SourceRefused
from discreet.query.schema import Kind


def copy_frame(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    frame: Any,
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
) -> Loaded:
    """Copy the declared columns of a frame, or all of them, into a table."""
    library = _library_of(frame)
    if library is None:  # DuckDB would read it all the same, and infer the types of its columns from their values
        raise SourceRefused(
            f"{type(frame).__name__} is not a table that can be read",
            "give a path, a pandas or Polars frame, an Arrow table or a DuckDB connection",
        )
    if library == "pandas":
        frame = _to_plain_pandas(frame)
    given = _Frame(frame, {} if kinds is None else dict(kinds), declared=kinds is not None)
    names = list(frame.columns) if library == "pandas" else [each.name for each in _arrow_fields(frame)]
    if len(set(names)) < len(names):  # DuckDB would give the second column another name
        raise SourceRefused("two columns of this frame have the same name", "rename one of them")
    if library == "pandas":
        given = given.without_objects(units)
    connection.register("given", given.frame)
    types = {row[0]: row[1] for row in connection.execute("DESCRIBE FROM given").fetchall()}
    columns = given.select_columns(types)
    identities = dict(given.identities)
    for unit in units:
        kind = given.kinds.get(unit) or kind_of(types.get(unit, ""))
        if unit in identities or kind is None or unit not in types:
            continue
        if types[unit] in ("FLOAT", "DOUBLE"):
            _check_float_units(connection, unit)
        if (read := read_identity(kind, types[unit], quote_name(unit))) is not None:
            identities |= identity_columns([unit], {*types, *identities.values()})
            columns.append(f"{read} AS {quote_name(identities[unit])}")
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(columns) or '*'} FROM given")
    connection.unregister("given")
    return Loaded(identities, [str(each) for each in names])


def _check_float_units(connection: duckdb.DuckDBPyConnection, unit: str) -> None:
    """Refuse floats beyond 2^53, where several ids are one float. In pandas, whole numbers beside a missing one are
    floats."""
    beyond = f"SELECT count(*) FROM given WHERE isfinite({quote_name(unit)}) AND abs({quote_name(unit)}) >= {EXACT_LIMIT}"
    if connection.execute(beyond).fetchall() != [(0,)]:
        raise large_float_error(unit)


def large_float_error(unit: str) -> SourceRefused:
    """The refusal of units that are floats beyond 2^53."""
    return SourceRefused(
        f"the units in {unit} are floats, which do not tell large ids apart", "store them as texts, or in pandas as Int64"
    )


def find_frame_unit_problem(frame: Any, units: Sequence[str]) -> str | None:
    """Say why two units of a frame could be read as one; None if they cannot."""
    types = {each.name: str(each.type) for each in _arrow_fields(frame)}
    dated = any(types.get(unit) == "date64[ms]" for unit in units)
    return "date64 is read without its time of day" if dated else None


LIBRARIES = ("pandas", "polars", "pyarrow")


def _library_of(frame: Any) -> str | None:
    """The library that a frame's class comes from, or the nearest class that it inherits from; None if there is none."""
    roots = (each.__module__.partition(".")[0] for each in type(frame).__mro__)
    return next((root for root in roots if root in LIBRARIES), None)


def _to_plain_pandas(frame: Any) -> Any:
    """A pandas frame without the class that a subclass (such as that of geopandas) gives it: DuckDB and the code here read
    the same cells."""
    import pandas

    return frame if type(frame) is pandas.DataFrame or not isinstance(frame, pandas.DataFrame) else pandas.DataFrame(frame)


def _arrow_fields(frame: Any) -> list[Any]:
    """The fields of an Arrow table, reader or dataset. None of a Polars frame, which has unique names: a lazy one would
    compute its schema, with a warning."""
    schema = getattr(frame, "schema", ()) if _library_of(frame) == "pyarrow" else ()
    return [each for each in schema if hasattr(each, "type")]


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame, the kinds that are known of its columns, and the columns of the units' identities, if it has any."""

    frame: Any
    kinds: dict[str, Kind]
    declared: bool
    identities: Mapping[str, str] = field(default_factory=dict)

    def select_columns(self, types: Mapping[str, str]) -> list[str]:
        """The columns in SQL: read by kind where one is known, else as they are, or left out if columns are declared."""
        kinds = {name: Kind.TIMESTAMP for name, kind in types.items() if kind == ZONED_NS and not self.declared} | self.kinds
        known = {name: read_as(kinds[name], kind, quote_name(name)) for name, kind in types.items() if name in kinds}
        return [
            f"{known[name]} AS {quote_name(name)}" if name in known else quote_name(name)
            for name in types
            if name in known or name in self.identities.values() or not self.declared
        ]

    def without_objects(self, units: Sequence[str]) -> "_Frame":
        """The same frame with texts in place of pandas objects."""
        import pandas

        from discreet.engines.duckdb.cells import KindFinder, identity_text, read_cell, value_text

        texts, kinds, identities = self.frame.copy(deep=False), dict(self.kinds), dict[str, str]()
        for name in self.frame.columns:
            if not _holds_objects(self.frame[name].dtype) or (self.declared and name not in kinds):
                continue
            cells = [read_cell(cell) for cell in self.frame[name].astype(object)]
            kind = kinds[name] = kinds[name] if self.declared else KindFinder(cells).kind
            texts[name] = pandas.array([value_text(kind, *cell) for cell in cells], dtype="string")
            if name in units:
                identities |= identity_columns([name], {*self.frame.columns, *identities.values()})
                texts[identities[name]] = pandas.array([identity_text(kind, *cell) for cell in cells], dtype="string")
        return _Frame(texts, kinds, self.declared, identities)


def _holds_objects(dtype: Any) -> bool:
    """Whether a column holds objects, categories, intervals or periods, and not numbers, truth values, moments or texts of
    one type. Moments in a zone count as objects: DuckDB would read them without their nanoseconds."""
    if str(dtype).startswith("datetime64[ns, "):
        return True
    return str(dtype) in ("object", "category") or (dtype.kind == "O" and not str(dtype).startswith(("str", "string")))
