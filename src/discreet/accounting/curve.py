"""The certified curve: δ(ε) and ε(δ) of any loss, as proven intervals.

For every alternative (`resolve`) and both directions (`pairs`) one of three engines answers:
- a closed form: nothing at all, or Gaussians only;
- a list, where the composed loss has few values (`direct`);
- the contour (`solve`, `contour`) for everything else.
The answer is the worst over alternatives and directions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, log, pi, sqrt
from typing import TypeAlias

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    floor_float,
    format_rational,
    nearest_float,
    smallest_where,
    sqrt_up,
    to_rational,
)
from discreet.accounting.contour import (
    bound_delta_by_contour,
    bound_epsilon_by_contour,
    chernoff_delta,
    chernoff_epsilon,
    invert,
)
from discreet.accounting.directions import list_directions, to_atoms
from discreet.accounting.dominating_pairs import Direction, UpperBound
from discreet.accounting.pld.cgf import Parts
from discreet.accounting.pld.discrete import DiscreteCurve, DiscretePld, convolve
from discreet.accounting.pld.gaussian import GaussianPld, gaussian_delta
from discreet.accounting.pld.sampled import SampledPld, bound_sampled_delta
from discreet.accounting.pld.without_replacement import WithoutReplacementPld
from discreet.accounting.rewrite import find_attained_event, list_alternatives
from discreet.errors import BadParameter, DiscreetError
from discreet.events import (
    Claim,
    Composition,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    PermuteAndFlipEvent,
    check_event,
)

_MAX_LISTED_ATOMS = 1 << 12
_MAX_EXACT_CLAIMS = 64  # claims whose δ are added exactly


def delta(event: Event, epsilon: Number, rtol: float = 1e-6) -> Bounds:
    """δ at ε ≥ 0: the largest P(E) − e^ε·P'(E) over events and neighbours, between two doubles.

    >>> from discreet.events import Claim
    >>> delta(Claim(Fraction(1), Fraction(1, 1000)), 1).upper < 0.0010001
    True
    """
    check_event(event)
    eps, tolerance = _check_epsilon(epsilon), _check_rtol(rtol)
    return _maximise(event, lambda one, _, ends: _delta_of_direction(one, eps, tolerance, ends), (0.0, 1.0))


def epsilon(event: Event, delta: Number, rtol: float = 1e-6) -> Bounds:
    """The least ε ≥ 0 with δ(ε) ≤ delta, between two doubles; ∞ where there is none.

    >>> from discreet.events import Claim
    >>> bounds = epsilon(500 * Claim(Fraction(1), Fraction(0)), 1e-5)
    >>> round(bounds.lower, 4), round(bounds.upper, 4)
    (311.7676, 311.7676)
    """
    check_event(event)
    target, tolerance = _check_delta(delta), _check_rtol(rtol)
    return _maximise(
        event, lambda one, choice, ends: _epsilon_of_direction(one, target, tolerance, choice, ends), (0.0, inf)
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """Which ends of an interval are wanted; one that is not may be as far off as it likes."""

    low: bool
    high: bool


DirectionBound: TypeAlias = Callable[[Direction, Composition, Ends], tuple[float, float]]


def _maximise(event: Event, bound: DirectionBound, trivial: tuple[float, float]) -> Bounds:
    """The worst over alternatives and directions; the lower end over neighbours that are reached."""
    lower = find_attained_event(event)
    found = _catch_overflow(lambda: _bound_directions(event, bound, Ends(low=lower == event, high=True)), trivial)
    high = max(high for _, high in found)
    if lower != event:
        found = _catch_overflow(lambda: _bound_directions(lower, bound, Ends(low=True, high=False)), trivial)
    return Bounds(min(high, max(low for low, _ in found)), high)


def _bound_directions(event: Event, bound: DirectionBound, ends: Ends) -> list[tuple[float, float]]:
    return [bound(one, choice, ends) for choice in list_alternatives(event) for one in list_directions(choice)]


def _catch_overflow(
    compute: Callable[[], list[tuple[float, float]]], trivial: tuple[float, float]
) -> list[tuple[float, float]]:
    """What the engines found, or the interval that is true of everything where doubles could not hold what came up.

    The last resort, for parameters some hundred orders of magnitude away from any that noise has; mistakes in parameters
    are told before this.
    """
    try:
        return compute()
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, DiscreetError):
            raise
        return [trivial]


def _check_epsilon(value: Number) -> float:
    """ε as a double at or below it: δ only grows there. ∞ is allowed: there only the mass at infinity is left."""
    if isinstance(value, float) and value == inf:
        return inf
    exact = to_rational(value, "epsilon")
    if exact < 0:
        raise BadParameter("epsilon", format_rational(exact), "must not be negative", "give 0 or more")
    return floor_float(exact)


def _check_delta(value: Number) -> Fraction:
    exact = to_rational(value, "delta")
    if not 0 <= exact <= 1:
        raise BadParameter(
            "delta", format_rational(exact), "must lie between 0 and 1", "give a probability, for example 1e-6"
        )
    return exact


def _check_rtol(rtol: float) -> float:
    if not 0 < rtol < 1:
        raise BadParameter("rtol", rtol, "must lie strictly between 0 and 1", "give for example 1e-6")
    return max(float(rtol), 1e-12)


def _delta_of_direction(direction: Direction, eps: float, rtol: float, ends: Ends) -> tuple[float, float]:
    extra = direction.infinity_mass
    if eps == inf:
        return extra
    if extra[0] > 1 - 1e-14:
        return extra[0], 1.0
    if direction.dominated_by is None:
        low, high = _finite_delta(direction.parts, eps, rtol) if direction.parts else (0.0, 0.0)
        high = min(1.0, (high + extra[1]) * (1 + 2**-52))
    else:
        low = _finite_delta(direction.parts, eps, rtol)[0] if direction.parts and ends.low else 0.0
        high = min(_delta_upper_bound(ceiling, eps, rtol) for ceiling in direction.dominated_by) if ends.high else 1.0
    return min(1.0, low + extra[0]) * (1 - 2**-52), high


def _delta_upper_bound(bound: UpperBound, eps: float, rtol: float) -> float:
    """What δ(ε) does not exceed, by one ceiling."""
    if not bound.parts or bound.infinity_mass >= 1:
        return bound.infinity_mass
    finite = chernoff_delta(bound.parts, eps) if bound.cgf_only else _finite_delta(bound.parts, eps, rtol)[1]
    return min(1.0, (finite + bound.infinity_mass) * (1 + 2**-52))


def _finite_delta(parts: Parts, eps: float, rtol: float) -> tuple[float, float]:
    mu = match_gaussian(parts)
    if mu is not None:
        return bound_gaussian_delta(mu, eps)
    law = match_sampled(parts)
    if law is not None:
        return bound_sampled_delta(law, eps)
    listed = match_discrete(parts)
    found = (0.0, 1.0) if listed is None else listed.bound_delta(eps)
    return found if found[1] - found[0] <= rtol * found[1] else _intersect(found, bound_delta_by_contour(parts, eps, rtol))


def _intersect(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], two[0]), min(one[1], two[1])


def _epsilon_of_direction(
    direction: Direction, exact: Fraction, rtol: float, choice: Composition, ends: Ends
) -> tuple[float, float]:
    if direction.dominated_by is None:
        return _exact_epsilon(
            direction.parts,
            direction.infinity_mass,
            exact,
            rtol,
            compute_infinity_mass(choice) if isfinite(direction.log_finite_mass[0]) else None,
        )
    told = direction.infinity_mass[0]
    low = _exact_epsilon(direction.parts, (told, told), exact, rtol, None)[0] if ends.low else 0.0
    return low, min(
        _epsilon_upper_bound(ceiling, exact, rtol, choice) for ceiling in direction.dominated_by
    ) if ends.high else inf


def _exact_epsilon(
    parts: Parts, infinity_mass: tuple[float, float], exact: Fraction, rtol: float, exact_mass: Fraction | None
) -> tuple[float, float]:
    """ε where δ(ε) of these parts, with `extra` (exactly `mass`, if that is known) at infinity, is `exact`."""
    target = floor_float(exact)
    if target >= 1 or (not parts and target >= infinity_mass[1]):
        return 0.0, 0.0
    if target < infinity_mass[0]:
        return inf, inf
    if target == 0 and infinity_mass[1] == 0:
        return bound_pure_epsilon(parts)
    if target <= infinity_mass[1]:  # doubles do not know the mass at infinity well enough to say
        return (0.0, inf) if exact_mass is None else _epsilon_for_rest(parts, exact - exact_mass, rtol)
    return _finite_epsilon(parts, target, rtol, infinity_mass)


def _epsilon_upper_bound(bound: UpperBound, exact: Fraction, rtol: float, choice: Composition) -> float:
    """What ε at δ = `exact` does not exceed, by one ceiling."""
    target, extra = floor_float(exact), bound.infinity_mass
    if bound.cgf_only:
        if target >= 1:
            return 0.0
        found = chernoff_epsilon(bound.parts, target - extra * (1 + 2**-50)) if target > extra * (1 + 2**-49) else inf
        return min(found, bound_pure_epsilon(bound.parts)[1]) if extra == 0 else found
    mass = compute_infinity_mass(choice) if isfinite(bound.log_finite_mass) else None
    return _exact_epsilon(bound.parts, (extra, extra), exact, rtol, mass)[1]


def compute_infinity_mass(choice: Composition) -> Fraction | None:
    """The mass at infinity, exactly, where a few claims and noise that has none are all there is.

    >>> from discreet.events import Claim, compose
    >>> compute_infinity_mass(compose(Claim(Fraction(1), Fraction(1, 10)), Claim(Fraction(2), Fraction(1, 10))))
    Fraction(19, 100)
    """
    kept = Fraction(1)
    for part, times in choice.parts:
        match part:
            case Claim(delta=delta) | OptimalPartitionSelectionEvent(delta=delta, groups=1):
                if times > _MAX_EXACT_CLAIMS or kept.denominator.bit_length() > 1 << 14:
                    return None
                kept *= (1 - delta) ** times
            case LaplaceEvent() | DiscreteLaplaceEvent() | GaussianEvent() | PermuteAndFlipEvent():
                pass
            case _:
                return None
    return 1 - kept


def _epsilon_for_rest(parts: Parts, rest: Fraction, rtol: float) -> tuple[float, float]:
    """ε where the finite part of δ(ε) is `rest`: what the mass at infinity, known exactly, leaves."""
    if rest < 0:
        return inf, inf
    high = floor_float(rest)
    if high < 1e-290:
        return bound_pure_epsilon(parts) if rest == 0 else (0.0, bound_pure_epsilon(parts)[1])
    nothing = (0.0, 0.0)
    return (
        _finite_epsilon(parts, ceil_float(rest), rtol, nothing)[0],
        min(_finite_epsilon(parts, high, rtol, nothing)[1], bound_pure_epsilon(parts)[1]),
    )


def _finite_epsilon(parts: Parts, target: float, rtol: float, infinity_mass: tuple[float, float]) -> tuple[float, float]:
    """The ε where δ(ε) = target, with mass `extra` at infinity."""
    if all(law.max_loss == 0 for law, _ in parts):
        return 0.0, 0.0
    mu = match_gaussian(parts)
    if mu is not None:
        return invert(
            lambda e: _add_infinity_mass(bound_gaussian_delta(mu, e), infinity_mass),
            target,
            _guess_gaussian_epsilon(mu, target - infinity_mass[0]),
            4e-14,
        )
    law = match_sampled(parts)
    if law is not None:
        return _invert_sampled(law, target, infinity_mass)
    listed = match_discrete(parts)
    if listed is None or target < 1e9 * listed.omitted_mass:
        return bound_epsilon_by_contour(parts, target, rtol, infinity_mass)
    aim = listed.guess_epsilon(target - infinity_mass[0])
    return invert(
        lambda e: _add_infinity_mass(listed.bound_delta(e), infinity_mass), target, max(0.0, aim), min(rtol / 8, 1e-12)
    )


def bound_gaussian_delta(mu: "MuInterval", eps: float) -> tuple[float, float]:
    """The Gaussian's exact curve at ε, at both ends of what is known of μ."""
    return gaussian_delta(mu.low, Fraction(eps)).lower, gaussian_delta(mu.high, Fraction(eps)).upper


