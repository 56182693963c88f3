"""Decoding RAPPOR [EPK14]: how many people have each candidate, from the ones of each cohort and bit.

**Theory of operation.** Per cohort j and bit i, t = (ones − p*·n_j)/(q* − p*) is an unbiased count of the people whose
filter sets the bit. A text that n_v of n people have adds n_v·n_j/n to its bits in cohort j, on average over cohorts:
`decode` regresses t, whitened, on the candidates' bits. If the candidates' columns are independent, least squares with fixed
weights is unbiased when every text that people have is among them. With more candidates a LASSO selects some first; tests
after it have seen the same reports twice, and are approximate.

Errors are for the number of people *who reported* and include how they fall into cohorts. A candidate is significant at α
over the number of candidates (Bonferroni), one-sided, by the normal approximation. Sizes that are not negative (NNLS) are
shown beside as post-processing.

**A list that lacks a text.** People who have a text that is not listed set bits of those that are, and the errors do not
know it. What the regression leaves of the whitened counts z is a projection of them, so its square is at most |z|². Given a
complete list, z is nearly normal with a covariance C that is known per cohort, and |z|² exceeds tr C + 2·√(x·tr C²) + 2x·‖C‖
with probability at most e^−x (Chernoff's bound with ln E e^{t(χ² − 1)} ≤ t²/(1 − 2t)). If the rest exceeds that, the list
is not complete: `is_explained` is false. Where cohorts are too small for the normal approximation, it says nothing.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import log, sqrt
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_probability
from discreet.errors import BadParameter
from discreet.local.rappor import BitCounts, Rappor

Floats: TypeAlias = NDArray[np.float64]

FALSE_ALARM = 1e-6
"""The probability that a complete list is taken for one that lacks texts."""
LEAST_VARIANCE = 5.0
"""The ones of a bit in a cohort are taken for normal if their variance is at least this."""


class CandidateEstimate(msgspec.Struct, frozen=True):
    """How many people have a candidate: unbiased, with its standard error; not negative, as post-processing."""

    candidate: Any
    estimate: float
    standard_error: float
    p_value: float
    significant: bool
    nonnegative: float


class Decoded(msgspec.Struct, frozen=True):
    """The candidates with their estimates, and whether they explain the reports: else people have unlisted texts."""

    estimates: tuple[CandidateEstimate, ...]
    is_explained: bool


def decode(
    rappor: Rappor, counts: BitCounts, candidates: Sequence[Any], confidence: Number = Fraction(19, 20)
) -> tuple[CandidateEstimate, ...]:
    """Estimate how many people have each candidate; the ones that a LASSO leaves out are not returned. Largest first.

    >>> from discreet.local.rappor import BasicRappor
    >>> rappor = BasicRappor.of(2, Fraction(0), Fraction(1, 4), Fraction(3, 4))
    >>> found = decode(rappor, BitCounts(np.array([1000]), np.array([[700, 300]])), [0, 1])
    >>> [(c.candidate, round(c.estimate), round(c.standard_error), c.significant) for c in found]
    [(0, 900, 27, True), (1, 100, 27, True)]
    """
    return decode_and_check(rappor, counts, candidates, confidence).estimates


def decode_and_check(
    rappor: Rappor, counts: BitCounts, candidates: Sequence[Any], confidence: Number = Fraction(19, 20)
) -> Decoded:
    """Decode as `decode` does, and see whether the candidates explain the reports."""
    from scipy import sparse
    from scipy.optimize import nnls
    from scipy.special import ndtr

    miss = 1 - check_probability(confidence, "confidence")
    if len(set(candidates)) < len(candidates) or not candidates:
        raise BadParameter("candidates", f"{len(candidates)} texts", "none, or one of them twice", "list each once")
    if not counts.n:
        raise BadParameter("counts", "of no report", "nothing can be decoded", "collect reports first")
    design, target, deviation = _build_regression(rappor, counts, candidates)
    scale = sparse.diags_array(1 / deviation)
    whitened, response = sparse.csc_array(scale @ design), target / deviation
    chosen = _select_columns(whitened, response)
    if not chosen.size:
        return Decoded((), _is_noise(rappor, counts, design[:, chosen], np.zeros(0), response, deviation))
    part = whitened[:, chosen].toarray()
    inverse = np.linalg.pinv(part)
    estimates, sizes = inverse @ response, nnls(part, response)[0]
    covariance = _estimate_covariance(rappor, counts, design[:, chosen], sizes, inverse / deviation)
    errors = np.sqrt(np.diag(covariance))
    p_values = ndtr(-estimates / errors)
    level = float(miss) / len(candidates)
    order = np.argsort(-estimates, kind="stable")
    found = tuple(
        CandidateEstimate(
            candidates[chosen[i]], float(estimates[i]), float(errors[i]), float(p_values[i]), bool(p_values[i] < level),
            float(sizes[i]),
        )
        for i in order
    )  # fmt: skip
    rest = response - part @ estimates
    return Decoded(found, _is_noise(rappor, counts, design[:, chosen], sizes, rest, deviation))


def _build_regression(rappor: Rappor, counts: BitCounts, candidates: Sequence[Any]) -> tuple[Any, Floats, Floats]:
    """Return the design (cohorts·bits × candidates), the debiased counts, and their standard deviations."""
    from scipy import sparse

    p, q, n = float(rappor.other_support), float(rappor.truth_support), counts.n
    table = rappor.filter_all(candidates)
    hashes = len(table) // rappor.cohorts
    rows = table + np.repeat(np.arange(rappor.cohorts), hashes)[:, None] * rappor.size
    columns = np.broadcast_to(np.arange(len(candidates)), rows.shape)
    shape = (rappor.cohorts * rappor.size, len(candidates))
    sets = sparse.csc_array((np.ones(rows.size), (rows.ravel(), columns.ravel())), shape=shape)
    sets.data[:] = 1  # two hashes may set the same bit
    weights = sparse.diags_array(np.repeat(counts.sizes / n, rappor.size))
    design = sparse.csc_array(weights @ sets)
    design.eliminate_zeros()
    sizes = np.repeat(counts.sizes, rappor.size)
    ones = counts.ones.ravel()
    # A rate outside [p*, q*] is chance. An empty cohort has a row of zeros, whose weight does not matter.
    rate = np.clip(ones / np.maximum(sizes, 1), p, q)
    deviation = np.sqrt(np.maximum(sizes, 1) * rate * (1 - rate)) / (q - p)
    return design, (ones - p * sizes) / (q - p), deviation


def _select_columns(whitened: Any, response: Floats) -> NDArray[np.intp]:
    """Return all columns if they are independent, else those that a LASSO keeps.

    Rows have unit variance. The penalty of a column is √(2·ln M) times its norm: what the largest of M columns of pure noise
    correlates with.
    """
    rows, columns = whitened.shape
    if columns <= min(rows, 2000) and np.linalg.matrix_rank(whitened.toarray()) == columns:
        return np.arange(columns)
    norms = np.sqrt(np.asarray(whitened.multiply(whitened).sum(axis=0)).ravel())
    return np.flatnonzero(fit_lasso(whitened, response, sqrt(2 * log(columns)) * norms) > 0)


def fit_lasso(design: Any, response: Floats, penalties: Floats, sweeps: int = 1000) -> Floats:
    """Minimise ½‖y − A·x‖² + Σ penalties·x over x ≥ 0, by coordinate descent on the columns that can be positive.

    >>> from scipy import sparse
    >>> fit_lasso(sparse.csc_array(np.eye(2)), np.array([3.0, 0.5]), np.ones(2)).tolist()
    [2.0, 0.0]
    """
    columns = design.shape[1]
    found, residual = np.zeros(columns), response.astype(np.float64)
    squares = np.asarray(design.multiply(design).sum(axis=0)).ravel()
    active: set[int] = set()
    while True:
        wanted = np.flatnonzero(design.T @ residual > penalties * (1 + 1e-9) + 1e-12)
        if not (new := set(wanted.tolist()) - active):
            return found
        active |= new
        for _ in range(sweeps):
            moved = 0.0
            for column in sorted(active):
                start, end = design.indptr[column : column + 2]
                places, weights = design.indices[start:end], design.data[start:end]
                slope = weights @ residual[places] + squares[column] * found[column] - penalties[column]
                step = max(0.0, slope / squares[column]) - found[column]
                if step:
                    residual[places] -= step * weights
                    found[column] += step
                    moved = max(moved, abs(step) * sqrt(squares[column]))
            if moved < 1e-9:
                break


def _is_noise(rappor: Rappor, counts: BitCounts, design: Any, people: Floats, rest: Floats, deviation: Floats) -> bool:
    """Whether what a regression leaves is no more than noise and the chance of cohorts: see the head of this file."""
    n, trace, squares, largest = counts.n, 0.0, 0.0, 0.0
    p, q, sizes = float(rappor.other_support), float(rappor.truth_support), counts.sizes[counts.sizes > 0]
    if int(sizes.min()) * min(p * (1 - p), q * (1 - q)) < LEAST_VARIANCE:
        return True
    shares = people / max(n, float(people.sum()))
    spread = (np.diag(shares) - np.outer(shares, shares)) * n / max(1, n - 1)
    for cohort in np.flatnonzero(counts.sizes):
        rows = slice(int(cohort) * rappor.size, (int(cohort) + 1) * rappor.size)
        filters = (design[rows, :].toarray() > 0).astype(np.float64)
        noise = _noise_of_bits(rappor, filters @ shares)
        scale = float(counts.sizes[cohort]) ** 0.5 / deviation[rows]
        covariance = (filters @ spread @ filters.T + np.diag(noise)) * np.outer(scale, scale)
        norm = float(np.linalg.norm(covariance))
        trace, squares, largest = trace + float(covariance.trace()), squares + norm**2, max(largest, norm)
    level = -log(FALSE_ALARM)
    return float(rest @ rest) <= trace + 2 * sqrt(level * squares) + 2 * level * largest


def _noise_of_bits(rappor: Rappor, held: Floats) -> Floats:
    """The variance of one report's debiased bits, of which so large a share of the people set each."""
    p, q = float(rappor.other_support), float(rappor.truth_support)
    shares = np.minimum(1, held)
    return np.asarray((shares * q * (1 - q) + (1 - shares) * p * (1 - p)) / (q - p) ** 2, np.float64)


