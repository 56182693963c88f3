"""Everything that can be said about a source when it is opened, declared once.

Each field of `SourceOptions` is a parameter of `discreet.connect`, a flag of `discreet ask` and `discreet quote`, and a key
of a plan.toml. The command line (`cli/options.py`) and the plan (`workload/spec.py`) read the fields from here, so a new
option is one field, and one line in the signature of `connect`. `discreet --help` imports this module, so it imports little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from discreet.query.schema import BoundLike, Key, Table
from discreet.units import Neighbours

ColumnBounds: TypeAlias = Mapping[str, tuple[BoundLike, BoundLike] | str] | str
"""Bounds of each column by its name: a pair, or `AUTO` for one column or for all of them."""

AUTO = "auto"
"""In place of bounds: discover them privately."""


class KeyText(str):
    """A group key as typed in a shell: it becomes a value of its column's type once that is known."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """How a source option is written in a shell or in a plan.toml."""

    help: str
    kind: type = str  # str, int, bool, list for one or several names, or dict for a value per name, such as pay=0:200
    is_path: bool = False  # whether the value, or each value of a dict, is a path or an address
    in_python_only: bool = False  # whether it says something of an object, which no shell and no plan.toml can name


def _describe(help: str, kind: type = str, *, is_path: bool = False, in_python_only: bool = False) -> dict[str, OptionSpec]:
    return {"spec": OptionSpec(help, kind, is_path, in_python_only)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """A source, what is declared about it, and the neighbouring relation and label of its queries."""

    source: Any = field(
        metadata=_describe(
            "A CSV, Parquet, JSON lines (.jsonl), Excel (.xlsx, people.xlsx#Sheet1) or Arrow file (globs too), a folder of "
            "Parquet files, a DuckDB file, postgresql://…, spark:local[2], spark://….",
            is_path=True,
        )
    )
    unit: str | Sequence[str] | None = field(
        default=None,
        metadata=_describe(
            "The column that identifies the privacy unit, such as a person; several with commas between them: "
            "household,person. row: each row is one person.",
            list,
        ),
    )
    name: str | None = field(
        default=None,
        metadata=_describe("The owner's name for a frame, which the ledger knows it by.", in_python_only=True),
    )
    policy: str | Path | Table | None = field(
        default=None, metadata=_describe("A policy.toml that declares the table.", is_path=True)
    )
    table: str | None = field(
        default=None,
        metadata=_describe(
            "The name of the table; the name of the file, unless given; of a glob, what stands before its first wildcard, "
            "or data."
        ),
    )
    path: str | Path | None = field(default=None, metadata=_describe("The Parquet files that Spark reads.", is_path=True))
    bounds: ColumnBounds | None = field(
        default=None,
        metadata=_describe("The range that a column is clipped to: pay=0:200. pay=auto discovers it privately.", dict),
    )
    keys: Mapping[str, Sequence[Key]] | None = field(
        default=None,
        metadata=_describe("The group keys of a column that answers show: dept=a,b,c; in quotes if they have commas.", dict),
    )
    max_groups: int | None = field(
        default=None, metadata=_describe("The number of groups that a unit counts in; 1 unless given.", int)
    )
    max_rows: int | None = field(
        default=None, metadata=_describe("The number of rows that a unit counts with in each group; 1 unless given.", int)
    )
    unique: bool | None = field(default=None, metadata=_describe("Every unit has at most one row.", bool))
    public: Mapping[str, Any] | None = field(
        default=None, metadata=_describe("A public table that queries may join to: cities=cities.csv.", dict, is_path=True)
    )
    neighbours: Neighbours | str = field(
        default="add-remove", metadata=_describe("The neighbouring relation: add-remove one unit, or replace one.")
    )
    invariants: Mapping[str, str] | None = field(
        default=None,
        metadata=_describe(
            "Exact counts by a column that are public, and why: state='the law demands them'. The guarantee becomes "
            "conditional on them.",
            dict,
        ),
    )
    label: str | None = field(
        default=None,
        metadata=_describe("The state of the source, such as 2026-11. Answers under another label are not reused."),
    )


SOURCE_OPTIONS: dict[str, OptionSpec] = {each.name: each.metadata["spec"] for each in fields(SourceOptions)}
"""How every field of `SourceOptions` is written, by name."""

WRITTEN_OPTIONS: dict[str, OptionSpec] = {name: spec for name, spec in SOURCE_OPTIONS.items() if not spec.in_python_only}
"""Those of them that are flags of a shell and keys of a plan.toml."""
