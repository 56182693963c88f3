"""Exactness itself: the bit tree enumerated, and the fast path held against the exact one where it is hardest."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import exp, log
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import noise
from discreet.noise import fair_coins, gaussian, laplace, lattice_gaussian, selection, table, uniform
from discreet.noise.bits import LazyUniform
from discreet.testing import seeded_bits
from tests.laws.laws import binomial_cdf, discrete_gaussian_cdf, discrete_laplace_cdf, geometric_cdf, rounded_gaussian_cdf


class Exhausted(Exception):
    """The leaf of the tree is reached: more bits would be needed."""


class NoBits:
    tainted = True

    def words(self, count: int) -> NDArray[np.uint64]:
        raise Exhausted


def leaves(settle: Callable[[LazyUniform], int], depth: int) -> tuple[Counter[int], float]:
    """Outcomes of all 2^depth prefixes: their probability mass in units of 2^-depth, and the share left open."""
    outcomes: Counter[int] = Counter()
    for number in range(1 << depth):
        try:
            outcomes[settle(LazyUniform(NoBits(), number, depth))] += 1
        except Exhausted:
            continue
    return outcomes, 1 - outcomes.total() / (1 << depth)


def consistent(outcomes: Counter[int], depth: int, left_open: float, cdf: Callable[[int], float]) -> bool:
    """Whether every outcome's mass is at most its probability, and misses no more of it than what was left open."""
    mass = {k: n / (1 << depth) for k, n in outcomes.items()}
    return all(0 <= cdf(k) - cdf(k - 1) - m + 1e-12 <= left_open + 2e-12 for k, m in mass.items())


def magnitude(cdf: Callable[[int], float]) -> Callable[[int], float]:
    """P(|X| ≤ k)."""
    return lambda k: cdf(k) - cdf(-k - 1) if k >= 0 else 0.0


