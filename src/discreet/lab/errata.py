"""Where the five textbooks, and one accountant of others, are wrong, inconsistent, or omit a hypothesis: what they say, what
is true, and how we know.

A theorem whose hypothesis fails is not thereby false: the corrections say "proven for". `evidence()` computes the numbers
that prove a correction. To add an erratum, write a function that returns them and add an `Erratum` to the table at the end;
docs/facts.md gets a row.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import erf, erfc, expm1, log, sqrt
from types import MappingProxyType

from discreet._numbers import Number
from discreet.accounting.conversions import epsilon_from_rdp_classic, epsilon_from_zcdp_classic
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.divergences import GaussianAt, hockey_stick, max_divergence
from discreet.accounting.pld.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.textbook import advanced_composition, bad_set_mass, optimal_composition, short_form_threshold
from discreet.accounting.training import dpsgd
from discreet.events import Claim, LaplaceEvent
from discreet.mechanisms import Gaussian, RandomizedResponse, textbook_accuracy
from discreet.testing import seeded_bits
from discreet.units import counts, to_sensitivity

Evidence = dict[str, float]


@dataclass(frozen=True, slots=True)
class Erratum:
    """One mistake of one textbook or program, with the evidence."""

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
        """The line for the caption of a figure."""
        return f"Erratum {self.number} [{self.source}]: {self.title}."


def printed_short_form(epsilon: float, k: float, delta: float) -> float:
    """Return 2ε√(2k·ln(1/δ)) [N1], without its hypothesis; `advanced_composition_short` checks that."""
    return 2 * epsilon * sqrt(2 * k * log(1 / delta))


def short_form() -> Evidence:
    """Compute the short form where its hypothesis fails, and the exact cost of 500 releases of ε = 1.

    A ratio above 1 says that the short form is below the exact cost of k randomised responses.
    """
    epsilon, k, delta = 1.0, 500, 1e-5
    printed = printed_short_form(epsilon, k, delta)
    laplace = LaplaceEvent(Fraction(1), to_sensitivity(1))
    ratios = {
        f"exact ÷ printed, δ = {small:g}, k = {times}": float(optimal_composition(1, times, small).epsilon)
        / printed_short_form(1, times, small)
        for small, first in ((1e-4, 144), (1e-5, 176))
        for times in (first - 1, first)
    }
    return {
        "printed": printed,
        "exact, randomised response": float(optimal_composition(1, k, delta).epsilon),
        "certified, continuous Laplace": float(certified_epsilon(laplace * k, delta)),
        "δ at the printed ε": float(certified_delta(Claim(Fraction(1), Fraction(0)) * k, printed)),
        "left side of the hypothesis": sqrt(k) * expm1(epsilon),
        "right side of the hypothesis": sqrt(2 * log(1 / delta)),
        **ratios,
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
    """Compute the exact δ of σ = √(2·ln(1.25/δ))/ε, where δ = 1e-5 is promised, and the ε up to which it holds."""

    def exact_delta(epsilon: float) -> float:
        return float(gaussian_delta(epsilon / sqrt(2 * log(1.25 / 1e-5)), epsilon))

    low, high = 1.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(middle) <= 1e-5 else (low, middle)
    return {**{f"δ at ε = {epsilon}": exact_delta(epsilon) for epsilon in (1, 2, 10, 20)}, "δ is kept up to ε": low}


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
    """Compare E max of k Gaussian errors at ε = 1, δ = 1e-6 with three forms: only one of the ratios is stable."""
    delta = 1e-6
    seen = {}
    for k in (10, 1000, 100_000):
        sigma = sqrt(k) * sqrt(2 * log(1.25 / delta))
        bound = textbook_accuracy.gaussian_expected_max(sigma, k)
        seen[f"bound ÷ √(k·ln k·ln 1/δ), k = {k}"] = bound / sqrt(k * log(k) * log(1 / delta))
        seen[f"bound ÷ √k·ln k·ln 1/δ, k = {k}"] = bound / (sqrt(k) * log(k) * log(1 / delta))
        seen[f"bound ÷ √(k·ln k)·ln 1/δ, k = {k}"] = bound / (sqrt(k * log(k)) * log(1 / delta))
    return seen


def forgotten_deltas() -> Evidence:
    """Compute the printed line at k = 500, σ = 200, the δ at which it holds, and what holds at δ = 1e-5."""
    k, sigma, delta = 500, 200, 1e-5
    each = sqrt(2 * log(1.25 / delta)) / sigma
    split = delta / (2 * k)
    return {
        "printed": printed_short_form(each, k, delta),
        "δ at which it is proven": (k + 1) * delta,
        "the same form with δ split": printed_short_form(sqrt(2 * log(1.25 / split)) / sigma, k, delta / 2),
        "long form with δ split": float(
            advanced_composition(sqrt(2 * log(1.25 / split)) / sigma, k, delta / 2, split).epsilon
        ),
        "exact": float(certified_epsilon(Gaussian(sigma).event(1) * k, delta)),
    }


def sequential_to_vectorised(k: float, delta: float = 1e-5) -> float:
    """Return the ratio of the two variances of [N2]: 16k·ln(2/δ)·ln(2.5k/δ) to 2k·ln(1.25/δ)."""
    return 8 * log(2 / delta) * log(2.5 * k / delta) / log(1.25 / delta)


def growing_ratio() -> Evidence:
    """Compute how many times the variance of one vectorised query k queries need by the theorem, at δ = 1e-5."""
    return {f"ratio at k = {k:,}": sequential_to_vectorised(k) for k in (1, 100, 10**6)}


def infinite_divergence() -> Evidence:
    """Compute the max divergence of two Gaussians, and the probability that the privacy loss exceeds c·ε at ε = 1."""
    sigma = Gaussian.for_epsilon(1, 1e-5, 1, "classical-1.25").sigma
    pair = GaussianAt(1, sigma), GaussianAt(0, sigma)
    tails = {f"P(loss > {c}·ε)": float(bad_set_mass(*pair, c)) for c in (1, 2, 4)}
    return {"max divergence": max_divergence(*pair).upper, **tails}


def one_record_in_clear() -> Evidence:
    """Compute the least δ of name-and-shame at ε = 0 and ε = 1, by its outputs on ("ann", "bob") and ("ann", "cem")."""
    delta = Fraction(1, 100)
    one, other = (_shown("ann", name, delta) for name in ("bob", "cem"))
    return {
        "δ of the mechanism": float(delta),
        "least δ at ε = 0": hockey_stick(one, other, 0).upper,
        "least δ at ε = 1": hockey_stick(one, other, 1).upper,
    }


def _shown(first: str, second: str, delta: Fraction) -> dict[Hashable, Number]:
    """The probability of every output of name-and-shame on two records."""
    return {
        tuple(name for name, shown in zip((first, second), pattern, strict=True) if shown): (
            delta ** sum(pattern) * (1 - delta) ** (2 - sum(pattern))
        )
        for pattern in product((0, 1), repeat=2)
    }


def printed_bad_set() -> Evidence:
    """Compute the probability of [L12]'s bad set and of the one that its proof needs: Δ = ε = 1, δ = 1e-5."""
    log_term = log(2 / 1e-5)
    sigma = sqrt(2 * log_term)
    printed, needed = sqrt(2) * log_term, 2 * log_term - 0.5
    return {
        "printed threshold": printed,
        "P(|y| > printed)": erfc(printed / sigma / sqrt(2)),
        "needed threshold": needed,
        "P(|y| > needed)": erfc(needed / sigma / sqrt(2)),
        "privacy loss at the printed threshold": (2 * printed + 1) / (2 * sigma**2),
        "privacy loss at the needed threshold": (2 * needed + 1) / (2 * sigma**2),
    }


