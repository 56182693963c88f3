"""From an error that is allowed to the price that buys it, and from what is typed about either to exact numbers."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, inf, isfinite, log

from discreet.errors import BadParameter, QueryRefused
from discreet.exact import Number, check_positive, parse_rational, read_positive

MAX_EPSILON = 1 << 10
"""A search for accuracy gives up above this ε: it promises next to nothing."""


def read_error(error: str | Number) -> tuple[Fraction, bool]:
    """An allowed error, and whether it is relative.

    >>> read_error("5%"), read_error(20), read_error("±0.5")
    ((Fraction(1, 20), True), (Fraction(20, 1), False), (Fraction(1, 2), False))
    """
    if not isinstance(error, str):
        return read_positive(error, "error"), False
    text = error.strip().removeprefix("±").strip()
    try:
        found = parse_rational(text.removesuffix("%").strip())
    except BadParameter:
        raise BadParameter("error", repr(error), "not an error", 'write "5%" or a number') from None
    return check_positive(found / 100 if text.endswith("%") else found, "error"), text.endswith("%")


def read_weights(weights: Mapping[str, Number] | None, columns: tuple[str, ...]) -> dict[str, Fraction] | None:
    """How the price is shared out over the columns; one that is not named weighs 1.

    >>> read_weights({"n": 2}, ("n", "mean"))
    {'n': Fraction(2, 1), 'mean': Fraction(1, 1)}
    """
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise BadParameter("weights", type(weights).__name__, "not weights by column", 'give {"n": 2}')
    for name in weights:
        if name not in columns:
            raise BadParameter("weights", repr(name), "no such column in this question", f"name {', '.join(columns)}")
    return {name: read_positive(weights.get(name, 1), "weight") for name in columns}


def find_smallest_epsilon(error_ratio: Callable[[Fraction], Fraction | float]) -> Fraction:
    """The least ε of three digits whose `excess`, the ratio of the error to the allowed one, is at most 1.

    The excess never grows with ε, so its side of 1 alone decides. Its size only says where to look next: it is about a power
    of ε, the first guess being 1/ε. Outside a bracket, steps grow fourfold; inside one, a guess that does not halve it is
    followed by its middle.

    >>> looks = []
    >>> find_smallest_epsilon(lambda epsilon: looks.append(epsilon) or Fraction(1, 300) / epsilon), len(looks)
    (Fraction(167, 50000), 4)
    """
    low, high = FIRST_PLACE - 1, LAST_PLACE + 1
    at, stride, slope, width = _place_of(0.0), 1, -1.0, high - low
    seen: tuple[float, float] | None = None
    while high - low > 1:
        ratio = error_ratio(_decimal_at(at))
        here = log(_decimal_at(at)), log(ratio) if 0 < ratio < inf else inf
        low, high = (low, at) if ratio <= 1 else (at, high)
        if seen is not None and isfinite(here[1]) and isfinite(seen[1]) and here[1] != seen[1]:
            slope = (here[1] - seen[1]) / (here[0] - seen[0])
        seen = here
        aim = _place_of(here[0] - here[1] / slope) if isfinite(here[1]) and slope < 0 else at
        if low < FIRST_PLACE or high > LAST_PLACE:
            aim, stride = (min(aim, at - stride) if ratio <= 1 else max(aim, at + stride)), 4 * stride
        elif 2 * (high - low) > width:
            aim = (low + high) // 2
        width = high - low
        at = min(max(aim, low + 1), high - 1)
    if high > LAST_PLACE:
        raise QueryRefused(f"no ε up to {MAX_EPSILON} is accurate enough", "allow a larger error, or declare tighter bounds")
    return _decimal_at(high)


FIRST_PLACE, LAST_PLACE = (
    -9 * 900,
    3 * 900 + 2,
)  # 1.00e-9, the least ε that a search proposes, and 1.02e3, the last below MAX_EPSILON
"""Decimals of three digits in order: 900 to a power of ten, 1.00 at 0."""


def _decimal_at(place: int) -> Fraction:
    power, digits = divmod(place, 900)
    return (100 + digits) * Fraction(10) ** (power - 2)


def _place_of(logarithm: float) -> int:
    """Where the first decimal of three digits that is not below e^logarithm stands, within the range of a search."""
    power, rest = divmod(min(max(logarithm / log(10), -9), 4), 1)
    return min(max(900 * int(power) + ceil(100 * 10**rest - 1e-9) - 100, FIRST_PLACE), LAST_PLACE)
