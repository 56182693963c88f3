"""How good an answer is, and how many people it takes."""

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np

from discreet._numbers import Number
from discreet.lab.exercises.solution import Solution
from discreet.mechanisms import Gaussian, Laplace, RandomizedResponse, textbook_accuracy
from discreet.testing import seeded_bits
from discreet.units import Neighbours, histogram

WIDE_SCALE = 4096
"""A scale at which whole noise is as good as continuous."""


def sample_sizes(alpha: float = 0.01, epsilon: float = 0.1) -> Solution:
    """How many people a proportion with root-mean-square error α needs, beyond what sampling itself asks for."""
    laplace, response = (textbook_accuracy.laplace_sample_size, textbook_accuracy.response_sample_size)
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
    """The largest error over all counties of a country, when a person can move from one to another."""
    noise = Laplace.for_epsilon(epsilon, histogram(Neighbours.REPLACE))
    bound = textbook_accuracy.laplace_expected_max(float(noise.scale), d)
    mean_largest = _expected_max(float(noise.scale), d)
    within = noise.error(0.95, d)
    return Solution(
        (f"A replaced person changes two cells by one: Δ₁ = 2, λ = 2/ε = {float(noise.scale):g}",
         f"E max ≤ λ(ln d + 1) = {bound:.2f}",
         f"exact for the integers that discreet draws: E max = {mean_largest:.2f}; below {within:g} with confidence 95%"),
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
    """How far off the worst of k counts is, all counted at once: one person has one name."""
    noise = Laplace.for_epsilon(epsilon, histogram())
    bound = textbook_accuracy.laplace_linf_bound(1, epsilon, k, beta)
    exact = noise.error(1 - beta, k)
    return Solution(
        (f"The names are disjoint: Δ₁ = 1, λ = {float(noise.scale):g}; their sum is {k / epsilon:,.0f} on average",
         f"ln(k/β)/ε = ln({k / beta:,.0f})/{epsilon:g} = {bound:.3f}",
         f"exact quantile of the integer noise: {exact:g}"),
        f"all {k:,} within {bound:.3f} with probability {1 - beta:g}",
        {"bound": bound, "exact": exact, "expected l1": textbook_accuracy.laplace_expected_l1(1, epsilon, k)},
    )  # fmt: skip


def tail_bounds(draws: int = 200_000, t: float = 2.0, d: int = 100) -> Solution:
    """How often noise goes beyond a bound, by drawing it, beside what the formula says."""
    laplace = np.abs(Laplace(WIDE_SCALE).release(np.zeros(draws, np.int64), seeded_bits(21)))
    largest = laplace[: draws // d * d].reshape(-1, d).max(axis=1)
    gaussian = np.abs(Gaussian(WIDE_SCALE).release(np.zeros(draws, np.int64), seeded_bits(22)))
    response, n, runs = RandomizedResponse.for_epsilon(1), 100, 2000
    said = response.release(np.tile(np.repeat([1, 0], n // 2), (runs, 1)), seeded_bits(23)).sum(axis=1)
    off = np.abs((said - n * float(response.other)) / float(response.truth - response.other) - n // 2)
    reach = (exp(1) + 1) / (exp(1) - 1) * sqrt(n)
    rows = {
        "P(|Z| > tλ) = e^−t": (float((laplace > t * WIDE_SCALE).mean()), textbook_accuracy.laplace_tail(t)),
        f"P(max of {d} > λ(ln {d} + t)) ≤ e^−t": (
            float((largest > WIDE_SCALE * (log(d) + t)).mean()),
            textbook_accuracy.laplace_max_tail(t),
        ),
        "P(|Y| > tσ) ≤ 2e^(−t²/2)": (float((gaussian > t * WIDE_SCALE).mean()), textbook_accuracy.gaussian_tail(t)),
        "randomised response beyond t/2 ≤ 2e^(−t²/2)": (
            float((off >= t / 2 * reach).mean()),
            textbook_accuracy.response_tail(t / 2),
        ),
    }
    return Solution(
        tuple(f"{name}: seen {seen:.4f}, formula {formula:.4f}" for name, (seen, formula) in rows.items()),
        "Laplace's is an equality; the others hold with room to spare",
        {name: list(pair) for name, pair in rows.items()},
    )
