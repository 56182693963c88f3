"""Tables that add up: `python benchmarks/tabulation.py` prints the tables.

The peers are research code that PyPI does not have: their figures were measured with the authors' code on another machine
(CPU seconds of one thread), and are named as such. Each task runs in a process of its
own, so that its memory is its own: `python benchmarks/tabulation.py adult` prints one line of JSON.
"""

import json
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import numpy as np  # noqa: E402

from benchmarks.adult_like import ROWS, SIZES, draw_rows  # noqa: E402
from benchmarks.process_memory import peak_megabytes  # noqa: E402
from benchmarks.table import Section  # noqa: E402

TURNS = 5
TASKS = {
    "adult": (SIZES, ROWS, 2.83, 477, 10),
    "twenty": ((10,) * 20, 100_000, 22.8, 2750, 15),
}
"""Sizes, rows, seconds and MB of ResidualPlanner's own code, and how many times faster we want to be."""


def list_margins(columns: int, most: int, least: int = 0) -> list[tuple[int, ...]]:
    """All sets of so many columns."""
    return [margin for count in range(least, most + 1) for margin in combinations(range(columns), count)]


def run_task(name: str) -> None:
    """Plan, measure and estimate all tables of up to three columns: select, noise, rebuild, from cells in memory."""
    from discreet.mechanisms import Gaussian
    from discreet.query.cells import CellBlock
    from discreet.tabulation.allocation import allocate, round_sigmas
    from discreet.tabulation.intervals import ErrorModel
    from discreet.tabulation.measuring import sum_cells
    from discreet.tabulation.residuals import combine

    sizes, rows, *_ = TASKS[name]
    block = CellBlock(draw_rows(sizes, rows), np.ones(rows, np.int64))
    wanted = list_margins(len(sizes), 3)
    Gaussian(10).release(np.zeros(10, np.int64))
    seconds: list[float] = []
    cpu: list[float] = []
    for _ in range(TURNS):
        start, used = time.perf_counter(), time.process_time()
        allocation = allocate(sizes, dict.fromkeys(wanted, 1.0), contrasts=True)
        noises = {each: Gaussian(sigma) for each, sigma in round_sigmas(allocation, 0.03).items()}
        exact = sum_cells([block], sizes, noises)
        measured = {each: noise.release(exact[each]) for each, noise in noises.items()}
        errors = ErrorModel(sizes, noises)
        residuals = combine(sizes, measured, errors.variances)
        cells = sum(table.size for _, table in residuals.rebuild_all(wanted))
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    start = time.process_time()
    allocate(sizes, dict.fromkeys(wanted, 1.0), contrasts=True)
    print(
        json.dumps(
            {
                "seconds": median(seconds),
                "cpu": median(cpu),
                "allocation": time.process_time() - start,
                "mb": peak_megabytes(),
                "tables": len(wanted),
                "cells": cells,
            }
        )
    )


def measure_task(name: str) -> dict[str, float]:
    """Run a task in a process of its own."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def speed() -> Section:
    """Seconds and memory beside the authors' code of ResidualPlanner and HDMM."""
    section = Section(
        "Tables that add up: speed",
        "Allocate, sum up the cells, draw exact noise, estimate, rebuild all tables of up to three columns; CPU seconds of "
        f"a process, median of {TURNS}. The peers' figures are not of this run: they were measured with the authors' code "
        "on another machine.",
        ["task", "here", "peer, by its published code", "ratio", "wanted", "memory", "wanted"],
    )
    found = {name: measure_task(name) for name in TASKS}
    for name, (sizes, rows, peer, peer_mb, times) in TASKS.items():
        each = found[name]
        what = f"{len(sizes)} columns, {rows:,} rows: {each['tables']:,.0f} tables, {each['cells']:,.0f} cells"
        limit = "≤ 200 MB" if name == "twenty" else ""
        section.add(
            what, f"{each['cpu']:.2f} s", f"ResidualPlanner {peer} s, {peer_mb:,} MB", f"{peer / each['cpu']:.0f} ×",
            f"≥ {times} ×", f"{each['mb']:.0f} MB", limit,
        )  # fmt: skip
    own = found["adult"]["allocation"]
    section.add("allocation alone, 13 columns", f"{own:.3f} s", "HDMM 34.6 s", f"{34.6 / own:.0f} ×", "≥ 500 ×", "", "")
    return section


