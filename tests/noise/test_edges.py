"""Parameters at the edges, bad parameters, memory."""

import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discreet import BadParameter, noise

SAMPLERS = [noise.geometric, noise.discrete_laplace, noise.rounded_gaussian, noise.discrete_gaussian]


@pytest.mark.parametrize("draw", SAMPLERS)
@pytest.mark.parametrize(
    "scale", [0, -1, float("nan"), float("inf"), Decimal("NaN"), "1", True, None, 2**51, Fraction(1, 2**61)]
)
def test_bad_scales_are_refused(draw, scale) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadParameter):
        draw(scale, 1)


@pytest.mark.parametrize("draw", SAMPLERS)
@pytest.mark.parametrize("size", [-1, 1.0, True, "3"])
def test_bad_sizes_are_refused(draw, size) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadParameter):
        draw(1, size)


@pytest.mark.parametrize("draw", SAMPLERS)
def test_scales_from_2_to_the_minus_60_to_2_to_the_50(draw) -> None:  # type: ignore[no-untyped-def]
    assert (draw(Fraction(1, 2**60), 100) == 0).all()
    wide = draw(2**50, 400)
    assert 2**44 < np.abs(wide).mean() < 2**52


@pytest.mark.parametrize("draw", SAMPLERS)
@pytest.mark.parametrize("scale", [3, Fraction(3), Decimal(3), 3.0, np.float64(3), np.int64(3)])
def test_every_kind_of_number_is_taken_at_its_exact_value(draw, scale) -> None:  # type: ignore[no-untyped-def]
    from discreet.testing import seeded_bits

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


@pytest.mark.parametrize("draw", [*SAMPLERS, noise.binomial])
def test_memory_beyond_the_output_stays_under_64_mb(draw) -> None:  # type: ignore[no-untyped-def]
    parameter = 2**28 if draw is noise.binomial else 2000
    tracemalloc.start()
    out = draw(parameter, 3_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - out.nbytes < 64 << 20


def test_a_hopeless_candidate_never_wins_and_ties_are_fair() -> None:
    assert noise.select([0, 10**300], 1) == noise.select([0, 10**400], 1) == 1
    assert noise.select([Fraction(1, 10**400), 5], 10**9) == 1
    wins = sum(noise.select([1, 1], 1) for _ in range(2000))
    assert 700 < wins < 1300  # 13 standard deviations
