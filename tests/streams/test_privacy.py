"""The price of a stream, by brute force on tiny horizons: every two histories that differ by one unit, every path of an
adversary who chooses what happens next after seeing what was shown."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import exp

import numpy as np
import pytest
from scipy.special import ndtr

from discreet import delta, pure, zcdp
from discreet.accounting.currencies import parse_currency
from discreet.events import compose
from discreet.mechanisms import Gaussian, Laplace
from discreet.streams.factorisation import SquareRoot, Tree, square_root
from discreet.streams.mechanism import Participation, SquareRootMechanism, TreeMechanism, calibrate_stream
from discreet.units import Neighbours, Sensitivity
from tests.streams.test_factorisation import dense_root, dense_tree

Unit = tuple[tuple[int, ...], ...]


def list_units(n: int, taken: Participation) -> Iterator[Unit]:
    """Everything that one unit may contribute: rows per step and counter."""
    for flat in product(range(taken.max_rows + 1), repeat=n * taken.counters):
        unit = tuple(flat[s * taken.counters : (s + 1) * taken.counters] for s in range(n))
        steps = [s for s in range(n) if any(unit[s])]
        if len(steps) > taken.at_most or any(b - a < taken.apart for a, b in pairwise(steps)):
            continue
        if all(sum(1 for each in row if each) <= taken.max_groups for row in unit):
            yield unit


CASES = [
    (4, Participation(1, 1)),
    (4, Participation(2, 2, max_rows=2)),
    (5, Participation(2, 1)),
    (3, Participation(2, 1, 1, 1, 2)),
    (3, Participation(3, 1, 2, 1, 2)),
    (4, Participation(1, 1, 1, 2, 1, Neighbours.REPLACE)),
    (3, Participation(1, 1, 1, 1, 2, Neighbours.REPLACE)),
    (4, Participation(2, 2, 1, 1, 1, Neighbours.REPLACE)),
    (3, Participation(2, 1, 1, 1, 2, Neighbours.REPLACE)),
]


@pytest.mark.parametrize(("n", "taken"), CASES)
def test_no_unit_moves_what_is_measured_by_more_than_the_sensitivity(n: int, taken: Participation) -> None:
    units = [np.array(unit, object) for unit in list_units(n, taken)]
    if taken.neighbours is Neighbours.REPLACE:
        units = [a - b for a, b in product(units, repeat=2)]
    for matrix, dense in ((square_root(n), dense_root(n)), (Tree(n), dense_tree(n))):
        bound = taken.sensitivity(matrix)
        largest = max(int(((dense @ unit) ** 2).sum()) for unit in units)
        assert largest <= bound.l2_squared
        if isinstance(matrix, SquareRoot) and (taken.neighbours is Neighbours.ADD_REMOVE or taken.at_most == 1):
            assert largest == bound.l2_squared  # attained
        if isinstance(matrix, Tree):
            assert bound.l1 is not None
            assert max(int(np.abs(dense @ unit).sum()) for unit in units) <= bound.l1


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


def laplace_law(scale: float, shift: int, reach: int = 60) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    decay = exp(-1 / scale)
    return np.asarray((1 - decay) / (1 + decay) * decay ** np.abs(k - shift))


@pytest.mark.parametrize("at_most", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 1.9])
def test_the_curve_of_a_tree_of_two_steps_holds_against_an_adversary(at_most: int, epsilon: float) -> None:
    """Nodes: x1; then x2 and x1 + x2. The adversary adds the unit's second event after it saw the first node."""
    scale = 3.0
    mechanism = TreeMechanism(Tree(2), Laplace(3))
    event = mechanism.event(Participation(at_most, 1).sensitivity(mechanism.matrix))
    worst = 0.0
    for first in (0, 1):
        seconds = (0, 1) if first == 0 or at_most == 2 else (0,)
        p1, q1 = laplace_law(scale, first), laplace_law(scale, 0)
        for sign in (False, True):  # both directions
            total = 0.0
            for a, b in zip(p1, q1, strict=True):
                best = 0.0
                for second in seconds:
                    p = np.multiply.outer(laplace_law(scale, second), laplace_law(scale, first + second))
                    q = np.multiply.outer(laplace_law(scale, 0), laplace_law(scale, 0))
                    best = max(best, hockey_stick(b * q, a * p, epsilon) if sign else hockey_stick(a * p, b * q, epsilon))
                total += best
            worst = max(worst, total)
    assert worst <= delta(event, epsilon).upper + 1e-9
    if at_most == 1:
        assert worst >= delta(event, epsilon).lower - 1e-7  # and it is reached
    assert pure(event) == Fraction(2 * at_most, 3)


