"""Local privacy as it was deployed: what daily reports add up to [EPK14; TKB17]."""

from fractions import Fraction
from itertools import count
from math import comb, sqrt
from statistics import NormalDist

from discreet.accounting.risk import posterior_range
from discreet.errors import BadParameter
from discreet.lab.exercises.exercise import Exercise, Solution

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
