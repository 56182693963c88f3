"""Errors and intervals of estimates over many simulated collections, from the exact distribution of every report.

Reports are drawn value by value from the probabilities that `SetOracle.probability` states, so nothing here is shared with
the code that simulates or encodes. All runs of a case are inverted at once: an interval depends on its count alone.

**When a table of cases fails.** Coverage: a run's share of covered values is between 0 and 1 and has a mean of at least the
confidence, so by Chernoff's bound a mean as low as q over R independent runs has a probability of at most e^{−R·KL(q‖c)}.
Errors: let X_v be the squared error of value v over its exact expectation, and m the mean of X_v over values and runs. For
every λ, positive or negative, P(m is beyond 1 on the side of λ as far as it is) ≤ (e^{−λm}·mean_v E[e^{λX_v}])^R by Chernoff
and Jensen, whatever the dependence between values. No normal approximation: an error is a sum over people of independent
terms t, so with g standard normal E[e^{λe²/σ²}] = E_g[Π E e^{g·√(2λ)·t/σ}] (for λ < 0 with an imaginary root), a product
over people of exact expectations over reports; the integral over g is a Gauss–Hermite sum.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.local.counting import list_hashes
from discreet.local.decoding import measure_total
from discreet.local.intervals import bernstein_width, invert_counts
from discreet.local.odds import odds_for_epsilon
from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, SetOracle, Subset, Unary
from discreet.local.shared_hashes import Design, estimate_solved, estimate_with_floor
from tests.support.goodness_of_fit import kl

CONFIDENCE = Fraction(19, 20)
MAX_CASES = 1000
FALSE_ALARM = 1e-9
TILTS = (-0.2, -0.1, -0.05, -0.025, -0.0125, 0.0125, 0.025, 0.05, 0.1)
"""λ: small ones for small deviations."""
ROOTS = {"0.5": Fraction(9, 7), "1": Fraction(5, 3), "3": Fraction(9, 2)}


def list_oracles(epsilon: str) -> dict[str, SetOracle]:
    """Return one small oracle of each kind at about this ε."""
    odds = odds_for_epsilon(Fraction(epsilon), 16)
    return {
        "direct": Direct(6, odds),
        "oue": Unary.optimised(5, odds),
        "sue": Unary.symmetric(5, ROOTS[epsilon]),
        "subset": Subset(6, odds, 2),
        "hashed": Hashed(7, odds, 3),
        "hadamard": Hadamard(7, odds),
        "projective": Projective(9, odds, 3, 3),
        "fixed hashed": FixedHashed(7, odds, 3, 24, "salt"),
        "fixed hashed with floor": FixedHashed(7, odds, 3, 9, "salt"),
    }


def list_holders(values: int, n: int) -> dict[str, NDArray[np.int64]]:
    """People who are as many for each value, and people of whom most have one value and none the last."""
    weights = np.array([0.7**value for value in range(values - 1)] + [0.0])
    skewed = np.floor(n * weights / weights.sum()).astype(np.int64)
    skewed[0] += n - skewed.sum()
    flat = np.full(values, n // values)
    flat[0] += n - flat.sum()
    return {"flat": flat, "skewed": skewed}


def draw_supports(oracle: SetOracle, holders: NDArray[np.int64], runs: int, seed: int) -> NDArray[np.int64]:
    """Draw the support counts of many runs: one row per run."""
    random = np.random.default_rng(seed)
    reports = list(oracle.base_reports())
    supports = np.array(
        [[oracle.supports(report, value) for value in range(oracle.values)] for report, _ in reports], np.int64
    )
    out = np.zeros((runs, oracle.values), np.int64)
    for value, people in enumerate(holders.tolist()):
        chances = np.array([float(oracle.probability(report, base, value)) for report, base in reports])
        out += random.multinomial(people, chances / chances.sum(), size=runs) @ supports
    return out


@dataclass(frozen=True)
class Errors:
    """What many runs of one case show."""

    covered: NDArray[np.float64]  # the share of values whose interval covers, per run
    all_covered: NDArray[np.float64]  # whether all joint intervals do
    total_covered: NDArray[np.float64]
    ratios: NDArray[np.float64]  # squared errors over their exact expectation, mean over values, per run
    cgf: NDArray[np.float64]  # ln of the mean over values of E[e^{λX_v}], for each of TILTS

    def find_problems(self) -> list[str]:
        """Return what chance does not explain."""
        problems = []
        limit = log(MAX_CASES / FALSE_ALARM)
        for name in ("covered", "all_covered", "total_covered"):
            share, runs = float(getattr(self, name).mean()), len(self.covered)
            if share < CONFIDENCE and runs * kl(share, float(CONFIDENCE)) > limit:
                problems.append(f"{name} {share:.4f}")
        mean = float(self.ratios.mean())
        chernoff = [len(self.ratios) * (cgf - tilt * mean) for tilt, cgf in zip(TILTS, self.cgf, strict=True)
                    if (tilt > 0) == (mean > 1)]  # fmt: skip
        if min(chernoff) < -limit:
            problems.append(f"squared error {mean:.4f} times the expected, of probability e^{min(chernoff):.0f}")
        return problems


def tilt_squares(terms: NDArray[np.float64], laws: NDArray[np.float64], holders: Any, expected: Any) -> Any:
    """Return ln of the mean over values of E[e^{λX_v}]: `terms[report, v]` is what a report adds to the estimate of v,
    `laws[u, report]` its probability under value u."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(96)
    found = []
    for tilt in TILTS:
        root = np.sqrt(complex(2 * tilt))
        each = []
        for value, (held, size) in enumerate(zip(holders, expected, strict=True)):
            scale = root * nodes / np.sqrt(size)
            means = np.log(np.exp(np.outer(scale, terms[:, value])) @ laws.T)  # [node, u]
            whole = np.exp(means @ holders - scale * held)
            each.append(float((weights @ whole).real / weights.sum()))
        found.append(log(np.mean(each)))
    return np.array(found)


