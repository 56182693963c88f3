"""One shape for all mechanisms: what goes in, what comes out, what is refused, and what it costs."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import (
    BadParameter,
    BadValues,
    Binomial,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    Sensitivity,
    Threshold,
    TruncatedGeometric,
    pure,
    zcdp,
)
from discreet.mechanisms._additive_noise import default_grid
from discreet.testing import seeded_bits

ADDITIVE = [Laplace(3), Gaussian(3), DiscreteGaussian(3), Binomial(20)]
REAL = [Laplace(3), Gaussian(3), DiscreteGaussian(3)]
COUNTING = [*ADDITIVE, TruncatedGeometric(3, -100, 100), Threshold(3, 10), OptimalPartitionSelection(1, 1e-6)]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]


@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_shapes_of_whole_numbers(m) -> None:  # type: ignore[no-untyped-def]
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
def test_shapes_of_reals(m) -> None:  # type: ignore[no-untyped-def]
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
    np.array(["a"]), np.array([1], dtype=object), np.array(["2020-01-01"], "datetime64[D]"), np.longdouble(1),
    Fraction(1, 2), [Fraction(1, 2)],
]  # fmt: skip


class Untouchable:
    tainted = True

    def words(self, count: int):  # type: ignore[no-untyped-def]
        raise AssertionError("noise was drawn for values that had to be refused")


@pytest.mark.parametrize("values", BAD_VALUES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_bad_values_are_refused_before_any_noise_and_never_shown(m, values) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues) as caught:
        m.release(values, Untouchable())
    assert "2.5" not in str(caught.value)


def test_the_message_never_holds_the_value() -> None:
    with pytest.raises(BadValues) as caught:
        Laplace(1).release(["hunter2", "s3cret"])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("m", ADDITIVE, ids=repr)
def test_nothing_wraps_and_nothing_raises_at_the_ends_of_int64(m) -> None:  # type: ignore[no-untyped-def]
    """The wrong twin, plain int64 addition, wraps to the other sign here."""
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
    """Two independent ways to the same exact sum: whole numbers of any size, and doubles that hold them."""
    m = Gaussian(Fraction(grid) * 1000)
    assert m.release(x, seeded_bits(8), grid=grid) == m.release(np.array([x]), seeded_bits(8), grid=grid)[0]


@settings(deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(-50, 50), st.sampled_from([0.5, 2.0, 2.0**-19, 0.25]))
def test_rounding_moves_neighbours_by_no_more_than_the_grown_sensitivity(x: float, change: float, grid: float) -> None:
    """⌊a + ½⌋ − ⌊b + ½⌋ ≤ ⌈|a − b|⌉, and the wrong twin, half to even, breaks it."""
    bits = seeded_bits(1)
    step, y = Fraction(grid), x + change
    a, b = (Fraction(Laplace(Fraction(1, 2**50) * step).release(v, bits, grid=grid)) / step for v in (x, y))
    moved = abs(Fraction(y) - Fraction(x)) or Fraction(1, 10**9)
    assert abs(a - b) <= Sensitivity(l0=1, linf=moved).to_grid(step).linf


class Repeated:
    tainted = True

    def __init__(self, word: int) -> None:
        self.word = word

    def words(self, count: int):  # type: ignore[no-untyped-def]
        return np.full(count, self.word, np.uint64)


def test_noise_that_doubles_cannot_hold_takes_the_long_way() -> None:
    """At 2⁵⁰ grid steps a scale, some noise exceeds 2⁵³ steps; array and scalar must still agree on the exact sum."""
    m, grid, far = Laplace(2**49), 0.5, 0
    for word in (3, 2**40 + 1, 2**52 + 7, 2**62 + 5):  # small words are large noise
        one = m.release(1 / 3, Repeated(word), grid=grid)
        assert one == m.release(np.array([1 / 3]), Repeated(word), grid=grid)[0]
        far += abs(one) / grid > 2**53
    assert far >= 2


@pytest.mark.parametrize("scale", [2**20, 3 * 2**19, 2**21 - 1, 2**21, 2**19])
def test_no_scale_falls_on_the_grid_of_whole_numbers(scale: int) -> None:
    for m in (Laplace(scale), Gaussian(scale)):
        assert m.grid != 1
        assert isinstance(m.release(3.5), float)
        assert m.event(1, grid=m.grid).sensitivity.linf * m.grid >= 1


@pytest.mark.parametrize("m", COUNTING, ids=repr)
def test_a_masked_array_is_refused(m) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues):
        m.release(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]))


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
    """Why `reals=True` is there: with many moved coordinates the grid is a large part of the price."""
    moved = Sensitivity(l0=10**6, l1=1)
    plain, paid = Laplace.for_epsilon(1, moved), Laplace.for_epsilon(4, moved, reals=True)
    assert pure(plain.event(moved, grid=plain.grid)) > 1.9
    assert pure(paid.event(moved, grid=paid.grid)) <= 4


def test_half_to_even_would_be_two_steps_apart() -> None:
    assert abs(np.rint(1.5) - np.rint(0.5)) == 2
    tiny = Laplace(Fraction(1, 2**50))
    assert abs(tiny.release(0.75, grid=0.5) - tiny.release(0.25, grid=0.5)) == 0.5


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_the_grid_is_in_the_price(m) -> None:  # type: ignore[no-untyped-def]
    whole, real = m.event(1), m.event(1, grid=m.grid)
    assert real.sensitivity.l1 * m.grid > 0
    reading = pure if isinstance(m, Laplace) else zcdp
    assert reading(whole) <= reading(real) < reading(whole) * Fraction(1001, 1000)
    coarse = m.event(Fraction(3, 2), grid=1 / Fraction(1, 4) / 2)  # a grid of 2: ⌈1.5/2⌉ = 1 step
    assert coarse.sensitivity.linf == 1
    with pytest.raises(BadParameter, match="l0"):
        m.event(Sensitivity(l1=1), grid=0.5)


@pytest.mark.parametrize("kind", [Laplace, Gaussian, DiscreteGaussian])
def test_for_epsilon_on_reals_pays_for_the_grid(kind) -> None:  # type: ignore[no-untyped-def]
    target = (Fraction(1, 2),) if kind is Laplace else (Fraction(1, 2), Fraction(1, 10**6))
    for moved in (Fraction(1), Fraction(1, 3), Sensitivity(l0=50, linf=Fraction(1, 7)), Sensitivity(l0=1000, l1=1)):
        m, plain = kind.for_epsilon(*target, moved, reals=True), kind.for_epsilon(*target, moved)
        reading = pure if kind is Laplace else zcdp
        hair = 1 + Fraction(1, 2**90)  # √ is rounded up on both sides, not by the same amount
        assert reading(m.event(moved, grid=m.grid)) <= reading(plain.event(moved)) * hair
        assert reading(plain.event(moved, grid=plain.grid)) >= reading(plain.event(moved))


PARAMETERS = [0, -1, float("nan"), float("inf"), "3", None, True]


@pytest.mark.parametrize("bad", PARAMETERS, ids=repr)
def test_bad_parameters_are_refused_by_every_mechanism(bad) -> None:  # type: ignore[no-untyped-def]
    makers = [
        lambda: Laplace(bad), lambda: Gaussian(bad), lambda: DiscreteGaussian(bad), lambda: TruncatedGeometric(bad, 0, 9),
        lambda: Binomial(bad), lambda: RandomizedResponse(bad), lambda: Exponential(bad), lambda: Threshold(bad, 9),
        lambda: OptimalPartitionSelection(bad, 1e-6), lambda: OptimalPartitionSelection(1, bad),
        lambda: Laplace.for_epsilon(bad, 1), lambda: Laplace.for_epsilon(1, bad), lambda: Gaussian.for_epsilon(bad, 1e-6, 1),
        lambda: Gaussian.for_epsilon(1, bad, 1), lambda: Gaussian.for_epsilon(1, 1e-6, bad),
        lambda: DiscreteGaussian.for_epsilon(bad, 1e-6, 1), lambda: DiscreteGaussian.for_rho(bad, 1),
        lambda: Binomial.for_epsilon(bad, 1e-6, 1), lambda: Binomial.for_epsilon(1, bad, 1),
        lambda: RandomizedResponse.for_epsilon(bad), lambda: Exponential.for_epsilon(bad, 1),
        lambda: Threshold.for_epsilon(bad, 1e-6, 1), lambda: Threshold.for_epsilon(1, bad, 1),
        lambda: Laplace(1).error(bad), lambda: Gaussian(1).error(bad), lambda: Binomial(10).error(bad),
    ]  # fmt: skip
    for make in makers:
        with pytest.raises(BadParameter):
            make()


@pytest.mark.parametrize("delta", [1, 2, -1e-9])
def test_delta_must_lie_strictly_between_0_and_1(delta: float) -> None:
    for make in (Gaussian.for_epsilon, DiscreteGaussian.for_epsilon, Binomial.for_epsilon, Threshold.for_epsilon):
        with pytest.raises(BadParameter, match="delta"):
            make(1, delta, 1)


def test_losses_have_the_stated_readings() -> None:
    assert pure(Laplace(10).event(Sensitivity(l0=3, linf=2))) == Fraction(6, 10)
    assert pure(Laplace(10).event(Sensitivity(l2=1))) == inf
    assert pure(Gaussian(10).event(1)) == pure(DiscreteGaussian(3).event(1)) == pure(Binomial(4).event(1)) == inf
    assert zcdp(Gaussian(10).event(Sensitivity(l0=4, linf=1))) == Fraction(4, 200)
    assert zcdp(DiscreteGaussian(10).event(1)) == Fraction(1, 200)
    assert pure(TruncatedGeometric(5, 0, 9).event(2)) == Fraction(2, 5)
    assert pure(Exponential.for_epsilon(1, 1).event(1)) == 1
    assert pure(Exponential.for_epsilon(1, 1, monotone=True).event(1, monotone=True)) == 1
    assert zcdp(Exponential.for_epsilon(1, 1).event(1)) == Fraction(1, 8)
