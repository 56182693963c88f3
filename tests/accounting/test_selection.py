"""The best of K runs: the bounds hold for exact divergences of small jobs, and agree with an independent computation."""

from fractions import Fraction
from itertools import pairwise, permutations
from math import inf

import mpmath
import pytest

from discreet import Gaussian, Laplace, dpsgd, epsilon
from discreet.accounting.conversions import epsilon_from_rdp
from discreet.accounting.renyi import ORDERS
from discreet.accounting.selection import NegativeBinomialRuns, PoissonRuns, Runs, Selection
from discreet.errors import BadParameter
from discreet.events import RandomizedResponseEvent

RUNS: list[Runs] = [
    NegativeBinomialRuns(1, Fraction(1, 20)),
    NegativeBinomialRuns(0, Fraction(1, 20)),
    NegativeBinomialRuns(Fraction(-1, 2), Fraction(1, 50)),
    NegativeBinomialRuns(2, Fraction(1, 5)),
    PoissonRuns(Fraction(1, 4)),
    PoissonRuns(2),
    PoissonRuns(30),
]
JOBS = [(Fraction(1, 2), 3), (Fraction(9, 10), 2), (Fraction(1, 3), 4), (Fraction(49, 50), 5)]
TEST_ORDERS = (1.01, 1.5, 2, 4, 16, 64)


def generate(runs: Runs, t: mpmath.mpf) -> mpmath.mpf:
    """E[t^K], from the definition."""
    if isinstance(runs, PoissonRuns):
        return mpmath.exp(mpmath.mpf(runs.mean.numerator) / runs.mean.denominator * (t - 1))
    eta, gamma = mpmath.mpf(str(float(runs.eta))), mpmath.mpf(runs.gamma.numerator) / runs.gamma.denominator
    if eta == 0:
        return mpmath.log(1 - (1 - gamma) * t) / mpmath.log(gamma)
    return ((1 - (1 - gamma) * t) ** -eta - 1) / (gamma**-eta - 1)


def best_of_runs(runs: Runs, job: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """The distribution of the best output, worst first, with the default of K = 0 in front."""
    below = [mpmath.fsum(job[:i]) for i in range(len(job) + 1)]
    reached = [generate(runs, t) for t in below]
    return [reached[0], *(high - low for low, high in pairwise(reached))]


def divergence(order: float, p: list[mpmath.mpf], q: list[mpmath.mpf]) -> mpmath.mpf:
    total = mpmath.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True) if a > 0)
    return mpmath.log(total) / (order - 1)


def worst_divergence(runs: Runs, truth: Fraction, choices: int, order: float) -> float:
    """Over all values of the two neighbours, and so over all orders of the scores."""
    wrong = (1 - truth) / (choices - 1)
    laws = []
    for value in range(choices):
        shares = [truth if y == value else wrong for y in range(choices)]
        laws.append(best_of_runs(runs, [mpmath.mpf(x.numerator) / x.denominator for x in shares]))
    return float(max(divergence(order, p, q) for p, q in permutations(laws, 2)))


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_no_exact_divergence_exceeds_the_bound(runs: Runs):
    with mpmath.workdps(40):
        for truth, choices in JOBS:
            chosen = Selection(RandomizedResponseEvent(truth, choices), runs=runs)
            for order in TEST_ORDERS:
                assert worst_divergence(runs, truth, choices, order) <= chosen.renyi(order) * (1 + 1e-12)


def test_without_the_ratio_or_the_default_the_bound_fails():
    """Mutants: leaving out either is noticed."""
    with mpmath.workdps(40):
        geometric, job = NegativeBinomialRuns(1, Fraction(1, 20)), RandomizedResponseEvent(Fraction(9, 10), 2)
        same = {order: float(Selection(job, runs=geometric)._job_divergence(Fraction(order))) for order in (2, 16)}
        exact = worst_divergence(geometric, Fraction(9, 10), 2, 16)
        assert exact > same[16]  # the price of one run
        assert exact > same[16] + float(mpmath.log(20)) / 15  # without (1 + η)·ln(g'/g)
        few = PoissonRuns(Fraction(1, 4))
        assert float(mpmath.log(mpmath.mpf(1) / 4)) < 0 == divergence(2, [mpmath.mpf(1)], [mpmath.mpf(1)])
        assert Selection(Laplace(10**6).event(1), runs=few).renyi(2) >= 0


