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

from discreet.accounting.direct import Listed
from discreet.accounting.gaussian import gaussian_delta
from discreet.accounting.ladder import Parts
from discreet.accounting.laws.atoms import AtomsLaw
from discreet.accounting.laws.convolve import together
from discreet.accounting.laws.gaussian import GaussianLaw
from discreet.accounting.laws.replaced import ReplacedLaw
from discreet.accounting.pieces import Ceiling, Side
from discreet.accounting.resolve import alternatives, reached
from discreet.accounting.sampled import Sampled, sampled_delta
from discreet.accounting.samples import cut_atoms
from discreet.accounting.search import least
from discreet.accounting.sides import sides
from discreet.accounting.solve import chernoff_delta, chernoff_epsilon, finite_delta, finite_epsilon, invert
from discreet.errors import BadParameter, DiscreetError
from discreet.exact import Bounds, Number, ceil_float, floor_float, nearest_float, rational, shown, sqrt_up
from discreet.loss import (
    Claim,
    Composition,
    DiscreteLaplaceLoss,
    GaussianLoss,
    KeepLoss,
    LaplaceLoss,
    Loss,
    PermuteAndFlipLoss,
    check_event,
)

_SHORT = 1 << 12
_FEW = 64  # claims whose δ are added exactly


def delta(loss: Loss, epsilon: Number, rtol: float = 1e-6) -> Bounds:
    """δ at ε ≥ 0: the largest P(E) − e^ε·P'(E) over events and neighbours, between two doubles.

    >>> from discreet.loss import Claim
    >>> delta(Claim(Fraction(1), Fraction(1, 1000)), 1).upper < 0.0010001
    True
    """
    check_event(loss)
    eps, tolerance = _epsilon(epsilon), _tolerance(rtol)
    return _worst(loss, lambda one, _, ends: _delta(one, eps, tolerance, ends), (0.0, 1.0))


def epsilon(loss: Loss, delta: Number, rtol: float = 1e-6) -> Bounds:
    """The least ε ≥ 0 with δ(ε) ≤ delta, between two doubles; ∞ where there is none.

    >>> from discreet.loss import Claim
    >>> bounds = epsilon(500 * Claim(Fraction(1), Fraction(0)), 1e-5)
    >>> round(bounds.lower, 4), round(bounds.upper, 4)
    (311.7676, 311.7676)
    """
    check_event(loss)
    target, tolerance = _delta_value(delta), _tolerance(rtol)
    return _worst(loss, lambda one, choice, ends: _epsilon_of(one, target, tolerance, choice, ends), (0.0, inf))


@dataclass(frozen=True, slots=True)
class Ends:
    """Which ends of an interval are wanted; one that is not may be as far off as it likes."""

    low: bool
    high: bool


Reading: TypeAlias = Callable[[Side, Composition, Ends], tuple[float, float]]


def _worst(loss: Loss, read: Reading, trivial: tuple[float, float]) -> Bounds:
    """The worst over alternatives and directions; the lower end over neighbours that are reached."""
    lower = reached(loss)
    found = _guarded(lambda: _read(loss, read, Ends(low=lower == loss, high=True)), trivial)
    high = max(high for _, high in found)
    if lower != loss:
        found = _guarded(lambda: _read(lower, read, Ends(low=True, high=False)), trivial)
    return Bounds(min(high, max(low for low, _ in found)), high)


def _read(loss: Loss, read: Reading, ends: Ends) -> list[tuple[float, float]]:
    return [read(one, choice, ends) for choice in alternatives(loss) for one in sides(choice)]


def _guarded(engines: Callable[[], list[tuple[float, float]]], trivial: tuple[float, float]) -> list[tuple[float, float]]:
    """What the engines found, or the interval that is true of everything where doubles could not hold what came up.

    The last resort, for parameters some hundred orders of magnitude away from any that noise has; mistakes in parameters
    are told before this.
    """
    try:
        return engines()
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, DiscreetError):
            raise
        return [trivial]


def _epsilon(value: Number) -> float:
    """ε as a double at or below it: δ only grows there. ∞ is allowed: there only the mass at infinity is left."""
    if isinstance(value, float) and value == inf:
        return inf
    exact = rational(value, "epsilon")
    if exact < 0:
        raise BadParameter("epsilon", shown(exact), "must not be negative", "give 0 or more")
    return floor_float(exact)


def _delta_value(value: Number) -> Fraction:
    exact = rational(value, "delta")
    if not 0 <= exact <= 1:
        raise BadParameter("delta", shown(exact), "must lie between 0 and 1", "give a probability, for example 1e-6")
    return exact


