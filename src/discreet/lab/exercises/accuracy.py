"""How accurate private answers are: the exercises of [S4, sec. 4], [B2] and [N2].

The quiz of [B2] asks how far one person moves a query, which noise is scaled to: by the rule, and by trying every small
data set.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, log
from typing import TypeVar

import numpy as np

from discreet.accounting.renyi import find_best_order
from discreet.lab.exercises.exercise import Exercise, Solution
from discreet.lab.figures.noise import harmonic
from discreet.lab.figures.notions import USUAL_ORDERS
from discreet.mechanisms import Gaussian, Laplace, textbook_accuracy
from discreet.testing import seeded_bits
from discreet.units import Neighbours, Sensitivity, count, counts, histogram, mean

WIDE_SCALE = 4096
"""A scale at which integer noise is close to continuous noise."""


def counties(d: int = 3143, epsilon: Fraction = Fraction(1, 10)) -> Solution:
    """Compute the largest error over all counties of a country, where one person is replaced."""
    noise = Laplace.for_epsilon(epsilon, histogram(Neighbours.REPLACE))
    scale = float(noise.scale)
    bound = textbook_accuracy.laplace_expected_max(scale, d)
    mean_largest = _expected_max(scale, d)
    within = noise.error(0.95, d)
    return Solution(
        (f"Replacing one person changes two cells by one: Δ₁ = 2, λ = 2/ε = {scale:g}",
         f"The expected error of one county, such as Suffolk, is E|Z| = λ = {scale:g}.",
         f"E max ≤ λ(ln d + 1) = {bound:.2f}",
         f"exact for the integer noise that discreet draws: E max = {mean_largest:.2f}; at most {within:g} with "
         "confidence 95%"),
        f"E max ≤ {bound:.2f} people",
        {"scale": scale, "one county": scale, "bound": bound, "exact": mean_largest, "95%": within},
        (bound,),
        {"with Δ₁ = 1 in place of 2. Replacing one person moves two counties.": bound / 2,
         "that is the expected error of one county, not of the largest.": scale,
         "λ·ln d: the + 1 is missing.": scale * log(d)},
    )  # fmt: skip


def _expected_max(scale: float, d: int) -> float:
    """E max |X| of d discrete Laplace draws: Σ_{t ≥ 0} 1 − (1 − P(|X| > t))^d; above a scale of 10⁴ the continuous λ·H_d."""
    if scale > 10_000:
        return scale * harmonic(d)
    t = np.arange(int(60 * scale * (1 + log(d))) + 60)
    decay = exp(-1 / scale)
    beyond = 2 * decay ** (t + 1.0) / (1 + decay)
    return float(-np.expm1(d * np.log1p(-beyond)).sum())


def laplace_max(d: int = 100, scale: Fraction = Fraction(10), beta: Fraction = Fraction(1, 20)) -> Solution:
    """Prove the tail of the largest of d Laplace errors, and its expectation."""
    width = float(scale)
    threshold, bound = width * (log(d) + log(1 / beta)), textbook_accuracy.laplace_expected_max(width, d)
    return Solution(
        ("(1) P(|Z| > tλ) = 2·∫_{tλ}^∞ e^(−z/λ)/2λ dz = e^−t: |Z|/λ is exponential.",
         "(2) Union over d of them: P(max > λ(ln d + t)) ≤ d·e^(−ln d − t) = e^−t.",
         "(3) E max = ∫_0^∞ P(max > x) dx ≤ λ·ln d + ∫_0^∞ λ·P(max > λ(ln d + t)) dt ≤ λ·ln d + λ·∫_0^∞ e^−t dt = λ(ln d "
         "+ 1).",
         f"(4) β = {float(beta):g}: λ(ln d + ln(1/β)) = {threshold:.4g}; λ(ln d + 1) = {bound:.4g}",
         f"exact: E max = λ(1 + 1/2 + … + 1/d) = {width * harmonic(d):.4g}"),
        f"{threshold:.4g} with probability {float(1 - beta):g}; E max ≤ {bound:.4g}",
        {"threshold": threshold, "bound": bound, "exact": width * harmonic(d)},
        (threshold, bound),
        {"that is for one error, without the union over d.": width * log(1 / beta)},
    )  # fmt: skip


def names(k: int = 10_000, epsilon: Fraction = Fraction(1), beta: Fraction = Fraction(1, 20)) -> Solution:
    """Compute the largest error of k counts at once, where one person has one name."""
    noise = Laplace.for_epsilon(epsilon, histogram())
    eps, miss = float(epsilon), float(beta)
    bound = textbook_accuracy.laplace_linf_bound(1, eps, k, miss)
    exact = noise.error(1 - beta, k)
    return Solution(
        (f"The names are disjoint: Δ₁ = 1, λ = {float(noise.scale):g}; the sum of all errors is {k / eps:,.0f} on average",
         f"ln(k/β)/ε = ln({k / miss:,.0f})/{eps:g} = {bound:.3f}",
         f"exact quantile of the integer noise: {exact:g}"),
        f"all {k:,} within {bound:.3f} with probability {1 - miss:g}",
        {"bound": bound, "exact": exact, "expected l1": textbook_accuracy.laplace_expected_l1(1, eps, k)},
        (bound,),
        {"that is for one count, without the union over k.": log(1 / miss) / eps,
         "the names are disjoint: the noise does not grow with k.": k * bound},
    )  # fmt: skip


def tail_bounds(draws: int = 200_000, t: float = 2.0, d: int = 100) -> Solution:
    """Compare how often drawn noise exceeds a bound with the formula."""
    laplace = np.abs(Laplace(WIDE_SCALE).release(np.zeros(max(draws, d), np.int64), seeded_bits(21)))
    largest = laplace[: len(laplace) // d * d].reshape(-1, d).max(axis=1)
    gaussian = np.abs(Gaussian(WIDE_SCALE).release(np.zeros(draws, np.int64), seeded_bits(22)))
    rows = {
        "P(|Z| > tλ) = e^−t": (float((laplace > t * WIDE_SCALE).mean()), textbook_accuracy.laplace_tail(t)),
        f"P(max of {d} > λ(ln {d} + t)) ≤ e^−t": (
            float((largest > WIDE_SCALE * (log(d) + t)).mean()),
            textbook_accuracy.laplace_max_tail(t),
        ),
        "P(|Y| > tσ) ≤ 2e^(−t²/2)": (float((gaussian > t * WIDE_SCALE).mean()), textbook_accuracy.gaussian_tail(t)),
    }
    return Solution(
        tuple(f"{name}: drawn {seen:.4f}, formula {formula:.4f}" for name, (seen, formula) in rows.items()),
        "the Laplace tail is an equality; the other bounds hold with a margin",
        {name: list(pair) for name, pair in rows.items()},
        (textbook_accuracy.laplace_tail(t), textbook_accuracy.gaussian_tail(t)),
        {"that is one tail of two.": textbook_accuracy.laplace_tail(t) / 2},
    )


def relative_error(count: int = 200, epsilon: Fraction = Fraction(1, 10)) -> Solution:
    """Compute the expected relative error of a count."""
    noise = Laplace.for_epsilon(epsilon, sensitivity=1)
    expected = textbook_accuracy.pct_error(count, count + textbook_accuracy.laplace_mean_absolute(float(noise.scale)))
    drawn = [textbook_accuracy.pct_error(count, value) for value in noise.release([count] * 5, seeded_bits(5))]
    return Solution(
        ("pct_error is 100·|exact − private|/exact.",
         f"E|Z| = λ = 1/ε = {float(noise.scale):g}, so 100·λ/{count:,} = {expected:.4g}% on average",
         f"five draws: {', '.join(f'{error:.3g}%' for error in drawn)}",
         "Half as many people, or half the ε: twice the relative error."),
        f"{expected:.4g}%",
        {"expected": expected, "drawn": drawn},
        (expected,),
        {"that is a share. A percentage is 100 times that.": expected / 100},
    )  # fmt: skip


def best_order(k: int = 500, sigma: Fraction = Fraction(200), delta: Fraction = Fraction(1, 10**5)) -> Solution:
    """Find the order that gives the least ε, by the classic conversion and by the improved one."""
    event = Gaussian(sigma).event(1) * k
    classic = find_best_order(event, delta, USUAL_ORDERS, refine=0, classic=True)
    improved = find_best_order(event, delta, USUAL_ORDERS, refine=0)
    return Solution(
        (f"k Gaussians have ε̄ = αk/2σ², so ε(α) = αk/2σ² + ln(1/δ)/(α − 1) for α = 2, …, {USUAL_ORDERS[-1]}",
         "Its derivative is 0 at α = 1 + √(2σ²·ln(1/δ)/k).",
         f"classic conversion: {classic}",
         f"improved conversion: {improved}",
         "The choice depends on no data, so trying all orders costs nothing."),
        f"α = {classic.order:g}, ε = {classic.epsilon:.5f}",
        {"order": classic.order, "epsilon": classic.epsilon, "improved order": improved.order,
         "improved epsilon": improved.epsilon},
        (classic.order, classic.epsilon),
        {"that is the best order of the improved conversion.": improved.order},
    )  # fmt: skip


def noise_per_query(k: int = 10, epsilon: Fraction = Fraction(1, 10)) -> Solution:
    """Compute the Laplace noise of k counts, one by one and at once."""
    apart = float(Laplace.for_epsilon(epsilon / k, sensitivity=1).scale)
    at_once = float(Laplace.for_epsilon(epsilon, counts(k)).scale)
    return Solution(
        (f"one by one: each of {k:,} at ε/k, scale 1/(ε/k) = {apart:g}",
         f"at once: Δ₁ = k, scale k/ε = {at_once:g}",
         "They are equal: sequential composition is tight for pure DP, and some pair of tables reaches kε."),
        f"{apart:g}, both ways",
        {"sequential": apart, "vectorised": at_once},
        (apart, at_once),
        {"that is the scale of a single count.": float(1 / epsilon)},
    )  # fmt: skip


ACCURACY = (
    Exercise(
        "counties", "S4, ex. 4.5",
        "The population of {d} counties at ε = {epsilon}, one person replaced. How large is the largest error, at most, on "
        "average?",
        "the bound on E max", "Replacing one person changes two counties.", counties,
    ),
    Exercise(
        "laplace-max", "S4, ex. 4.7",
        "Prove P(max > λ(ln d + t)) ≤ e^−t and E max ≤ λ(ln d + 1) for d Laplace errors of scale λ. For d = {d}, λ = "
        "{scale}: "
        "what does the largest not exceed, except with probability {beta}, and what bounds its mean?",
        "the threshold, then the bound on the mean", "Take a union over the d errors, then integrate the tail.", laplace_max,
    ),
    Exercise(
        "names", "B2",
        "How often {k} first names occur, at ε = {epsilon}. How large is the largest error, except with probability {beta}?",
        "the bound", "The names are disjoint, so λ does not depend on their number.", names,
    ),
    Exercise(
        "tail-bounds", "S4, B2",
        "Do the tails of the noise obey their formulas? In numbers: P(|Z| > tλ) for Laplace noise, and the bound on "
        "P(|Y| > tσ) "
        "for Gaussian noise, at t = {t}?",
        "the Laplace tail, then the Gaussian bound",
        "Integrate the density; bound the Gaussian by its moment-generating function.",
        tail_bounds,
    ),
    Exercise(
        "relative-error", "N2",
        "A count of {count} people is released with Laplace noise at ε = {epsilon}. What is its expected relative error, "
        "in per "
        "cent?",
        "the percentage", "The mean of |Z| is λ.", relative_error,
    ),
    Exercise(
        "best-order", "N2",
        "{k} Gaussian answers with σ = {sigma}. Which order α from 2 to 100 gives the least ε at δ = {delta} by "
        "ε̄ + ln(1/δ)/(α − 1), and which ε is it?",
        "α, then ε", "Differentiate, or try them all: no data is needed.", best_order,
    ),
    Exercise(
        "noise-per-query", "N2",
        "{k} counts at ε = {epsilon} in all. Which scale of Laplace noise does each need, asked one by one, and asked at "
        "once as a "
        "vector?",
        "one by one, then at once", "The ℓ1 sensitivity of the vector is k.", noise_per_query,
    ),
)  # fmt: skip


# -- the quiz of [B2]: how far one person moves a query --------------------------------------------------------------------

Record = TypeVar("Record")
BOTH = (Neighbours.ADD_REMOVE, Neighbours.REPLACE)


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


def sensitivity_quiz(bound: Fraction = Fraction(100), n: int = 3) -> Solution:
    """Compute the sensitivity of four queries, by the rule and by trying every small data set with every neighbour."""
    hair = ("black", "brown", "blond", "red")
    people = [(age, colour) for age in (20, 70) for colour in hair]
    queries: dict[str, tuple[Callable[[Neighbours], Sensitivity], Callable[..., Sequence[float]]]] = {
        "one predicate": (count, lambda d: [sum(a > 65 for a, _ in d)]),
        "two overlapping predicates": (
            lambda relation: counts(2, relation), lambda d: [sum(a > 65 for a, _ in d), sum(h == "red" for _, h in d)]
        ),
        "four disjoint hair colours": (histogram, lambda d: [sum(h == colour for _, h in d) for colour in hair]),
    }  # fmt: skip
    rows = {
        f"{name}, {relation.value}": (_l1(rule(relation)), brute_force_sensitivity(people, query, relation))
        for name, (rule, query) in queries.items()
        for relation in BOTH
    }
    salaries = {
        top: brute_force_sensitivity([0, top], lambda d: [sum(d) / len(d)], Neighbours.REPLACE, size=3)
        for top in (10**3, 10**6, 10**9)
    }
    clipped = _l1(mean(0, bound, n))
    return Solution(
        (*(f"{name}: {rule:g} by the rule, {tried:g} by trying all" for name, (rule, tried) in rows.items()),
         "average salary of 3, replace: "
         + ", ".join(f"{by:,.0f} if the highest is {top:,}" for top, by in salaries.items()),
         f"average salary of {n:,}, clipped to [0, {float(bound):g}], replace: {clipped:.4g} by the rule, R/n"),
        f"1, 2, 1 if one person is added or removed (1, 2, 2 if replaced); the salary, replaced, {clipped:.4g} once "
        "clipped, "
        "unbounded before",
        {**{name: list(pair) for name, pair in rows.items()}, "salary, unclamped": list(salaries.values()),
         "salary, clamped": clipped},
        (1.0, 2.0, 1.0, clipped),
        {},
    )  # fmt: skip


def _l1(sensitivity: Sensitivity) -> float:
    return float(sensitivity.l1 or 0)


SENSITIVITY = (
    Exercise(
        "sensitivity-quiz", "B2",
        "What is the ℓ1 sensitivity of: one predicate; two that overlap; four disjoint hair colours (each if one person "
        "is added "
        "or removed); an average salary of {n} people, clipped to [0, {bound}] (if one is replaced)?",
        "the four sensitivities", "How many numbers does one person change, and by how much each?", sensitivity_quiz,
    ),
)  # fmt: skip
