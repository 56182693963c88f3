"""All samplers at once: 10⁶ draws at 20 parameters fit their distribution and reject one that is 2% off; the enumerated bit
tree is exact; bad parameters are refused.
"""

import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import BadParameter, noise
from discreet.noise import fair_coins, gaussian, laplace, lattice_gaussian, table, uniform
from discreet.noise.bits import SYSTEM, Bits, LazyUniform, Workspace
from discreet.testing import seeded_bits
from tests.support.bit_tree import is_consistent, leaves, magnitude
from tests.support.distributions import (
    NOISES,
    SCALES,
    Sampler,
    binomial_cdf,
    coin_cdf,
    discrete_gaussian_cdf,
    discrete_laplace_cdf,
    geometric_cdf,
    uniform_cdf,
)
from tests.support.goodness_of_fit import edges_of, rejects
from tests.support.reference_samplers import slow_discrete_gaussian, slow_discrete_laplace

DRAWS = 10**6


WRONG = Fraction(51, 50)
WIDE = [
    Fraction((1 << 31) + 1), Fraction((1 << 34) + 1), Fraction(10**12, 7), Fraction(1 << 38), Fraction((1 << 42) + 1),
    Fraction(10**14, 3), Fraction(1 << 50), Fraction(2**58, 7), Fraction(1 << 56),
]  # fmt: skip


class ZeroShared:
    """Words of the system, but those that several draws share are zero: every second request of a thread."""

    tainted = True

    def __init__(self) -> None:
        self.requests = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.requests += 1
        return SYSTEM.words(count) * np.uint64(self.requests % 2)


def beyond(fill: Callable[[Fraction, NDArray[np.int64], Bits, Workspace], None]) -> Callable[..., NDArray[np.int64]]:
    """Return a sampler of scales that the public functions refuse, up to those that the proofs cover."""

    def draw(scale: Fraction, size: int, source: Bits = SYSTEM) -> NDArray[np.int64]:
        out = np.empty(size, np.int64)
        fill(scale, out, source, Workspace())
        return out

    return draw


BEYOND = {
    "geometric": beyond(laplace.fill_geometric),
    "discrete Laplace": beyond(laplace.fill_laplace),
    "rounded Gaussian": beyond(gaussian.fill_rounded),
    "discrete Gaussian": beyond(lattice_gaussian._fill_by_rejection),
}


@pytest.mark.parametrize("scale", SCALES, ids=float)
@pytest.mark.parametrize("sampler", NOISES, ids=lambda sampler: sampler.name)
def test_noise_has_its_distribution_and_no_other(sampler: Sampler, scale: Fraction) -> None:
    draws = sampler.draw(scale, DRAWS, None)
    edges = edges_of(sampler.spread(scale))
    assert not rejects(draws, sampler.cdf(scale), edges)
    if scale >= 1:
        assert rejects(draws, sampler.cdf(scale * WRONG), edges)
        assert rejects(draws, sampler.cdf(scale / WRONG), edges)


@pytest.mark.parametrize("scale", WIDE, ids=float)
@pytest.mark.parametrize("sampler", NOISES, ids=lambda sampler: sampler.name)
def test_wide_noise_has_its_distribution_and_no_other(sampler: Sampler, scale: Fraction) -> None:
    """Also in bits that are drawn apart from the others: at this width, all of the last 24 are uniform within 10^-4."""
    draws = sampler.draw(scale, DRAWS, None) if scale <= 1 << 50 else BEYOND[sampler.name](scale, DRAWS)
    edges = edges_of(sampler.spread(scale))
    assert not rejects(draws, sampler.cdf(scale), edges)
    assert rejects(draws, sampler.cdf(scale * WRONG), edges)
    assert rejects(draws, sampler.cdf(scale / WRONG), edges)
    assert not any(digits_reject(draws, shift) for shift in (0, 8, 16))


def digits_reject(draws: NDArray[np.int64], shift: int) -> bool:
    """Say whether eight bits of the draws are too unlikely to be uniform."""
    return rejects(draws >> shift & 255, uniform_cdf(Fraction(256)), list(range(255)))


def test_low_bits_that_are_not_uniform_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: further bits of U that are all zero; low bits of a geometric number of which one is never set."""
    sigma = Fraction(1 << 56)
    assert digits_reject(BEYOND["rounded Gaussian"](sigma, DRAWS, ZeroShared()), 0)
    original = laplace._draw_low_bits
    for lost in (1, 1 << 12):
        monkeypatch.setattr(laplace, "_draw_low_bits", lambda *args, lost=lost: original(*args) & ~lost)
        assert digits_reject(noise.geometric(1 << 40, DRAWS), 0 if lost == 1 else 8)


@pytest.mark.parametrize("sampler", NOISES[1:], ids=lambda sampler: sampler.name)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7), Fraction(1 << 20)], ids=float)
def test_successive_draws_and_low_bits_are_independent(sampler: Sampler, scale: Fraction) -> None:
    """The signs of two successive draws, and of draws half an array apart, agree as often as they differ."""
    draws = sampler.draw(scale, DRAWS, None)
    half = draws.size // 2
    for a, b in ((draws[::2], draws[1::2]), (draws[:half], draws[half:])):
        agree = np.count_nonzero((a > 0) & (b > 0)) + np.count_nonzero((a < 0) & (b < 0))
        differ = np.count_nonzero((a > 0) & (b < 0)) + np.count_nonzero((a < 0) & (b > 0))
        coins = np.repeat([1, 0], [agree, differ])
        assert not rejects(coins, coin_cdf(float)(Fraction(1, 2)), [-1, 0, 1])


def test_independent_slow_sampler_agrees() -> None:
    """Canonne–Kamath–Steinke's rational sampler, written from the paper, and ours: both fit, both reject a mutant."""
    scale = Fraction(7, 3)
    for slow, fast, cdf_at in (
        (slow_discrete_laplace, noise.discrete_laplace, discrete_laplace_cdf),
        (slow_discrete_gaussian, noise.discrete_gaussian, discrete_gaussian_cdf),
    ):
        for draws in (np.array([slow(scale) for _ in range(15_000)], np.int64), fast(scale, 15_000)):
            assert not rejects(draws, cdf_at(scale), edges_of(float(scale)))
            assert rejects(draws, cdf_at(scale * Fraction(6, 5)), edges_of(float(scale)))


