"""Exact random variates at array speed. Knows nothing of privacy."""

from discreet.noise.bits import SYSTEM, Bits
from discreet.noise.fair_coins import binomial
from discreet.noise.gaussian import rounded_gaussian
from discreet.noise.laplace import discrete_laplace, geometric
from discreet.noise.lattice_gaussian import discrete_gaussian
from discreet.noise.race import Race, select
from discreet.noise.uniform import below, bernoulli, bernoulli_exp

__all__ = [
    "SYSTEM",
    "Bits",
    "Race",
    "below",
    "bernoulli",
    "bernoulli_exp",
    "binomial",
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "rounded_gaussian",
    "select",
]