def _tolerance(rtol: float) -> float:
    if not 0 < rtol < 1:
        raise BadParameter("rtol", rtol, "must lie strictly between 0 and 1", "give for example 1e-6")
    return max(float(rtol), 1e-12)


def _delta(one: Side, eps: float, rtol: float, ends: Ends) -> tuple[float, float]:
    extra = one.infinite
    if eps == inf:
        return extra
    if extra[0] > 1 - 1e-14:
        return extra[0], 1.0
    if one.ceilings is None:
        low, high = _finite(one.parts, eps, rtol) if one.parts else (0.0, 0.0)
        high = min(1.0, (high + extra[1]) * (1 + 2**-52))
    else:
        low = _finite(one.parts, eps, rtol)[0] if one.parts and ends.low else 0.0
        high = min(_below(ceiling, eps, rtol) for ceiling in one.ceilings) if ends.high else 1.0
    return min(1.0, low + extra[0]) * (1 - 2**-52), high


def _below(ceiling: Ceiling, eps: float, rtol: float) -> float:
    """What δ(ε) does not exceed, by one ceiling."""
    if not ceiling.parts or ceiling.infinite >= 1:
        return ceiling.infinite
    finite = chernoff_delta(ceiling.parts, eps) if ceiling.moments else _finite(ceiling.parts, eps, rtol)[1]
    return min(1.0, (finite + ceiling.infinite) * (1 + 2**-52))


def _finite(parts: Parts, eps: float, rtol: float) -> tuple[float, float]:
    mu = only_gaussian(parts)
    if mu is not None:
        return gaussian_bounds(mu, eps)
    law = only_sampled(parts)
    if law is not None:
        return sampled_delta(law, eps)
    listed = short_list(parts)
    found = (0.0, 1.0) if listed is None else listed.bounds(eps)
    return found if found[1] - found[0] <= rtol * found[1] else _narrower(found, finite_delta(parts, eps, rtol))


def _narrower(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], two[0]), min(one[1], two[1])


def _epsilon_of(one: Side, exact: Fraction, rtol: float, choice: Composition, ends: Ends) -> tuple[float, float]:
    if one.ceilings is None:
        return _exact_epsilon(one.parts, one.infinite, exact, rtol, claimed(choice) if isfinite(one.kept[0]) else None)
    told = one.infinite[0]
    low = _exact_epsilon(one.parts, (told, told), exact, rtol, None)[0] if ends.low else 0.0
    return low, min(_ceiling_epsilon(ceiling, exact, rtol, choice) for ceiling in one.ceilings) if ends.high else inf


def _exact_epsilon(
    parts: Parts, extra: tuple[float, float], exact: Fraction, rtol: float, mass: Fraction | None
) -> tuple[float, float]:
    """ε where δ(ε) of these parts, with `extra` (exactly `mass`, if that is known) at infinity, is `exact`."""
    target = floor_float(exact)
    if target >= 1 or (not parts and target >= extra[1]):
        return 0.0, 0.0
    if target < extra[0]:
        return inf, inf
    if target == 0 and extra[1] == 0:
        return least_pure(parts)
    if target <= extra[1]:  # doubles do not know the mass at infinity well enough to say
        return (0.0, inf) if mass is None else _past(parts, exact - mass, rtol)
    return _finite_epsilon(parts, target, rtol, extra)


def _ceiling_epsilon(ceiling: Ceiling, exact: Fraction, rtol: float, choice: Composition) -> float:
    """What ε at δ = `exact` does not exceed, by one ceiling."""
    target, extra = floor_float(exact), ceiling.infinite
    if ceiling.moments:
        if target >= 1:
            return 0.0
        found = chernoff_epsilon(ceiling.parts, target - extra * (1 + 2**-50)) if target > extra * (1 + 2**-49) else inf
        return min(found, least_pure(ceiling.parts)[1]) if extra == 0 else found
    mass = claimed(choice) if isfinite(ceiling.kept) else None
    return _exact_epsilon(ceiling.parts, (extra, extra), exact, rtol, mass)[1]


def claimed(choice: Composition) -> Fraction | None:
    """The mass at infinity, exactly, where a few claims and noise that has none are all there is.

    >>> from discreet.loss import Claim, compose
    >>> claimed(compose(Claim(Fraction(1), Fraction(1, 10)), Claim(Fraction(2), Fraction(1, 10))))
    Fraction(19, 100)
    """
    kept = Fraction(1)
    for part, times in choice.parts:
        match part:
            case Claim(delta=delta) | KeepLoss(delta=delta, groups=1):
                if times > _FEW or kept.denominator.bit_length() > 1 << 14:
                    return None
                kept *= (1 - delta) ** times
            case LaplaceLoss() | DiscreteLaplaceLoss() | GaussianLoss() | PermuteAndFlipLoss():
                pass
            case _:
                return None
    return 1 - kept


