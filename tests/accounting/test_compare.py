"""Every guarantee against brute force: random small compositions of mechanisms with finitely many answers.

For the ε of a guarantee at δ, the true δ, summed over all joint answers of an actual neighbouring pair, must not exceed δ.
"""

from fractions import Fraction
from functools import reduce
from math import exp, inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.basic import basic_composition, split_delta
from discreet.accounting.conversions import (
    delta_from_rdp,
    epsilon_from_gdp,
    epsilon_from_rdp,
    epsilon_from_tcdp,
    epsilon_from_zcdp,
    epsilon_from_zcdp_classic,
)
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.events import Claim, Group, RandomizedResponseEvent, Subsampled, TruncatedGeometricEvent, compose
from discreet.units import to_sensitivity

rates = st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 2), Fraction(1, 10)])


@st.composite
def responses(draw):
    truth, choices = draw(st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=40)), draw(st.integers(2, 4))
    wrong = float((1 - truth) / (choices - 1))
    p, q = np.full(choices, wrong), np.full(choices, wrong)
    p[0] = q[1] = float(truth)
    return RandomizedResponseEvent(truth, choices), p, q


@st.composite
def geometrics(draw):
    scale, top = draw(st.fractions(Fraction(1, 2), Fraction(4), max_denominator=8)), draw(st.integers(3, 7))
    shift = draw(st.integers(1, 2))
    start = draw(st.integers(0, top - shift))
    rows = [clamped(x, float(scale), top) for x in (start, start + shift)]
    return TruncatedGeometricEvent(scale, 0, top, to_sensitivity(shift)), rows[1], rows[0]


@st.composite
def claims_with_delta(draw):
    epsilon, delta = (
        draw(st.fractions(0, 2, max_denominator=20)),
        draw(st.fractions(0, Fraction(1, 50), max_denominator=400)),
    )
    truth, d = exp(epsilon) / (1 + exp(epsilon)), float(delta)
    p, q = (1 - d) * np.array([truth, 1 - truth]), (1 - d) * np.array([1 - truth, truth])
    return Claim(epsilon, delta), np.array([d, 0, *p]), np.array([0, d, *q])


def clamped(x, scale, top):
    """The masses of x + discrete Laplace noise, clamped to [0, top]."""
    a = exp(-1 / scale)
    masses = np.array([a ** abs(k - x) * (1 - a) / (1 + a) for k in range(top + 1)])
    masses[0], masses[top] = a**x / (1 + a), a ** (top - x) / (1 + a)
    return masses


@st.composite
def compositions(draw, kinds):
    """A composition, and one pair of joint distributions that it must cover."""
    events, ps, qs = [], [], []
    for event, with_unit, without in draw(st.lists(kinds, min_size=1, max_size=3)):
        rate = draw(rates)
        events.append(event if rate == 1 else Subsampled(event, rate))
        ps.append((1 - float(rate)) * without + float(rate) * with_unit)
        qs.append(without)
    joint = [reduce(np.multiply.outer, pair).ravel() for pair in (ps, qs)]
    return compose(*events), joint[0], joint[1]


def spent(p, q, epsilon):
    """δ at ε, the worse of the two directions."""
    factor = exp(min(epsilon, 700))
    return max(np.maximum(0, a - factor * b).sum() for a, b in ((p, q), (q, p)))


def covered(p, q, epsilon, delta):
    return epsilon == inf or spent(p, q, epsilon) <= delta * (1 + 1e-9) + 1e-14


@given(composition=compositions(st.one_of(responses(), geometrics())), delta=st.sampled_from([1e-9, 1e-4, 0.02, 0.2]))
@settings(max_examples=35, deadline=None)
def test_guarantees_without_delta_cover_the_truth(composition, delta):
    event, p, q = composition
    assert covered(p, q, float(pure(event)), 0)
    rho = zcdp(event)
    assert covered(p, q, epsilon_from_zcdp(rho, delta), delta)
    assert covered(p, q, epsilon_from_zcdp_classic(rho, delta), delta)
    assert covered(p, q, epsilon_from_tcdp(tcdp(event, 2), 2, delta), delta)
    assert covered(p, q, epsilon_from_gdp(gdp(event), delta), delta)
    for order in (Fraction(5, 4), 2, 7, 40):
        divergence = renyi(event, order)
        assert covered(p, q, epsilon_from_rdp(order, divergence, delta), delta)
        assert spent(p, q, 0.3) <= delta_from_rdp(order, divergence, 0.3) * (1 + 1e-9) + 1e-14


@given(composition=compositions(st.one_of(responses(), claims_with_delta(), geometrics())))
@settings(max_examples=40, deadline=None)
def test_a_split_delta_covers_the_truth_in_every_currency(composition):
    """δ(ε) ≤ δ of the core + the δ beside it, for the basic point, zCDP and GDP: what the filters lean on."""
    event, p, q = composition
    point = basic_composition(event)
    assert covered(p, q, float(point.epsilon), float(point.delta))
    core, core_delta = split_delta(event)
    for delta in (1e-6, 0.05):
        total = delta + float(core_delta)
        assert covered(p, q, epsilon_from_zcdp(zcdp(core), delta), total)
        assert covered(p, q, epsilon_from_gdp(gdp(core), delta), total)


@given(
    scale=st.fractions(Fraction(1, 2), Fraction(3), max_denominator=6),
    size=st.integers(1, 3),
    delta=st.sampled_from([1e-6, 0.05]),
)
@settings(max_examples=15, deadline=None)
def test_groups_cover_the_truth(scale, size, delta):
    event = Group(TruncatedGeometricEvent(scale, 0, 8, to_sensitivity(1)), size)
    for start in range(9 - size):
        p, q = clamped(start, float(scale), 8), clamped(start + size, float(scale), 8)
        assert covered(p, q, float(pure(event)), 0)
        assert covered(p, q, epsilon_from_gdp(gdp(event), delta), delta)
        assert covered(p, q, epsilon_from_rdp(3, renyi(event, 3), delta), delta)


def test_a_forgotten_multiplicity_is_noticed():
    """Mutant of the composition rule."""
    truth = np.array([0.75, 0.25])
    p, q = (reduce(np.multiply.outer, [masses] * 6).ravel() for masses in (truth, truth[::-1]))
    once = RandomizedResponseEvent(Fraction(3, 4), 2)
    assert covered(p, q, epsilon_from_rdp(2, renyi(once * 6, 2), 1e-3), 1e-3)
    assert not covered(p, q, epsilon_from_rdp(2, renyi(once, 2), 1e-3), 1e-3)
