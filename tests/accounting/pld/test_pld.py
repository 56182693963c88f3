"""What every privacy-event distribution promises of its modulus, and what the error bounds assume of NumPy's and SciPy's
functions, measured against Arb: at most half of it is used up.
"""

from collections.abc import Callable
from math import pi

import numpy as np
import pytest
from flint import acb, arb
from scipy.special import erfcx, gammaln

from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld import EPS, SPECIAL_ERROR, Pld
from discreet.accounting.rewrite import list_alternatives
from tests.support.example_events import ZOO

every = pytest.mark.parametrize("name", ZOO)


@every
def test_what_distributions_promise_of_their_modulus(name: str) -> None:
    """`size` and `envelope` bound |M| at many points, and K is the logarithm of M on the axis."""
    s = np.linspace(0.3, 900.0, 4001)
    for choice in list_alternatives(ZOO[name]):
        for removed in (True, False):
            for pld, _ in build_direction(choice, removed=removed).parts:
                check_size(pld, s)


def check_size(pld: Pld, s: np.ndarray) -> None:
    for c in (0.4, 3.0, 17.0):
        base, error = (float(x[0]) for x in pld.cgf(np.array([c])))
        ratio = pld.mgf_ratio(c, base, s[s < 30] if "Sampled" in type(pld).__name__ else s)
        known = np.exp(ratio.log.real) - ratio.error  # |M|/M(c) is at least this
        fine = known > 1e-250
        points = s[: len(known)]
        assert (np.log(known[fine]) - error <= pld.modulus_bounds(c, points)[fine] + 1e-9).all()
        for start in (1.0, 10.0, 100.0):
            later = known[points >= start]
            if len(later):
                assert later.max() <= np.exp(pld.decay_bound(c, start) + error) * (1 + 1e-9)


MANY = 4000


def logs(low: float, high: float, seed: int) -> np.ndarray:
    """Numbers of every size between the two."""
    return np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), MANY))


def signed(x: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(x)) % 2, x, -x)


NEAR_ONE = 1 + signed(logs(1e-16, 0.5, 1))

TURNS = np.concatenate([np.arange(1, 500) * pi / 2, logs(1e-12, 1e7, 2)])  # sin and cos are smallest near the first ones

REAL: dict[str, tuple[Callable[..., np.ndarray], Callable[[arb], arb], np.ndarray]] = {
    "exp": (np.exp, lambda x: x.exp(), signed(logs(1e-12, 700, 3))),
    "log": (np.log, lambda x: x.log(), np.concatenate([NEAR_ONE, logs(1e-300, 1e300, 4)])),
    "log1p": (np.log1p, lambda x: x.log1p(), np.concatenate([logs(1e-300, 1e300, 5), -logs(1e-17, 0.999, 6)])),
    "expm1": (np.expm1, lambda x: x.expm1(), signed(logs(1e-17, 700, 7))),
    "sin": (np.sin, lambda x: x.sin(), TURNS),
    "cos": (np.cos, lambda x: x.cos(), TURNS),
}


@pytest.mark.parametrize("name", REAL)
def test_real_functions_keep_half_of_what_is_trusted(name: str) -> None:
    mine, exact, points = REAL[name]
    worst = max(_relative(value, exact(arb(x))) for x, value in zip(points.tolist(), mine(points).tolist(), strict=True))
    assert worst <= 2 * EPS


COMPLEX: dict[str, tuple[Callable[..., np.ndarray], Callable[[acb], acb]]] = {
    "exp": (np.exp, lambda z: z.exp()),
    "expm1": (np.expm1, lambda z: z.exp() - 1),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_exponentials_keep_half_of_what_is_trusted(name: str) -> None:
    mine, exact = COMPLEX[name]
    z = -logs(1e-9, 300, 8) + 1j * signed(logs(1e-9, 1e6, 9))
    for point, value in zip(z.tolist(), mine(z).tolist(), strict=True):
        truth = exact(acb(point.real, point.imag))
        assert float(abs(truth - acb(value.real, value.imag)).upper()) <= 2 * EPS * float(abs(truth).upper())


def test_the_complex_logarithm_keeps_half_of_what_is_trusted() -> None:
    """What is used is its exponential, so its absolute error counts, beside the rounding of its own size."""
    z = logs(1e-200, 1e10, 10) * np.exp(1j * np.random.default_rng(11).uniform(-pi, pi, MANY))
    for point, value in zip(z.tolist(), np.log(z).tolist(), strict=True):
        truth = acb(point.real, point.imag).log()
        assert float(abs(truth - acb(value.real, value.imag)).upper()) <= 2 * EPS * max(1.0, float(abs(truth).upper()))


def test_the_scaled_error_function_keeps_half_of_what_is_trusted() -> None:
    x = np.concatenate([logs(1e-12, 1e8, 12), np.linspace(0, 60, MANY)])  # a table of Chebyshev fits, then an expansion
    for point, value in zip(x.tolist(), erfcx(x).tolist(), strict=True):
        assert _relative(value, _erfcx(point)) <= SPECIAL_ERROR / 2


def _erfcx(x: float) -> arb:
    """e^{x²}·erfc(x); far out by U(1/2, 1/2, x²)/√π, which does not cancel."""
    ball = arb(x)
    return (ball * ball).exp() * ball.erfc() if x < 1e3 else (ball * ball).hypgeom_u(arb(0.5), arb(0.5)) / arb.pi().sqrt()


def test_the_logarithm_of_factorials_keeps_half_of_what_is_trusted() -> None:
    n = np.unique(np.concatenate([np.arange(1.0, 3000), np.floor(logs(3000, 2**20, 13))]))
    for point, value in zip(n.tolist(), gammaln(n).tolist(), strict=True):
        truth = arb(point).lgamma()
        assert value == 0 if point in (1, 2) else _relative(value, truth) <= SPECIAL_ERROR / 2


def _relative(value: float, truth: arb) -> float:
    return float((abs(arb(value) - truth) / abs(truth)).upper()) if value or truth != 0 else 0.0
