"""Binomial noise: the number of heads in n fair coins, against the same shifted by an integer r."""

from functools import lru_cache
from math import exp, isqrt

import numpy as np

from discreet.accounting.pld import EPS, Floats
from discreet.accounting.pld.discrete import DiscretePld

_DEPTH = 20  # half-widths √n/2 that are kept, times two: what lies outside has mass below 2·e^{-2·400}


_MANY = 10**7  # coins from which on outputs share atoms
_ATOMS = 4000
_SHALLOW = 12  # the same as _DEPTH, for very many coins: mass below 4·e^{-2·144} lies outside
_MAX_OUTPUTS = 3_000_000  # outputs on either side of the middle that are looked at


_UNKNOWN = DiscretePld.of([0.0], [-800.0]), 0.0, 1.0  # for shifts that such noise is not for
_STEPS = 64  # shifts up to which the loss is summed step by step, which is the more accurate


@lru_cache(maxsize=64)
def build_binomial_pld(n: int, shift: int) -> tuple[DiscretePld, float, float]:
    """The finite losses, and the mass at infinity (outputs that only one neighbour can give) between two doubles.

    P(k)/P(k − r) = Π_{i<r} (n − k + 1 + i)/(k − i), infinite for k < r. By symmetry the other direction has the same
    distribution. The window holds both, P around n/2 and the other one around n/2 + r: a sample mixes them.

    >>> pld, low, high = build_binomial_pld(2, 1)
    >>> np.round(np.exp(pld.log_mass), 3).tolist(), np.round(np.exp(pld.loss), 3).tolist(), low <= 0.25 <= high
    ([0.5, 0.25], [2.0, 0.5], True)
    """
    if n > _MANY:
        return _build_binned(n, shift)
    reach = _DEPTH * (isqrt(n) + 1)
    if reach + shift > _MAX_OUTPUTS:
        return _UNKNOWN
    first, last = max(0, n // 2 - reach - shift), min(n, n - n // 2 + reach + shift)
    k = np.arange(first, last + 1, dtype=float)
    log_mass, error = _log_masses(n, k)
    lone = k < shift
    finite = ~lone & ((np.abs(k - n / 2) <= reach) | (np.abs(k - shift - n / 2) <= reach))
    mass = float(np.exp(log_mass[lone]).sum())
    wrong = float((np.exp(log_mass[lone]) * error[lone]).sum()) + 4 * EPS * mass
    missing = 0.0 if first == 0 and last == n else 4 * exp(-2 * reach**2 / n)
    if shift <= _STEPS:
        loss, slip = _losses(n, k[finite], shift)
    else:
        before = np.flatnonzero(finite) - shift
        loss = log_mass[finite] - log_mass[before]
        slip = error[finite] + error[before] + 2 * EPS * np.abs(log_mass[before])
    pld = DiscretePld.of(loss, log_mass[finite], slip, error[finite])
    return pld, max(0.0, mass - wrong), min(1.0, mass + wrong + missing + 1e-320)


def _build_binned(n: int, shift: int) -> tuple[DiscretePld, float, float]:
    """The same for very many coins, in bounded work: neighbouring outputs share an atom, whose error covers them all."""
    reach = _SHALLOW * (isqrt(n) + 1)
    if reach + shift > _MAX_OUTPUTS:
        return _UNKNOWN
    first = n // 2 - reach - shift
    k = np.arange(first, n - first + 1, dtype=float)
    log_mass, error = _log_masses(n, k)
    cut, before = slice(shift, None), slice(None, len(k) - shift)  # where P or the other one has its mass
    loss = log_mass[cut] - log_mass[before]
    slip = error[cut] + error[before] + 2 * EPS * np.abs(log_mass[before])
    size = len(loss) // _ATOMS + 1
    starts = np.arange(0, len(loss), size)
    high, low = np.maximum.reduceat(loss + slip, starts), np.minimum.reduceat(loss - slip, starts)
    mass = np.logaddexp.reduceat(log_mass[cut], starts)
    wrong = np.maximum.reduceat(error[cut], starts) + EPS * size * (8 + np.abs(mass))
    missing = 4 * exp(-2 * reach**2 / n)
    return DiscretePld.of((high + low) / 2, mass, (high - low) / 2 * (1 + 4 * EPS), wrong), 0.0, missing


def _log_masses(n: int, k: Floats) -> tuple[Floats, Floats]:
    """ln C(n, k)/2^n over a window: sums of ln((n − k)/(k + 1)) from the middle, in blocks to keep rounding small."""
    steps = np.log((n - k[:-1]) / (k[:-1] + 1)) if len(k) > 1 else np.zeros(0)
    middle = len(k) // 2
    right, left = _prefix_sums(steps[middle:]), _prefix_sums(-steps[:middle][::-1])
    relative = np.concatenate([left[::-1], [0.0], right])
    total = float(np.exp(relative).sum())
    far = np.abs(np.arange(len(k)) - middle)
    depth = 2 * np.sqrt(far) + 4  # additions behind each partial sum
    error = EPS * (depth * np.abs(relative) + 4 * far * EPS + 2 * far * np.abs(np.log1p(far / (n + 1))) + 8)
    spread = float((np.exp(relative) * error).sum()) / total + 8 * EPS
    return relative - np.log(total), error + spread


def _prefix_sums(steps: Floats) -> Floats:
    """Partial sums with about 2·√N additions behind each, not N."""
    size = isqrt(len(steps)) + 1
    padded = np.concatenate([steps, np.zeros(-len(steps) % size)]).reshape(-1, size)
    inside = np.cumsum(padded, axis=1)
    before = np.concatenate([[0.0], np.cumsum(inside[:-1, -1])]) if len(inside) else np.zeros(0)
    return np.asarray((inside + before[:, None]).ravel()[: len(steps)])


def _losses(n: int, k: Floats, shift: int) -> tuple[Floats, Floats]:
    loss, slip = np.zeros_like(k), np.zeros_like(k)
    for i in range(shift):
        step = np.log((n - k + 1 + i) / (k - i))
        loss += step
        slip += EPS * (4 + np.abs(step) + np.abs(loss))
    return loss, slip
