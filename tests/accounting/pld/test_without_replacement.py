"""Sampling without replacement against brute force: every sample, every answer, every pair of neighbours."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.accounting.basic import basic_composition
from discreet.accounting.curve import (
    bound_dominating_delta,
    bound_dominating_epsilon,
    delta,
    epsilon,
)
from discreet.accounting.pld import Floats, MgfRatio
from discreet.accounting.pld.gaussian import GaussianPld
from discreet.accounting.pld.laplace import LaplacePld
from discreet.accounting.pld.sampled import join_ratios
from discreet.accounting.pld.without_replacement import OffKinkPld, WithoutReplacementPld
from discreet.accounting.strategies import ContourCurve, KinkedCurve
from discreet.errors import BadParameter
from discreet.events import (
    NO_EVENT,
    Claim,
    Event,
    GaussianEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    subsample_without_replacement,
)
from discreet.units import to_sensitivity
from tests.support.every_event import EVERY
from tests.support.outcome_oracle import Outcomes, adaptive_delta, ball, composed, hockey_stick, response, sampled

EPSILONS = [Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)]


def answers(data: tuple[int, ...], m: int, truth: Fraction) -> list[Fraction]:
    """How many ones a sample of m holds, through randomised response among 0 … m."""
    masses, wrong = [Fraction(0)] * (m + 1), (1 - truth) / m
    samples = list(combinations(data, m))
    for sample in samples:
        for answer in range(m + 1):
            masses[answer] += (truth if answer == sum(sample) else wrong) / len(samples)
    return masses


def neighbours(n: int, m: int, truth: Fraction) -> list[Outcomes]:
    """The distributions of all pairs of data sets that differ in one unit's bit."""
    pairs = []
    for data in product((0, 1), repeat=n):
        for i in range(n):
            other = (*data[:i], 1 - data[i], *data[i + 1 :])
            p, q = answers(data, m, truth), answers(other, m, truth)
            pairs.append([(ball(a), ball(b)) for a, b in zip(p, q, strict=True)])
    return pairs


def covers(event: Event, pairs: list[Outcomes]) -> bool:
    claimed = {eps: delta(event, eps).upper for eps in EPSILONS}
    return not any(hockey_stick(pair, eps) > claimed[eps] for pair in pairs for eps in EPSILONS)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("truth", [Fraction(3, 4), Fraction(9, 10), Fraction(1)])
def test_the_curve_covers_every_pair_of_neighbours(n: int, m: int, truth: Fraction) -> None:
    event = SampledWithoutReplacement(
        RandomizedResponseEvent(truth, m + 1) if truth < 1 else Claim(Fraction(0), Fraction(1)), Fraction(m, n)
    )
    pairs = neighbours(n, m, truth)
    assert covers(event, pairs)
    twice = [composed([one, two]) for one in pairs[::5] for two in pairs[::3]]
    assert covers(event * 2, twice)


def test_the_curve_is_attained() -> None:
    """Otherwise covering would be easy: at m = 1 and everyone else alike, the worst pair is an actual one."""
    event, pairs = (
        SampledWithoutReplacement(RandomizedResponseEvent(Fraction(3, 4), 2), Fraction(1, 4)),
        neighbours(4, 1, Fraction(3, 4)),
    )
    for eps in EPSILONS[:3]:
        most = max(float(hockey_stick(pair, eps).mid()) for pair in pairs)
        assert delta(event, eps).lower <= most * (1 + 1e-9) + 1e-300


def test_a_rate_that_is_too_small_is_noticed() -> None:
    """Mutant: m/(n + 1) for m/n."""
    pairs = neighbours(4, 2, Fraction(9, 10))
    response = RandomizedResponseEvent(Fraction(9, 10), 3)
    assert covers(SampledWithoutReplacement(response, Fraction(1, 2)), pairs)
    assert not covers(SampledWithoutReplacement(response, Fraction(2, 5)), pairs)


