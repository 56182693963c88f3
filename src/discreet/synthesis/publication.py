"""Synthetic rows of a tabulation that was published: its noisy tables were paid for, so nothing is charged or read.

The rows are raked to all measured tables (`raking`), whatever their margins; where a contrast was measured, to the estimate
of the whole table that it belongs to. A column that no measured table holds with
others is independent of them in the rows.
"""

from os import PathLike
from pathlib import Path

from discreet._numbers import Number
from discreet.errors import BadParameter, QueryRefused
from discreet.synthesis.files import SyntheticTable
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.metrics import bound_distances
from discreet.synthesis.raking import fit_rows
from discreet.synthesis.synthesis import Drawing, RowCount
from discreet.tabulation.files import Measurements
from discreet.tabulation.hierarchy_files import is_hierarchy_folder
from discreet.tabulation.margins import Contrast, axes_of
from discreet.tabulation.tabulation import Tabulation
from discreet.units import CONDITIONAL


def synthesize_publication(
    publication: "Tabulation | str | Path", *, rows: RowCount = "auto", confidence: Number = 0.95, seed: int = 0
) -> SyntheticTable:
    """Return rows that are drawn from the noisy tables of a tabulation, or of the folder that it was published in.

    >>> import discreet
    >>> people = discreet.connect("examples/people.csv", unit="id", unique=True, epsilon=1, delta=1e-6,
    ...     keys={"dept": ["sales", "research", "legal"], "age": range(18, 71)})
    >>> found = discreet.tabulate(people, [("dept",), ("dept", "age")], epsilon=1)
    >>> len(synthesize_publication(found, rows=200))
    200

    Raises:
        SourceRefused: the folder is not one of a tabulation.
        QueryRefused: its tables hold no counts of rows, or no column, or are those of a hierarchy.
    """
    drawing = Drawing(rows, seed, confidence)
    measured = Measurements.of(publication) if isinstance(publication, Tabulation) else _read_folder(publication)
    if not measured.columns:
        raise QueryRefused("The publication has no column", "publish a table by some columns")
    if measured.step != 1:
        raise QueryRefused(
            f"The tables add up a weight in steps of {measured.step}, and rows are whole", "publish counts of rows"
        )
    sizes = tuple(map(len, measured.keys))
    tables = tuple(
        NoisyTable(axes_of(each), measured.measured[each], noise, each.columns if isinstance(each, Contrast) else ())
        for each, noise in measured.noises.items()
    )
    generator = drawing.generator
    codes = fit_rows(sizes, tables, generator).sample(drawing.rows, generator)
    bounds = bound_distances(codes, sizes, tables, drawing.confidence)
    tainted = isinstance(publication, Tabulation) and publication.tainted
    guarantee = "The rows have the guarantee of the publication: they were made of its noisy tables, and cost nothing more."
    depends = tuple(note for note in measured.notes if note.startswith(CONDITIONAL))  # rows may be read without their folder
    return SyntheticTable(codes, measured.columns, measured.keys, bounds, tainted, tables, (guarantee, *depends))


def _read_folder(folder: "str | Path") -> Measurements:
    if not isinstance(folder, str | PathLike):
        raise BadParameter(
            "publication", repr(folder), "neither a tabulation nor a folder", "give what tabulate returned, or a folder"
        )
    place = Path(folder)
    if not place.is_dir():
        raise BadParameter("folder", str(folder), "there is no such folder", "name the folder of a published tabulation")
    if is_hierarchy_folder(place):
        refused = QueryRefused(
            f"{folder} is the publication of a hierarchy, and rows are drawn from tables without levels alone",
            "publish the tables of one area without [hierarchy], and name that folder",
        )
        refused.see = "docs/synthesis.md#from-python"
        raise refused
    return Measurements.read(place)
