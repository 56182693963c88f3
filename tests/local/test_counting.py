"""Counts are exact integers, the same wherever the reports are; bad reports are counted, and change nothing else."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import BadParameter, SourceRefused
from discreet.local import counting
from discreet.local.apple import CountMeanSketch
from discreet.local.counting import (
    Counts,
    count_cohorts,
    count_reports,
    count_sparsely,
    lists_values,
    sum_supports,
    sum_values,
)
from discreet.local.draws import SystemDraws
from discreet.local.oracles import Direct, Hashed, Projective, SetOracle
from discreet.local.rappor import Rappor
from tests.support.local_reports import COLLECTION, ODDS, ORACLES, VERSION, Row, count_slowly, make_rows, to_columns


def to_pandas(rows: list[Row], *, plain: bool = False) -> pd.DataFrame:
    columns = to_columns(rows, plain=plain)
    texts = ("collection", "nonce")
    return pd.DataFrame(
        {name: cells if name in texts else pd.array(cells, dtype="Int64") for name, cells in columns.items()}
    )


def to_arrays(rows: list[Row], *, plain: bool = False) -> dict[str, Any]:
    return {name: np.array(cells, object) for name, cells in to_columns(rows, plain=plain).items()}


def to_masked(rows: list[Row], *, plain: bool = False) -> dict[str, Any]:
    """Masked integers, and objects for texts."""
    return {
        name: np.array(cells, object)
        if name in ("collection", "nonce")
        else np.ma.array([0 if cell is None else cell for cell in cells], mask=[cell is None for cell in cells])
        for name, cells in to_columns(rows, plain=plain).items()
    }


def to_table(rows: list[Row], *, plain: bool = False) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", to_pandas(rows, plain=plain))
    connection.execute("CREATE TABLE reports AS FROM given")
    return connection


PLACES: dict[str, Callable[..., Any]] = {
    "arrays": to_arrays,
    "masked": to_masked,
    "pandas": to_pandas,
    "polars": lambda rows, plain=False: pl.from_pandas(to_pandas(rows, plain=plain)),
    "arrow": lambda rows, plain=False: pa.Table.from_pandas(to_pandas(rows, plain=plain)),
    "duckdb": to_table,
}


CASES = [(name, place) for place in ("arrays", "masked", "duckdb") for name in ORACLES]
CASES += [("hadamard", place) for place in ("pandas", "polars", "arrow")]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_counts_are_the_same_everywhere(name: str, place: str) -> None:
    oracle, rows = ORACLES[name], make_rows(ORACLES[name])
    table = {"table": "reports"} if place == "duckdb" else {}
    counts = count_reports(oracle, PLACES[place](rows), collection=COLLECTION, version=VERSION, **table)
    assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows)
    assert all(counts.rejected.values()), "every kind of bad report occurs"
    assert counts.received == len(rows)
    plain = count_reports(oracle, PLACES[place](rows, plain=True), **table)
    assert (plain.n, plain.supports.tolist(), plain.rejected) == count_slowly(oracle, rows, plain=True)


@pytest.mark.parametrize("place", ["arrays", "duckdb"])
@pytest.mark.parametrize("name", ORACLES)
def test_counts_without_bad_reports_are_the_same_too(name: str, place: str) -> None:
    oracle = ORACLES[name]
    rows = [row for row in make_rows(oracle, 200) if count_slowly(oracle, [row], plain=True)[0]]
    source = to_table(rows, plain=True) if place == "duckdb" else {
        key: np.array(cells) for key, cells in to_columns(rows, plain=True).items()
    }  # fmt: skip
    counts = count_reports(oracle, source, **({"table": "reports"} if place == "duckdb" else {}))
    assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows, plain=True)
    if not lists_values(oracle):
        cells, times, rejected = count_sparsely(oracle, source, **({"table": "reports"} if place == "duckdb" else {}))
        dense = np.zeros_like(counts.cells)
        dense[cells] = times
        assert (dense == counts.cells).all()
        assert not any(rejected.values())


@pytest.mark.parametrize("oracle", [Direct(5, ODDS), ORACLES["hadamard"], ORACLES["subset"]], ids=lambda o: type(o).__name__)
def test_reals_that_are_whole_numbers_count(oracle: SetOracle) -> None:
    """pandas stores integers with gaps as reals."""
    rows = [row for row in make_rows(oracle) if (1 << 62) + 5 not in row.values()]
    rows.sort(key=lambda row: None in row.values())
    frame = to_pandas(rows, plain=True).astype(float)
    frame.iloc[0, 0] += 0.5
    rows[0][next(iter(rows[0]))] = -1  # out of range as well
    for source in (frame, {name: frame[name].to_numpy() for name in frame}):
        counts = count_reports(oracle, source)
        assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows, plain=True)


def test_files_count_like_tables(tmp_path: Path) -> None:
    oracle, rows = ORACLES["projective"], make_rows(ORACLES["projective"])
    to_pandas(rows).to_parquet(tmp_path / "reports.parquet")
    counts = count_reports(oracle, tmp_path / "reports.parquet", collection=COLLECTION, version=VERSION)
    assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(ORACLES)), st.integers(0, 5), st.integers(0, 30), st.integers(0, 30))
def test_days_and_shards_add_up(name: str, seed: int, first: int, second: int) -> None:
    """Counts are a commutative monoid, and counting is a homomorphism from lists of reports to it."""
    oracle, rows = ORACLES[name], make_rows(ORACLES[name], 30, seed)
    low, high = sorted((first, second))

    def count(part: list[Row]) -> Counts:
        return count_reports(oracle, to_arrays(part, plain=True)) if part else Counts.nothing(oracle)

    one, two, three = count(rows[:low]), count(rows[low:high]), count(rows[high:])
    assert (one + two) + three == one + (two + three) == count(rows)
    assert one + two == two + one
    assert one + Counts.nothing(oracle) == one
    assert (one + two).supports.tolist() == (one.supports + two.supports).tolist()


@pytest.mark.parametrize("name", [name for name, oracle in ORACLES.items() if not lists_values(oracle)])
def test_sums_over_values_are_the_transpose_of_supports(name: str) -> None:
    oracle = ORACLES[name]
    size = len(Counts.nothing(oracle).cells)
    matrix = np.array([sum_supports(oracle, row) for row in np.eye(size, dtype=np.int64)])
    weights = np.random.default_rng(1).integers(0, 1000, oracle.values)
    assert (sum_values(oracle, weights) == matrix @ weights).all()


def test_counts_of_two_collections_do_not_add_up() -> None:
    one, two = Counts.nothing(Direct(3, Fraction(3))), Counts.nothing(Direct(4, Fraction(3)))
    with pytest.raises(BadParameter, match="of two collections"):
        one + two
    with pytest.raises(BadParameter, match="of two collections"):
        Counts.nothing(Direct(3, Fraction(3)), "a") + Counts.nothing(Direct(3, Fraction(3)), "b")


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ({"x": [1]}, {}, "without a column 'y'"),
        ({"y": [1], "collection": ["a"]}, {}, "collection is missing"),
        ({"y": [1], "version": [1]}, {}, "version is missing"),
        ({"y": [1]}, {"collection": "a"}, "no column 'collection'"),
        ({"y": [1, 2], "nonce": [1]}, {}, "not one table"),
        ({"y": [[1, 2]]}, {}, "not one table"),
    ],
    ids=str,
)
def test_sources_that_are_no_reports_are_refused(source: dict[str, Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadParameter, match=words):
        count_reports(Direct(3, ODDS), source, **options)
    if "not one table" not in words:
        with pytest.raises(BadParameter, match=words):
            count_reports(Direct(3, ODDS), pd.DataFrame(source), **options)


def test_columns_of_texts_are_refused() -> None:
    with pytest.raises(BadParameter, match="Convert the column"):
        count_reports(Direct(3, ODDS), pd.DataFrame({"y": ["a", "b"]}))
    with pytest.raises(BadParameter, match="Convert the column"):
        count_reports(Direct(3, ODDS), pd.DataFrame({"y": [1], "nonce": [0.5]}))
    counts = count_reports(Direct(3, ODDS), {"y": np.array(["a", None, 2, True, 10**30], object)})
    assert (counts.n, counts.rejected["length"], counts.rejected["range"]) == (1, 1, 3)


def test_no_reports_are_counts_of_nothing() -> None:
    for oracle in ORACLES.values():
        empty = {field.name: np.zeros(0, np.int64) for field in oracle.fields}
        assert count_reports(oracle, empty) == Counts.nothing(oracle)
        assert count_reports(oracle, pd.DataFrame(empty)) == Counts.nothing(oracle)


def test_too_many_cells_are_refused_before_they_are_allocated() -> None:
    for oracle in (Hashed(1 << 30, ODDS, 3), Projective.optimised(1 << 32, ODDS)):
        with pytest.raises(BadParameter, match="more than can be counted at once"):
            Counts.nothing(oracle)


def test_arrays_are_counted_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: make_rows(oracle) for name, oracle in ORACLES.items()}
    whole = [count_reports(ORACLES[name], to_arrays(each, plain=True)) for name, each in rows.items()]
    monkeypatch.setattr(counting, "ROWS_AT_ONCE", 7)
    assert whole == [count_reports(ORACLES[name], to_arrays(each, plain=True)) for name, each in rows.items()]


@pytest.mark.parametrize("place", ["arrays", "duckdb"])
def test_reports_of_sketches_are_counted_by_cohort(place: str) -> None:
    sketch = CountMeanSketch.for_epsilon(2, 64, 4, "salt")
    reports = [sketch.draw([b"a", b"b", b"c"][i % 3], SystemDraws()) for i in range(60)]
    rows: list[Row] = [dict(zip(("j", "w0", "w1"), report, strict=True)) for report in reports]
    rows += [rows[0] | {"j": 4}, rows[0] | {"w0": None}, rows[0] | {"w1": 1 << 32}]
    counts = count_cohorts(sketch, PLACES[place](rows), **({"table": "reports"} if place == "duckdb" else {}))
    expected = sketch.count(reports)
    assert (counts.ones == expected.cells).all()
    assert int(counts.sizes.sum()) == expected.n
    assert (counts.rejected["range"], counts.rejected["length"]) == (2, 1)
    assert ((counts + counts).ones == 2 * expected.cells).all()


@pytest.mark.parametrize("place", ["arrays", "duckdb"])
def test_reports_of_rappor_are_counted_by_cohort(place: str) -> None:
    rappor = Rappor(40, 2, 3, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), "salt")
    random = np.random.default_rng(1)
    reports = [tuple(int(random.integers(field.below)) for field in rappor.fields) for _ in range(50)]
    rows: list[Row] = [dict(zip(("c", "w0", "w1"), report, strict=True)) for report in reports]
    counts = count_cohorts(rappor, PLACES[place](rows), **({"table": "reports"} if place == "duckdb" else {}))
    expected = rappor.count(reports)
    assert (counts.ones == expected.ones).all()
    assert (counts.sizes == expected.sizes).all()


def test_many_bits_are_summed_by_several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_SUMS", 13)
    oracle, rows = ORACLES["oue"], make_rows(ORACLES["oue"])
    counts = count_reports(oracle, to_table(rows), table="reports", collection=COLLECTION, version=VERSION)
    assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows)
    sketch = CountMeanSketch.for_epsilon(2, 64, 4, "salt")
    reports = [sketch.draw(b"a", SystemDraws()) for _ in range(20)]
    table = to_table([dict(zip(("j", "w0", "w1"), report, strict=True)) for report in reports])
    assert (count_cohorts(sketch, table, table="reports").ones == sketch.count(reports).cells).all()


def test_reports_that_arrive_between_two_statements_are_noticed() -> None:
    with pytest.raises(SourceRefused, match="while they were counted"):
        counting._require_same([(3, {}), (4, {})])
