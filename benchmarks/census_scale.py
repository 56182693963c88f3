"""A census end to end on DuckDB: people × blocks × 2,016 cells, six levels, from Parquet to published tables.

    python benchmarks/census_scale.py [people] [blocks] [--folder DIR]

Invents people, plans, measures (one pass of the engine, exact noise on every measured cell, synced to disk), estimates with
two passes, and writes estimates with intervals and display values of every table on every level. Prints wall and processor
seconds of each step and the peak of memory, that of DuckDB included: it runs in the same process.
"""

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import discreet
from discreet.session.executor import RunOptions
from discreet.tabulation.hierarchical import execute_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_files import reproduce_hierarchy
from discreet.tabulation.hierarchy_plan import plan_hierarchy

LEVELS = "nation > state > county > tract > group > block"
LENGTHS = [0, 2, 5, 11, 12, 15]
SIZES = {"quarters": 8, "adult": 2, "hispanic": 2, "race": 63}
BATCH = 1_000_000


@contextmanager
def count(what: str) -> Iterator[None]:
    """Print what a step took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    now, then = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what:32} {now:8.1f} s   {then:8.1f} s of processor   peak so far {peak:5.2f} GB", flush=True)


def list_blocks(blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of 15 characters: about 40 blocks a group, 3 groups a tract, 4 tracts a county, 60 counties a state."""
    group = np.sort(rng.integers(0, max(1, blocks // 40), blocks))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    place = np.arange(blocks) - np.repeat(first, np.diff(first, append=blocks))
    tract = group // 3
    county = tract // 4
    rows = zip(county.tolist(), tract.tolist(), group.tolist(), place.tolist(), strict=True)
    return np.array([f"{c // 60:02}{c % 60:03}{t:06}{g % 3:01}{p:03}" for c, t, g, p in rows])


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
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("people", type=int, nargs="?", default=1_000_000)
    parser.add_argument("blocks", type=int, nargs="?", default=10_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--reproduce", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="census", dir=given.folder))
    rng = np.random.default_rng(1)
    try:
        codes = list_blocks(given.blocks, rng)
        with count("(inventing people)"):
            invent_people(folder / "people.parquet", given.people, codes, rng)
        begin, cpu = time.perf_counter(), time.process_time()
        with count("open the source, read the nodes"):
            keys = {name: list(range(size)) for name, size in SIZES.items()}
            session = discreet.connect(
                folder / "people.parquet", unit="row", epsilon=20, delta=1e-10, keys=keys, neighbours="replace"
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
            print(hierarchy.spine.sizes, "streamed by", (*hierarchy.levels, "nothing")[plan.stream_level], plan.cost)
        for level, noises in zip(hierarchy.levels, plan.noises, strict=True):
            print(f"   {level:8}", {margin: round(float(noise.sigma), 2) for margin, noise in noises.items()})
        with count("measure"):
            found = execute_hierarchy(plan, folder / "out", RunOptions())
        with count("estimate and write"):
            found.write()
        wall, used = time.perf_counter() - begin, time.process_time() - cpu
        size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file()) / 1e9
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"end to end: {wall:.0f} s, {used:.0f} s of processor, peak {peak:.2f} GB, {size:.1f} GB written")
        if given.reproduce:
            with count("reproduce"):
                print(reproduce_hierarchy(folder / "out").is_complete)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
