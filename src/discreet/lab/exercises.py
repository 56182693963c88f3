"""The exercises of the textbooks as functions: change a parameter and the answer is computed again.

To add an exercise, write a function that returns a `Solution` and add an `Exercise` to the table at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, log, sqrt
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from discreet._numbers import Number
from discreet.accounting.basic import Point
from discreet.accounting.risk import advantage
from discreet.accounting.textbook import group_privacy, outcome_range, parallel_composition
from discreet.events import Claim
from discreet.mechanisms import Gaussian, Laplace, RandomizedResponse, textbook_accuracy
from discreet.mechanisms.unsafe import NameAndShame
from discreet.testing import seeded_bits
from discreet.units import Neighbours, Sensitivity, count, counts, histogram, mean


@dataclass(frozen=True, slots=True)
class Solution:
    """The steps of a computation, line by line, and its result."""

    work: tuple[str, ...]
    answer: str
    numbers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question of a textbook, and the function that answers it."""

    name: str
    source: str
    question: str
    solve: Callable[..., Solution]


# -- what ε and δ mean ------------------------------------------------------------------------------------------------------

LN_FIVE_QUARTERS = log(1.25)


def outcomes(epsilon: Number = LN_FIVE_QUARTERS, probabilities: Sequence[float] = (0.2, 0.5)) -> Solution:
    """Compute the range of P'(E), given P(E) and ε.

    >>> outcomes().answer
    'P = 0.2 → [0.16, 0.25]; P = 0.5 → [0.4, 0.6]'
    """
    ranges = {p: outcome_range(epsilon, p) for p in probabilities}
    return Solution(
        ("E is bounded by e^ε·P and e^−ε·P; so is its complement, and the tighter of the two bounds counts.",
         f"e^ε = {exp(epsilon):.4g}"),
        "; ".join(f"P = {p:g} → [{r.lower:.4g}, {r.upper:.4g}]" for p, r in ranges.items()),
        {f"P = {p:g}": [r.lower, r.upper] for p, r in ranges.items()},
    )  # fmt: skip


def cells(epsilon: Number = 1, genders: int = 2, colours: int = 4) -> Solution:
    """Compute the cost of counts by gender and hair colour, by parallel composition: the cells are disjoint."""
    cell = Point(Fraction(epsilon), Fraction(0))
    every = [cell] * (genders * colours)
    add_remove = parallel_composition(*every)
    replace = parallel_composition(*every, neighbours=Neighbours.REPLACE, inside=Point(Fraction(0), Fraction(0)))
    return Solution(
        (f"{len(every)} counts, each {float(epsilon):g}-private; one person is in one cell",
         f"sequential composition would give {float(epsilon) * len(every):g}"),
        f"{float(add_remove.epsilon):g} if one person is added or removed, {float(replace.epsilon):g} if one is replaced",
        {"cells": len(every), "add or remove": float(add_remove.epsilon), "replace": float(replace.epsilon)},
    )  # fmt: skip


def rules_of_thumb(n: int = 10_000) -> Solution:
    """Compute why ε = 0.1 is strong, ε = 1 good and ε = 1/n useless, and why δ is far below 1/n."""
    advantages = {eps: advantage(Claim(Fraction(eps), Fraction(0))).upper for eps in (0.1, 1.0, 10.0)}
    whole_table = group_privacy(Point(Fraction(1, n), Fraction(0)), n)
    useless = advantage(Claim(Fraction(whole_table.epsilon), Fraction(0))).upper
    deltas = {"1/n": Fraction(1, n), "1/n²": Fraction(1, n * n)}
    exposed = {name: NameAndShame(delta).expected_exposures(n) for name, delta in deltas.items()}
    return Solution(
        (*(f"ε = {eps:g}: membership inference has an advantage (true- minus false-positive rate) of at most {by:.4g}"
           for eps, by in advantages.items()),
         f"ε = 1/n: replacing all {n:,} people costs ε = {float(whole_table.epsilon):g}; any two tables are told apart with "
         f"an advantage of at most {useless:.3f}, so nothing can be learned",
         *(f"δ = {name}: naming each person with probability δ is allowed, and exposes {people:g} of them on average"
           for name, people in exposed.items())),
        "ε of 0.1 to 1, above 1/n; δ at most 1/n²",
        {"advantage": {f"{eps:g}": by for eps, by in advantages.items()}, "between any two tables": useless,
         "exposed": exposed},
    )  # fmt: skip