def test_the_removed_direction_alone_is_too_little() -> None:
    """Mutant: composed, the pair of a Poisson sample for the unit that is removed does not cover the other one."""
    event, rate = RandomizedResponseEvent(Fraction(9, 10), 2), Fraction(1, 4)
    one = sampled(
        response(Fraction(9, 10), 2), rate
    )  # the output without the replaced unit is that of the one, or the other
    truth = adaptive_delta([one, [(q, p) for p, q in one]], 6, 0.5)
    assert truth <= delta(SampledWithoutReplacement(event, rate) * 6, Fraction(1, 2)).upper
    assert truth > delta(Subsampled(event, rate) * 6, Fraction(1, 2)).upper


@pytest.mark.parametrize("name", EVERY)
def test_properties_of_the_rate(name: str) -> None:
    event = EVERY[name]
    assert subsample_without_replacement(event, 1) == event
    assert subsample_without_replacement(event, 0) == NO_EVENT
    whole = epsilon(event, 1e-3, 1e-4)
    assert epsilon(SampledWithoutReplacement(event, Fraction(1)), 1e-3, 1e-4) == whole
    assert epsilon(SampledWithoutReplacement(event, Fraction(0)), 0).upper == 0
    assert epsilon(SampledWithoutReplacement(event, Fraction(1, 3)), 1e-3, 1e-4).lower <= whole.upper * (1 + 1e-12)


def test_a_share_of_a_claim_is_the_amplified_point() -> None:
    claim = SampledWithoutReplacement(Claim(Fraction(1), Fraction(1, 1000)), Fraction(1, 10))
    point = basic_composition(claim)
    assert point.delta == Fraction(1, 10000)
    assert abs(float(point.epsilon) - np.log1p(0.1 * np.expm1(1))) < 1e-12
    assert delta(claim, point.epsilon).upper <= 1e-4 * (1 + 1e-9)
    with pytest.raises(BadParameter):
        SampledWithoutReplacement(claim, Fraction(3, 2))


@pytest.mark.parametrize("inner", [GaussianPld(Fraction(1, 4)), GaussianPld(Fraction(4)), LaplacePld(Fraction(2))])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(9, 10)])
@pytest.mark.parametrize("c", [0.5, 3.0])
def test_the_quadrature_agrees_with_another(inner: GaussianPld | LaplacePld, rate: Fraction, c: float) -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    q = float(rate)

    def both(t: float) -> float:
        a = 1 - q + q * np.exp(t)
        return a ** (c + 1) + a**-c

    if isinstance(inner, GaussianPld):
        mu = float(inner.squared) ** 0.5
        inside = (quad(lambda t: norm.pdf(t, -mu * mu / 2, mu) * both(t), k * mu, (k + 2) * mu)[0] for k in range(0, 40, 2))
        total = sum(inside) + (1 - q) * (1 - 2 * norm.cdf(-mu / 2))
    else:
        e = float(inner.epsilon)
        total = quad(lambda t: np.exp(-(t + e) / 2) / 4 * both(t), 0, e)[0] + np.exp(-e) / 2 * both(e)
        total += (1 - q) * -np.expm1(-e / 2)
    assert abs(float(WithoutReplacementPld(inner, rate).cgf(np.array([c]))[0][0]) - np.log(total)) < 1e-9


def test_many_gaussian_shares_lie_between_their_neighbours() -> None:
    """Above the Poisson sample's removed pair, which is attained; below the event on everyone."""
    noise = GaussianEvent(Fraction(2), to_sensitivity(1))
    share = epsilon(SampledWithoutReplacement(noise, Fraction(1, 10)) * 50, 1e-5)
    assert share.width <= 0.1 * share.upper
    assert share.upper < 0.5 * epsilon(noise * 50, 1e-5).lower
    assert share.upper >= epsilon(Subsampled(noise, Fraction(1, 10)) * 50, 1e-5).lower
    mixed = compose(SampledWithoutReplacement(compose(noise, EVERY["laplace"]), Fraction(1, 2)), EVERY["response"])
    assert (
        0
        < epsilon(mixed, 1e-5).lower
        <= epsilon(mixed, 1e-5).upper
        < epsilon(compose(noise, EVERY["laplace"], EVERY["response"]), 1e-5).upper * 1.001
    )