def accuracy() -> Section:
    """The root mean squared error beside the optimum of Gaussian noise on any linear queries."""
    from discreet.tabulation.allocation import allocate
    from discreet.tabulation.margins import Lattice

    section = Section(
        "Tables that add up: accuracy",
        "Every cell weighs the same. Root mean squared error of the exact integer noise, relative to the least that "
        "Gaussian noise on any linear queries can have (the closed form of ResidualPlanner), and to tables with equal noise "
        "that are not combined. With contrasts: what is measured where units are added or removed. Whole tables alone: what "
        "is measured where a unit is replaced. Wanted: at most 1.09 of the optimum.",
        ["columns and tables", "with contrasts, of the optimum", "whole tables alone", "wanted",
         "certified gap with contrasts", "with contrasts, of equal noise, not combined"],
    )  # fmt: skip
    adult = f"{len(SIZES)} columns of Adult's sizes"
    workloads = [
        (adult, SIZES, name, lengths) for name, lengths in (("2-way", (2, 2)), ("3-way", (3, 3)), ("≤ 3-way", (0, 3)))
    ]
    workloads += [
        (str(sizes).strip("()"), sizes, name, lengths)
        for sizes in ((2, 2, 2, 2), (2, 3, 4), (2, 3, 3))
        for name, lengths in (("≤ 1-way", (0, 1)), ("2-way", (2, 2)), ("≤ 2-way", (0, 2)))
    ]
    for columns, sizes, name, (least, most) in workloads:
        wanted = list_margins(len(sizes), most, least)
        found, whole = (allocate(sizes, dict.fromkeys(wanted, 1.0), contrasts=allowed) for allowed in (True, False))
        lattice = Lattice.of(sizes, wanted)
        charges = lattice.rebuilding.T @ (lattice.spread(dict.fromkeys(wanted, 1.0)) * lattice.cells)
        optimum = float(np.sqrt(lattice.shares * charges).sum()) ** 2
        cells = sum(float(np.prod([sizes[i] for i in margin])) for margin in wanted)
        equal = cells * len(wanted)
        section.add(
            f"{columns}: {name}",
            f"{sqrt(found.objective / optimum):.3f}",
            f"{sqrt(whole.objective / optimum):.3f}",
            "≤ 1.09",
            f"{found.gap:.1e}",
            f"{sqrt(found.objective / equal):.3f}",
        )
    return section


def end_to_end() -> Section:
    """A published folder from a Parquet file in DuckDB."""
    import pyarrow as pa
    from pyarrow import parquet

    from discreet import connect
    from discreet.tabulation.tabulation import tabulate

    rows = 1_000_000
    section = Section(
        "Tables that add up: from a file",
        f"{rows:,} rows of 13 columns in Parquet, all 92 tables of up to two columns, with estimates and intervals.",
        ["step", "seconds"],
    )
    with tempfile.TemporaryDirectory() as name:
        codes = draw_rows(SIZES, rows)
        columns = {f"c{i}": codes[:, i] for i in range(len(SIZES))}
        parquet.write_table(pa.table({"id": np.arange(rows)} | columns), Path(name) / "people.parquet")
        session = connect(
            f"{name}/people.parquet", unit="id", unique=True, epsilon=1, delta=1e-9,
            keys={f"c{i}": [*range(size)] for i, size in enumerate(SIZES)},
        )  # fmt: skip
        wanted = [tuple(f"c{i}" for i in margin) for margin in list_margins(len(SIZES), 2)]
        start = time.perf_counter()
        found = tabulate(session, wanted, epsilon=1)
        section.add("plan, charge, read, noise", f"{time.perf_counter() - start:.2f}")
        start = time.perf_counter()
        cells = sum(len(table) for table in found.tables.values())
        section.add(f"estimates, intervals of {cells:,} cells", f"{time.perf_counter() - start:.2f}")
    return section


SECTIONS = [accuracy, speed, end_to_end]

if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_task(sys.argv[1])
    else:
        for make in SECTIONS:
            print(make().markdown())
