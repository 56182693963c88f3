"""The quadratures behind samples, against mpmath at 22 and 30 digits."""

from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from discreet.accounting.contour import bound_delta_by_contour
from discreet.accounting.pld import Pld
from discreet.accounting.pld.sampled import SampledGaussianPld, SampledLaplacePld, SampledPld, bound_sampled_delta
from tests.support.rounds import pairs_by_day

S = np.array([0.0, 1.0, 25.0])


def compare(pld: Pld, c: float, moment: Callable[[mp.mpc], mp.mpc]) -> None:
    base = float(pld.cgf(np.array([c]))[0][0])
    found = pld.mgf_ratio(c, base, S)
    for i, s in enumerate(S):
        exact = moment(mp.mpc(c, s)) / mp.exp(mp.mpf(base))
        assert abs(mp.exp(mp.mpc(found.log[i])) - exact) <= found.error[i] <= 1e-10


@pytest.mark.parametrize(
    ("sample", "removed", "c"), pairs_by_day([(1.0, 0.01), (0.01, 0.3), (4.0, 0.9)], [True, False], [0.3, 6.0])
)
def test_the_sampled_gaussian(sample: tuple[float, float], removed: bool, c: float) -> None:
    mp.mp.dps = 22
    squared, rate = sample
    mu, q = mp.sqrt(squared), mp.mpf(rate)

    def moment(z: mp.mpc) -> mp.mpc:
        power = z + 1 if removed else -z
        reach = float(mu) * (c + 1) + 12
        return mp.quad(
            lambda y: mp.npdf(y) * (1 - q + q * mp.exp(mu * y - mu * mu / 2)) ** power, mp.linspace(-reach, reach, 25)
        )

    compare(SampledGaussianPld(Fraction(squared), Fraction(rate), removed), c, moment)


@pytest.mark.parametrize(
    ("sample", "removed", "c"), pairs_by_day([(1.0, 0.5), (0.25, 0.01), (5.0, 0.9)], [True, False], [0.3, 6.0])
)
def test_the_sampled_laplace(sample: tuple[float, float], removed: bool, c: float) -> None:
    mp.mp.dps = 30
    eps, rate = sample
    q, e = mp.mpf(rate), mp.mpf(eps)

    def moment(z: mp.mpc) -> mp.mpc:
        power = z + 1 if removed else -z

        def ratio(t: mp.mpf) -> mp.mpc:
            return (1 - q + q * mp.exp(t)) ** power

        middle = mp.quad(lambda t: mp.exp(-(t + e) / 2) / 4 * ratio(t), mp.linspace(-e, e, 33))
        return mp.exp(-e) / 2 * ratio(e) + ratio(-e) / 2 + middle

    compare(SampledLaplacePld(Fraction(eps), Fraction(rate), removed), c, moment)


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("kind", [SampledGaussianPld, SampledLaplacePld])
def test_one_sampled_event_by_closed_form_and_by_contour(kind: type[SampledPld], removed: bool) -> None:
    pld = kind(Fraction(1), Fraction(1, 5), removed)
    for eps in (0.0, 0.05, 0.15):
        closed, contour = bound_sampled_delta(pld, eps), bound_delta_by_contour([(pld, 1)], eps, 1e-3)
        assert contour[0] <= closed[1]
        assert closed[0] <= contour[1]
        assert closed[1] - closed[0] <= 1e-9 * closed[1]