@pytest.mark.parametrize(
    ("squared", "rate"), [(Fraction(1), Fraction(1, 10)), (Fraction(2), Fraction(1, 3)), (Fraction(1), Fraction(1, 2))]
)
@pytest.mark.parametrize("c", [0.2, 0.5, 1.0])
def test_far_out_the_kink_alone_is_within_its_error(squared: Fraction, rate: Fraction, c: float) -> None:
    """Against the lists, which are exact there; mutants: without V/s, and with a kink that is off by a tenth."""
    pld = WithoutReplacementPld(GaussianPld(squared), rate)
    base = float(pld.cgf(np.array([c]))[0][0])
    s = np.linspace(1600.0, 9000.0, 41)
    beyond = np.append(s, 1e5)  # out of reach of the lists
    assert pld._find_far(c, beyond) == 0
    assert pld._find_far(c, s) == len(s)
    seen, truth = pld.mgf_ratio(c, base, beyond), join_ratios(pld._atoms, c, base, s)
    seen = MgfRatio(seen.log[:-1], seen.error[:-1])
    gap = np.abs(np.exp(seen.log) - np.exp(truth.log))
    assert (gap <= seen.error + truth.error).all()
    assert (seen.error < 0.05 * np.abs(np.exp(seen.log))).all()
    assert (gap > truth.error + 1e-13).any()
    assert (np.abs(1.1 * np.exp(seen.log) - np.exp(truth.log)) > seen.error + truth.error).all()


# Several rounds of Gaussian noise against an integral over the first round's losses.


class Rounds:
    """δ of the pair (A, B), by integration in doubles: the curve of one round is the Gaussian's, moved."""

    def __init__(self, sigma: float, rate: float) -> None:
        self.mu, self.rate = 1 / sigma, rate
        self.kink = (1 - rate) * (2 * ndtr(self.mu / 2) - 1)
        self.points, self.weights = np.polynomial.legendre.leggauss(160)

    def once(self, x: Floats) -> Floats:
        """δ of one round at ε = x ≥ 0."""
        t = np.log1p(np.expm1(x) / self.rate)
        mu = self.mu
        return np.asarray(self.rate * (ndtr(mu / 2 - t / mu) - np.exp(t) * ndtr(-mu / 2 - t / mu)))

    def both_sides(self, curve: Callable[[Floats], Floats], x: Floats) -> Floats:
        """The same at any x: A and B may be swapped."""
        known = curve(np.abs(x))
        return np.where(x >= 0, known, -np.expm1(x) + np.exp(x) * known)

    def another(self, curve: Callable[[Floats], Floats], x: Floats) -> Floats:
        """δ of one round more at ε = x ≥ 0, from its losses ±ln(1 − q + q·e^t) and 0."""
        turn = np.log1p(np.expm1(x) / self.rate)  # where the loss of one round is x
        top = np.maximum(turn, 0) + 12 * self.mu + 1 + self.mu**2
        total = self.kink * curve(x)
        for low, high in ((np.zeros_like(x), turn), (turn, top)):
            half = (high - low)[:, None] / 2
            t = low[:, None] + half * (1 + self.points)
            mass = half * self.weights * np.exp(-((t / self.mu + self.mu / 2) ** 2) / 2) / self.mu / np.sqrt(2 * np.pi)
            loss = np.log1p(self.rate * np.expm1(t))
            for sign, share in ((-1, np.exp(loss)), (1, 1.0)):
                at = x[:, None] + sign * loss
                total = total + (mass * share * self.both_sides(lambda y: curve(y.ravel()).reshape(y.shape), at)).sum(axis=1)
        return np.asarray(total)

    def delta(self, times: int, x: float) -> float:
        found = self.once
        for _ in range(times - 1):
            found = (lambda before: lambda y: self.another(before, y))(found)
        return float(found(np.array([x]))[0])


FEW = [
    (Fraction(1), Fraction(1, 10)),
    (Fraction(2), Fraction(1, 2)),
    (Fraction(1, 2), Fraction(1, 50)),
    (Fraction(3), Fraction(9, 10)),
]