DEPTH = 13


SCALE = Fraction(5, 2)


TREES: dict[str, tuple[Callable[[LazyUniform], int], Callable[[Fraction], Callable[[int], float]]]] = {
    "geometric": (lambda u: laplace.settle(u, SCALE, lambda p: 0), geometric_cdf),
    "discrete Laplace": (
        lambda u: laplace.settle(u, SCALE, partial(laplace._kappa, SCALE)),
        lambda s: magnitude(discrete_laplace_cdf(s)),
    ),
    "discrete Gaussian": (
        lambda u: table.settle(u, partial(lattice_gaussian.weights, SCALE**2)),
        lambda s: magnitude(discrete_gaussian_cdf(s)),
    ),
    "binomial": (
        lambda u: table.settle(u, partial(fair_coins.weights, 20)),
        lambda s: lambda k: binomial_cdf(Fraction(20))(10 + k) - binomial_cdf(Fraction(20))(9 - k) if k >= 0 else 0.0,
    ),
    "Bernoulli(1/3)": (
        lambda u: int(u.is_below(lambda p: ((1 << p) // 3, -(-(1 << p) // 3)))),
        lambda s: lambda k: (0.0, 1 - float(s) / 7.5, 1.0)[k + 1],
    ),
    "Bernoulli(e^-2.5)": (
        lambda u: int(u.is_below(partial(uniform.exp_bounds, SCALE))),
        lambda s: lambda k: (0.0, 1 - exp(-float(s)), 1.0)[k + 1],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_bit_tree(name: str) -> None:
    settle, cdf_at = TREES[name]
    outcomes, undecided = leaves(settle, DEPTH)
    assert undecided < 0.02
    assert is_consistent(outcomes, DEPTH, undecided, cdf_at(SCALE))
    if name != "binomial":
        assert not is_consistent(outcomes, DEPTH, undecided, cdf_at(SCALE * Fraction(6, 5)))


SCALED = [noise.geometric, noise.discrete_laplace, noise.rounded_gaussian, noise.discrete_gaussian]


@pytest.mark.parametrize("draw", SCALED)
@pytest.mark.parametrize(
    "scale", [0, -1, float("nan"), float("inf"), Decimal("NaN"), "1", True, None, 2**51, Fraction(1, 2**61)]
)
def test_bad_scales_are_refused(draw, scale) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadParameter):
        draw(scale, 1)


@pytest.mark.parametrize("draw", SCALED)
@pytest.mark.parametrize("size", [-1, 1.0, True, "3"])
def test_bad_sizes_are_refused(draw, size) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadParameter):
        draw(1, size)


@pytest.mark.parametrize("draw", SCALED)
def test_scales_from_2_to_the_minus_60_to_2_to_the_50(draw) -> None:  # type: ignore[no-untyped-def]
    assert (draw(Fraction(1, 2**60), 100) == 0).all()
    wide = draw(2**50, 400)
    assert 2**44 < np.abs(wide).mean() < 2**52


@pytest.mark.parametrize("draw", SCALED)
@pytest.mark.parametrize("scale", [3, Fraction(3), Decimal(3), 3.0, np.float64(3), np.int64(3)])
def test_every_kind_of_number_is_taken_at_its_exact_value(draw, scale) -> None:  # type: ignore[no-untyped-def]
    assert (draw(scale, 50, seeded_bits(4)) == draw(Fraction(3), 50, seeded_bits(4))).all()


def test_other_bad_parameters() -> None:
    for call in (
        lambda: noise.uniform_below(0, 1),
        lambda: noise.uniform_below(2**63 + 1, 1),
        lambda: noise.bernoulli(Fraction(3, 2), 1),
        lambda: noise.bernoulli(-0.1, 1),
        lambda: noise.bernoulli_exp(-1, 1),
        lambda: noise.binomial(-1, 1),
        lambda: noise.binomial(2**28 + 2, 1),
        lambda: noise.select([], 1),
        lambda: noise.select([1, float("nan")], 1),
        lambda: noise.select([1], 0),
    ):
        with pytest.raises(BadParameter):
            call()


@pytest.mark.parametrize("draw", [*SCALED, noise.binomial])
def test_memory_beyond_the_output_stays_under_64_mb(draw) -> None:  # type: ignore[no-untyped-def]
    parameter = 2**28 if draw is noise.binomial else 2000
    tracemalloc.start()
    out = draw(parameter, 3_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - out.nbytes < 64 << 20
