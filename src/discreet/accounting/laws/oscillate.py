"""Σ_j weight_j·e^{i·s·at_j} at many s: directly, or through a fast Fourier transform where the s are evenly spaced.

*Gridded* [GL04]. With x_j = step·at_j mod 2π and F(x) = Σ_j w_j·g(x − x_j), g(x) = Σ_m e^{-(x − 2πm)²/4τ}, the n-th
Fourier coefficient of F is √(τ/π)·e^{-n²τ} times the wanted sum. F is sampled at R points, each Gaussian cut off after
SPREAD of them on either side. Put β = τR² = 80, |n| ≤ R/4 and W = Σ|w_j|; undoing the Gaussian multiplies by e^{n²τ}
≤ e⁵. Then

- sampling adds at most Σ_{m≠0} e^{n²τ − (n + mR)²τ}·W ≤ 3·e^{-β/2}·W, and the cut at most 4·e⁵·e^{-π²·SPREAD²/β}·W:
  below 1e-16·W;
- a transform of R = 2^t points is t stages of sums whose absolute values multiply to the matrix of ones, so it is off by
  at most 4·t·2^-52·Σ|F|/R, and Σ|F|/R ≤ W·√(τ/π): 4·20·2^-52·e⁵·W < 2.7e-12·W;
- the Gaussians (exponents up to 49) and their sums, of at most `crowd` terms a cell and 2·SPREAD cells:
  2^-52·e⁵·(crowd + 256)·W;
- x_j is rounded twice: |n|·2^-52·4·(π + |step·at_j|)·W, of which callers count the part with at_j among their s·at_j.
"""

from math import pi

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.laws import Complexes, Floats

_CHUNK = 1 << 18  # terms held at once
_GRID_FROM = 1 << 21  # terms from which on the grid pays
_SPREAD = 20
_BETA = 80.0
_GROWTH = 149.0  # e^{β/16}


def sum_exponentials(s: Floats, at: Floats, weight: Floats) -> tuple[Complexes, float]:
    """The sums, and a bound on what the method (not the rounding of s·at) may have them off by, over Σ|weight|.

    >>> s = 0.25 * np.arange(4096.0)
    >>> at, weight = np.linspace(-3, 3, 1000), np.full(1000, 1e-3)
    >>> bool(abs(sum_exponentials(s, at, weight)[0] - sum_directly(s, at, weight)).max() < 1e-12)
    True
    """
    if len(s) * len(at) > _GRID_FROM and len(s) > 64:
        step = s[1] - s[0]
        index = np.round((s - s[0]) / step)
        if (s[0] + step * index == s).all() and index[-1] < 8 * len(s):
            return _sum_on_grid(s, float(step), index.astype(np.int64), at, weight)
    return sum_directly(s, at, weight), 2.0**-52 * (len(at) + 8)


def sum_directly(s: Floats, at: Floats, weight: Floats) -> Complexes:
    """Term by term, a few rows at a time."""
    total = np.empty(len(s), dtype=np.complex128)
    rows = max(1, _CHUNK // len(at))
    for i in range(0, len(s), rows):
        angle = np.multiply.outer(s[i : i + rows], at)
        total[i : i + rows] = np.cos(angle) @ weight + 1j * (np.sin(angle) @ weight)
    return total


def _sum_on_grid(s: Floats, step: float, index: NDArray[np.int64], at: Floats, weight: Floats) -> tuple[Complexes, float]:
    half = int(index[-1]) // 2 + 1
    size = 1 << max(8, (4 * half - 1).bit_length())  # |n| ≤ half ≤ size/4
    tau = _BETA / size**2
    centre = s[0] + step * half  # the middle of the s becomes n = 0
    turned = weight * np.exp(1j * centre * at)
    place = np.mod(step * at, 2 * pi) * (size / (2 * pi))
    cell = np.floor(place).astype(np.int64)
    grid = np.zeros(size, dtype=np.complex128)
    for offset in range(-_SPREAD + 1, _SPREAD + 1):
        bell = turned * np.exp(-(((cell + offset - place) * (2 * pi / size)) ** 2) / (4 * tau))
        where = np.mod(cell + offset, size)
        grid += np.bincount(where, bell.real, size) + 1j * np.bincount(where, bell.imag, size)
    n = index - half
    coefficients = np.fft.ifft(grid)[np.mod(n, size)]
    crowd = int(np.bincount(cell, minlength=1).max())
    error = 4e-12 + 2.0**-52 * (_GROWTH * (crowd + 256) + 4 * pi * half)
    return np.asarray(coefficients * np.sqrt(pi / tau) * np.exp(tau * n.astype(float) ** 2)), error