OPACUS_RUNS = (
    ("256/60000", "1.1", 14_100, 2.328),
    ("1/100", "1", 10_000, 6.007),
    ("256/20000", "1", 780, 1.854),
    ("4096/50000", "3", 2_500, 6.517),
)
"""Rate, noise multiplier, steps, and the ε at δ = 1e-5 that the `gdp` accountant of Opacus 1.6.0 printed."""


def central_limit_epsilon(rate: float, sigma: float, steps: int, delta: float) -> float:
    """Return the ε of one Gaussian of μ = q·√(T·(e^{1/σ²} − 1)): the limit of many steps [BDLS20, Cor. 4].

    >>> round(central_limit_epsilon(0.01, 1, 10_000, 1e-5), 3)
    6.007
    """
    return float(gaussian_epsilon(rate * sqrt(steps * expm1(sigma**-2)), delta))


def central_limit_training() -> Evidence:
    """Compute the ε of four training runs, and what the central limit theorem says in its place."""
    seen = {}
    for rate, sigma, steps, printed in OPACUS_RUNS:
        name = f"q = {rate}, σ = {sigma}, T = {steps:,}"
        bounds = certified_epsilon(dpsgd(sigma=sigma, rate=rate, steps=steps), Fraction(1, 10**5))
        seen[f"certified, at least, {name}"] = bounds.lower
        seen[f"central limit, {name}"] = central_limit_epsilon(float(Fraction(rate)), float(sigma), steps, 1e-5)
        seen[f"Opacus 1.6.0, gdp, {name}"] = printed
    return seen