def independent_bound(runs: Runs, rho: mpmath.mpf, order: float, sigma: float) -> mpmath.mpf:
    """The two theorems for Gaussian noise of ρ = 1/2σ², written again, in 40 digits."""
    alpha, same = mpmath.mpf(order), mpmath.mpf(order) * rho
    if isinstance(runs, PoissonRuns):
        mean, hat = mpmath.mpf(float(runs.mean)), mpmath.log(1 + 1 / (alpha - 1))
        mu = 1 / mpmath.mpf(sigma)
        delta = mpmath.ncdf(mu / 2 - hat / mu) - mpmath.exp(hat) * mpmath.ncdf(-mu / 2 - hat / mu)
        return mpmath.log(mpmath.exp(-mean) + mean * mpmath.exp((alpha - 1) * (same + mean * delta))) / (alpha - 1)
    eta, gamma = mpmath.mpf(float(runs.eta)), mpmath.mpf(runs.gamma.numerator) / runs.gamma.denominator
    mean = mpmath.diff(lambda t: generate(runs, t), 1, direction=-1)
    tail = mpmath.log(1 / gamma)
    ratio = min([tail, *((1 - 1 / mpmath.mpf(b)) * b * rho + tail / b for b in ORDERS)])
    return same + (1 + eta) * ratio + mpmath.log(mean) / (alpha - 1)


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_the_bound_is_that_of_an_independent_computation(runs: Runs):
    with mpmath.workdps(40):
        for sigma in (2, 10):
            chosen = Selection(Gaussian(sigma).event(1), runs=runs)
            for order in TEST_ORDERS:
                expected = independent_bound(runs, mpmath.mpf(1) / (2 * sigma**2), order, sigma)
                assert float(expected) * (1 - 1e-9) <= chosen.renyi(order) <= float(expected) * (1 + 1e-5)


def test_the_epsilon_is_the_least_over_the_orders_and_above_that_of_one_run():
    job = dpsgd(sigma=4, rate="1/100", steps=200)
    for runs in (NegativeBinomialRuns(0, Fraction(1, 10)), PoissonRuns(5)):
        best = Selection(job, runs=runs).find_best_order(1e-6)
        assert best.epsilon == epsilon_from_rdp(best.order, Selection(job, runs=runs).renyi(best.order), 1e-6)
        assert best.epsilon > epsilon(job, 1e-6).upper


def test_candidates_cost_as_much_as_the_dearest_of_them():
    cheap, dear = Gaussian(10).event(1), Gaussian(3).event(1)
    for runs in (NegativeBinomialRuns(), PoissonRuns(4)):
        both = Selection(cheap, dear, runs=runs)
        assert both.renyi(4) == Selection(dear, cheap, runs=runs).renyi(4) == Selection(dear, runs=runs).renyi(4)
        assert both.renyi(4) > Selection(cheap, runs=runs).renyi(4)


def test_pure_jobs_cost_two_plus_eta_times_their_epsilon():
    job = Laplace(2).event(1)
    assert Selection(job, runs=NegativeBinomialRuns(1)).renyi(inf) == Fraction(3, 2)
    assert Selection(job, runs=NegativeBinomialRuns(0)).renyi(inf) == 1
    assert Selection(job, runs=PoissonRuns(3)).renyi(inf) == inf
    assert Selection(Gaussian(1).event(1), runs=NegativeBinomialRuns(1)).renyi(inf) == inf
    assert Selection(job, runs=NegativeBinomialRuns(1)).find_best_order(1e-12).epsilon <= 1.5


def test_a_claim_states_the_epsilon_at_delta():
    chosen = Selection(Gaussian(10).event(1), runs=PoissonRuns(10))
    claim = chosen.claim(1e-6)
    assert claim.delta == Fraction(1, 10**6)
    assert claim.epsilon == Fraction(chosen.find_best_order(Fraction(1, 10**6)).epsilon)


def test_the_mean_lies_between_its_bounds():
    for runs in RUNS:
        if isinstance(runs, NegativeBinomialRuns):
            with mpmath.workdps(60):
                mean = mpmath.diff(lambda t, runs=runs: generate(runs, t), 1, direction=-1)
                low, high = runs.mean_bounds
                assert float(low) * (1 - 1e-9) <= float(mean) <= float(high) * (1 + 1e-9)
                assert high - low < Fraction(1, 10**20)


def test_runs_are_drawn_and_zero_is_possible_for_poisson_only():
    assert min(PoissonRuns(Fraction(1, 4)).draw() for _ in range(40)) == 0
    assert min(NegativeBinomialRuns(0, Fraction(1, 2)).draw() for _ in range(40)) >= 1


def test_a_refusal_names_the_parameter():
    job = Gaussian(1).event(1)
    for name, call in (
        ("eta", lambda: NegativeBinomialRuns(-1)),
        ("gamma", lambda: NegativeBinomialRuns(1, 1)),
        ("mean", lambda: PoissonRuns(0)),
        ("events", lambda: Selection(runs=PoissonRuns(1))),
        ("runs", lambda: Selection(job, runs=3)),  # type: ignore[arg-type]
        ("order", lambda: Selection(job, runs=PoissonRuns(1)).renyi(1)),
        ("delta", lambda: Selection(job, runs=PoissonRuns(1)).claim(0)),
    ):
        with pytest.raises(BadParameter) as refused:
            call()
        assert refused.value.name == name
