"""From a norm of the sensitivity to a noise scale, the rounding of reals to the grid included."""

from collections.abc import Callable
from fractions import Fraction

from discreet.errors import BadParameter
from discreet.exact import Number, format_rational
from discreet.mechanisms.values import default_grid
from discreet.units import Sensitivity, to_sensitivity


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
