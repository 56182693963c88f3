"""Exact rationals until a person reads them; then a double or a decimal, rounded in a stated direction.

Parameters may be an int, a Fraction, a Decimal or a float. What a float means depends on the parameter:
- an ε, a δ, a budget, a cost, an allowed error, a confidence or a weight is what a person wrote, so it is read at its
  shortest decimal: `0.1` is 1/10 (`read_decimal`). This defines the request, so no soundness is lost: the noise and its
  cost are computed from the same rational, and ten times 0.1 is exactly 1;
- a value, a scale, a sensitivity, or a bound that was computed and rounded in a stated direction is taken exactly:
  `0.1` is 3602879701896397/2⁵⁵ (`to_rational`), because its decimal may lie on the wrong side of it.

Scalars of NumPy, pandas, Polars and PyTorch and arrays without dimensions stand for the Python number that they hold
(`unwrap_scalar`). No such library is imported here: what counts is that they have a `shape` of () and an `item()`.

The functions stand in this order: reading and checking, rounding and formatting, certified `Bounds`, and the search for the
smallest number that meets a condition.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from math import inf, isfinite, isinf, isqrt, nextafter, sqrt
from numbers import Integral, Real
from typing import Any, TypeAlias

from discreet.errors import BadParameter

Number: TypeAlias = int | float | Fraction | Decimal

MAX_DECIMAL_EXPONENT = 350
"""A decimal beyond 1e±350, further than any double, is refused: 1e999999999 would be written out with that many digits."""


NUMERIC_KINDS = "iufO"
"""Kinds of NumPy's dtypes that may hold numbers: signed, unsigned, floats, Python objects. Not bool, complex, text, time."""


def unwrap_scalar(value: Any, name: str = "value") -> Any:
    """Return the Python number that a scalar or an array without dimensions holds; leave everything else as it is.

    `item()` is exact: it returns an int, or the double that has the same value as a shorter float.

    >>> import numpy as np
    >>> unwrap_scalar(np.int64(3)), unwrap_scalar(np.array(0.5)), unwrap_scalar(7)
    (3, 0.5, 7)
    """
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not callable(getattr(value, "item", None)):
        return value
    if shape:
        raise BadParameter(name, f"an array of shape {tuple(shape)}", "not one number", "give a single number")
    kind = getattr(getattr(value, "dtype", None), "kind", "O")
    if kind not in NUMERIC_KINDS:  # a NumPy duration calls itself an integer, and item() returns one
        raise BadParameter(
            name, f"of type {type(value).__name__}", "not a number", "give an int, Fraction, Decimal or float"
        )
    return value.item()


def to_rational(value: Number, name: str = "value") -> Fraction:
    """Return the exact rational that `value` stands for.

    >>> to_rational(0.5), to_rational(Decimal("0.1"))
    (Fraction(1, 2), Fraction(1, 10))
    """
    if isinstance(value, Fraction):
        return value
    value = unwrap_scalar(value, name)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise BadParameter(
            name, f"of type {type(value).__name__}", "not a number", "give an int, Fraction, Decimal or float"
        )
    if isinstance(value, Decimal) and value.is_finite() and value != 0 and abs(value.adjusted()) > MAX_DECIMAL_EXPONENT:
        raise BadParameter(name, value, f"beyond 1e±{MAX_DECIMAL_EXPONENT}", "give a number of a size that noise can have")
    try:
        if isinstance(value, Integral | Decimal):
            return Fraction(value if isinstance(value, Decimal) else int(value))  # NumPy's integers are not Python's
        exact = Fraction(float(value))
    except (ValueError, OverflowError):
        raise BadParameter(name, value, "not a finite number", "give a finite one") from None
    if exact != value:
        raise BadParameter(name, value, "finer than a double", "give a Fraction instead")
    return exact


def is_infinite(value: Any) -> bool:
    """Say whether a number is the double ∞, which no rational is; what is no double is left to the checks that follow."""
    return isinstance(value, float) and value == inf


def add_up(values: Iterable[Fraction | float]) -> Fraction | float:
    """Add costs exactly; ∞ if one of them is. `sum` overflows where a rational above the largest double meets ∞.

    >>> add_up([Fraction(10) ** 400, inf]), add_up([])
    (inf, Fraction(0, 1))
    """
    total = Fraction(0)
    for value in values:
        if is_infinite(value):
            return inf
        total += to_rational(value)
    return total


