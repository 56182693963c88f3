"""A mechanism of every kind that is no set oracle, its reports, good and bad, and how a source of them must be counted."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.local import (
    BasicRappor,
    BucketFlip,
    CountMeanSketch,
    HadamardCountMeanSketch,
    OneBitMean,
    Rappor,
    RoundedBit,
    SequenceFragmentPuzzle,
    SystemCounts,
    UnknownRappor,
    count_system,
)
from discreet.local.draws import SystemDraws
from tests.support.local_reports import COLLECTION, VERSION

NOISE = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)
SKETCHES = CountMeanSketch(Fraction(9), 3, 40, "f"), CountMeanSketch(Fraction(9), 3, 8, "w")
SYSTEMS: dict[str, Any] = {
    "one-bit mean": OneBitMean(10, Fraction(3)),
    "rounded bit": RoundedBit(10, 5, Fraction(3), Fraction(1, 10)),
    "bucket flip": BucketFlip(7, 3, Fraction(3)),
    "basic rappor": BasicRappor.of(5, *NOISE),
    "rappor": Rappor(40, 2, 3, *NOISE, "x"),
    "count mean sketch": SKETCHES[0],
    "hadamard": HadamardCountMeanSketch(Fraction(9), 3, 32, "h"),
    "puzzle": SequenceFragmentPuzzle(4, "_abc", *SKETCHES, pieces=4),
    "unknown rappor": UnknownRappor(4, "_abc", 2, Rappor(32, 2, 3, *NOISE, "x"), BasicRappor.of(16, *NOISE)),
}
Columns = dict[str, list[Any]]


def draw_reports(mechanism: Any, n: int) -> dict[str, list[int]]:
    """Draw reports of three values."""
    values = [b"abca", b"cc", b""] if mechanism.values is None else [0, 2, mechanism.values - 1]
    rows = [mechanism.draw(values[i % 3], SystemDraws()) for i in range(n)]
    return {each.name: [row[place] for row in rows] for place, each in enumerate(mechanism.fields)}


def same(one: SystemCounts, two: SystemCounts) -> bool:
    """Whether two counts hold the same integers."""
    rejected = all(one.rejected.get(kind, 0) == two.rejected.get(kind, 0) for kind in {*one.rejected, *two.rejected})
    return one.n == two.n and rejected and all(map(np.array_equal, one.tallies, two.tallies))


def spoil_reports(mechanism: Any) -> Columns:
    """Return 40 reports with their collection, version and nonce, and two bad ones of each kind among them."""
    columns: Columns = {name: list(cells) for name, cells in draw_reports(mechanism, 50).items()}
    first, last = mechanism.fields[0], mechanism.fields[-1]
    columns |= {"collection": [COLLECTION] * 50, "version": [VERSION] * 50, "nonce": [f"n{place}" for place in range(50)]}
    columns["collection"][:2] = [None, "another"]
    columns["version"][10:12] = [None, VERSION + 1]
    columns[last.name][20], columns["nonce"][21] = None, None
    columns[first.name][30], columns[last.name][31] = -1, last.below
    columns["nonce"][40:42] = ["n39", "n38"]
    return columns


def assert_counted_alike(name: str, load: Callable[[Columns], dict[str, Any]]) -> None:
    """Assert that what an engine counts in a table of reports is what arrays of them give."""
    mechanism, wanted = SYSTEMS[name], {"collection": COLLECTION, "version": VERSION}
    columns = spoil_reports(mechanism)
    expected = count_system(mechanism, {each: np.array(cells, object) for each, cells in columns.items()}, **wanted)
    assert expected.rejected == dict.fromkeys(expected.rejected, 2)
    assert (expected.n, expected.received) == (40, 50)
    found = count_system(mechanism, **load(columns), **wanted)
    assert same(found, expected), (name, found, expected)
