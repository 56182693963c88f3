"""Rényi DP: the largest D_α between the distributions of neighbours, in both directions, at one order α > 1 or at many.

D_α(P‖Q) = ln E_Q[(P/Q)^α]/(α − 1). Every closed form below takes out the largest privacy loss ε, so that what remains under
the logarithm lies between 0 and 1 and no large exponential appears.

To choose the order after the whole composition is known is sound: the theorem holds at every order (`find_best_order`). To
choose it while the analyst still adapts is not (`currencies`).

**Proof** for a Poisson sample of rate q, from the divergences of the event on everyone. Let Q be the distribution of the
output without the unit and P with it, given who else was sampled. The sample's distribution is (1−q)Q + qP if the unit is in
the data and Q if not. Who else was sampled averages such pairs, and the moments E_Q[(P/Q)^α] are jointly convex, so the
worst single pair bounds the average.

*Remove* ((1−q)Q + qP against Q), integer α: by the binomial theorem [MTZ19, Sec. 3.3],
    A_α = Σ_k C(α,k)(1−q)^{α−k}q^k·E_Q[(P/Q)^k] = 1 + Σ_{k≥2} C(α,k)(1−q)^{α−k}q^k·(e^{(k−1)D_k} − 1).
*Add* (Q against (1−q)Q + qP), B_α = E_Q[(1−q+qP/Q)^{1−α}]: two cases.

1. The pair has a mirror: an involution that swaps P and Q (symmetric noise; two swapped answers). Then B_α ≤ A_α
   [MTZ19, Thm 5 for differentiable densities]. In general: write R = P/Q, u = 1−q+qR, v = 1−q+q/R. The measure √(PQ) is
   its own mirror image and R turns into 1/R, so it is enough that at every point with R ≥ 1
       R^{-1/2}·(u^α − u^{1−α}) ≥ R^{1/2}·(v^{1−α} − v^α).
   With U = ln u, V = −ln v, β = α − ½ this reads e^{(U+V)/2}·sinh(βU)/R ≥ sinh(βV). Here U ≥ V ≥ 0, since
   uv = 1 + q(1−q)(√R − 1/√R)² ≥ 1; so sinh(βU)/sinh(βV) grows with β, and at β = ½ both sides equal
   e^{V/2}·q(1 − 1/R)/2. Post-processing of a mirrored pair keeps the bound.
2. No mirror: f(x) = (1−q+qx)^{1−α} has f'' ≤ α(α−1)q²(1−q)^{−α−1}, and E_Q[P/Q − 1] = 0, so by Taylor
       B_α ≤ 1 + ½α(α−1)·q²(1−q)^{−α−1}·(e^{D_2} − 1); also B_α ≤ 1 + q·(e^{(α−1)D_α} − 1), as f is convex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor, inf
from typing import assert_never

from discreet._numbers import Number, add_up, ceil_float, check_probability, to_rational
from discreet.accounting.conversions import epsilon_from_rdp, epsilon_from_rdp_classic
from discreet.accounting.elementary import exp_neg_bounds, log_bounds, tanh_half_up
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.pure import amplify, pure, response_epsilon
from discreet.accounting.rewrite import push_group
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import (
    BinomialEvent,
    Claim,
    Composition,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    check_event,
)
from discreet.units import Sensitivity

ORDERS: tuple[float, ...] = (
    *(1 + 2.0**-j for j in range(10, 0, -1)),
    *range(2, 17),
    *(round(16 * 2 ** (j / 4)) for j in range(1, 33)),
    *(4096 * 4.0**j for j in range(1, 12)),
)
"""Where the search begins: close to 1 for large ε, the usual 2…100, and far beyond for small ε."""

PATIENCE = 6
"""How many orders in a row may fail to improve before the first pass stops."""


def renyi(event: Event, order: Number) -> Fraction | float:
    """ε̄ such that the event is (order, ε̄)-RDP [Mir17, Def. 4]; ∞ where there is none. Rounded up. Order ∞ is pure ε.

    >>> from discreet.units import to_sensitivity
    >>> renyi(GaussianEvent(Fraction(10), to_sensitivity(1)), 20)
    Fraction(1, 10)
    """
    check_event(event)
    if isinstance(order, float) and order == inf:
        return pure(event)
    exact = to_rational(order, "order")
    if exact <= 1:
        raise BadParameter("order", order, "must exceed 1", "take an order above 1, or infinity for pure ε")
    return _renyi(to_replace_neighbours(event), exact)


def _renyi(event: Event, order: Fraction) -> Fraction | float:
    match event:
        case (
            GaussianEvent(sigma=sigma, sensitivity=sensitivity) | DiscreteGaussianEvent(sigma=sigma, sensitivity=sensitivity)
        ):
            return order * sensitivity.l2_squared / (2 * sigma**2)  # [Mir17, Prop. 7]; integers [CKS20, Thm 4, Cor. 16]
        case LaplaceEvent(scale=scale, sensitivity=sensitivity):
            return _laplace(scale, sensitivity, order)
        case (
            DiscreteLaplaceEvent(scale=scale, sensitivity=sensitivity)
            | TruncatedGeometricEvent(scale=scale, sensitivity=sensitivity)
        ):
            return _discrete_laplace(scale, sensitivity, order)  # clamping is post-processing
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return _response(truth, choices, order)
        case SetResponseEvent(odds=odds, share=share, pair=pair):
            low = event.blanket * (share - pair)
            return three_point_divergence(to_rational(pure(event)), odds * low, low, 1 - (odds + 1) * low, order)
        case ExponentialEvent(epsilon=epsilon):
            return min(order * epsilon**2 / 8, response_divergence(epsilon, order))  # [CR21, Lemma 3.4], bounded range
        case PermuteAndFlipEvent() | Claim() | OptimalPartitionSelectionEvent() | Shuffled():
            return renyi_from_pure(pure(event), order)
        case BinomialEvent() | ThresholdEvent():
            return inf  # outputs that only one neighbour can give
        case Composition(parts=parts):
            return add_up(times * _renyi(part, order) for part, times in parts if times)  # [Mir17, Prop. 1]
        case Parallel(branches=branches):
            return max((_renyi(branch, order) for branch in branches), default=Fraction(0))
        case Group():
            inner = push_group(event)
            if not isinstance(inner, Group):
                return _renyi(inner, order)
            return min(order * zcdp(inner), renyi_from_pure(pure(inner), order))
        case Memoised():
            return _renyi(event.unconditional, order)
        case Subsampled(event=inner, rate=rate):
            return _renyi_subsampled(inner, rate, order)
        case SampledWithoutReplacement(event=inner, rate=rate):
            # [BBG18, Thm 9] through pure ε; and as D_α is jointly quasi-convex, sampling never hurts.
            return (
                Fraction(0) if rate == 0 else min(_renyi(inner, order), renyi_from_pure(amplify(pure(inner), rate), order))
            )
        case _:
            assert_never(event)


def renyi_from_pure(epsilon: Fraction | float, order: Fraction) -> Fraction | float:
    """Every ε-private pair is post-processing of binary randomised response [KOV15, at δ = 0]."""
    return inf if epsilon == inf else response_divergence(to_rational(epsilon), order)


def _laplace(scale: Fraction, sensitivity: Sensitivity, order: Fraction) -> Fraction | float:
    """All of l1 on one coordinate, or l0 coordinates moved by linf each: both dominate, the smaller one is taken."""
    one_shift = inf if sensitivity.l1 is None else laplace_divergence(sensitivity.l1 / scale, order)
    if sensitivity.l0 is None or (sensitivity.l0 == 1 and sensitivity.l1 == sensitivity.linf):
        return one_shift
    return min(one_shift, sensitivity.l0 * laplace_divergence(sensitivity.linf / scale, order))


def _discrete_laplace(scale: Fraction, sensitivity: Sensitivity, order: Fraction) -> Fraction | float:
    one_shift = inf if sensitivity.l1 is None else discrete_laplace_divergence(ceil(sensitivity.l1), scale, order)
    one_shift = one_shift if sensitivity.l1 is None else min(one_shift, response_divergence(sensitivity.l1 / scale, order))
    if sensitivity.l0 is None:
        return one_shift
    return min(one_shift, sensitivity.l0 * discrete_laplace_divergence(ceil(sensitivity.linf), scale, order))


def _response(truth: Fraction, choices: int, order: Fraction) -> Fraction | float:
    if truth in (0, 1):
        return inf
    wrong = (1 - truth) / (choices - 1)
    return choice_divergence(to_rational(response_epsilon(truth, choices)), truth, wrong, choices, order)


@dataclass(frozen=True, slots=True)
class BestOrder:
    """The least ε found, and the order that gave it.

    >>> print(BestOrder(0.5427, 44))
    ε = 0.5427 at α = 44
    """

    epsilon: float
    order: float

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g} at α = {self.order:.4g}"


def renyi_curve(event: Event, orders: Iterable[Number] = ORDERS) -> Iterator[tuple[Number, float]]:
    """(α, ε̄) at each order, rounded up.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> dict(renyi_curve(GaussianEvent(Fraction(1), to_sensitivity(1)), [2, 4]))
    {2: 1.0, 4: 2.0}
    """
    for order in orders:
        yield order, ceil_float(renyi(event, order))


def find_best_order(
    event: Event, delta: Number, orders: Iterable[float] = ORDERS, refine: int = 24, *, classic: bool = False
) -> BestOrder:
    """The smallest ε at δ over the orders, then by bisecting towards the best one; every ε tried is a valid one.

    `classic` takes the textbooks' conversion ε̄ + ln(1/δ)/(α − 1) in place of the improved one.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> best = find_best_order(GaussianEvent(Fraction(200), to_sensitivity(1)) * 500, 1e-5)
    >>> round(best.epsilon, 4), 30 < best.order < 60
    (0.4233, True)
    >>> print(find_best_order(GaussianEvent(Fraction(200), to_sensitivity(1)) * 500, 1e-5, range(2, 101), 0, classic=True))
    ε = 0.5427 at α = 44
    """
    convert = epsilon_from_rdp_classic if classic else epsilon_from_rdp
    target = check_probability(delta, "delta")
    tried: dict[float, float] = {}
    for order in orders:
        tried[order] = _epsilon(event, order, target, convert)
        if len(tried) > PATIENCE and min(tried.values()) < min(list(tried.values())[-PATIENCE:]):
            break
    for _ in range(refine):
        for middle in _midpoints_near_best(tried):
            tried[middle] = _epsilon(event, middle, target, convert)
    order = min(tried, key=tried.__getitem__)
    return BestOrder(tried[order], order)


def _epsilon(event: Event, order: float, delta: Fraction, convert: Callable[[Number, Number, Number], float]) -> float:
    divergence = renyi(event, order)
    return inf if divergence == inf else convert(order, divergence, delta)


def _midpoints_near_best(tried: dict[float, float]) -> list[float]:
    """The middles of the two gaps beside the best order so far."""
    best = min(tried, key=tried.__getitem__)
    gaps = pairwise(sorted(tried))
    return [(low + high) / 2 for low, high in gaps if best in (low, high) and high - low > 1e-9 * high]


# Divergences of single mechanisms, each rounded up.


def response_divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Binary randomised response, and with it every ε-private mechanism [BS16, Prop. 3.3; Mir17, Prop. 5].

    >>> float(response_divergence(Fraction(1), Fraction(2))) <= 1
    True
    """
    tail = (1 + exp_neg_bounds((2 * order - 1) * epsilon)[1]) / (1 + exp_neg_bounds(epsilon)[0])
    return min(_add_log_tail(epsilon, tail, order), order * epsilon * tanh_half_up(epsilon))


