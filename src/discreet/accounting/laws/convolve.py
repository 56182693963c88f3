"""Composing and sampling losses that have few values, atom by atom."""

from collections.abc import Sequence
from fractions import Fraction
from math import log

import numpy as np

from discreet.accounting.gaussian import SPECIAL_ERROR
from discreet.accounting.laws import EPS, Floats
from discreet.accounting.laws.atoms import DiscretePld
from discreet.exact import nearest_float

MAX_ATOMS = 1 << 14


def convolve(parts: Sequence[tuple[DiscretePld, int]], max_atoms: int = MAX_ATOMS) -> DiscretePld | None:
    """The law of the sum of all parts, each as often as it says; None where that has more than `most` atoms.

    >>> fair = DiscretePld.of([1.0, -1.0], [log(0.5), log(0.5)])
    >>> np.round(np.exp(convolve([(fair, 2)]).log_mass), 3).tolist()
    [0.25, 0.5, 0.25]
    """
    total: DiscretePld | None = DiscretePld.of([0.0], [0.0])
    for law, times in parts:
        power = _convolve_power(law, times, max_atoms)
        total = None if total is None or power is None else _convolve_pair(total, power, max_atoms)
    return total


def _convolve_power(pld: DiscretePld, times: int, max_atoms: int) -> DiscretePld | None:
    if len(pld.loss) == 2 and times < max_atoms:
        return _convolve_two_atoms(pld, times)
    result: DiscretePld | None = DiscretePld.of([0.0], [0.0])
    square: DiscretePld | None = pld
    while times and result is not None:
        if times & 1:
            result = None if square is None else _convolve_pair(result, square, max_atoms)
        times >>= 1
        square = None if square is None or not times else _convolve_pair(square, square, max_atoms)
    return result


def _convolve_two_atoms(pld: DiscretePld, times: int) -> DiscretePld:
    """k of one value and n − k of the other; gammaln is trusted to `SPECIAL_ERROR`, relatively."""
    from scipy.special import gammaln

    k = np.arange(times + 1.0)
    logs = [gammaln(times + 1.0), gammaln(k + 1), gammaln(times - k + 1)]
    loss = (times - k) * pld.loss[0] + k * pld.loss[1]
    mass = logs[0] - logs[1] - logs[2] + (times - k) * pld.log_mass[0] + k * pld.log_mass[1]
    rough = 4 * EPS * times * (np.abs(pld.log_mass).max() + np.abs(pld.loss).max())
    slip = (times - k) * pld.mass_error[0] + k * pld.mass_error[1] + SPECIAL_ERROR * (logs[0] + logs[1] + logs[2])
    return DiscretePld.of(loss, mass, (times - k) * pld.loss_error[0] + k * pld.loss_error[1] + rough, slip + rough)


def _convolve_pair(one: DiscretePld, two: DiscretePld, max_atoms: int) -> DiscretePld | None:
    if len(one.loss) * len(two.loss) > 16 * max_atoms:
        return None
    loss, mass, loss_error, mass_error = (
        np.add.outer(getattr(one, name), getattr(two, name)).ravel()
        for name in ("loss", "log_mass", "loss_error", "mass_error")
    )
    merged = _merge_atoms(loss, mass, loss_error, mass_error)
    return merged if len(merged.loss) <= max_atoms else None


def _merge_atoms(loss: Floats, mass: Floats, loss_error: Floats, mass_error: Floats) -> DiscretePld:
    """Atoms closer than 1e-13 become one, at the first of them; how far the others moved is added to its error."""
    order = np.argsort(-loss, kind="stable")
    loss, mass, loss_error, mass_error = loss[order], mass[order], loss_error[order], mass_error[order]
    starts = np.flatnonzero(np.concatenate([[True], -np.diff(loss) > 1e-13 * (1 + np.abs(loss[1:]))]))
    ends = np.concatenate([starts[1:], [len(loss)]]) - 1
    counts = ends - starts + 1
    return DiscretePld.of(
        loss[starts],
        np.logaddexp.reduceat(mass, starts),
        np.maximum.reduceat(loss_error, starts) + (loss[starts] - loss[ends]),
        np.maximum.reduceat(mass_error, starts) + EPS * counts * (4 + np.maximum.reduceat(np.abs(mass), starts)),
    )


def sample_poisson(
    pld: DiscretePld, infinity_mass: tuple[float, float], rate: Fraction, removed: bool
) -> tuple[DiscretePld, float, float]:
    """The law on a Poisson sample at `rate` < 1 [ZDW22, Thm 11], and its mass at infinity between two doubles.

    With mixture (1 − q)Q + qP: the unit removed, L' = ln(1 − q + q·e^L) under the mixture, whose mass at L is
    Q·e^{L'} = P·e^{L' − L}, and what only Q has sits at ln(1 − q). The unit added, L' = −ln(1 − q + q·e^{-L}) under
    the first of *its* pair, and what was infinite is −ln(1 − q). The pairs given here treat both directions alike, so
    "what only Q has" is the mass at infinity.
    """
    q, sign = nearest_float(rate), 1 if removed else -1
    turned = sign * pld.loss
    if q <= 0.5:
        small = np.log1p(q * np.expm1(np.minimum(turned, 30)))
        image = np.where(turned < 30, small, turned + log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(turned, 30))))
    else:
        image = np.logaddexp(log(nearest_float(1 - rate)), log(q) + turned)
    slip = pld.loss_error + 8 * EPS * (1 + np.abs(turned) + np.abs(image))
    mass = pld.log_mass + (image - pld.loss if removed else 0.0)
    mass_slip = pld.mass_error + (slip + pld.loss_error if removed else 0.0)
    low, high = infinity_mass
    edge = log(nearest_float(1 - rate))
    if low > 0:
        share = nearest_float(1 - rate) if removed else 1.0
        image, mass = np.append(image, edge), np.append(mass, log(share * low))
        slip, mass_slip = (
            np.append(slip, 8 * EPS * (1 + abs(edge))),
            np.append(mass_slip, (high - low) / low + 8 * EPS),
        )
        unknown = 0.0
    else:
        unknown = high
    pld = DiscretePld.of(sign * image, mass, slip, mass_slip)
    if removed:
        return pld, q * low * (1 - 4 * EPS), q * high * (1 + 4 * EPS) + unknown
    return pld, 0.0, unknown