def parse_rational(text: str, name: str = "value") -> Fraction:
    """Read a text as a decimal, or as one decimal divided by another, exactly.

    >>> parse_rational("1e-2"), parse_rational("1/3")
    (Fraction(1, 100), Fraction(1, 3))
    """
    if len(text) > 4 * MAX_DECIMAL_EXPONENT:
        raise BadParameter(name, f"{text[:16]!r}…", "too long for a number", "write a decimal such as 0.5 or 1e-6")
    top, slash, bottom = text.partition("/")
    try:
        return to_rational(Decimal(top), name) / to_rational(Decimal(bottom if slash else 1), name)
    except (InvalidOperation, ZeroDivisionError):
        raise BadParameter(name, repr(text), "not a number", "write a decimal such as 0.5 or 1e-6") from None


def read_decimal(value: Number, name: str = "value") -> Fraction:
    """Read a number as a person wrote it: a float at the shortest decimal that rounds to it.

    >>> read_decimal(0.1), read_decimal(1e-6), to_rational(0.1) == read_decimal(0.1)
    (Fraction(1, 10), Fraction(1, 1000000), False)
    """
    if type(value) is int or isinstance(value, Fraction):
        return Fraction(value)
    number = unwrap_scalar(value, name)
    exact = to_rational(number, name)
    return Fraction(repr(float(number))) if isinstance(number, float) else exact


def read_positive(value: Number, name: str) -> Fraction:
    """Read a number as `read_decimal` does; refuse it unless it is above zero."""
    return check_positive(read_decimal(value, name), name)


def read_probability(value: Number, name: str) -> Fraction:
    """Read a number as `read_decimal` does; refuse it unless it lies strictly between 0 and 1."""
    return check_probability(read_decimal(value, name), name)


def check_positive(value: Number, name: str) -> Fraction:
    """Return `value` as a rational; refuse it unless it is above zero."""
    exact = to_rational(value, name)
    if exact.numerator <= 0:
        raise BadParameter(name, format_decimal(exact), "must be positive", "give one above 0")
    return exact


def check_probability(value: Number, name: str) -> Fraction:
    """Return `value` as a rational; refuse it unless it lies strictly between 0 and 1."""
    exact = to_rational(value, name)
    if not 0 < exact < 1:
        example = "one far below one in the number of people, for example 1e-6" if name == "delta" else "for example 0.5"
        raise BadParameter(name, format_decimal(exact), "must lie strictly between 0 and 1", f"give {example}")
    return exact


def check_int(value: int, name: str, minimum: int = 0) -> int:
    """Return `value` as an int of at least `minimum`; refuse bools and floats."""
    whole = unwrap_scalar(value, name)
    if isinstance(whole, bool) or not hasattr(whole, "__index__"):
        raise BadParameter(name, f"of type {type(whole).__name__}", "not an integer", "give an int")
    number: int = whole.__index__()
    if number < minimum:
        raise BadParameter(name, format_rational(Fraction(number)), f"must be at least {minimum}", "give a larger one")
    return number


MIN_CONFIDENCE, MAX_CONFIDENCE = Fraction(1, 10**6), 1 - Fraction(1, 10**12)
"""The confidences that a query may ask for: divided over 10^9 intervals, the probability of a miss is still an ordinary
double, so no computation with it can fail after the query was charged."""


def check_confidence(confidence: Number) -> float:
    """Check the confidence of a query; return the least double whose shortest decimal is not below it.

    >>> check_confidence(Fraction(3, 4)), check_confidence(Fraction(19, 20))
    (0.75, 0.95)
    >>> check_confidence(1)
    Traceback (most recent call last):
    discreet.errors.BadParameter: confidence is 1: must lie between 1e-6 and 1 - 1e-12. Give one that does, for example 0.95.
    """
    number = unwrap_scalar(confidence, "confidence")
    if isinstance(number, float) and 0.001 <= number <= 0.999:  # so is its shortest decimal, well within the limits
        return float(number)
    exact = read_decimal(number, "confidence")
    if not MIN_CONFIDENCE <= exact <= MAX_CONFIDENCE:
        raise BadParameter(
            "confidence",
            f"{nearest_float(exact):.12g}",
            "must lie between 1e-6 and 1 - 1e-12",
            "give one that does, for example 0.95",
        )
    return float(number) if isinstance(number, float) else decimal_up(exact)


def format_rational(exact: Fraction) -> str:
    """Format a rational for a message: as it is while that is short, else as the nearest double."""
    short = max(exact.numerator.bit_length(), exact.denominator.bit_length()) < 64  # Python writes out no 5000 digits
    text = str(exact) if short else ""
    return text if 0 < len(text) <= 16 else repr(nearest_float(exact))


