"""The tree of all bit strings of one length: which outcome each leads to, with what probability."""

from collections import Counter
from collections.abc import Callable

from discreet.noise.bits import LazyUniform
from tests.support.scripted_bits import Exhausted, NoBits


def leaves(settle: Callable[[LazyUniform], int], depth: int) -> tuple[Counter[int], float]:
    """Return the outcomes of all 2^depth prefixes, counted, and the share of prefixes that decide nothing yet."""
    outcomes: Counter[int] = Counter()
    for number in range(1 << depth):
        try:
            outcomes[settle(LazyUniform(NoBits(), number, depth))] += 1
        except Exhausted:
            continue
    return outcomes, 1 - outcomes.total() / (1 << depth)


def is_consistent(outcomes: Counter[int], depth: int, undecided: float, cdf: Callable[[int], float]) -> bool:
    """Say whether every outcome's mass is at most its probability, and misses no more of it than the undecided share."""
    mass = {k: n / (1 << depth) for k, n in outcomes.items()}
    return all(0 <= cdf(k) - cdf(k - 1) - m + 1e-12 <= undecided + 2e-12 for k, m in mass.items())


def magnitude(cdf: Callable[[int], float]) -> Callable[[int], float]:
    """Return k ↦ P(|X| ≤ k)."""
    return lambda k: cdf(k) - cdf(-k - 1) if k >= 0 else 0.0
