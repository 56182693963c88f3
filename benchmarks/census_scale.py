"""Hierarchies: a census end to end on DuckDB: people × blocks × 2,016 cells, six levels, from Parquet to published tables.

    python benchmarks/census_scale.py [people] [blocks] [--folder DIR] [--reproduce]    one size, step by step
    python benchmarks/run.py hierarchies                                                 the section of RESULTS.md

Each size runs in a process of its own, so that its peak of memory is its own. It invents people, plans, measures (one pass
of the engine, exact noise on every measured cell, synced to disk), estimates with two passes, and writes estimates with
intervals and display values of every table on every level. Prints wall and processor seconds of each step and the peak of
memory, that of DuckDB included: it runs in the same process.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import discreet  # noqa: E402
from benchmarks.process_memory import peak_megabytes  # noqa: E402
from benchmarks.table import Section  # noqa: E402
from discreet.session.executor import RunOptions  # noqa: E402
from discreet.tabulation import hierarchy_measuring  # noqa: E402
from discreet.tabulation.hierarchical import execute_hierarchy  # noqa: E402
from discreet.tabulation.hierarchy import Hierarchy, LevelTable  # noqa: E402
from discreet.tabulation.hierarchy_files import reproduce_hierarchy  # noqa: E402
from discreet.tabulation.hierarchy_plan import plan_hierarchy  # noqa: E402
from discreet.tabulation.spool import Spool  # noqa: E402

LEVELS = "nation > state > county > tract > group > block"
LENGTHS = [0, 2, 5, 11, 12, 15]
SIZES = {"quarters": 8, "adult": 2, "hispanic": 2, "race": 63}
BATCH = 1_000_000
MEASURED = ((1_000_000, 10_000), (3_000_000, 30_000), (10_000_000, 100_000))
"""People and blocks of the runs in RESULTS.md; HIERARCHY_SIZES="100000x1000 …" measures others."""
GOAL_SECONDS, GOAL_GIGABYTES = 600, 4.0
EXTRAPOLATED, EXTRAPOLATED_SECONDS = (100_000_000, 1_000_000), 3600


@dataclass
class Run:
    """What one size took, in seconds, and its peak of memory and size on disk, in gigabytes."""

    people: int
    blocks: int
    unit: str = "row"
    hashing: float = 0.0  # of the exact cells and of the units in them, which show whether rows changed after a crash
    plan: float = 0.0
    measure: float = 0.0
    write: float = 0.0
    total: float = 0.0
    processor: float = 0.0
    peak: float = 0.0
    written: float = 0.0
    reproduce: float = 0.0


@contextmanager
def count(what: str) -> Iterator[None]:
    """Print what a step took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    now, then = time.perf_counter() - wall, time.process_time() - cpu
    line = f"{what:32} {now:8.1f} s   {then:8.1f} s of processor   peak so far {peak_megabytes() / 1024:5.2f} GB"
    print(line, file=sys.stderr, flush=True)


