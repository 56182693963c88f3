"""DP-SGD as an event: what is rounded and how, and the ε of four known runs."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.accounting import training
from discreet.accounting.expression import parse, parse_with_notes
from discreet.accounting.training import Schedule, dpsgd, read_schedule
from discreet.errors import BadExpression, BadParameter
from discreet.events import Composition, Event, GaussianEvent, Group, Subsampled
from discreet.units import Neighbours, Sensitivity

RUNS = [
    ("256/60000", "1.1", 14100, 2.385121, 2.385122),
    ("1/100", "1", 10000, 6.187711, 6.187714),
    ("256/20000", "1", 780, 2.119330, 2.119332),
    ("4096/50000", "3", 2500, 6.578894, 6.578897),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "low", "high"), RUNS)
def test_the_certified_epsilon_of_known_runs(rate: str, sigma: str, steps: int, low: float, high: float):
    bounds = discreet.epsilon(dpsgd(sigma=sigma, rate=rate, steps=steps), 1e-5)
    assert low <= bounds.lower <= bounds.upper <= high


def test_the_event_is_a_repeated_poisson_sample_of_a_gaussian():
    once = Subsampled(GaussianEvent(Fraction(11, 10), Sensitivity(l2=1)), Fraction(256, 60_000))
    assert dpsgd(sigma=1.1, batch=256, n=60_000, epochs=60) == Composition(((once, 14_063),))
    assert dpsgd(sigma=2, rate=1, steps=3) == GaussianEvent(Fraction(2), Sensitivity(l2=1)) * 3  # full batches


def rounding_is_on_the_safe_side(read: Callable[..., Schedule], batch: int, n: int, epochs: Fraction) -> bool:
    """The rate is exact, and there are at least as many steps as asked for, and less than one more."""
    found = read(batch=batch, n=n, epochs=epochs)
    return found.rate == Fraction(batch, n) and epochs <= found.epochs < epochs + found.rate


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(0, 10**6), st.fractions(Fraction(1, 100), 100))
def test_the_rate_is_exact_and_steps_are_rounded_up(batch: int, more: int, epochs: Fraction):
    assert rounding_is_on_the_safe_side(read_schedule, batch, batch + more, epochs)


def test_a_floor_or_a_rounded_rate_would_be_noticed():
    def floored(*, batch: int, n: int, epochs: Fraction) -> Schedule:
        rate = Fraction(batch, n)
        return Schedule(rate, floor(epochs / rate))

    def by_batches(*, batch: int, n: int, epochs: Fraction) -> Schedule:
        batches = ceil(n / batch)
        return Schedule(Fraction(1, batches), ceil(epochs * batches))

    for mutant in (floored, by_batches):
        assert not rounding_is_on_the_safe_side(mutant, 256, 60_000, Fraction(60))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rate", {}),
        ("n", {"batch": 3}),
        ("batch", {"n": 3}),
        ("batch", {"batch": 4, "n": 3, "steps": 1}),
        ("batch", {"batch": 0, "n": 3, "steps": 1}),
        ("batch", {"batch": 1.5, "n": 3, "steps": 1}),
        ("batch", {"batch": 4, "rate": 0.1, "steps": 1}),
        ("n", {"n": 4, "rate": 0.1, "steps": 1}),
        ("rate", {"rate": 0, "steps": 1}),
        ("rate", {"rate": "11/10", "steps": 1}),
        ("rate", {"rate": "a tenth", "steps": 1}),
        ("epochs", {"rate": 0.1}),
        ("epochs", {"rate": 0.1, "epochs": -1}),
        ("epochs", {"rate": 1e-9, "epochs": 1e9}),
        ("steps", {"rate": 0.1, "steps": 0}),
        ("steps", {"rate": 0.1, "steps": 1.5}),
        ("steps", {"rate": 0.1, "steps": 5, "epochs": 1}),
        ("sigma", {"sigma": 0, "rate": 0.1, "steps": 1}),
        ("sigma", {"sigma": float("nan"), "rate": 0.1, "steps": 1}),
        ("neighbours", {"rate": 0.1, "steps": 1, "neighbours": "zero-out"}),
    ],
)
def test_a_refusal_names_the_parameter(name: str, given: dict[str, Any]):
    with pytest.raises(BadParameter) as refused:
        dpsgd(**{"sigma": 1, **given})
    assert refused.value.name == name


def test_a_float_is_read_as_it_is_written():
    assert dpsgd(sigma=1.1, rate=0.01, epochs=0.5) == dpsgd(sigma="1.1", rate="1/100", steps=50)


def test_replacing_a_record_is_a_group_of_two_not_the_same_curve():
    run: dict[str, Any] = {"sigma": 2, "rate": "1/10", "steps": 20}
    added, replaced = dpsgd(**run), dpsgd(**run, neighbours="replace")
    assert replaced == Group(added, 2) == dpsgd(**run, neighbours=Neighbours.REPLACE)
    assert discreet.epsilon(replaced, 1e-5).upper > discreet.epsilon(added, 1e-5).upper


def test_expressions_know_training_and_say_how_numbers_were_read():
    event, notes = parse_with_notes("2*dpsgd(sigma=1.1, batch=256, n=60000, epochs=60) + gaussian(sigma=3)")
    assert event == dpsgd(sigma=1.1, batch=256, n=60_000, epochs=60) * 2 + parse("gaussian(sigma=3)")
    assert notes == (
        "dpsgd: q = 8/1875 = 0.004267, T = 14,063 steps (60.0022 epochs), Poisson sampling; "
        "neighbours add or remove one record.",
    )
    assert parse_with_notes("gaussian(sigma=3)")[1] == ()
    assert parse("dpsgd(sigma=1, rate=1/100, steps=50)") == dpsgd(sigma=1, rate="1/100", steps=50)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dpsgd(batch=2, n=3, epochs=1)", "dpsgd needs sigma="),
        ("dpsgd(sigma=1, batch=2, epochs=1)", "n is missing"),
        ("dpsgd(sigma=1, batch=2.5, n=3, epochs=1)", "batch must be an integer"),
        ("dpsgd(sigma=1, batch=4, n=3, epochs=1)", "batch is 4: larger than n = 3"),
        ("dpsgd(sigma=1, rate=2, steps=1)", "rate is 2"),
        ("dpsgd(sigma=1, rate=1/2, steps=0)", "steps must be positive"),
        ("dpsgd(sigma=1, rate=1/2, epochs=0)", "epochs must be positive"),
        ("dpsgd(sigma=1, rate=1/2)", "epochs is missing"),
        ("dpsgd(sigma=1, rate=1/2, clip=1)", 'dpsgd takes no "clip"'),
    ],
)
def test_expressions_refuse_by_name(text: str, words: str):
    with pytest.raises(BadExpression, match="column") as refused:
        parse(text)
    assert words in str(refused.value)


def noise_is_in_units_of_the_clipping_norm(make: Callable[[Fraction, Schedule], Event]) -> bool:
    """Twice the steps cost more, and twice the noise less."""
    cost = [
        discreet.epsilon(make(Fraction(s), Schedule(Fraction(1, 10), t)), 1e-5).upper for s, t in ((1, 20), (1, 40), (2, 20))
    ]
    return cost[1] > cost[0] > cost[2]


def test_more_noise_costs_less_and_more_steps_cost_more():
    assert noise_is_in_units_of_the_clipping_norm(training.make_training_event)
    assert not noise_is_in_units_of_the_clipping_norm(
        lambda _, schedule: training.make_training_event(Fraction(1), schedule)
    )


def replaced_delta(rate: float, sigma: float, epsilon: float) -> float:
    """δ of one step between two data sets with opposite gradients in place of one record, by quadrature."""
    x, step = np.linspace(-12 * sigma, 12 * sigma, 200_001, retstep=True)
    density = [np.exp(-(((x - at) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi)) for at in (-1, 0, 1)]
    one, other = ((1 - rate) * density[1] + rate * density[i] for i in (0, 2))
    return float(np.clip(one - np.exp(epsilon) * other, 0, None).sum() * step)


POINTS = [(rate, sigma, epsilon) for rate in (0.1, 0.5) for sigma in (0.7, 2.0) for epsilon in (0.0, 0.05, 0.3, 1.0)]


def test_the_delta_of_a_replaced_record_covers_opposite_gradients():
    for rate, sigma, at in POINTS:
        event = dpsgd(sigma=sigma, rate=rate, steps=1, neighbours="replace")
        assert replaced_delta(rate, sigma, at) <= discreet.delta(event, at).upper * (1 + 1e-6)


def test_half_the_epsilon_without_the_factor_would_be_too_little():
    """Mutants: the curve of one record at the same ε, or at half of it."""
    for part in (1, 2):
        covered = [
            replaced_delta(rate, sigma, at)
            <= discreet.delta(dpsgd(sigma=sigma, rate=rate, steps=1), Fraction(at) / part).upper
            for rate, sigma, at in POINTS
        ]
        assert not all(covered)


def test_a_chain_of_neighbours_bounds_a_replaced_record_of_a_long_run():
    run: dict[str, Any] = {"sigma": 1.1, "batch": 256, "n": 60_000, "epochs": 60}
    one, two = (discreet.epsilon(dpsgd(**run, neighbours=name), 1e-5) for name in ("add-remove", "replace"))
    assert one.upper < two.upper < 2.4 * one.upper
    assert discreet.delta(dpsgd(**run, neighbours="replace"), two.upper).upper <= 1e-5