def format_decimal(exact: Fraction) -> str:
    """Format a rational as a person writes it: as a short decimal if it is one, else as `format_rational` does.

    >>> format_decimal(Fraction("2.56")), format_decimal(Fraction(1, 3)), format_decimal(Fraction(1, 10**6))
    ('2.56', '1/3', '1e-6')
    """
    rounded = _format_digits(exact, 12, ROUND_FLOOR)
    is_fraction = max(exact.numerator.bit_length(), exact.denominator.bit_length()) < 64 and exact.denominator > 1
    return rounded if is_fraction and Fraction(rounded.replace(",", "")) == exact else format_rational(exact)


def nearest_float(exact: Fraction) -> float:
    """Return the nearest double; ±∞ past the largest one."""
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def ceil_float(exact: Fraction | float) -> float:
    """Return the smallest double that is not below `exact`.

    >>> ceil_float(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    if isinstance(exact, float):
        return exact
    nearest = nearest_float(exact)
    if isinf(nearest):
        return inf if nearest > 0 else -nextafter(inf, 0)
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)


def floor_float(exact: Fraction | float) -> float:
    """Return the largest double that is not above `exact`."""
    return -ceil_float(-exact) + 0.0  # no zero with a sign


def decimal_up(exact: Fraction | float) -> float:
    """Return the least double whose shortest decimal, which JSON shows, is not below a rational; leave a double as it is.

    >>> decimal_up(Fraction(3, 10)), decimal_up(Fraction(2, 3)), ceil_float(Fraction(3, 10))
    (0.3, 0.6666666666666667, 0.30000000000000004)
    """
    if isinstance(exact, float):
        return exact
    nearest = nearest_float(exact)
    if isinf(nearest):
        return ceil_float(exact)
    return nearest if Fraction(repr(nearest)) >= exact else nextafter(nearest, inf)


def decimal_down(exact: Fraction | float) -> float:
    """Return the largest double whose shortest decimal is not above a rational; leave a double as it is."""
    return -decimal_up(-exact) + 0.0


def format_up(exact: Fraction | float, digits: int = 4) -> str:
    """Format a number for "at most": so many leading digits, rounded up.

    >>> format_up(0.13261), format_up(Fraction(1, 10)), format_up(Fraction(2, 3), 3), format_up(1.9e-5, 1)
    ('0.1327', '0.1', '0.667', '2e-5')
    >>> format_up(1000, 3), format_up(1234.01), format_up(123456, 3), format_up(2166012)
    ('1,000', '1,235', '124,000', '2.167e6')
    """
    return _format_digits(exact, digits, ROUND_CEILING)


def format_down(exact: Fraction | float, digits: int = 4) -> str:
    """Format a number for "at least": so many leading digits, rounded down.

    >>> format_down(Fraction(2, 3)), format_down(1), format_down(0.0)
    ('0.6666', '1', '0')
    """
    return _format_digits(exact, digits, ROUND_FLOOR)


def ceil_digits(exact: Fraction | float, digits: int) -> Fraction:
    """Return the number that `format_up` shows of a finite one.

    >>> ceil_digits(1234.01, 4), ceil_digits(Fraction(2, 3), 2)
    (Fraction(1235, 1), Fraction(67, 100))
    """
    return Fraction(_round_digits(exact, digits, ROUND_CEILING))


def floor_digits(exact: Fraction | float, digits: int) -> Fraction:
    """Return the number that `format_down` shows of a finite one.

    >>> floor_digits(1234.01, 3), floor_digits(Fraction(2, 3), 2)
    (Fraction(1230, 1), Fraction(33, 50))
    """
    return Fraction(_round_digits(exact, digits, ROUND_FLOOR))


def _format_digits(exact: Fraction | float, digits: int, rounding: str) -> str:
    near = nearest_float(exact) if isinstance(exact, Fraction) else float(exact)
    if not isfinite(near):
        return str(near)
    rounded = _round_digits(exact, digits, rounding)
    if 1000 <= abs(rounded) < 10**6:
        return f"{rounded.normalize():,f}"
    return f"{float(rounded):.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _round_digits(exact: Fraction | float, digits: int, rounding: str) -> Decimal:
    """Round to so many digits. A double means its shortest decimal, so that 0.1 is shown as 0.1 and not as 0.1001."""
    near = nearest_float(exact) if isinstance(exact, Fraction) else float(exact)
    top, bottom = (Decimal(repr(near)), 1) if near == exact else Fraction(exact).as_integer_ratio()
    return Context(prec=digits, rounding=rounding).divide(Decimal(top), Decimal(bottom))


def sqrt_up(exact: Fraction, bits: int = 96) -> Fraction:
    """Return a rational at or just above √exact: relative excess below 2^-bits; exact for squares of rationals.

    >>> sqrt_up(Fraction(9, 4)), sqrt_up(Fraction(2)) ** 2 >= 2
    (Fraction(3, 2), True)
    """
    top, bottom = exact.numerator, exact.denominator
    if isqrt(top) ** 2 == top and isqrt(bottom) ** 2 == bottom:
        return Fraction(isqrt(top), isqrt(bottom))
    # √(top/bottom) = √(top·bottom)/bottom; shifting first keeps `bits` bits of it.
    return Fraction(isqrt((top * bottom) << (2 * bits)) + 1, bottom << bits)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A proven interval around an exact value that has no finite decimal. `float()` is its upper end.

    >>> bounds = Bounds(0.25, 0.5)
    >>> float(bounds), 0.3 in bounds
    (0.5, True)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise BadParameter("bounds", f"[{self.lower}, {self.upper}]", "lower exceeds upper", "swap the ends")

    def __float__(self) -> float:
        return self.upper

    def __contains__(self, value: float | Fraction) -> bool:
        return self.lower <= value <= self.upper

    @property
    def width(self) -> float:
        """Upper less lower; 0 for a point, also at infinity."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower if isfinite(self.lower) else inf


