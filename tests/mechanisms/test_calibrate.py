"""`calibrate`: the target is met, and a little less noise would miss it."""

from fractions import Fraction
from typing import Any

import pytest

import discreet
from discreet import BadParameter, DiscreteGaussian, Gaussian, Laplace, Sensitivity, calibrate
from discreet.events import Event, Subsampled

CASES = [
    (Gaussian, 1, 1000, None),
    (Gaussian, Sensitivity(l0=4, linf=1), 1, None),
    (Gaussian, 1, 2000, Fraction(1, 100)),
    (Laplace, 1, 1000, None),
    (Laplace, Sensitivity(l0=3, linf=2), 10, None),
    (DiscreteGaussian, 1, 100, None),
]


@pytest.mark.parametrize(("kind", "sensitivity", "times", "rate"), CASES)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (8, 1e-5)])
def test_meets_its_target_and_no_more(kind, sensitivity, times: int, rate, epsilon: float, delta: float) -> None:  # type: ignore[no-untyped-def]
    m = calibrate(kind, sensitivity=sensitivity, epsilon=epsilon, delta=delta, times=times, rate=rate)

    def cost(mechanism: Laplace | Gaussian | DiscreteGaussian) -> float:
        once: Event = mechanism.event(sensitivity)
        return float(discreet.epsilon((once if rate is None else Subsampled(once, rate)) * times, delta))

    scale = m.scale if isinstance(m, Laplace) else m.sigma
    assert cost(m) <= epsilon
    assert cost(kind(scale * Fraction(99_999, 100_000))) > epsilon


def test_the_reference_value() -> None:
    sigma = float(calibrate(Gaussian, sensitivity=1, epsilon=1, delta=1e-6, times=1000).sigma)
    assert 133.596076731 <= sigma <= 133.596076731 * (1 + 2e-7)


def test_pure_laplace_needs_no_search() -> None:
    assert calibrate(Laplace, sensitivity=2, epsilon=Fraction(1, 2), times=3).scale == 12


@pytest.mark.parametrize("bad", [{"epsilon": 0}, {"delta": 1}, {"times": 0}, {"rate": 2}, {"sensitivity": -1}])
def test_bad_targets_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadParameter):
        calibrate(Gaussian, **({"sensitivity": 1, "epsilon": 1, "delta": 1e-6} | bad))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["gaussian", "laplace", Gaussian(1), int, None])
def test_a_kind_that_is_no_mechanism_with_a_scale_is_refused(kind: Any) -> None:
    with pytest.raises(BadParameter, match=r"kind is .* Give the class: Laplace, Gaussian or DiscreteGaussian"):
        calibrate(kind, sensitivity=1, epsilon=1, delta=1e-6)
