"""What all additive mechanisms share: the forms of values, the grid of reals, the ends of int64, events and calibration."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import (
    BadParameter,
    BadValues,
    Binomial,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    Sensitivity,
    Threshold,
    TruncatedGeometric,
    pure,
    zcdp,
)
from discreet.mechanisms._additive_noise import default_grid
from discreet.testing import seeded_bits
from tests.support.scripted_bits import ConstantBits, ForbiddenBits

ADDITIVE = [Laplace(3), Gaussian(3), DiscreteGaussian(3), Binomial(20)]


REAL = [Laplace(3), Gaussian(3), DiscreteGaussian(3)]


COUNTING = [*ADDITIVE, TruncatedGeometric(3, -100, 100), Threshold(3, 10), OptimalPartitionSelection(1, 1e-6)]


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]


@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_integers_come_back_in_their_form(m) -> None:  # type: ignore[no-untyped-def]
    kind = bool if isinstance(m, Threshold | OptimalPartitionSelection) else int
    assert type(m.release(5)) is kind
    assert type(m.release(np.int64(5))) is kind
    assert [type(x) for x in m.release([5, 6])] == [kind, kind]
    assert np.shape(m.release([[1, 2], [3, 4]])) == (2, 2)
    assert m.release([]) == []
    assert m.release(np.zeros((0, 3), np.int64)).shape == (0, 3)
    for dtype in INTEGERS:
        out = m.release(np.full((2, 3), 7, dtype))
        assert out.shape == (2, 3)
        assert out.dtype == (np.bool_ if kind is bool else np.int64)


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_reals_come_back_in_their_form(m) -> None:  # type: ignore[no-untyped-def]
    assert type(m.release(5.5)) is float
    assert [type(x) for x in m.release([5.5, 6.0])] == [float, float]
    for dtype in (np.float16, np.float32, np.float64):
        out = m.release(np.full((2, 3), 7.25, dtype))
        assert out.shape == (2, 3)
        assert out.dtype == np.float64
    assert m.release(np.zeros((0,), np.float64)).shape == (0,)


BAD_VALUES = [
    float("nan"), float("inf"), [1.0, float("-inf")], np.array([np.nan]), True, [True, False], np.array([True]), "7", ["7"],
    b"7", None, [None], [1, 2.5], [1, "x"], [[1], [2, 3]], {"a": 1}, {1, 2}, object(), 1j, np.array([1j]),
    np.array(["a"]), np.array([1, None], dtype=object), np.array(["2020-01-01"], "datetime64[D]"), np.longdouble(1),
    [Fraction(1, 2), 1], [Decimal("NaN")], Decimal("Infinity"),
]  # fmt: skip


@pytest.mark.parametrize("values", BAD_VALUES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_bad_values_are_refused_before_any_noise_and_never_shown(m, values) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues) as caught:
        m.release(values, ForbiddenBits())
    assert "2.5" not in str(caught.value)


def test_the_message_never_holds_the_value() -> None:
    with pytest.raises(BadValues) as caught:
        Laplace(1).release(["hunter2", "s3cret"])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_a_masked_array_is_refused(m) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues):
        m.release(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]))


@pytest.mark.parametrize("m", ADDITIVE, ids=repr)
def test_nothing_wraps_and_nothing_raises_at_the_ends_of_int64(m) -> None:  # type: ignore[no-untyped-def]
    """The mutant, plain int64 addition, wraps to the other sign here."""
    top, bottom = 2**63 - 1, -(2**63)
    high, low = m.release(np.full(500, top)), m.release(np.full(500, bottom))
    assert (high > 2**62).all()
    assert (low < -(2**62)).all()
    with np.errstate(over="ignore"):
        assert (np.full(500, top) + np.arange(500) < 0).any()
    assert m.release(10**30) > 2**62
    assert m.release([-(10**30)])[0] < -(2**62)
    assert (m.release(np.full(9, 2**64 - 1, np.uint64)) > 2**62).all()


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_huge_and_tiny_reals_stay_finite(m) -> None:  # type: ignore[no-untyped-def]
    out = m.release(np.array([1.7e308, -1.7e308, 5e-324, 0.0, -0.0]))
    assert np.isfinite(out).all()
    assert np.isfinite(type(m)(Fraction(10**250)).release(np.array([1.7e308, 1.0]))).all()


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_reals_lie_on_the_grid_which_depends_on_the_scale_alone(m) -> None:  # type: ignore[no-untyped-def]
    step = float(m.grid)
    assert m.grid == default_grid(Fraction(3)) == Fraction(1, 2**19)
    for values in (np.array([0.1, 1 / 3, 1e6]), np.array([1e-9])):
        assert (m.release(values) % step == 0).all()
    assert (m.release(np.array([0.3, 7.7]), grid=0.25) % 0.25 == 0).all()


@pytest.mark.parametrize("scale", [2**20, 3 * 2**19, 2**21 - 1, 2**21, 2**19])
def test_no_scale_falls_on_the_grid_of_integers(scale: int) -> None:
    for m in (Laplace(scale), Gaussian(scale)):
        assert m.grid != 1
        assert isinstance(m.release(3.5), float)
        assert m.event(1, grid=m.grid).sensitivity.linf * m.grid >= 1


@pytest.mark.parametrize("m", REAL, ids=repr)
@pytest.mark.parametrize("grid", [1, 3, 0, -2, 0.3, float("nan")])
def test_bad_grids_are_refused(m, grid) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadParameter):
        m.release(1.5, grid=grid)


def test_integers_take_no_grid() -> None:
    with pytest.raises(BadParameter):
        Laplace(3).release(5, grid=0.5)


def test_the_same_bits_give_the_same_release_and_values_only_shift_it() -> None:
    for m in ADDITIVE:
        assert m.release([10, 20], seeded_bits(3)) == [x + 10 for x in m.release([0, 10], seeded_bits(3))]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.5, 2.0, 2.0**-19, 2.0**40, 2.0**-200, 2.0**300]))
def test_one_real_and_an_array_of_one_agree_bit_for_bit(x: float, grid: float) -> None:
    """Two independent ways to the same exact sum: integers of any size, and doubles that hold them."""
    m = Gaussian(Fraction(grid) * 1000)
    assert m.release(x, seeded_bits(8), grid=grid) == m.release(np.array([x]), seeded_bits(8), grid=grid)[0]


@settings(deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(-50, 50), st.sampled_from([0.5, 2.0, 2.0**-19, 0.25]))
def test_rounding_moves_neighbours_by_no_more_than_the_grown_sensitivity(x: float, change: float, grid: float) -> None:
    """⌊a + ½⌋ − ⌊b + ½⌋ ≤ ⌈|a − b|⌉, and the mutant, half to even, breaks it."""
    bits = seeded_bits(1)
    step, y = Fraction(grid), x + change
    a, b = (Fraction(Laplace(Fraction(1, 2**50) * step).release(v, bits, grid=grid)) / step for v in (x, y))
    distance = abs(Fraction(y) - Fraction(x)) or Fraction(1, 10**9)
    assert abs(a - b) <= Sensitivity(l0=1, linf=distance).to_grid(step).linf


def test_half_to_even_would_be_two_steps_apart() -> None:
    assert abs(np.rint(1.5) - np.rint(0.5)) == 2
    tiny = Laplace(Fraction(1, 2**50))
    assert abs(tiny.release(0.75, grid=0.5) - tiny.release(0.25, grid=0.5)) == 0.5


def test_noise_that_doubles_cannot_hold_takes_the_long_way() -> None:
    """At 2⁵⁰ grid steps a scale, some noise exceeds 2⁵³ steps; array and scalar must still agree on the exact sum."""
    m, grid, far = Laplace(2**49), 0.5, 0
    for word in (3, 2**40 + 1, 2**52 + 7, 2**62 + 5):  # small words are large noise
        one = m.release(1 / 3, ConstantBits(word), grid=grid)
        assert one == m.release(np.array([1 / 3]), ConstantBits(word), grid=grid)[0]
        far += abs(one) / grid > 2**53
    assert far >= 2


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_memory_beyond_the_answer_stays_under_64_mb(m) -> None:  # type: ignore[no-untyped-def]
    import tracemalloc

    for values in (np.zeros(3_000_000, np.int64), np.zeros(3_000_000)):
        tracemalloc.start()
        out = m.release(values)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak - out.nbytes < 64 << 20


def test_calibrating_for_integers_does_not_cover_reals() -> None:
    """Why `reals=True` is there: with many changed coordinates the grid is a large part of the cost."""
    sensitivity = Sensitivity(l0=10**6, l1=1)
    plain, calibrated = Laplace.for_epsilon(1, sensitivity), Laplace.for_epsilon(4, sensitivity, reals=True)
    assert pure(plain.event(sensitivity, grid=plain.grid)) > 1.9
    assert pure(calibrated.event(sensitivity, grid=calibrated.grid)) <= 4


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_the_grid_is_in_the_cost(m) -> None:  # type: ignore[no-untyped-def]
    integers, reals = m.event(1), m.event(1, grid=m.grid)
    assert reals.sensitivity.l1 * m.grid > 0
    guarantee = pure if isinstance(m, Laplace) else zcdp
    assert guarantee(integers) <= guarantee(reals) < guarantee(integers) * Fraction(1001, 1000)
    coarse = m.event(Fraction(3, 2), grid=1 / Fraction(1, 4) / 2)  # a grid of 2: ⌈1.5/2⌉ = 1 step
    assert coarse.sensitivity.linf == 1
    with pytest.raises(BadParameter, match="l0"):
        m.event(Sensitivity(l1=1), grid=0.5)


@pytest.mark.parametrize("kind", [Laplace, Gaussian, DiscreteGaussian])
def test_for_epsilon_on_reals_accounts_for_the_grid(kind) -> None:  # type: ignore[no-untyped-def]
    target = (Fraction(1, 2),) if kind is Laplace else (Fraction(1, 2), Fraction(1, 10**6))
    for sensitivity in (Fraction(1), Fraction(1, 3), Sensitivity(l0=50, linf=Fraction(1, 7)), Sensitivity(l0=1000, l1=1)):
        m, plain = kind.for_epsilon(*target, sensitivity, reals=True), kind.for_epsilon(*target, sensitivity)
        guarantee = pure if kind is Laplace else zcdp
        hair = 1 + Fraction(1, 2**90)  # √ is rounded up on both sides, not by the same amount
        assert guarantee(m.event(sensitivity, grid=m.grid)) <= guarantee(plain.event(sensitivity)) * hair
        assert guarantee(plain.event(sensitivity, grid=plain.grid)) >= guarantee(plain.event(sensitivity))
