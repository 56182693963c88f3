"""The literature's algorithms, on our exact noise, and what DP-Sniper [BSMV21] published of them.

Its figures are those behind the paper's plots, as its authors keep them: eth-sri/dp-sniper, eval_sp2021/reference-results/
dd_search_reg_data.log (logistic regression): the lower bound `eps_lcb`, at 90% confidence, and the seconds of
`time_dd_search` and `time_final_estimate_eps` together, on their machine. All claim ε = 0.1, with c = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.auditor.targets import SampledMechanism, draw_laplace, repeat_rows

EPSILON = Fraction(1, 10)
Sampler = Callable[[Any, int], Any]
Pairs = list[tuple[list[int], list[int]]]


@dataclass(frozen=True)
class Algorithm:
    """What is attacked, on which inputs, and what DP-Sniper certified of it, in so many seconds."""

    name: str
    sample: Sampler
    pairs: Pairs
    bound: float
    seconds: float

    @property
    def drawn(self) -> SampledMechanism:
        """As something to audit."""
        return SampledMechanism(self.sample)


def shapes(n: int) -> Pairs:
    """Query answers that move by at most one each, in the shapes of Ding et al. (CCS 2018)."""
    half, ones = n // 2, [1] * n
    others = [
        [2, *ones[1:]], [0, *ones[1:]], [2, *[0] * (n - 1)], [0, *[2] * (n - 1)], [2] * half + [0] * (n - half), [2] * n,
        [0] * n,
    ]  # fmt: skip
    return [*((ones, other) for other in others), ([1] * half + [0] * (n - half), [0] * half + [1] * (n - half))]


def cells(n: int) -> Pairs:
    """Histograms that differ by one person."""
    return [([1] * n, [0, *[1] * (n - 1)]), ([1] * n, [2, *[1] * (n - 1)])]


def exponential(scale: Any, n: int) -> Any:
    """One-sided noise on whole numbers: Laplace noise, those draws that are not negative."""
    kept: list[Any] = []
    while sum(map(len, kept)) < n:
        drawn = draw_laplace(scale, 2 * n + 64)
        kept.append(drawn[drawn >= 0])
    return np.concatenate(kept)[:n]


def histogram(scale: Any) -> Sampler:
    return lambda data, n: _noisy(data, n, draw_laplace, scale)


def noisy_max(noise: Callable[[Any, int], Any], *, value: bool) -> Sampler:
    def sample(data: Any, n: int) -> Any:
        found = _noisy(data, n, noise, 2 / EPSILON)
        return found.max(axis=1) if value else found.argmax(axis=1)

    return sample


def sparse(bar: Any, scale: Any | None, *, stops: bool = True, value: bool = False) -> Sampler:
    """Answers against a threshold of 1 with noise of its own."""

    def sample(data: Any, n: int) -> Any:
        heard = repeat_rows(data, n) if scale is None else _noisy(data, n, draw_laplace, scale)
        reached = heard >= 1 + draw_laplace(bar, n)[:, None]
        over = np.cumsum(reached, axis=1) - reached > 0
        said = np.where(reached, heard if value else 1, -1000 if value else 0)
        return np.where(over, -2000 if value else -1, said) if stops else said

    return sample


def _noisy(data: Any, n: int, noise: Callable[[Any, int], Any], scale: Any) -> Any:
    return repeat_rows(data, n) + noise(scale, n * len(data)).reshape(n, len(data))


HALF, QUARTER = EPSILON / 2, EPSILON / 4
ALGORITHMS = [
    Algorithm("NoisyHist1 (right)", histogram(1 / EPSILON), cells(5), 0.0978, 37.7),
    Algorithm("NoisyHist2: scale ε for 1/ε", histogram(EPSILON), cells(5), 4.602, 40.6),
    Algorithm("ReportNoisyMax1 (right)", noisy_max(draw_laplace, value=False), shapes(5), 0.0923, 61.8),
    Algorithm("ReportNoisyMax2 (right)", noisy_max(exponential, value=False), shapes(5), 0.0975, 58.4),
    Algorithm("ReportNoisyMax3: returns the value", noisy_max(draw_laplace, value=True), shapes(5), 0.2478, 62.4),
    Algorithm("ReportNoisyMax4: returns the value", noisy_max(exponential, value=True), shapes(5), 0.3463, 62.9),
    Algorithm("SVT1 (right; SVT2 is the same at c = 1)", sparse(1 / HALF, 2 / HALF), shapes(10), 0.0858, 126.0),
    Algorithm("SVT3: returns the value", sparse(1 / HALF, 1 / HALF, value=True), shapes(10), 0.1716, 160.3),
    Algorithm("SVT4: too little noise", sparse(1 / QUARTER, 1 / (EPSILON - QUARTER)), shapes(10), 0.1687, 130.5),
    Algorithm("SVT5: no noise on the answers", sparse(1 / HALF, None, stops=False), shapes(10), 1.761, 58.9),
    Algorithm("SVT6: never stops", sparse(1 / HALF, 1 / HALF, stops=False), shapes(10), 0.2720, 95.5),
]
"""SVT2's own figures are 0.0859 and 159.9 s."""
