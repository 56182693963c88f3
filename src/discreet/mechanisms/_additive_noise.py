"""Values in, noised values out, in the same shape: whole numbers as they are, reals on a power-of-two grid.

Nothing is silently cast. Whole numbers outside int64 are clamped to it, before and after the noise: clamping moves no two
inputs further apart, and clamping an output is post-processing, so no exception and no wrap-around ever depends on a value.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import copysign, isfinite, ldexp
from sys import float_info
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, format_rational, is_power_of_two, to_rational
from discreet.errors import BadParameter, BadValues
from discreet.noise.bits import Bits
from discreet.noise.lazy import INT64_MAX, INT64_MIN, Ints, saturate
from discreet.units import Sensitivity, to_sensitivity

Values: TypeAlias = int | float | Sequence[Any] | NDArray[Any]
"""A number, a list of numbers (nested as you like) or an array of integers or floats."""

Reals: TypeAlias = NDArray[np.float64]
Sampler: TypeAlias = Callable[[Fraction, int, Bits | None], Ints]
"""A sampler from `discreet.noise`: called with the scale in grid steps, the number of variates and the bits."""

DOUBLE_MAX = float_info.max
BLOCK_SIZE = 1 << 16
LOG2_STEPS_PER_SCALE = 20  # log2: a scale is at least a million grid steps, so rounding hardly adds to the sensitivity


@lru_cache(maxsize=256)
def default_grid(scale: Fraction) -> Fraction:
    """The largest power of two that is at most scale/2²⁰. It depends on the scale alone, never on the values."""
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    if Fraction(2) ** exponent > scale:
        exponent -= 1
    if abs(exponent) > 900:
        raise BadParameter("scale", format_rational(scale), "no double lies on its grid", "change the unit of the values")
    if exponent == LOG2_STEPS_PER_SCALE:
        exponent -= 1  # 1 is the grid of whole numbers: a loss on it would not pay for rounding
    return Fraction(2) ** (exponent - LOG2_STEPS_PER_SCALE)


def add_noise(values: Values, sampler: Sampler, scale: Fraction, bits: Bits | None, grid: Number | None) -> Any:
    """`values` plus noise. Everything is checked before any noise is drawn."""
    if type(values) is int and grid is None:
        return saturate(saturate(values) + int(sampler(scale, 1, bits)[0]))
    if type(values) is float and isfinite(values):
        steps, exponent = _scale_in_steps(scale, None if grid is None else to_rational(grid, "grid"))
        return add_on_grid(values, int(sampler(steps, 1, bits)[0]), exponent)
    array, restore = read_values(values)
    if array.dtype == np.int64:
        if grid is not None and to_rational(grid, "grid") != 1:
            raise BadParameter("grid", grid, "whole numbers stay on the grid of 1", "leave it out, or give floats")
        return restore(_map_blocks(array, lambda block: add_saturating(block, sampler(scale, block.size, bits))))
    steps, exponent = _scale_in_steps(scale, None if grid is None else to_rational(grid, "grid"))
    return restore(_map_blocks(array, lambda block: _add_on_grid_array(block, sampler(steps, block.size, bits), exponent)))


def _map_blocks(array: NDArray[Any], function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """The work done in blocks, so that memory beyond the result stays small."""
    flat, out = array.reshape(-1), np.empty(array.size, array.dtype)
    for start in range(0, array.size, BLOCK_SIZE):
        out[start : start + BLOCK_SIZE] = function(flat[start : start + BLOCK_SIZE])
    return out.reshape(array.shape)


@lru_cache(maxsize=256)
def _scale_in_steps(scale: Fraction, grid: Fraction | None) -> tuple[Fraction, int]:
    """The scale in grid steps, and the grid's binary exponent."""
    step = default_grid(scale) if grid is None else grid
    if not is_power_of_two(step) or step == 1:
        raise BadParameter(
            "grid",
            format_rational(step),
            "reals need a power of two other than 1 (which is the grid of whole numbers)",
            "take 2^k, or round the values to integers and state the sensitivity of the rounded ones",
        )
    return scale / step, step.numerator.bit_length() - step.denominator.bit_length()


def read_values(values: Values) -> tuple[NDArray[Any], Callable[[NDArray[Any]], Any]]:
    """An int64 or float64 array, and the way back to the shape that came in."""
    if type(values) is int:
        return np.array([saturate(values)], np.int64), _to_scalar
    if type(values) is np.ndarray:  # no subclass: a masked array would carry its mask, which is data, around the noise
        return _check_array(values), _identity
    if isinstance(values, list | tuple):
        return _check_array(_from_list(values)), _to_list
    if isinstance(values, np.generic | float):
        return _check_array(np.array([values])), _to_scalar
    raise BadValues(f"are of type {type(values).__name__}", "give a number, a list or an array of numbers")


def _to_scalar(out: NDArray[Any]) -> Any:
    return out.item(0)


def _identity(out: NDArray[Any]) -> Any:
    return out