def _estimate_covariance(rappor: Rappor, counts: BitCounts, design: Any, people: Floats, weights: Floats) -> Floats:
    """Return the covariance of weights·t, with the fitted numbers of people for the truth.

    Given the sizes n_j, cohorts are a random partition of the people: the numbers N_j of people by text in cohort j have
    Cov(N_j, N_k) = n_j·([j = k] − n_k/n)·S, S = (diag(π) − π·πᵀ)·n/(n − 1). That correlates the bits of one cohort, because
    the same people set them. The noise of each bit comes on top.
    """
    n = counts.n
    shares = people / max(n, float(people.sum()))
    spread = (np.diag(shares) - np.outer(shares, shares)) * n / max(1, n - 1)
    total, average = np.zeros_like(spread), np.zeros_like(spread)
    for cohort in np.flatnonzero(counts.sizes):
        size = int(counts.sizes[cohort])
        rows = slice(int(cohort) * rappor.size, (int(cohort) + 1) * rappor.size)
        filters = (design[rows, :].toarray() > 0).astype(np.float64)
        noise = _noise_of_bits(rappor, filters @ shares)
        part = weights[:, rows]
        through = part @ filters
        total += size * ((part * noise) @ part.T + through @ spread @ through.T)
        average += size * through / n
    return total - n * average @ spread @ average.T