def list_blocks(blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of 15 characters: about 40 blocks a group, 3 groups a tract, 4 tracts a county, 60 counties a state."""
    group = np.sort(rng.integers(0, max(1, blocks // 40), blocks))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    place = np.arange(blocks) - np.repeat(first, np.diff(first, append=blocks))
    tract = group // 3
    county = tract // 4
    rows = zip(county.tolist(), tract.tolist(), group.tolist(), place.tolist(), strict=True)
    return np.array([f"{c // 60:02}{c % 60:03}{t:06}{g % 3:01}{p:03}" for c, t, g, p in rows])


@contextmanager
def time_hashing(found: Run) -> Iterator[None]:
    """Add up what hashing takes beside the engine."""

    def count_time(function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            begin = time.perf_counter()
            result = function(*given)
            found.hashing += time.perf_counter() - begin
            return result

        return timed

    places = ((Spool, "_hash_cells"), (hierarchy_measuring, "hash_units"))
    plain = [getattr(owner, name) for owner, name in places]
    for (owner, name), function in zip(places, plain, strict=True):
        setattr(owner, name, count_time(function))
    try:
        yield
    finally:
        for (owner, name), function in zip(places, plain, strict=True):
            setattr(owner, name, function)


def invent_people(path: Path, people: int, codes: np.ndarray, rng: np.random.Generator) -> None:
    """One row per person. Blocks differ in size, and one in five is empty; races follow a falling law."""
    sizes = rng.gamma(0.7, 1.0, len(codes)) * (rng.random(len(codes)) < 0.8)
    cumulated = np.cumsum(sizes / sizes.sum())
    races = 1.0 / np.arange(1, 64) ** 2
    laws = {"quarters": np.array([0.975, *[0.025 / 7] * 7]), "adult": np.array([0.22, 0.78]),
            "hispanic": np.array([0.81, 0.19]), "race": races / races.sum()}  # fmt: skip
    labels = pa.array(codes.tolist())
    writer = None
    for start in range(0, people, BATCH):
        many = min(BATCH, people - start)
        block = np.minimum(np.searchsorted(cumulated, rng.random(many)), len(codes) - 1).astype(np.int32)
        columns = {"geocode": pa.DictionaryArray.from_arrays(pa.array(block), labels).cast(pa.string())}
        columns |= {name: rng.choice(len(law), many, p=law).astype(np.int8) for name, law in laws.items()}
        columns["id"] = np.arange(start, start + many)
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def run(people: int, blocks: int, within: Path | None, *, reproduce: bool = False, unit: str = "row") -> Run:
    """Run one size, and say what it took."""
    folder = Path(tempfile.mkdtemp(prefix="census", dir=within))
    rng = np.random.default_rng(1)
    found = Run(people, blocks, unit)
    try:
        codes = list_blocks(blocks, rng)
        with count("(inventing people)"):
            invent_people(folder / "people.parquet", people, codes, rng)
        begin, cpu = time.perf_counter(), time.process_time()
        with count("open the source, read the nodes"):
            keys = {name: list(range(size)) for name, size in SIZES.items()}
            session = discreet.connect(
                folder / "people.parquet", unit=unit, epsilon=20, delta=1e-10, keys=keys, neighbours="replace"
            )
            hierarchy = Hierarchy.read(LEVELS, codes.tolist(), column="geocode", lengths=LENGTHS)
        tables = {
            "total": LevelTable(),
            "race": LevelTable(("race",)),
            "adult_race": LevelTable(("adult", "race")),
            "detail": LevelTable(tuple(SIZES)),
        }
        with count("plan"):
            plan = plan_hierarchy(session, hierarchy, tables, epsilon=16)
        planned = time.perf_counter()
        with count("measure"), time_hashing(found):
            tabulation = execute_hierarchy(plan, folder / "out", RunOptions())
        measured = time.perf_counter()
        with count("estimate and write"):
            tabulation.write()
        done = time.perf_counter()
        found.plan, found.measure, found.write, found.total = (
            planned - begin, measured - planned, done - measured, done - begin
        )  # fmt: skip
        found.processor, found.peak = time.process_time() - cpu, peak_megabytes() / 1024
        found.written = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file()) / 1e9
        if reproduce:
            with count("reproduce"):
                assert reproduce_hierarchy(folder / "out").is_complete
            found.reproduce = time.perf_counter() - done
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


# -- the section ------------------------------------------------------------------------------------------------------------


def list_sizes() -> list[tuple[int, int]]:
    """People and blocks of each run."""
    named = os.environ.get("HIERARCHY_SIZES", "").split()
    pairs = [tuple(map(int, each.split("x"))) for each in named]
    return [(pair[0], pair[1]) for pair in pairs] or list(MEASURED)


def run_apart(people: int, blocks: int, unit: str = "row") -> Run:
    """Run one size in a process of its own."""
    command = [sys.executable, __file__, str(people), str(blocks), "--json", "--unit", unit]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Run(**json.loads(done.stdout))


def fit_line(blocks: list[int], values: list[float]) -> tuple[float, float]:
    """Value at 0 and slope per block, by least squares of relative errors: the largest size does not decide alone."""
    design = np.stack([np.ones(len(blocks)), np.array(blocks, float)], axis=1) / np.array(values)[:, None]
    start, slope = np.linalg.lstsq(design, np.ones(len(blocks)), rcond=None)[0]
    return float(start), float(slope)


def judge(seconds: float, gigabytes: float, goal: float) -> str:
    """Say whether a run is within its goal."""
    is_met = seconds <= goal and gigabytes <= GOAL_GIGABYTES
    return f"≤ {goal / 60:.0f} min, ≤ {GOAL_GIGABYTES:.0f} GB: {'yes' if is_met else 'no'}"


def measure_hierarchies() -> Section:
    """A census at some sizes, and what their slopes say of a larger one."""
    sizes = list_sizes()
    runs = [run_apart(*size) for size in sizes]
    by_id = run_apart(*sizes[0], "id")
    section = Section(
        "Hierarchies: a census end to end",
        "Invented people in blocks of six levels, 8 · 2 · 2 · 63 = 2,016 cells a node, four tables on every level, 100 "
        "people a block: read from Parquet by DuckDB in the same process, exact noise on every measured cell, each subtree "
        "synced to disk, two passes of least squares, estimates with intervals and display values as Parquet. Memory is the "
        "peak of the whole process. Each row is a person, or people are told apart by a column (`by id`): then the engine "
        "also bounds contributions and hashes who is in which cell. Hashing is a part of measuring: that of exact cells and "
        "units outside of the engine. The last row was not run: it is extrapolated on paper, along the slopes, which are "
        "least-squares lines through the measured sizes.",
        [
            "people × blocks",
            "plan",
            "measure",
            "hashing",
            "estimate and write",
            "end to end",
            "memory",
            "on disk",
            "goal",
        ],
    )
    for each in (by_id, *runs):
        is_goal = (each.people, each.blocks) == MEASURED[-1]
        section.add(
            f"{each.people:,} × {each.blocks:,}{', by id' if each.unit == 'id' else ''}", f"{each.plan:.1f} s",
            f"{each.measure:.1f} s", f"{each.hashing:.2f} s", f"{each.write:.1f} s", f"{each.total:.1f} s",
            f"{each.peak:.2f} GB", f"{each.written:.2f} GB",
            judge(each.total, each.peak, GOAL_SECONDS) if is_goal else "",
        )  # fmt: skip
    if len(runs) >= 2:
        people, blocks = EXTRAPOLATED
        names = ("plan", "measure", "hashing", "write", "total", "peak", "written")
        lines = {name: fit_line([each.blocks for each in runs], [getattr(each, name) for each in runs]) for name in names}
        found = {name: max(0.0, start + slope * blocks) for name, (start, slope) in lines.items()}
        slopes = {name: 1e4 * slope for name, (_, slope) in lines.items()}
        section.add(
            "slope per 1,000,000 × 10,000", f"{slopes['plan']:.2f} s", f"{slopes['measure']:.2f} s",
            f"{slopes['hashing']:.2f} s", f"{slopes['write']:.2f} s", f"{slopes['total']:.2f} s",
            f"{slopes['peak']:.3f} GB", f"{slopes['written']:.3f} GB", "",
        )  # fmt: skip
        # Memory is one subtree, whose size is bounded, and the levels above: no less than that of the largest run.
        found["peak"] = max(found["peak"], *(each.peak for each in runs))
        section.add(
            f"{people:,} × {blocks:,}, extrapolated", f"{found['plan']:.0f} s", f"{found['measure']:.0f} s",
            f"{found['hashing']:.0f} s", f"{found['write']:.0f} s", f"{found['total'] / 60:.0f} min",
            f"{found['peak']:.1f} GB", f"{found['written']:.0f} GB",
            judge(found["total"], found["peak"], EXTRAPOLATED_SECONDS),
        )  # fmt: skip
    return section


SECTIONS = [measure_hierarchies]


def main() -> None:
    """Run one size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("people", type=int, nargs="?", default=1_000_000)
    parser.add_argument("blocks", type=int, nargs="?", default=10_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--reproduce", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--unit", default="row", help="row, or id: the column that says who is who")
    given = parser.parse_args()
    found = run(given.people, given.blocks, given.folder, reproduce=given.reproduce, unit=given.unit)
    if given.json:
        print(json.dumps(asdict(found)))
        return
    print(
        f"end to end: {found.total:.0f} s, {found.processor:.0f} s of processor, peak {found.peak:.2f} GB, "
        f"{found.written:.1f} GB written"
    )


if __name__ == "__main__":
    main()
