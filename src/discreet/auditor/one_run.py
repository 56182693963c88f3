"""The one-run audit [SNJ23]: many canaries in one training run, each in with probability ½, and guesses about which were.

**Theory of operation.** m canaries are records that the auditor invents. A fair coin decides for each whether it is in the
data. From what the run released, each canary gets a score; the highest are guessed to be in, the lowest to be out, and on
the others the auditor abstains. Of r guesses v are right.

**The bound.** If the run is (ε, δ)-DP when one record is added or removed, then with p = e^ε/(1 + e^ε) and B ~ Bin(r, p)

    P[right ≥ v] ≤ P[B ≥ v] + 2mδ·max over i ≥ 1 of P[v > B ≥ v − i]/i        [SNJ23]

It needs independent fair coins, and guesses that follow from the output alone; r may depend on the output too, but is fixed
here. If v is so large that the right side is below α, the claim (ε, δ) is false with confidence 1 − α.

What is found this way is a lower bound, and a weak one: "ε ≥ 1.3" does not say that ε is 1.3. One run resolves perhaps a
third of an ε of 4 to 8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int, format_down
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.auditor.claims import Point
from discreet.auditor.evidence import ROUNDING_MARGIN
from discreet.auditor.finding import Check
from discreet.auditor.outputs import Floats
from discreet.errors import BadParameter
from discreet.events import Event

GUESSED_SHARES = (0.02, 0.1, 0.4)
"""The shares of the canaries of which membership is guessed; each is one test."""

DELTAS_TIMES_CANARIES = (1e-3, 1e-6, 1e-10)
"""What 2mδ adds to the bound must be small beside α."""


def bound_right_guesses(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the largest probability with which an (ε, δ)-DP run allows so many right guesses, or more.

    >>> round(bound_right_guesses(100, 10, 10, 0.0), 6) == round(2**-10, 6)
    True
    >>> bound_right_guesses(100, 10, 0, 1.0)
    1.0
    """
    from scipy.stats import binom

    if not 0 <= check_int(right, "right") <= check_int(guesses, "guesses") <= check_int(canaries, "canaries", 1):
        raise BadParameter(
            "right", right, f"of {guesses} guesses about {canaries} canaries", "give right ≤ guesses ≤ canaries"
        )
    p = 1 / (1 + exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, p))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, p))  # P[v > B ≥ v − i] for i = 1, 2, …, v
    most = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(1.0, (tail + 2 * canaries * delta * most) * (1 + ROUNDING_MARGIN))


def certify_one_run(canaries: int, guesses: int, right: int, delta: float = 0.0, alpha: float = 1e-3) -> float:
    """Return the ε below which so many right guesses have a probability of at most α: a lower bound on ε at δ.

    >>> 2.6 < certify_one_run(1000, 100, 100) < certify_one_run(1000, 1000, 1000) < 6
    True
    >>> certify_one_run(1000, 100, 55)
    0.0
    """
    low, high = 0.0, 40.0
    if bound_right_guesses(canaries, guesses, right, low, delta) > alpha:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        refuted = bound_right_guesses(canaries, guesses, right, middle, delta) <= alpha
        low, high = (middle, high) if refuted else (low, middle)
    return low


@dataclass(frozen=True)
class OneRun:
    """What one run gave away: scores of all canaries, and which of them were in.

    >>> OneRun(np.array([-2.0, 1.5, 0.1, 3.0]), np.array([False, True, True, True])).count_right(2)
    2
    """

    scores: Floats
    included: NDArray[np.bool_]

    def count_right(self, guesses: int) -> int:
        """Guess that the highest scores are in and the lowest are out, in equal numbers; count the right guesses."""
        order = np.argsort(self.scores, kind="stable")
        half = guesses // 2
        lowest, highest = order[:half], order[len(order) - (guesses - half) :]
        return int((~self.included[lowest]).sum() + self.included[highest].sum())


def list_points(event: Event, canaries: int) -> tuple[Point, ...]:
    """Return points of an event's certified curve that one run can test: δ far below one in the number of canaries."""
    deltas = [factor / canaries for factor in DELTAS_TIMES_CANARIES]
    return tuple(Point(certified_epsilon(event, delta).upper, delta) for delta in deltas)


def check_one_run(run: OneRun, points: Sequence[Point], alpha: float) -> Check:
    """Test every point of a claim on one run; false alarms have a probability of at most α (Bonferroni)."""
    canaries, problem = len(run.scores), ""
    tests = len(points) * len(GUESSED_SHARES)
    best = (0.0, 0.0)
    for share in GUESSED_SHARES:
        guesses = max(2, round(share * canaries))
        right = run.count_right(guesses)
        for point in points:
            bound = bound_right_guesses(canaries, guesses, right, point.epsilon, point.delta)
            best = max(best, (certify_one_run(canaries, guesses, right, point.delta, alpha / tests), point.delta))
            if bound <= alpha / tests:
                found = certify_one_run(canaries, guesses, right, point.delta, alpha / tests)
                problem = (
                    f"{right} of {guesses} guesses about {canaries} canaries were right, so ε ≥ {found:.3g} at "
                    f"δ = {format_down(point.delta, 3)}, where ε = {point.epsilon:.3g} is claimed"
                )
    shown = f"ε ≥ {best[0]:.3g} at δ = {format_down(best[1], 3)}"
    passed = f"one run with {canaries} canaries shows {shown}, a lower bound and no estimate"
    return Check("one run", problem, passed)
