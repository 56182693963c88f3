"""The certified curve: δ(ε) and ε(δ) of any event, as proven intervals.

**Theory of operation.** `epsilon` and `delta` go the same road:

1. *Rewrite* (`rewrite`). An event becomes a few plain compositions, its alternatives, whose largest curve bounds its own.
   Where they only dominate it, another event, whose worst neighbours are among those of the event, bounds the curve from
   below.
2. *Dominate* (`dominating_pairs`). A plain composition has two directions, add and remove, or one if both are alike. A
   `Direction` is a sum of independent privacy losses, each with a privacy-loss distribution (`pld`), and a mass at infinity;
   where no single pair is both dominating and attained, it has upper bounds beside.
3. *Choose a strategy* (`strategies`). The first that fits the losses computes their curve: in closed form, by listing the
   values of the sum, or on a contour in the complex plane.
4. *Invert*. `epsilon` brackets the point where the curve meets δ by two tried points.

The answer is the worst over alternatives and directions. Where its interval is wide, the upper end is also bounded: of a
group by a chain of neighbours, of samples by the event on everyone and, beside claims that use up the δ, by the sum of all
ε. Of rounds of samples without replacement the lower end is also bounded by an analyst who adapts, if they are few
(`switched_rounds`), or by another query, if they are many (`triangle_rounds`). Every step rounds outwards, so the interval
contains the exact value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import TypeAlias

from discreet._numbers import Bounds, Number, ceil_float, floor_float, format_rational, to_rational
from discreet.accounting.contour import chernoff_delta, chernoff_epsilon, rough_delta, rough_epsilon
from discreet.accounting.dominating_pairs import Direction, UpperBound, is_two_sided, list_directions
from discreet.accounting.neighbours import has_replacement, to_replace_neighbours
from discreet.accounting.pld import EPS, Interval, Parts
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pure import pure
from discreet.accounting.rewrite import group_delta, list_alternatives, list_attained_events
from discreet.accounting.strategies import bound_finite_delta, bound_finite_epsilon, bound_pure_epsilon
from discreet.accounting.switched_rounds import find_switched_rounds
from discreet.accounting.triangle_rounds import find_triangle_rounds
from discreet.errors import BadParameter, DiscreetError
from discreet.events import (
    Claim,
    Composition,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    PermuteAndFlipEvent,
    SampledWithoutReplacement,
    Shuffled,
    Subsampled,
    check_event,
    compose,
    contains_shuffled,
    repeat,
)

_NO_EPSILON = 1e-9  # nothing is gained by less
_COARSE = 1e-4  # a relative width to begin with, where lists are long
_LONG = 256  # atoms
_ROUGH = 1e-3  # the same for the upper end of rounds without replacement
_APART = 0.2
_NEAR_ENOUGH = 1.002  # ends this close are not brought closer by further upper bounds
_MAX_EXACT_CLAIMS = 64  # claims whose δ are added exactly


def delta(event: Event, epsilon: Number, rtol: float = 1e-6) -> Bounds:
    """δ at ε ≥ 0: the largest P(E) − e^ε·P'(E) over events E and neighbours, between two doubles.

    >>> from discreet.events import Claim
    >>> delta(Claim(Fraction(1), Fraction(1, 1000)), 1).upper < 0.0010001
    True
    """
    check_event(event)
    if isinstance(epsilon, float) and epsilon == inf:  # only the mass at infinity counts
        point = inf
    else:
        exact = to_rational(epsilon, "epsilon")
        if exact < 0:
            raise BadParameter("epsilon", format_rational(exact), "must not be negative", "give 0 or more")
        point = floor_float(exact)  # δ is larger there, if anything
    found = _maximise(
        event,
        rtol,
        lambda direction, _, ends, rtol: _delta_of_direction(direction, point, rtol, ends),
        lambda bound: _rough_delta(bound, point),
        (0.0, 1.0),
        one_direction=point == 0,
    )
    if _is_wide(found) and (everyone := _remove_samples(event)) is not None:
        found = _lower_upper_end(found, delta(everyone, point, rtol).upper)
    if isinstance(event, Group) and point < inf and not _is_narrow(found):
        return _lower_upper_end(found, _delta_of_chain(event, Fraction(point)))
    if _is_narrow(found):
        return found
    if _holds_group(event) and ceil_float(pure(event)) <= point:
        return Bounds(0.0, 0.0)
    if (many := find_triangle_rounds(event)) is not None and point < inf:
        return _raise_lower_end(found, max(bound_finite_delta(parts, point, _ROUGH)[0] for parts in many.list_parts()))
    rounds = find_switched_rounds(event)
    return found if rounds is None else _raise_lower_end(found, rounds.find_delta(point))


def epsilon(event: Event, delta: Number, rtol: float = 1e-6) -> Bounds:
    """The least ε ≥ 0 with δ(ε) ≤ delta, between two doubles; ∞ where there is none.

    >>> from discreet.events import Claim
    >>> bounds = epsilon(500 * Claim(Fraction(1), Fraction(0)), 1e-5)
    >>> round(bounds.lower, 4), round(bounds.upper, 4)
    (311.7676, 311.7676)
    """
    check_event(event)
    target = to_rational(delta, "delta")
    if not 0 <= target <= 1:
        raise BadParameter(
            "delta", format_rational(target), "must lie between 0 and 1", "give a probability, for example 1e-6"
        )
    found = _epsilon(event, target, rtol)
    if target > 0 and not isinstance(event, Shuffled) and (_is_narrow(found) or not _holds_group(event)):
        return found
    # Pure ε is computed in rationals, and the curve in doubles that are rounded up. Shuffling never costs. What dominates
    # groups of samples may, where it is composed.
    most = ceil_float(pure(event))
    return Bounds(min(found.lower, most), min(found.upper, most))


def _epsilon(event: Event, target: Fraction, rtol: float) -> Bounds:
    """The same from the curve alone."""
    found = _maximise(
        event,
        rtol,
        lambda direction, choice, ends, rtol: _epsilon_of_direction(direction, target, rtol, choice, ends),
        lambda bound: _rough_epsilon(bound, target),
        (0.0, inf),
    )
    if target > 0 and _is_wide(found) and (everyone := _remove_samples(event)) is not None:
        most = ceil_float(_bound_by_finite_losses(event, target)) if found.upper == inf else found.upper
        found = _lower_upper_end(found, min(most, epsilon(everyone, target, rtol).upper))
    if isinstance(event, Group) and target > 0 and not _is_narrow(found):
        return _lower_upper_end(found, _epsilon_of_chain(event, target, found.upper))
    is_open = target > 0 and not _is_narrow(found)
    if is_open and (many := find_triangle_rounds(event)) is not None:
        tried = (_epsilon_of_parts(parts, (0.0, 0.0), target, _ROUGH, None) for parts in many.list_parts())
        return _raise_lower_end(found, max(low for low, _ in tried))
    rounds = find_switched_rounds(event) if is_open else None
    if rounds is None:
        return found
    return _raise_lower_end(found, rounds.find_epsilon(ceil_float(target), (found.lower, found.upper)))


def bound_dominating_delta(event: Event, epsilon: Number, rtol: float = 1e-6) -> Bounds | None:
    """δ at ε of the stated dominating pairs; None where moments are all that is stated. See `bound_dominating_epsilon`.

    >>> from discreet.events import Claim
    >>> bound_dominating_delta(Claim(Fraction(1), Fraction(0)), 0).upper < 0.4621172
    True
    """
    point = floor_float(to_rational(epsilon, "epsilon"))

    def bound(pair: UpperBound, choice: Composition) -> Interval:
        mass = pair.infinity_mass
        low, high = bound_finite_delta(pair.parts, point, rtol) if pair.parts else (0.0, 0.0)
        return (low + mass) * (1 - 16 * EPS), min(1.0, (high + mass) * (1 + 2**-52))

    return _maximise_pairs(event, bound)


def bound_dominating_epsilon(event: Event, delta: Number, rtol: float = 1e-6) -> Bounds | None:
    """ε at δ of the stated dominating pairs: both ends bound the curve of the pair, whether or not neighbours attain it, so
    its width is what the numbers alone add. None where moments are all that is stated.

    >>> from discreet.events import SampledWithoutReplacement
    >>> from discreet.units import count
    >>> rounds = 100 * SampledWithoutReplacement(GaussianEvent(Fraction(1), count()), Fraction(1, 100))
    >>> pair, whole = bound_dominating_epsilon(rounds, 1e-6), epsilon(rounds, 1e-6)
    >>> pair.upper < pair.lower * (1 + 1e-5) and whole.lower < 0.96 * pair.lower
    True
    """
    target = to_rational(delta, "delta")

    def bound(pair: UpperBound, choice: Composition) -> Interval:
        mass = pair.infinity_mass
        known = choice if isfinite(pair.log_finite_mass) else None
        return _epsilon_of_parts(pair.parts, (mass * (1 - 16 * EPS), mass), target, rtol, known)

    return _maximise_pairs(event, bound)


def _maximise_pairs(event: Event, bound: Callable[[UpperBound, Composition], Interval]) -> Bounds | None:
    """The worst over alternatives and directions, each by the first pair that is stated for it."""
    check_event(event)
    stated = [
        (direction.dominating_pair, choice) for choice in list_alternatives(event) for direction in list_directions(choice)
    ]
    found = [bound(pair, choice) for pair, choice in stated if pair is not None]
    if len(found) < len(stated):
        return None
    return Bounds(max(low for low, _ in found), max(high for _, high in found))


def _holds_group(event: Event) -> bool:
    """Whether the event is a group, or a composition with one, as it is seen by its neighbours."""
    seen = to_replace_neighbours(event)
    parts = [part for part, _ in seen.parts] if isinstance(seen, Composition) else [seen]
    return any(isinstance(part, Group) for part in parts)


def _is_narrow(found: Bounds) -> bool:
    return found.upper <= found.lower * (1 + 1e-3)


def _is_wide(found: Bounds) -> bool:
    return found.upper > 16 * found.lower


def _is_near(found: Interval) -> bool:
    return found[1] <= found[0] * _NEAR_ENOUGH


def _lower_upper_end(found: Bounds, upper: float) -> Bounds:
    high = min(found.upper, upper)
    return Bounds(min(found.lower, high), high)


def _raise_lower_end(found: Bounds, lower: float) -> Bounds:
    return Bounds(min(max(found.lower, lower), found.upper), found.upper)


def _remove_samples(event: Event) -> Event | None:
    """The event with every part of it that is a sample run on everyone; None if it has no such part.

    Sampling never hurts. **Proof.** A Poisson sample has (1 − q)R + qP against R, one without replacement (1 − q)R + qP
    against (1 − q)R + qP', where P and R, or P and P', mix outputs of neighbours (draw the sample of the others jointly).
    Hockey-stick divergences of all orders are jointly convex and least between equals, so none is above that of the event on
    everyone: its dominating pair dominates the sample's too, and so in any composition [ZDW22, Thm 10]. Which neighbours
    there are is settled before the samples are removed.
    """
    seen = to_replace_neighbours(event)
    parts = seen.parts if isinstance(seen, Composition) else ((seen, 1),)
    if not any(isinstance(part, Subsampled | SampledWithoutReplacement) for part, _ in parts):
        return None
    everyone = (part.event if isinstance(part, Subsampled | SampledWithoutReplacement) else part for part, _ in parts)
    return compose(*(repeat(part, times) for part, (_, times) in zip(everyone, parts, strict=True)))


def _bound_by_finite_losses(event: Event, target: Fraction) -> Fraction | float:
    """What ε at δ = `target` does not exceed where the claims that are parts of the event use up no more than this δ.

    **Proof.** A claim's pair has δ at infinity and else losses of at most ε. With probability Π(1 − δ) nothing is at
    infinity, and then the loss is at most the sum of all pure ε, in whichever order and however adaptively the parts ran.
    """
    seen = to_replace_neighbours(event)
    parts = seen.parts if isinstance(seen, Composition) else ((seen, 1),)
    mass = compute_infinity_mass(Composition(tuple((part, times) for part, times in parts if isinstance(part, Claim))))
    if mass is None or mass > target:
        return inf
    return pure(compose(*(repeat(_drop_delta(part), times) for part, times in parts)))


def _drop_delta(event: Event) -> Event:
    return Claim(event.epsilon, Fraction(0)) if isinstance(event, Claim) else event


def _delta_of_chain(event: Group, epsilon: Fraction) -> float:
    """δ at ε of a group of k by a chain of k neighbours, each (ε/k, δ₁): δ₁·Σ_{i<k} e^{iε/k} [DR14, Thm 2.2 and its proof].

    Where a group is only dominated, as one on Poisson samples that is on both sides, this may be the smaller bound.
    """
    each = epsilon / event.size
    return ceil_float(group_delta(each, Fraction(delta(event.event, each, 1e-4).upper), event.size))


def _epsilon_of_chain(event: Group, target: Fraction, upper: float) -> float:
    """An ε, at most `upper`, at which the chain has at most the target δ; ∞ if `upper` is none. Every ε kept was tried."""
    low, high = epsilon(event.event, target, 1e-4).lower, upper
    if high == inf or not _delta_of_chain(event, Fraction(high)) <= target:
        return inf
    while high - low > max(1e-4 * high, _NO_EPSILON):
        middle = (low + high) / 2
        low, high = (low, middle) if _delta_of_chain(event, Fraction(middle)) <= target else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Ends:
    """Which ends of an interval are needed; one that is not may be trivial."""

    low: bool
    high: bool


DirectionBound: TypeAlias = Callable[[Direction, Composition, Ends, float], Interval]


def _maximise(
    event: Event,
    rtol: float,
    bound: DirectionBound,
    rough: Callable[[UpperBound], float],
    trivial: Interval,
    *,
    one_direction: bool = False,
) -> Bounds:
    """The worst over alternatives and directions; the lower end over neighbours that are attained.

    A direction whose `rough` upper bound, which is cheap, is below what another one certainly has, is not computed. With
    `one_direction` the second one has the same value and is left out: δ at ε = 0 is the total variation distance, and to
    swap two distributions does not change it. Only where the first one has no narrow interval is it computed: it may have
    attained neighbours that are further apart.

    Of samples without replacement the two ends are far apart whatever the work (`pld.without_replacement`). So the upper end
    is first computed roughly, and with `rtol` only where it is then near the lower one.

    Where doubles cannot hold what comes up, the answer is `trivial`, the interval that is true of every event: a last
    resort, for parameters some hundred orders of magnitude away from any that noise has. Mistakes in parameters are raised
    as such.
    """
    if not 0 < rtol < 1:
        raise BadParameter("rtol", rtol, "must lie strictly between 0 and 1", "give for example 1e-6")
    tolerance = max(float(rtol), 1e-12)
    attained, *others = list_attained_events(event)

    def find(source: Event, ends: Ends, tolerance: float) -> Interval:
        try:
            found: list[Interval] = []
            for choice in list_alternatives(source):
                alike = one_direction and is_two_sided(choice)
                for i, direction in enumerate(list_directions(choice)):
                    if alike and i > 0 and (not ends.low or direction.dominated_by is None or _is_near(found[-1])):
                        continue
                    known = max((one[0 if ends.low else 1] for one in found), default=0.0)
                    most = min(map(rough, direction.upper_bounds)) if found and known > 0 else inf
                    found.append(bound(direction, choice, ends, tolerance) if most >= known else (0.0, most))
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, DiscreetError):
                raise
            return trivial
        return max(one[0] for one in found), max(one[1] for one in found)

    if not others and (attained == event or list_alternatives(attained) == list_alternatives(event)):
        low, high = find(event, Ends(low=True, high=True), tolerance)
        return Bounds(min(high, low), high)
    low = max(find(one, Ends(low=True, high=False), tolerance)[0] for one in (attained, *others))
    rougher = max(tolerance, _ROUGH) if has_replacement(event) and not contains_shuffled(event) else tolerance
    high = find(event, Ends(low=False, high=True), rougher)[1]
    # Where the ends meet, the rough one is too wide; where they are far apart, the rough tolerance may be the reason.
    if rougher > tolerance and not 16 * rougher * high <= high - low <= _APART * high:
        high = min(high, find(event, Ends(low=False, high=True), tolerance)[1])
    return Bounds(min(high, low), high)


def _rough_delta(bound: UpperBound, eps: float) -> float:
    """What δ(ε) does not exceed, at the cost of a table of K."""
    if not bound.parts or eps == inf:
        return bound.infinity_mass
    return min(1.0, (rough_delta(bound.parts, eps) + bound.infinity_mass) * (1 + 2**-51))


def _rough_epsilon(bound: UpperBound, exact: Fraction) -> float:
    """What ε at δ = `exact` does not exceed, at the cost of a table of K; ∞ where that does not say."""
    if not bound.parts:
        return inf
    if bound.infinity_mass == 0 and (exact == 0 or bound_pure_epsilon(bound.parts)[1] < inf):
        most = bound_pure_epsilon(bound.parts)[1]
    else:
        most = inf
    rest = floor_float(exact) - bound.infinity_mass * (1 + 2**-50)
    return min(most, rough_epsilon(bound.parts, rest * (1 - 2**-50))) if 1e-290 < rest < 1 else most


def _delta_of_direction(direction: Direction, eps: float, rtol: float, ends: Ends) -> Interval:
    mass = direction.infinity_mass
    if eps == inf:
        return mass
    if mass[0] > 1 - 1e-14:
        return mass[0], 1.0
    if direction.dominated_by is None:
        low, high = bound_finite_delta(direction.parts, eps, rtol) if direction.parts else (0.0, 0.0)
        high = min(1.0, (high + mass[1]) * (1 + 2**-52))
    else:
        attained = (direction.parts, *direction.also_attained) if direction.parts and ends.low else ()
        low = max((bound_finite_delta(parts, eps, rtol)[0] for parts in attained), default=0.0)
        high = 1.0
        for bound in direction.dominated_by if ends.high else ():
            high = min(high, _delta_upper_bound(bound, eps, rtol))
            if high <= (low + mass[0]) * _NEAR_ENOUGH:
                break
        if direction.ranges is not None:
            found = direction.ranges.bound_delta(eps)
            low, high = max(low, found[0]), min(high, found[1])
    return min(1.0, low + mass[0]) * (1 - 2**-52), high


def _delta_upper_bound(bound: UpperBound, eps: float, rtol: float) -> float:
    """What δ(ε) does not exceed, by one upper bound."""
    if not bound.parts or bound.infinity_mass >= 1:
        return bound.infinity_mass
    finite = chernoff_delta(bound.parts, eps) if bound.cgf_only else bound_finite_delta(bound.parts, eps, rtol)[1]
    return min(1.0, (finite + bound.infinity_mass) * (1 + 2**-52))


def _epsilon_of_direction(direction: Direction, exact: Fraction, rtol: float, choice: Composition, ends: Ends) -> Interval:
    if direction.dominated_by is None:
        known = choice if isfinite(direction.log_finite_mass[0]) else None
        return _epsilon_of_parts(direction.parts, direction.infinity_mass, exact, rtol, known)
    if rtol < _COARSE and any(isinstance(pld, DiscretePld) and len(pld.loss) > _LONG for pld, _ in direction.parts):
        # Lists in cells: where the two ends are apart, a coarser tolerance is all that they are worth.
        low, high = _epsilon_of_dominated(direction, exact, _COARSE, choice, ends)
        if not ends.low or not ends.high or high - low > _COARSE * high:
            return low, high
        rtol = max(rtol, (high - low) / high / 16 if high > 0 else rtol)
    return _epsilon_of_dominated(direction, exact, rtol, choice, ends)


def _epsilon_of_dominated(direction: Direction, exact: Fraction, rtol: float, choice: Composition, ends: Ends) -> Interval:
    mass = direction.infinity_mass[0]
    attained = (direction.parts, *direction.also_attained) if ends.low else ()
    low = max((_epsilon_of_parts(parts, (mass, mass), exact, rtol, None)[0] for parts in attained), default=0.0)
    high = inf
    for bound in direction.dominated_by or () if ends.high else ():
        high = min(high, _epsilon_upper_bound(bound, exact, rtol, choice))
        if high <= low * _NEAR_ENOUGH:
            break
    if direction.ranges is not None and ends.low and ends.high and exact > 0:
        low, high = direction.ranges.bound_epsilon(floor_float(exact), (low, high))
    return low, high


def _epsilon_upper_bound(bound: UpperBound, exact: Fraction, rtol: float, choice: Composition) -> float:
    """What ε at δ = `exact` does not exceed, by one upper bound."""
    target, mass = floor_float(exact), bound.infinity_mass
    if bound.cgf_only:
        if target >= 1:
            return 0.0
        found = chernoff_epsilon(bound.parts, target - mass * (1 + 2**-50)) if target > mass * (1 + 2**-49) else inf
        return min(found, bound_pure_epsilon(bound.parts)[1]) if mass == 0 else found
    # The mass is rounded up: at a δ a few roundings below it, and of claims at their δ itself, the exact one decides.
    known = choice if isfinite(bound.log_finite_mass) and not bound.is_cut else None
    return _epsilon_of_parts(bound.parts, (mass * (1 - 64 * EPS), mass), exact, rtol, known)[1]


def _epsilon_of_parts(
    parts: Parts, infinity_mass: Interval, exact: Fraction, rtol: float, choice: Composition | None
) -> Interval:
    """The ε at which δ(ε) of these losses is `exact`; `choice` is the composition that they come from, if its mass at
    infinity is theirs."""
    target = floor_float(exact)
    if target >= 1 or (not parts and target >= infinity_mass[1]):
        return 0.0, 0.0
    if target < infinity_mass[0]:
        return inf, inf
    if target == 0 and infinity_mass[1] == 0:
        return bound_pure_epsilon(parts)
    if target > infinity_mass[1]:
        return bound_finite_epsilon(parts, target, rtol, infinity_mass)
    # Doubles do not know the mass at infinity well enough to decide.
    mass = None if choice is None else compute_infinity_mass(choice)
    if mass is None:
        return 0.0, inf
    rest = exact - mass
    if rest < 0:
        return inf, inf
    high, pure = floor_float(rest), bound_pure_epsilon(parts)
    if high < 1e-290:
        return pure if rest == 0 else (0.0, pure[1])
    low_end = bound_finite_epsilon(parts, ceil_float(rest), rtol, (0.0, 0.0))[0]
    return low_end, min(bound_finite_epsilon(parts, high, rtol, (0.0, 0.0))[1], pure[1])


def compute_infinity_mass(choice: Composition) -> Fraction | None:
    """The mass at infinity, exactly, of a composition of a few claims and noise that has none; None of any other.

    >>> from discreet.events import Claim, compose
    >>> compute_infinity_mass(compose(Claim(Fraction(1), Fraction(1, 10)), Claim(Fraction(2), Fraction(1, 10))))
    Fraction(19, 100)
    """
    finite = Fraction(1)
    for part, times in choice.parts:
        match part:
            case Claim(delta=delta) | OptimalPartitionSelectionEvent(delta=delta, groups=1):
                if times > _MAX_EXACT_CLAIMS or finite.denominator.bit_length() > 1 << 14:
                    return None
                finite *= (1 - delta) ** times
            case LaplaceEvent() | DiscreteLaplaceEvent() | GaussianEvent() | PermuteAndFlipEvent() | ExponentialEvent():
                pass
            case _:
                return None
    return 1 - finite