def _guess_gaussian_epsilon(mu: "MuInterval", target: float) -> float:
    """Where δ_μ(ε) = target, in plain doubles: Newton on ln δ, whose slope is −e^ε·Φ(−μ/2 − ε/μ)/δ."""
    from scipy.special import erfcx

    m = nearest_float(mu.high)
    eps = m * m / 2  # where the loss has its median: erfcx is far from its overflow
    for _ in range(60):
        a, b = eps / m - m / 2, eps / m + m / 2
        # In units of φ(a): δ = R(a) − R(b) and e^ε·Φ(−b) = R(b), R the Mills ratio.
        near, far = (float(erfcx(x / sqrt(2))) * sqrt(pi / 2) for x in (a, b))
        if not near - far > 0 or not isfinite(near):
            return eps
        move = (log(near - far) - a * a / 2 - log(2 * pi) / 2 - log(target)) * (near - far) / far
        eps = max(0.0, eps + move)
        if abs(move) <= 1e-14 * eps or eps == 0:
            break
    return eps


def _add_infinity_mass(finite: tuple[float, float], infinity_mass: tuple[float, float]) -> tuple[float, float]:
    return (finite[0] + infinity_mass[0]) * (1 - 2**-52), (finite[1] + infinity_mass[1]) * (1 + 2**-52)


