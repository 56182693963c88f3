"""Noisy tables: what they cost, how they are measured, and what they cost together with exact selections.

**Sensitivity of a table.** A unit has at most k rows, so it adds a vector u of nonnegative integers with Σu ≤ k to the
finest cells, and to every table the same vector summed up: l1 ≤ k, l2² ≤ k², linf ≤ k. A unit that is replaced moves a table
by u − v with both of this form: l1 ≤ 2k, linf ≤ k, and l2² ≤ ‖u‖² + ‖v‖² ≤ 2k², since u·v ≥ 0.

**Price.** The parts are chosen one after another from noisy answers, so what is added up is ρ: a composition in which each
part is ρ_i-zCDP, whatever was answered before, is Σρ_i-zCDP, and stays so where ρ_i itself depends on the answers as long as
the sum stays within a limit that was fixed before [FZ21, WRRW23].
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet._numbers import sqrt_up
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import Composition, DiscreteGaussianEvent, GaussianEvent
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.synthesis.cells import Cells
from discreet.tabulation.intervals import MIN_VARIANCE, CountNoise, choose_noise, noise_variance
from discreet.tabulation.margins import Contrast, Ints, Margin, Measured
from discreet.units import Neighbours, Sensitivity


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """A table that was paid for: its exact counts plus independent integer noise on every cell.

    A table of a publication may be a contrast: by its margin, the difference between the two keys of each other column.
    """

    margin: Margin
    values: Ints
    noise: CountNoise
    contrast: Margin = ()

    @property
    def measured(self) -> Measured:
        """What was measured: a whole table, or a contrast."""
        return Contrast(self.contrast, self.margin) if self.contrast else self.margin

    @property
    def variance(self) -> float:
        """The variance of the noise that is drawn, not of its continuous model."""
        return max(MIN_VARIANCE, noise_variance(self.noise).upper)


def table_sensitivity(rows_per_unit: int, neighbours: Neighbours) -> Sensitivity:
    """Return how far one unit moves any one table.

    >>> table_sensitivity(2, Neighbours.REPLACE)
    Sensitivity(l0=4, l1=4, l2=2.82842712475, linf=2)
    """
    k, units = rows_per_unit, neighbours.differing_units
    return Sensitivity(l0=units * k, l1=units * k, l2_squared=units * k * k, linf=k)


def score_sensitivity(rows_per_unit: int, neighbours: Neighbours) -> int:
    """Return how far one unit moves ‖M x − p‖₁ for a fixed p: k, or 2k if a unit is replaced.

    **Proof.** |‖M x − p‖₁ − ‖M x' − p‖₁| ≤ ‖M(x − x')‖₁ ≤ l1 of the table. p is fixed only because nothing exact is in it:
    it is built from noisy tables alone, and scaled to their noisy total. Scaled to the exact number n of rows, p itself
    would move: under add/remove always, and under replace too, since a unit may be replaced by one with fewer rows.
    """
    return neighbours.differing_units * rows_per_unit


def noise_for_rho(rho: Fraction, sensitivity: Sensitivity) -> CountNoise:
    """Return the least noise that costs at most ρ: σ is rational and rounded up.

    >>> noise_for_rho(Fraction(1, 200), table_sensitivity(1, Neighbours.ADD_REMOVE))
    Gaussian(sigma=10)
    """
    return choose_noise(Gaussian.for_rho(rho, sensitivity).sigma)


def choose_epsilon(rho: Fraction) -> Fraction:
    """Return the largest ε, rounded down, of an exponential mechanism that costs ρ = ε²/8.

    >>> choose_epsilon(Fraction(1, 2))
    Fraction(2, 1)
    """
    return 8 * rho / sqrt_up(8 * rho)


def table_event(noise: CountNoise, sensitivity: Sensitivity) -> GaussianEvent | DiscreteGaussianEvent:
    """Return the event of one table."""
    return noise.event(sensitivity)


def read_neighbours(neighbours: Neighbours | str) -> Neighbours:
    """Return a neighbouring relation that is given as such, or by its name."""
    return neighbours if isinstance(neighbours, Neighbours) else Neighbours.parse(neighbours)


def spend_receipt(receipt: Receipt, event: Composition) -> None:
    """Spend the receipt of an event, before its noise is drawn. Raise `BadParameter` if it is none, or spent."""
    if not isinstance(receipt, Receipt):
        raise BadParameter(
            "receipt", f"of type {type(receipt).__name__}", "nothing is measured that is not paid for",
            "give what account.pay(plan.event) returns",
        )  # fmt: skip
    receipt.spend(event)


def measure_tables(
    cells: Cells, margins: Iterable[Margin], noise: CountNoise, bits: Bits | None = None
) -> tuple[NoisyTable, ...]:
    """Add noise to the tables of some margins, all with the same mechanism: independent noise on every cell of each."""
    tables = {margin: cells.table(margin) for margin in margins}
    if not tables:
        return ()
    flat = noise.release(np.concatenate([table.ravel() for table in tables.values()]), bits)
    parts = np.split(flat, np.cumsum([table.size for table in tables.values()])[:-1])
    return tuple(
        NoisyTable(margin, part.reshape(table.shape), noise)
        for (margin, table), part in zip(tables.items(), parts, strict=True)
    )