def list_laws(oracle: SetOracle) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each report adds to each estimate from supports, and its exact probability under each value."""
    p, q = float(oracle.truth_support), float(oracle.other_support)
    reports = list(oracle.base_reports())
    values = range(oracle.values)
    supports = np.array([[oracle.supports(report, value) for value in values] for report, _ in reports], np.float64)
    laws = np.array([[float(oracle.probability(report, base, value)) for report, base in reports] for value in values])
    return (supports - q) / (p - q), laws


def measure_errors(oracle: SetOracle, holders: NDArray[np.int64], runs: int, seed: int, *, floor: bool = False) -> Errors:
    """Run a case. `floor`: shared functions are not solved."""
    n, d = int(holders.sum()), oracle.values
    supports = draw_supports(oracle, holders, runs, seed)
    p, q = oracle.truth_support, oracle.other_support
    miss = 1 - CONFIDENCE
    estimates = (supports - n * float(q)) / float(p - q)
    expected = np.array([float(oracle.variance(n, int(people))) for people in holders])
    sums = estimates.sum(axis=1)
    variance, largest, bias = measure_total(oracle)
    width = float(n * bias) + (bernstein_width(n * variance, largest, miss) if variance else 0.5)
    terms, laws = list_laws(oracle)
    if isinstance(oracle, FixedHashed):
        design = None if floor else Design.of(oracle)
        estimate = estimate_with_floor if design is None else lambda o, s, n, miss: estimate_solved(o, design, s, n, miss)
        found = [estimate(oracle, row, n, miss) for row in supports[:50]]
        if design is None:
            collisions = count_collisions(oracle)
            hits = float(q) + collisions * float(p - q)
            expected = (hits * (1 - hits)) @ holders / float(p - q) ** 2 + (collisions @ holders - holders) ** 2
            largest = supports.max(axis=1)  # the widths depend on the largest estimate alone
            rows = {int(most): row for most, row in zip(largest, supports, strict=True)}
            by_largest = {most: estimate(oracle, row, n, miss) for most, row in rows.items()}
            widths = [
                np.array([getattr(by_largest[int(most)], name)[0] for most in largest])[:, None]
                for name in ("widths", "joint_widths")
            ]
        else:
            estimates, terms = estimates @ design.inverse.T, terms @ design.inverse.T
            expected = design.variances @ holders
            widths = [found[0].widths[None, :], found[0].joint_widths[None, :]]
        assert all(np.allclose(each.values, row) for each, row in zip(found, estimates, strict=False))
        within = [abs(estimates - holders) <= each for each in widths]
    else:
        within = []
        for share in (miss, miss / d):
            lower, upper = (end.reshape(runs, d) for end in invert_counts(supports.reshape(-1), n, p, q, share))
            within.append((lower <= holders) & (holders <= upper))
    return Errors(
        within[0].mean(axis=1), within[1].all(axis=1).astype(float), (abs(sums - n) <= width).astype(float),
        ((estimates - holders) ** 2 / expected).mean(axis=1), tilt_squares(terms, laws, holders, expected),
    )  # fmt: skip


def count_collisions(oracle: FixedHashed) -> NDArray[np.float64]:
    """M of `shared_hashes`, from the hashes one by one."""
    hashes, g = list_hashes(oracle), oracle.buckets
    meets = (hashes[:, :, None] == hashes[:, None, :]).mean(axis=0)
    return (meets - 1 / g) * g / (g - 1)
