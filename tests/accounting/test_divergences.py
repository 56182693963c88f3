"""Divergences between distributions, as intervals that must hold the truth."""

from fractions import Fraction
from math import inf, log

import mpmath as mp
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.divergences import (
    GaussianAt,
    LaplaceAt,
    hockey_stick,
    kl_divergence,
    max_divergence,
    renyi_divergence,
)
from discreet.accounting.textbook import bad_set_mass
from discreet.errors import BadParameter

weights = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=7).filter(
    lambda rows: any(a for a, _ in rows)
)


def normal(rows):
    total_p, total_q = sum(a for a, _ in rows), sum(b for _, b in rows)
    return [Fraction(a, total_p) for a, _ in rows], [Fraction(b, total_q) for _, b in rows]


def ball(fraction):
    return arb(fraction.numerator) / fraction.denominator


def inside(bounds, value):
    return bounds.lower <= value.upper() and value.lower() <= bounds.upper


@given(rows=weights, order=st.fractions(Fraction(11, 10), Fraction(30)), epsilon=st.fractions(0, 4))
@settings(max_examples=120, deadline=None)
def test_discrete_divergences_hold_the_arb_value(rows, order, epsilon):
    ctx.prec = 200
    p, q = normal(rows)
    pairs = [(ball(a), ball(b)) for a, b in zip(p, q, strict=True) if a]
    assert inside(kl_divergence(p, q), sum((a * (a / b).log() for a, b in pairs), arb(0)))
    moment = sum((a * ((a / b).log() * (ball(order) - 1)).exp() for a, b in pairs), arb(0))
    assert inside(renyi_divergence(p, q, order), moment.log() / (ball(order) - 1))
    stick = sum((a - ball(epsilon).exp() * b for a, b in pairs if a - ball(epsilon).exp() * b > 0), arb(0))
    assert inside(hockey_stick(p, q, epsilon), stick)
    assert inside(max_divergence(p, q), max(((a / b).log() for a, b in pairs), key=float))


@given(rows=weights, epsilon=st.fractions(0, 3))
@settings(max_examples=60, deadline=None)
def test_divergences_keep_their_order(rows, epsilon):
    p, q = normal(rows)
    two, five, most = renyi_divergence(p, q, 2), renyi_divergence(p, q, 5), max_divergence(p, q)
    assert kl_divergence(p, q).lower <= two.upper
    assert two.lower <= five.upper
    assert five.lower <= most.upper
    assert hockey_stick(p, q, epsilon).lower <= float(bad_set_mass(p, q, epsilon))


def test_erratum_8_pure_with_probability_one_minus_delta_is_sufficient_not_equivalent():
    p, q = {"a": Fraction(3, 4), "b": Fraction(1, 4)}, {"a": Fraction(1, 4), "b": Fraction(3, 4)}
    least, lemma = hockey_stick(p, q, 1), bad_set_mass(p, q, 1)
    assert lemma == Fraction(3, 4)
    assert least.upper < 0.08  # 3/4 − e/4: the pair is (1, 0.071)-private although its loss exceeds 1 three times in four


def test_dicts_and_floats_and_missing_outcomes():
    assert max_divergence({"x": 0.5, "y": 0.5}, {"x": 1.0}).lower == inf
    assert renyi_divergence([0.5, 0.5], [1.0, 0.0], 2).lower == inf == kl_divergence([0.5, 0.5], [1.0, 0.0]).lower
    assert hockey_stick([0.5, 0.5], [1.0, 0.0], 50).lower == 0.5
    assert hockey_stick([0.5, 0.5], [1.0, 0.0], 10**9).lower == 0.5
    assert renyi_divergence([0.5, 0.5], [0.5, 0.5], inf).upper < 1e-30


@pytest.mark.parametrize("bad", [[0.5, 0.6], [-0.1, 1.1], [float("nan"), 1.0], []])
def test_what_is_no_distribution_is_refused(bad):
    with pytest.raises(BadParameter):
        max_divergence(bad, bad)


def test_lengths_must_agree():
    with pytest.raises(BadParameter):
        kl_divergence([1], [Fraction(1, 2), Fraction(1, 2)])


@pytest.mark.parametrize("distance", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_named_distributions_hold_their_integrals(distance):
    p, q, d = LaplaceAt(0, 2), LaplaceAt(2 * distance, 2), mp.mpf(distance.numerator) / distance.denominator

    def density(x):
        return mp.e ** -abs(x) / 2

    def integral(f):
        return float(mp.quad(f, [-mp.inf, 0, d, mp.inf]))

    order = mp.mpf(3)
    moment = integral(lambda x: density(x) ** order * density(x - d) ** (1 - order))
    assert renyi_divergence(p, q, 3).upper == pytest.approx(log(moment) / 2, rel=1e-9)
    assert kl_divergence(p, q).lower == pytest.approx(
        integral(lambda x: density(x) * (abs(x - d) - abs(x))), rel=1e-9, abs=1e-12
    )
    epsilon = distance / 3
    turn = (d - d / 3) / 2
    stick = mp.quad(lambda x: density(x) - mp.e ** (d / 3) * density(x - d), [-mp.inf, 0, turn])
    assert hockey_stick(p, q, epsilon).upper == pytest.approx(float(stick), rel=1e-9)
    assert max_divergence(p, q).upper == float(distance)


def test_gaussians():
    p, q = GaussianAt(0, 2), GaussianAt(1, 2)
    assert max_divergence(p, q).lower == inf
    assert renyi_divergence(p, q, 4).upper == 0.5
    assert kl_divergence(p, q).upper == 0.125
    assert hockey_stick(p, q, Fraction(1, 4)).upper == pytest.approx(float(mp.ncdf(-0.25) - mp.exp(0.25) * mp.ncdf(-0.75)))
    assert max_divergence(p, p).upper == 0 == hockey_stick(p, p, 0).upper


def test_distributions_of_two_widths_are_refused():
    with pytest.raises(BadParameter):
        kl_divergence(GaussianAt(0, 1), GaussianAt(0, 2))
    with pytest.raises(BadParameter):
        kl_divergence(GaussianAt(0, 1), LaplaceAt(0, 1))
