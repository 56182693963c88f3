"""From an error that is allowed to the price that buys it, and from what is typed about either to exact numbers."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import Number, from_text, positive, read_positive
from discreet.ledger.memory import rounded_down, step_of

MOST_EPSILON = 1 << 10
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
        found = from_text(text.removesuffix("%").strip())
    except BadParameter:
        raise BadParameter("error", repr(error), "not an error", 'write "5%" or a number') from None
    return positive(found / 100 if text.endswith("%") else found, "error"), text.endswith("%")


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


def least_epsilon(good: Callable[[Fraction], bool]) -> Fraction:
    """The least ε that is good, to three digits; goodness only grows with ε."""
    low, high = Fraction(0), Fraction(1)
    while not good(high):
        low, high = high, 2 * high
        if high > MOST_EPSILON:
            raise QuestionRefused(
                f"no ε up to {MOST_EPSILON} is accurate enough", "allow a larger error, or declare tighter bounds"
            )
    if low == 0:
        while high > Fraction(1, 10**9) and good(high / 2):
            high /= 2
        low = high / 2
    while high - low > high / 2000:
        middle = (low + high) / 2
        low, high = (low, middle) if good(middle) else (middle, high)
    down = rounded_down(high, 3)
    return down if good(down) else down + step_of(down, 3)
