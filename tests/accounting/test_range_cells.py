"""The fine lattice of repeated exponential mechanisms: against every adaptive strategy over a list of pairs, the coarse
lattice, and itself with other cells and other rounds."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from discreet.accounting import range_cells
from discreet.accounting.curve import epsilon
from discreet.accounting.pld import Floats
from discreet.accounting.range_cells import bound_half_line
from discreet.accounting.ranges import RepeatedRange
from discreet.events import ExponentialEvent
from tests.accounting.test_ranges import pairs
from tests.support.outcome_oracle import adaptive_delta


def bounds(eps: float, times: int, top: float, cells: int, cut: float = 0.0) -> tuple[Floats, Floats]:
    found = bound_half_line(eps, times, top, cells, cut)
    assert found is not None
    return found


@pytest.mark.parametrize(("eps", "times", "count"), [(1.0, 1, 64), (1.0, 2, 64), (2.0, 2, 64), (0.7, 3, 12), (0.1, 2, 64)])
@pytest.mark.parametrize("cells", [10, 100])
def test_no_adaptive_strategy_is_outside(eps: float, times: int, count: int, cells: int) -> None:
    low, high = bounds(eps, times, eps * times, cells)
    for i in range(0, int(1.4 * cells) if times > 1 else cells, cells // 5):  # past that the list of pairs is too coarse
        best = adaptive_delta(pairs(eps, count), times, i * eps / cells)
        assert best <= high[i] * (1 + 1e-12)
        assert low[i] <= best * (1 + 20 / count**2) + 1e-9
        assert cells < 100 or high[i] <= 1.02 * best + 1e-6  # two per cent are noticed


@pytest.mark.parametrize(("eps", "times"), [(1.0, 10), (0.1, 40), (3.0, 5), (0.02, 30)])
@pytest.mark.parametrize("cut", [0.0, 1e-16])
def test_a_coarse_lattice_holds_a_fine_one(eps: float, times: int, cut: float) -> None:
    top = 0.6 * eps * times
    coarse, fine = bounds(eps, times, top, 24, cut), bounds(eps, times, top, 240, cut)
    for i in range(0, min(len(coarse[0]), len(fine[0][::10]))):
        assert coarse[0][i] <= fine[1][10 * i]
        assert fine[0][10 * i] <= coarse[1][i]
    for i in (0, 20, 60):
        low, high = RepeatedRange(eps, times).bound_delta(i * eps / 24)
        assert coarse[0][i] <= high
        assert low <= coarse[1][i]


def test_more_rounds_cost_more() -> None:
    some = [bounds(0.5, times, 1.0, 60)[0][:100] for times in range(2, 12)]
    assert all((one < other).all() for one, other in pairwise(some))


def test_what_lies_inside_a_cell_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the largest value over the lattice points only."""
    true = bounds(1.0, 6, 3.0, 400)[0][::40]
    locate = range_cells._locate

    def forget(*given: object) -> object:
        found = locate(*given)  # type: ignore[arg-type]
        return found and (*found[:3], 0 * found[3])

    monkeypatch.setattr(range_cells, "_locate", forget)
    mutant = bounds(1.0, 6, 3.0, 10)[1]
    size = min(len(true), len(mutant)) - 5
    assert (true[:size] > mutant[:size]).any()


def test_the_cells_that_matter_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: in the last round, three cells after those that matter."""
    true = bounds(1.0, 6, 3.0, 400)[0][::40]
    locate, rounds = range_cells._locate, iter(range(1, 7))

    def miss(*given: object) -> object:
        found = locate(*given)  # type: ignore[arg-type]
        return found and (found[0] + 3 * (next(rounds) == 6), *found[1:])

    monkeypatch.setattr(range_cells, "_locate", miss)
    mutant = bounds(1.0, 6, 3.0, 10)[1]
    size = min(len(true), len(mutant)) - 5
    assert (true[:size] > mutant[:size]).any()


def test_what_was_cut_is_added() -> None:
    whole, cut = bounds(0.5, 8, 1.0, 40), bounds(0.5, 8, 1.0, 40, 1e-3)
    size = min(len(whole[0]), len(cut[0]))
    assert (cut[0][:size] <= whole[1][:size]).all()
    assert (whole[0][:size] <= cut[1][:size]).all()
    assert np.any(cut[1][:size] > whole[1][:size] * 1.0001)  # so little is cut that it is seen


@pytest.mark.parametrize(("eps", "times", "width"), [(Fraction(1), 10, 1e-6), (Fraction(1, 10), 100, 2e-5)])
def test_the_interval_is_narrow(eps: Fraction, times: int, width: float) -> None:
    found = epsilon(times * ExponentialEvent(eps), 1e-6)
    assert found.upper - found.lower <= width * found.upper