def _past(parts: Parts, rest: Fraction, rtol: float) -> tuple[float, float]:
    """ε where the finite part of δ(ε) is `rest`: what the mass at infinity, known exactly, leaves."""
    if rest < 0:
        return inf, inf
    high = floor_float(rest)
    if high < 1e-290:
        return least_pure(parts) if rest == 0 else (0.0, least_pure(parts)[1])
    nothing = (0.0, 0.0)
    return (
        _finite_epsilon(parts, ceil_float(rest), rtol, nothing)[0],
        min(_finite_epsilon(parts, high, rtol, nothing)[1], least_pure(parts)[1]),
    )


def _finite_epsilon(parts: Parts, target: float, rtol: float, extra: tuple[float, float]) -> tuple[float, float]:
    """The ε where δ(ε) = target, with mass `extra` at infinity."""
    if all(law.most == 0 for law, _ in parts):
        return 0.0, 0.0
    mu = only_gaussian(parts)
    if mu is not None:
        return invert(
            lambda e: _shifted(gaussian_bounds(mu, e), extra),
            target,
            _gaussian_guess(mu, target - extra[0]),
            4e-14,
        )
    law = only_sampled(parts)
    if law is not None:
        return _sampled_epsilon(law, target, extra)
    listed = short_list(parts)
    if listed is None or target < 1e9 * listed.outside:
        return finite_epsilon(parts, target, rtol, extra)
    aim = listed.guess(target - extra[0])
    return invert(lambda e: _shifted(listed.bounds(e), extra), target, max(0.0, aim), min(rtol / 8, 1e-12))


def gaussian_bounds(mu: "Ratio", eps: float) -> tuple[float, float]:
    """The Gaussian's exact curve at ε, at both ends of what is known of μ."""
    return gaussian_delta(mu.low, Fraction(eps)).lower, gaussian_delta(mu.high, Fraction(eps)).upper


def _gaussian_guess(mu: "Ratio", target: float) -> float:
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


def _shifted(finite: tuple[float, float], extra: tuple[float, float]) -> tuple[float, float]:
    return (finite[0] + extra[0]) * (1 - 2**-52), (finite[1] + extra[1]) * (1 + 2**-52)


def least_pure(parts: Parts) -> tuple[float, float]:
    """ε at δ = 0: the largest loss of all, Σ times·max L; ∞ where a law has none."""
    total = sum(times * law.most for law, times in parts)
    slip = sum(2 * times * float(law.loss_error.max()) for law, times in parts if isinstance(law, AtomsLaw))
    return (max(0.0, total * (1 - 1e-14) - slip), max(0.0, total * (1 + 1e-14))) if isfinite(total) else (inf, inf)


@dataclass(frozen=True, slots=True)
class Ratio:
    """μ = Δ/σ of one Gaussian, between two rationals."""

    low: Fraction
    high: Fraction


def only_gaussian(parts: Parts) -> Ratio | None:
    """μ, if Gaussians are all there is."""
    if len(parts) != 1 or not isinstance(parts[0][0], GaussianLaw):
        return None
    mu = sqrt_up(parts[0][1] * parts[0][0].squared)  # at most 2^-90 above the truth
    return Ratio(mu * (1 - Fraction(1, 1 << 80)), mu)


def only_sampled(parts: Parts) -> Sampled | None:
    """The law, if one sampled Gaussian or Laplace release is all there is."""
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    law = parts[0][0]
    return law.alone if isinstance(law, ReplacedLaw) else law if isinstance(law, Sampled) else None


def _sampled_epsilon(law: Sampled, target: float, extra: tuple[float, float]) -> tuple[float, float]:
    guess = least(lambda e: sum(sampled_delta(law, e)) / 2 + extra[0] <= target)
    return invert(lambda e: _shifted(sampled_delta(law, e), extra), target, 0.0 if guess <= 1e-299 else guess, 1e-10)


def short_list(parts: Parts) -> Listed | None:
    """The composed loss as a list, if it has few values, or few that matter."""
    listed: list[tuple[AtomsLaw, int]] = []
    outside = 0.0
    for law, times in parts:
        found = cut_atoms(law)
        if found is None or len(listed) > 24:
            return None
        listed.append((found[0], times))
        outside += times * found[1]
    total = together(listed, _SHORT)
    return None if total is None else Listed.of(total, outside)