def choice_divergence(epsilon: Fraction, truth: Fraction, wrong: Fraction, choices: int, order: Fraction) -> Fraction:
    """The k-ary response whose likelier answer has probability max(truth, wrong), ε the log of their ratio, rounded up.

    E = t·e^{(α−1)ε} + w·e^{−(α−1)ε} + (k−2)·wrong, t ≥ w the two probabilities of the answers that the neighbours swap.
    """
    return three_point_divergence(epsilon, max(truth, wrong), min(truth, wrong), (choices - 2) * wrong, order)


def three_point_divergence(epsilon: Fraction, high: Fraction, low: Fraction, rest: Fraction, order: Fraction) -> Fraction:
    """A privacy loss of ε with mass `high`, −ε with mass `low` = high·e^{−ε}, 0 with mass `rest`, rounded up."""
    once, twice = exp_neg_bounds((order - 1) * epsilon)[1], exp_neg_bounds(2 * (order - 1) * epsilon)[1]
    return min(_add_log_tail(epsilon, high + low * twice + rest * once, order), response_divergence(epsilon, order))


def laplace_divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Continuous Laplace shifted by ε scales [Mir17, Prop. 6]."""
    tail = order + (order - 1) * exp_neg_bounds((2 * order - 1) * epsilon)[1]
    return _add_log_tail(epsilon, tail / (2 * order - 1), order)


def discrete_laplace_divergence(steps: int, scale: Fraction, order: Fraction) -> Fraction:
    """P(k) ∝ a^|k|, a = e^{−1/scale}, shifted by an integer number of `steps`.

    Summing p^α·q^{1−α} over k ≤ 0, 0 < k < Δ and k ≥ Δ gives, with r = a^{2α−1},
    e^{(α−1)ε}·(1 + r^Δ + (1−a)·(r − r^Δ)/(1−r))/(1+a).
    """
    epsilon, slope = steps / scale, (2 * order - 1) / scale
    a_low, a_high = exp_neg_bounds(1 / scale)
    r_high = exp_neg_bounds(slope)[1]
    if r_high >= 1 or a_high >= 1:  # a scale above 2^120: only the pure bound is within reach of 128 bits
        return response_divergence(epsilon, order)
    last_low, last_high = exp_neg_bounds(steps * slope)
    middle = (1 - a_low) * max(Fraction(0), r_high - last_low) / (1 - r_high)
    tail = (1 + last_high + middle) / (1 + a_low)
    return min(_add_log_tail(epsilon, tail, order), response_divergence(epsilon, order))


def _add_log_tail(epsilon: Fraction, tail: Fraction, order: Fraction) -> Fraction:
    """ε + ln(tail)/(α − 1), between 0 and ε."""
    return max(Fraction(0), min(epsilon, epsilon + log_bounds(tail)[1] / (order - 1)))


# Poisson samples.


def _renyi_subsampled(inner: Event, rate: Fraction, order: Fraction) -> Fraction | float:
    """The least of what the sample, its pure ε and no sampling at all give [**Proof** at the head of this file]."""
    plain = _renyi(inner, order)
    if rate in (0, 1):
        return plain if rate else Fraction(0)
    if isinstance(inner, Subsampled):  # a sample of a sample is a sample
        return _renyi_subsampled(inner.event, inner.rate * rate, order)
    alpha = ceil_float(order)  # D_α grows with α
    best = min(plain, _amplify_moment(inner, rate, alpha))
    epsilon = pure(inner)
    return best if epsilon == inf else min(best, _amplify_moment(Claim(to_rational(epsilon), Fraction(0)), rate, alpha))


def _amplify_moment(inner: Event, rate: Fraction, alpha: float) -> float:
    # imported here, because only samples need NumPy
    from discreet.accounting.sampled_moments import (
        MAX_ORDER,
        SLACK,
        add_moment,
        interpolate_moment,
        remove_moment,
        remove_moment_near_one,
    )  # fmt: skip

    below = floor(alpha)
    if ceil(alpha) > MAX_ORDER:
        return inf
    divergences = _integer_orders(inner, max(2, ceil(alpha)))
    second = divergences[0]
    if second == inf:
        return inf

    def remove(order: int) -> float:
        return 0.0 if order == 1 else remove_moment(rate, order, divergences[: order - 1])

    moment = remove(below)
    if below < alpha:
        moment = interpolate_moment(alpha, below, moment, remove(below + 1))
    if alpha <= 2:
        moment = min(moment, remove_moment_near_one(rate, alpha, second))
    if not _is_symmetric(inner):
        same = ceil_float(_renyi(inner, Fraction(alpha)))
        moment = max(moment, add_moment(rate, alpha, second, same))
    return moment / (alpha - 1) * (1 + SLACK)


def _integer_orders(inner: Event, order: int) -> list[float]:
    table = _order_table(inner)
    if len(table) < order - 1 and isinstance(inner, GaussianEvent | DiscreteGaussianEvent):
        slope = ceil_float(
            inner.sensitivity.l2_squared / (2 * inner.sigma**2)
        )  # D_k = k·slope, and a product is rounded once
        table.extend(k * slope * (1 + 2**-52) for k in range(len(table) + 2, order + 1))
    while len(table) < order - 1:
        table.append(ceil_float(_renyi(inner, Fraction(len(table) + 2))))
    return table[: order - 1]


@lru_cache(maxsize=1 << 9)
def _order_table(inner: Event) -> list[float]:
    """D_2, D_3, … as far as they were needed: computed once per event, not once per order."""
    return []


def _is_symmetric(inner: Event) -> bool:
    """Whether an involution swaps the two distributions of every neighbouring pair, or of a pair that dominates it.

    Symmetric noise about x and about x' swaps under o → x + x' − o; two answers of a response swap; what is bounded by its
    pure ε is bounded by a binary response. Adaptively composed Gaussians are dominated by a single one [DRS22, Cor. 3.3].
    """
    match inner:
        case (
            LaplaceEvent()
            | DiscreteLaplaceEvent()
            | TruncatedGeometricEvent()
            | GaussianEvent()
            | DiscreteGaussianEvent()
            | RandomizedResponseEvent()
            | PermuteAndFlipEvent()
            | Claim()
            | OptimalPartitionSelectionEvent()
        ):
            return True
        case Composition(parts=parts):
            return all(isinstance(part, GaussianEvent) for part, _ in parts)
        case Group():
            deeper = push_group(inner)
            return not isinstance(deeper, Group) and _is_symmetric(deeper)
        case _:
            return False
