"""Two passes and display values on 10⁵ blocks × 2,016 cells, one county in memory: `python benchmarks/spine.py [blocks]`.

Measurements are invented anew for each pass from the county's number, outside of the time that is counted.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.process_memory import peak_megabytes
from discreet.tabulation.display import display_children, display_top
from discreet.tabulation.level_allocation import allocate_levels
from discreet.tabulation.spine import Spine
from discreet.tabulation.two_pass import TwoPass

CELLS = 2_016
LEVELS = ("nation", "state", "county", "tract", "group", "block")
seconds: dict[str, float] = {}


@contextmanager
def count(what: str) -> Iterator[None]:
    begin = time.process_time()
    yield
    seconds[what] = seconds.get(what, 0) + time.process_time() - begin


def list_blocks(blocks: int, rng: np.random.Generator) -> NDArray[np.str_]:
    """Codes of 15 characters, as the Census Bureau's: about 40 blocks a group, 3 groups a tract, 4 tracts a county."""
    group = np.sort(rng.integers(0, max(1, blocks // 40), blocks))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    place = np.arange(blocks) - np.repeat(first, np.diff(first, append=blocks))
    tract = group // 3
    county = tract // 4
    return np.array(
        [f"{c // 60:02}{c % 60:03}{t:06}{g % 3:01}{p:03}" for c, t, g, p in zip(county, tract, group, place, strict=True)]
    )


def measure(spine: Spine, where: tuple[slice, ...], seed: int) -> list[NDArray[np.int32]]:
    """Counts of a county from its own level down, of which 1 in 50 is 1 on a block and all others are 0; with noise."""
    rng = np.random.default_rng(seed)
    last = len(spine.levels) - 1
    exact = [(rng.random((where[-1].stop - where[-1].start, CELLS), np.float32) < 0.02).astype(np.int32)]
    for level in range(last - 1, last - len(where), -1):
        nodes = where[level - last - 1]
        starts = spine.starts[level][nodes]
        exact.insert(0, np.add.reduceat(exact[0], starts - starts[0], axis=0))
    return [each + rng.integers(-6, 7, each.shape, np.int32) for each in exact]


def main(blocks: int = 100_000) -> None:
    """Print seconds of processor time and the peak of memory."""
    codes = list_blocks(blocks, np.random.default_rng(1))
    with count("spine"):
        spine = Spine.from_codes(codes, [0, 2, 5, 11, 12, 15], LEVELS)
    with count("shapes and paths"):
        _ = spine.shapes, spine.paths
    print(dict(zip(LEVELS, spine.sizes, strict=True)), "shapes", [len(each) for each in spine.shapes.counts])
    two_pass = TwoPass(spine, [0.05, 0.05, 0.05, 0.05, 0.25, 0.1])
    with count("variances of all nodes"):
        _ = two_pass.variances
    county = spine.level("county")
    counties = [spine.slice_subtree(county, v) for v in range(spine.sizes[county])]
    up = two_pass.open_stream("county", CELLS, keep_level=True)
    for v, where in enumerate(counties):
        measured = measure(spine, where, v)
        with count("up"):
            up.add(v, measured)
    top = []
    for level, size in enumerate(spine.sizes[:county]):
        held = [spine.slice_subtree(level, v)[-1] for v in range(size)]
        top.append(np.array([[0.02 * (each.stop - each.start)] * CELLS for each in held]))
    with count("up"):
        down = up.close(top)
    with count("display"):
        shown = [display_top(down.top[0])]
        for level in range(1, county + 1):
            shown.append(display_children(down.top[level], shown[-1], spine.starts[level - 1]))
    people = 0
    for v, row in enumerate(shown[-1]):
        measured = measure(spine, counties[v], v)
        with count("down (with the up pass of the county again)"):
            found = down.estimate(v, measured)
        above = row[None]
        for level in range(county, len(LEVELS) - 1):
            nodes = counties[v][level - county]
            starts = spine.starts[level][nodes.start : nodes.stop + 1]
            with count("display"):
                above = display_children(found[level - county + 1], above, starts)
        assert np.array_equal(above.sum(axis=0), row)
        people += int(above.sum())
    print(f"{people} people displayed, {0.02 * blocks * CELLS:.0f} expected")
    weights = np.array([[1 / size] for size in spine.sizes])
    with count("allocation over levels, one margin"):
        allocation = allocate_levels(spine.shapes, [[1.0]], weights)
    for what, each in seconds.items():
        print(f"{each:8.2f} s  {what}")
    print(f"allocation: {allocation.iterations} iterations, gap {allocation.gap:.1e}")
    print(f"{peak_megabytes():8.0f} MB peak")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