def bound_pure_epsilon(parts: Parts) -> tuple[float, float]:
    """ε at δ = 0: the largest loss of all, Σ times·max L; ∞ where a law has none."""
    total = sum(times * law.max_loss for law, times in parts)
    slip = sum(2 * times * float(law.loss_error.max()) for law, times in parts if isinstance(law, DiscretePld))
    return (max(0.0, total * (1 - 1e-14) - slip), max(0.0, total * (1 + 1e-14))) if isfinite(total) else (inf, inf)


@dataclass(frozen=True, slots=True)
class MuInterval:
    """μ = Δ/σ of one Gaussian, between two rationals."""

    low: Fraction
    high: Fraction


def match_gaussian(parts: Parts) -> MuInterval | None:
    """μ, if Gaussians are all there is."""
    if len(parts) != 1 or not isinstance(parts[0][0], GaussianPld):
        return None
    mu = sqrt_up(parts[0][1] * parts[0][0].squared)  # at most 2^-90 above the truth
    return MuInterval(mu * (1 - Fraction(1, 1 << 80)), mu)


def match_sampled(parts: Parts) -> SampledPld | None:
    """The law, if one sampled Gaussian or Laplace release is all there is."""
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    law = parts[0][0]
    return law.single_sample if isinstance(law, WithoutReplacementPld) else law if isinstance(law, SampledPld) else None


def _invert_sampled(pld: SampledPld, target: float, infinity_mass: tuple[float, float]) -> tuple[float, float]:
    guess = smallest_where(lambda e: sum(bound_sampled_delta(pld, e)) / 2 + infinity_mass[0] <= target)
    return invert(
        lambda e: _add_infinity_mass(bound_sampled_delta(pld, e), infinity_mass),
        target,
        0.0 if guess <= 1e-299 else guess,
        1e-10,
    )


def match_discrete(parts: Parts) -> DiscreteCurve | None:
    """The composed loss as a list, if it has few values, or few that matter."""
    listed: list[tuple[DiscretePld, int]] = []
    outside = 0.0
    for law, times in parts:
        found = to_atoms(law)
        if found is None or len(listed) > 24:
            return None
        listed.append((found[0], times))
        outside += times * found[1]
    total = convolve(listed, _MAX_LISTED_ATOMS)
    return None if total is None else DiscreteCurve.of(total, outside)
