"""What all additive mechanisms share: noise calibrated to a sensitivity, added exactly, with a known error.

*Adding.* Values come in and go out in the same form: integers as they are, reals on a power-of-two grid. Nothing is silently
cast: `read_values` decides by the type of the values, never by the values, whether they are integers or reals, and every
conversion is exact. A column of pandas or Polars or a tensor comes out as a NumPy array: its labels are data that no noise
hides, so they stay behind. Integers outside int64 are clamped to it, before and after the noise: clamping moves no two
inputs further apart, and clamping an output is post-processing, so no exception and no wrap-around ever depends on a value.

*Calibrating.* The scale is a norm of the sensitivity times a ratio. Reals are rounded to the grid first, which adds to their
sensitivity (`Sensitivity.to_grid`), and the grid follows from the scale (`default_grid`), so `fit_scale_to_grid` looks for a
pair that fits.

*Error.* `max_error` inverts the tail bound of the integer noise that is drawn, not of its continuous model. Tails are
computed in doubles: they are raised by `SAFETY_FACTOR`, and the allowed probability is lowered by it.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from math import ceil, expm1, inf, isfinite, ldexp, log, log1p, log2
from operator import attrgetter, methodcaller
from sys import float_info
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import (
    MAX_DECIMAL_EXPONENT,
    Number,
    ceil_float,
    check_int,
    format_rational,
    read_decimal,
    to_rational,
)
from discreet.errors import BadParameter, BadValues
from discreet.noise.bits import INT64_MAX, INT64_MIN, Bits, Ints, saturate
from discreet.noise.table import WeightFunction, Weights
from discreet.units import Sensitivity, check_grid


class ArrayLike(Protocol):
    """What converts itself to a NumPy array: a column of pandas or Polars, a tensor of PyTorch."""

    def __array__(self, dtype: Any = None, /) -> NDArray[Any]:
        """Return the values as an array."""
        ...


Values: TypeAlias = Number | Sequence[Any] | NDArray[Any] | ArrayLike
"""A number, a list of numbers (nested as you like), or an array or column of integers or reals."""

Reals: TypeAlias = NDArray[np.float64]
Sampler: TypeAlias = Callable[[Fraction, int, Bits | None], Ints]
"""A sampler of `discreet.noise`: takes the scale in grid steps, the number of draws and the bits."""

DOUBLE_MAX = float_info.max
BLOCK_SIZE = 1 << 16


# Adding noise


def add_noise(values: Values, sampler: Sampler, scale: Fraction, bits: Bits | None, grid: Number | None) -> Any:
    """Return `values` plus noise. Everything is checked before any noise is drawn."""
    if type(values) is int and grid is None:
        return saturate(saturate(values) + int(sampler(scale, 1, bits)[0]))
    if type(values) is float and isfinite(values):
        steps, exponent = _scale_in_steps(scale, None if grid is None else to_rational(grid, "grid"))
        return add_on_grid(values, int(sampler(steps, 1, bits)[0]), exponent)
    array, restore = read_values(values)
    add: Callable[[NDArray[Any], Ints], NDArray[Any]]
    if array.dtype != np.int64:
        steps, exponent = _scale_in_steps(scale, None if grid is None else to_rational(grid, "grid"))
        add = partial(_add_on_grid_exactly if array.dtype == object else _add_on_grid_array, exponent=exponent)
    elif grid is None or to_rational(grid, "grid") == 1:
        steps, add = scale, add_saturating
    else:
        raise BadParameter("grid", grid, "integers stay on the grid of 1", "leave it out, or give floats")
    flat, noise = array.reshape(-1), sampler(steps, array.size, bits)
    out = noise if array.dtype == np.int64 else noise.view(np.float64)  # the result takes the place of the noise
    for start in range(0, flat.size, BLOCK_SIZE):  # in blocks, so that memory beyond the result stays small
        block = slice(start, start + BLOCK_SIZE)
        out[block] = add(flat[block], noise[block])
    return restore(out.reshape(array.shape))


def read_values(values: Values) -> tuple[NDArray[Any], Callable[[NDArray[Any]], Any]]:
    """Return the values as an array of int64, of float64 or of Fractions, and the function that restores their form.

    Values are refused by their type. The refusals by value, of NaN, infinities and missing values and of decimals of absurd
    size, are visible to the caller.
    """
    array: NDArray[Any]
    restore: Callable[[NDArray[Any]], Any]
    if type(values) is int:
        return np.array([saturate(values)], np.int64), _to_scalar
    if type(values) is np.ndarray:  # no subclass: a masked array would carry its mask, which is data, around the noise
        array, restore = values, np.asarray
    elif isinstance(values, list | tuple):
        array, restore = _read_list(values), np.ndarray.tolist
    elif isinstance(values, np.generic | float):
        array, restore = np.array([values]), _to_scalar
    elif type(values) in (Fraction, Decimal):
        array, restore = np.array([values], object), _to_scalar
    else:
        array = read_array_like(values)
        restore = np.asarray if array.shape else methodcaller("item")
    if array.dtype.kind == "O":
        array = _read_objects(array)
    if array.dtype.kind == "u":
        return np.minimum(array, np.asarray(INT64_MAX, np.uint64)).astype(np.int64), restore
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False), restore
    if array.dtype.kind == "O":
        return array, restore
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise BadValues(f"have dtype {array.dtype}", "give integers, or floats of at most 64 bits")
    if not np.isfinite(array).all():
        raise BadValues("hold NaN or an infinity", "decide by rule what such records count as, before the mechanism")
    return array.astype(np.float64, copy=False), restore


_to_scalar = methodcaller("item", 0)


def read_array_like(values: Any) -> NDArray[Any]:
    """Return what a column of pandas or Polars or a tensor of PyTorch holds, exactly, as a NumPy array.

    Whole tables are refused, because their conversion casts integers to floats where another column holds floats; so are
    subclasses of NumPy's array.
    """
    if not hasattr(values, "__array__") or isinstance(values, np.ndarray) or hasattr(values, "columns"):
        raise BadValues(f"are of type {type(values).__name__}", "give a number, a list, an array or one column of numbers")
    try:
        return np.asarray(values)
    except Exception:  # what a library raises may quote values
        raise BadValues(
            f"are of type {type(values).__name__}, which gives no NumPy array",
            "convert them first; a tensor must be on the CPU, without gradients and of a NumPy dtype",
        ) from None


def _read_list(values: Sequence[Any]) -> NDArray[Any]:
    try:
        cells = np.array(values, dtype=object) if values else np.empty(0, np.int64)
    except (ValueError, RuntimeError):
        raise BadValues("are nested irregularly or too deeply", "give a list, or a list of lists of one length") from None
    types = {type(cell) for cell in cells.flat}
    if len(types) == 1 and issubclass(next(iter(types)), float | np.generic):
        return np.array(values)  # of one type: floats, or NumPy scalars; `read_values` decides by the dtype
    return _read_objects(cells)


def _read_objects(cells: NDArray[Any]) -> NDArray[Any]:
    """Return Python integers as int64, clamped; Fractions and Decimals as Fractions; refuse all others and mixtures."""
    types = {type(cell) for cell in cells.flat}
    if types <= {int}:
        return np.array([saturate(int(cell)) for cell in cells.flat], np.int64).reshape(cells.shape)
    if len(types) > 1 or issubclass(next(iter(types)), list | tuple | dict | str | bytes):
        names = ", ".join(sorted(each.__name__ for each in types))
        raise BadValues(f"mix or nest types ({names})", "give all integers or all floats, in a regular shape")
    if types == {Decimal} and any(not cell.is_finite() for cell in cells.flat):
        raise BadValues("hold NaN or an infinity", "decide by rule what such records count as, before the mechanism")
    if types == {Decimal} and any(cell and abs(cell.adjusted()) > MAX_DECIMAL_EXPONENT for cell in cells.flat):
        raise BadValues(f"hold a decimal beyond 1e±{MAX_DECIMAL_EXPONENT}", "round or clip such records by rule first")
    if types not in ({Fraction}, {Decimal}):
        raise BadValues(f"are of type {next(iter(types)).__name__}", "give integers, floats, Fractions or Decimals")
    exact = np.empty(cells.size, object)
    exact[:] = [Fraction(cell) for cell in cells.flat]
    return exact.reshape(cells.shape)


def add_saturating(values: Ints, noise: Ints) -> Ints:
    """Return values + noise, clamped to int64: a wrapped sum shows as a sign that neither summand has."""
    total = values + noise
    wrapped = ((values ^ total) & (noise ^ total)) < 0
    if wrapped.any():
        total = np.where(wrapped, np.where(values < 0, INT64_MIN, INT64_MAX), total)
    return total


def add_on_grid(value: float | Fraction, noise: int, exponent: int) -> float:
    """Return (⌊x/g + ½⌋ + noise)·g for one real, in integers throughout: x/g = top/bottom exactly."""
    top, bottom = value.as_integer_ratio()
    top, bottom = (top << -exponent, bottom) if exponent < 0 else (top, bottom << exponent)
    total = (2 * top + bottom) // (2 * bottom) + noise
    try:
        return total / (1 << -exponent) if exponent < 0 else float(total << exponent)
    except OverflowError:
        return DOUBLE_MAX if total > 0 else -DOUBLE_MAX


def _add_on_grid_exactly(values: NDArray[Any], noise: Ints, exponent: int) -> Reals:
    """Do as `_add_on_grid_array` for Fractions, one by one."""
    return np.array([add_on_grid(each, int(n), exponent) for each, n in zip(values, noise, strict=True)], np.float64)


def _add_on_grid_array(values: Reals, noise: Ints, exponent: int) -> Reals:
    """Return (⌊x/g + ½⌋ + noise)·g: the sum exactly, rounded to a double last.

    **Proof.** x/g is exact (g is a power of two). ⌊t + ½⌋ is t's floor plus one if the fraction is at least ½: half up, not
    half to even, for which neighbours one step apart could land two apart. Both summands are integers held exactly by
    doubles, so IEEE addition yields their exact sum, correctly rounded: a function of the exact sum alone. Noise of 2⁵³ or
    more is not held exactly, and values near the largest double would overflow: both go through `add_on_grid`.
    """
    limit = ldexp(DOUBLE_MAX, -abs(exponent))
    hard = (np.abs(values) >= limit) | (np.abs(noise) >= 1 << 53)
    scaled = np.ldexp(np.where(hard, 0.0, values), -exponent)
    steps = np.floor(scaled)
    steps += scaled - steps >= 0.5
    result: Reals = np.ldexp(steps + noise, exponent)
    for i in hard.nonzero()[0]:
        result[i] = add_on_grid(float(values[i]), int(noise[i]), exponent)
    return result


# The grid, and scales that are large enough for it

LOG2_STEPS_PER_SCALE = 20  # a scale is at least a million grid steps, so rounding hardly adds to the sensitivity

Norm: TypeAlias = Callable[[Sensitivity], Fraction]
L1: Norm = attrgetter("l1")
L2: Norm = attrgetter("l2")


@lru_cache(maxsize=256)
def default_grid(scale: Fraction) -> Fraction:
    """Return the largest power of two that is at most scale/2²⁰. It depends on the scale alone, never on the values."""
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    if Fraction(2) ** exponent > scale:
        exponent -= 1
    if abs(exponent) > 900:
        raise BadParameter("scale", format_rational(scale), "no double lies on its grid", "change the unit of the values")
    if exponent == LOG2_STEPS_PER_SCALE:
        exponent -= 1  # 1 is the grid of integers: an event on it would not account for rounding
    return Fraction(2) ** (exponent - LOG2_STEPS_PER_SCALE)


@lru_cache(maxsize=256)
def _scale_in_steps(scale: Fraction, grid: Fraction | None) -> tuple[Fraction, int]:
    """Return the scale in grid steps, and the grid's binary exponent."""
    step = default_grid(scale) if grid is None else check_grid(grid)
    if step == 1:
        raise BadParameter(
            "grid",
            1,
            "that is the grid of integers; reals need another power of two",
            "take 2^k, or round the values to integers and state the sensitivity of the rounded ones",
        )
    return scale / step, step.numerator.bit_length() - step.denominator.bit_length()


