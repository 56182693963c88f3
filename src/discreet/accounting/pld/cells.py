"""Losses in cells: two short lists, one that a privacy-loss distribution dominates and one that dominates it.

A sample needs the losses themselves and not only their moments. Where a distribution has too many values to list, or a
density, its values are put into cells, in which the likelihood ratio e^L lies between two edges. Write P and Q for the
masses of one cell.

- *Below*: each cell becomes one atom, at ln(P/Q). To merge outcomes is post-processing, so the true pair dominates.
- *Above*: each cell becomes two atoms, at its edges, which keep both P and Q. Under Q that spreads the likelihood ratio and
  keeps its mean, and hockey-stick divergences are means of convex functions of it: the new pair dominates.

Both are off by the square of a cell's width. Independent losses add up: the products of lists below are below, those of
lists above are above, and each is put into cells again.

*Errors.* A list's losses are doubles l, and the true loss of each atom is l + e with |e| at most its error. The two atoms
that an atom is spread to keep its e, and the mean of e^{l + e} is kept whatever e is; so the largest error in a cell is that
of its edges. A merged atom lies among the true ratios of what it merges, moved by the errors of its masses.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np

from discreet._numbers import nearest_float, sqrt_up
from discreet.accounting.pld import EPS, SPECIAL_ERROR, Floats, Part, Pld
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, GaussianPld
from discreet.accounting.pld.laplace import DiscreteLaplacePld, LaplacePld
from discreet.accounting.pld.sampled import SampledGaussianPld

_CELLS = 1000
_REACH = 14.0  # standard deviations: the mass outside is below 8e-45
_OUTSIDE = 1e-44
_BEND = 3.0
_MAX_OUTPUTS = 1 << 20
_MAX_TIMES = 64


@dataclass(frozen=True, slots=True)
class Cells:
    """A list that is dominated, a list that dominates, and the mass of P or of Q that neither has."""

    below: DiscretePld
    above: DiscretePld
    omitted: float


@lru_cache(maxsize=8)
def list_cells(parts: tuple[Part, ...]) -> Cells | None:
    """All parts together in cells; None where that would take too long, or a part has no such lists.

    >>> found = list_cells(((GaussianPld(Fraction(1)), 1),))
    >>> low, high = (float(one.cgf(np.array([3.0]))[0][0]) for one in (found.below, found.above))
    >>> low <= 6 <= high and high - low < 2e-3
    True
    """
    if not 0 < sum(times for _, times in parts) <= _MAX_TIMES:
        return None
    listed: list[tuple[Cells, int]] = []
    for pld, times in parts:  # all of them before any are added up, which takes longer
        one = _list_one(pld)
        if one is None:
            return None
        listed.append((one, times))
    total: Cells | None = None
    for one, times in listed:
        power: Cells | None = None
        for bit in f"{times:b}":
            power = None if power is None else _add(power, power)
            if bit == "1":
                power = one if power is None else _add(power, one)
        assert power is not None
        total = power if total is None else _add(total, power)
    return total


def _add(one: Cells, two: Cells) -> Cells:
    """The sum of two independent losses."""
    return Cells(
        merge_below(_sum_lists(one.below, two.below)),
        _merge_above(_sum_lists(one.above, two.above)),
        1.01 * (one.omitted + two.omitted),
    )


def _sum_lists(one: DiscretePld, two: DiscretePld) -> DiscretePld:
    loss, mass = (np.add.outer(getattr(one, name), getattr(two, name)).ravel() for name in ("loss", "log_mass"))
    loss_error = float(one.loss_error.max() + two.loss_error.max())
    return DiscretePld(
        loss,
        mass,
        np.broadcast_to(loss_error + EPS * float(np.abs(loss).max()), loss.shape),
        np.add.outer(one.mass_error, two.mass_error).ravel() + EPS * float(np.abs(mass).max()),
    )


def _find_bins(pld: DiscretePld) -> tuple[Floats, Floats]:
    """Edges, narrow around 0 and wider further out, and the number of the cell that each atom is in."""
    weight = np.exp(pld.log_mass - pld.log_mass.max())
    spread = sqrt(float((weight * pld.loss**2).sum() / weight.sum())) + 1e-12
    bend = 3 * spread
    ends = np.arcsinh(np.array([pld.loss.min(), pld.loss.max()]) / bend)
    first, width = float(ends[0]) - 1e-9, (float(ends[1] - ends[0]) + 2e-9) / _CELLS
    edges = bend * np.sinh(first + width * np.arange(_CELLS + 1))
    edges[[0, -1]] = min(edges[0], pld.loss.min()) - 1e-15, max(edges[-1], pld.loss.max()) + 1e-15
    place = np.clip(((np.arcsinh(pld.loss / bend) - first) / width).astype(np.int64), 0, _CELLS - 1)
    place -= pld.loss < edges[place]  # rounding may have put an atom one cell off
    place += pld.loss > edges[place + 1]
    return edges, place


def merge_below(pld: DiscretePld) -> DiscretePld:
    """Each cell as one atom."""
    edges, place = _find_bins(pld)
    top = float(pld.log_mass.max())
    p = np.bincount(place, np.exp(pld.log_mass - top), _CELLS)
    q = np.bincount(place, np.exp(np.minimum(pld.log_mass - top - (pld.loss - edges[place]), 700.0)), _CELLS)
    some = (p > 1e-290) & (q > 1e-290)
    p, q = p[some], q[some]
    rough = EPS * (np.bincount(place, minlength=_CELLS)[some] + 8) + EPS * float(
        np.abs(pld.log_mass).max() + np.abs(edges).max()
    )
    mass_error = float(pld.mass_error.max()) + rough
    loss = np.log(p / q) + edges[:-1][some]
    return DiscretePld.of(loss, np.log(p) + top, float(pld.loss_error.max()) + 2 * mass_error, mass_error)


def _merge_above(pld: DiscretePld) -> DiscretePld:
    """Each atom spread to the edges of its cell: all terms are positive, so sums keep their relative accuracy.

    An edge's mass is a sum of true masses m·e^{±error}: its logarithm is off by at most ln(Σ m·e^error/Σ m), also from
    below, as the logarithm of a mean of e^{tx} is convex in t. A large error on a tiny mass then stays a small one.
    """
    edges, place = _find_bins(pld)
    top = float(pld.log_mass.max())
    p = np.exp(pld.log_mass - top)
    most = np.exp(np.minimum(pld.mass_error, 600.0))
    width = np.diff(edges)[place]
    over, under = pld.loss - edges[place], edges[place + 1] - pld.loss
    upper = p * (np.expm1(-over) / np.expm1(-width))
    lower = p * np.exp(-over) * (np.expm1(-under) / np.expm1(-width))
    total = np.bincount(place, lower, _CELLS + 1) + np.bincount(place + 1, upper, _CELLS + 1)
    wrong = np.bincount(place, lower * most, _CELLS + 1) + np.bincount(place + 1, upper * most, _CELLS + 1)
    many = np.bincount(place, minlength=_CELLS + 1) + np.bincount(place + 1, minlength=_CELLS + 1)
    rough = EPS * (many + 32) + EPS * float(np.abs(pld.log_mass).max())
    some = total > 1e-290
    missing = float(total[~some].sum())  # below any mass that a double can show
    assert missing < 1e-280
    error = np.log(wrong[some] / total[some]) + 2 * rough[some]
    unknown = place[pld.mass_error >= 600.0]  # next to nothing is known of these, nor of the edges that they are spread to
    error[np.isin(np.flatnonzero(some), np.concatenate([unknown, unknown + 1]))] = 1400.0
    return DiscretePld.of(edges[some], np.log(total[some]) + top, float(pld.loss_error.max()), error)


def _from_masses(edges: Floats, edge_error: float, log_p: Floats, log_q: Floats, error: Floats) -> Cells:
    """The two lists of cells with these edges, ascending, whose masses are known to a relative `error` each.

    With R = P/Q and edges x < y, the share of Q at y is w = (R·e^{-x} − 1)/(e^{y−x} − 1). R is known to 2·`error`, so w is
    known to 2.1·`error`/(1 − e^{x−y}); neither share is taken to be below 1e-12, which is part of the error.
    """
    ratio = log_p - log_q
    error = error + EPS * (8 + np.abs(log_p) + np.abs(log_q))
    below = DiscretePld.of(ratio, log_p, 2 * error, error)
    width = np.diff(edges)
    share = np.clip(np.expm1(np.clip(ratio - edges[:-1], 0.0, width)) / np.expm1(width), 1e-12, 1 - 1e-12)
    wrong = (2.1 * error + 8 * EPS * (1 + np.abs(edges[1:])) + 2 * edge_error) / -np.expm1(-width) + 2e-12
    wrong = wrong / np.minimum(share, 1 - share)
    relative = np.where(wrong < 0.5, 2 * wrong, 700.0) + error
    none = [-inf]
    mass = np.logaddexp(np.concatenate([none, log_q + np.log(share)]), np.concatenate([log_q + np.log1p(-share), none]))
    mass_error = np.maximum(np.concatenate([[0.0], relative]), np.concatenate([relative, [0.0]]))
    above = DiscretePld.of(edges, mass + edges, edge_error, mass_error + 8 * EPS * (1 + np.abs(mass) + np.abs(edges)))
    return Cells(below, above, _OUTSIDE)


def _list_one(pld: Pld) -> Cells | None:
    match pld:
        case GaussianPld(squared=squared):
            return _list_gaussian(squared, Fraction(1), removed=True)
        case SampledGaussianPld(squared=squared, rate=rate, removed=removed):
            return _list_gaussian(squared, rate, removed=removed)
        case LaplacePld(epsilon=epsilon):
            return _list_laplace(nearest_float(epsilon))
        case DiscreteLaplacePld(scale=scale, shift=shift) if shift > 2 * _CELLS:
            return _list_discrete_laplace(scale, shift)
        case DiscreteGaussianPld():
            return _list_atoms(pld.list_outputs(_MAX_OUTPUTS))
        case DiscreteLaplacePld() | DiscretePld():
            return _list_atoms(pld.atoms())
        case _:
            return None


def _list_atoms(found: tuple[DiscretePld, float] | None) -> Cells | None:
    if found is None:
        return None
    pld, omitted = found
    if len(pld.loss) <= 2 * _CELLS:
        return Cells(pld, pld, omitted)
    return Cells(merge_below(pld), _merge_above(pld), omitted)


def _list_gaussian(squared: Fraction, rate: Fraction, *, removed: bool) -> Cells | None:
    """N(0, 1) for Q and (1 − q)·N(0, 1) + q·N(μ, 1) for P, in cells of y; turned around where the unit is added."""
    mu, q = nearest_float(sqrt_up(squared)), nearest_float(rate)
    if not 1e-6 < mu < 30:
        return None
    far = np.arcsinh((_REACH + mu / 2) / _BEND)
    y = mu / 2 + _BEND * np.sinh(np.linspace(-far, far, _CELLS + 1))  # narrower in the middle
    u = mu * y - mu * mu / 2
    if rate < 1:
        far = np.logaddexp(log(nearest_float(1 - rate)), log(q) + u)
        edges = np.where(u < 30, np.log1p(q * np.expm1(np.minimum(u, 30))), far) if q <= 0.5 else far
        wide = _drop_narrow(edges, 1e-4 * min(mu * q, 1.0))
        y, edges = y[wide], edges[wide]
    else:
        edges = u
    log_q, error = log_normal_cells(y)
    moved, moved_error = log_normal_cells(y - mu)
    error = np.maximum(error, moved_error + 8 * EPS * (1 + (np.abs(y[1:]) + mu) * (mu + 1)) / np.diff(y))
    log_p = moved if rate == 1 else np.logaddexp(log(nearest_float(1 - rate)) + log_q, log(q) + moved)
    edge_error = 16 * EPS * float(1 + np.abs(u).max() + mu * mu)
    if removed:
        return _from_masses(edges, edge_error, log_p, log_q, error)
    return _from_masses(-edges[::-1], edge_error, log_q[::-1], log_p[::-1], error[::-1])


def _drop_narrow(edges: Floats, least: float) -> list[int]:
    """Which of some ascending edges to keep so that no cell is narrower than `least`, but for the last one."""
    kept = [0]
    for i, edge in enumerate(edges.tolist()):
        if edge - float(edges[kept[-1]]) >= least:
            kept.append(i)
    kept[-1] = len(edges) - 1
    return kept


def log_normal_cells(y: Floats) -> tuple[Floats, Floats]:
    """ln P(a < N(0, 1) < b) for neighbours a, b of an ascending list, by its smaller tails, and its error."""
    from scipy.special import erfcx

    a, b = y[:-1], y[1:]
    near = np.where(a + b > 0, a, -b)
    far = np.where(a + b > 0, b, -a)
    logs = [np.log(erfcx(x / sqrt(2)) / 2) - x * x / 2 for x in (near, far)]
    drop = -np.expm1(logs[1] - logs[0])
    error = 2 * (SPECIAL_ERROR + 4 * EPS * (4 + far * far)) / drop
    return logs[0] + np.log(drop), error


def _list_laplace(epsilon: float) -> Cells | None:
    """Atoms at both ends, and the density e^{(t − ε)/2}/4 between."""
    if not 1e-6 < epsilon < 30:
        return None
    t = np.linspace(-epsilon, epsilon, _CELLS + 1)
    h = 2 * epsilon / _CELLS
    log_p = log(expm1(h / 2) / 2) + (t[:-1] - epsilon) / 2
    log_q = log(-expm1(-h / 2) / 2) - (t[:-1] + epsilon) / 2
    found = _from_masses(t, 4 * EPS * epsilon, log_p, log_q, np.full(_CELLS, 16 * EPS * (1 + _CELLS)))
    ends = DiscretePld.of([epsilon, -epsilon], [-log(2), -log(2) - epsilon], 2 * EPS * epsilon, 4 * EPS * (1 + epsilon))
    return Cells(_join(found.below, ends), _join(found.above, ends), 0.0)


def _list_discrete_laplace(scale: Fraction, shift: int) -> Cells | None:
    """Losses ±ε₀ at the ends; between, outputs k from i to j − 1 are a cell, with geometric sums as its masses."""
    step, epsilon = 1 / nearest_float(scale), nearest_float(shift / scale)
    if not 1e-6 < epsilon < 30 or shift > 1 << 52:
        return None
    k = np.unique(np.linspace(1, shift, _CELLS + 1).astype(np.int64))[::-1].astype(float)  # edges of cells, largest first
    i, j, norm = k[1:], k[:-1], log1p(exp(-step))
    share = np.log(-np.expm1(-(j - i) * step)) - norm
    log_p, log_q = share - i * step, share - (shift - (j - 1)) * step
    edges = (shift - 2 * k) * step  # ascending
    error = np.full(len(i), 16 * EPS * (1 + 2 * epsilon))
    found = _from_masses(edges, 8 * EPS * epsilon, log_p, log_q, error)
    ends = DiscretePld.of([epsilon, -epsilon], [-norm, -norm - epsilon], 2 * EPS * epsilon, 4 * EPS * (1 + epsilon))
    return Cells(_join(found.below, ends), _join(found.above, ends), 0.0)


def _join(one: DiscretePld, two: DiscretePld) -> DiscretePld:
    pairs = (
        np.concatenate([getattr(one, name), getattr(two, name)]) for name in ("loss", "log_mass", "loss_error", "mass_error")
    )
    return DiscretePld(*pairs)