@pytest.mark.parametrize(("sigma", "rate"), FEW)
@pytest.mark.parametrize("times", [2, 3])
def test_a_few_rounds_of_gaussian_noise_against_an_integral(sigma: Fraction, rate: Fraction, times: int) -> None:
    """Mutants: an outcome with one round off the kink counted once and not `times` times, or not at all."""
    pld = WithoutReplacementPld(GaussianPld(1 / sigma**2), rate)
    curve, width = KinkedCurve.match(((pld, times),)), 1e-6 if rate >= Fraction(1, 10) else 1e-5
    assert curve is not None
    for eps in (0.0, 0.1, 0.7):
        truth = Rounds(float(sigma), float(rate)).delta(times, eps)
        if truth < 1e-9:
            continue
        low, high = curve.bound_delta(eps)
        assert low <= truth * (1 + 1e-10)
        assert truth <= high * (1 + 1e-10)
        assert high - low <= width * high
        one = curve.bound_single(eps)
        for counted in (0, 1):
            assert high - (1 - counted / times) * one[0] < truth
        found = curve.bound_epsilon(truth, 1e-6, (0.0, 0.0)) if eps > 0 else (0.0, 0.0)
        assert found[0] <= eps * (1 + 1e-8)
        assert eps <= found[1] * (1 + 1e-8)
        assert found[1] - found[0] <= width * found[1]


def test_a_few_rounds_of_gaussian_noise_are_narrow() -> None:
    """Kinks were smoothed before, and a few rounds of them had widths of 5e-5."""
    few = SampledWithoutReplacement(GaussianEvent(Fraction(1), to_sensitivity(1)), Fraction(1, 10))
    intervals = [
        bound_dominating_delta(few * 3, 1),
        bound_dominating_delta(few * 3, 0),
        bound_dominating_epsilon(few * 10, 1e-6),
    ]
    for found in intervals:
        assert found is not None
        assert found.upper - found.lower <= 6e-7 * found.upper


@pytest.mark.parametrize("times", [2, 40])
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(4)])
def test_rounds_off_the_kink_agree_with_all_on_a_contour(sigma: Fraction, times: int) -> None:
    for rate in (Fraction(1, 5), Fraction(99, 100)):
        pld = WithoutReplacementPld(GaussianPld(1 / sigma**2), rate)
        one, other = KinkedCurve(pld, times), ContourCurve(((pld, times),))
        for eps in (0.0, 0.3, 2.0):
            found, known = one.bound_delta(eps, 1e-3), other.bound_delta(eps, 1e-3)
            assert found[0] <= known[1]
            assert known[0] <= found[1]
        found, known = one.bound_epsilon(1e-3, 1e-3, (0.0, 0.0)), other.bound_epsilon(1e-3, 1e-3, (0.0, 0.0))
        assert found[0] <= known[1]
        assert known[0] <= found[1]


@pytest.mark.parametrize(("sigma", "rate"), FEW)
@pytest.mark.parametrize("c", [0.3, 2.0, 6.0])
def test_off_the_kink_are_all_rounds_without_those_at_it(sigma: Fraction, rate: Fraction, c: float) -> None:
    """Against powers of all of M; where they cancel they say less. Mutant: without what one round off the kink has."""
    pld, times = WithoutReplacementPld(GaussianPld(1 / sigma**2), rate), 4
    off = OffKinkPld(pld, times)
    (value,), (base,) = pld.cgf(np.array([c]))[0], off.cgf(np.array([c]))[0]
    s = np.concatenate([np.arange(0.0, 60.0, 0.73), np.arange(60.0, 1500.0, 37.3)])
    seen, all_of_it = off.mgf_ratio(c, float(base), s), pld.mgf_ratio(c, float(value), s)
    m, kink, scale = np.exp(all_of_it.log), np.exp(off.log_kink - value), np.exp(base - times * value)
    truth = m**times - kink**times - times * kink ** (times - 1) * (m - kink)
    rough = 2 * times**2 * (all_of_it.error + 1e-14)
    found, error = np.exp(seen.log) * scale, seen.error * scale
    assert (np.abs(found - truth) <= error + rough).all()
    assert (seen.error < 1e-6).all()
    assert abs(found[0] - scale) <= 1e-10 * scale
    mutant = m**times - kink**times
    assert c > 1 or (np.abs(found - mutant) > error + rough).any()