def fit_scale_to_grid(sensitivity: Sensitivity, norm: Norm, ratio: Fraction) -> Fraction:
    """Return norm × ratio, the norm being that of the reals rounded to the default grid of the scale itself.

    A finer grid never needs a larger scale, so the first grid that is coarse enough for its own scale will do.
    """
    grid = default_grid(norm(sensitivity) * ratio)
    for _ in range(64):
        scale = norm(sensitivity.to_grid(grid)) * grid * ratio
        if default_grid(scale) <= grid:
            return scale
        grid *= 2
    raise BadParameter(
        "sensitivity",
        format_rational(norm(sensitivity)),
        "too small beside the number of coordinates that change",
        "give a grid instead",
    )


# The error of the largest of several draws

SAFETY_FACTOR = 1 + 1e-9

MIN_WIDTH = 1e-300
"""A width below which no error of a whole step is likely at any confidence."""

MAX_ERROR = 1 << 1000
"""Errors past this are beyond the doubles, or nearly so: they are reported as infinite."""


def max_error(tail: Callable[[int], float], confidence: Number, size: int, grid: Fraction = Fraction(1)) -> float:
    """Return the least t, a multiple of the grid, with P(all of `size` independent errors ≤ t) ≥ confidence.

    `tail(t)` is P(|noise| > t) for an integer t, in grid steps; it falls to 0. On a grid of reals the rounding of the value
    itself adds half a step. The result is infinite where it is past `MAX_ERROR`.
    """
    allowed = tail_per_error(confidence, size)
    high = 1
    while tail(high) * SAFETY_FACTOR > allowed:
        high *= 2
        if high > MAX_ERROR:
            return inf
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) * SAFETY_FACTOR <= allowed else (middle, high)
    return ceil_float(Fraction(high) if grid == 1 else (high + Fraction(1, 2)) * grid)