def no_promise(epsilon: float = 0.5, n: int = 10_000) -> Solution:
    """Compute what a study that finds smokers to be ill changes for Anna, who smokes, with and without her data."""
    noise = Laplace.for_epsilon(epsilon, sensitivity=1)
    ill = 3 * n // 10
    with_her, without_her = (noise.release(people, seeded_bits(31)) / n for people in (ill + 1, ill))
    return Solution(
        ("Before the study the risk of a smoker was believed to be 1%.",
         f"After it: {with_her:.4f} if Anna took part, {without_her:.4f} if she did not.",
         f"Her participation changed the probability of any conclusion by a factor of at most e^{epsilon:g}; the study "
         "itself changed the estimate of her risk, and her premium, thirtyfold.",
         "If her smoking was known before, it still is.",
         "Whether the study should be made at all is not a question of ε."),
        "no privacy where there was none, no freedom from harm, no policy",
        {"before": 0.01, "with her": with_her, "without her": without_her, "factor": exp(epsilon)},
    )  # fmt: skip


# -- sensitivity ------------------------------------------------------------------------------------------------------------

Record = TypeVar("Record")


def brute_force_sensitivity(
    records: Sequence[Record],
    query: Callable[[tuple[Record, ...]], Sequence[float]],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    size: int = 2,
) -> float:
    """Return the largest ℓ1 change of `query` between neighbours, over all data sets of `size` records.

    >>> brute_force_sensitivity([0, 1], lambda data: [sum(data)])
    1.0
    """
    base = combinations_with_replacement(records, size - (neighbours is Neighbours.REPLACE))
    pairs = (
        (after, before)
        for rest in base
        for after in ((*rest, record) for record in records)
        for before in ([rest] if neighbours is Neighbours.ADD_REMOVE else [(*rest, record) for record in records])
    )
    return max(float(sum(abs(a - b) for a, b in zip(query(x), query(y), strict=True))) for x, y in pairs)


def sensitivity_quiz() -> Solution:
    """Compute the sensitivity of four queries, by the rule and by trying every small data set with every neighbour."""
    hair = ("black", "brown", "blond", "red")
    people = [(age, colour) for age in (20, 70) for colour in hair]
    rows: dict[str, tuple[float, float]] = {
        "one predicate": (_l1(count()), brute_force_sensitivity(people, lambda d: [sum(a > 65 for a, _ in d)])),
        "two overlapping predicates": (
            _l1(counts(2)),
            brute_force_sensitivity(people, lambda d: [sum(a > 65 for a, _ in d), sum(h == "red" for _, h in d)]),
        ),
        "four disjoint hair colours": (
            _l1(histogram()),
            brute_force_sensitivity(people, lambda d: [sum(h == colour for _, h in d) for colour in hair]),
        ),
    }
    salaries = {
        top: brute_force_sensitivity([0, top], lambda d: [sum(d) / len(d)], Neighbours.REPLACE, size=3)
        for top in (10**3, 10**6, 10**9)
    }
    clipped = (_l1(mean(0, 100, 3)), brute_force_sensitivity([0, 100], lambda d: [sum(d) / 3], Neighbours.REPLACE, size=3))
    return Solution(
        (*(f"{name}: {rule:g} by the rule, {tried:g} by trying all" for name, (rule, tried) in rows.items()),
         "average salary of 3: " + ", ".join(f"{by:,.0f} if the highest is {top:,}" for top, by in salaries.items()),
         f"average salary of 3, clipped to [0, 100]: {clipped[0]:.4g} by the rule, {clipped[1]:.4g} by trying all"),
        "1; 2; 1; unbounded without clipping",
        {**{name: list(pair) for name, pair in rows.items()}, "salary, unclamped": list(salaries.values()),
         "salary, clamped": list(clipped)},
    )  # fmt: skip