def _to_list(out: NDArray[Any]) -> Any:
    return out.tolist()


def _from_list(values: Sequence[Any]) -> NDArray[Any]:
    try:
        cells = np.array(values, dtype=object) if values else np.empty(0, np.int64)
    except (ValueError, RuntimeError):
        raise BadValues("are nested irregularly or too deeply", "give a list, or a list of lists of one length") from None
    kinds = {type(cell) for cell in cells.flat}
    if kinds <= {int}:
        clamped = [saturate(int(cell)) for cell in cells.flat]
        return np.array(clamped, np.int64).reshape(cells.shape)
    if len(kinds) == 1 and not issubclass(next(iter(kinds)), list | tuple | dict | str | bytes):
        return np.array(values)  # one kind only: floats, or NumPy scalars; `_checked` decides
    named = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise BadValues(f"mix or nest types ({named})", "give all integers or all floats, in a regular shape")


def _check_array(array: NDArray[Any]) -> NDArray[Any]:
    """Judged by type first; the one judgement by value is NaN and infinity, and its outcome is visible to whoever asks."""
    if array.dtype.kind == "u":
        array = np.minimum(array, np.asarray(INT64_MAX, np.uint64))
        return array.astype(np.int64)
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise BadValues(f"have dtype {array.dtype}", "give integers, or floats of at most 64 bits")
    if not np.isfinite(array).all():
        raise BadValues("hold NaN or an infinity", "decide by rule what such records count as, before the mechanism")
    return array.astype(np.float64, copy=False)


def add_saturating(values: Ints, noise: Ints) -> Ints:
    """values + noise, clamped to int64: a wrapped sum shows as a sign that neither summand has."""
    total = values + noise
    wrapped = ((values ^ total) & (noise ^ total)) < 0
    if wrapped.any():
        total = np.where(wrapped, np.where(values < 0, INT64_MIN, INT64_MAX), total)
    return total


def add_on_grid(value: float, noise: int, exponent: int) -> float:
    """(⌊x/g + ½⌋ + noise)·g for one real, in whole numbers throughout: x/g = top/bottom exactly."""
    top, bottom = value.as_integer_ratio()
    top, bottom = (top << -exponent, bottom) if exponent < 0 else (top, bottom << exponent)
    total = (2 * top + bottom) // (2 * bottom) + noise
    try:
        return total / (1 << -exponent) if exponent < 0 else float(total << exponent)
    except OverflowError:
        return copysign(DOUBLE_MAX, total)


def _add_on_grid_array(values: Reals, noise: Ints, exponent: int) -> Reals:
    """(⌊x/g + ½⌋ + noise)·g, the whole sum exactly, and rounded to a double last.

    x/g is exact (g is a power of two). ⌊t + ½⌋ is t's floor plus one if the
    fraction is at least ½: half up, not half to even, for which neighbours one step apart could land two apart. Both
    summands are whole numbers held exactly by doubles, so IEEE addition yields their exact sum, correctly rounded: a
    function of the exact sum alone. Noise of 2⁵³ or more is not held exactly, and values near the largest double would
    overflow: both go through `add_on_grid`.
    """
    widest = ldexp(DOUBLE_MAX, -abs(exponent))
    hard = (np.abs(values) >= widest) | (np.abs(noise) >= 1 << 53)
    scaled = np.ldexp(np.where(hard, 0.0, values), -exponent)
    steps = np.floor(scaled)
    steps += scaled - steps >= 0.5
    result: Reals = np.ldexp(steps + noise, exponent)
    for i in hard.nonzero()[0]:
        result[i] = add_on_grid(float(values[i]), int(noise[i]), exponent)
    return result


# From a norm of the sensitivity to a noise scale, the rounding of reals to the grid included.


def l1_norm(norms: Sensitivity) -> Fraction:
    """The norm that Laplace noise needs."""
    if norms.l1 is None:
        raise BadParameter("sensitivity", norms, "Laplace noise needs a bound on l1", "give l1, or l0 and linf")
    return norms.l1


def l2_norm(norms: Sensitivity) -> Fraction:
    """The norm that Gaussian noise needs."""
    return norms.l2


def calibrate_scale(
    bound: Sensitivity | Number, norm: Callable[[Sensitivity], Fraction], ratio: Fraction, *, reals: bool
) -> Fraction:
    """norm × ratio. For reals the norm is that of the answers rounded to the grid, which in turn follows from the scale;
    a finer grid never needs more, so the first grid that is coarse enough for its own scale will do."""
    moved = to_sensitivity(bound)
    scale = norm(moved) * ratio
    if not reals:
        return scale
    grid = default_grid(scale)
    for _ in range(64):
        scale = norm(moved.to_grid(grid)) * grid * ratio
        if default_grid(scale) <= grid:
            return scale
        grid *= 2
    raise BadParameter(
        "sensitivity",
        format_rational(norm(moved)),
        "too small beside the number of coordinates that move",
        "give a grid instead",
    )