DEPTH = 13
HALF = Fraction(5, 2)
TREES: dict[str, tuple[Callable[[LazyUniform], int], Callable[[Fraction], Callable[[int], float]]]] = {
    "geometric": (lambda u: laplace.settle(u, HALF, lambda p: 0), geometric_cdf),
    "discrete Laplace": (
        lambda u: laplace.settle(u, HALF, partial(laplace._kappa, HALF)),
        lambda s: magnitude(discrete_laplace_cdf(s)),
    ),
    "discrete Gaussian": (
        lambda u: table.settle(u, partial(lattice_gaussian.weights, HALF**2)),
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
        lambda u: int(u.is_below(partial(uniform._exp_bounds, HALF))),
        lambda s: lambda k: (0.0, 1 - exp(-float(s)), 1.0)[k + 1],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_bit_tree(name: str) -> None:
    settle, law = TREES[name]
    outcomes, left_open = leaves(settle, DEPTH)
    assert left_open < 0.02
    assert consistent(outcomes, DEPTH, left_open, law(HALF))
    if name != "binomial":
        assert not consistent(outcomes, DEPTH, left_open, law(HALF * Fraction(6, 5)))


def test_bit_tree_of_box_muller() -> None:
    """U and θ to 8 bits each: all 2¹⁶ pairs. The mass left open is large, but no outcome may exceed its law."""
    depth, sigma, outcomes = 8, Fraction(1), Counter[int]()
    for number in range(1 << depth):
        for angle in range(1 << depth):
            quadrant, rest = angle >> (depth - 2), angle & (1 << (depth - 2)) - 1
            pair = (
                gaussian._try_settle(LazyUniform(NoBits(), number, depth), LazyUniform(NoBits(), rest, depth - 2), sigma)
                if number
                else None
            )
            if pair:
                x, y = pair
                outcomes[(x, -y, -x, y)[quadrant]] += 1
    left_open = 1 - outcomes.total() / (1 << 2 * depth)
    assert left_open < 0.15
    assert consistent(outcomes, 2 * depth, left_open, rounded_gaussian_cdf(sigma))
    assert not consistent(outcomes, 2 * depth, left_open, rounded_gaussian_cdf(sigma * Fraction(4, 5)))


class Constant:
    """The same word for ever: two draws that need more bits then get the same ones."""

    tainted = True

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, 0x9E3779B97F4A7C15, np.uint64)


class Script:
    """The given words first; after that, one word for ever."""

    tainted = True

    def __init__(self, words: list[int]) -> None:
        self.given = np.array(words, np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        given, self.given = self.given[:count], self.given[count:]
        return np.append(given, Constant().words(count - given.size))


SCALES = [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(1 << 30), Fraction(1 << 38), Fraction(1 << 42)]


def near_boundaries(scale: Fraction, shift: float) -> list[int]:
    """Words whose V lies within a few units of a double's last place of where the discrete Laplace variate changes."""
    pick, words = Random(9), []
    for _ in range(3000):
        k = pick.randrange(1, max(2, int(9 * scale)))
        v = int(exp(shift - k / float(scale)) * 2.0**63)
        v += pick.randrange(-(v >> 51) - 2, (v >> 51) + 3)
        words.append(min(max(v, 0), (1 << 63) - 1) << 1)
    return words


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_fast_discrete_laplace_agrees_with_exact(scale: Fraction) -> None:
    kappa, shift = log(2 / (1 + exp(-1 / float(scale)))), partial(laplace._kappa, scale)
    words = near_boundaries(scale, kappa)
    fast, _ = laplace._draw_floors(scale, kappa, shift, len(words), Script(words))
    exact = [laplace.settle(LazyUniform(Constant(), word >> 1, 63), scale, shift) for word in words]
    assert fast.tolist() == exact


def box_muller(sigma: Fraction, count: int) -> tuple[NDArray[np.int64], list[int]]:
    words = seeded_bits(11).words(2 * count)
    fast = gaussian._draw_pairs(sigma, count, Script(words.tolist()))
    pairs = [
        gaussian.settle(LazyUniform(Constant(), int(u), 64), int(a), sigma)
        for u, a in zip(words[:count], words[count:], strict=True)
    ]
    return fast, [x for x, _ in pairs] + [y for _, y in pairs]


@pytest.mark.parametrize("sigma", SCALES, ids=float)
def test_fast_rounded_gaussian_agrees_with_exact(sigma: Fraction) -> None:
    fast, exact = box_muller(sigma, 4000)
    assert fast.tolist() == exact


def test_without_its_margin_the_fast_path_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: doubles believed blindly."""
    monkeypatch.setattr(gaussian, "MARGIN", 0.0)
    monkeypatch.setattr(gaussian, "INVERSE_MARGIN", 0.0)
    fast, exact = box_muller(Fraction(1 << 42), 4000)
    assert fast.tolist() != exact


def test_without_its_margin_the_fast_laplace_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "MARGIN", 0.0)
    scale = Fraction(1 << 38)
    kappa, shift = log(2 / (1 + exp(-1 / float(scale)))), partial(laplace._kappa, scale)
    words = near_boundaries(scale, kappa)
    fast, _ = laplace._draw_floors(scale, kappa, shift, len(words), Script(words))
    assert fast.tolist() != [laplace.settle(LazyUniform(Constant(), word >> 1, 63), scale, shift) for word in words]


@pytest.mark.parametrize("law", [partial(lattice_gaussian.weights, Fraction(100)), partial(fair_coins.weights, 1001)])
def test_table_thresholds_bracket_the_truth_and_draws_on_them_are_refined(law: table.WeightFunction) -> None:
    low, high = table.cdf_bounds(law, 63)
    finer_low, finer_high = table.cdf_bounds(law, 160)
    for k, (below, above) in enumerate(zip(low, high, strict=True)):
        assert below <= finer_low[k] >> 97 <= finer_high[k] >> 97 <= above
    drawn = table.InversionTable.of(law)
    words = [t << 1 for t in low[:50]]
    sizes, _ = drawn.draw(len(words), Script(words))
    assert all(int(size) in (k, k + 1) for k, size in enumerate(sizes))


def test_rejection_of_the_discrete_gaussian_is_exact() -> None:
    """A(0)/A(k) brackets the ratio computed by Arb's quadrature, and the bulk bound b²/8 never rejects too little."""
    from flint import acb, arb

    variance = Fraction(2000) ** 2
    for k in (1, 500, 2000, 9000, 40000):

        def integral(k: int) -> arb:
            f = lambda t, _: (-(t**2) / (2 * 2000**2)).exp() * (t * k / 2000**2).cosh()  # noqa: E731
            return acb.integral(f, acb(-0.5), acb(0.5)).real

        chance = integral(0) / integral(k)
        value, error = lattice_gaussian._integral(k, variance, 16)
        assert error < Fraction(1, 1 << 64)
        assert abs(float(value) - float(integral(k))) < 1e-14
        assert float(1 - chance) <= (k / 2000**2) ** 2 / 8 + 1e-15


@pytest.mark.parametrize("few", [True, False])
def test_rejection_turns_exactly_at_its_probability(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words just below and just above 2⁶⁴·A(0)/A(k): accepted, rejected, in the bulk and in the scalar path."""
    from flint import acb, arb, ctx

    ctx.prec = 200
    sigma, k = 1025, 9000

    def integral(k: int) -> arb:
        return acb.integral(
            lambda t, _: (-(t**2) / (2 * sigma**2)).exp() * (t * k / sigma**2).cosh(), acb(-0.5), acb(0.5)
        ).real

    edge = int((integral(0) / integral(k) * arb(2) ** 64).floor().unique_fmpz())
    assert edge < 2**64 - 2**40  # the pair is one where rejection has some probability
    if not few:
        monkeypatch.setattr(lattice_gaussian, "MAX_SCALAR_DRAWS", 0)
    for word, rejected in ((edge - 2, False), (edge + 2, True), (2**64 - 1, True), (0, False)):
        out = lattice_gaussian._draw_rejections(np.array([k], np.int64), Fraction(sigma), Script([word]))
        assert out.tolist() == [rejected]
    assert not lattice_gaussian._draw_rejections(np.array([0], np.int64), Fraction(sigma), Script([2**64 - 2])).any()


def test_race_intervals_hold_the_key_by_arb() -> None:
    """Doubles and fixed point, on edge words and random ones: the true key lies in both intervals."""
    from flint import arb, ctx

    ctx.prec = 300
    words = [
        1,
        2,
        1 << 10,
        1 << 40,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - (1 << 12),
        (1 << 64) - 2,
        *seeded_bits(6).words(200).tolist(),
    ]
    deficits = [Fraction(i % 7, 3) for i in range(len(words))]
    for kind in noise.SelectionRule:
        low, high = selection._float_key_bounds(deficits, np.array(words, np.uint64), kind)
        for i, word in enumerate(words):
            for bits in (word, word + 1):  # the ends of what 64 bits leave open
                e = -(arb(bits) / arb(2) ** 64).log() if bits < 1 << 64 else arb(0)
                if kind is noise.SelectionRule.EXPONENTIAL and bits == 1 << 64:
                    continue  # the key goes to infinity there
                key = (e if kind is noise.SelectionRule.PERMUTE_AND_FLIP else -e.log()) - arb(
                    deficits[i].numerator
                ) / deficits[i].denominator
                assert low[i] <= key
                assert key <= high[i] or high[i] == float("inf")
                exact_low, exact_high = selection._exact_key_bounds(LazyUniform(NoBits(), word, 64), deficits[i], kind)
                assert float(exact_low) <= float(key) + 1e-12
                assert float(key) <= float(exact_high) + 1e-12


@pytest.mark.parametrize("kind", noise.SelectionRule)
def test_a_race_that_doubles_cannot_settle_goes_to_whoever_is_ahead(kind: noise.SelectionRule) -> None:
    """Equal scores and almost equal words: the smaller U has the larger −ln U, and loses under Gumbel's rule."""
    word = (1 << 63) + 12345
    ahead = 1 if kind is noise.SelectionRule.EXPONENTIAL else 0
    assert noise.select([1, 1], 1, kind, Script([word, word + 1])) == ahead
    assert noise.select([1, 1], 1, kind, Script([word + 1, word])) == 1 - ahead


def test_a_uniform_at_zero_is_refined_until_it_is_not() -> None:
    zeros = Script([0, 0, 7])
    value = laplace.settle(LazyUniform(zeros, 0, 63), Fraction(1), lambda p: 0)
    assert 120 < value < 200


def test_independent_slow_sampler_agrees() -> None:
    """Canonne–Kamath–Steinke's rational sampler, written from the paper, and ours: both fit, both refute a twin."""
    from tests.laws.evidence import edges_of, refuted
    from tests.noise.slow import slow_discrete_gaussian, slow_discrete_laplace

    scale = Fraction(7, 3)
    for slow, fast, law in (
        (slow_discrete_laplace, noise.discrete_laplace, discrete_laplace_cdf),
        (slow_discrete_gaussian, noise.discrete_gaussian, discrete_gaussian_cdf),
    ):
        for draws in (np.array([slow(scale) for _ in range(15_000)], np.int64), fast(scale, 15_000)):
            assert not refuted(draws, law(scale), edges_of(float(scale)))
            assert refuted(draws, law(scale * Fraction(6, 5)), edges_of(float(scale)))
