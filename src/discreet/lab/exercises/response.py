"""Randomised response: the exercises of [S4, sec. 2], numbered as there. And as it was deployed: what daily reports add
up to [EPK14; TKB17]."""

from fractions import Fraction
from itertools import count
from math import comb, exp, log, sinh, sqrt
from statistics import NormalDist

import numpy as np

from discreet.accounting.risk import posterior_range
from discreet.errors import BadParameter
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


HALF = Fraction(1, 2)
APPLICATIONS = 4


def daily_budget(epsilon: Fraction = Fraction(16), days: int = 365) -> Solution:
    """Add up a budget that is renewed every day."""
    year = epsilon * days
    certain = {unit: posterior_range(spent, HALF).upper for unit, spent in (("datum", 2), ("day", epsilon))}
    return Solution(
        ("Fresh noise is drawn for every report, so the costs of reports add up, and a budget that is renewed is no limit.",
         f"(1) ε = 1 or 2 is that of one datum; ε = {float(epsilon):g} that of one device and one day, over all "
         f"{APPLICATIONS} applications together; neither says what a device reveals in its life.",
         f"(2) {days:,} days at ε = {float(epsilon):g}: ε = {float(year):,.0f} of one device.",
         f"(3) From even odds, ε = 2 allows an attacker to be sure of a bit to {certain['datum']:.3f}, one day to "
         f"1 − {1 - certain['day']:.1e}. What lies beyond is no protection that differential privacy states.",
         "(4) A budget for life refuses the report that exceeds it, or permanent noise answers again what it answered "
         "before."),
        f"ε = {float(year):,.0f} of one device",
        {"epsilon": float(year), "per day": float(epsilon), "sure after one datum": certain["datum"],
         "sure after one day": certain["day"]},
        (float(year),),
        {"that is one day.": float(epsilon),
         "the daily ε is that of all four applications together.": APPLICATIONS * float(year),
         "that is ε of one application, if they share the day alike. A device runs all four.": float(year) / APPLICATIONS},
    )  # fmt: skip


def averaged_reports(
    p: Fraction = Fraction(1, 2), q: Fraction = Fraction(3, 4), error: Fraction = Fraction(1, 100)
) -> Solution:
    """Compute how many reports with fresh noise determine one bit."""
    if not 0 < p < q < 1:
        raise BadParameter("p", float(p), f"not between 0 and q = {float(q):g}", "give 0 < p < q < 1")
    if not error < HALF:
        raise BadParameter("error", float(error), "a coin errs as seldom", "give less than 1/2")
    z, gap = NormalDist().inv_cdf(1 - float(error)), float(q - p)
    reports = (z / gap) ** 2
    exact = count_reports_needed(float(p), float(q), float(error)) if reports <= MAX_SUMMED else None
    summed = "" if exact is None else f" Summed exactly, {exact} reports suffice at the best threshold."
    return Solution(
        (f"A bit that is 0 is sent as 1 with probability p = {float(p):g}, one that is 1 with q = {float(q):g}, afresh in "
         "each report.",
         "(1) The mean of T reports is about p or about q. The attacker compares it with the middle, (p + q)/2.",
         "(2) Its standard deviation is √(p(1 − p)/T) or √(q(1 − q)/T), at most 1/(2√T).",
         f"(3) The middle is (q − p)/2 away: z = {z:.4g} deviations if √T = z/(q − p).",
         f"(4) T = (z/(q − p))² = {reports:.4g}.{summed}",
         "(5) Permanent noise ends this: the mean then tends to the memoised bit, which is wrong as often as that noise "
         "makes it."),
        f"{reports:.4g} reports",
        {"reports": reports, "z": z, **({} if exact is None else {"exact": exact})},
        (reports,),
        {"the middle is (q − p)/2 away, and the deviation at most 1/(2√T): two factors of 2 that cancel.": reports * 4,
         "that is √T.": sqrt(reports)},
    )  # fmt: skip


MAX_SUMMED = 300
"""Reports up to which the exact number is summed while a student waits."""


def count_reports_needed(p: float, q: float, error: float) -> int:
    """Return the least T at which some threshold of Bin(T, p) and Bin(T, q) errs at most so often on either side.

    >>> count_reports_needed(0.5, 0.75, 0.01)
    80
    """
    for reports in count(1):
        above, below = 1.0, 0.0  # P(ones ≥ k) of a 0, and P(ones < k) of a 1
        for k in range(reports + 1):
            if above <= error and below <= error:
                return reports
            above -= comb(reports, k) * p**k * (1 - p) ** (reports - k)
            below += comb(reports, k) * q**k * (1 - q) ** (reports - k)
    raise AssertionError("some number of reports suffices")


LOCAL = (
    Exercise(
        "daily-budget", "TKB17",
        "A system sends data with ε = 1 or 2 for one datum, and allows a device ε = {epsilon} a day over four applications. "
        "The budget is renewed every day. Which ε does one device spend in {days} days? Say of which unit each ε is.",
        "ε of one device over all days", "Does the noise of one day hide that of another?", daily_budget,
    ),
    Exercise(
        "averaged-reports", "EPK14",
        "A device reports a bit every day: 1 with probability {q} if the bit is 1, and {p} if it is 0, with fresh noise and "
        "no permanent noise. After how many reports does their mean tell the bit with error {error}? Use the normal "
        "approximation, with a standard deviation of at most 1/2 for one report.",
        "the number of reports", "How many standard deviations of the mean lie between the middle and p?", averaged_reports,
    ),
)  # fmt: skip