def tail_per_error(confidence: Number, size: int) -> float:
    """Return how often one error may be too large if all of `size` hold: (1 − tail)^size ≥ c is tail ≤ 1 − c^{1/size}."""
    exact = read_decimal(confidence, "confidence")
    failure = float(1 - exact) if 0 < exact < 1 else 0.0
    if failure == 0:
        raise BadParameter("confidence", format_rational(exact), "must lie strictly between 0 and 1", "give 0.95, say")
    logarithm = log1p(-failure) if failure < 0.5 else log(ceil_float(exact))  # each is the accurate one there
    return -expm1(logarithm / check_int(size, "size", 1)) / SAFETY_FACTOR


def max_error_by_table(weights_at: WeightFunction, confidence: Number, size: int, grid: Fraction = Fraction(1)) -> float:
    """Do as `max_error` for a tabulated distribution, with enough bits that what the table omits is far below the tail."""
    bits = 64 + ceil(-log2(tail_per_error(confidence, size)))
    return max_error(tail_from_weights(weights_at(bits)), confidence, size, grid)


def tail_from_weights(weights: Weights) -> Callable[[int], float]:
    """Return t ↦ P(|X| > t) of a tabulated distribution, rounded up by all that the table may have lost."""
    beyond = [*accumulate(reversed(weights.values[1:]), initial=0)][::-1]
    slack, total = len(beyond) * weights.error, sum(weights.values)
    return lambda t: ceil_float(Fraction((beyond[t] if t < len(beyond) else 0) + slack, total))
