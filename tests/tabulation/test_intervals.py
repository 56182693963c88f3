"""Intervals cover what they say with the noise that is drawn, and the variances are those of that noise.

Coverage is simulated with the weights of the dense oracle. If intervals cover as often as they say, a count of hits is too
low with probability at most 1e-12; about 200 are looked at, so a false alarm has a probability below 1e-9.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import erf, exp, fsum, inf, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from discreet.errors import BadParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian
from discreet.tabulation import intervals as module
from discreet.tabulation.intervals import (
    CountNoise,
    ErrorModel,
    choose_noise,
    find_ends,
    find_reliable,
    half_width,
    miss_probability,
    noise_variance,
    sigma_for_variance,
)
from discreet.tabulation.margins import Margin
from discreet.tabulation.residuals import combine, squared_weights
from discreet.testing import seeded_bits
from tests.support.dense_tables import Dense, draw_case

SIGMAS = [Fraction(n, 10) for n in (3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 75)]
FALSE_ALARM = 1e-12
RUNS = 4000


# -- variances of integer noise --------------------------------------------------------------------------------------------


def sum_variance(noise: CountNoise) -> float:
    """The variance, summed over the integers with the probability of each."""
    sigma = float(noise.sigma)
    last = int(12 * sigma) + 12
    if isinstance(noise, DiscreteGaussian):
        weights = [exp(-((k / sigma) ** 2) / 2) for k in range(-last, last + 1)]
    else:
        weights = [(erf((k + 0.5) / sigma / sqrt(2)) - erf((k - 0.5) / sigma / sqrt(2))) / 2 for k in range(-last, last + 1)]
    return fsum(k**2 * w for k, w in zip(range(-last, last + 1), weights, strict=True)) / fsum(weights)


def check_variances() -> None:
    for sigma in [*SIGMAS, Fraction(1, 4), Fraction(499, 1000), Fraction(501, 1000), Fraction(199, 10), Fraction(201, 10)]:
        for noise in (Gaussian(sigma), DiscreteGaussian(sigma)):
            bounds, exact = noise_variance(noise), sum_variance(noise)
            assert bounds.lower <= exact * (1 + 1e-12)
            assert bounds.upper >= exact * (1 - 1e-12)
            assert bounds.width <= 3e-9 * exact


def test_variances_are_those_of_the_integers_that_are_drawn() -> None:
    check_variances()


def test_the_discrete_variance_is_below_that_of_the_density_and_the_rounded_one_above() -> None:
    for sigma in SIGMAS[:8]:
        assert noise_variance(DiscreteGaussian(sigma)).lower < sigma**2
    for sigma in SIGMAS[6:]:
        assert noise_variance(Gaussian(sigma)).upper == pytest.approx(float(sigma**2) + 1 / 12, rel=1e-5)


def test_variances_of_the_density_alone_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = cache(lambda noise: module.Bounds(float(noise.sigma**2), float(noise.sigma**2)))
    monkeypatch.setitem(globals(), "noise_variance", mutant)
    with pytest.raises(AssertionError):
        check_variances()


@pytest.mark.parametrize("variance", [1e-9, 1e-3, 0.01, 0.3, 1, 2.5, 8.99, 9, 9.05, Fraction(109, 12), 9.1, 100, 1e9])
def test_a_wanted_variance_is_met_and_not_by_far(variance: Any) -> None:
    noise = choose_noise(sigma_for_variance(variance))
    assert noise_variance(noise).upper <= variance
    assert noise_variance(noise).upper >= 0.98 * float(variance)


# -- half-widths -----------------------------------------------------------------------------------------------------------

SIZES = (3, 4)
PLANS: dict[str, Mapping[Margin, Fraction]] = {
    f"sigma {float(sigma)}": {(0, 1): sigma, (0,): sigma * Fraction(3, 2), (1,): sigma, (): sigma / 2}
    for sigma in SIGMAS[:9]
}
KINDS: dict[str, Mapping[Margin, type[CountNoise]]] = {
    "rounded": dict.fromkeys([(0, 1), (0,), (1,), ()], Gaussian),
    "discrete": dict.fromkeys([(0, 1), (0,), (1,), ()], DiscreteGaussian),
    "mixed": {(0, 1): DiscreteGaussian, (0,): Gaussian, (1,): Gaussian, (): DiscreteGaussian},
}


def make_model(plan: str, kind: str) -> ErrorModel:
    return ErrorModel(SIZES, {margin: KINDS[kind][margin](sigma) for margin, sigma in PLANS[plan].items()})


@cache
def simulate_errors(plan: str, kind: str, margin: Margin) -> NDArray[Any]:
    """Errors of the first cell and of the difference between the first and last cells, one run per column."""
    model = make_model(plan, kind)
    rows = Dense(SIZES, model.variances).weights(margin)
    total = np.zeros((2, RUNS))
    for number, (each, matrix) in enumerate(rows.items()):
        zeros = np.zeros((matrix.shape[1], RUNS), np.int64)
        drawn = model.noises[each].release(zeros, seeded_bits(1000 * len(margin) + number))
        total += np.stack([matrix[0], matrix[0] - matrix[-1]]) @ drawn
    return total


def fewest_hits(confidence: float) -> int:
    """The number of hits below which an honest interval falls with probability at most 1e-12."""
    return int(binom.ppf(FALSE_ALARM, RUNS, confidence))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS)
def test_proven_half_widths_cover(plan: str, kind: str) -> None:
    model = make_model(plan, kind)
    for margin in ((0, 1), ()):
        errors = simulate_errors(plan, kind, margin)
        parts = model.parts(margin)
        for confidence in (0.5, 0.95, 0.99):
            width = parts.half_width(confidence)
            assert (abs(errors[0]) <= width).sum() >= fewest_hits(confidence)
            assert width >= parts.normal_half_width(confidence)
        if margin:
            contrast = np.zeros((3, 4))
            contrast[0, 0], contrast[-1, -1] = 1, -1
            width = model.question_parts(margin, contrast).half_width(0.95)
            assert (abs(errors[1]) <= width).sum() >= fewest_hits(0.95)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS)
def test_simulated_variances_are_those_of_the_model(plan: str, kind: str) -> None:
    errors, parts = simulate_errors(plan, kind, (0, 1))[0], make_model(plan, kind).parts((0, 1))
    deviation = sqrt(float(((errors**2 - parts.variance) ** 2).mean()) / RUNS)
    assert abs(float((errors**2).mean()) - parts.variance) <= 9 * deviation + 1e-9


def test_a_half_width_that_is_too_small_is_noticed() -> None:
    """Half of the proven width covers too little, so the simulation can tell."""
    errors, parts = simulate_errors("sigma 2.0", "discrete", (0, 1)), make_model("sigma 2.0", "discrete").parts((0, 1))
    assert (abs(errors[0]) <= parts.half_width(0.95) / 2).sum() < fewest_hits(0.95)


@pytest.mark.parametrize("seed", range(15))
def test_the_parts_of_the_noise_are_those_of_dense_weights(seed: int) -> None:
    case, rng = draw_case(seed), np.random.default_rng(seed)
    noises = {m: choose_noise(Fraction(int(rng.integers(3, 80)), 10)) for m in case.measured}
    model = ErrorModel(case.sizes, noises)
    dense = Dense(case.sizes, model.variances)
    for margin in case.wanted:
        question = rng.integers(-2, 3, size=[case.sizes[i] for i in margin])
        rows = {m: question.reshape(-1) @ matrix for m, matrix in dense.weights(margin).items()}
        check_parts(model.question_parts(margin, question), {m: float((row**2).sum()) for m, row in rows.items()}, noises)
        check_parts(model.parts(margin), dense.squared_weights(margin), noises)
        check_parts(model.parts(margin), squared_weights(case.sizes, model.variances, margin), noises)


def check_parts(parts: module.NoiseParts, squares: dict[Margin, float], noises: Mapping[Margin, CountNoise]) -> None:
    rounded = [m for m in noises if isinstance(noises[m], Gaussian)]
    proxy = {m: squares[m] * float(noises[m].sigma) ** 2 for m in noises}
    expected = [
        sum(squares[m] * noise_variance(noises[m]).upper for m in noises),
        sum(proxy[m] for m in rounded),
        sum(squares[m] for m in rounded),
        sum(proxy[m] for m in noises if m not in rounded),
    ]
    found = [parts.variance, parts.rounded_variance, parts.rounded_weights, parts.discrete_variance]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_half_widths_are_the_best_of_both_proofs() -> None:
    subgaussian = sqrt(2 * np.log(40))
    assert half_width((0.0, 0.0), 1.0, 0.95) == pytest.approx(subgaussian, rel=1e-8)
    assert half_width((0.01, 1.0), 0.0, 0.95) <= 0.6 * subgaussian * (1 + 1e-8)
    for sigma in (10, 20, 100):  # about 2% + 88%/σ above the normal width
        excess = half_width((sigma**2, 1.0), 0.0, 0.95) / (norm.ppf(0.975) * sigma) - 1
        assert 0 < excess < 0.02 + 0.9 / sigma
    assert half_width((0.0, 0.0), 0.0, 0.95) == 0


def test_half_widths_grow_with_everything() -> None:
    base = half_width((4.0, 0.5), 1.0, 0.95)
    for wider in (
        half_width((4.1, 0.5), 1.0, 0.95),
        half_width((4.0, 0.6), 1.0, 0.95),
        half_width((4.0, 0.5), 1.1, 0.95),
        half_width((4.0, 0.5), 1.0, 0.96),
        half_width((4.0, 0.5), 1.0, 0.95, 2),
    ):
        assert wider > base


def test_many_cells_share_the_probability_of_a_miss() -> None:
    assert miss_probability(0.95, 100) == pytest.approx(0.0005, rel=1e-12)
    assert miss_probability(0.95, 100) <= Fraction(5, 10**4)
    assert half_width((4.0, 0.5), 1.0, 0.95, 100) == pytest.approx(half_width((4.0, 0.5), 1.0, 0.9995), rel=1e-9)


@pytest.mark.parametrize("wrong", [((-1.0, 0.0), 0.0), ((0.0, inf), 0.0), ((0.0, 0.0), float("nan"))])
def test_wrong_sums_are_refused(wrong: Any) -> None:
    with pytest.raises(BadParameter):
        half_width(*wrong, 0.95)


# -- ends ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [0, 1, 5, 1000])
@pytest.mark.parametrize("sigma", ["0.5", "2", "5"])
def test_intervals_of_counts_cover_from_noise_to_ends(truth: int, sigma: str) -> None:
    """The whole road: noise, least squares, half-width, ends. 400 tables; of each the first cell, which are independent."""
    runs, width, exact = 400, Fraction(sigma), np.full(SIZES, truth)
    margins: list[Margin] = [(0, 1), (0,), ()]
    model = ErrorModel(SIZES, {m: choose_noise(width * (1 + len(m))) for m in margins})
    hits, parts = 0, model.parts((0, 1))
    for run in range(runs):
        bits = seeded_bits(run)
        tables = {m: exact.sum(axis=tuple(i for i in range(2) if i not in m)) for m in margins}
        noisy = {m: model.noises[m].release(np.asarray(tables[m]), bits) for m in margins}
        found = combine(SIZES, noisy, model.variances)
        lower, upper = find_ends(found.rebuild((0, 1)), parts.half_width(0.95), rounding_error=found.rounding_error((0, 1)))
        assert (lower <= upper).all()
        assert (lower >= 0).all()
        hits += int(lower[0, 0] <= truth <= upper[0, 0])
    assert hits >= binom.ppf(FALSE_ALARM, runs, 0.95)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_inward_and_cutting_lose_no_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    estimates = rng.normal(0, 30, size=1000)
    wide_lower, wide_upper = find_ends(estimates, 7.25, is_count=False)
    lower, upper = find_ends(estimates, 7.25)
    for truth in range(0, 60):
        inside = (wide_lower <= truth) & (truth <= wide_upper)
        assert ((lower <= truth) & (truth <= upper))[inside].all()
    assert (np.minimum(lower, upper) >= 0).all()
    assert (lower <= upper).all()


def test_other_questions_are_neither_rounded_nor_cut() -> None:
    lower, upper = find_ends(np.array([-4.0]), 1.5, is_count=False)
    assert lower[0] == pytest.approx(-5.5)
    assert upper[0] == pytest.approx(-2.5)
    assert lower[0] < -5.5
    assert upper[0] > -2.5


def test_ends_are_widened_before_they_are_rounded() -> None:
    lower, upper = find_ends(np.array([10.0]), 2.0)  # 8 and 12 lie on the ends, where doubles may err
    assert (lower[0], upper[0]) == (8, 12)
    lower, upper = find_ends(np.array([10.0]), 1.999, rounding_error=0.002)
    assert (lower[0], upper[0]) == (8, 12)


def test_reliable_counts_have_a_half_width_of_at_most_a_tenth() -> None:
    assert find_reliable(np.array([10.0, 9.99, -50.0]), 1.0).tolist() == [True, False, False]


def test_a_table_that_lies_in_no_measured_one_has_no_interval() -> None:
    model = ErrorModel((2, 3), {(0,): Gaussian(5)})
    with pytest.raises(BadParameter, match="no measured table contains these columns"):
        model.parts((0, 1))
    with pytest.raises(BadParameter, match="the table has shape"):
        model.question_parts((0,), np.zeros(3))