SMALLEST, LARGEST = 1e-300, 1e300


def smallest_where(
    holds: Callable[[float], bool], start: float = 1.0, tolerance: float = 2.0**-50, guess: float | None = None
) -> float:
    """Find a positive number where `holds` is true, at most about `tolerance` (relative) above the least; ∞ if none is.

    `holds` must stay true once it is true. The result is a number that was tried, so a condition that bounds something from
    above is certainly met there, whatever the search missed. `guess` is a guess at the result: a good one saves most of the
    evaluations, and no guess changes the result.

    >>> smallest_where(lambda x: x * x >= 2)
    1.4142135623730958
    """
    if guess is not None and 0 < guess < inf:
        holds = _narrow_to_bracket(holds, guess, tolerance / 4)
    low = high = start
    step = 2.0
    if holds(start):
        while low > SMALLEST and holds(low := low / step):
            high, step = low, step * step if step < 1e8 else step
        if low <= SMALLEST:
            return high
    else:
        while high < LARGEST and not holds(high := high * step):
            low, step = high, step * step if step < 1e8 else step
        if not holds(high):
            return inf
    while high > low * (1 + tolerance):
        middle = sqrt(low) * sqrt(high) if high > 2 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _narrow_to_bracket(holds: Callable[[float], bool], guess: float, width: float) -> Callable[[float], bool]:
    """Return the same condition, decided outside a bracket around `guess` by its values at the ends."""
    low, high = 0.0, inf

    def known(x: float) -> bool:
        nonlocal low, high
        if low < x < high:
            low, high = (low, x) if holds(x) else (x, high)
        return x >= high

    for _ in range(3):
        known(guess * (1 - width))
        known(guess * (1 + width))
        if low > 0 and high < inf:
            break
        width *= 64
    return known


def largest_where(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """Find a positive number where `holds` is true, just below the largest; 0 if none is."""
    inverse = smallest_where(lambda x: holds(1 / x), 1 / start)
    return 0.0 if inverse == inf else 1 / inverse


def invert_falling(
    bounds: Callable[[float], tuple[float, float]], level: float, guess: float, margin: float, tries: int = 60
) -> tuple[float, float]:
    """Bracket the x ≥ 0 at which a falling function, known between two bounds, meets a level.

    Both ends were tried: the upper bound is at most `level` at the right end, the lower bound above it at the left one.
    Where no such end is found in `tries` doublings of the step, which begins at `margin` times the guess, it is ∞ or 0.

    >>> invert_falling(lambda x: (1 / (1 + x), 1 / (1 + x)), 0.5, 0.9, 0.05)
    (0.855, 1.0350000000000001)
    """
    right, step = guess, max(guess, 1e-9) * margin
    for _ in range(tries):
        right += step
        if bounds(right)[1] <= level:
            break
        step *= 2
    else:
        right = inf
    left, step = guess, max(guess, 1e-9) * margin
    for _ in range(tries):
        left -= step
        if left <= 0 or bounds(left)[0] > level:
            break
        step *= 2
    else:
        left = 0.0
    return max(0.0, left), 0.0 if bounds(0.0)[1] <= level else right
