"""The figures of the five textbooks, and one of training, computed with discreet's own functions.

To add a figure, define a `Figure` in the file of its subject and list it here.
"""

from collections.abc import Mapping
from types import MappingProxyType

from discreet.lab.figures.composition import AVERAGING, CELLS, COMPOSITION_100, COMPOSITION_10000
from discreet.lab.figures.figure import Figure, Numbers
from discreet.lab.figures.noise import (
    BAD_SET,
    COIN_HISTOGRAM,
    COIN_SD,
    EXP_BOUNDS,
    GROWTH,
    INDISTINGUISHABLE,
    LAPLACE_DENSITIES,
    LAPLACE_GAUSSIAN,
)
from discreet.lab.figures.notions import K_ANONYMITY, NOISE_L1, NOISE_L2, ORDERS, VARIANTS
from discreet.lab.figures.training import TRAINING

_ALL = (
    LAPLACE_GAUSSIAN, COMPOSITION_100, COMPOSITION_10000, AVERAGING, NOISE_L1, NOISE_L2, VARIANTS, INDISTINGUISHABLE,
    LAPLACE_DENSITIES, COIN_SD, COIN_HISTOGRAM, EXP_BOUNDS, K_ANONYMITY, ORDERS, GROWTH, BAD_SET, CELLS,
    TRAINING,
)  # fmt: skip

FIGURES: Mapping[str, Figure] = MappingProxyType({figure.name: figure for figure in _ALL})
"""By name, in the order of the textbooks."""

__all__ = ["FIGURES", "Figure", "Numbers"]