def _l1(sensitivity: Sensitivity) -> float:
    return float(sensitivity.l1 or 0)


# -- accuracy ---------------------------------------------------------------------------------------------------------------

WIDE_SCALE = 4096
"""A scale at which integer noise is close to continuous noise."""


def sample_sizes(alpha: float = 0.01, epsilon: float = 0.1) -> Solution:
    """Compute how many people a proportion with root mean square error α needs, beyond its sampling error."""
    laplace, response = textbook_accuracy.laplace_sample_size, textbook_accuracy.response_sample_size
    people = {"Laplace": laplace(alpha, epsilon), "randomised response": response(alpha, epsilon)}
    halved = {
        "Laplace, α halved": laplace(alpha / 2, epsilon) / laplace(alpha, epsilon),
        "Laplace, ε halved": laplace(alpha, epsilon / 2) / laplace(alpha, epsilon),
        "randomised response, α halved": response(alpha / 2, epsilon) / response(alpha, epsilon),
        "randomised response, ε halved": response(alpha, epsilon / 2) / response(alpha, epsilon),
    }
    n = round(people["randomised response"])
    checked = RandomizedResponse.for_epsilon(epsilon).standard_deviation(n) / n
    return Solution(
        (f"Laplace: √2/(αε); randomised response: e^ε/((e^ε − 1)²α²), at α = {alpha:g}, ε = {epsilon:g}",
         f"check: {n:,} randomised responses have a standard deviation of {checked:.6g}",
         *(f"{name}: {factor:.4g} times as many people" for name, factor in halved.items())),
        f"Laplace {people['Laplace']:,.0f} people, randomised response {people['randomised response']:,.0f}",
        {**people, **halved, "check": checked},
    )  # fmt: skip


def counties(d: int = 3143, epsilon: Number = Fraction(1, 10)) -> Solution:
    """Compute the largest error over all counties of a country, where one person is replaced."""
    noise = Laplace.for_epsilon(epsilon, histogram(Neighbours.REPLACE))
    bound = textbook_accuracy.laplace_expected_max(float(noise.scale), d)
    mean_largest = _expected_max(float(noise.scale), d)
    within = noise.error(0.95, d)
    return Solution(
        (f"Replacing one person changes two cells by one: Δ₁ = 2, λ = 2/ε = {float(noise.scale):g}",
         f"E max ≤ λ(ln d + 1) = {bound:.2f}",
         f"exact for the integer noise that discreet draws: E max = {mean_largest:.2f}; at most {within:g} with "
         "confidence 95%"),
        f"E max ≤ {bound:.2f} people",
        {"scale": float(noise.scale), "bound": bound, "exact": mean_largest, "95%": within},
    )  # fmt: skip


def _expected_max(scale: float, d: int) -> float:
    """E max |X| of d discrete Laplace draws: Σ_{t ≥ 0} 1 − (1 − P(|X| > t))^d."""
    t = np.arange(int(60 * scale * (1 + log(d))))
    decay = exp(-1 / scale)
    beyond = 2 * decay ** (t + 1.0) / (1 + decay)
    return float(-np.expm1(d * np.log1p(-beyond)).sum())


def names(k: int = 10_000, epsilon: float = 1, beta: float = 0.05) -> Solution:
    """Compute the largest error of k counts at once, where one person has one name."""
    noise = Laplace.for_epsilon(epsilon, histogram())
    bound = textbook_accuracy.laplace_linf_bound(1, epsilon, k, beta)
    exact = noise.error(1 - beta, k)
    return Solution(
        (f"The names are disjoint: Δ₁ = 1, λ = {float(noise.scale):g}; the sum of all errors is {k / epsilon:,.0f} on "
         "average",
         f"ln(k/β)/ε = ln({k / beta:,.0f})/{epsilon:g} = {bound:.3f}",
         f"exact quantile of the integer noise: {exact:g}"),
        f"all {k:,} within {bound:.3f} with probability {1 - beta:g}",
        {"bound": bound, "exact": exact, "expected l1": textbook_accuracy.laplace_expected_l1(1, epsilon, k)},
    )  # fmt: skip


