"""Engines are found by what they accept, and one more engine is one more entry."""

import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.engines import registry
from discreet.engines.base import Engine, Fingerprint, owner_log
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.registry import EngineFactory, OpenOptions, open_engine, register_engine
from discreet.errors import BadParameter, SourceRefused
from discreet.query.answer import ExactTotals
from discreet.query.contribution import BoundedQuery
from discreet.query.schema import Column, Kind, PublicTable
from discreet.query.statistics import CellCounts
from discreet.session.connect import connect
from discreet.testing import seeded_bits
from tests.support.oracle import reference

ROWS = [{"id": i, "dept": "ab"[i % 2], "pay": i} for i in range(400)]
COLUMNS = {"id": Column(Kind.INTEGER), "dept": Column(Kind.TEXT), "pay": Column(Kind.INTEGER)}


class ToyEngine:
    """Rows in a list of Python, and no SQL: exact integers come from the oracle."""

    lasting = inferred = False
    names = frozenset(COLUMNS)

    def __init__(self, source: str | Path, options: OpenOptions) -> None:
        self.identity, self.table = str(source), options.table or str(source).removeprefix("toy:")
        self.lock, self.origins, self.anchor = threading.Lock(), (self.identity,), self

    def describe_columns(self) -> dict[str, Column]:
        return dict(COLUMNS)

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        return None

    def find_unit_problem(self, unit: str) -> str | None:
        return None

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[ToyEngine, dict[str, PublicTable]]":
        return self, {}

    def compile_all(self, bounded: BoundedQuery) -> tuple[str, ...]:
        return ("the oracle",)

    def read_totals(self, bounded: BoundedQuery) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        found = reference(bounded, ROWS)
        keys = dict.fromkeys(key for statistic in bounded.totals for key in found[statistic])
        return ((tuple(found[each].get(key, 0) for each in bounded.totals), key) for key in keys)

    def read_histogram(self, bounded: BoundedQuery, counts: CellCounts) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        return ((count, key[-1], key[:-1]) for key, count in reference(bounded, ROWS)[counts].items())

    def run(self, bounded: BoundedQuery) -> ExactTotals:
        counts = {each: self.read_histogram(bounded, each) for each in bounded.cell_counts}
        return ExactTotals(self.read_totals(bounded), counts, self.compile_all(bounded))

    def progress(self) -> float | None:
        return None


TOY = EngineFactory("toy", lambda: ToyEngine, schemes=("toy:",), suffixes=(".toy",))  # type: ignore[arg-type,return-value]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_factories", list(registry._factories))


def test_a_session_opens_on_a_registered_engine() -> None:
    register_engine(TOY)
    session = connect("toy:people", unit="id", epsilon=100, bounds={"pay": (0, 400)}, keys={"dept": ("a", "b")})
    query = "SELECT dept, COUNT(*) AS n, SUM(pay) AS total, MEDIAN(pay) AS m FROM people GROUP BY dept"
    answer = session.ask(query, epsilon=90, bits=seeded_bits(1)).to_dicts()
    assert [row["dept"] for row in answer] == ["a", "b"]
    for row, total in zip(answer, (39_800, 40_000), strict=True):
        assert row["n"]["lower"] <= 200 <= row["n"]["upper"]
        assert row["total"]["lower"] <= total <= row["total"]["upper"]
        assert 150 < row["m"]["value"] < 250


def test_an_engine_accepts_by_scheme_suffix_or_type(tmp_path: Path) -> None:
    register_engine(TOY)
    for source in ("toy:people", "people.toy", Path("PEOPLE.TOY")):
        assert isinstance(open_engine(source), ToyEngine)
    (tmp_path / "toy.csv").write_text("id\n1\n")
    assert isinstance(open_engine(tmp_path / "toy.csv"), DuckDB)
    register_engine(EngineFactory("numbers", lambda: ToyEngine, packages=("fractions",)))  # type: ignore[arg-type,return-value]
    assert isinstance(open_engine(Fraction(1), "people"), ToyEngine)
    assert isinstance(open_engine(type("Half", (Fraction,), {})(1), "people"), ToyEngine)
    with pytest.raises(SourceRefused, match="not a table"):
        open_engine(1, "people")


def test_the_engine_that_was_registered_last_comes_first() -> None:
    opened: list[str] = []

    def opener(name: str) -> EngineFactory:
        def load() -> Any:
            return lambda source, options: opened.append(name)

        return EngineFactory(name, load, schemes=("toy:",))

    register_engine(opener("first"))
    register_engine(opener("second"))
    open_engine("toy:people")
    assert opened == ["second"]


def test_a_missing_driver_is_named_with_how_to_install_it() -> None:
    def load() -> Any:
        raise ImportError("no module")

    register_engine(EngineFactory("Toy", load, schemes=("toy:",), driver="toydb", install="pip install toydb"))
    with pytest.raises(SourceRefused, match="toydb is not installed") as refused:
        open_engine("toy:people")
    assert refused.value.hint == "pip install toydb"


def test_an_error_inside_of_an_engine_is_not_taken_for_a_missing_driver() -> None:
    def fail(source: Any, options: OpenOptions) -> Engine:
        raise ImportError("a part of the source")

    register_engine(EngineFactory("Toy", lambda: fail, schemes=("toy:",)))
    with pytest.raises(ImportError, match="a part"):
        open_engine("toy:people")


def test_the_owners_log_names_the_table_and_not_the_address(caplog: pytest.LogCaptureFixture) -> None:
    def note(source: Any, options: OpenOptions) -> Engine:
        owner_log.warning("opened")
        raise SourceRefused("a reason", "a hint")

    register_engine(EngineFactory("Toy", lambda: note, schemes=("toy:",)))
    with pytest.raises(SourceRefused):
        open_engine("toy:user:hunter2@people", "people")
    assert [record.source for record in caplog.records] == ["Toy, people"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["people.csv", "postgresql://db/shop"])
def test_only_a_cluster_takes_a_path(source: str) -> None:
    with pytest.raises(BadParameter, match="path= names files in a Spark cluster"):
        open_engine(source, path="people.parquet")


def test_no_driver_is_imported_before_a_source_needs_it() -> None:
    code = (
        "import sys, discreet, discreet.engines.registry; "
        "print(sorted({'duckdb', 'psycopg', 'pyspark'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
