"""Randomised response: the exercises of [S4, sec. 2], numbered as there."""

from fractions import Fraction
from math import exp, log, sinh, sqrt

import numpy as np

from discreet.lab.exercises.exercise import Exercise, Solution
from discreet.mechanisms import RandomizedResponse, textbook_accuracy
from discreet.testing import seeded_bits


def two_thirds(n: int = 100) -> Solution:
    """Prove privacy and accuracy of randomised response with truth 2/3."""
    deviation = RandomizedResponse(Fraction(2, 3)).standard_deviation(n)
    return Solution(
        ("Person i has the bit x and reports y = x with probability 2/3, else 1 − x.",
         "(1) P(y | x) is 2/3 or 1/3, so the ratio for x = 1 and x = 0 is at most 2: each report is ln 2-private. A changed "
         "person changes one report, so all reports together are ln 2-private too.",
         "(2) E y = 1/3 + x/3. So A = 3·Σy − n has E A = Σ(1 + x) − n = Σx: it is unbiased.",
         "(3) Var y = 2/3·1/3 = 2/9 for either x, and the reports are independent: Var A = 9·n·2/9 = 2n.",
         f"(4) √(2n) = {sqrt(2 * n):.4g}; by the general formula {deviation:.4g}"),
        f"√(2n) = {sqrt(2 * n):.4g}",
        {"standard deviation": deviation, "epsilon": log(2)},
        (deviation,),
        {"that is the standard deviation of Σy. A is 3·Σy − n.": sqrt(2 * n) / 3, "that is the variance.": 2.0 * n},
    )  # fmt: skip


def any_epsilon(n: int = 10_000, epsilon: Fraction = Fraction(1)) -> Solution:
    """Prove that the estimate is unbiased with standard deviation e^{ε/2}/(e^ε − 1)·√n."""
    response = RandomizedResponse.for_epsilon(epsilon)
    truth, deviation = float(response.truth), response.standard_deviation(n)
    return Solution(
        ("Let p = e^ε/(e^ε + 1) be the probability of the truth, φ(x) the predicate, y the report.",
         "(1) p/(1 − p) = e^ε: each report is ε-private.",
         "(2) E y = (1 − p) + (2p − 1)·φ(x), so A = (Σy − n(1 − p))/(2p − 1) is unbiased for Σφ.",
         "(3) Var y = p(1 − p) for either answer, so Var A = n·p(1 − p)/(2p − 1)².",
         "(4) p(1 − p) = e^ε/(e^ε + 1)² and 2p − 1 = (e^ε − 1)/(e^ε + 1): Var A = n·e^ε/(e^ε − 1)².",
         f"(5) e^(ε/2)/(e^ε − 1)·√n = {deviation:.4g}"),
        f"{deviation:.4g}",
        {"truth": truth, "standard deviation": deviation},
        (deviation,),
        {"that is the standard deviation of Σy, not divided by 2p − 1.": sqrt(n * truth * (1 - truth)),
         "that is the variance.": deviation**2},
    )  # fmt: skip