def tail_bounds(draws: int = 200_000, t: float = 2.0, d: int = 100) -> Solution:
    """Compare how often drawn noise exceeds a bound with the formula."""
    laplace = np.abs(Laplace(WIDE_SCALE).release(np.zeros(draws, np.int64), seeded_bits(21)))
    largest = laplace[: draws // d * d].reshape(-1, d).max(axis=1)
    gaussian = np.abs(Gaussian(WIDE_SCALE).release(np.zeros(draws, np.int64), seeded_bits(22)))
    response, n, runs = RandomizedResponse.for_epsilon(1), 100, 2000
    reports = response.release(np.tile(np.repeat([1, 0], n // 2), (runs, 1)), seeded_bits(23)).sum(axis=1)
    errors = np.abs((reports - n * float(response.other)) / float(response.truth - response.other) - n // 2)
    reach = (exp(1) + 1) / (exp(1) - 1) * sqrt(n)
    rows = {
        "P(|Z| > tλ) = e^−t": (float((laplace > t * WIDE_SCALE).mean()), textbook_accuracy.laplace_tail(t)),
        f"P(max of {d} > λ(ln {d} + t)) ≤ e^−t": (
            float((largest > WIDE_SCALE * (log(d) + t)).mean()),
            textbook_accuracy.laplace_max_tail(t),
        ),
        "P(|Y| > tσ) ≤ 2e^(−t²/2)": (float((gaussian > t * WIDE_SCALE).mean()), textbook_accuracy.gaussian_tail(t)),
        "randomised response beyond t/2 ≤ 2e^(−t²/2)": (
            float((errors >= t / 2 * reach).mean()),
            textbook_accuracy.response_tail(t / 2),
        ),
    }
    return Solution(
        tuple(f"{name}: drawn {seen:.4f}, formula {formula:.4f}" for name, (seen, formula) in rows.items()),
        "the Laplace tail is an equality; the other bounds hold with a margin",
        {name: list(pair) for name, pair in rows.items()},
    )


# -- the table --------------------------------------------------------------------------------------------------------------

_ALL = (
    Exercise("outcome-range", "S4, ex. 3.4", "ε = ln 1.25 and an event has probability 0.2, or 0.5. What can it be if one "
             "person's record changes?", outcomes),
    Exercise("sample-sizes", "S4, ex. 2.6 and 4.6", "How many people does a proportion with error α need, and what happens "
             "when α or ε is halved?", sample_sizes),
    Exercise("counties", "S4, ex. 4.5", "The population of 3,143 counties at ε = 0.1, one person replaced. How large is the "
             "largest error?", counties),
    Exercise("names", "B2", "How often 10,000 first names occur, at ε = 1. How large is the largest error, with "
             "probability 0.95?", names),
    Exercise("sensitivity-quiz", "B2", "What is the sensitivity of: one predicate; two that overlap; four disjoint hair "
             "colours; an average salary?", sensitivity_quiz),
    Exercise("tail-bounds", "S4, B2", "Do the tails of the noise obey their formulas?", tail_bounds),
    Exercise("gender-and-hair", "B2", "Counts by gender and hair colour, 2 × 4 cells, each at ε. What do they cost?",
             cells),
    Exercise("rules-of-thumb", "B2, S4, N1", "Which ε and δ are good ones?", rules_of_thumb),
    Exercise("no-promise", "B2", "What does differential privacy not promise?", no_promise),
)  # fmt: skip

EXERCISES: Mapping[str, Exercise] = MappingProxyType({exercise.name: exercise for exercise in _ALL})
"""By name."""
