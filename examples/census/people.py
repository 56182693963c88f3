"""Invented people for the redistricting schema. Nobody in it exists, and nothing is taken from a real census.

How they are drawn, from one seed: every state has so many counties, every county so many tracts, and so on (`shape`). One
block in five is empty; the others have sizes of a gamma distribution of shape 0.7, so that many are small and a few large.
One block in 30 has a facility (one of seven kinds of group quarters), in which 1 in 20 of all people live. Every tract has
its own mix of the 63 combinations of races, drawn around a national one in which single races are common and combinations
rare, and its own share of Hispanic people, around 19%. 78% are of voting age; in facilities all are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from redistricting import COLUMNS, LEVELS

SHAPE = (2, 3, 4, 3, 7)
"""States, counties of a state, tracts of a county, block groups of a tract, blocks of a group: 504 blocks."""
LENGTHS = (0, 2, 5, 11, 12, 15)
"""How many characters of a code name a node of each level."""

EMPTY_BLOCKS, FACILITY_BLOCKS, IN_FACILITIES = 0.2, 1 / 30, 1 / 20
SINGLE_RACES = (0.62, 0.124, 0.011, 0.06, 0.002, 0.084)
HISPANIC, VOTING_AGE = 0.19, 0.78
CONCENTRATION = 30.0
"""How near the mix of a tract is to the national one."""


@dataclass(frozen=True)
class Population:
    """The codes of all blocks, empty ones too, and one number per person in each array."""

    codes: tuple[str, ...]
    block: NDArray[np.int64]  # the place of the person's block in `codes`
    columns: dict[str, NDArray[np.int64]]

    def count_cells(self) -> NDArray[np.int64]:
        """Return the exact table of 2,016 cells of every block."""
        place = self.block
        for name, size in COLUMNS.items():
            place = place * size + self.columns[name]
        cells = int(np.prod([*COLUMNS.values()]))
        return np.bincount(place, minlength=len(self.codes) * cells).reshape(len(self.codes), cells)

    def write(self, path: Path) -> None:
        """Write one row per person as Parquet, in which codes stay text and keep their leading zeros."""
        codes, states = pa.array(self.codes), pa.array([code[: LENGTHS[1]] for code in self.codes])
        places = {"block": codes.take(pa.array(self.block)), "state": states.take(pa.array(self.block))}
        parquet.write_table(pa.table(places | self.columns), path)


def invent_people(people: int = 50_000, shape: Sequence[int] = SHAPE, seed: int = 2020) -> Population:
    """Return so many invented people, the same for the same seed.

    >>> population = invent_people(1000)
    >>> len(population.codes), population.count_cells().sum()
    (504, np.int64(1000))
    """
    rng = np.random.default_rng(seed)
    codes = list_codes(shape)
    tracts = np.repeat(np.arange(len(codes) // (shape[3] * shape[4])), shape[3] * shape[4])
    size = rng.gamma(0.7, size=len(codes)) * (rng.random(len(codes)) >= EMPTY_BLOCKS)
    size[0] = max(size[0], 0.1)  # somebody lives somewhere
    facility = np.where(rng.random(len(codes)) < FACILITY_BLOCKS, rng.integers(1, COLUMNS["hhgq"], len(codes)), 0)
    facility[-1] = 1
    housed = rng.random(people) >= IN_FACILITIES
    at_home = rng.choice(len(codes), people, p=size / size.sum())
    inside = rng.choice(np.flatnonzero(facility), people)
    drawn = np.where(housed, at_home, inside)
    order = np.argsort(drawn, kind="stable")
    block, housed, hispanic = drawn[order], housed[order], rng.beta(6 * HISPANIC, 6 * (1 - HISPANIC), tracts[-1] + 1)
    columns = {
        "hhgq": np.where(housed, 0, facility[block]),
        "votingage": np.where(housed, rng.random(people) < VOTING_AGE, 1),
        "hispanic": rng.random(people) < hispanic[tracts[block]],
        "cenrace": draw_races(rng, tracts[block]),
    }
    return Population(codes, block, {name: each.astype(np.int64) for name, each in columns.items()})


def list_codes(shape: Sequence[int]) -> tuple[str, ...]:
    """Return the codes of all blocks: 2 digits for the state, 3 for the county, 6 for the tract, 1 for the group, 3 more."""
    if len(shape) != len(LEVELS) - 1 or not all(
        1 <= n < 10**digits for n, digits in zip(shape, (2, 3, 6, 1, 3), strict=True)
    ):
        raise ValueError(f"shape is {tuple(shape)}: give states, counties, tracts, block groups and blocks, such as {SHAPE}")
    places = np.indices(shape).reshape(len(shape), -1).T + 1
    return tuple(f"{s:02}{c:03}{t:06}{g}{b:03}" for s, c, t, g, b in places.tolist())


def draw_races(rng: np.random.Generator, tracts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a combination of races for each person: single races first, then pairs, and so on."""
    sets = [each for many in range(1, 7) for each in combinations(range(6), many)]
    national = np.array([np.prod([SINGLE_RACES[i] for i in each]) * (0.3 if len(each) > 1 else 1) for each in sets])
    mixes = rng.dirichlet(CONCENTRATION * national / national.sum() + 1e-6, int(tracts.max()) + 1)
    ends = np.cumsum(mixes, axis=1)
    found = (rng.random(len(tracts))[:, None] > ends[tracts]).sum(axis=1)
    return np.minimum(found, len(sets) - 1)
