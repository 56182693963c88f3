"""Where the five textbooks are wrong, or omit a hypothesis: what they say, what is true, and how we know.

`evidence()` computes the numbers that prove it. To add an erratum, write a function that returns them and add an `Erratum`
to the table at the end; docs/facts.md gets a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import erf, expm1, log, sqrt
from types import MappingProxyType

from discreet.accounting.conversions import epsilon_from_rdp_classic, epsilon_from_zcdp_classic
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.divergences import hockey_stick
from discreet.accounting.pld.gaussian import gaussian_delta
from discreet.accounting.textbook import bad_set_mass, optimal_composition, short_form_threshold
from discreet.events import Claim
from discreet.mechanisms import Gaussian, RandomizedResponse, textbook_accuracy
from discreet.testing import seeded_bits
from discreet.units import counts

Evidence = dict[str, float]


@dataclass(frozen=True, slots=True)
class Erratum:
    """One mistake of one textbook, with the evidence."""

    number: int
    source: str
    title: str
    claim: str
    correction: str
    proof: str
    evidence: Callable[[], Evidence]

    @property
    def name(self) -> str:
        """The name for `discreet lab show`."""
        return f"erratum-{self.number}"

    @property
    def caption(self) -> str:
        """The text for the caption of a figure."""
        return f"Erratum {self.number} [{self.source}]. The text: {self.claim} True: {self.correction}"


def short_form() -> Evidence:
    """Compute the short form where its hypothesis fails, and the exact cost of 500 randomised responses of ε = 1."""
    epsilon, k, delta = 1.0, 500, 1e-5
    printed = 2 * epsilon * sqrt(2 * k * log(1 / delta))
    return {
        "printed": printed,
        "exact": float(optimal_composition(1, k, delta).epsilon),
        "δ at the printed ε": float(certified_delta(Claim(Fraction(1), Fraction(0)) * k, printed)),
        "left side of the hypothesis": sqrt(k) * expm1(epsilon),
        "right side of the hypothesis": sqrt(2 * log(1 / delta)),
    }


def largest_gaussian() -> Evidence:
    """Compute how often the printed bound fails, where it promises at most β = 0.05."""
    epsilon, delta, beta = 1.0, 1e-5, 0.05
    sigma = float(Gaussian.for_epsilon(epsilon, delta, 1, "classical-1.25").sigma)
    failure = {}
    for k in (1, 1000):
        printed = textbook_accuracy.gaussian_linf_bound_as_printed(1, epsilon, delta, k, beta)
        corrected = textbook_accuracy.gaussian_linf_bound(sigma, k, beta)
        failure[f"failure as printed, K = {k}"] = 1 - erf(printed / sigma / sqrt(2)) ** k
        failure[f"failure corrected, K = {k}"] = 1 - erf(corrected / sigma / sqrt(2)) ** k
    return failure


def classical_gaussian() -> Evidence:
    """Compute the exact δ of σ = √(2·ln(1.25/δ))/ε, where δ = 1e-5 is promised."""
    return {
        f"δ at ε = {epsilon}": float(gaussian_delta(epsilon / sqrt(2 * log(1.25 / 1e-5)), epsilon))
        for epsilon in (1, 10, 20)
    }


def touching_orders() -> Evidence:
    """Compute the k at which RDP of one order, classically converted, touches zCDP: α − 1 = √(ln(1/δ)/ρ), ρ = k/2σ²."""
    sigma, delta = 200, 1e-5
    seen = {}
    for order in (20, 60):
        k = 2 * sigma**2 * log(1 / delta) / (order - 1) ** 2
        rho = Fraction(k) / (2 * sigma**2)
        seen[f"k at α = {order}"] = k
        seen[f"gap there, α = {order}"] = epsilon_from_rdp_classic(order, order * rho, delta) - epsilon_from_zcdp_classic(
            rho, delta
        )
    return seen


def swapped_labels() -> Evidence:
    """Compute the norms of k = 25 counts that one person can all change."""
    sensitivity = counts(25)
    return {"ℓ1 of 25 counts": float(sensitivity.l1 or 0), "ℓ2 of 25 counts": float(sensitivity.l2)}


def ten_e_minus_five() -> Evidence:
    """Compute the value of the literal, and σ and the crossing with either δ."""
    return {
        "10e-5": 10e-5,
        "σ at 1e-4": float(Gaussian.for_epsilon(1, 1e-4, 1, "classical-1.25").sigma),
        "σ at 1e-5": float(Gaussian.for_epsilon(1, 1e-5, 1, "classical-1.25").sigma),
        "crossing at 1e-4": short_form_threshold(1e-4),
        "crossing at 1e-5": short_form_threshold(1e-5),
    }


def flipped_answer() -> Evidence:
    """Compute the share of "yes" where φ(x) = 1 and where it is 0; and the remainders of the appendix."""
    names = ["anna", "bob"] * 20_000
    answers = RandomizedResponse.for_epsilon(1, predicate=lambda name: name == "anna").release(names, seeded_bits(7))
    x = 1e-5
    return {
        "yes where φ(x) = 1": sum(answers[::2]) / 20_000,
        "yes where φ(x) = 0": sum(answers[1::2]) / 20_000,
        "1/(e^x − 1) − 1/x near 0": 1 / expm1(x) - 1 / x,
        "1/(1 − e^−x) − 1/x near 0": -1 / expm1(-x) - 1 / x,
    }


def pure_with_probability() -> Evidence:
    """Compute a pair that is (ε, δ)-private although its privacy loss exceeds ε with a probability far above δ."""
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    return {"P(loss > 1)": float(bad_set_mass(p, q, 1)), "least δ at ε = 1": hockey_stick(p, q, 1).upper}


def expected_largest() -> Evidence:
    """Compare E max of k Gaussian errors at ε = 1, δ = 1e-6 with the two forms: only one of the ratios is stable."""
    delta = 1e-6
    seen = {}
    for k in (10, 1000, 100_000):
        sigma = sqrt(k) * sqrt(2 * log(1.25 / delta))
        bound = textbook_accuracy.gaussian_expected_max(sigma, k)
        seen[f"bound ÷ √(k·ln k·ln 1/δ), k = {k}"] = bound / sqrt(k * log(k) * log(1 / delta))
        seen[f"bound ÷ √k·ln k·ln 1/δ, k = {k}"] = bound / (sqrt(k) * log(k) * log(1 / delta))
    return seen


_ALL = (
    Erratum(
        1, "N1", "214.59 is not a bound",
        "500 releases at ε = 1 cost 2ε√(2k·ln(1/δ)) = 214.59 at δ = 1e-5.",
        "that short form needs √k·(e^ε − 1) ≤ √(2·ln(1/δ)); 500 randomised responses cost exactly 311.77.",
        "The exact binomial curve of randomised response [KOV15]: at ε = 214.59 its δ is 0.78. "
        "`advanced_composition_short` refuses.",
        short_form,
    ),
    Erratum(
        2, "B2", "the largest of K Gaussian errors",
        "it stays below √(2·ln(1.25/δ)·ln(K/β))·Δ₂/ε with probability 1 − β.",
        "a √2 is missing, and a 2 in the logarithm: σ√(2·ln(2K/β)). As printed it fails with 0.083 at K = 1, 0.81 at 1,000.",
        "The distribution of the maximum is known: P(max ≤ x) = erf(x/σ√2)^K.",
        largest_gaussian,
    ),
    Erratum(
        3, "N1, B2", "the classical Gaussian needs ε ≤ 1",
        "σ = Δ₂√(2·ln(1.25/δ))/ε is (ε, δ)-private.",
        "only for ε ≤ 1. At ε = 10 its δ is 2.3e-5 where 1e-5 is promised, at ε = 20 it is 1.5e-3.",
        "The exact curve of the Gaussian [BW18, Thm 8]; rule=\"classical-1.25\" refuses ε > 1.",
        classical_gaussian,
    ),
    Erratum(
        4, "N2", "the order that touches zCDP",
        "α = 20 touches the zCDP line near k = 300 (σ = 200, δ = 1e-5); its noise plot uses δ for both parts.",
        "α = 60 does, at k = 265; α = 20 only at k = 2,551. The derivation above the noise plot has δ/2 and δ/2k.",
        "Both lines are closed forms; they touch where α − 1 = √(ln(1/δ)/ρ), and the gap there is 0.",
        touching_orders,
    ),
    Erratum(
        5, "L12", "ℓ1 and ℓ2 swapped",
        "k counts have ℓ1 sensitivity √k and ℓ2 sensitivity k.",
        "the other way round: ℓ1 = k, ℓ2 = √k.",
        "One person changes each of the k counts by one: the norms of (1, …, 1).",
        swapped_labels,
    ),
    Erratum(
        6, "N1", "10e-5 is 1e-4",
        "δ = 1e-5, and the code below it says 10e-5.",
        "10e-5 is 1e-4: its Gaussian has σ = 4.34 instead of 4.84, and its lines cross at k = 8·ln(1/δ) = 73.7, not 92.1.",
        "By arithmetic.",
        ten_e_minus_five,
    ),
    Erratum(
        7, "S4", "the flipped answer, and an appendix",
        "a lie is φ(1 − x); 1/(e^x − 1) = 1/x + O(x²) and likewise 1/(1 − e^−x); e^x > 1 + x.",
        "a lie is 1 − φ(x); the remainders tend to −1/2 and +1/2, so they are O(1); and e^x = 1 + x at 0.",
        "x may be a name, for which 1 − x means nothing; the limits are computed below.",
        flipped_answer,
    ),
    Erratum(
        8, "N1", "(ε, δ) is not “pure with probability 1 − δ”",
        "with probability 1 − δ the ratio is within e^ε, and with probability δ it is not bounded.",
        "that is sufficient, not equivalent: the least δ is the hockey-stick divergence, below P(privacy loss > ε).",
        "Randomised response with truth 3/4 at ε = 1: the privacy loss exceeds 1 with probability 0.75, and δ = 0.07.",
        pure_with_probability,
    ),
    Erratum(
        9, "L12", "E max of the Gaussian mechanism",
        "it grows like √k·log k·log(1/δ)/ε.",
        "it grows like √(k·log k·log(1/δ))/ε: the root covers the logarithms too.",
        "σ√(2·ln 2k) bounds it, and its ratio to the corrected form stays within constants while the other falls to 0.",
        expected_largest,
    ),
)  # fmt: skip

ERRATA: Mapping[str, Erratum] = MappingProxyType({erratum.name: erratum for erratum in _ALL})
"""By name, erratum-1 to erratum-9."""