def gaussian_hockey_stick(epsilon: float, shift: float) -> float:
    """δ(ε) of a Gaussian with a shift in units of σ."""
    if shift == 0:
        return max(0.0, 1 - exp(epsilon)) if epsilon < 700 else 0.0
    return float(ndtr(shift / 2 - epsilon / shift) - exp(epsilon) * ndtr(-shift / 2 - epsilon / shift))


def attack_two_steps(sigma: float, at_most: int, apart: int, epsilon: float) -> float:
    """The largest δ that an adversary reaches who sees step 1 before choosing step 2 (continuous noise, by quadrature)."""
    c0, c1 = square_root(2).coefficients
    grid = np.linspace(-9, 10, 6001)
    width = grid[1] - grid[0]
    worst = 0.0
    for first in (0, 1):
        may = [0, 1] if first == 0 or (at_most >= 2 and apart <= 1) else [0]
        d1 = c0 * first / sigma
        p1 = np.exp(-((grid - d1) ** 2) / 2) / np.sqrt(2 * np.pi) * width
        losses = d1 * grid - d1 * d1 / 2
        total = 0.0
        for mass, loss in zip(p1, losses, strict=True):
            total += mass * max(gaussian_hockey_stick(epsilon - loss, (c1 * first + c0 * b) / sigma) for b in may)
        worst = max(worst, total)
    return worst


@pytest.mark.parametrize("at_most", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5])
def test_the_gaussian_curve_holds_against_an_adversary(at_most: int, epsilon: float) -> None:
    taken = Participation(at_most, 1)
    mechanism, event = calibrate_stream(2, taken, parse_currency("zcdp"), Fraction(1, 4))
    found = attack_two_steps(float(mechanism.scale), at_most, 1, epsilon)
    certified = delta(event, epsilon)
    assert certified.lower * (1 - 1e-4) <= found <= certified.upper * (1 + 1e-4)


def test_a_price_without_cross_terms_is_broken_by_the_adversary() -> None:
    """The mutant: two events are priced as the squares of their columns, added up."""
    root = square_root(2)
    apart = sum(int(each) ** 2 for step in (0, 1) for each in dense_root(2)[:, step])
    assert apart < root.max_squares(2, 1)
    sigma = 3000
    wrong = Gaussian(sigma).event(Sensitivity(l2_squared=apart))
    assert attack_two_steps(sigma, 2, 1, 0.5) > 1.05 * delta(wrong, 0.5).upper


def test_a_unit_that_is_not_cut_breaks_the_price() -> None:
    """The mutant: at_most is declared and not applied, so that a unit counts in every step."""
    taken = Participation(1, 1)
    mechanism, event = calibrate_stream(2, taken, parse_currency("zcdp"), Fraction(1, 4))
    assert attack_two_steps(float(mechanism.scale), 2, 1, 0.5) > 1.5 * delta(event, 0.5).upper


@pytest.mark.parametrize("name", ["zcdp", "gdp", "rdp(16)", "pure"])
@pytest.mark.parametrize(
    "taken", [Participation(1, 1), Participation(3, 7), Participation(3, 7, 2, 2, 5, Neighbours.REPLACE)]
)
def test_a_horizon_costs_what_was_asked_for(name: str, taken: Participation) -> None:
    currency, amount = parse_currency(name), Fraction(1, 10)
    mechanism, event = calibrate_stream(100, taken, currency, amount)
    cost, spent = currency.cost(event)
    assert spent == 0
    assert cost <= amount
    assert float(cost) == pytest.approx(float(amount), rel=1e-9)
    assert isinstance(mechanism, TreeMechanism if name == "pure" else SquareRootMechanism)


def test_the_event_is_one_that_every_ledger_reads() -> None:
    mechanism, event = calibrate_stream(1024, Participation(3, 7), parse_currency("zcdp"), Fraction(1, 8))
    assert zcdp(event) == pytest.approx(Fraction(1, 8), rel=1e-9)
    assert event == compose(mechanism.noise.event(Participation(3, 7).sensitivity(mechanism.matrix)))
