"""Local privacy: `python benchmarks/local.py` prints the tables."""

import sys
import time
from collections.abc import Callable
from fractions import Fraction
from math import inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.table import Section
from discreet.accounting import shuffled_epsilon
from discreet.accounting.shuffle_pairs import list_outcomes
from discreet.accounting.shuffling import pair_epsilon
from discreet.events import Event, RandomizedResponseEvent, SetResponseEvent, Shuffled

GOAL_MS, GOAL_WIDTH = 100, 1e-6
USERS = [10**power for power in range(4, 10)]
KNOWN: dict[str, Event] = {
    "2-RR, odds 3": RandomizedResponseEvent(Fraction(3, 4), 2),
    "128-RR, odds 20": RandomizedResponseEvent(Fraction(20, 147), 128),
    "unary, odds 3": SetResponseEvent(Fraction(3), Fraction(1, 4), Fraction(1, 16)),
    "Hadamard, odds 3": SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)),
}


def shuffling() -> Section:
    """ε at δ = 10⁻⁶ of shuffled reports: how long, and how wide the interval is."""
    about = (
        "ε at δ = 10⁻⁶ of the pair that dominates n shuffled reports: the clones for any randomiser, the privacy blanket "
        "for known ones. Milliseconds of processor time, best of five after import; relative width of the interval."
    )
    goal = f"≤ {GOAL_MS} ms, ≤ {GOAL_WIDTH:.0e}"
    section = Section("Local: shuffling", about, ["randomiser", *(f"n = 10^{len(str(n)) - 1}" for n in USERS), "goal"])
    for epsilon0 in (1, 4):
        cells = [measure(lambda n=n, e=epsilon0: shuffled_epsilon(n, e, 1e-6)) for n in USERS]
        section.add(f"any, ε0 = {epsilon0}", *cells, goal)
    for name, event in KNOWN.items():
        section.add(name, *(measure(lambda n=n, e=event: pair_epsilon(Shuffled(e, n), 1e-6)) for n in USERS), goal)
    return section


def measure(work: Callable[[], object]) -> str:
    """ε, milliseconds, relative width."""
    best, found = inf, None
    for _ in range(5):
        list_outcomes.cache_clear()
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return f"{found.upper:.5g} · {1e3 * best:.3g} ms · {found.width / found.upper:.0e}"  # type: ignore[attr-defined]


SECTIONS = (shuffling,)


if __name__ == "__main__":
    for make in SECTIONS:
        print(make().markdown())
