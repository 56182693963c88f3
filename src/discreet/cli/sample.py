"""A small table of invented survey answers, the same every time: there is nobody in it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REGIONS = ["north", "east", "south", "west", "islands"]
_SHARES = [0.34, 0.27, 0.22, 0.15, 0.02]


@dataclass(frozen=True, slots=True)
class Table:
    """One row per person: the region they live in, as an index into REGIONS."""

    region: NDArray[np.int64]

    def histogram(self) -> NDArray[np.int64]:
        """How many people live in each region. Adding or removing one person moves one count by one."""
        return np.bincount(self.region, minlength=len(REGIONS))


def people(rows: int = 4000) -> Table:
    """The sample table."""
    return Table(np.random.default_rng(20).choice(len(REGIONS), rows, p=_SHARES).astype(np.int64))