def response_tail(n: int = 10_000, epsilon: Fraction = Fraction(1), beta: Fraction = Fraction(1, 20)) -> Solution:
    """Prove the tail of randomised response by Hoeffding's inequality, and compare it with drawn answers."""
    response = RandomizedResponse.for_epsilon(epsilon)
    odds, t = exp(epsilon), sqrt(log(2 / beta) / 2)
    reach = t * (odds + 1) / (odds - 1) * sqrt(n)
    runs, people = 2000, 100
    reports = response.release(np.tile(np.repeat([1, 0], people // 2), (runs, 1)), seeded_bits(23)).sum(axis=1)
    errors = np.abs((reports - people * float(response.other)) / float(response.truth - response.other) - people // 2)
    beyond = float((errors >= t * (odds + 1) / (odds - 1) * sqrt(people)).mean())
    return Solution(
        ("(1) Hoeffding: independent variables in [0, 1] have P(|Σ(y − E y)| ≥ s) ≤ 2e^(−2s²/n).",
         "(2) A − Σφ = Σ(y − E y)/(2p − 1), and 1/(2p − 1) = (e^ε + 1)/(e^ε − 1).",
         "(3) With s = t√n: P(|A − Σφ| ≥ t·(e^ε + 1)/(e^ε − 1)·√n) ≤ 2e^(−2t²).",
         f"(4) 2e^(−2t²) = {float(beta):g} at t = √(ln(2/β)/2) = {t:.4g}: {reach:.4g}",
         f"drawn: {runs:,} surveys of {people} people, beyond it in {beyond:.4f} of them"),
        f"{reach:.4g}",
        {"t": t, "reach": reach, "drawn beyond": beyond, "bound": textbook_accuracy.response_tail(t)},
        (reach,),
        {"without the factor (e^ε + 1)/(e^ε − 1) that undoes the flips.": t * sqrt(n),
         "that is t = √(ln(1/β)/2): both tails count, so "
         "ln(2/β).": sqrt(log(1 / beta) / 2) * (odds + 1) / (odds - 1) * sqrt(n)},
    )  # fmt: skip


def sample_sizes(alpha: float = 0.01, epsilon: float = 0.1) -> Solution:
    """Compute how many people a proportion with root mean square error α needs, beyond its sampling error."""
    laplace, response = textbook_accuracy.laplace_sample_size, textbook_accuracy.response_sample_size
    people = {"Laplace": laplace(alpha, epsilon), "randomised response": response(alpha, epsilon)}
    asymptotic = 1 / (alpha * epsilon) ** 2
    halved = {
        "Laplace, α halved": laplace(alpha / 2, epsilon) / laplace(alpha, epsilon),
        "Laplace, ε halved": laplace(alpha, epsilon / 2) / laplace(alpha, epsilon),
        "randomised response, α halved": response(alpha / 2, epsilon) / response(alpha, epsilon),
        "randomised response, ε halved": response(alpha, epsilon / 2) / response(alpha, epsilon),
    }
    n = max(1, round(people["randomised response"]))
    checked = RandomizedResponse.for_epsilon(epsilon).standard_deviation(n) / n
    return Solution(
        (f"(2.6) randomised response: e^(ε/2)/(e^ε − 1)/√n = α, so n = e^ε/((e^ε − 1)²α²), at α = {alpha:g}, ε = "
         f"{epsilon:g}",
         f"as ε → 0 that is 1/(αε)² = {asymptotic:,.0f}: the ratio is ((ε/2)/sinh(ε/2))² = "
         f"{(epsilon / 2 / sinh(epsilon / 2)) ** 2:.6g}",
         "(4.6) Laplace: √2·λ with λ = 1/(nε) is √2/(nε) = α, so n = √2/(αε)",
         f"check: {n:,} randomised responses have a standard deviation of {checked:.6g}",
         *(f"{name}: {factor:.4g} times as many people" for name, factor in halved.items())),
        f"Laplace {people['Laplace']:,.0f} people, randomised response {people['randomised response']:,.0f}",
        {**people, "1/(αε)²": asymptotic, **halved, "check": checked},
        (people["Laplace"], people["randomised response"]),
        {"that is without the √2 of the Laplace noise's standard deviation.": 1 / (alpha * epsilon),
         "that is for randomised response. Laplace comes first.": people["randomised response"]},
    )  # fmt: skip


RESPONSE = (
    Exercise(
        "truth-two-thirds", "S4, ex. 2.2",
        "Each of {n} people reports the truth with probability 2/3, else a lie. Prove that a report is ln 2-private and "
        "that "
        "A = 3·Σy − n is an unbiased estimate of Σx. What is its standard deviation?",
        "the standard deviation", "What are E y and Var y, given x?", two_thirds,
    ),
    Exercise(
        "truth-any", "S4, ex. 2.4",
        "The same with truth e^ε/(e^ε + 1), on a predicate: find the unbiased estimate of Σφ, and prove its standard "
        "deviation. "
        "What is it for {n} people at ε = {epsilon}?",
        "the standard deviation", "Solve E Σy for Σφ.", any_epsilon,
    ),
    Exercise(
        "response-tail", "S4, ex. 2.5",
        "Prove P(|A − Σφ| ≥ t·(e^ε + 1)/(e^ε − 1)·√n) ≤ 2e^(−2t²). Which error do {n} people at ε = {epsilon} not "
        "exceed, except "
        "with probability {beta}?",
        "the error", "Hoeffding's inequality, for variables in [0, 1].", response_tail,
    ),
    Exercise(
        "sample-sizes", "S4, ex. 2.6 and 4.6",
        "How many people does a proportion with root mean square error {alpha} need at ε = {epsilon}, with Laplace noise "
        "and with "
        "randomised response? What happens when the error or ε is halved?",
        "people with Laplace noise, then with randomised response",
        "Set the standard deviation of the proportion equal to α.",
        sample_sizes,
    ),
)  # fmt: skip
