"""Estimates that look like counts: none negative, adding up to the number of people. Post-processing, without intervals.

Unbiased estimates are negative where few people have a value, and that is right: their mean is the truth. Making them
consistent moves small ones up and large ones down, so it stands in a second column, beside the estimates and never instead
of them [WLL20].

Norm-Sub subtracts one number from all estimates and sets negative ones to 0, the number chosen so that they add up to n.
That is the Euclidean projection onto the simplex {x ≥ 0, Σx = n}. **Proof**: the projection minimises Σ(x_v − y_v)²/2; with
a multiplier δ for the sum and λ_v ≥ 0 for the signs, x_v = y_v − δ + λ_v, where λ_v = 0 if x_v > 0. So x_v = max(0, y_v −
δ).
"""

from collections.abc import Sequence
from fractions import Fraction

from discreet._numbers import Number, to_rational
from discreet.errors import BadParameter


def norm_sub(estimates: Sequence[Number], n: Number) -> list[Fraction]:
    """Return the closest numbers that are not negative and add up to n, exactly.

    >>> [str(x) for x in norm_sub([7, 4, -2], 10)]
    ['13/2', '7/2', '0']
    """
    exact, total = [to_rational(each, "estimates") for each in estimates], to_rational(n, "n")
    if total < 0 or not exact:
        raise BadParameter("n", total, "estimates that are not negative cannot add up to this", "give the number of reports")
    shift = _find_shift(exact, total)
    return [max(Fraction(0), each - shift) for each in exact]


def _find_shift(estimates: Sequence[Fraction], total: Fraction) -> Fraction:
    """The δ with Σ max(0, y − δ) = total: the sum falls in δ, and is linear between two estimates."""
    running, shift = Fraction(0), Fraction(0)
    for place, largest in enumerate(sorted(estimates, reverse=True), 1):
        running += largest
        if place > 1 and running - largest * place >= total:  # at this δ the larger ones reach the total alone
            break
        shift = (running - total) / place
    return shift