_ALL = (
    Erratum(
        1, "N1", "214.59 is not a bound",
        "500 releases at ε = 1 cost 2ε√(2k·ln(1/δ)) = 214.59 at δ = 1e-5.",
        "500 randomised responses cost exactly 311.77, and 500 continuous Laplace answers 258.30. The short form is "
        "proven for "
        "√k·(e^ε − 1) ≤ √(2·ln(1/δ)). That is sufficient, not necessary: at ε = 1 it first fails at k = 176 (δ = 1e-5) "
        "or 144 "
        "(δ = 1e-4).",
        "The exact binomial curve of randomised response [KOV15]: at ε = 214.59 its δ is 0.78. "
        "`advanced_composition_short` refuses where the proof ends.",
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
        3, "N1, B2", "the classical Gaussian is proven for ε ≤ 1",
        "σ = Δ₂√(2·ln(1.25/δ))/ε is (ε, δ)-private, without a condition on ε.",
        "the theorem is proven for ε ≤ 1. At δ = 1e-5 the formula happens to hold up to ε = 8.42; at ε = 10 its δ is "
        "2.3e-5, "
        "at ε = 20 it is 1.5e-3.",
        "The exact curve of the Gaussian [BW18, Thm 8]; rule=\"classical-1.25\" refuses ε > 1, where nothing is proven.",
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
        9, "L12", "three summaries of one E max",
        "the Gaussian's E max is O(√k·log k·log(1/δ)/ε), and O(√(k·log k)·log(1/δ)/ε), beside “pay √log(1/δ)”.",
        "the tight order is √(k·log k·log(1/δ))/ε. A larger O is not false: the three summaries are inconsistent, not "
        "wrong.",
        "σ√(2·ln 2k) bounds it, and its ratio to the tight form stays within constants; to the other two it falls with k or "
        "with δ.",
        expected_largest,
    ),
    Erratum(
        10, "N2", "advanced composition forgets kδ",
        "k Gaussians, each (ε, δ)-private, cost 2ε√(2k·ln(1/δ)) at δ: 5.198 at k = 500, σ = 200, δ = 1e-5.",
        "the theorem adds kδ: that line is proven at δ + kδ = 5.01e-3. With δ split into δ/2 and δ/2k the long form gives "
        "ε = 3.846 at 1e-5.",
        "[DR14, Thm 3.20] has δ' + kδ; the exact cost is 0.385 at 1e-5.",
        forgotten_deltas,
    ),
    Erratum(
        11, "N2", "the two variances differ by a logarithm",
        "sequential and vectorised noise behave the same asymptotically in k.",
        "its own derivation has an extra log k: 103 times the variance at k = 1, 142 at 100, 218 at 10⁶.",
        "The ratio is 8·ln(2/δ)·ln(2.5k/δ)/ln(1.25/δ), which is not bounded in k.",
        growing_ratio,
    ),
    Erratum(
        12, "N1", "no c makes Gaussian noise cε-private",
        "the Gaussian mechanism fails with probability δ, and then satisfies cε-privacy for some c.",
        "its max divergence is infinite: no c exists, although large losses are improbable.",
        "The privacy loss is N(μ²/2, μ²), μ = Δ/σ, which exceeds every c·ε with positive probability.",
        infinite_divergence,
    ),
    Erratum(
        13, "L12", "name and shame is (0, δ)-private",
        "it is (ε/n, δ)-private (this may be an artefact of the scan).",
        "it is (0, δ)-private, which is stronger: no ε is needed.",
        "Two neighbours differ in one record, whose output differs with probability δ; the least δ at ε = 0 is δ.",
        one_record_in_clear,
    ),
    Erratum(
        14, "L12", "the bad set of the Gaussian's proof",
        "the bad set |y| > √2·Δ·log(2/δ)/ε has probability at most δ (the √2 may be an artefact of the scan).",
        "that set has probability 4.8e-4 at δ = 1e-5. The proof needs y > 2Δ·log(2/δ)/ε − Δ/2 only, which is rarer than δ.",
        "σ² = 2Δ²·log(2/δ)/ε², and the privacy loss (2yΔ + Δ²)/2σ² reaches ε at exactly that y.",
        printed_bad_set,
    ),
    Erratum(
        15, "Opacus", "the gdp accountant prints less than the ε",
        "the ε of DP-SGD is that of one Gaussian of μ = q·√(T·(e^{1/σ²} − 1)) (Opacus 1.6.0, accountant \"gdp\").",
        "that is the limit of infinitely many steps [BDLS20], not a bound: in four usual runs it is below the certified ε, "
        "by up to 12.5%. The accountants rdp and prv of the same package are above it.",
        "q = 256/20000, σ = 1, T = 780, δ = 1e-5: 1.854 is printed, and the certified interval begins at 2.1193.",
        central_limit_training,
    ),
)  # fmt: skip

ERRATA: Mapping[str, Erratum] = MappingProxyType({erratum.name: erratum for erratum in _ALL})
"""By name, erratum-1 to erratum-15."""
